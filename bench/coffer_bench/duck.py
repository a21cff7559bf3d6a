"""DuckDB on plain Parquet, in this process: what users would pick instead where one machine is
enough."""

from __future__ import annotations

import decimal
import math
import struct
import time
from pathlib import Path
from typing import Any, Self

from coffer_testing.answers import Answer, encode
from coffer_testing.runner import QueryFailed

# It computes averages of decimals as doubles, and rounds quotients elsewhere than Spark.
TOLERANCE = 1e-6


class DuckDB:
    """A connection with these tables as views, on so many cores, with so much memory. It answers as
    `coffer_testing.runner.Driver` does."""

    def __init__(self, tables: dict[str, Path], folder: Path, cores: int, gibibytes: int) -> None:
        import duckdb

        spill = folder / "duckdb"
        spill.mkdir(parents=True, exist_ok=True)
        self._connection = duckdb.connect(
            config={
                "threads": cores,
                "memory_limit": f"{gibibytes}GiB",
                "temp_directory": str(spill),
            }
        )
        for name, path in tables.items():
            files = f"{path}/*.parquet" if path.is_dir() else str(path)
            self._connection.execute(
                f'create view "{name}" as select * from read_parquet({_quoted(files)})'
            )

    def timed(self, sql: str, _: dict[str, str] | None = None) -> dict[str, Any]:
        """The query's rows and how long it took. Spark's settings say nothing here."""
        import duckdb

        start = time.perf_counter()
        try:
            found = self._connection.execute(sql)
            rows = found.fetchall()
        except duckdb.Error as error:
            raise QueryFailed(type(error).__name__, str(error), None) from error
        seconds = time.perf_counter() - start
        schema = [[name, str(kind)] for name, kind, *_ in found.description]
        return {
            "seconds": seconds,
            "schema": schema,
            "rows": [[encode(value) for value in row] for row in rows],
            "counters": {},
            "milliseconds": {},
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def difference(expected: Answer, got: Answer) -> str | None:
    """None where each column has the same values, whatever their types and their order: numbers may
    differ by `TOLERANCE`, relatively, and blanks that pad a text do not count."""
    if len(expected.rows) != len(got.rows):
        return f"rows: expected {len(expected.rows)}, got {len(got.rows)}"
    if len(expected.schema) != len(got.schema):
        return f"columns: expected {len(expected.schema)}, got {len(got.schema)}"
    for at, ((name, kind), (_, other)) in enumerate(zip(expected.schema, got.schema, strict=True)):
        left = sorted((_plain(row[at], kind) for row in expected.rows), key=_order)
        right = sorted((_plain(row[at], other) for row in got.rows), key=_order)
        for one, another in zip(left, right, strict=True):
            if not _same(one, another):
                return f"{name}: expected {one}, got {another}"
    return None


def _plain(value: str | None, kind: str) -> str | float | None:
    """Numbers of any type as floats; texts without what pads them."""
    if value is None or value == "NaN":
        return None if value is None else math.nan
    if kind.lower() in ("float", "double"):
        return float(struct.unpack(">d", bytes.fromhex(value))[0])
    try:
        return float(decimal.Decimal(value))
    except decimal.InvalidOperation:
        return value.rstrip(" ").removesuffix("T00:00:00")


def _same(one: str | float | None, other: str | float | None) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (
            one != one and other != other
        )
    return one == other


def _order(value: str | float | None) -> tuple[int, float, str]:
    """NULL, then numbers, NaN the last of them, then texts."""
    match value:
        case None:
            return (0, 0.0, "")
        case float():
            return (1, math.inf if math.isnan(value) else value, "")
        case _:
            return (2, 0.0, value)
