"""Joins, subqueries and unions: exactly plaintext Spark's rows, however Spark plans them."""

from __future__ import annotations

import pytest

from coffer_testing.answers import difference
from coffer_testing.joins import JOINS, KEYS, SHAPES, TYPES
from coffer_testing.queries import Query
from coffer_testing.runner import Driver, QueryFailed, same_error
from coffer_testing.turns import in_turns, one_of
from conftest import Expected, ansi_conf

# As Spark plans small tables: broadcasts, in one request. Shuffled: AQE may still broadcast what
# turns out small. Forced: it may not.
SHUFFLED = {
    "spark.coffer.oneMachine": "off",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "1000",
}
FORCED = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "5",
}
# Spark's runtime Bloom filters, which it plans for large tables, over tables of any size.
FILTERED = {
    **SHUFFLED,
    "spark.coffer.oneMachine": "on",
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "1",
    "spark.sql.optimizer.runtime.bloomFilter.creationSideThreshold": "10MB",
}
MODES = {"broadcast": {}, "shuffled": SHUFFLED, "forced": FORCED, "filtered": FILTERED}

CASES = [
    pytest.param(query, ansi, id=f"{query.name}-ansi_{ansi}")
    for query in JOINS
    for ansi in query.ansi
]
HARD = [pytest.param(query, "on", id=query.name) for query in TYPES + SHAPES]
MERGED = [
    pytest.param(query, id=query.name) for query in KEYS + TYPES + SHAPES if " a " in query.sql
]


def test_there_are_enough_queries() -> None:
    assert len(JOINS) >= 40
    names = [query.name for query in JOINS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("query", "ansi", "mode"), in_turns(CASES, list(MODES), 2))
def test_local(query: Query, ansi: str, mode: str, expected: Expected, sealed: Driver) -> None:
    check(query, ansi, MODES[mode], expected, sealed)


@pytest.mark.parametrize("query", one_of(MERGED, 6))
def test_merged(query: Query, expected: Expected, sealed: Driver) -> None:
    """By a hint: as engines join what they cannot hold in memory."""
    check(query, "on", SHUFFLED, expected, sealed, hint="/*+ MERGE(a, b, c) */")


@pytest.mark.cluster
@pytest.mark.parametrize(("query", "ansi", "mode"), in_turns(HARD, ["broadcast", "shuffled"], 6))
def test_cluster(query: Query, ansi: str, mode: str, expected: Expected, clustered: Driver) -> None:
    check(query, ansi, MODES[mode], expected, clustered)


SKEW = {
    "spark.coffer.oneMachine": "off",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "16",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "100KB",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "100KB",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
}


@pytest.mark.parametrize(
    "kind", one_of(["JOIN", "LEFT JOIN", "RIGHT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"], 2)
)
def test_skewed(kind: str, expected: Expected, sealed: Driver) -> None:
    """Few groups have most rows; AQE splits their partitions, and reads the other side's again for
    each part."""
    columns = "count(*), sum(a.n), max(a.v)" + (
        "" if "SEMI" in kind or "ANTI" in kind else ", sum(b.n), max(b.v)"
    )
    sql = (
        f"SELECT {columns} FROM events a {kind} (SELECT * FROM events WHERE id % 2000 = 0) b "
        "ON a.g = b.g"
    )
    got = sealed.query(sql, SKEW)
    assert difference(expected.answer(sql), got, ordered=True) is None


def test_skew_is_split(sealed: Driver) -> None:
    """With a column that does not pack to nothing: where a partition is cut follows the lengths
    that maps wrote, sealed."""
    plan = sealed.run(
        "for k, v in conf.items(): spark.conf.set(k, v)\n"
        "df = spark.sql('SELECT count(*), max(a.v), sum(b.n) FROM events a JOIN "
        "(SELECT * FROM events WHERE id % 2000 = 0) b ON a.g = b.g')\n"
        "df.collect()\n"
        "result = df._jdf.queryExecution().executedPlan().toString()\n"
        "for k in conf: spark.conf.unset(k)\n",
        conf=SKEW,
    )
    assert "skewed" in plan, plan


@pytest.mark.parametrize(
    "hidden", [{}, {"spark.coffer.pad": "pow2"}, {"spark.coffer.prune": "off"}], ids=str
)
def test_runtime_filter(hidden: dict[str, str], expected: Expected, sealed: Driver) -> None:
    """A side is filtered by the keys of the other before it is shuffled, unless lengths are hidden:
    they would tell how many rows were left."""
    sql = (
        "SELECT count(*), sum(a.n), max(b.v) FROM events a JOIN "
        "(SELECT * FROM events WHERE n = 17) b ON a.id = b.id"
    )
    plan = sealed.run(
        "for k, v in conf.items(): spark.conf.set(k, v)\n"
        "result = spark.sql(sql)._jdf.queryExecution().executedPlan().toString()\n"
        "for k in conf: spark.conf.unset(k)\n",
        conf={**FILTERED, **hidden},
        sql=sql,
    )
    assert ("might_contain" in plan) == (not hidden), plan
    got = sealed.query(sql, {**FILTERED, **hidden})
    assert difference(expected.answer(sql), got, ordered=True) is None


def test_many_rows_for_a_scalar(plain: Driver, sealed: Driver) -> None:
    for driver in (plain, sealed):
        with pytest.raises(QueryFailed) as failed:
            driver.query("SELECT id FROM edge WHERE n = (SELECT n FROM edge WHERE id < 9)")
        assert "SCALAR_SUBQUERY_TOO_MANY_ROWS" in failed.value.message


def test_views_and_local_rows(expected: Expected, sealed: Driver) -> None:
    rows = sealed.run(
        "spark.sql('CREATE OR REPLACE TEMP VIEW half AS SELECT * FROM edge WHERE id % 2 = 0')\n"
        'spark.sql(\'CREATE OR REPLACE TEMP VIEW names AS SELECT * FROM VALUES (0, "zero"), '
        '(1, "one") AS v(k, name)\')\n'
        "result = [[str(v) for v in r] for r in spark.sql(\n"
        "  'SELECT name, count(*) c FROM half JOIN names USING (k) GROUP BY name ORDER BY "
        "name').collect()]\n"
    )
    want = expected.answer(
        "SELECT name, count(*) c FROM (SELECT * FROM edge WHERE id % 2 = 0) JOIN VALUES "
        "(0, 'zero'), (1, 'one') AS "
        "v(k, name) "
        "USING (k) GROUP BY name ORDER BY name"
    )
    assert rows == want.rows


def test_twice_over_one_broadcast(sealed: Driver) -> None:
    """A DataFrame collected again runs its last stage over the same broadcasts and shuffles."""
    first, second = sealed.run(
        "df = spark.sql('SELECT a.id, b.id FROM edge a JOIN edge b ON a.id = b.id + 1')\nresult = "
        "[len(df.collect()), df.count()]\n"
    )
    assert first == second == 1199


def test_merge_hint(expected: Expected, sealed: Driver) -> None:
    """A hint for Spark's sort-merge join is taken as such."""
    sql = (
        "SELECT /*+ MERGE(b) */ count(*), sum(a.n), sum(b.q) FROM events a JOIN events b ON "
        "a.n = b.n"
    )
    assert difference(expected.answer(sql), sealed.query(sql, SHUFFLED), ordered=True) is None


def check(
    query: Query,
    ansi: str,
    conf: dict[str, str],
    expected: Expected,
    sealed: Driver,
    hint: str = "",
) -> None:
    settings = {**ansi_conf(ansi), **conf}
    sql = query.sql.replace("SELECT", f"SELECT {hint}", 1) if hint else query.sql
    if query.error is not None:
        with pytest.raises(QueryFailed) as theirs:
            expected.answer(query.sql, ansi)
        assert theirs.value.condition == query.error
        with pytest.raises(QueryFailed) as ours:
            sealed.query(sql, settings)
        # A hint is part of the text in which the error says its place.
        assert ours.value.condition == query.error
        assert hint or same_error(theirs.value, ours.value)
        return
    want = expected.answer(query.sql, ansi)
    got = sealed.query(sql, settings)
    assert difference(want, got, ordered=query.ordered) is None
