"""What each protection shows, allows and costs: the command line's table of it, of which Python has
no copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from coffer.advise.command import AdviseError, ask

# What every column can have done to it, whatever its protection.
_CARRY = "carry"


@dataclass(frozen=True)
class Treatment:
    """What a protection does to values of one kind; words as in
    `coffer reference --protections --json`."""

    shows: frozenset[str]
    allows: frozenset[str]
    opened_by: str

    @property
    def ordered(self) -> bool:
        """Whether the order shows, of values or of their first bytes."""
        return bool(self.shows & {"order", "prefix_order"})

    @property
    def opens(self) -> bool:
        """Whether anyone can have the values."""
        return self.opened_by != "nobody"


@dataclass(frozen=True)
class Cost:
    """Nanoseconds to encrypt a value, and one that was met before; and bytes of a value as it is
    stored."""

    encrypt: int
    repeated: int
    times: int
    plus: int
    narrow: int | None

    def width(self, value: float, narrow: bool) -> float:
        """Bytes of a stored value, by those of the value itself. `narrow`: few values may occur."""
        return (
            float(self.narrow)
            if narrow and self.narrow is not None
            else self.times * value + self.plus
        )

    def is_number(self, narrow: bool) -> bool:
        """Whether it is stored as a number, rather than as bytes behind their length."""
        return self.times == 0 or (narrow and self.narrow is not None)


@dataclass(frozen=True)
class Protection:
    """One row. `texts`: none where it takes no texts; `settings`: what a policy may say for it;
    `placed`: a value needs its file and row, and no two are alike."""

    name: str
    numbers: Treatment
    texts: Treatment | None
    settings: frozenset[str]
    placed: bool
    cost: Cost

    @property
    def whole(self) -> bool:
        """Whether the column itself is stored, rather than ciphertexts of a scheme."""
        return self.numbers.opened_by in ("anyone", "enclaves")

    def treatment(self, texts: bool) -> Treatment | None:
        """What it does to texts, or to all other values."""
        return self.texts if texts else self.numbers


class Protections:
    """The table, from what shows least. `printed`: as the command line printed it."""

    def __init__(self, printed: str) -> None:
        self.printed = printed
        self._rows = [_protection(row) for row in json.loads(printed)["protections"]]

    def __iter__(self) -> Iterator[Protection]:
        return iter(self._rows)

    def __getitem__(self, name: str) -> Protection:
        return next(row for row in self if row.name == name)

    def using(self, setting: str) -> frozenset[str]:
        """The protections for which a policy may say this."""
        return frozenset(row.name for row in self if setting in row.settings)

    def allowing(self, capability: str) -> str:
        """The scheme that shows least of those that allow this with numbers."""
        return next(row.name for row in self if capability in row.numbers.allows)

    @property
    def carried(self) -> str:
        """What a column is that hosts only carry along."""
        return self.allowing(_CARRY)

    def unordered(self) -> list[str]:
        """The schemes under which no order shows, from what shows most."""
        return [
            row.name for row in reversed(self._rows) if not row.whole and not row.numbers.ordered
        ]

    def candidates(self, texts: bool) -> list[tuple[str, ...]]:
        """Sets of protections with which hosts can do something, from what shows least. With none
        of them a column is carried; of two that show the order one is enough; and a column must
        open from one of its protections."""
        useful = [row for row in self if not row.whole and _allows(row, texts) - {_CARRY}]
        sets = [some for count in range(len(useful) + 1) for some in combinations(useful, count)]
        wanted = [some for some in sets if sum(_treated(row, texts).ordered for row in some) <= 1]

        def shown(some: tuple[Protection, ...]) -> tuple[int, int, int]:
            refs = [useful.index(row) for row in some]
            leaks = frozenset[str]().union(*(_treated(row, texts).shows for row in some))
            return max(refs, default=-1), len(leaks), sum(1 << ref for ref in refs)

        return [self._named(some, texts) for some in sorted(wanted, key=shown)]

    def _named(self, some: tuple[Protection, ...], texts: bool) -> tuple[str, ...]:
        names = tuple(row.name for row in some)
        return names if any(_treated(row, texts).opens for row in some) else (self.carried, *names)


def read() -> Protections:
    """Asks the command line."""
    done = ask("reference", "--protections", "--json")
    if done.returncode != 0:
        raise AdviseError(
            f"`coffer reference` does not print the table of protections: {done.stderr.strip()}\n"
            "hint: use the command line and the Python package of the same Coffer release"
        )
    return Protections(done.stdout)


def _protection(row: dict[str, Any]) -> Protection:
    texts = row["texts"]
    cost = Cost(
        **{name: row["cost"][name] for name in ("encrypt", "repeated", "times", "plus", "narrow")}
    )
    return Protection(
        row["name"],
        _treatment(row["numbers"]),
        None if texts is None else _treatment(texts),
        frozenset(row["settings"]),
        row["placed"],
        cost,
    )


def _treatment(found: dict[str, Any]) -> Treatment:
    return Treatment(frozenset(found["shows"]), frozenset(found["allows"]), found["opened_by"])


def _allows(row: Protection, texts: bool) -> frozenset[str]:
    treatment = row.treatment(texts)
    return frozenset() if treatment is None else treatment.allows


def _treated(row: Protection, texts: bool) -> Treatment:
    return row.treatment(texts) or row.numbers
