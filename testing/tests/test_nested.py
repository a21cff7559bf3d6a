"""Arrays, structs, maps and lambdas: exactly plaintext Spark's values."""

from __future__ import annotations

import pytest

from coffer_testing.answers import difference
from coffer_testing.nested import LAST_WINS, NESTED
from coffer_testing.queries import Query
from coffer_testing.runner import Driver, QueryFailed, same_error
from conftest import Expected, ansi_conf

# Each query in one mode, by turns; what ends with an error in each.
CASES = [
    pytest.param(
        query,
        ansi,
        id=f"{query.name}-ansi_{ansi}",
        marks=[] if query.error or number % len(query.ansi) == turn else [pytest.mark.full],
    )
    for number, query in enumerate(NESTED)
    for turn, ansi in enumerate(query.ansi)
]


def test_there_are_enough_queries() -> None:
    assert len(NESTED) >= 75
    names = [query.name for query in NESTED]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("query", "ansi"), CASES)
def test_local(query: Query, ansi: str, expected: Expected, sealed: Driver) -> None:
    if query.error is not None:
        with pytest.raises(QueryFailed) as theirs:
            expected.answer(query.sql, ansi)
        assert theirs.value.condition == query.error
        with pytest.raises(QueryFailed) as ours:
            sealed.query(query.sql, ansi_conf(ansi))
        assert same_error(theirs.value, ours.value)
        return
    want = expected.answer(query.sql, ansi)
    got = sealed.query(query.sql, ansi_conf(ansi))
    assert difference(want, got, ordered=False) is None


def test_last_key_wins(plain: Driver, sealed: Driver) -> None:
    conf = {"spark.sql.mapKeyDedupPolicy": "LAST_WIN"}
    want, got = (driver.query(LAST_WINS.sql, conf) for driver in (plain, sealed))
    assert difference(want, got, ordered=False) is None


@pytest.mark.parametrize(
    "columns",
    ["map(k, 1) = map(k, 1)", "array_sort(array(k), (a, b) -> b - a)", "split(s, '(?=a)')"],
)
def test_refused(columns: str, sealed: Driver) -> None:
    with pytest.raises(QueryFailed):
        sealed.query(f"SELECT {columns} FROM edge")


@pytest.mark.parametrize("style", ["", "UTF-8", "BASIC", "BASE64", "HEX", "HEX_DISCRETE"])
def test_printed(style: str, expected: Expected, sealed: Driver) -> None:
    """`show()` prints NULL as a word, and bytes in the style that is set, else in hex."""
    code = (
        "name = 'spark.sql.binaryOutputStyle'\n"
        f"spark.conf.set(name, '{style}') if '{style}' else spark.conf.unset(name)\n"
        "result = spark.sql('SELECT array(k, NULL) a, struct(s, bin) t, map(id, d38) m, s, "
        "CAST(s AS BINARY) b FROM edge WHERE id < 40 ORDER BY id')._jdf.showString(40, 0, False)\n"
        "spark.conf.unset(name)\n"
    )
    if style == "UTF-8":  # not all of `bin` is text
        code = code.replace("struct(s, bin)", "struct(s, CAST(s AS BINARY))")
    got = sealed.run(code)
    assert got == expected.result(code, got)
