"""Coffer on YARN, in client mode: the application's jar brings the engine to containers. Two
messages of the application master are refused (docs/guides/install.md)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from coffer_testing.installed import Shipped
from coffer_testing.owner import Owner
from coffer_testing.processes import named, running
from coffer_testing.runner import Driver
from coffer_testing.servers.yarn import Yarn

pytestmark = pytest.mark.full

EXECUTOR = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"
COUNT = "SELECT ward, count(*), sum(cost) FROM visits GROUP BY ward ORDER BY ward"
ANSWER = [
    [str(ward), str(len(ids)), f"{sum(i % 50 for i in ids)}.00"]
    for ward in range(7)
    for ids in [[i for i in range(5000) if i % 7 == ward]]
]


@dataclass
class Site:
    yarn: Yarn
    driver: Driver

    @property
    def root(self) -> int:
        assert self.yarn.process
        return self.yarn.process.pid

    def executors(self) -> list[int]:
        return running({self.root}, EXECUTOR)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, shipped: Shipped) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("yarn")
    owner = Owner.create(folder / "owner")
    jars = Path(pyspark.__file__).parent / "jars"
    yarn = Yarn(folder / "cluster").start()
    try:
        with pytest.MonkeyPatch.context() as changed:
            changed.setenv("COFFER_JAR", str(shipped.jar))
            with Driver(
                {},
                sealed=True,
                log=folder / "driver.log",
                master="yarn",
                config_dir=owner.config_dir,
                passphrase_file=owner.passphrase_file,
                env=yarn.environment(),
                conf={
                    "spark.executor.instances": "2",
                    "spark.executor.memory": "512m",
                    "spark.yarn.am.memory": "512m",
                    "spark.yarn.jars": f"local:{jars}/*",
                    "spark.yarn.stagingDir": f"file:{folder}/staging",
                    "spark.sql.warehouse.dir": str(folder / "warehouse"),
                    "spark.coffer.engine.memory": "256MiB",
                },
            ) as driver:
                driver.query(
                    "CREATE TABLE visits USING coffer AS SELECT CAST(id AS INT) AS id, "
                    "CAST(id % 7 AS INT) AS ward, CAST(id % 50 AS DECIMAL(8, 2)) AS cost "
                    "FROM range(5000)"
                )
                yield Site(yarn, driver)
    finally:
        yarn.stop()


def test_a_query_runs(site: Site) -> None:
    assert site.driver.query(COUNT).rows == ANSWER


def test_engines_come_in_the_jar(site: Site) -> None:
    site.driver.query(COUNT)
    engines = named({site.root}, "coffer-engine")
    assert len(engines) == len(site.executors()) == 2
    for engine in engines:
        program = Path(f"/proc/{engine}/exe").readlink()
        assert str(program).startswith(str(site.yarn.folder))
        assert program.parent.stat().st_mode & 0o777 == 0o700


def test_a_lost_executor_is_another_container(site: Site) -> None:
    site.driver.query(COUNT)
    os.kill(site.executors()[0], signal.SIGKILL)
    for _ in range(3):
        assert site.driver.query(COUNT).rows == ANSWER


def test_containers_log_no_value(site: Site) -> None:
    planted = "planted-9036"
    site.driver.query(f"SELECT count(*) FROM visits WHERE concat('{planted}', ward) <> 'x'")
    logs = site.yarn.logs()
    assert logs
    assert not [log for log in logs if planted in log.read_text(errors="replace")]
