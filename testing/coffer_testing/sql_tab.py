"""What Spark's SQL tab shows of a query: its plan, and what its operators counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import dedent

from coffer_testing.runner import Driver

_ASKED = dedent("""
    before = {name: spark.conf.get(name, None) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        spark.sql(sql).collect()
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    last = store.executionsCount() - 1
    execution = store.executionsList(int(last), 1).last()
    values = store.executionMetrics(execution.executionId())
    metrics = [execution.metrics().apply(i) for i in range(execution.metrics().size())]
    result = {
        "plan": execution.physicalPlanDescription(),
        "metrics": [
            (m.name(), values.apply(m.accumulatorId()))
            for m in metrics
            if values.contains(m.accumulatorId())
        ],
    }
    """)


@dataclass(frozen=True)
class Shown:
    """One query's plan, and its operators' metrics as they are written there."""

    plan: str
    metrics: list[tuple[str, str]]

    def scanned(self) -> list[int]:
        """Rows of each scan, fewest first."""
        return sorted(
            int(value.replace(",", ""))
            for name, value in self.metrics
            if name.startswith("rows of") and "Scan" in name
        )


def shown(driver: Driver, sql: str, conf: Mapping[str, str] | None = None) -> Shown:
    """Runs a query, with these settings for it alone."""
    answer = driver.run(_ASKED, sql=sql, conf=dict(conf or {}))
    return Shown(answer["plan"], [(name, value) for name, value in answer["metrics"]])
