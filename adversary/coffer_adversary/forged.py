"""Parquet files that a host can make itself: plain ones, and ones sealed under keys of its own.
Each of a wanted size, or None where one row takes more."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from coffer.pme import crypto_factory
from coffer_testing.parquet_layout import TAIL


@lru_cache(maxsize=64)
def plain(source: Path, size: int) -> bytes | None:
    """Rows of the table as an ordinary Parquet file of just that size."""
    return _of_size(source, size, {})


def plain_with_sealed_magic(source: Path, size: int) -> bytes | None:
    """The same, said to be encrypted by its first and last bytes."""
    content = plain(source, size)
    return content and b"PARE" + content[4:-4] + b"PARE"


@lru_cache(maxsize=64)
def foreign(source: Path, size: int) -> bytes | None:
    """Rows of the table, encrypted in the standard's way under keys that the host drew."""
    keks = {"footer": os.urandom(16), "columns": os.urandom(16)}
    columns = pq.read_schema(source).names
    config = pe.EncryptionConfiguration(
        footer_key="footer",
        column_keys={"columns": columns},
        double_wrapping=False,
        data_key_length_bits=256,
    )
    factory = crypto_factory(keks)
    # Properties are for one file each.
    return _of_size(
        source,
        size,
        {"encryption_properties": lambda: factory.file_encryption_properties(_KMS, config)},
    )


_KMS = pe.KmsConnectionConfig()


def _of_size(source: Path, size: int, options: dict[str, Callable[[], object]]) -> bytes | None:
    """As many rows as fit, and zeros before the footer: nothing in a file says how far its footer
    is from its pages."""
    rows = pq.read_table(source)
    content = _written(rows, options)
    while len(content) > size and rows.num_rows > 1:
        rows = rows.slice(0, rows.num_rows * 2 // 3)
        content = _written(rows, options)
    if len(content) > size:
        return None
    footer = len(content) - TAIL - int.from_bytes(content[-TAIL:-4], "little")
    return content[:footer] + bytes(size - len(content)) + content[footer:]


def _written(rows: pa.Table, options: dict[str, Callable[[], object]]) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "forged.parquet"
        with pq.ParquetWriter(
            path,
            rows.schema,
            store_schema=False,
            **{name: make() for name, make in options.items()},
        ) as writer:
            writer.write_table(rows)
        return path.read_bytes()
