"""Where the parts of a sealed Parquet file lie, found with the owner's keys: the harness aims better than a host could."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from coffer.pme import crypto_factory

_TAIL = 8  # the footer's length and the magic


@dataclass(frozen=True)
class Chunk:
    """A column's pages in one row group: the bytes [start, end)."""

    row_group: int
    column: str
    start: int
    end: int


@dataclass(frozen=True)
class Layout:
    """A file's parts, in its order: chunks, page index, footer, tail."""

    size: int
    chunks: tuple[Chunk, ...]
    footer: range

    @property
    def page_index(self) -> range:
        """Between the last page and the footer."""
        return range(max(chunk.end for chunk in self.chunks), self.footer.start)

    @property
    def tail(self) -> range:
        return range(self.footer.stop, self.size)


def layout(path: Path, keks: Mapping[str, bytes]) -> Layout:
    """Of a file whose KEKs are all here."""
    properties = crypto_factory(keks).file_decryption_properties(pe.KmsConnectionConfig(), pe.DecryptionConfiguration())
    metadata = pq.ParquetFile(path, decryption_properties=properties, pre_buffer=False).metadata
    chunks = []
    for group in range(metadata.num_row_groups):
        for at in range(metadata.num_columns):
            column = metadata.row_group(group).column(at)
            start = column.data_page_offset
            if column.has_dictionary_page and column.dictionary_page_offset:
                start = min(start, column.dictionary_page_offset)
            chunks.append(Chunk(group, column.path_in_schema, start, start + column.total_compressed_size))
    content = path.read_bytes()
    end = len(content) - _TAIL
    start = end - int.from_bytes(content[end : end + 4], "little")
    return Layout(len(content), tuple(chunks), range(start, end))
