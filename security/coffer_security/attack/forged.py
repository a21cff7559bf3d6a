"""Parquet files that a host can make itself: plain ones, and ones sealed under keys of its own. Each of a wanted size."""

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


@lru_cache(maxsize=64)
def plain(source: Path, size: int) -> bytes:
    """Rows of the table as an ordinary Parquet file, of just that size where rows and padding allow it."""
    return _of_size(source, size, {})


def plain_with_sealed_magic(source: Path, size: int) -> bytes:
    """The same, said to be encrypted by its first and last bytes."""
    content = plain(source, size)
    return b"PARE" + content[4:-4] + b"PARE"


@lru_cache(maxsize=64)
def foreign(source: Path, size: int) -> bytes:
    """Rows of the table, encrypted in the standard's way under keys that the host drew."""
    keks = {"footer": os.urandom(16), "columns": os.urandom(16)}
    columns = pq.read_schema(source).names
    config = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"columns": columns}, double_wrapping=False, data_key_length_bits=256
    )
    factory = crypto_factory(keks)
    # Properties are for one file each.
    return _of_size(source, size, {"encryption_properties": lambda: factory.file_encryption_properties(_KMS, config)})


_KMS = pe.KmsConnectionConfig()


def _of_size(source: Path, size: int, options: dict[str, Callable[[], object]]) -> bytes:
    rows = pq.read_table(source)
    content = _written(rows, 0, options)
    while len(content) > size and rows.num_rows > 1:
        rows = rows.slice(0, rows.num_rows * 2 // 3)
        content = _written(rows, 0, options)
    padding = 0
    for _ in range(8):
        if len(content) == size:
            break
        padding = max(0, padding + size - len(content))
        content = _written(rows, padding, options)
    return content


def _written(rows: pa.Table, padding: int, options: dict[str, Callable[[], object]]) -> bytes:
    rows = rows.replace_schema_metadata({"padding": "x" * padding} if padding else None)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "forged.parquet"
        with pq.ParquetWriter(
            path, rows.schema, store_schema=False, **{name: make() for name, make in options.items()}
        ) as writer:
            writer.write_table(rows)
        return path.read_bytes()
