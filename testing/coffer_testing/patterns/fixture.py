"""Tables in which each protection occurs: alone, beside others, linked with another table's, and
twice over equal values."""

from __future__ import annotations

import datetime
import json
import random
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coffer.pme import load_keks
from coffer_testing.owner import Owner
from coffer_testing.parquet_layout import layout
from coffer_testing.patterns import sight
from coffer_testing.patterns.sight import Column

POLICY = """
[tables.people.columns]
person = { protection = "det", link = "person" }
born = { protection = "ope", link = "day", domain = ["1900-01-01", "2099-12-31"] }
income = ["tee", "ope"]
wealth = ["det", "ope"]
rank = ["det", "ore"]
grade = { protection = "ore", link = "grade" }
debt = "det"
rent = "ope"
tax = "ore"
bonus = { protection = "ashe", domain = ["0.00", "10000000.00"], rows = 1000000 }
fee = { protection = ["ashe", "det"], domain = ["0.00", "10000000.00"], rows = 1000000 }
code = "det"
alias = "det"
note = "std"
copy = "std"
word = { protection = ["ope", "std"], prefix = 4 }
name = { protection = ["ore", "tee"], prefix = 4 }
secret = "tee"
twin = "tee"
open = "plain"

[tables.visits.columns]
visitor = { protection = ["det", "ope"], link = "person" }
day = { protection = "ope", link = "day", domain = ["1900-01-01", "2099-12-31"] }
mark = { protection = "ore", link = "grade" }
code = "det"
"""
ROWS = 6000
# Pairs of columns that hold equal values: of one link, or not.
LINKED = (
    (("people", "person"), ("visits", "visitor")),
    (("people", "born"), ("visits", "day")),
    (("people", "grade"), ("visits", "mark")),
)
UNLINKED = (
    (("people", "code"), ("people", "alias")),
    (("people", "code"), ("visits", "code")),
    (("people", "note"), ("people", "copy")),
    (("people", "secret"), ("people", "twin")),
    (("people", "debt"), ("people", "wealth")),
    (("people", "rent"), ("people", "wealth")),
    (("people", "tax"), ("people", "rank")),
    (("people", "bonus"), ("people", "fee")),
)


@dataclass(frozen=True)
class Stored:
    """One stored column, and the form it has."""

    encoding: str
    column: Column


class Fixture:
    """An owner, and the tables sealed under `POLICY`."""

    def __init__(self, folder: Path) -> None:
        plain = {name: _write(folder / "plain" / name, table) for name, table in _tables().items()}
        self.truth = {name: pq.read_table(path) for name, path in plain.items()}
        self._owner = owner = Owner.create(folder / "trusted")
        owner.sign(owner.policy + POLICY)
        self.folders = owner.encrypt(plain, folder / "sealed")
        said = {
            name: json.loads(owner.coffer("inspect", path, "--json").stdout)
            for name, path in self.folders.items()
        }
        self._files = {
            name: [self.folders[name] / file["path"] for file in table["files"]]
            for name, table in said.items()
        }
        self._stored = {name: table["stored"] for name, table in said.items()}
        self._seen = {name: sight.read(files) for name, files in self._files.items()}
        # It ends with a code of its own when it has warnings, as here.
        checked = json.loads(owner.coffer("policy", "check", "--json", *plain, check=False).stdout)
        self._claims = {
            (table["name"], column["name"]): column
            for table in checked["tables"]
            for column in table["columns"]
        }

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Table and name of each column."""
        return [(table, name) for table, truth in self.truth.items() for name in truth.column_names]

    def values(self, table: str, column: str) -> list[Any]:
        return self.truth[table][column].to_pylist()

    def claim(self, table: str, column: str) -> dict[str, Any]:
        """What `coffer policy check --json` says of it."""
        return self._claims[table, column]

    def stored(self, table: str, column: str) -> list[Stored]:
        """Its stored columns as a host sees them; the names are the owner's knowledge."""
        return [
            Stored(stored["form"], self._seen[table][stored["name"]])
            for stored in self._stored[table]
            if stored["column"] == column
        ]

    def lying(self, table: str, column: str) -> bytes:
        """All bytes of its stored columns as they lie in the files, pages' headers included. Where
        they begin and end is the owner's knowledge."""
        keks = self.folders[table].parent / f"{table}-keks.json"
        if not keks.exists():
            self._owner.coffer("keys", "export-keks", "--table", table, "--output", keks)
        encodings = {
            stored["name"]: (stored["column"] or stored["form"], stored["form"])
            for stored in self._stored[table]
        }
        found = bytearray()
        for file in self._files[table]:
            content = file.read_bytes()
            chunks = layout(file, load_keks(keks), encodings).chunks
            found += b"".join(
                content[chunk.start : chunk.end] for chunk in chunks if chunk.logical == column
            )
        return bytes(found)


def ordinals(values: list[Any], prefix: int | None = None) -> list[int | None]:
    """Values as whole numbers in their order from 0, in the way that domains count; of a text its
    first bytes."""
    epoch = datetime.date(1900, 1, 1)

    def of(value: Any) -> int | None:
        match value:
            case None:
                return None
            case int():
                return value + 2**31
            case datetime.date():
                return (value - epoch).days
            case Decimal():
                return int(value * 100)
            case str():
                digits = [byte + 1 for byte in value.encode()[: prefix or 8]]
                number = 0
                for digit in [*digits, *[0] * ((prefix or 8) - len(digits))]:
                    number = number * 257 + digit
                return number
        raise TypeError(f"no ordinal for {type(value).__name__}")

    return [of(value) for value in values]


def bits(values: list[Any], prefix: int | None) -> int:
    """Bits of the greatest ordinal of such a column's domain, in whole groups of four."""
    value = next(value for value in values if value is not None)
    match value:
        case datetime.date():
            size = (datetime.date(2099, 12, 31) - datetime.date(1900, 1, 1)).days
        case Decimal():
            size = 10**9
        case str():
            size = 257 ** (prefix or 8) - 1
        case _:
            size = 2**32 - 1
    return -(-size.bit_length() // 4) * 4


def _write(folder: Path, table: pa.Table) -> Path:
    """Two files, so that a column is stored under two files' keys."""
    folder.mkdir(parents=True)
    half = table.num_rows // 2
    for part in range(2):
        pq.write_table(table.slice(part * half, half), folder / f"part-{part}.parquet")
    return folder


def _tables() -> dict[str, pa.Table]:
    rng = random.Random(20261122)
    epoch = datetime.date(1900, 1, 1)
    letters = "abcdefghijklmnopqrstuvwxyz"

    def some(make: Any, *, null: bool = True) -> list[Any]:
        """Each value twice, in no order, and a few NULLs."""
        half = [make() for _ in range(ROWS // 2)]
        whole = half + half
        rng.shuffle(whole)
        return [None if null and rng.random() < 0.05 else value for value in whole]

    def number() -> int:
        return rng.randrange(-(2**31), 2**31)

    def money() -> Decimal:
        return Decimal(rng.randrange(10**9)) / 100

    def text() -> str:
        return "".join(rng.choice(letters) for _ in range(rng.randrange(2, 30)))

    def day() -> datetime.date:
        return epoch + datetime.timedelta(days=rng.randrange(73000))

    persons, days, grades, codes = some(number), some(day), some(number), some(text)
    notes, secrets, incomes, worths = some(text), some(number), some(number), some(number)
    taxes, fees = some(number), some(money)
    ints = pa.int32()

    def again(values: list[Any]) -> list[Any]:
        mixed = list(values)
        rng.shuffle(mixed)
        return mixed

    people = {
        "person": pa.array(persons, ints),
        "born": pa.array(days, pa.date32()),
        "income": pa.array(incomes, ints),
        "wealth": pa.array(worths, ints),
        "rank": pa.array(taxes, ints),
        "grade": pa.array(grades, ints),
        "debt": pa.array(again(worths), ints),
        "rent": pa.array(again(worths), ints),
        "tax": pa.array(again(taxes), ints),
        "bonus": pa.array(fees, pa.decimal128(10, 2)),
        "fee": pa.array(again(fees), pa.decimal128(10, 2)),
        "code": pa.array(codes),
        "alias": pa.array(again(codes)),
        "note": pa.array(notes),
        "copy": pa.array(notes),
        "word": pa.array(some(text)),
        "name": pa.array(some(text)),
        "secret": pa.array(secrets, ints),
        "twin": pa.array(secrets, ints),
        "open": pa.array(some(number), ints),
    }
    visits = {
        "visitor": pa.array(again(persons), ints),
        "day": pa.array(again(days), pa.date32()),
        "mark": pa.array(again(grades), ints),
        "code": pa.array(again(codes)),
    }
    return {"people": pa.table(people), "visits": pa.table(visits)}
