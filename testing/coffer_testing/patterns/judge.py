"""Claim against sight, column by column and pair by pair."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from coffer_testing.patterns import claims, fixture, measures
from coffer_testing.patterns.fixture import LINKED, UNLINKED, Fixture, Stored
from coffer_testing.patterns.measures import Degree
from coffer_testing.patterns.sight import Cell

_RANK: dict[Degree, int] = {"none": 0, "some": 1, "all": 2}
# Domains beyond so many bits: a straight line through doubles says nothing of the lower ones.
_EXACT = 40


@dataclass(frozen=True)
class Finding:
    """A pattern that is recovered otherwise than is claimed."""

    place: str
    pattern: str
    recovered: Degree
    claimed: Collection[Degree]

    def __str__(self) -> str:
        return (
            f"{self.place}: of {self.pattern} a host recovers {self.recovered}; claimed: "
            f"{' or '.join(self.claimed)}"
        )


def recovered(cells: Sequence[Cell], values: list[Any], prefix: int | None) -> dict[str, Degree]:
    """Each pattern of one stored column. `prefix`: bytes that are in the order of a text."""
    truth = fixture.ordinals(values, prefix)
    width = fixture.bits(values, prefix)
    text = any(isinstance(value, str) for value in values)
    found: dict[str, Degree] = {
        "nulls": measures.nulls(cells, values),
        "equality": measures.equality(cells, values),
        "order": measures.order(cells, truth),
        "first-bits": measures.first_bits(cells, truth, width),
        "values": measures.values(cells, values),
    }
    if text:
        found["lengths"] = measures.lengths(cells, values)
    if width <= _EXACT:
        found["later-bits"] = measures.later_bits(cells, truth, width)
        found["upper-bits"] = measures.upper_bits(cells, truth, width)
        found["lower-bits"] = measures.lower_bits(cells, truth, width)
    return found


def column(
    place: str, stored: Sequence[Stored], values: list[Any], said: Collection[str]
) -> tuple[dict[str, Degree], list[Finding]]:
    """What all stored columns of a column show together, and where that is not what is said of
    it."""
    if "every value" in said:
        seen = [one.column.cells for one in stored if one.column.cells is not None]
        together: dict[str, Degree] = {
            "values": max((measures.values(cells, values) for cells in seen), key=_RANK.__getitem__)
        }
    else:
        together = dict.fromkeys(claims.PATTERNS, "none")
        for one in stored:
            if one.column.cells is None:
                continue
            # Only an ordered form is of the prefix; the others are of the whole text.
            for pattern, degree in recovered(one.column.cells, values, claims.prefix(said)).items():
                together[pattern] = max(together[pattern], degree, key=_RANK.__getitem__)
    allowed = claims.allowed(said)
    findings = [
        Finding(place, pattern, degree, allowed[pattern])
        for pattern, degree in together.items()
        if degree not in allowed[pattern]
    ]
    if not any(isinstance(value, str) for value in values):
        findings = [finding for finding in findings if finding.pattern != "lengths"]
    return together, findings


def columns(tables: Fixture) -> tuple[dict[str, dict[str, Degree]], list[Finding]]:
    """All columns of the tables, by themselves."""
    seen: dict[str, dict[str, Degree]] = {}
    findings: list[Finding] = []
    for table, name in tables.columns:
        place = f"{table}.{name}"
        said = tables.claim(table, name)["hosts"]
        seen[place], found = column(
            place, tables.stored(table, name), tables.values(table, name), said
        )
        findings += found
    return seen, findings


def pair(
    tables: Fixture, one: tuple[str, str], other: tuple[str, str], linked: bool
) -> tuple[Degree, list[Finding]]:
    """Whether two columns of equal values show that they are: those of a link do, under each form
    that both have."""
    degrees: list[Degree] = []
    for left in tables.stored(*one):
        for right in tables.stored(*other):
            if (
                left.column.cells is None
                or right.column.cells is None
                or left.encoding != right.encoding
            ):
                continue
            values = tables.values(*one), tables.values(*other)
            degrees.append(
                measures.shared(left.column.cells, values[0], right.column.cells, values[1])
            )
    degree = max(degrees, key=_RANK.__getitem__, default="none")
    place = f"{'.'.join(one)} and {'.'.join(other)}"
    wanted: Collection[Degree] = ("all",) if linked else ("none",)
    return degree, [] if degree in wanted else [
        Finding(place, "equality across columns", degree, wanted)
    ]


def pairs(tables: Fixture) -> tuple[dict[str, Degree], list[Finding]]:
    """All pairs of columns that hold equal values."""
    seen: dict[str, Degree] = {}
    findings: list[Finding] = []
    for some, linked in ((LINKED, True), (UNLINKED, False)):
        for one, other in some:
            degree, found = pair(tables, one, other, linked)
            seen[f"{'.'.join(one)} and {'.'.join(other)}"] = degree
            findings += found
    return seen, findings


def by_links(tables: Fixture) -> tuple[dict[str, dict[str, Degree]], list[Finding]]:
    """What each linked column shows by way of the other."""
    seen: dict[str, dict[str, Degree]] = {}
    findings: list[Finding] = []
    for one, other in LINKED:
        for here, there in ((one, other), (other, one)):
            seen[f"{'.'.join(here)} by way of {'.'.join(there)}"], found = by_link(
                tables, here, there
            )
            findings += found
    return seen, findings


def by_link(
    tables: Fixture, one: tuple[str, str], other: tuple[str, str]
) -> tuple[dict[str, Degree], list[Finding]]:
    """What a column shows by way of a linked one: its cells are looked up in the other's, and what
    those rows show beside is taken for it."""
    values = tables.values(*one)
    encodings = {stored.encoding: stored.column.cells for stored in tables.stored(*one)}
    others = {stored.encoding: stored.column.cells for stored in tables.stored(*other)}
    lent: list[Stored] = list(tables.stored(*one))
    for shared in encodings.keys() & others.keys():
        keys, known = others[shared], encodings[shared]
        for encoding, cells in others.items():
            if encoding in encodings or cells is None or keys is None or known is None:
                continue
            beside = dict(zip(keys, cells, strict=True))
            lent.append(
                Stored(encoding, fixture.Column(encoding, [beside.get(cell) for cell in known]))
            )
    place = f"{'.'.join(one)} by way of {'.'.join(other)}"
    return column(place, lent, values, claims.words(tables.claim(*one)))
