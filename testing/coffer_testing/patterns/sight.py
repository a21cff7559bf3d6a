"""A sealed table as a host reads it: Parquet files, no key, no name, no manifest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

Cell = int | bytes | str | None


@dataclass(frozen=True)
class Column:
    """A stored column under the name that the files give it: one cell for each row, None for NULL.
    `cells` is None where the column does not open without a key."""

    name: str
    cells: list[Cell] | None


def read(files: Iterable[Path]) -> dict[str, Column]:
    """All columns of a table's files, rows in the order of `files`."""
    cells: dict[str, list[Cell] | None] = {}
    for path in files:
        file = pq.ParquetFile(path)
        for name in file.schema_arrow.names:
            opened = _cells(file, name)
            known = cells.setdefault(name, [])
            cells[name] = None if opened is None or known is None else known + opened
    return {name: Column(name, found) for name, found in cells.items()}


def _cells(file: pq.ParquetFile, name: str) -> list[Cell] | None:
    try:
        return file.read(columns=[name]).column(0).to_pylist()
    except OSError as error:
        if "ecrypt" not in str(error):
            raise
        return None
