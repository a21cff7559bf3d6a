"""Where the parts of a sealed Parquet file lie, found with the owner's keys: the harness aims
better than a host could."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from coffer.pme import crypto_factory

TAIL = 8  # the footer's length and the magic


@dataclass(frozen=True)
class Chunk:
    """A column's pages in one row group: the bytes [start, end). `column` is its name in the file;
    `logical` the column of the table that it holds, under the protection `encoding`."""

    row_group: int
    column: str
    start: int
    end: int
    logical: str = ""
    encoding: str = field(default="tee", compare=False)

    @property
    def clear(self) -> bool:
        """Whether its pages are not encrypted as such: they hold ciphertexts, or numbers of
        rows."""
        return self.encoding != "tee"


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


def pages(content: bytes, chunk: Chunk) -> list[range]:
    """Where the pages of an encrypted chunk lie in its file's `content`: each is two modules,
    header and page, of which only the lengths stand in the clear. None, if the bytes are no such
    modules."""
    modules = []
    at = chunk.start
    while at < chunk.end:
        end = at + 4 + int.from_bytes(content[at : at + 4], "little")
        modules.append(range(at, end))
        at = end
    if at != chunk.end or len(modules) % 2:
        return []
    return [
        range(header.start, page.stop)
        for header, page in zip(modules[::2], modules[1::2], strict=True)
    ]


def layout(
    path: Path, keks: Mapping[str, bytes], stored: Mapping[str, tuple[str, str]] | None = None
) -> Layout:
    """Of a file whose KEKs are all here. `stored`: of a table with stored columns, the logical
    column and the form of each column of its files."""
    properties = crypto_factory(keks).file_decryption_properties(
        pe.KmsConnectionConfig(), pe.DecryptionConfiguration()
    )
    metadata = pq.ParquetFile(path, decryption_properties=properties, pre_buffer=False).metadata
    chunks = []
    for group in range(metadata.num_row_groups):
        for at in range(metadata.num_columns):
            column = metadata.row_group(group).column(at)
            start = column.data_page_offset
            if column.has_dictionary_page and column.dictionary_page_offset:
                start = min(start, column.dictionary_page_offset)
            name = column.path_in_schema
            chunks.append(
                Chunk(
                    group,
                    name,
                    start,
                    start + column.total_compressed_size,
                    *(stored or {}).get(name, (name, "tee")),
                )
            )
    content = path.read_bytes()
    end = len(content) - TAIL
    start = end - int.from_bytes(content[end : end + 4], "little")
    return Layout(len(content), tuple(chunks), range(start, end))
