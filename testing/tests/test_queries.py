"""Our own queries: exactly plaintext Spark's rows, in local mode and on the two-worker cluster."""

from __future__ import annotations

import re

import pytest

from coffer_testing.answers import difference
from coffer_testing.cluster import Cluster
from coffer_testing.generated import GENERATED
from coffer_testing.queries import EDGE, TPCH, Query
from coffer_testing.runner import Driver, QueryFailed, same_error
from coffer_testing.turns import one_of
from coffer_testing.windows import WINDOWS
from conftest import Expected, ansi_conf

CASES = [
    pytest.param(query, ansi, id=f"{query.name}-ansi_{ansi}")
    for query in EDGE + TPCH + WINDOWS + GENERATED
    for ansi in query.ansi
]


def test_there_are_enough_queries() -> None:
    assert len(EDGE) >= 40
    names = [query.name for query in EDGE + TPCH + WINDOWS + GENERATED]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("query", "ansi"), one_of(CASES, 2))
def test_local(query: Query, ansi: str, expected: Expected, sealed: Driver) -> None:
    check(query, ansi, expected, sealed)


@pytest.mark.cluster
@pytest.mark.parametrize(("query", "ansi"), one_of(CASES, 20))
def test_cluster(query: Query, ansi: str, expected: Expected, clustered: Driver) -> None:
    check(query, ansi, expected, clustered)


@pytest.mark.cluster
def test_cluster_has_an_engine_for_each_executor(clustered: Driver, cluster: Cluster) -> None:
    clustered.query("SELECT count(*) FROM events")
    assert len(cluster.executors()) == 2
    assert len(cluster.engines()) == 2


@pytest.mark.parametrize(
    "name",
    ["window_range_instants_by_days", "window_range_instants_by_months", "window_range_clocks"],
)
def test_windows_where_days_differ_in_length(name: str, plain: Driver, sealed: Driver) -> None:
    sql = next(query.sql for query in WINDOWS if query.name == name)
    conf = {"spark.sql.session.timeZone": "America/New_York"}
    assert difference(plain.query(sql, conf), sealed.query(sql, conf), ordered=False) is None


def test_subqueries_of_one_table_are_computed_at_once(sealed: Driver) -> None:
    """Those with one condition, as Spark does over files; and nobody reads another's columns."""
    plan = sealed.run(
        "result = spark.sql(sql)._jdf.queryExecution().optimizedPlan().toString()\n",
        sql=next(query.sql for query in TPCH if query.name == "subqueries_alike"),
    )
    assert "mergedValue" in plan, plan
    scans = set(re.findall(r"RelationV2\[([^]]*)\]", plan))
    columns = {",".join(sorted(re.findall(r"(o_\w+)#", scan))) for scan in scans}
    assert columns == {
        "o_orderpriority,o_orderstatus,o_totalprice",
        "o_custkey,o_orderdate,o_orderstatus",
        "o_orderkey",
    }, plan


def check(query: Query, ansi: str, expected: Expected, sealed: Driver) -> None:
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
    assert difference(want, got, ordered=query.ordered) is None
