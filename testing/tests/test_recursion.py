"""Recursive queries: their rounds run in engines, sealed, and give plaintext Spark's rows; those
with something that engines do not have are the driver's, round by round."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent

import pytest

from coffer_testing.answers import difference
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.turns import one_of
from conftest import Expected, with_client_tail

FORCED = {"spark.coffer.client.tail": "on", "spark.coffer.client.tail.force": "UnionLoop"}

# By name; the client tail is off in these tests, so engines run all of each.
SQL = {
    "joined": "WITH RECURSIVE t(d, i) AS (SELECT 1, id FROM edge WHERE id < 3 UNION ALL "
    "SELECT d + 1, e.id FROM t JOIN edge e ON e.id = t.i + 1 WHERE d < 5) "
    "SELECT d, count(*), max(i) FROM t GROUP BY d",
    "aggregated_first": "WITH RECURSIVE t(d, n) AS (SELECT 1, max(n) FROM edge UNION ALL "
    "SELECT d + 1, n - d FROM t WHERE d < 6) SELECT * FROM t ORDER BY d",
    "values": "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20) "
    "SELECT s.n, e.k FROM s JOIN edge e ON e.id = s.n",
    "no_values": "WITH RECURSIVE s(n) AS (SELECT n FROM (VALUES (1), (2)) v(n) WHERE n > 2 "
    "UNION ALL SELECT n + 1 FROM s WHERE n < 20) SELECT s.n, e.k FROM s JOIN edge e ON e.id = s.n",
    "nothing_first": "WITH RECURSIVE t(i) AS (SELECT id FROM edge WHERE id < -7 UNION ALL "
    "SELECT i + 1 FROM t WHERE i < 9) SELECT count(*), sum(i) FROM t",
    "nulls_later": "WITH RECURSIVE t(d, x, y) AS (SELECT 1, 1L, 'a' FROM edge WHERE id = 1 "
    "UNION ALL SELECT d + 1, nullif(x, 1L), if(d = 2, NULL, y || 'b') FROM t WHERE d < 5) "
    "SELECT * FROM t",
    "grouped": "WITH RECURSIVE t(d, k, c) AS (SELECT 1, k, count(*) FROM edge GROUP BY k UNION ALL "
    "SELECT d + 1, t.k, t.c + e.m FROM t JOIN (SELECT k, max(id) m FROM edge GROUP BY k) e "
    "ON t.k = e.k WHERE d < 4) SELECT d, k, c FROM t",
    "nested": "WITH RECURSIVE t(d, path) AS (SELECT 1, array(named_struct('i', id)) FROM edge "
    "WHERE id < 4 UNION ALL SELECT d + 1, path || array(named_struct('i', path[0].i + d)) FROM t "
    "WHERE d < 4) SELECT d, path FROM t",
    "in_itself": "WITH RECURSIVE a(i) AS (SELECT id FROM edge WHERE id = 1 UNION ALL "
    "SELECT i + 1 FROM a WHERE i < 4), b(i, j) AS (SELECT i, i FROM a UNION ALL "
    "SELECT i, j + 1 FROM b WHERE j < i + 2) SELECT i, j FROM b",
    "twice": "WITH RECURSIVE a(i) AS (SELECT id FROM edge WHERE id = 1 UNION ALL "
    "SELECT i + 1 FROM a WHERE i < 5) SELECT x.i, y.i FROM a x JOIN a y ON x.i = y.i + 1",
    "in_a_subquery": "SELECT id FROM edge WHERE id = (WITH RECURSIVE a(i) AS (SELECT min(id) "
    "FROM edge UNION ALL SELECT i + 1 FROM a WHERE i < 5) SELECT max(i) FROM a)",
    "within_a_limit": "WITH RECURSIVE s(n) AS (SELECT max(id) FROM edge WHERE id = 1 UNION ALL "
    "SELECT n + 1 FROM s) SELECT n FROM s LIMIT 7",
    "of_orders": "WITH RECURSIVE up(level, n_nationkey, total) AS (SELECT 0, n_nationkey, "
    "CAST(n_regionkey AS DECIMAL(20, 2)) FROM nation UNION ALL SELECT level + 1, s_nationkey, "
    "CAST(total + s_acctbal AS DECIMAL(20, 2)) FROM up JOIN supplier ON s_suppkey = "
    "n_nationkey + level + 1 WHERE level < 3) SELECT level, count(*), sum(total) FROM up "
    "GROUP BY level",
}
FAILING = {
    "WITH RECURSIVE s(n) AS (SELECT max(id) FROM edge UNION ALL SELECT n + 1 FROM s) "
    "SELECT n FROM s": "RECURSION_LEVEL_LIMIT_EXCEEDED",
    "WITH RECURSIVE s(n) MAX RECURSION LEVEL 3 AS (SELECT max(id) FROM edge "
    "UNION ALL SELECT n + 1 FROM s) SELECT n FROM s": "RECURSION_LEVEL_LIMIT_EXCEEDED",
    "WITH RECURSIVE s(n) AS (SELECT 3 FROM edge WHERE id = 1 UNION ALL "
    "SELECT n - 1 FROM s WHERE 6 / n > 0) SELECT n FROM s": "DIVIDE_BY_ZERO",
}


@pytest.mark.parametrize("name", one_of(SQL, 2))
def test_rounds_in_engines(name: str, expected: Expected, sealed: Driver) -> None:
    sql = SQL[name]
    assert difference(expected.answer(sql), sealed.query(sql), ordered=False) is None


@pytest.mark.parametrize("name", ["joined", "grouped"])
def test_rounds_on_a_cluster(name: str, expected: Expected, clustered: Driver) -> None:
    sql = SQL[name]
    assert difference(expected.answer(sql), clustered.query(sql), ordered=False) is None


@pytest.mark.parametrize("name", one_of(SQL, 5))
def test_rounds_in_the_driver(name: str, expected: Expected, sealed: Driver) -> None:
    sql = SQL[name]
    assert difference(expected.answer(sql), sealed.query(sql, FORCED), ordered=False) is None


@pytest.mark.parametrize("sql", FAILING)
def test_failing_as_spark_does(sql: str, plain: Driver, sealed: Driver) -> None:
    for driver, conf in ((plain, {}), (sealed, {}), (sealed, FORCED)):
        with pytest.raises(QueryFailed, match=FAILING[sql]):
            driver.query(sql, conf)


def test_each_round_draws_anew(expected: Expected, sealed: Driver) -> None:
    """As Spark's do, whose seeds differ by round."""
    sql = (
        "WITH RECURSIVE t(d, r) AS (SELECT 1, rand(3) FROM edge WHERE id = 1 UNION ALL "
        "SELECT d + 1, rand(3) FROM t WHERE d < 9) SELECT count(DISTINCT r) FROM t"
    )
    for conf in ({}, FORCED):
        assert difference(expected.answer(sql), sealed.query(sql, conf), ordered=False) is None


def test_explain_shows_the_rounds(sealed: Driver) -> None:
    shown = sealed.run("result = spark.sql('EXPLAIN ' + sql).collect()[0][0]", sql=SQL["joined"])
    assert "rows of a recursive query, each round's kept sealed: at first" in shown
    assert "then, over the rows of the round before, until there are none" in shown


def test_what_is_written(sealed: Driver) -> None:
    """A recursive query makes the rows of a table, and may be run more than once."""
    count = sealed.run(
        dedent("""
        spark.sql("CREATE TABLE rounds (i INT) USING coffer")
        query = (
            "WITH RECURSIVE a(i) AS (SELECT CAST(id AS INT) FROM edge WHERE id = 1 UNION ALL "
            "SELECT i + 1 FROM a WHERE i < 6) SELECT i FROM a"
        )
        spark.sql("INSERT INTO rounds " + query)
        more = spark.sql(
            "WITH RECURSIVE a(i, d) AS (SELECT i, 0 FROM rounds UNION ALL "
            "SELECT i, d + 1 FROM a WHERE d < 1) SELECT i FROM a"
        )
        result = [spark.table("rounds").count(), more.count(), len(more.collect())]
        spark.sql("DROP TABLE rounds")
        """)
    )
    assert count == [6, 12, 12]


@pytest.fixture
def tailed(sealed: Driver) -> Iterator[Driver]:
    yield from with_client_tail(sealed)


def test_what_engines_do_not_have_is_the_drivers(expected: Expected, tailed: Driver) -> None:
    sql = (
        "WITH RECURSIVE t(d, x) AS (SELECT 1, format_string('%S', s) FROM edge WHERE id < 9 "
        "UNION ALL SELECT d + 1, format_string('%s-%s', x, d) FROM t WHERE d < 3) SELECT * FROM t"
    )
    assert difference(expected.answer(sql), tailed.query(sql), ordered=False) is None


def test_what_stands_above_the_rounds_may_be_the_drivers(
    expected: Expected, tailed: Driver
) -> None:
    sql = (
        "WITH RECURSIVE t(d, i) AS (SELECT 1, id FROM edge WHERE id < 3 UNION ALL "
        "SELECT d + 1, i + 1 FROM t WHERE d < 5) SELECT format_string('%S', i), count(*) FROM t "
        "GROUP BY i"
    )
    assert difference(expected.answer(sql), tailed.query(sql), ordered=False) is None
    shown = tailed.run("result = spark.sql('EXPLAIN ' + sql).collect()[0][0]", sql=sql)
    assert "rows of a recursive query" in shown
