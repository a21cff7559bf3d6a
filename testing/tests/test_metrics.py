"""What operators see: Spark's metrics by its Prometheus servlet, the tab *Coffer* of its UI, and
the logs of all processes, which have one name for a query."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed

SERVLET = "spark.metrics.conf.*.sink.prometheusServlet"
CONF = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    f"{SERVLET}.class": "org.apache.spark.metrics.sink.PrometheusServlet",
    f"{SERVLET}.path": "/metrics/prometheus",
}
READ = """
import urllib.request
with urllib.request.urlopen(spark.sparkContext.uiWebUrl + path, timeout=30) as answer:
    result = answer.read().decode()
"""
FIGURE = re.compile(r"plugin_org_apache_spark_sql_coffer_CofferPlugin_(\w+)\{[^}]*\} (\S+)")
PLANTED = "planted-7781"


LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
logger.python.name = org.apache.spark.api.python.PythonGatewayServer
logger.python.level = info
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c{1} [%X{mdc.coffer.query}] %m%n%ex
"""


@pytest.fixture(scope="module")
def driver(base: Path, owner: Owner, sealed_tables: dict[str, Path]) -> Iterator[Driver]:
    logging = base / "log4j2.properties"
    logging.write_text(LOGGING)
    with Driver(
        sealed_tables,
        sealed=True,
        log=base / "metrics.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf=CONF,
        env={
            "COFFER_LOG_FORMAT": "json",
            "JDK_JAVA_OPTIONS": f"-Dlog4j2.configurationFile={logging}",
        },
    ) as driver:
        yield driver


def figures(driver: Driver) -> dict[str, int]:
    found = FIGURE.findall(driver.run(READ, path="/metrics/prometheus/"))
    return {name: int(float(value)) for name, value in found}


def test_metrics_count_what_ran(driver: Driver) -> None:
    # In one request nothing goes in but the request.
    staged = {"spark.coffer.oneMachine": "off"}
    driver.query("SELECT k, count(*) FROM edge GROUP BY k", staged)
    before = figures(driver)
    driver.query(f"SELECT k, count(*) FROM edge WHERE s <> '{PLANTED}' GROUP BY k", staged)
    after = figures(driver)
    for name in ("tasks_done", "engine_crossings", "bytes_in", "bytes_sealed", "bytes_opened"):
        assert after[f"{name}_Count"] > before[f"{name}_Count"] > 0, name
    assert after["engine_starts_Count"] == after["engines_admitted_Number"] == 1
    assert after["sessions_open_Number"] > 0
    for name in ("engine_residentBytes_Value", "client_residentBytes_Value"):
        assert 1 << 20 < after[name] < 1 << 34, name
    with pytest.raises(QueryFailed, match="DIVIDE_BY_ZERO"):
        driver.query("SELECT sum(1 / (id - 700)) FROM edge")
    failed = figures(driver)
    assert failed["tasks_failures_failed_Count"] >= 1
    assert not any("ZERO" in name for name in failed)


def test_the_tab_shows_engines_and_queries(driver: Driver) -> None:
    driver.query(f"SELECT count(*) FROM edge WHERE s <> '{PLANTED}'")
    page = driver.run(READ, path="/coffer/")
    assert "Engines run on simulated evidence" in page
    assert "simulated: proves nothing" in page
    assert re.search(r"<td>[0-9a-f]{32}</td>", page)
    number = re.search(r"/SQL/execution/\?id=(\d+)", page)
    assert number
    assert "edge" in driver.run(READ, path=f"/SQL/execution/?id={number[1]}")
    assert PLANTED not in page
    assert "edge" not in page


def test_logs_name_a_query_in_every_process(driver: Driver, base: Path) -> None:
    with pytest.raises(QueryFailed, match="DIVIDE_BY_ZERO"):
        driver.query(f"SELECT sum(1 / (id - 700)) FROM edge WHERE s <> '{PLANTED}'")
    text = (base / "metrics.log").read_text()
    name = re.findall(r"query ([0-9a-f]{32}) is sealed; it is SQL execution \d+", text)[-1]
    # What an executor's task logs; under a local master in the same log.
    assert f" ERROR Executor [{name}] Exception in task" in text
    lines = re.findall(r" ((?:client )?engine): (\{.*\})$", text, re.MULTILINE)
    said = {(process, *about(json.loads(line))) for process, line in lines}
    assert ("client engine", "a query began", name) in said
    assert ("engine", "a task failed", name) in said
    assert not any(PLANTED in line or "ZERO" in line for _, line in lines)
    assert f"<code>{name}</code>" in driver.run(READ, path="/coffer/")


def about(line: dict[str, Any]) -> tuple[str, str]:
    """What a line says, and of which query: by itself, or by what it is a part of."""
    parts = [line, *line.get("spans", [])]
    return line["message"], next((part["query"] for part in parts if "query" in part), "")
