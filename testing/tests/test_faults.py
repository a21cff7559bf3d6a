"""Things that break under a running query: it ends with the right rows, or with a clear error, and
never hangs.

A second `collect()` of a DataFrame runs its result stage again over the shuffle files of the first.
So what is broken between the two is broken at a known moment: nothing here depends on timing but
the tests that say so.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from coffer_testing import data, tpch
from coffer_testing.answers import Answer
from coffer_testing.cluster import Cluster
from coffer_testing.owner import Owner
from coffer_testing.processes import named, stat, worked
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.turns import one_of

# Past this a query counts as hung; far above what any here takes.
HANGS = 180.0
# Two shuffles: groups, then the order over them.
SQL = "SELECT g, count(*) AS n, sum(q) AS s FROM events GROUP BY g ORDER BY n DESC, g"
HOLD = "import builtins; builtins.df = spark.sql(sql)"
COLLECT = "import builtins; result = [[str(v) for v in row] for row in builtins.df.collect()]"

# Long enough to be hit in the middle: the same rows many times over.
LONG = (
    "SELECT l_returnflag, count(*), sum(l_quantity), min(l_comment), max(upper(l_comment)) FROM ("
    + " UNION ALL ".join(["SELECT l_returnflag, l_quantity, l_comment FROM lineitem"] * 24)
    + ") GROUP BY l_returnflag ORDER BY l_returnflag"
)


class Site:
    """A cluster of its own, since its parts are broken, and a driver on it; both serve the next
    test where a test left all processes alive."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        plain = {
            "events": data.write(folder / "plain")["events"],
            "lineitem": tpch.data("0.1")["lineitem"],
        }
        self.owner = Owner.create(folder / "trusted")
        self.tables = self.owner.encrypt(plain, folder / "sealed")
        self._open = ExitStack()
        self._running: tuple[Cluster, Driver] | None = None

    def running(self, name: str) -> tuple[Cluster, Driver]:
        """A cluster with a driver on it, without a shuffle file of an earlier query."""
        if self._running is None:
            cluster = self._open.enter_context(self.cluster(name))
            self._running = cluster, self._open.enter_context(self.driver(cluster, name))
        return self._running

    def forget(self) -> bool:
        """Ends the query that a test held; whether Spark has then deleted all that it shuffled."""
        assert self._running
        cluster, driver = self._running
        driver.run("import builtins; builtins.df = None")
        for _ in range(20):
            driver.run("import gc; gc.collect(); spark._jvm.System.gc()")
            if not any(shuffled(cluster)):
                return True
            time.sleep(0.2)
        return False

    def close(self) -> None:
        self._running = None
        self._open.close()

    def cluster(self, name: str) -> Cluster:
        return Cluster(self.folder / name)

    def driver(self, cluster: Cluster, name: str, **conf: str) -> Driver:
        return Driver(
            self.tables,
            sealed=True,
            log=self.folder / f"{name}.log",
            master=cluster.master,
            config_dir=self.owner.config_dir,
            passphrase_file=self.owner.passphrase_file,
            conf={
                "spark.executor.memory": "768m",
                "spark.cores.max": "2",
                # Both executors are there before the first task.
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.coffer.scan.targetBytes": "65536",
                **{key.replace("__", "."): value for key, value in conf.items()},
            },
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("faults"))
    yield site
    site.close()


@pytest.fixture
def running(site: Site, request: pytest.FixtureRequest) -> Iterator[tuple[Cluster, Driver]]:
    cluster, driver = site.running(request.node.name)
    before = servers(cluster)
    yield cluster, driver
    whole = False
    try:
        whole = servers(cluster) == before and site.forget()
    finally:
        if not whole:
            site.close()


def servers(cluster: Cluster) -> list[list[int]]:
    """The processes of each worker but for engines, which executors start again."""
    return [[cluster.worker(place), *sorted(cluster.executors_of(place))] for place in (0, 1)]


def shuffled(cluster: Cluster) -> Iterator[Path]:
    """The outputs of all maps."""
    for place in (0, 1):
        yield from cluster.local_folder(place).rglob("shuffle_*.data")


def within(seconds: float, action: Callable[[], Any]) -> Any:
    """What `action` returns or raises; failing the test if it does neither in time."""
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["value"] = action()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"no answer and no error within {seconds} s"
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.1)


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() and state(pid) != "Z" for pid in pids)


def state(pid: int) -> str:
    try:
        return stat(pid)[0]
    except OSError:
        return "Z"


def kill(pids: list[int]) -> None:
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def right_rows(driver: Driver, before: list[list[str]]) -> None:
    assert within(HANGS, lambda: driver.run(COLLECT)) == before


def first_run(driver: Driver) -> list[list[str]]:
    driver.run(HOLD, sql=SQL)
    rows = driver.run(COLLECT)
    assert len(rows) > 50
    return rows


# ---- broken between two runs of a result stage -------------------------------------------------


def test_lost_shuffle_files_are_made_again(running: tuple[Cluster, Driver]) -> None:
    cluster, driver = running
    before = first_run(driver)
    lost = list(shuffled(cluster))
    assert lost
    for file in lost:
        file.unlink()
    right_rows(driver, before)


def test_one_lost_shuffle_file_is_made_again(running: tuple[Cluster, Driver]) -> None:
    """The outputs of the other maps stay: reducers read a mixture of old and new attempts, and the
    newest list of them."""
    cluster, driver = running
    before = first_run(driver)
    next(iter(cluster.local_folder(0).rglob("shuffle_*.data"))).unlink()
    right_rows(driver, before)


def test_rows_that_a_repeated_task_may_make_anew_come_whole(
    running: tuple[Cluster, Driver],
) -> None:
    """Which of the groups the limit takes may change when its stage runs again: then all that read
    them run again too."""
    cluster, driver = running
    groups = {
        row[0]: row[1] for row in driver.query("SELECT g, count(*) FROM events GROUP BY g").rows
    }
    some = "SELECT g, count(*) AS c FROM events GROUP BY g LIMIT 40"
    driver.run(HOLD, sql=f"SELECT /*+ REPARTITION(3, g) */ g, c FROM ({some})")
    before = driver.run(COLLECT)
    assert len(before) == 40
    next(iter(cluster.local_folder(0).rglob("shuffle_*.data"))).unlink()
    for file in cluster.local_folder(1).rglob("shuffle_*.data"):
        file.unlink()
    after = within(HANGS, lambda: driver.run(COLLECT))
    assert len(after) == len({row[0] for row in after}) == 40
    assert all(str(groups[key]) == count for key, count in ((row[0], row[1]) for row in after))


def test_a_shuffle_file_with_a_flipped_bit_ends_the_query(running: tuple[Cluster, Driver]) -> None:
    cluster, driver = running
    first_run(driver)
    for file in shuffled(cluster):
        content = bytearray(file.read_bytes())
        if content:
            content[len(content) // 2] ^= 0x40
            file.write_bytes(content)
    with pytest.raises(QueryFailed, match="hint: "):
        within(HANGS, lambda: driver.run(COLLECT))


def test_engines_lost_between_runs(running: tuple[Cluster, Driver]) -> None:
    """Shuffle files are the executors': a new engine, with the session's key, opens what the old
    one sealed."""
    cluster, driver = running
    before = first_run(driver)
    kill(cluster.engines())
    right_rows(driver, before)


def test_groups_by_an_average_of_doubles_outlive_an_executor(
    running: tuple[Cluster, Driver],
) -> None:
    """Which group a row is in hangs on the last bit of an average: the maps that are made again
    must find the same one."""
    cluster, driver = running
    averages = (
        "SELECT n % 500 AS k, avg(q / 3) AS a, stddev(q / 7) AS d FROM events GROUP BY n % 500"
    )
    driver.run(
        HOLD,
        sql=f"SELECT a, d, count(*) AS c, min(k), max(k) FROM ({averages}) GROUP BY a, d ORDER BY "
        f"a, d",
    )
    before = driver.run(COLLECT)
    assert len(before) > 500
    lost = cluster.executors_of(0)
    engines = named(set(lost), "coffer-engine")
    kill(lost)
    until(lambda: gone(engines))
    right_rows(driver, before)
    next(iter(cluster.local_folder(1).rglob("shuffle_*.data"))).unlink()
    right_rows(driver, before)


def test_an_executor_lost_between_runs(running: tuple[Cluster, Driver]) -> None:
    cluster, driver = running
    before = first_run(driver)
    lost = cluster.executors_of(0)
    engines = named(set(lost), "coffer-engine")
    kill(lost)
    until(lambda: gone(engines))  # an engine ends with its executor
    right_rows(driver, before)


def test_a_worker_lost_between_runs(running: tuple[Cluster, Driver]) -> None:
    cluster, driver = running
    before = first_run(driver)
    executors = cluster.executors_of(0)
    engines = named(set(executors), "coffer-engine")
    kill([cluster.worker(0), *executors])
    until(lambda: gone(engines))
    right_rows(driver, before)


# ---- broken in the middle: when exactly, is up to the machine ----------------------------------


class Asked:
    """A query on a thread of its own, in the middle of which something breaks."""

    def __init__(self, driver: Driver, sql: str, conf: dict[str, str] | None = None) -> None:
        self._outcome: dict[str, Any] = {}

        def ask() -> None:
            try:
                self._outcome.update(driver.timed(sql, conf))
            except QueryFailed as failed:
                self._outcome["failed"] = failed

        self._thread = threading.Thread(target=ask, daemon=True)
        self._thread.start()

    def runs(self) -> None:
        assert self._thread.is_alive(), "it ended before anything was broken: make it longer"

    def ended(self, victim: str) -> dict[str, Any]:
        self._thread.join(HANGS)
        assert not self._thread.is_alive(), f"the query hangs after its {victim} was lost"
        return self._outcome


@pytest.mark.parametrize("victim", one_of(["executor", "engine", "worker"], 3))
def test_lost_in_mid_query(running: tuple[Cluster, Driver], victim: str) -> None:
    cluster, driver = running
    before = driver.query(
        "SELECT l_returnflag, count(*) * 24 FROM lineitem GROUP BY l_returnflag ORDER BY "
        "l_returnflag"
    ).rows
    asked = Asked(driver, LONG)
    time.sleep(1.0)
    asked.runs()
    executors = cluster.executors_of(0)
    engines = named(set(executors), "coffer-engine")
    match victim:
        case "engine":
            kill(engines)
        case "executor":
            kill(executors)
        case "worker":
            kill([cluster.worker(0), *executors])
    until(lambda: gone(engines))
    outcome = asked.ended(victim)
    if "failed" in outcome:
        assert "hint: " in outcome["failed"].message
    else:
        assert [row[:2] for row in Answer.from_json(outcome).rows] == before


@pytest.mark.parametrize("victim", one_of(["engine", "executor"], 2))
def test_a_query_in_one_engine_is_repeated(running: tuple[Cluster, Driver], victim: str) -> None:
    """Whichever of them had it: all are lost."""
    cluster, driver = running
    before = driver.query(LONG).rows
    engines = cluster.engines()
    idle = worked(engines)
    asked = Asked(driver, LONG, {"spark.coffer.oneMachine": "on"})
    # Its only task has begun then.
    until(lambda: worked(engines) > idle + 0.2)
    asked.runs()
    lost = engines if victim == "engine" else cluster.executors()
    kill(lost)
    until(lambda: gone(engines))
    outcome = asked.ended(victim)
    assert "failed" not in outcome, outcome
    # The second may go to one that is lost as well, of which the driver has not heard yet.
    assert 2 <= outcome["counters"]["tasks"] <= 1 + len(lost)
    assert Answer.from_json(outcome).rows == before


# ---- full disks --------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, with room for what executors fetch and unpack."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, timeout=60)
    if mounted.returncode != 0:
        pytest.skip(f"this machine lets us mount no disk: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=60)


@pytest.mark.parametrize(
    ("sql", "memory"),
    [
        pytest.param(
            "SELECT count(*) FROM (SELECT DISTINCT l_comment FROM lineitem)",
            "1g",
            id="shuffle",
            marks=pytest.mark.full,
        ),
        pytest.param("SELECT * FROM lineitem ORDER BY l_comment, l_orderkey", "40m", id="spill"),
    ],
)
def test_a_full_disk_ends_the_query_clearly(
    site: Site, small_disk: Path, tmp_path: Path, sql: str, memory: str
) -> None:
    with (
        Cluster(tmp_path / "cluster", local=small_disk) as cluster,
        site.driver(
            cluster,
            tmp_path.name,
            spark__coffer__engine__memory=memory,
            spark__coffer__scan__targetBytes="1073741824",
        ) as driver,
    ):
        until(lambda: len(cluster.engines()) == 2)  # then nothing more is fetched or unpacked
        left = 1 << 20
        with (small_disk / "ballast").open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, shutil.disk_usage(small_disk).free - left)
        with pytest.raises(QueryFailed, match=r"(?i)no space left|disk") as failed:
            within(HANGS, lambda: driver.query(sql))
        assert "hint: " in failed.value.message

        # Spark deletes what a failed query shuffled once its driver forgets the query; then there
        # is room for another.
        def answers() -> bool:
            driver.run("spark._jvm.System.gc()")
            try:
                return bool(driver.query("SELECT g, count(*) FROM events GROUP BY g").rows)
            except QueryFailed:
                return False

        until(answers)
