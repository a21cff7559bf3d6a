"""Answers of queries in a form that can be compared exactly and sent as JSON."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class Answer:
    """Column names and types, and the rows with every value as text in which different values
    differ."""

    schema: list[list[str]]
    rows: list[list[str | None]]
    seconds: float

    @staticmethod
    def from_json(reply: dict[str, Any]) -> Answer:
        return Answer(reply["schema"], reply["rows"], reply["seconds"])


def encode(value: Any) -> str | None:
    """One value as text. Floats by their bits, so −0.0 is not 0.0; all NaNs are one, as Spark has
    it. Decimals keep their scale."""
    match value:
        case None:
            return None
        case bool():
            return str(value)
        case float():
            return "NaN" if value != value else struct.pack(">d", value).hex()
        case bytes() | bytearray():
            return bytes(value).hex()
        case Decimal() | int():
            return f"{value:f}" if isinstance(value, Decimal) else str(value)
        case datetime() | date():
            return value.isoformat()
        case str():
            return value
        # Rows are tuples. The parts' lengths tell them apart.
        case list() | tuple():
            return _joined("[]" if isinstance(value, list) else "()", value)
        case dict():
            return _joined("{}", [part for pair in value.items() for part in pair])
    raise TypeError(f"no encoding for {type(value).__name__}")


def _joined(brackets: str, values: Iterable[Any]) -> str:
    parts = [encode(value) for value in values]
    texts = ["null" if part is None else f"{len(part)}:{part}" for part in parts]
    return brackets[0] + ",".join(texts) + brackets[1]


@dataclass(frozen=True)
class Digested:
    """An answer whose digests are at hand; `whole` gives it."""

    schema: list[list[str]]
    digests: list[str]
    whole: Callable[[], Answer]

    @property
    def rows(self) -> list[list[str | None]]:
        return self.whole().rows

    def is_as(self, other: Answer, *, ordered: bool) -> bool:
        """Whether the other one is the same for sure."""
        return self.schema == other.schema and self.digests[ordered] == digests(other)[ordered]


def digests(answer: Answer) -> list[str]:
    """Of the rows as a multiset, and as a sequence."""
    forms = (sorted(answer.rows, key=_order), answer.rows)
    return [hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:32] for rows in forms]


def difference(
    expected: Answer | Digested, got: Answer, *, ordered: bool, tolerance: float = 0.0
) -> str | None:
    """None when the answers are the same, else one line on the first difference. Rows without a
    claimed order are compared as multisets. `tolerance`: floats may differ by so much,
    relatively."""
    if isinstance(expected, Digested) and expected.is_as(got, ordered=ordered):
        return None
    if expected.schema != got.schema:
        return f"columns: expected {expected.schema}, got {got.schema}"
    if len(expected.rows) != len(got.rows):
        return f"rows: expected {len(expected.rows)}, got {len(got.rows)}"
    left, right = expected.rows, got.rows
    if not ordered:
        left, right = sorted(left, key=_order), sorted(right, key=_order)
    for at, (a, b) in enumerate(zip(left, right, strict=True)):
        if a != b and not (tolerance and _close(a, b, expected.schema, tolerance)):
            return f"row {at}: expected {a}, got {b}"
    return None


def _close(
    a: list[str | None], b: list[str | None], schema: list[list[str]], tolerance: float
) -> bool:
    return all(
        one == other
        or (
            kind in ("float", "double")
            and None not in (one, other)
            and math.isclose(_float(one), _float(other), rel_tol=tolerance)
        )
        for one, other, (_, kind) in zip(a, b, schema, strict=True)
    )


def _float(text: str | None) -> float:
    if text == "NaN":
        return math.nan
    return float(struct.unpack(">d", bytes.fromhex(text or ""))[0])


def _order(row: list[str | None]) -> list[tuple[bool, str]]:
    return [(value is not None, value or "") for value in row]
