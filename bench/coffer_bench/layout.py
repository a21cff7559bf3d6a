"""How tables lie in files, on each side; and plain Parquet files that are laid out as sealed ones,
so that a side may be timed over those."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from coffer_testing.owner import Owner


@dataclass(frozen=True)
class Layout:
    """Of one table: its files, their row groups in all, the rows of one on average, bytes."""

    files: int
    row_groups: int
    rows_of_a_group: int
    bytes: int


def of(side: str, tables: dict[str, Path], folder: Path) -> dict[str, Any]:
    """By table, of what a side that runs in this folder reads: `tables` where it has none of its
    own. The tables of a build without sealing cannot be opened here: nothing."""
    own = folder / f"{side}-tables"
    if own.is_dir() and (folder / f"{side}-trusted").is_dir():
        if side != "coffer":
            return {}
        owner = Owner.of(folder / f"{side}-trusted")
        return {name: asdict(_of(_inspected(owner, own / name))) for name in tables}
    read = {name: own / name for name in tables} if own.is_dir() else tables
    return {name: asdict(_of(_footers(path))) for name, path in read.items()}


def rewrite(tables: dict[str, Path], folder: Path) -> dict[str, Path]:
    """The tables as plain Parquet with as many rows in each file and row group as `coffer encrypt`
    puts there, and with its indexes of pages; by name. Compressed as Spark does it: its reader
    fails at some pages of LZ4, which sealed files have."""
    written = {name: folder / name for name in tables}
    owner = Owner.create(folder / "trusted")
    for name, path in owner.encrypt(tables, folder / "sealed").items():
        written[name].mkdir(parents=True)
        rows = _Rows(tables[name])
        for number, (count, groups, _) in enumerate(_inspected(owner, path)):
            _write(written[name] / f"part-{number:05}.parquet", rows, count, groups)
    return written


def _write(file: Path, rows: _Rows, count: int, groups: int) -> None:
    with pq.ParquetWriter(file, rows.schema, compression="snappy", write_page_index=True) as writer:
        for group in range(groups):
            # The last group has what the others leave.
            share = -(-count // groups)
            writer.write_table(
                rows.take(min(share, count - group * share)), row_group_size=max(1, share)
            )


class _Rows:
    """The rows of Parquet files one after the other, a few batches in memory."""

    def __init__(self, path: Path) -> None:
        dataset = ds.dataset(path, format="parquet")
        self.schema = dataset.schema
        self._batches: Iterator[pa.RecordBatch] = iter(dataset.to_batches())
        self._rest: pa.Table = self.schema.empty_table()

    def take(self, count: int) -> pa.Table:
        parts = [self._rest]
        while sum(part.num_rows for part in parts) < count:
            parts.append(pa.Table.from_batches([next(self._batches)], self.schema))
        whole = pa.concat_tables(parts)
        self._rest = whole.slice(count)
        return whole.slice(0, count)


# Rows, row groups and bytes of a file.
_File = tuple[int, int, int]


def _of(files: Iterable[_File]) -> Layout:
    counted = list(files)
    rows, groups, size = (sum(column) for column in zip(*counted, strict=True))
    return Layout(len(counted), groups, round(rows / max(1, groups)), size)


def _inspected(owner: Owner, table: Path) -> list[_File]:
    found = json.loads(owner.coffer("inspect", table, "--json").stdout)
    return [(file["rows"], file["row_groups"], file["size"]) for file in found["files"]]


def _footers(path: Path) -> Iterator[_File]:
    for file in sorted(path.rglob("*.parquet")) if path.is_dir() else [path]:
        footer = pq.read_metadata(file)
        yield footer.num_rows, footer.num_row_groups, file.stat().st_size
