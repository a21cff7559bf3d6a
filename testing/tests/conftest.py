"""Shared, expensive things: data, a data owner, drivers, a cluster. Each is made once for each
process of the run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coffer_testing import archives, data, kept, recorded, tpch, turns
from coffer_testing.answers import Answer, Digested
from coffer_testing.cluster import Cluster
from coffer_testing.installed import Shipped, ship
from coffer_testing.kept import Answers
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver
from coffer_testing.servers import hadoop_kms

# Processes that tests start import what tests import (pyproject.toml), wherever they are started.
ROOT = Path(__file__).parents[2]
SOURCES = [str(ROOT / "python" / "src"), str(ROOT / "testing")]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [*SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])]
)

# Files that take minutes each. They come first, so that of two processes none is left alone with
# one at the end.
LONG = (
    "test_nothing_in_clear",
    "test_tpcds",
    "test_faults",
    "test_fail_closed",
    "test_protections",
    "test_attestation",
    "test_attack",
    "test_keys",
    "test_masters",
    "test_advise",
    "test_sizes",
    "test_joins",
    "test_tpch",
    "test_zones",
    "test_interop",
)

# Tests that a machine may lack the means for even where COFFER_TEST_STRICT is set: how their names
# begin, and words of the reason. Each entry is reviewed; there is none today.
MAY_BE_SKIPPED: tuple[tuple[str, str], ...] = ()

# A driver hands its JVM on to the next driver of its kind, but for those of these files, which
# change what is not Spark's, end processes, or attack what they run.
JVM_OF_THEIR_OWN = (
    "test_attack",
    "test_elsewhere",
    "test_functions_of_users",
    "test_metrics",
    "test_network_service",
    "test_pickles_cluster",
    "test_resume",
    "test_starts",
    "test_store_faults",
    "test_ways_in",
    "test_writes",
    "test_yarn",
)

# Files that send a driver what it must refuse. Of all others, what executors send is recorded, and
# what of it is on no list fails the run.
HOSTILE = ("test_attack", "test_pickles_cluster")
# The folder of the records, in the environment: all processes of a run have one.
RECORDS = "COFFER_TEST_RECORDS"

TPCH_SCALE = "0.1"
TPCH_TABLES = tpch.TABLES

# Small inputs must still be several partitions, or nothing is shuffled.
CONF = {
    "spark.sql.files.maxPartitionBytes": "65536",
    "spark.sql.files.openCostInBytes": "1024",
    "spark.coffer.scan.targetBytes": "65536",
    # What engines have must not move to the driver without a word. Tests of the client tail turn it
    # on: `with_client_tail`.
    "spark.coffer.client.tail": "off",
}

# Of a driver on `cluster`.
CLUSTERED = {
    "spark.executor.memory": "768m",
    "spark.cores.max": "2",
    # Both executors are there before the first task.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}


# What clusters are started for: stages, and what travels between them. `test_one_machine.py` has
# what a user's sessions do with little data.
STAGED = {"spark.coffer.oneMachine": "off"}


def pytest_configure(config: pytest.Config) -> None:
    """Fetches and makes what several processes would at once, before they begin."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        tpch.data(TPCH_SCALE)
        tpch.query(1)
        hadoop_kms.jars()
        archives.prepare()
    archives.install()
    if not hasattr(config, "workerinput"):
        os.environ[RECORDS] = tempfile.mkdtemp(prefix="coffer-records-")
        if os.environ.get("COFFER_REGENERATE"):
            os.environ[kept.ASKED] = tempfile.mkdtemp(prefix="coffer-answers-")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Objects of classes that are on no list fail the run: honest executors sent them."""
    if hasattr(session.config, "workerinput") or RECORDS not in os.environ:
        return
    if asked := os.environ.pop(kept.ASKED, None):
        kept.write(Path(asked))
        shutil.rmtree(asked, ignore_errors=True)
    folder = Path(os.environ.pop(RECORDS))
    refused = recorded.refused(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if refused:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        text = "executors sent objects of classes that the driver refuses: " + ", ".join(refused)
        if reporter is not None:
            reporter.write_line(text, red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Under COFFER_TEST_STRICT what is skipped has failed, but for the reviewed list."""
    outcome = yield
    strict(outcome.get_result(), item.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """The same of whole files."""
    outcome = yield
    strict(outcome.get_result(), collector.nodeid)


def strict(report: pytest.TestReport | pytest.CollectReport, test: str) -> None:
    """Makes a failure of a skip that COFFER_TEST_STRICT does not allow."""
    if not report.skipped or not os.environ.get("COFFER_TEST_STRICT"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(test.startswith(start) and words in reason for start, words in MAY_BE_SKIPPED):
        report.outcome = "failed"
        report.longrepr = f"{test} was left out, which COFFER_TEST_STRICT forbids: {reason}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Turns, before `full` is left out. The longest files first; those of a file in their order."""
    turns.mark(items)
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONG)))


@pytest.fixture(scope="module", autouse=True)
def drivers(request: pytest.FixtureRequest) -> None:
    name = request.module.__name__.rpartition(".")[2]
    Driver.kept = name not in JVM_OF_THEIR_OWN
    Driver.clusters = STAGED
    Driver.record = None if name in HOSTILE else Path(os.environ[RECORDS])


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's folder."""
    return tmp_path_factory.mktemp("coffer")


@pytest.fixture(scope="session")
def shipped(base: Path) -> Shipped:
    """What `make dist` makes, of this build's programs."""
    return ship(base / "shipped")


@pytest.fixture(scope="session")
def plain_tables(base: Path) -> dict[str, Path]:
    """Generated tables and TPC-H's single tables, as plain Parquet."""
    return {
        **data.write(base / "plain"),
        **{name: tpch.data(TPCH_SCALE)[name] for name in TPCH_TABLES},
    }


@pytest.fixture(scope="session")
def owner(base: Path) -> Owner:
    return Owner.create(base / "trusted")


@pytest.fixture(scope="session")
def sealed_tables(base: Path, owner: Owner, plain_tables: dict[str, Path]) -> dict[str, Path]:
    """The same tables, sealed by `owner`."""
    return owner.encrypt(plain_tables, base / "sealed")


@pytest.fixture(scope="session")
def plain(base: Path, plain_tables: dict[str, Path]) -> Iterator[Driver]:
    """Plaintext Spark as it comes, in local mode."""
    with Driver(plain_tables, sealed=False, log=base / "plain.log", conf=CONF) as driver:
        yield driver


@pytest.fixture(scope="session")
def sealed(base: Path, owner: Owner, sealed_tables: dict[str, Path]) -> Iterator[Driver]:
    """Coffer in local mode."""
    with Driver(
        sealed_tables,
        sealed=True,
        log=base / "sealed.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf=CONF,
    ) as driver:
        yield driver


@pytest.fixture(scope="session")
def cluster(base: Path) -> Iterator[Cluster]:
    """A standalone master with two workers on loopback."""
    with Cluster(base / "cluster") as running:
        yield running


@pytest.fixture(scope="session")
def clustered(
    base: Path, cluster: Cluster, owner: Owner, sealed_tables: dict[str, Path]
) -> Iterator[Driver]:
    """Coffer on the cluster: executors in processes of their own, each with its own engine."""
    with Driver(
        sealed_tables,
        sealed=True,
        log=base / "clustered.log",
        master=cluster.master,
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={**CONF, **CLUSTERED},
    ) as driver:
        yield driver


def with_client_tail(driver: Driver) -> Iterator[Driver]:
    """A fixture's driver with the client tail, as users have it."""
    driver.run("spark.conf.set('spark.coffer.client.tail', 'on')")
    yield driver
    driver.run("spark.conf.set('spark.coffer.client.tail', 'off')")


class Expected:
    """Plaintext Spark's answers under `CONF`, each asked for once (`coffer_testing.kept`)."""

    def __init__(self, name: str, tables: dict[str, Path], start: Callable[[], Driver]) -> None:
        self._answers = Answers(name, tables, CONF, start)

    def answer(self, sql: str, ansi: str = "on") -> Answer | Digested:
        return self._answers.query(sql, ansi_conf(ansi))

    def result(self, code: str, got: Any, **names: Any) -> Any:
        """What plaintext Spark gives for `Driver.run`, to be compared with `got`."""
        return self._answers.result(code, got, names)


@pytest.fixture(scope="session")
def expected(plain_tables: dict[str, Path], request: pytest.FixtureRequest) -> Expected:
    return Expected("queries", plain_tables, lambda: request.getfixturevalue("plain"))


def ansi_conf(ansi: str) -> dict[str, str]:
    return {"spark.sql.ansi.enabled": "true" if ansi == "on" else "false"}
