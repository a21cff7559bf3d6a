"""Random queries of all shapes, of functions by type, against plaintext Spark: none is wrong, none
refused, most have rows. COFFER_RANDOM_SEED says from where they are drawn; without it `full` draws
from a fresh seed. A failure names its seed and its query."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from coffer_testing.answers import difference
from coffer_testing.random_shapes import Shapes
from coffer_testing.runner import Driver, QueryFailed, same_error
from conftest import Expected, ansi_conf, with_client_tail

CHOSEN = os.environ.get("COFFER_RANDOM_SEED")
FRESH = int(CHOSEN) if CHOSEN else secrets.randbelow(10**9)


@pytest.fixture(scope="module")
def sealed(sealed: Driver) -> Iterator[Driver]:
    yield from with_client_tail(sealed)


@pytest.mark.parametrize(
    ("seed", "queries"),
    [
        pytest.param(int(CHOSEN or 20260401), 15, id="some"),
        pytest.param(FRESH, 250, id="fresh", marks=[pytest.mark.full]),
    ],
)
def test_random_shapes(seed: int, queries: int, expected: Expected, sealed: Driver) -> None:
    print(f"COFFER_RANDOM_SEED={seed}")
    shapes = Shapes(seed)
    wrong, filled = [], 0
    for number in range(queries):
        sql = shapes.query()
        found = compared(sql, expected, sealed)
        if isinstance(found, str):
            wrong.append(f"{number}: {found}\n   {sql}")
        else:
            filled += found
    assert not wrong, f"seed {seed}\n" + "\n".join(wrong)
    assert filled > queries * 0.6, f"seed {seed}: only {filled} of {queries} have rows"


def compared(sql: str, expected: Expected, sealed: Driver) -> bool | str:
    """Whether there are rows; what is wrong, where something is."""
    try:
        want = expected.answer(sql, "off")
    except QueryFailed as theirs:
        try:
            sealed.query(sql, ansi_conf("off"))
        except QueryFailed as ours:
            return False if same_error(theirs, ours) else f"{theirs} became {ours}"[:600]
        return f"{theirs} did not come"[:600]
    try:
        got = sealed.query(sql, ansi_conf("off"))
    except QueryFailed as failed:
        return f"failed: {failed}"[:600]
    # Sums of doubles are exact here, and in Spark of the order of the rows.
    return difference(want, got, ordered=False, tolerance=1e-12) or bool(want.rows)
