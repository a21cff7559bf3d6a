"""What engines have no part for runs in the driver: the same rows as plaintext Spark's, whatever
operator brings it there, and whatever way they are taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coffer_testing.answers import difference
from coffer_testing.generated import GENERATED
from coffer_testing.joins import JOINS
from coffer_testing.nested import NESTED
from coffer_testing.queries import EDGE, TPCH, Query
from coffer_testing.runner import Driver, QueryFailed, same_error
from coffer_testing.search import search, text
from coffer_testing.turns import one_of
from coffer_testing.windows import WINDOWS
from conftest import Expected, ansi_conf, with_client_tail

FORCE = "spark.coffer.client.tail.force"
TAIL = "spark.coffer.client.tail"

# Functions that only Java has, in each place of a query.
SQL = {
    "project": "SELECT id, format_string('%S', q), k FROM edge",
    "filter": "SELECT id FROM edge WHERE format_string('%S', s) LIKE '%A%' AND k > 1",
    "filter_that_protects": "SELECT id FROM edge "
    "WHERE k <> 0 AND format_string('%S', s) <> '' AND 1 / k > 0",
    "aggregate": "SELECT k, hll_sketch_estimate(hll_sketch_agg(n)), count(*) FROM edge GROUP BY k",
    "over_an_aggregate": "SELECT k, format_string('%S', sum(n)) AS x FROM edge GROUP BY k "
    "HAVING sum(n) > 5 ORDER BY x LIMIT 3",
    "group": "SELECT left(format_string('%S', s), 1) AS x, count(*), sum(n) FROM edge GROUP BY x",
    "distinct": "SELECT count(DISTINCT format_string('%S', s)), count(DISTINCT k) FROM edge",
    "sort": "SELECT id FROM edge ORDER BY format_string('%S', s), id",
    "below_a_limit": "SELECT id, format_string('%S', s) FROM edge ORDER BY id LIMIT 7",
    "inner_join": "SELECT a.id, b.n FROM edge a JOIN events b "
    "ON a.id = b.n AND format_string('%S', a.id) <> format_string('%S', b.q)",
    "outer_join": "SELECT /*+ BROADCAST(b) */ a.id, b.id FROM edge a LEFT JOIN edge b "
    "ON a.id < b.id AND format_string('%S', a.s) = format_string('%S', b.s) WHERE a.id < 30",
    "full_join": "SELECT a.id, b.n FROM edge a FULL JOIN "
    "(SELECT n, g FROM events WHERE n BETWEEN 5 AND 10) b "
    "ON format_string('%S', a.s) = format_string('%S', b.g)",
    "full_join_without_equality": "SELECT a.id, b.n FROM "
    "(SELECT id, s FROM edge WHERE id < 40) a FULL JOIN "
    "(SELECT n, g FROM events WHERE n BETWEEN 5 AND 10) b "
    "ON format_string('%S', a.s) < format_string('%S', b.g) AND a.id > b.n",
    "left_join_of_few": "SELECT a.n, b.id FROM (SELECT n, g FROM events WHERE id < 900) a "
    "LEFT JOIN edge b ON format_string('%S', a.n) < format_string('%S', b.id) AND b.id < 9",
    "right_join_of_few": "SELECT a.id, b.n FROM edge a RIGHT JOIN (SELECT n, g FROM events "
    "WHERE id < 900) b ON format_string('%S', b.n) < format_string('%S', a.id) AND a.id < 9",
    "semi_join_of_few": "SELECT n FROM (SELECT n FROM events WHERE id < 900) a WHERE EXISTS "
    "(SELECT 1 FROM edge b WHERE b.id < 9 "
    "AND format_string('%S', a.n) < format_string('%S', b.id))",
    "anti_join_of_few": "SELECT n FROM (SELECT n FROM events WHERE id < 900) a WHERE NOT EXISTS "
    "(SELECT 1 FROM edge b WHERE b.id < 9 "
    "AND format_string('%S', a.n) > format_string('%S', b.id))",
    "existence_of_few": "SELECT n FROM (SELECT n FROM events WHERE id < 900) a WHERE n = 3 "
    "OR EXISTS (SELECT 1 FROM edge b WHERE b.id < 9 "
    "AND format_string('%S', a.n) > format_string('%S', b.id))",
    "values_in_a_subquery": "SELECT id, concat(format_string('%S', id), (SELECT "
    "max(format_string('%S', x)) FROM VALUES (1), (2) AS v(x))) AS m FROM edge WHERE id < 9",
    "join_that_protects": "SELECT a.id FROM edge a JOIN edge b ON a.id = b.id "
    "AND format_string('%S', a.k) <> '0' AND b.n / a.k > 1",
    "limit_over_a_union": "SELECT id, x FROM (SELECT id, format_string('%S', s) AS x FROM edge "
    "UNION ALL SELECT n, g FROM events WHERE n < 300) ORDER BY x, id LIMIT 9",
    "semi_join": "SELECT id FROM edge WHERE format_string('%S', s) IN "
    "(SELECT format_string('%S', s) FROM edge WHERE k = 1)",
    "anti_join": "SELECT id FROM edge WHERE format_string('%S', s) NOT IN "
    "(SELECT format_string('%S', s) FROM edge WHERE k = 1 AND s IS NOT NULL)",
    "subqueries": "SELECT id, (SELECT max(format_string('%S', n)) FROM edge) AS m FROM edge "
    "WHERE n > (SELECT hll_sketch_estimate(hll_sketch_agg(k)) FROM edge)",
    "window": "SELECT id, hll_sketch_estimate(hll_sketch_agg(n) OVER (PARTITION BY k)) FROM edge "
    "WHERE id < 50",
    "window_over_it": "SELECT id, row_number() OVER (PARTITION BY x ORDER BY id) FROM "
    "(SELECT id, left(format_string('%S', s), 1) AS x FROM edge)",
    "generator": "SELECT explode(sentences(s)), id FROM edge",
    "structs_of_many_batches": "SELECT count(*), max(c), min(c) FROM (SELECT to_csv(x) AS c FROM "
    "(SELECT DISTINCT struct(id, v) AS x FROM events))",
    "union": "SELECT id, to_csv(named_struct('a', id, 'b', s)) FROM edge UNION ALL "
    "SELECT n, g FROM events WHERE n < 10",
    "sketch": "SELECT theta_sketch_estimate(theta_sketch_agg(k)) FROM edge",
    "xml": "SELECT id, xpath_string(concat('<a>', k, '</a>'), 'a') FROM edge",
    "collation": "SELECT count(*) FROM edge WHERE s COLLATE UTF8_LCASE = 'ABC'",
    "variant": "SELECT id, CAST(parse_json(CAST(k AS STRING)) AS INT) FROM edge",
    "sentences": "SELECT id, sentences(s) FROM edge",
}


@pytest.fixture(scope="module")
def sealed(sealed: Driver) -> Iterator[Driver]:
    yield from with_client_tail(sealed)


@pytest.fixture(scope="module")
def clustered(clustered: Driver) -> Iterator[Driver]:
    yield from with_client_tail(clustered)


@pytest.mark.parametrize("name", SQL)
def test_sql(name: str, expected: Expected, sealed: Driver) -> None:
    want, got = expected.answer(SQL[name]), sealed.query(SQL[name])
    assert difference(want, got, ordered=name in ("sort", "below_a_limit")) is None
    assert "CofferClientTail" in plan(sealed, SQL[name])


ERRORS = {
    "in_the_driver": "SELECT id / 0, format_string('%S', s) FROM edge "
    "WHERE format_string('%S', s) <> 'x'",
    "in_the_engine": "SELECT 1 / (id - 5), format_string('%S', id) FROM edge",
    "raised": "SELECT format_string('%S', CAST('a' AS INT) + id) FROM edge",
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_sparks(name: str, expected: Expected, sealed: Driver) -> None:
    with pytest.raises(QueryFailed) as theirs:
        expected.answer(ERRORS[name])
    with pytest.raises(QueryFailed) as ours:
        sealed.query(ERRORS[name])
    assert same_error(theirs.value, ours.value)


# ---- what comes to the driver ------------------------------------------------------------------


def plan(driver: Driver, sql: str) -> str:
    """What EXPLAIN says."""
    return "\n".join(str(row[0]) for row in driver.query(f"EXPLAIN {sql}").rows)


@pytest.mark.parametrize(
    ("name", "comes"),
    [
        ("project", "brought to the driver: id, k, q"),
        ("filter", "brought to the driver: id, s"),
        ("over_an_aggregate", "brought to the driver: k, "),
        ("below_a_limit", "brought to the driver: id, s"),
        ("inner_join", "brought to the driver: "),
    ],
)
def test_engines_do_what_they_can(sealed: Driver, name: str, comes: str) -> None:
    shown = plan(sealed, SQL[name])
    assert comes in shown and "spark.coffer.client.maxBytes: 1024.0 MiB" in shown
    assert shown.count("brought to the driver") == 1
    part = shown.partition("brought to the driver")[2]
    below = {
        "filter": "Filter",
        "over_an_aggregate": "Aggregate",
        "below_a_limit": "Sort",
        "inner_join": "Join",
    }
    assert below.get(name, "Scan") in part


# An early end, and what then still holds rows of the client engine.
ENDS = """
import time
root = spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
bridge = spark._jvm.org.apache.spark.sql.coffer.PythonBridge
def held():
    return [a.getName() for a in root.getChildAllocators() if a.getName() == 'coffer-result']
exec(way)
deadline = time.monotonic() + 60
while (held() or bridge.liveTails()) and time.monotonic() < deadline:
    time.sleep(0.1)
result = [held(), bridge.liveTails()]
"""
EARLY = {
    "take": "assert spark.sql(\"SELECT n FROM events WHERE format_string('%S', g) <> 'x' "
    'LIMIT 3").collect()',
    "iterator": "rows = spark.sql(\"SELECT n, format_string('%S', g) FROM events\")"
    ".toLocalIterator()\nassert next(rows)\nrows.close()",
    "iterator_of_engines": "rows = spark.sql('SELECT * FROM events').toLocalIterator()\n"
    "assert next(rows)\nrows.close()",
    "error": "try:\n"
    "    spark.sql(\"SELECT IF(id < 9000, id, raise_error('planted')), format_string('%S', g) "
    'FROM events").toArrow()\n'
    "    raise AssertionError('no error')\n"
    "except Exception as failed:\n    assert 'planted' in str(failed), failed",
}


@pytest.mark.parametrize("name", EARLY)
def test_what_is_not_read_to_its_end_is_let_go(name: str, sealed: Driver) -> None:
    assert sealed.run(ENDS, way=EARLY[name]) == [[], 0]


def refusal(driver: Driver, code: str) -> str:
    with pytest.raises(QueryFailed) as refused:
        driver.run(code)
    assert refused.value.condition == "COFFER_UNSUPPORTED", refused.value.message
    return refused.value.message


def test_cached_rows_are_not_taken_from_executors(sealed: Driver) -> None:
    code = (
        "few = spark.range(9).cache()\n"
        "try:\n"
        "    few.join(spark.sql(\"SELECT id, format_string('%S', s) FROM edge\"), 'id').collect()\n"
        "finally:\n    few.unpersist()"
    )
    assert "InMemoryRelation" in refusal(sealed, code)


def test_a_sample_is_drawn_as_rand_is(sealed: Driver) -> None:
    drawn = "SELECT * FROM (SELECT format_string('%S', s) AS x FROM edge) TABLESAMPLE (50 PERCENT)"
    assert "Sample" in refusal(sealed, f'spark.sql("{drawn}").collect()')


def test_no_filter_goes_below_what_is_not_deterministic(sealed: Driver) -> None:
    """Spark calls such a function for every row."""
    code = (
        "from pyspark.sql.functions import udf\n"
        "f = udf(lambda x: x, 'bigint')\n"
        "f = f.asNondeterministic() if loose else f\n"
        "df = spark.table('edge').select('k', f('id').alias('x')).where('k > 1')\n"
        "mode = spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString('formatted')\n"
        "text = df._jdf.queryExecution().explainString(mode)\n"
        "result = 'Filter' in text.partition('brought to the driver')[2]"
    )
    assert sealed.run(code, loose=False) and not sealed.run(code, loose=True)


def test_it_can_be_switched_off(sealed: Driver) -> None:
    with pytest.raises(QueryFailed) as refused:
        sealed.query(SQL["project"], {TAIL: "off"})
    assert refused.value.condition == "COFFER_UNSUPPORTED"
    assert "format_string" in refused.value.message


def test_it_is_bounded(sealed: Driver) -> None:
    with pytest.raises(QueryFailed) as refused:
        sealed.query(
            "SELECT n, format_string('%S', g) FROM events", {"spark.coffer.client.maxBytes": "100k"}
        )
    assert refused.value.condition == "too_much_at_client"
    assert "would come there" in refused.value.message  # said before anything has run
    with pytest.raises(QueryFailed) as refused:
        sealed.query(
            "SELECT n, format_string('%S', g) FROM events WHERE n >= 0",
            {"spark.coffer.client.maxBytes": "100k"},
        )
    assert refused.value.condition == "too_much_at_client"
    # What is left after engines have done their part is little.
    small = "SELECT g, format_string('%S', sum(n)) FROM events GROUP BY g"
    assert sealed.query(small, {"spark.coffer.client.maxBytes": "100k"}).rows


# And Spark's own `spark.shuffle.spill.*`, which no session can set.
SPILLS = [
    "spark.sql.windowExec.buffer.spill.threshold",
    "spark.sql.windowExec.buffer.spill.size.threshold",
    "spark.sql.sortMergeJoinExec.buffer.spill.threshold",
    "spark.sql.sortMergeJoinExec.buffer.spill.size.threshold",
    "spark.sql.cartesianProductExec.buffer.spill.threshold",
    "spark.sql.cartesianProductExec.buffer.spill.size.threshold",
    "spark.sql.sessionWindow.buffer.spill.threshold",
    "spark.sql.sessionWindow.buffer.spill.size.threshold",
    "spark.sql.TungstenAggregate.testFallbackStartsAt",
    "spark.sql.codegen.broadcastCleanedSourceThreshold",
]


def test_rows_are_not_spilled_in_clear(sealed: Driver) -> None:
    for key in SPILLS:
        with pytest.raises(QueryFailed) as refused:
            sealed.query(SQL["window"], {key: "10"})
        assert refused.value.condition == "COFFER_CONF" and key in refused.value.message


def test_what_functions_log_is_no_block(sealed: Driver) -> None:
    key = "spark.sql.pyspark.worker.logging.enabled"
    with pytest.raises(QueryFailed) as refused:
        sealed.query(SQL["project"], {key: "true"})
    assert refused.value.condition == "COFFER_CONF" and key in refused.value.message


# ---- only sealed work leaves the driver ---------------------------------------------------------

# The RDDs of all jobs of a query, as the UI draws them, and how many are kept as blocks.
WATCH = """
import re
sc = spark.sparkContext._jsc.sc()
draw = spark._jvm.org.apache.spark.ui.scope.RDDOperationGraph.makeDotFile
def jobs():
    sc.listenerBus().waitUntilEmpty()
    return set(spark.sparkContext._jsc.statusTracker().getJobIdsForGroup(None))
# What the driver's block manager has, in memory and on disk.
bridge = spark._jvm.org.apache.spark.sql.coffer.PythonBridge
def stored():
    return set(bridge.driverBlocks())
before, had = jobs(), stored()
df = spark.sql(sql)
df.collect()
names, stages = set(), 0
for job in jobs() - before:
    for stage in spark.sparkContext._jsc.statusTracker().getJobInfo(job).stageIds():
        stages += 1
        drawn = draw(sc.statusStore().operationGraphForStage(stage))
        names.update(re.findall(r'label="?(?:<[^>]*>)?(\\w+) \\[', drawn))
new = stored() - had
broadcasts = {b.split('_')[1] for b in new if b.startswith('broadcast_')}
# What engines are sent of each other, sealed.
sealed = df._jdf.queryExecution().executedPlan().toString().count('CofferBroadcastExchange')
result = {
    'names': sorted(names), 'kept': len(sc.getRDDStorageInfo()),
    'more': len(broadcasts) - stages - sealed,
    'blocks': sorted(b for b in new if not b.startswith('broadcast_')),
}
"""


SEALED = {"SealedRDD"}
SEALED_BLOCK = re.compile(r"(shuffle|taskresult)_\d+")


@pytest.mark.parametrize("name", SQL)
def test_only_sealed_work_leaves_the_driver(name: str, sealed: Driver) -> None:
    seen = sealed.run(WATCH, sql=SQL[name])
    assert seen["names"] and set(seen["names"]) <= SEALED and seen["kept"] == 0
    # A stage's tasks are broadcast, its fragment in them sealed, and what engines send each other;
    # nothing else is.
    assert seen["more"] <= 0
    assert all(SEALED_BLOCK.match(block) for block in seen["blocks"]), seen["blocks"]


# ---- each operator in turn ---------------------------------------------------------------------

# Operators of a query as Spark has optimised it: what can be forced of it.
OPERATORS = """
import re
text = spark.sql(sql)._jdf.queryExecution().optimizedPlan().toString()
names = {m.group(1) for m in re.finditer(r'^[ :+|-]*([A-Z]\\w*)', text, re.M)}
result = ['*', *sorted(n for n in names if not n.startswith(('Relation', 'CTE')))]
"""
QUERIES = [q for q in EDGE + WINDOWS + NESTED + JOINS + TPCH + GENERATED if q.error is None]


def forced(query: Query, operator: str, expected: Expected, sealed: Driver) -> str | None:
    ansi = query.ansi[0]
    want = expected.answer(query.sql, ansi)
    got = sealed.query(query.sql, {**ansi_conf(ansi), FORCE: operator})
    return difference(want, got, ordered=query.ordered)


@pytest.mark.parametrize(
    ("query", "turn"),
    one_of([pytest.param(q, n, id=q.name) for n, q in enumerate(QUERIES)], 24),
)
def test_forced(query: Query, turn: int, expected: Expected, sealed: Driver) -> None:
    """At one of the query's operators, by turns."""
    operators = sealed.run(OPERATORS, sql=query.sql)
    operator = operators[turn // 24 % len(operators)]
    assert forced(query, operator, expected, sealed) is None, operator


@pytest.mark.full
@pytest.mark.parametrize("query", [pytest.param(q, id=q.name) for q in QUERIES])
def test_forced_at_each_operator(query: Query, expected: Expected, sealed: Driver) -> None:
    wrong = {}
    for operator in sealed.run(OPERATORS, sql=query.sql):
        if (found := forced(query, operator, expected, sealed)) is not None:
            wrong[operator] = found
    assert not wrong


# ---- on a cluster ------------------------------------------------------------------------------


@pytest.mark.cluster
@pytest.mark.parametrize("name", ["over_an_aggregate", "inner_join", "subqueries", "window"])
def test_cluster(name: str, expected: Expected, clustered: Driver) -> None:
    assert difference(expected.answer(SQL[name]), clustered.query(SQL[name]), ordered=False) is None


@pytest.mark.cluster
@pytest.mark.parametrize("way", ["rdd.collect()", "_jdf.toJavaRDD().count()"])
def test_rows_of_jobs_are_refused_on_a_cluster(way: str, clustered: Driver) -> None:
    """Under a local master they are the driver's own (test_dataframes.py)."""
    with pytest.raises(QueryFailed) as failed:
        clustered.run(f"spark.table('edge').{way}")
    assert failed.value.condition == "COFFER_ROWS_ON_EXECUTORS"


PLANTED = "planted-in-the-tail"


@pytest.mark.cluster
def test_nothing_of_it_is_on_disk(base: Path, clustered: Driver, tmp_path: Path) -> None:
    """Values that the driver has in the clear are in no file of executors, and in none of Spark's
    temporary files at the driver."""
    word = f"concat('{PLANTED}-', format_string('%S', CAST(n AS STRING)))"
    for sql in (
        f"SELECT {word} AS w, count(*) FROM events GROUP BY w ORDER BY w",
        f"SELECT w, row_number() OVER (ORDER BY w) FROM (SELECT {word} AS w FROM events)",
        f"SELECT count(*) FROM (SELECT {word} AS w FROM events) a JOIN "
        f"(SELECT {word} AS w FROM events WHERE n < 100) b ON a.w = b.w",
    ):
        assert clustered.query(sql).rows
    local = Path(
        clustered.run(
            "result = spark._jvm.org.apache.spark.util.Utils.getLocalDir("
            "spark.sparkContext._jsc.sc().conf())"
        )
    )
    (tmp_path / "control").write_text(PLANTED)
    assert search([tmp_path], [text(PLANTED)])[0]
    hits, _ = search([base / "cluster", local], [text(PLANTED)])
    assert not hits
