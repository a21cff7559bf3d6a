"""Functions over columns of all types that Spark takes them of: each gives vanilla Spark's answer,
and none that is planned for an engine is refused there. Calls are drawn by a seed, which a failure
names; COFFER_RANDOM_SEED chooses it, and without it `full` draws a fresh one."""

from __future__ import annotations

import os
import random
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from coffer_testing.answers import difference
from coffer_testing.nested import FROM
from coffer_testing.runner import Driver, QueryFailed
from conftest import Expected, ansi_conf, with_client_tail

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "functions.md"
CHOSEN = os.environ.get("COFFER_RANDOM_SEED")
FRESH = int(CHOSEN) if CHOSEN else secrets.randbelow(10**9)

COLUMNS = ["b", "i8", "k", "n", "f64", "q", "d9", "d18", "s", "dt", "ts"]
NESTED = ["ints", "texts", "floats", "pairs", "deep", "m", "struct(k, s)"]
OTHERS = ["encode(s, 'utf-8')", "make_ym_interval(0, i8)", "make_dt_interval(0, 0, i8)", "NULL"]
LITERALS = ["'a'", "2", "1.5D", "true", "'yyyy-MM-dd'"]

# Of the row, the moment, the session or chance; rows of their own; texts as long as a number says.
LEFT_OUT = re.compile(
    r"rand.*|uuid|shuffle|monotonically.*|input_file.*|current_.*|cur.*|now|localtimestamp|.*user|"
    r"version|spark_partition_id|uniform|raise_error|assert_true|java_method|reflect|try_reflect|"
    r"unix_timestamp|sleep|explode.*|posexplode.*|inline.*|stack|json_tuple|case|when|window.*|"
    r"session_window|range|space|repeat|sequence|array_repeat|[lr]pad|and|or|not|in|like|between|"
    # In no order, and any of several.
    r"collect_set|collect_list|array_agg|listagg|string_agg|mode|first.*|last.*|any_value|approx_.*"
)


@pytest.fixture(scope="module")
def sealed(sealed: Driver) -> Iterator[Driver]:
    yield from with_client_tail(sealed)


def names() -> list[str]:
    listed = re.findall(r"^\| `(\w+)` \| (?:engine|client) \|", PAGE.read_text(), re.M)
    return [name for name in listed if not LEFT_OUT.fullmatch(name)]


def calls(seed: int) -> Iterator[str]:
    draw = random.Random(seed)
    all_names = names()
    assert len(all_names) > 300
    while True:
        name = draw.choice(all_names)
        # Types that go together are rare among all.
        kinds = draw.choice([COLUMNS, COLUMNS + LITERALS, NESTED, COLUMNS + NESTED + OTHERS])
        args = draw.choices(kinds, k=draw.choices([1, 2, 3], [5, 4, 1])[0])
        yield f"{name}({', '.join(args)})"


@pytest.mark.parametrize(
    ("seed", "count"),
    [
        pytest.param(int(CHOSEN or 20261129), 20, id="some"),
        pytest.param(FRESH, 600, id="fresh", marks=[pytest.mark.full]),
    ],
)
def test_functions_of_all_types(seed: int, count: int, expected: Expected, sealed: Driver) -> None:
    print(f"COFFER_RANDOM_SEED={seed}")
    wrong, compared = [], 0
    for call in calls(seed):
        if compared == count:
            break
        sql = f"SELECT {call} AS x {FROM}"
        try:
            want = expected.answer(sql, "off")
        except QueryFailed:
            continue  # not of these types, or of one of these values
        compared += 1
        try:
            found = difference(
                want, sealed.query(sql, ansi_conf("off")), ordered=False, tolerance=1e-12
            )
        except QueryFailed as failed:
            found = f"failed: {failed}"[:400]
        if found:
            wrong.append(f"{call}: {found}")
    assert not wrong, f"seed {seed}\n" + "\n".join(wrong)
