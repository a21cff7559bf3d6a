"""A query runs in one engine in one request, with one task of Spark's that waits, under a local
master and on a cluster where it reads little: the rows are plaintext Spark's as stage by stage, and
what Spark's users do to a running query works."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from coffer_testing import tpch
from coffer_testing.answers import Answer, difference
from coffer_testing.cluster import Cluster
from coffer_testing.owner import Owner
from coffer_testing.processes import named, worked
from coffer_testing.queries import TPCH_OFFICIAL
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.sql_tab import shown
from coffer_testing.turns import one_of
from conftest import CLUSTERED, CONF, Expected

ON, OFF = ({"spark.coffer.oneMachine": value} for value in ("on", "off"))
GROUPED = "SELECT l_returnflag, count(*) n, sum(l_quantity) q FROM lineitem GROUP BY ALL ORDER BY 1"


@pytest.fixture
def small(tmp_path: Path, owner: Owner, sealed_tables: dict[str, Path]) -> Iterator[Driver]:
    """With one core, and an engine that has next to no memory."""
    with Driver(
        sealed_tables,
        sealed=True,
        log=tmp_path / "small.log",
        master="local[1]",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={**CONF, "spark.coffer.engine.memory": "24MiB"},
    ) as driver:
        yield driver


@pytest.mark.parametrize("number", one_of(TPCH_OFFICIAL, 4))
def test_stage_by_stage(number: int, expected: Expected, sealed: Driver) -> None:
    """The other way; `test_tpch.py` runs them whole."""
    sql = tpch.query(number)
    assert difference(expected.answer(sql), sealed.query(sql, OFF), ordered=True) is None


def test_a_query_is_one_task_and_a_few_messages(sealed: Driver) -> None:
    whole, staged = (sealed.timed(GROUPED, conf)["counters"] for conf in ({}, OFF))
    assert (whole["tasks"], whole["stages"]) == (1, staged["stages"])
    assert staged["tasks"] > 1
    assert whole["crossings"] < staged["crossings"]
    # Of its exchanges nothing is sealed, as nothing leaves.
    assert whole["bytes_sealed"] < staged["bytes_sealed"]
    assert whole["bytes_read"] == staged["bytes_read"] > 0


@pytest.mark.parametrize("some", ["any_value(l_quantity)", "max(double(l_quantity))"])
def test_what_a_subquery_shares_is_made_once(some: str, expected: Expected, sealed: Driver) -> None:
    """Twice it might be two versions; so adaptive execution has such a query."""
    sql = (
        f"WITH t AS (SELECT l_suppkey, {some} q FROM lineitem GROUP BY 1) "
        "SELECT count(*) > 0 FROM t WHERE q = (SELECT max(q) FROM t)"
    )
    assert difference(expected.answer(sql), sealed.query(sql), ordered=False) is None
    # Else it would be one for the query, and one for the subquery.
    assert sealed.timed(sql)["counters"]["tasks"] > 2


SHARED = (
    "WITH t AS (SELECT ps_partkey, ps_supplycost FROM partsupp JOIN supplier ON ps_suppkey = "
    "s_suppkey JOIN nation ON s_nationkey = n_nationkey WHERE n_name = 'GERMANY') "
    "SELECT ps_partkey, sum(ps_supplycost) FROM t GROUP BY 1 HAVING sum(ps_supplycost) > "
    "(SELECT sum(ps_supplycost) / 50 FROM t)"
)
SUMMED = (
    "WITH t AS (SELECT l_suppkey, sum(double(l_quantity) / 3) q, avg(l_tax) a FROM lineitem "
    "GROUP BY 1) SELECT l_suppkey FROM t WHERE q = (SELECT max(q) FROM t) OR a = (SELECT min(a) "
    "FROM t)"
)
TWICE = (
    "SELECT count(*) FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE l_quantity > "
    "(SELECT avg(l_quantity) FROM lineitem) AND o_shippriority < (SELECT avg(l_quantity) FROM "
    "lineitem)"
)


@pytest.mark.parametrize("sql", [SHARED, SUMMED, TWICE], ids=["little", "sums", "subquery"])
def test_little_is_made_twice_and_subqueries_once(
    sql: str, expected: Expected, sealed: Driver
) -> None:
    """One request for the query, and one for its subqueries, which Spark makes one of."""
    assert difference(expected.answer(sql), sealed.query(sql), ordered=False) is None
    assert sealed.timed(sql)["counters"]["tasks"] == 2


@pytest.mark.parametrize("number", one_of(TPCH_OFFICIAL, 4))
def test_on_a_cluster(number: int, expected: Expected, clustered: Driver) -> None:
    sql = tpch.query(number)
    assert difference(expected.answer(sql), clustered.query(sql, ON), ordered=True) is None


def test_on_a_cluster_it_is_one_task_too(clustered: Driver) -> None:
    whole, staged = (clustered.timed(GROUPED, conf)["counters"] for conf in (ON, OFF))
    assert (whole["tasks"], whole["stages"]) == (1, staged["stages"])
    assert staged["tasks"] > 1
    assert whole["crossings"] < staged["crossings"]


def test_many_at_once_on_a_cluster(expected: Expected, clustered: Driver) -> None:
    """More than there are executors, of which each has engines and keys of its own."""
    counts = clustered.run(
        dedent("""
        from concurrent.futures import ThreadPoolExecutor
        spark.conf.set("spark.coffer.oneMachine", "on")
        try:
            with ThreadPoolExecutor(6) as pool:
                rows = list(pool.map(lambda _: spark.sql(sql).collect(), range(18)))
        finally:
            spark.conf.set("spark.coffer.oneMachine", "off")
        result = [[[str(v) for v in row] for row in one] for one in rows]
        """),
        sql=GROUPED,
    )
    answer = expected.answer(GROUPED)
    assert isinstance(answer, Answer)
    first = counts[0]
    assert [row[0] for row in first] == [row[0] for row in answer.rows]
    assert all(rows == first for rows in counts)


def test_a_cluster_with_next_to_no_memory(
    tmp_path: Path,
    owner: Owner,
    sealed_tables: dict[str, Path],
    expected: Expected,
) -> None:
    """What has no room waits on the executor's disk, or its query runs stage by stage."""
    with (
        # With one core, as `small`: of two threads one may be left without memory.
        Cluster(tmp_path / "cluster", workers=1) as cluster,
        Driver(
            sealed_tables,
            sealed=True,
            log=tmp_path / "small.log",
            master=cluster.master,
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            conf={
                **CONF,
                **CLUSTERED,
                **ON,
                "spark.cores.max": "1",
                "spark.coffer.engine.memory": "24MiB",
            },
        ) as driver,
    ):
        for sql in (SPILLING, HOARDING):
            assert difference(expected.answer(sql), driver.query(sql), ordered=True) is None
        counters = driver.timed(SPILLING)["counters"]
        assert counters["tasks"] > 2 or counters["bytes_spilled"] > 1_000_000, counters


def test_what_it_was_is_shown(sealed: Driver) -> None:
    """In Spark's SQL tab, with what its operators counted."""
    tab = shown(sealed, GROUPED)
    assert "CofferResult in one request" in tab.plan
    assert any(name.startswith("rows of HashAggregate") for name, _ in tab.metrics)
    # Of its exchange: what each task has made of its groups.
    (written,) = (int(value) for name, value in tab.metrics if name == "rows")
    assert written >= 3


SHUFFLED = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
FEW_ORDERS = "o_orderdate = DATE'1995-03-15'"
JOINED = (
    "SELECT o_orderpriority, count(*), sum(l_quantity) FROM lineitem JOIN orders ON "
    "l_orderkey = o_orderkey WHERE {} GROUP BY ALL"
)


def test_keys_of_one_stage_narrow_the_scan_of_another(sealed: Driver) -> None:
    few, lines = shown(sealed, JOINED.format(FEW_ORDERS), SHUFFLED).scanned()
    orders, all_lines = shown(sealed, JOINED.format("o_orderkey IS NOT NULL"), SHUFFLED).scanned()
    # An order has seven lines at most, and few keys are as good as told apart.
    assert 0 < few <= lines <= 8 * few < orders < all_lines


# Both sides are one exchange for Spark.
ALIKE = (
    "SELECT count(*), sum(a.l_tax + b.l_tax) FROM lineitem a JOIN lineitem b "
    "ON a.l_orderkey = b.l_orderkey {} WHERE a.l_quantity < 10 AND b.l_quantity < 10"
)


def test_an_exchange_with_two_readers_is_made_twice_only_where_rows_are_left_out(
    expected: Expected, sealed: Driver
) -> None:
    few = ALIKE.format(f"JOIN orders ON a.l_orderkey = o_orderkey AND {FEW_ORDERS}")
    for sql in (ALIKE.format(""), few):
        assert difference(expected.answer(sql), sealed.query(sql, SHUFFLED), ordered=True) is None
    (lines,) = shown(sealed, ALIKE.format(""), SHUFFLED).scanned()
    counted = expected.answer("SELECT count(*) FROM lineitem WHERE l_quantity < 10")
    assert isinstance(counted, Answer) and lines == int(str(counted.rows[0][0]))
    orders, one, other = shown(sealed, few, SHUFFLED).scanned()
    assert orders > 0 and 0 < one <= other <= 7 * orders < lines


FEW = "(SELECT * FROM edge WHERE {few}) e"
JOINS = {
    "inner": f"SELECT e.id, v.id FROM {FEW} JOIN edge v ON {{on}}",
    "turned": f"SELECT e.id, v.id FROM edge v JOIN {FEW} ON {{on}}",
    "left": f"SELECT e.id, v.id FROM {FEW} LEFT JOIN edge v ON {{on}}",
    "right": f"SELECT e.id, v.id FROM edge v RIGHT JOIN {FEW} ON {{on}}",
    "outer": f"SELECT e.id, v.id FROM edge v LEFT JOIN {FEW} ON {{on}}",
    "full": f"SELECT e.id, v.id FROM edge v FULL JOIN {FEW} ON {{on}}",
    "semi": f"SELECT v.id FROM edge v LEFT SEMI JOIN {FEW} ON {{on}}",
    "has": f"SELECT e.id FROM {FEW} LEFT SEMI JOIN edge v ON {{on}}",
    "anti": f"SELECT e.id FROM {FEW} LEFT ANTI JOIN edge v ON {{on}}",
    "not anti": f"SELECT v.id FROM edge v LEFT ANTI JOIN {FEW} ON {{on}}",
    "not in": f"SELECT e.id FROM {FEW} WHERE e.n NOT IN (SELECT n FROM edge v WHERE v.k > 1)",
    "either": f"SELECT e.id FROM {FEW} WHERE e.id < 40 OR "
    "EXISTS (SELECT 1 FROM edge v WHERE {on})",
    "both": f"SELECT e.id, v.id FROM {FEW} JOIN edge v ON {{on}} JOIN events w ON v.id = w.id + 1",
}
# Values that many rows share, of which some are NULL, and those that engines keep no bounds of.
KEYS = {
    "inner": ("e.i32 = v.i32", "e.dt = v.dt", "e.ts = v.ts", "e.d18 = v.d18", "e.f64 = v.f64"),
    "left": ("e.s = v.s", "e.i64 = v.i64 AND e.b = v.b", "e.n <=> v.n"),
}
FEWER = ("id % 60 = 3", "id > 5000", "n IS NULL AND id < 300")


@pytest.mark.parametrize("shape", JOINS)
def test_narrowed_joins(shape: str, expected: Expected, sealed: Driver) -> None:
    """Of a side that is filtered the keys narrow the other one's scan; the answers stay."""
    for on in ("e.n = v.n", *KEYS.get(shape, ())) if shape != "not in" else ("",):
        for few in FEWER:
            sql = JOINS[shape].format(on=on, few=few)
            mine = sealed.query(sql, SHUFFLED)
            assert difference(expected.answer(sql), mine, ordered=False) is None, sql


def test_errors_are_sparks(sealed: Driver, clustered: Driver) -> None:
    """Of an exchange's stage, and of the result's; so are those that came from an executor."""
    for sql in (
        "SELECT count(*) FROM lineitem GROUP BY l_quantity / (l_linenumber - l_linenumber)",
        "SELECT 1 / (max(l_linenumber) - max(l_linenumber)) FROM lineitem GROUP BY l_returnflag",
    ):
        for driver in (sealed, clustered):
            with pytest.raises(QueryFailed) as failed:
                driver.query(sql, {**ON, "spark.sql.ansi.enabled": "true"})
            assert failed.value.condition == "DIVIDE_BY_ZERO"


@pytest.mark.parametrize("conf", [ON, OFF], ids=["whole", "staged"])
def test_a_running_query_is_cancelled(conf: dict[str, str], sealed: Driver) -> None:
    """While the engine computes, which then does so no more; the session goes on."""
    active, alive, said = sealed.run(
        dedent("""
        import time
        from pyspark import InheritableThread
        said = []
        for key, value in conf.items():
            spark.conf.set(key, value)
        def slow():
            try:
                spark.sql(sql).collect()
                said.append("done")
            except Exception as e:
                said.append(str(e))
        tracker = spark.sparkContext.statusTracker()
        thread = InheritableThread(target=slow)
        thread.start()
        deadline = time.monotonic() + 60
        while not (active := tracker.getActiveJobsIds()) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1)
        spark.sparkContext.cancelAllJobs()
        thread.join(60)
        for key in conf:
            spark.conf.unset(key)
        result = [len(active), thread.is_alive(), said]
        """),
        # More rows than anybody will ever count.
        sql="SELECT a.l_returnflag, count(*), sum(hash(a.l_comment, b.l_comment, c.l_comment)) "
        "FROM lineitem a JOIN lineitem b USING (l_returnflag) JOIN lineitem c USING (l_returnflag) "
        "GROUP BY 1",
        conf=conf,
    )
    assert (active, alive, len(said)) == (1, False, 1)
    assert "cancelled" in said[0]
    engines = named({sealed.pid}, "coffer-engine")
    assert engines
    until = time.monotonic() + 30
    while True:
        before = worked(engines)
        time.sleep(1)
        if worked(engines) - before < 0.2:
            break
        assert time.monotonic() < until, "the engine goes on with a query that nobody wants"
    assert sealed.query(GROUPED).rows


SPILLING = (
    "SELECT count(*), sum(n), max(l_comment), sum(l_orderkey * n + l_linenumber) FROM ("
    "SELECT l_orderkey, l_linenumber, l_comment, count(*) OVER (PARTITION BY l_suppkey) n "
    "FROM lineitem WHERE l_quantity > (SELECT avg(l_quantity) FROM lineitem))"
)
HOARDING = (
    "SELECT /*+ MERGE(b) */ count(*), max(a.l_comment || b.l_comment) FROM lineitem a "
    "JOIN lineitem b ON a.l_orderkey = b.l_orderkey AND a.l_linenumber = b.l_linenumber"
)


def test_what_has_no_room_in_memory_waits_on_disk(small: Driver, expected: Expected) -> None:
    """And with one core, no task waits for another: neither a subquery's nor its query's."""
    assert difference(expected.answer(SPILLING), small.query(SPILLING), ordered=True) is None
    counters = small.timed(SPILLING)["counters"]
    assert counters["tasks"] == 2 and counters["bytes_spilled"] > 1_000_000
    assert difference(expected.answer(GROUPED), small.query(GROUPED), ordered=True) is None


def test_what_joins_cannot_hold_runs_stage_by_stage(small: Driver, expected: Expected) -> None:
    conf = {"spark.sql.shuffle.partitions": "1"}
    assert difference(expected.answer(HOARDING), small.query(HOARDING, conf), ordered=True) is None
    assert small.timed(HOARDING, conf)["counters"]["tasks"] > 2


def test_another_setting_is_refused(sealed: Driver) -> None:
    with pytest.raises(QueryFailed, match="set it to on or off"):
        sealed.query(GROUPED, {"spark.coffer.oneMachine": "maybe"})
