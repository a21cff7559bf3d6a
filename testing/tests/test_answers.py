"""The comparison that all other tests rest on can tell answers apart."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from coffer_testing.answers import Answer, difference, encode

SCHEMA = [["a", "int"]]


def answer(*values: str | None, schema: list[list[str]] | None = None) -> Answer:
    return Answer(schema or SCHEMA, [[value] for value in values], 0.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (Decimal("1.0"), Decimal("1.00")),
        (None, ""),
        ("null", None),
        (1.0, 1.0000000000000002),
        (True, False),
        (b"\x00", b""),
        (date(1, 1, 1), date(1, 1, 2)),
    ],
)
def test_different_values_differ(one: object, other: object) -> None:
    assert encode(one) != encode(other)


def test_all_nans_are_one() -> None:
    assert encode(float("nan")) == encode(-float("nan")) == "NaN"


def test_same_rows_in_any_order_are_the_same_unless_ordered() -> None:
    assert difference(answer("1", None, "2"), answer("2", "1", None), ordered=False) is None
    assert difference(answer("1", None, "2"), answer("2", "1", None), ordered=True) is not None


def test_multiplicity_counts() -> None:
    assert difference(answer("1", "1", "2"), answer("1", "2", "2"), ordered=False) is not None


def test_null_is_not_empty() -> None:
    assert difference(answer(None), answer(""), ordered=False) is not None


def test_types_count() -> None:
    assert difference(answer("1"), answer("1", schema=[["a", "bigint"]]), ordered=False) is not None


def test_missing_rows_count() -> None:
    assert difference(answer("1", "2"), answer("1"), ordered=False) is not None


def test_floats_are_close_only_where_that_is_asked_for() -> None:
    schema = [["a", "double"], ["b", "string"]]

    def row(value: float | None, text: str) -> Answer:
        return Answer(schema, [[encode(value), text]], 0.0)

    one, near = row(1.0, "x"), row(1.0000000000000002, "x")
    assert difference(one, near, ordered=True) is not None
    assert difference(one, near, ordered=True, tolerance=1e-12) is None
    for other in (row(1.1, "x"), row(1.0, "y"), row(None, "x"), row(float("nan"), "x")):
        assert difference(one, other, ordered=True, tolerance=1e-12) is not None
