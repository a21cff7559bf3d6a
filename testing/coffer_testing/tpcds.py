"""TPC-DS: rows by `tpcgen-cli`, tables and query texts from Spark's own test jar.

The tables are Spark's (`TPCDSSchema`), CHAR and VARCHAR columns included, and plaintext Spark has
written them, so that values are padded as it pads them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coffer._find import cache_dir
from coffer_testing import made, spark_tests
from coffer_testing.answers import Answer, Digested
from coffer_testing.kept import Answers
from coffer_testing.runner import Driver, QueryFailed

_REQUIREMENTS = Path(__file__).parents[1] / "requirements.txt"

_V1_4 = [
    f"q{number}{letter}"
    for number in range(1, 100)
    for letter in ("ab" if number in (14, 23, 24, 39) else [""])
]
_V2_7 = """
q5a q6 q10a q11 q12 q14 q14a q18a q20 q22 q22a q24 q27a q34 q35 q35a q36a q47 q49 q51a q57 q64 q67a
q70a q72 q74 q75 q77a q78 q80a q86a q98
"""

QUERIES: dict[str, str] = {
    **{name: f"tpcds/{name}.sql" for name in _V1_4},
    **{f"{name}_v2.7": f"tpcds-v2.7.0/{name}.sql" for name in _V2_7.split()},
}
"""The files of the jar by the names that queries have here."""

NEW = [name for name in QUERIES if name.removesuffix("_v2.7") not in _V1_4 or name in _V1_4]
"""Those that no query of an earlier version is much like."""

APPROXIMATE = {"q17": 1e-12, "q39a": 1e-12, "q39b": 1e-12}
"""Queries of standard deviations: plaintext Spark's depend on the order of rows, and Coffer's are
rounded once (docs/decisions/0020). They are the same within this, relatively."""

TABLES = (
    "call_center",
    "catalog_page",
    "catalog_returns",
    "catalog_sales",
    "customer",
    "customer_address",
    "customer_demographics",
    "date_dim",
    "household_demographics",
    "income_band",
    "inventory",
    "item",
    "promotion",
    "reason",
    "ship_mode",
    "store",
    "store_returns",
    "store_sales",
    "time_dim",
    "warehouse",
    "web_page",
    "web_returns",
    "web_sales",
    "web_site",
)

# By position: the generator's keys are wider, and two of its columns have other names. By way of a
# table of Spark's catalog, since only what is read from one has CHAR and VARCHAR in its files'
# metadata. Of each large table several files, or a small scale would be one partition; in the order
# of the rows, by which files differ in their dates.
_WRITE = """
for name, columns in definitions.items():
    spark.sql(f"create table {name} ({columns}) using parquet")
    spark.sql(f"insert into {name} select * from parquet.`{raw}/{name}.parquet`")
    table = spark.table(name)
    rows = max(fewest, -(-table.count() // 4))
    table.write.option("maxRecordsPerFile", rows).parquet(f"{folder}/{name}")
    spark.sql(f"drop table {name}")
"""


def data(scale: str) -> dict[str, Path]:
    """TPC-DS's tables at that scale as Spark writes them in Parquet, by name: made once, then kept
    in Coffer's cache folder."""
    definitions = schema()
    [generator] = re.findall(r"^tpcgen-cli==\S+", _REQUIREMENTS.read_text(), re.MULTILINE)
    digest = _digest([generator, spark_tests.SPARK, _WRITE, definitions])

    def make(folder: Path) -> None:
        raw = folder / "raw"
        command = [made.program("tpcgen-cli"), "tpcds", "parquet", "-s", scale, "--quiet"]
        command += ["--output-dir", str(raw)]
        subprocess.run(command, check=True, stdout=sys.stderr, timeout=900)
        with Driver(
            {},
            sealed=False,
            log=folder / "log",
            conf={
                "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
                "spark.sql.files.maxPartitionBytes": "1g",  # one task writes a table
                "spark.local.dir": str(folder / "scratch"),
            },
        ) as spark:
            spark.run(
                _WRITE,
                definitions=definitions,
                raw=str(raw),
                folder=str(folder),
                fewest=30_000,
            )
        for name in ("raw", "spark-warehouse", "scratch"):
            made.remove(folder / name)

    folder = made.once(cache_dir() / "tpcds" / f"sf{scale}-{digest}", make)
    return {name: folder / name for name in TABLES}


def schema() -> dict[str, str]:
    """The columns of each table as Spark's own tests declare them, as DDL."""
    constants = spark_tests.strings("org.apache.spark.sql.TPCDSSchema")
    found = dict(itertools.pairwise(constants))
    return {name: " ".join(found[name].replace("|", "").split()) for name in TABLES}


def query(name: str) -> str:
    """The text of one of `QUERIES` as Spark's own tests have it."""
    return spark_tests.text(QUERIES[name])


def total_order(sql: str, columns: int) -> str:
    """The query with its rows in one order only: where its own ORDER BY leaves ties, all its
    columns decide. Else many answers would be right ones, and not only in their order, as most of
    the queries end with LIMIT 100."""
    clause = _last_order_by(sql)
    if clause is None:
        return sql
    limit = re.search(r"\blimit\s+\d+\s*$", sql, re.IGNORECASE)
    end = limit.start() if limit else len(sql)
    more = ", ".join(str(number) for number in range(1, columns + 1))
    return f"{sql[:end].rstrip()}\n, {more}\n{sql[end:]}"


def is_ordered(sql: str) -> bool:
    """Whether the query says in which order its rows come."""
    return _last_order_by(sql) is not None


def _last_order_by(sql: str) -> int | None:
    """Where the ORDER BY of the whole query begins: outside of parentheses, quotes and comments."""
    depth, found = 0, None
    for token in re.finditer(r"'[^']*'|--[^\n]*|[()]|\border\s+by\b", sql, re.IGNORECASE):
        match token.group()[0]:
            case "(":
                depth += 1
            case ")":
                depth -= 1
            case "o" | "O" if depth == 0:
                found = token.start()
    return found


class Expected:
    """Plaintext Spark's answers, each asked for once (`coffer_testing.kept`). `start` starts
    plaintext Spark over the tables."""

    def __init__(self, tables: dict[str, Path], start: Callable[[], Driver]) -> None:
        # Named after all that makes the tables.
        folder = next(iter(tables.values())).parent
        self._answers = Answers("tpcds", folder.name, {}, start, _ask)

    def query(self, name: str) -> tuple[str, Answer | Digested | str]:
        """The query with its rows in one order, and its answer; or the condition of the error that
        Spark ends it with."""
        sql = query(name)
        try:
            answer = self._answers.query(sql, {})
        except QueryFailed as failed:
            if failed.condition is None:
                raise
            return sql, failed.condition
        return total_order(sql, len(answer.schema)), answer


def _ask(spark: Driver, sql: str, conf: Mapping[str, str]) -> Answer:
    return spark.query(total_order(sql, column_count(sql, spark)), dict(conf))


def column_count(sql: str, spark: Driver) -> int:
    """How many columns the query has."""
    return int(spark.run("result = len(spark.sql(sql).columns)", sql=sql))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]
