"""The program's table of protections is what is expected of each, and `policy advise` makes of it
what it should."""

from __future__ import annotations

import pytest

from coffer.advise import protections
from coffer.advise.protections import Protections
from coffer_testing.protections import NUMBERS, ORDERED, PLACED, SAME_BYTES, TEXTS, UNOPENED


@pytest.fixture(scope="module")
def table() -> Protections:
    return protections.read()


def test_each_protection_shows_what_is_expected(table: Protections) -> None:
    assert [row.name for row in table] == list(NUMBERS)
    assert {row.name: set(row.numbers.shows) for row in table} == NUMBERS
    assert {row.name: set(row.texts.shows) for row in table if row.texts is not None} == TEXTS


def test_each_protection_allows_what_is_expected(table: Protections) -> None:
    assert {row.name: set(row.numbers.allows) for row in table} == UNOPENED
    assert {row.name for row in table if "order" in row.numbers.allows} == set(ORDERED)
    assert {row.name for row in table if "equality" in row.numbers.allows} == set(SAME_BYTES)
    assert {row.name for row in table if row.placed} == set(PLACED)


def test_who_opens(table: Protections) -> None:
    numbers = {"plain": "anyone", "tee": "enclaves"}
    assert {row.name: row.numbers.opened_by for row in table} == {
        name: numbers.get(name, "client") for name in NUMBERS
    }
    # Of a text only a prefix is in its order.
    closed = {row.name for row in table if row.texts is not None and not row.texts.opens}
    assert closed == {"ope", "ore"}


def test_candidates_come_from_what_shows_least(table: Protections) -> None:
    assert table.candidates(texts=True) == [("std",), ("det",), ("std", "ope"), ("det", "ope")]
    assert table.candidates(texts=False) == [
        ("std",),
        ("ashe",),
        ("det",),
        ("ashe", "det"),
        ("ore",),
        ("det", "ore"),
        ("ashe", "ore"),
        ("ashe", "det", "ore"),
        ("ope",),
        ("det", "ope"),
        ("ashe", "ope"),
        ("ashe", "det", "ope"),
    ]
    assert (table.carried, table.allowing("sum"), table.unordered()) == (
        "std",
        "ashe",
        ["det", "ashe", "std"],
    )


def test_stored_widths(table: Protections) -> None:
    widths = {
        row.name: (row.cost.width(8, narrow=False), row.cost.width(8, narrow=True)) for row in table
    }
    assert widths == {
        "tee": (8, 8),
        "std": (24, 24),
        "ashe": (8, 8),
        "det": (24, 24),
        "ore": (16, 16),
        "ope": (16, 8),
        "plain": (8, 8),
    }
