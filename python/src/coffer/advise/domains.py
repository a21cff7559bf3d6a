"""Domains for `ope`, `ore` and `ashe`: wider than the values that are there, so that new ones
fit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import ceil, floor

from coffer.advise.tables import Column

_SUMMED = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL")
_BOUNDED = (*_SUMMED, "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
_BITS = {
    "TINYINT": 8,
    "SMALLINT": 16,
    "INT": 32,
    "BIGINT": 64,
    "DATE": 32,
    "TIMESTAMP": 64,
    "TIMESTAMP_NTZ": 64,
}
_DAY = 86_400_000_000


@dataclass(frozen=True)
class Domain:
    """Least and greatest value, in the column's units (unscaled decimals, days, microseconds).
    `written`: whether the policy must name it, rather than leave it to the type."""

    low: int
    high: int
    written: bool

    @property
    def size(self) -> int:
        """How many values."""
        return self.high - self.low + 1

    @property
    def narrow(self) -> bool:
        """Whether `ope` ciphertexts fit a BIGINT."""
        return self.size <= 1 << 31


def kind(column: Column) -> str:
    """A type without its arguments: DECIMAL."""
    name = re.split(r"[ (]", column.type, maxsplit=1)[0].upper()
    return {"INTEGER": "INT", "LONG": "BIGINT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL"}.get(
        name, name
    )


def is_summed(column: Column) -> bool:
    """Whether `ashe` takes the type."""
    return kind(column) in _SUMMED


def is_text(column: Column) -> bool:
    """Of texts and bytes only a prefix has an order."""
    return kind(column) not in (*_BOUNDED, "FLOAT", "DOUBLE", "BOOLEAN")


def scale(column: Column) -> int:
    """Digits after the point, of a decimal."""
    found = re.search(r",\s*(\d+)", column.type)
    return int(found.group(1)) if found else 0


def of(columns: Iterable[Column]) -> Domain | None:
    """One domain for columns that are compared with each other; none where the type has none."""
    members = list(columns)
    first = members[0]
    if kind(first) not in _BOUNDED:
        return None
    lows = [column.low for column in members if column.low is not None]
    highs = [column.high for column in members if column.high is not None]
    if len(lows) < len(members) or len(highs) < len(members):
        return _of_type(first)
    low, high = min(lows), max(highs)
    if kind(first) == "DATE":
        return Domain(_year(low, -1), _year(high, 11) - 1, written=True)
    if kind(first).startswith("TIMESTAMP"):
        return Domain(
            _year(low / _DAY, -1) * _DAY, _year(high / _DAY, 11) * _DAY - 1_000_000, written=True
        )
    unit = 10 ** scale(first)
    widest = _of_type(first)
    # Of a column that is 0 throughout, too, a new value is to fit.
    least, most = _round(floor(low), -1), _round(ceil(high), 1) or (0 if low < 0 else 10)
    return Domain(max(least * unit, widest.low), min(most * unit, widest.high), written=True)


def _of_type(column: Column) -> Domain:
    if kind(column) == "DECIMAL":
        digits = re.search(r"(\d+)", column.type)
        most = 10 ** int(digits.group(1) if digits else 10) - 1
        return Domain(-most, most, written=False)
    half = 1 << (_BITS[kind(column)] - 1)
    return Domain(-half, half - 1, written=False)


def _round(value: int, sign: int) -> int:
    """At least twice as far from zero on that side, as 1, 2 or 5 times a power of ten; zero on the
    other."""
    if value * sign <= 0:
        return 0
    wanted = 2 * abs(value)
    power = 10 ** (len(str(wanted)) - 1)
    return sign * next(step * power for step in (1, 2, 5, 10) if step * power >= wanted)


def _year(days: float, later: int) -> int:
    """The first of January, some years from a day's year, in days since 1970."""
    year = (date(1970, 1, 1) + timedelta(days=days)).year + later
    return date(min(max(year, 1), 9999), 1, 1).toordinal() - date(1970, 1, 1).toordinal()


def written(domain: Domain, column: Column) -> str:
    """As the policy has it."""
    return f"[{_value(domain.low, column)}, {_value(domain.high, column)}]"


def _value(value: int, column: Column) -> str:
    if kind(column) == "DATE":
        return f'"{date(1970, 1, 1) + timedelta(days=value)}"'
    if kind(column).startswith("TIMESTAMP"):
        return f'"{datetime(1970, 1, 1) + timedelta(microseconds=value)}"'
    digits = scale(column)
    return (
        str(value)
        if digits == 0 and kind(column) != "DECIMAL"
        else f'"{value / 10**digits:.{digits}f}"'
    )


def summed_rows(domain: Domain, rows: int) -> int | None:
    """The most rows that a table should be said to have, so that no sum overflows 64 bits; none if
    it has more already."""
    fits = ((1 << 64) - 1) // max(1, domain.size - 1)
    wanted = max(1_000_000, 10 ** len(str(10 * rows - 1)) if rows else 0)
    while wanted > fits:
        wanted //= 10
    return wanted if wanted > rows else None
