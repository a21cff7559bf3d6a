"""Generated tables with nulls and edge values, the same for the same seed on every machine.

Written by PyArrow, so neither side of a comparison made its own input. `edge` has a column of every
flat type, with the type's edge values in each; `events` has enough rows to be shuffled between
several partitions.
"""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SEED = 20260401
EDGE_ROWS = 1200
EVENTS_ROWS = 160_000

TABLES = ("edge", "events")

_EDGE_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("b", pa.bool_()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("d9", pa.decimal128(9, 2)),
        ("d18", pa.decimal128(18, 4)),
        ("d38", pa.decimal128(38, 10)),
        ("s", pa.string()),
        ("bin", pa.binary()),
        ("dt", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("ntz", pa.timestamp("us")),
        ("k", pa.int32()),  # a small grouping key, 0 and NULL among its values
        ("n", pa.int64()),  # moderate: sums and products stay in range
        ("q", pa.float64()),  # quarters: sums are exact in any order
    ]
)

# fmt: off
_EDGES: dict[str, list[Any]] = {
    "b": [True, False],
    "i8": [-128, -1, 0, 1, 127],
    "i16": [-32768, -1, 0, 1, 32767],
    "i32": [-(2**31), -1, 0, 1, 2**31 - 1],
    "i64": [-(2**63), -1, 0, 1, 2**63 - 1],
    "f32": [
        float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.5, 2.0**-149, 3.4028234663852886e38,
    ],
    "f64": [
        float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 0.1, 5e-324, 1.7976931348623157e308,
        1e21, 1e-7,
    ],
    "d9": [Decimal("-9999999.99"), Decimal("0.00"), Decimal("0.01"), Decimal("9999999.99")],
    "d18": [
        Decimal("-99999999999999.9999"), Decimal("0.0000"), Decimal("0.0001"), Decimal("123.4500"),
    ],
    "d38": [
        Decimal("9999999999999999999999999999.9999999999"),
        Decimal("-9999999999999999999999999999.9999999999"),
        Decimal("0.0000000001"),
        Decimal("0"),
    ],
    "s": [
        "", " ", "  padded  ", "a", "abc", "aBc", "naïve", "ﬁne", "Straße", "İstanbul", "日本語",
        "🦓 zebra", "e\u0301", "100%", "under_score", "back\\slash", "line\nbreak", "tab\t", "NULL",
        "true", "12", " 12 ", "-7", "1.5", "1e3",
        "2024-02-29", "2023-02-29", "nul\0byte", "z", "zz", "\U0010ffff",
    ],
    "bin": [b"", b"\x00", b"\x00\xff", b"\xff\xfe", bytes(range(64))],
    "dt": [
        date(1, 1, 1), date(1500, 2, 28), date(1582, 10, 4), date(1582, 10, 15),
        date(1969, 12, 31), date(1970, 1, 1),
        date(2000, 2, 29), date(2024, 12, 31), date(9999, 12, 31),
    ],
    "ts": [
        datetime(1500, 3, 1, 1, 2, 3, 4), datetime(1582, 10, 10, 12), datetime(1900, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(1970, 1, 1), datetime(2024, 2, 29, 13, 14, 15, 161718),
        datetime(9999, 12, 30, 23, 59, 59, 999999),
    ],
}
# fmt: on


def write(folder: Path) -> dict[str, Path]:
    """Writes each table as a folder of Parquet files under `folder`; returns the folders by
    table."""
    tables = {"edge": _edge(random.Random(SEED)), "events": _events(random.Random(SEED + 1))}
    paths = {}
    for name, table in tables.items():
        paths[name] = folder / name
        paths[name].mkdir(parents=True, exist_ok=True)
        step = -(-table.num_rows // 3)
        # No statistics on floats: they leave NaN out, and plaintext Spark would skip row groups
        # with NaN it should find.
        with_statistics = [
            field.name for field in table.schema if not pa.types.is_floating(field.type)
        ]
        for part in range(3):
            pq.write_table(
                table.slice(part * step, step),
                paths[name] / f"part-{part}.parquet",
                row_group_size=max(100, step // 4),
                write_statistics=with_statistics,
            )
    return paths


def _edge(rng: random.Random) -> pa.Table:
    edges = {**_EDGES, "ntz": _EDGES["ts"]}
    rows = []
    for i in range(EDGE_ROWS):
        row = {
            name: _pick(rng, edges[name], lambda name=name: _ordinary(rng, name)) for name in edges
        }
        row["id"] = i
        row["k"] = rng.choice([None, 0, 1, 2, 3, 4])
        row["n"] = None if rng.random() < 0.05 else rng.randrange(-50_000, 50_000)
        row["q"] = None if rng.random() < 0.05 else rng.randrange(-4000, 4000) / 4
        if row["ts"] is not None:
            row["ts"] = row["ts"].replace(tzinfo=UTC)
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=_EDGE_SCHEMA)


def _events(rng: random.Random) -> pa.Table:
    rows = range(EVENTS_ROWS)
    return pa.table(
        {
            "id": pa.array(rows, pa.int64()),
            "g": pa.array([f"group-{int(rng.paretovariate(0.7)) % 97}" for _ in rows], pa.string()),
            "v": pa.array(
                [f"{rng.randrange(10**6):06d}-{'x' * rng.randrange(40)}" for _ in rows], pa.string()
            ),
            "n": pa.array(
                [None if rng.random() < 0.02 else rng.randrange(-(10**6), 10**6) for _ in rows],
                pa.int64(),
            ),
            "q": pa.array([rng.randrange(-4000, 4000) / 4 for _ in rows], pa.float64()),
            "at": pa.array(
                [date(2020, 1, 1) + timedelta(days=rng.randrange(1500)) for _ in rows], pa.date32()
            ),
        }
    )


def _pick(rng: random.Random, edges: list[Any], ordinary: Any) -> Any:
    """A null, an edge value, or an ordinary one."""
    at = rng.random()
    if at < 0.12:
        return None
    return rng.choice(edges) if at < 0.5 else ordinary()


def _ordinary(rng: random.Random, name: str) -> Any:
    match name:
        case "b":
            return rng.random() < 0.5
        case "i8" | "i16" | "i32" | "i64":
            return rng.randrange(-100, 100)
        case "f32":
            return rng.randrange(-800, 800) / 8
        case "f64":
            return rng.uniform(-1e6, 1e6)
        case "d9":
            return Decimal(rng.randrange(-(10**7), 10**7)).scaleb(-2)
        case "d18":
            return Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-4)
        case "d38":
            return Decimal(rng.randrange(-(10**20), 10**20)).scaleb(-10)
        case "s":
            return f"row-{rng.randrange(60)}"
        case "bin":
            return rng.randbytes(rng.randrange(1, 9))
        case "dt":
            return date(1950, 1, 1) + timedelta(days=rng.randrange(40_000))
        case "ts" | "ntz":
            return datetime(1950, 1, 1) + timedelta(
                seconds=rng.randrange(3 * 10**9), microseconds=rng.randrange(10**6)
            )
    raise ValueError(name)
