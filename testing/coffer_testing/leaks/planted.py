"""What is planted where: TPC-H's tables with some of their values replaced, one more table, and the
words of the queries.

All keys of TPC-H are moved up, to where their upper bytes are all the same (of the first 65,536
keys six: those are looked for); words that the 22 queries ask for carry a mark, in the tables and
in the queries alike, so the queries still find what they found; of some decimal and integer columns
a part of the rows has one recognisable value. So every join, group, sort and comparison carries
planted values.
"""

from __future__ import annotations

import random
import re
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coffer_testing import search, tpch
from coffer_testing.search import Planted

# Texts: in the data; in the queries' literals only; in partition columns; in what users say of
# their jobs.
DATA, LITERAL, PARTITION, SPOKEN = "Zq7numbat", "Vx4ocelot", "Kd5quokka", "Jw3gibbon"
COLUMN = "tamarin_Wp6_column"

# A key `k` of TPC-H becomes `KEYS + k`.
KEYS = 0x5A1DC93BE7_000000
NUMBERS = [0x4D71B9E35CA8F266, -0x3B9AD5E81C7F4602]
LITERAL_NUMBER = 0x6C3E91A7D25B08F4
SIZES = {15: 0x7A5DC3B9, 49: 0x6E93D5A7}  # of TPC-H's part.p_size, by what they replace
WIDE = Decimal("7294816350294718563047291846.5038274619")
LITERAL_WIDE = Decimal("4861937205847162938450718293.6150492837")
RATIO = struct.unpack(">d", bytes.fromhex("41d7a95c3be86f21"))[0]
DAY = date(7349, 4, 23)
MOMENT = datetime(6817, 9, 14, 11, 52, 37, 481516, UTC)
# By column: the value, and of how many rows one has it.
AMOUNTS = {
    "c_acctbal": (Decimal("5031842617953.46"), 5),
    "s_acctbal": (Decimal("4617308295164.37"), 5),
    "l_extendedprice": (Decimal("7318465920174.83"), 7),
    "o_totalprice": (Decimal("6142985730618.57"), 7),
    "ps_supplycost": (Decimal("8275316049628.19"), 5),
}

# What the 22 queries look for, by exact word, prefix or infix. Each gets the mark in front, in data
# and queries.
WORDS = (
    "FRANCE GERMANY BRAZIL CANADA SAUDI EUROPE ASIA AMERICA BUILDING ANODIZED BRASS PROMO "
    "POLISHED Brand MED MAIL SHIP "
    "PERSON URGENT green forest special requests Customer Complaints"
)

SECRET_ROWS = 20_000


def wanted() -> list[Planted]:
    """All that is searched for, but for the name of the column (see `names`)."""
    return [
        *map(search.text, (DATA, LITERAL, PARTITION, SPOKEN)),
        search.int64_family("keys", KEYS >> 16),
        *map(search.int64, (*NUMBERS, LITERAL_NUMBER)),
        *map(search.int32, SIZES.values()),
        *(search.decimal(value) for value, _ in AMOUNTS.values()),
        search.decimal(WIDE),
        search.decimal(LITERAL_WIDE),
        search.double(RATIO),
        search.day(DAY),
        search.moment(MOMENT),
    ]


def names() -> list[Planted]:
    """Names of columns: sealed too, inside fragments."""
    return [search.text(COLUMN)]


@dataclass(frozen=True)
class Tables:
    """Plain Parquet folders by name, and how many different planted values are in them."""

    paths: dict[str, Path]
    values: int


def tables(folder: Path, scale: str) -> Tables:
    """Makes TPC-H's tables at that scale and `secret`, under `folder`."""
    made = {name: _plant(pq.read_table(path)) for name, path in tpch.data(scale).items()}
    made["secret"] = _secret()
    for name, table in made.items():
        (folder / name).mkdir(parents=True)
        parts = 4 if table.num_rows > 10_000 else 1
        rows = -(-table.num_rows // parts)
        for part in range(parts):
            # No dictionaries and no compression: what the control should find lies open.
            path = folder / name / f"part-{part}.parquet"
            pq.write_table(
                table.slice(part * rows, rows), path, compression="none", use_dictionary=False
            )
    return Tables(
        {name: folder / name for name in made},
        len({value for table in made.values() for value in _values(table)}),
    )


def tpch_query(number: int) -> str:
    """One of TPC-H's queries, its words and sizes replaced as in the tables."""
    sql = tpch.query(number)
    sql = re.sub(r"'[^']*'", lambda quoted: _marked(quoted.group()), sql)
    for old, new in SIZES.items():
        sql = re.sub(rf"(p_size = |p_size in \(){old}\b", rf"\g<1>{new}", sql)
    return sql


def _marked(text: str) -> str:
    for word in WORDS.split():
        text = text.replace(word, DATA + word)
    return text


def _plant(table: pa.Table) -> pa.Table:
    columns = {}
    for name in table.column_names:
        column = table[name]
        if name.endswith("key"):
            column = pc.add(column, pa.scalar(KEYS, pa.int64()))
        elif pa.types.is_string(column.type) or pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
            for word in WORDS.split():
                column = pc.replace_substring(column, word, DATA + word)
        elif name in AMOUNTS:
            value, every = AMOUNTS[name]
            chosen = pa.array([row % every == 0 for row in range(table.num_rows)])
            column = pc.if_else(chosen, pa.scalar(value, column.type), column)
        elif name == "p_size":
            for old, new in SIZES.items():
                column = pc.if_else(pc.equal(column, old), pa.scalar(new, pa.int32()), column)
        columns[name] = column
    return pa.table(columns)


def _secret() -> pa.Table:
    """One column of every kind; in three rows of ten the value is a planted one."""
    rng = random.Random(7)
    size = next(iter(SIZES.values()))

    def column(planted: list[object], filler: object, kind: pa.DataType) -> pa.Array:
        return pa.array(
            [rng.choice(planted) if rng.random() < 0.3 else filler for _ in range(SECRET_ROWS)],
            kind,
        )

    return pa.table(
        {
            COLUMN: column([f"{DATA}-amber-{n}" for n in range(40)], "filler", pa.string()),
            "number": column([*NUMBERS], 5, pa.int64()),
            "size": column([size], 6, pa.int32()),
            "wide": column([WIDE], Decimal("7.25"), pa.decimal128(38, 10)),
            "ratio": column([RATIO], 0.5, pa.float64()),
            "day": column([DAY], date(1995, 3, 15), pa.date32()),
            "moment": column(
                [MOMENT], datetime(1995, 3, 15, tzinfo=UTC), pa.timestamp("us", "UTC")
            ),
            "tag": column([f"{PARTITION}-{n}" for n in range(3)], "other", pa.string()),
            "id": pa.array(range(SECRET_ROWS), pa.int64()),
        }
    )


def _values(table: pa.Table) -> set[object]:
    """The different planted values of a table."""
    exact = {
        *NUMBERS,
        *SIZES.values(),
        WIDE,
        RATIO,
        DAY,
        MOMENT,
        *(value for value, _ in AMOUNTS.values()),
    }
    found: set[object] = set()
    for name in table.column_names:
        for value in pc.unique(table[name].combine_chunks()).to_pylist():
            marked = isinstance(value, str) and (DATA in value or PARTITION in value)
            if marked or value in exact or (isinstance(value, int) and value >> 16 == KEYS >> 16):
                found.add(value)
    return found
