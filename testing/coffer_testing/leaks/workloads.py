"""The queries: each workload is a list of things that a user does, the same in the clear and
sealed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coffer_testing.leaks import planted
from coffer_testing.leaks.planted import (
    COLUMN,
    DATA,
    DAY,
    LITERAL,
    LITERAL_NUMBER,
    LITERAL_WIDE,
    MOMENT,
    PARTITION,
    SPOKEN,
)
from coffer_testing.runner import Driver, QueryFailed

# Nothing is broadcast when it is planned; then joins become broadcasts as sizes are known.
SWITCH = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "10m",
}
# Nothing is ever broadcast; what is larger than a few kilobytes counts as skewed and is split; the
# rest is coalesced.
SKEW = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "65536",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "32768",
    "spark.sql.adaptive.forceOptimizeSkewedJoin": "true",
    "spark.sql.shuffle.partitions": "8",
}

_PLAN = """
before = {key: spark.conf.get(key, None) for key in conf}
for key, value in conf.items():
    spark.conf.set(key, value)
frame = spark.sql(sql)
frame.collect()
for key, value in before.items():
    spark.conf.unset(key) if value is None else spark.conf.set(key, value)
result = frame._jdf.queryExecution().executedPlan().toString()
"""

# How many tasks were started so far.
_TASKS = """
context = spark.sparkContext._jsc.sc()
context.listenerBus().waitUntilEmpty()
executors = context.statusStore().executorList(False)
result = sum(executors.apply(i).totalTasks() for i in range(executors.size()))
"""


@dataclass
class Session:
    """A running driver, the format of the tables it writes, and a count of what was asked of it."""

    driver: Driver
    format: str
    folder: Path
    observe: Callable[[str], None]  # called in the middle of something that goes on
    store: str = ""  # the URL below which tables of a store lie
    queries: int = 0
    failed: int = 0
    rows: int = 0

    def ask(self, sql: str, conf: dict[str, str] | None = None) -> None:
        """A query that must succeed."""
        self.queries += 1
        self.rows += len(self.driver.query(sql, conf).rows)

    def fails(
        self, sql: str, *classes: str, at_driver: bool = False, refused: bool = False
    ) -> None:
        """A query that must fail, with an error of one of these classes; in tasks, where executors
        learn of it, unless it fails `at_driver` before there are any. Coffer does not support what
        is `refused`, and says so before as well."""
        if refused and self.format == "coffer":
            classes, at_driver = ("COFFER_UNSUPPORTED",), True
        self.queries += 1
        before = self.driver.run(_TASKS)
        try:
            self.driver.query(sql)
        except QueryFailed as error:
            named = re.search(
                r"\[?\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b", error.condition or error.message
            )
            if named is None or named.group(1) not in classes:
                raise AssertionError(
                    f"this query should have failed with {' or '.join(classes)}: {sql}: "
                    f"{error.message}"
                ) from error
        else:
            raise AssertionError(f"this query should have failed: {sql}")
        ran = self.driver.run(_TASKS) - before
        if at_driver != (ran == 0):
            raise AssertionError(
                f"{ran} tasks were started for this query, which should fail in them or before: "
                f"{sql}"
            )
        self.failed += 1

    def planned(self, sql: str, conf: dict[str, str], word: str) -> None:
        """A query whose plan, as AQE left it, must hold `word`."""
        plan = str(self.run(_PLAN, sql=sql, conf=conf))
        if word not in plan:
            raise AssertionError(f"AQE did not do what it should ({word}): {plan}")

    def run(self, code: str, **names: object) -> object:
        self.queries += 1
        return self.driver.run(code, **names)


def tpch(
    session: Session, numbers: range = range(1, 23), conf: dict[str, str] | None = None
) -> None:
    for number in numbers:
        session.ask(planted.tpch_query(number), conf)


def adaptive(session: Session) -> None:
    """All 22 queries with joins that AQE turns into broadcasts; those with joins of large sides
    with skewed ones too."""
    tpch(session, conf=SWITCH)
    for number in (3, 5, 9, 18, 21):
        session.ask(planted.tpch_query(number), SKEW)
    session.planned(planted.tpch_query(3), SWITCH, "BroadcastHashJoin")
    session.planned(_SKEWED, SKEW, "skewed")
    many = {"spark.sql.adaptive.coalescePartitions.initialPartitionNum": "16"}
    session.planned(
        "SELECT l_comment, count(*) FROM lineitem GROUP BY l_comment LIMIT 5", many, "coalesced"
    )
    session.ask(planted.tpch_query(3), {"spark.sql.adaptive.enabled": "false"})


# Most lines belong to one order; the union gives more than one map task, among which its partition
# can be split.
_LINES = " UNION ALL ".join(
    f"SELECT CASE WHEN l_linenumber < 6 THEN {planted.KEYS + 1}L ELSE l_orderkey END AS k, "
    f"l_comment FROM lineitem "
    f"WHERE l_partkey % 4 = {part}"
    for part in range(4)
)
_SKEWED = (
    f"SELECT count(*), max(l_comment), max(o_comment) FROM ({_LINES}) JOIN orders ON k = "
    f"o_orderkey "
    f"WHERE o_comment <> '{LITERAL}-skew'"
)


def literals(session: Session) -> None:
    """Values that are in the queries, by each of the ways they get there."""
    conditions = [
        f"{COLUMN} = '{LITERAL}-1' OR number = {LITERAL_NUMBER}L",
        f"{COLUMN} LIKE '{DATA}-amber-1%' AND tag <> '{LITERAL}-2'",
        f"number IN ({planted.NUMBERS[0]}L, {LITERAL_NUMBER}L, 3L)",
        f"wide = {LITERAL_WIDE}BD OR wide > {planted.WIDE}BD - 1",
        f"ratio >= {planted.RATIO!r}D",
        f"day = DATE'{DAY}' AND moment <= TIMESTAMP'{MOMENT:%Y-%m-%d %H:%M:%S.%f}'",
        f"size = {next(iter(planted.SIZES.values()))}",
        f"concat({COLUMN}, '{LITERAL}-3') IN ('{DATA}-amber-7{LITERAL}-3', '{LITERAL}-4')",
        f"{COLUMN} = (SELECT max({COLUMN}) FROM secret WHERE number <> {LITERAL_NUMBER}L)",
        f"EXISTS (SELECT 1 FROM supplier WHERE s_suppkey = id + {planted.KEYS}L)",
    ]
    for condition in conditions:
        session.ask(
            f"SELECT {COLUMN}, count(*), max(number), min(wide) FROM secret WHERE {condition} "
            f"GROUP BY {COLUMN}"
        )
    # Plain columns, so that rows of one field and boxed values come about.
    session.ask(f"SELECT size FROM secret WHERE {COLUMN} LIKE '{DATA}%' ORDER BY id LIMIT 500")
    session.ask("SELECT day, moment, ratio, wide, number, tag FROM secret ORDER BY id LIMIT 500")
    session.ask(f"SELECT DISTINCT {COLUMN} AS `{LITERAL}-alias` FROM secret ORDER BY 1")
    session.ask(
        f"SELECT s.id, v.x FROM secret s JOIN (VALUES ('{DATA}-amber-3', '{LITERAL}-5')) v(k, x) "
        f"ON s.{COLUMN} = v.k"
    )
    session.ask(f"SELECT {COLUMN} FROM secret UNION SELECT '{LITERAL}-6'")

    spoken = """
import builtins
sc = spark.sparkContext
sc.setJobDescription(sql)
sc.setJobGroup(spoken + '-group', spoken + '-what the group is for')
spark.conf.set('spark.leaks.note', literal + '-7')
spark.sql(
    f"CREATE OR REPLACE TEMPORARY VIEW noted AS SELECT * FROM secret WHERE tag <> '{literal}-8'"
)
spark.sql(f"DECLARE OR REPLACE VARIABLE note STRING DEFAULT '{literal}-9'")
spark.sql(
    f"SELECT count(*) FROM noted WHERE tag <> note AND tag <> '${{spark.leaks.note}}'"
).collect()
frame = spark.sql(sql)
frame.count(); frame.take(3); frame.show(3); frame.explain(True)
list(zip(range(5), frame.sort('number').limit(5).collect()))
sc.setLocalProperty('spark.job.description', None); sc.setLocalProperty('spark.jobGroup.id', None)
spark.conf.unset('spark.leaks.note')
"""
    session.run(
        spoken, sql=f"SELECT * FROM secret WHERE number <> {LITERAL_NUMBER}L AND tag "
        f"<> '{LITERAL}-10'", literal=LITERAL,
        spoken=SPOKEN,
    )  # fmt: skip


def writes(session: Session) -> None:
    make = f"USING {session.format}"
    session.ask(
        f"CREATE TABLE copied {make} COMMENT '{SPOKEN}-comment' AS SELECT * FROM secret WHERE tag "
        f"<> '{LITERAL}-11'"
    )
    session.ask(f"INSERT INTO copied SELECT * FROM secret WHERE {COLUMN} = '{DATA}-amber-5'")
    session.ask(f"CREATE TABLE small (a BIGINT, b STRING, c INT) {make}")
    session.ask(
        f"INSERT INTO small VALUES ({LITERAL_NUMBER}L, '{LITERAL}-12', {planted.SIZES[15]}), "
        f"(7, '{DATA}-x', 1)"
    )
    session.ask(
        f"INSERT OVERWRITE small SELECT number, {COLUMN}, size FROM secret ORDER BY {COLUMN}, "
        f"number"
    )
    session.ask(
        f"CREATE TABLE parted {make} PARTITIONED BY (tag) AS SELECT number, {COLUMN}, tag FROM "
        f"secret"
    )
    dynamic = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
    session.ask(
        f"INSERT OVERWRITE parted SELECT number, 'x', tag FROM secret WHERE tag = '{PARTITION}-1'",
        dynamic,
    )
    session.ask(
        f"CREATE TABLE revenue {make} AS SELECT l_orderkey, l_comment, l_extendedprice, o_comment "
        f"FROM lineitem JOIN orders "
        "ON l_orderkey = o_orderkey WHERE l_quantity > 20"
    )
    session.run(
        "spark.table('secret').write.format(format).mode('overwrite')"
        ".partitionBy('tag').save(path)",
        format=session.format,
        path=str(session.folder / "saved"),
    )
    session.ask(
        f"SELECT b, count(*), max(a) FROM small WHERE b <> '{LITERAL}-13' GROUP BY b ORDER BY b"
    )
    session.ask(f"SELECT tag, count(*), min({COLUMN}) FROM parted GROUP BY tag")


def store(session: Session) -> None:
    """Tables that lie on a store: read, made, partitioned, changed."""
    at = f"USING {session.format} LOCATION '{session.store}"
    session.ask(
        f"SELECT {COLUMN}, count(*), max(number) FROM secret "
        f"WHERE {COLUMN} LIKE '{DATA}-amber-1%' AND tag <> '{LITERAL}-34' GROUP BY {COLUMN}"
    )
    session.ask(
        f"SELECT n_name, count(*) FROM nation JOIN supplier ON s_nationkey = n_nationkey "
        f"WHERE n_name = '{DATA}FRANCE' GROUP BY n_name"
    )
    session.ask(
        f"CREATE TABLE there {at}/there' AS SELECT * FROM secret WHERE tag <> '{LITERAL}-35'"
    )
    session.ask(f"INSERT INTO there SELECT * FROM secret WHERE {COLUMN} = '{DATA}-amber-5'")
    session.ask(f"SELECT count(*), min({COLUMN}) FROM there WHERE number <> {LITERAL_NUMBER}L")
    session.ask(
        f"CREATE TABLE there_parted {at}/parted' PARTITIONED BY (tag) AS "
        f"SELECT number, {COLUMN}, tag FROM secret"
    )
    session.ask(f"SELECT tag, count(*) FROM there_parted WHERE tag = '{PARTITION}-1' GROUP BY tag")


def failed(session: Session) -> None:
    """Errors whose message names a planted value, of the data or of the query. Each is limited to
    the rows that hold planted values: of others it would name something else."""
    planted_rows = f"{COLUMN} LIKE '{DATA}%'"
    wrong = [
        (f"SELECT CAST({COLUMN} AS INT) FROM secret WHERE {planted_rows}", "CAST_INVALID_INPUT"),
        ("SELECT CAST(number AS INT) FROM secret WHERE number > 5", "CAST_OVERFLOW"),
        ("SELECT number * 9 FROM secret WHERE number > 5", "ARITHMETIC_OVERFLOW"),
        (
            "SELECT CAST(wide AS DECIMAL(12, 2)) FROM secret WHERE wide > 8",
            "NUMERIC_VALUE_OUT_OF_RANGE",
        ),
        (f"SELECT CAST({COLUMN} AS DATE) FROM secret WHERE {planted_rows}", "CAST_INVALID_INPUT"),
        (
            f"SELECT id FROM secret WHERE {COLUMN} = (SELECT {COLUMN} FROM secret)",
            "SCALAR_SUBQUERY_TOO_MANY_ROWS",
        ),
        (
            f"SELECT count(*) FROM secret WHERE {planted_rows} GROUP BY CAST({COLUMN} AS INT)",
            "CAST_INVALID_INPUT",
        ),
        (
            f"SELECT a.id FROM secret a JOIN secret b ON a.id = b.id AND CAST(a.{COLUMN} AS INT) "
            f"= b.size "
            f"WHERE a.{planted_rows}",
            "CAST_INVALID_INPUT",
        ),
        (
            f"INSERT INTO small SELECT number * 9, {COLUMN}, size FROM secret WHERE number > 5",
            "ARITHMETIC_OVERFLOW",
        ),
        (
            f"CREATE TABLE unmade USING {session.format} AS SELECT CAST({COLUMN} AS INT) AS a "
            f"FROM secret "
            f"WHERE {planted_rows}",
            "CAST_INVALID_INPUT",
        ),
    ]
    for sql, of in wrong:
        session.fails(sql, of)
    session.fails(
        f"SELECT assert_true({COLUMN} = '{LITERAL}-16') FROM secret",
        "USER_RAISED_EXCEPTION",
    )
    # Coffer's engine says it in its own words: a file that is not there is one of those that a host
    # may have taken away.
    session.fails(
        f"SELECT * FROM gone WHERE n_name = '{DATA}FRANCE'",
        "FAILED_READ_FILE",
        "COFFER_FILE_MISSING",
    )
    # What Spark finds wrong as it plans.
    session.fails(
        f"SELECT CAST('{LITERAL}-14' AS INT) + id FROM secret", "CAST_INVALID_INPUT", at_driver=True
    )
    session.fails(f"SELECT `{LITERAL}-15` FROM secret", "UNRESOLVED_COLUMN", at_driver=True)


_FUNCTIONS = """
import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.functions import pandas_udf, udf

told = udf(lambda value: f"{value} told {literal}-30", "string")
longer = pandas_udf(lambda values: values + f" {literal}-31", "string")
first = spark.table("secret").where(f"{column} LIKE '{data}%'")
first.select(told(column), longer(column), "number").collect()
first.select(longer(F.max(column))).collect()
given = spark.createDataFrame([(f"{data}-amber-3", f"{literal}-32")], "k string, x string")
first.join(given, first[column] == given.k).select("x", told("x")).collect()
first.select(column, "number").groupBy(column).applyInPandas(
    lambda rows: pd.DataFrame({"n": [len(rows)], "v": [rows[column].iloc[0]]}), "n long, v string"
).collect()
seen = []
for row in first.limit(20).toLocalIterator():
    seen.append(row[column])
first.select(column, "wide").toPandas()
result = len(seen)
"""
_RAISES = """
from pyspark.sql.functions import udf

def complain(value):
    raise ValueError(f"{literal}-33 {value}")

try:
    spark.table("secret").where(f"{column} LIKE '{data}%'").select(
        udf(complain, "string")(column)).collect()
    result = ""
except Exception as error:
    result = str(error)
"""


def tail(session: Session) -> None:
    """What Coffer runs at the client: functions of Java's alone, users' functions, rows that a user
    has. In the clear executors run all of it."""
    for sql in (
        f"SELECT format_string('%s {LITERAL}-27', {COLUMN}), count(*) FROM secret "
        f"WHERE {COLUMN} LIKE '{DATA}%' GROUP BY {COLUMN} ORDER BY 1",
        f"SELECT x, count(*) FROM (SELECT to_csv(named_struct('a', {COLUMN}, 'b', number)) AS x "
        f"FROM secret WHERE number > 5) WHERE x <> '{LITERAL}-28' GROUP BY x",
        f"SELECT id, format_string('%d', number) AS t FROM secret WHERE {COLUMN} <> "
        f"'{LITERAL}-29' ORDER BY t, id LIMIT 50",
    ):
        session.ask(sql)
    names = {"column": COLUMN, "data": DATA, "literal": LITERAL}
    if not session.run(_FUNCTIONS, **names):
        raise AssertionError("the functions saw no rows")
    said = str(session.run(_RAISES, **names))
    if f"{LITERAL}-33 {DATA}" not in said:
        raise AssertionError(f"the function should have failed with its own words: {said}")
    session.failed += 1


_CACHED = """
frame = spark.sql(sql).persist()
frame.count(), frame.groupBy(column).count().collect()
frame.join(spark.table("secret"), column).limit(5).collect()
kept = frame.select(column, "number").localCheckpoint()
kept.where(kept.number > 5).collect()
frame.unpersist()
"""


def shapes(session: Session) -> None:
    """Windows, generators, pivots, planted values in arrays, maps and structs, and rows that are
    cached."""
    few = f"{COLUMN} LIKE '{DATA}%' AND id < 2000"
    nested = (
        f"(SELECT id, size, array({COLUMN}, concat({COLUMN}, '{LITERAL}-34')) AS l, "
        f"map({COLUMN}, number, '{LITERAL}-35', {LITERAL_NUMBER}L) AS m, "
        f"named_struct('c', {COLUMN}, 'w', wide, 'd', day) AS s FROM secret WHERE {few})"
    )
    for sql in (
        f"SELECT id, lag({COLUMN}, 1, '{LITERAL}-36') OVER (PARTITION BY size ORDER BY number, id),"
        f" max(wide) OVER (PARTITION BY {COLUMN} ORDER BY id ROWS 3 PRECEDING) "
        f"FROM secret WHERE {few}",
        f"SELECT * FROM (SELECT {COLUMN}, number, row_number() OVER (PARTITION BY size "
        f"ORDER BY {COLUMN}, id) AS n FROM secret) WHERE n <= 2",
        f"SELECT v, count(*) FROM {nested} LATERAL VIEW explode(l) t AS v GROUP BY v",
        f"SELECT k, v, pos FROM {nested} LATERAL VIEW posexplode(map_entries(m)) t AS pos, e "
        "LATERAL VIEW inline(array(e)) u AS k, v",
        f"SELECT s, count(*), max(l), min(size(m)) FROM {nested} GROUP BY s ORDER BY s",
        f"SELECT a.id, a.l FROM {nested} a JOIN {nested} b ON a.l = b.l AND a.id < b.id",
        f"SELECT * FROM (SELECT size % 3 AS k, {COLUMN}, number FROM secret WHERE {few}) "
        f"PIVOT (max({COLUMN}) FOR k IN (0, 1, 2))",
        f"SELECT size, collect_list({COLUMN}), collect_set(number), percentile(ratio, 0.5) "
        f"FROM secret WHERE {few} GROUP BY size",
        f"SELECT {COLUMN}, number FROM secret EXCEPT ALL SELECT '{LITERAL}-37', number FROM secret",
        f"SELECT stack(2, {COLUMN}, number, '{LITERAL}-38', id) FROM secret WHERE {few}",
    ):
        session.ask(sql)
    session.run(
        _CACHED,
        sql=f"SELECT {COLUMN}, number, wide FROM secret WHERE tag <> '{LITERAL}-39'",
        column=COLUMN,
    )
    session.ask(f"CACHE TABLE held AS SELECT {COLUMN}, day, moment FROM secret WHERE {few}")
    session.ask(f"SELECT max({COLUMN}), max(day), max(moment) FROM held")
    session.ask("UNCACHE TABLE held")


# Pairs of rows by the thousand million: minutes, if it is let.
_LONG = (
    f"SELECT count(*), max(concat(a.l_comment, b.l_comment)) FROM lineitem a JOIN lineitem b ON "
    f"a.l_comment < b.l_comment "
    f"AND a.l_extendedprice <> b.l_extendedprice AND a.l_shipmode <> '{LITERAL}-17'"
)
_BEGIN = """
import builtins, threading, time
def body():
    try:
        builtins.long_end = f'{len(spark.sql(sql).collect())} rows'
    except Exception as error:
        builtins.long_end = 'error: ' + str(error)
builtins.long_thread = threading.Thread(target=body)
builtins.long_thread.start()
tracker, deadline = spark.sparkContext.statusTracker(), time.monotonic() + 60
def active():
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return any(stage and stage.numActiveTasks and 'sealed' for stage in stages)
quiet = time.monotonic() + 3
while time.monotonic() < deadline and (not active() or time.monotonic() < quiet):
    time.sleep(0.05)
result = active()
"""
_CANCEL = """
import builtins
spark.sparkContext.cancelAllJobs()
builtins.long_thread.join(60)
result = None if builtins.long_thread.is_alive() else builtins.long_end
"""


def cancelled(session: Session) -> None:
    """A long query, looked at while it runs, and cancelled."""
    if not session.run(_BEGIN, sql=_LONG):
        raise AssertionError("the long query is not running: there is nothing to cancel")
    session.observe("running")
    end = session.run(_CANCEL)
    if not str(end).startswith("error: "):
        raise AssertionError(f"the long query should have been cancelled, but: {end}")
    session.failed += 1


def spilling(session: Session) -> None:
    """What does not fit into the memory it is given: sorts, merge joins, groups."""
    many = " UNION ALL ".join(["SELECT * FROM lineitem"] * 6)
    session.ask(
        f"CREATE TABLE sorted USING {session.format} AS SELECT * FROM ({many}) ORDER BY "
        f"l_comment, l_orderkey"
    )
    session.ask(
        f"SELECT count(*), max(a.l_comment) FROM ({many}) a JOIN lineitem b "
        "ON a.l_comment = b.l_comment AND a.l_orderkey = b.l_orderkey",
        {
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
        },
    )
    session.ask(
        f"SELECT count(*) FROM (SELECT l_comment, l_partkey, count(*) FROM ({many}) GROUP BY "
        f"l_comment, l_partkey)"
    )
