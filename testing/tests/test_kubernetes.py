"""Coffer on Kubernetes, in client mode, by Spark's own back end: its API server is one of ours, and
the pods that Spark creates are processes under another account, with nothing of Coffer's
(docs/guides/install.md)."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from coffer_testing.installed import Shipped
from coffer_testing.owner import Owner
from coffer_testing.processes import named
from coffer_testing.runner import Driver
from coffer_testing.servers.kubernetes import Kubernetes
from coffer_testing.servers.s3 import S3

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
TEMPLATE = FOLDER / "executor-pod.yaml"
API = "1.33"
NOBODY = 65534
PATIENCE = 60.0  # seconds until another pod has its engine
COUNT = "SELECT ward, count(*), sum(cost) FROM visits GROUP BY ward ORDER BY ward"
ANSWER = [
    [str(ward), str(len(ids)), f"{sum(i % 50 for i in ids)}.00"]
    for ward in range(7)
    for ids in [[i for i in range(5000) if i % 7 == ward]]
]

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start pods under another account"),
]


@dataclass
class Site:
    cluster: Kubernetes
    store: S3
    trusted: Path
    owner: Owner
    shipped: Shipped

    def start(self, log: str, conf: dict[str, str], tables: dict[str, str] | None = None) -> Driver:
        with pytest.MonkeyPatch.context() as changed:
            changed.setenv("COFFER_JAR", str(self.shipped.jar))
            return Driver(
                tables or {},
                sealed=True,
                log=self.trusted / log,
                master=self.cluster.master,
                config_dir=self.owner.config_dir,
                passphrase_file=self.owner.passphrase_file,
                conf={
                    "spark.executor.cores": "1",
                    "spark.executor.memory": "512m",
                    "spark.kubernetes.container.image": "example.org/spark:4.1.3",
                    "spark.kubernetes.allocation.batch.delay": "1s",
                    "spark.kubernetes.executor.podTemplateFile": str(TEMPLATE),
                    "spark.sql.warehouse.dir": str(self.trusted / "warehouse"),
                    "spark.coffer.engine.memory": "256MiB",
                    **self.store.conf(),
                    **conf,
                },
            )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, shipped: Shipped) -> Iterator[Site]:
    # pytest's folders, as the owner's, are closed to all other accounts.
    trusted = tmp_path_factory.mktemp("trusted")
    trusted.chmod(0o700)
    owner = Owner.create(trusted / "owner")
    with tempfile.TemporaryDirectory(prefix="coffer-pods-") as theirs:
        Path(theirs).chmod(0o755)
        store = S3(trusted / "store").start()
        cluster = Kubernetes(Path(theirs) / "cluster", user=NOBODY)
        try:
            yield Site(cluster, store, trusted, owner, shipped)
        finally:
            cluster.stop()
            store.stop()


@pytest.fixture(scope="module")
def driver(site: Site) -> Iterator[Driver]:
    with site.start("driver.log", {"spark.executor.instances": "2"}) as driver:
        driver.query(
            f"CREATE TABLE visits USING coffer LOCATION '{site.store.root}/visits' AS "
            "SELECT CAST(id AS INT) AS id, CAST(id % 7 AS INT) AS ward, "
            "CAST(id % 50 AS DECIMAL(8, 2)) AS cost FROM range(5000)"
        )
        yield driver


def test_a_query_runs(driver: Driver) -> None:
    assert driver.query(COUNT).rows == ANSWER


def test_engines_come_in_the_jar(site: Site, driver: Driver) -> None:
    driver.query(COUNT)
    engines = named(site.cluster.processes(), "coffer-engine")
    assert len(engines) == len(site.cluster.processes()) == 2
    for engine in engines:
        program = Path(f"/proc/{engine}/exe").readlink()
        assert str(program).startswith(str(site.cluster.folder))
        assert program.parent.stat().st_mode & 0o777 == 0o700
        assert f"Uid:\t{NOBODY}" in Path(f"/proc/{engine}/status").read_text()


@pytest.mark.usefixtures("driver")
def test_a_pod_has_room_for_its_engine(site: Site) -> None:
    """Spark's heap, the engine's 256 MiB, and 384 MiB for the rest of a JVM."""
    (container,) = site.cluster.pods()[0]["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == f"{512 + 256 + 384}Mi"


@pytest.mark.usefixtures("driver")
def test_what_the_api_server_is_told_names_nothing_of_the_owners(site: Site) -> None:
    told = json.dumps(site.cluster.created)
    assert "SPARK_DRIVER_URL" in told
    assert site.owner.passphrase_file.read_text().strip() not in told
    assert str(site.trusted) not in told


@pytest.mark.usefixtures("driver")
def test_what_kubernetes_is_told_is_valid(site: Site) -> None:
    objects = [one for file in FOLDER.glob("*.yaml") for one in yaml.safe_load_all(file.open())]
    assert {one["kind"] for one in objects} > {"Pod", "Role", "NetworkPolicy"}
    # A template has no image: Spark adds it.
    created = site.cluster.created
    for one in [*(one for one in objects if one["kind"] != "Pod"), *created]:
        kubernetes_validate.validate(one, API, strict=True)
    pods = [one for one in created if one["kind"] == "Pod"]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        assert pod["metadata"]["labels"]["app.kubernetes.io/part-of"] == "coffer"


def test_a_lost_pod_is_replaced(site: Site, driver: Driver) -> None:
    driver.query(COUNT)
    before = {pod["metadata"]["name"] for pod in site.cluster.pods()}
    os.kill(site.cluster.process(min(before)), signal.SIGKILL)
    for _ in range(3):
        assert driver.query(COUNT).rows == ANSWER
    deadline = time.monotonic() + PATIENCE
    while len(named(site.cluster.processes(), "coffer-engine")) < len(before):
        assert time.monotonic() < deadline, "Spark has asked for no other pod"
        time.sleep(0.5)
    assert {pod["metadata"]["name"] for pod in site.cluster.pods()} != before
    assert driver.query(COUNT).rows == ANSWER


def test_pods_log_no_value(site: Site, driver: Driver) -> None:
    planted = "planted-9036"
    driver.query(f"SELECT count(*) FROM visits WHERE concat('{planted}', ward) <> 'x'")
    logs = list(site.cluster.folder.glob("*/log"))
    assert len(logs) >= 2
    assert not [log for log in logs if planted in log.read_text(errors="replace")]


@pytest.mark.usefixtures("driver")
def test_executors_come_and_go(site: Site) -> None:
    """Dynamic allocation, with executors that are decommissioned."""
    conf = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.dynamicAllocation.maxExecutors": "2",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
    }
    before = site.cluster.processes()

    def pods() -> int:
        return len(site.cluster.processes() - before)

    with site.start("dynamic.log", conf, {"visits": f"{site.store.root}/visits"}) as dynamic:
        for _ in range(2):
            assert dynamic.query(COUNT).rows == ANSWER
            assert pods() > 0
            deadline = time.monotonic() + PATIENCE
            while pods():
                assert time.monotonic() < deadline, "executors do not go"
                time.sleep(0.5)
