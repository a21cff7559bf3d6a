"""The planner's own word on a policy: Spark with Coffer's extensions, over tables that are only
imagined.

There is no key, no engine and no data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from coffer._find import find_jar
from coffer.advise.command import AdviseError
from coffer.advise.protections import Protections
from coffer.advise.tables import Table
from coffer.session import EXTENSIONS


@dataclass(frozen=True)
class Choice:
    """What a column is stored as. `link`: it is comparable with the columns of equal link;
    `narrow`: `ope` fits 8 bytes."""

    protections: tuple[str, ...]
    link: str = ""
    narrow: bool = False


ColumnRef = tuple[str, str]
"""Table and column."""

Policy = Mapping[ColumnRef, Choice]
"""Columns that are not there are `tee`."""


@dataclass(frozen=True)
class Use:
    """One thing that a statement computes on a column; `kind` and `other` as in Scala's
    `ColumnUses`. `partner`: of a join or comparison the other column, if it is a table's."""

    ref: ColumnRef
    kind: str
    other: str
    partner: ColumnRef | None = None


@dataclass(frozen=True)
class Understood:
    """A statement as Spark reads it. `command`: it gives no rows, such as CREATE VIEW."""

    refusal: str | None
    command: bool
    uses: tuple[Use, ...]
    tables: tuple[str, ...]


@dataclass(frozen=True)
class Brought:
    """A part of a query that comes to the client. `values`: bytes of the values themselves;
    `bytes`: as they come; `work`: operators in engines below it; `encodings`: table, column and
    protection of the stored columns that these work on."""

    rows: float
    values: float
    bytes: float
    columns: tuple[str, ...]
    work: tuple[str, ...]
    encodings: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Weighed:
    """A statement under a policy: what comes to the client, and which operators run there; or why
    it cannot run."""

    refusal: str | None
    parts: tuple[Brought, ...]
    above: tuple[str, ...]

    @property
    def values(self) -> float:
        """Bytes of all values that come to the client."""
        return sum(part.values for part in self.parts)

    @property
    def bytes(self) -> float:
        """Bytes that come to the client."""
        return sum(part.bytes for part in self.parts)


class Planner:
    """Answers for one workload over one set of tables."""

    def __init__(self, advisor: Any, gateway: Any) -> None:
        self._advisor = advisor
        self._gateway = gateway

    def understand(self, statements: Iterable[str]) -> list[Understood]:
        """What each statement is and uses; to be asked first."""
        found = json.loads(self._advisor.understand(json.dumps(list(statements))))
        return [
            Understood(
                one.get("refusal"),
                one["command"],
                tuple(_use(use) for use in one["uses"]),
                tuple(one["tables"]),
            )
            for one in found
        ]

    def weigh(self, policy: Policy, hosts: bool, which: Iterable[int]) -> list[Weighed]:
        """What these statements, by number, bring to the client under a policy, with host engines
        or with enclaves."""
        numbers = list(which)
        array = self._gateway.new_array(self._gateway.jvm.int, len(numbers))
        for index, number in enumerate(numbers):
            array[index] = number
        found = json.loads(self._advisor.weigh(_policy(policy), hosts, array))
        return [
            Weighed(
                one.get("refusal"),
                tuple(
                    Brought(
                        part["rows"],
                        part["values"],
                        part["bytes"],
                        tuple(part["columns"]),
                        tuple(part["work"]),
                        tuple((t, c, p) for t, c, p in part["encodings"]),
                    )
                    for part in one["clientParts"]
                ),
                tuple(one["above"]),
            )
            for one in found
        ]

    def plan(self, policy: Policy, hosts: bool) -> list[tuple[str | None, list[str]]]:
        """Of every statement why it is refused under a policy, or its plan as EXPLAIN has it."""
        found = json.loads(self._advisor.plan(_policy(policy), hosts))
        return [(one.get("refusal"), one["plan"]) for one in found]


def _use(found: dict[str, str]) -> Use:
    ref, other, table = (found["table"], found["column"]), found["other"], found["otherTable"]
    if not table:
        return Use(ref, found["kind"], other)
    return Use(ref, found["kind"], f"{table}.{other}", (table, other))


def _policy(policy: Policy) -> str:
    tables: dict[str, dict[str, Any]] = {}
    for (table, column), choice in policy.items():
        tables.setdefault(table, {})[column] = asdict(choice)
    return json.dumps(tables)


class Session:
    """Spark, for planning only."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._jvm = spark._jvm.org.apache.spark.sql.coffer.advise.Advisor

    def columns(self, ddl: str) -> list[dict[str, Any]]:
        """Spark's reading of DDL columns."""
        found = json.loads(self._jvm.columns(ddl))
        if found.get("refusal") is not None:
            raise AdviseError(f"CREATE TABLE ({ddl.strip()}): {found['refusal']}")
        columns: list[dict[str, Any]] = found["columns"]
        return columns

    def planner(self, tables: Iterable[Table], protections: Protections) -> Planner:
        """A planner over these tables."""
        names = ("name", "type", "nullable", "distinct", "low", "high", "width")
        imagined = [
            {
                "name": t.name,
                "rows": t.rows,
                "columns": [{n: getattr(c, n) for n in names} for c in t.columns],
            }
            for t in tables
        ]
        advisor = self._jvm.open(
            self._spark._jsparkSession, json.dumps(imagined), protections.printed
        )
        return Planner(advisor, self._spark.sparkContext._gateway)


@contextmanager
def session() -> Iterator[Session]:
    """Starts Spark in this process's JVM, and ends it."""
    from pyspark.sql import SparkSession

    jar = str(find_jar())
    conf = {
        "spark.jars": jar,
        "spark.driver.extraClassPath": jar,
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.catalogImplementation": "in-memory",
        # As Coffer's plugin sets it; and queries over stored columns have no runtime filters.
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[1]").appName("coffer policy advise")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield Session(spark)
    finally:
        spark.stop()
