"""What is asked under attack: TPC-H's queries as Spark may plan them; queries of the shapes that
TPC-H does not have, over its tables; and writes that are read back."""

from __future__ import annotations

from dataclasses import dataclass, field

from coffer_testing import tpch
from coffer_testing.answers import Answer

# How the same query is planned: other exchanges, other stages.
PROFILES: dict[str, dict[str, str]] = {
    "adaptive": {},
    "shuffled": {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    },
    "merged": {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.join.preferSortMergeJoin": "true",
        "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
    },
}

QUERIES = range(1, 23)

# Of windows, generators and what goes into arrays: in no order but that of all their columns.
_SHAPES = {
    "windows": "SELECT o_orderkey, sum(o_totalprice) OVER w AS s, lag(o_orderdate) OVER w AS d, "
    "rank() OVER (PARTITION BY o_orderpriority ORDER BY o_totalprice, o_orderkey) AS r FROM orders "
    "WINDOW w AS (PARTITION BY o_custkey ORDER BY o_orderdate, o_orderkey)",
    "group-limit": "SELECT * FROM (SELECT o_custkey, o_orderkey, row_number() OVER "
    "(PARTITION BY o_custkey ORDER BY o_totalprice DESC, o_orderkey) AS n FROM orders) "
    "WHERE n <= 2",
    "explode": "SELECT word, count(*) AS n FROM orders LATERAL VIEW explode(split(o_comment, ' ')) "
    "t AS word GROUP BY word",
    "except-all": "SELECT l_shipmode, l_linenumber FROM lineitem EXCEPT ALL "
    "SELECT l_shipmode, l_linenumber FROM lineitem WHERE l_quantity < 25",
    "collected": "SELECT o_custkey, sort_array(collect_list(o_orderkey)) AS l, "
    "percentile(o_totalprice, 0.5) AS p, sort_array(collect_set(o_orderpriority)) AS s "
    "FROM orders GROUP BY o_custkey",
}

# What a write leaves behind when read back; {table} is a table that the cluster names.
_LOADED = "SELECT * FROM {table}"
_WRITES = {
    "ctas": (
        (),
        "CREATE TABLE {table} USING coffer AS SELECT l_orderkey, l_linenumber, l_comment, "
        "l_extendedprice FROM lineitem"
        " WHERE l_quantity > 45",
    ),
    "ctas-shuffled": (
        (),
        "CREATE TABLE {table} USING coffer AS SELECT o_orderpriority, count(*) AS n, "
        "sum(o_totalprice) AS s FROM orders"
        " GROUP BY o_orderpriority",
    ),
    "insert": (
        ("CREATE TABLE {table} USING coffer AS SELECT n_nationkey AS k, n_name AS s FROM nation",),
        "INSERT INTO {table} SELECT s_suppkey, s_name FROM supplier",
    ),
    "overwrite": (
        ("CREATE TABLE {table} USING coffer AS SELECT n_nationkey AS k, n_name AS s FROM nation",),
        "INSERT OVERWRITE {table} SELECT c_nationkey, max(c_name) FROM customer GROUP BY "
        "c_nationkey",
    ),
    "partitioned": (
        (),
        "CREATE TABLE {table} USING coffer PARTITIONED BY (p) AS SELECT o_orderkey, o_clerk, "
        "o_orderstatus AS p FROM orders"
        " WHERE o_orderkey < 4000",
    ),
}


@dataclass(frozen=True)
class Question:
    """A query and its right answer. Of a write, `sql` is the command under attack, `before` what
    prepares it, and `expected` the table afterwards; `unwritten` is the table when the command
    failed (None: there is no table)."""

    name: str
    sql: str
    conf: dict[str, str] = field(hash=False)
    ordered: bool
    expected: Answer
    before: tuple[str, ...] = ()
    unwritten: Answer | None = None

    @property
    def writes(self) -> bool:
        return "{table}" in self.sql

    @property
    def shaped(self) -> bool:
        """Of a shape that TPC-H does not have."""
        return self.name.partition("/")[0] in _SHAPES


def queries() -> dict[str, str]:
    """TPC-H's texts by name, q01 to q22."""
    return {f"q{number:02}": tpch.query(number) for number in QUERIES}


def shapes() -> dict[str, str]:
    """The others by name."""
    return dict(_SHAPES)


def writes() -> dict[str, tuple[tuple[str, ...], str]]:
    """By name: what is run in peace, and the command that is attacked."""
    return dict(_WRITES)


def read_back(table: str) -> str:
    """The query that shows what a write left."""
    return _LOADED.format(table=table)
