"""What is asked under attack: TPC-H's queries as Spark may plan them, and writes that are read
back."""

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


def queries() -> dict[str, str]:
    """TPC-H's texts by name, q01 to q22."""
    return {f"q{number:02}": tpch.query(number) for number in QUERIES}


def writes() -> dict[str, tuple[tuple[str, ...], str]]:
    """By name: what is run in peace, and the command that is attacked."""
    return dict(_WRITES)


def read_back(table: str) -> str:
    """The query that shows what a write left."""
    return _LOADED.format(table=table)
