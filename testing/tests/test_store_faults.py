"""Stores that fail under an operation, and writers that are killed there: right rows or a clear
error; then the same again, nothing lost, and what is left over can be removed.

A fault is met by the requests of an operation from one of them on: the first, or one in the
middle; by two of them, as after a moment's trouble, or by all that follow.
"""

from __future__ import annotations

import csv
import itertools
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coffer._find import find_binary
from coffer_adversary.judge import named
from coffer_testing import processes
from coffer_testing.cluster import Cluster
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.servers.hdfs import Hdfs
from coffer_testing.servers.store_faults import Faulty, faults
from coffer_testing.servers.store_relay import RelayedS3, Reply, Request

ROWS = 60
VALUES = f"SELECT CAST(id AS INT) AS id, concat('row-', id) AS name FROM range({ROWS})"
COUNT = "result = spark.read.format('coffer').load(path).count()"
SUM = (
    "result = [list(r) for r in "
    "spark.read.format('coffer').load(path).groupBy().sum('id').collect()]"
)
# Past this an operation hangs.
HANGS = 120.0


class Site:
    """A store whose answers are ours, an owner, and a session."""

    def __init__(self, folder: Path, store: RelayedS3, owner: Owner, driver: Driver) -> None:
        self.store = store
        self.owner = owner
        self.driver = driver
        self.faulty = Faulty()
        self.faults = faults(self.faulty)
        store.relay.answer = self.faulty.answer
        self._folder = folder
        self._numbers = itertools.count()
        self._requests: dict[str, int] = {}
        self.rows = ROWS
        self.table = self.at("table")
        self.sql(f"CREATE TABLE kept USING coffer LOCATION '{self.table}' AS {VALUES}")
        self.source = folder / "more.csv"
        self.source.write_text("id,name\n" + "".join(f"{i},row-{i}\n" for i in range(ROWS)))

    def at(self, name: str) -> str:
        return f"{self.store.root}/{name}"

    def new(self) -> str:
        """The name of a table that is none yet."""
        return f"t{next(self._numbers)}"

    def sql(self, text: str) -> None:
        self.driver.query(text)

    def count(self, path: str) -> int:
        found: int = self.driver.run(COUNT, path=path)
        return found

    def coffer(
        self, *arguments: str | Path, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        env = self.store.environment()
        return self.owner.coffer(*arguments, check=check, env=env)

    def requests(self, name: str, operation: Operation) -> int:
        """How many an operation takes where nothing is in its way, and nothing is new to it."""
        if name not in self._requests:
            assert operation(self) is None
            before = self.store.relay.count
            assert operation(self) is None
            self._requests[name] = self.store.relay.count - before
        return self._requests[name]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("store-faults")
    owner = Owner.create(folder / "trusted")
    store = RelayedS3(folder / "store").start()
    try:
        with driver(folder, owner, store.conf()) as running:
            yield Site(folder, store, owner, running)
    finally:
        store.stop()


def driver(folder: Path, owner: Owner, conf: dict[str, str], name: str = "driver") -> Driver:
    return Driver(
        {},
        sealed=True,
        log=folder / f"{name}.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={"spark.sql.warehouse.dir": str(folder / "warehouse"), **conf},
    )


# ---- operations ----------------------------------------------------------------------------------

# Runs, and gives the error's text where there was one. The rows that are there afterwards are
# checked by whoever calls; that a read was right is checked here.
Operation = Callable[[Site], "str | None"]


def of_spark(run: Callable[[], object]) -> str | None:
    try:
        run()
    except QueryFailed as error:
        assert error.kind != "Driver", "the driver was lost"
        return error.message
    return None


def of_command(done: subprocess.CompletedProcess[str]) -> str | None:
    if done.returncode == 0:
        return None
    assert "panicked" not in done.stderr
    assert done.stderr.startswith("error: "), done.stderr
    return done.stderr


def read(site: Site) -> str | None:
    def run() -> None:
        wanted = sum(range(ROWS)) + (site.rows - ROWS) * 1000
        assert site.driver.run(SUM, path=site.table) == [[wanted]]

    return of_spark(run)


def insert(site: Site) -> str | None:
    return of_spark(lambda: site.sql("INSERT INTO kept VALUES (1000, 'more')"))


def ctas(site: Site) -> str | None:
    name = site.new()
    site.made = name  # type: ignore[attr-defined]
    return of_spark(lambda: create(site, name))


def create(site: Site, name: str) -> None:
    site.sql(f"CREATE TABLE {name} USING coffer LOCATION '{site.at(name)}' AS {VALUES}")


def encrypt(site: Site) -> str | None:
    name = site.new()
    site.made = name  # type: ignore[attr-defined]
    return of_command(sealed(site, name))


def sealed(site: Site, name: str) -> subprocess.CompletedProcess[str]:
    arguments = ("--header", "--schema", "id INT, name STRING", site.source, site.at(name))
    return site.coffer("encrypt", *arguments, check=False)


def verify(site: Site) -> str | None:
    done = site.coffer("verify", "--deep", site.table, check=False)
    assert done.returncode != 0 or "sound" in done.stdout
    return of_command(done)


OPERATIONS: dict[str, Operation] = {
    "read": read,
    "insert": insert,
    "ctas": ctas,
    "encrypt": encrypt,
    "verify": verify,
}


def is_clear(message: str) -> bool:
    """Whether it says what failed: by a code of ours, or as the store's own error, which Spark
    meets before it asks us."""
    said = named(message) is not None or "error:" in message
    return said or re.search(r"s3a?://|Status Code: \d+|S3", message) is not None


# ---- faults --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    fault: str
    operation: str
    begins: float = 0.0  # at which part of its requests
    many: int = 1 << 30

    def __str__(self) -> str:
        when = "once" if self.many < 1 << 30 else "on"
        return f"{self.fault}-{self.operation}-{self.begins:.0%}-{when}"


SHORT = [
    Case("503", "read", many=2),
    Case("short", "read", 0.5, many=1),
    Case("403", "read"),
    Case("old", "read"),
    Case("412", "insert", 0.5),
    Case("hang-up", "insert", 0.6, many=1),
    Case("twice", "insert"),
    Case("404", "ctas", 0.5),
    Case("500", "encrypt", 0.5, many=2),
    Case("403", "encrypt", 0.7),
    Case("long", "verify"),
]
NAMES = list(faults(Faulty()))
# What the command line's helper tries again for minutes.
_PATIENT = ("429", "500", "503", "short", "hang-up")
ALL = [
    Case(fault, operation, begins, many)
    for fault in NAMES
    for operation in OPERATIONS
    for begins in (0.0, 0.4, 0.8)
    for many in (2, 1 << 30)
    if not (many > 2 and operation in ("encrypt", "verify") and fault in _PATIENT)
]


@pytest.mark.parametrize(
    "case",
    [*SHORT, *(pytest.param(case, marks=pytest.mark.full) for case in ALL if case not in SHORT)],
    ids=str,
)
def test_a_store_that_fails(site: Site, case: Case) -> None:
    operation = OPERATIONS[case.operation]
    requests = site.requests(case.operation, operation)
    site.rows = rows = site.count(site.table)
    site.faulty.arm(site.faults[case.fault], first=int(requests * case.begins), many=case.many)
    try:
        failed = operation(site)
    finally:
        met = site.faulty.disarm()
    assert met > 0, "nothing of it met the fault"
    assert failed is None or is_clear(failed), failed

    match case.operation:
        case "insert":
            written = site.count(site.table) - rows
            # Who was told that it failed writes again, unless he was told that nobody knows.
            assert written == (failed is None) or (
                written == 1 and "publication_unknown" in (failed or "")
            ), failed
            if not written:
                assert insert(site) is None
            assert site.count(site.table) == rows + 1
            site.coffer("verify", "--clean", site.table)
            assert site.count(site.table) == rows + 1
        case "ctas" | "encrypt":
            name: str = site.made  # type: ignore[attr-defined]
            if failed is not None:
                again(site, case.operation, name)
            assert site.count(site.at(name)) == ROWS
            site.coffer("verify", "--clean", site.at(name))
            assert site.count(site.at(name)) == ROWS
        case _:
            assert operation(site) is None


def again(site: Site, operation: str, name: str) -> None:
    """Makes the table of that name that could not be made; leftovers are cleared away first where
    that is asked for."""

    def run() -> str | None:
        if operation == "ctas":
            return of_spark(lambda: create(site, name))
        return of_command(sealed(site, name))

    failed = run()
    if failed is None:
        return
    assert "verify --clean" in failed or "not empty" in failed or "there already" in failed, failed
    site.coffer("verify", "--clean", site.at(name))
    failed = run()
    assert failed is None, failed


# ---- writers that are killed ---------------------------------------------------------------------


class Held:
    """Holds the first request that `of` says yes to, until it is let go; then it is done after
    all, as a store does what it was asked for though who asked has gone."""

    def __init__(self, of: Callable[[Request], bool]) -> None:
        self._of = of
        self._met = threading.Event()
        self._go = threading.Event()
        self._done = threading.Event()
        self._does = True
        self._lock = threading.Lock()

    def __call__(self, request: Request, ask: Callable[[], Reply]) -> Reply | None:
        with self._lock:
            is_it = self._of(request) and not self._met.is_set()
            if is_it:
                self._met.set()
        if is_it:
            self._go.wait(HANGS)
            reply = ask() if self._does else None
            self._done.set()
            return reply
        return ask()

    def wait(self) -> None:
        assert self._met.wait(HANGS), "it was never asked for"

    def let_go(self, *, done: bool = True) -> None:
        """`done`: it comes to pass."""
        self._does = done
        self._go.set()
        assert self._done.wait(HANGS)


@contextmanager
def held(store: RelayedS3, of: Callable[[Request], bool]) -> Iterator[Held]:
    before = store.relay.answer
    holding = Held(of)
    store.relay.answer = holding
    try:
        yield holding
    finally:
        holding._go.set()
        store.relay.answer = before


def puts(word: str) -> Callable[[Request], bool]:
    return lambda request: request.method == "PUT" and word in request.key


def appended(site: Site, path: str) -> subprocess.Popen[Any]:
    """A `coffer encrypt --append` that runs."""
    schema = ("--header", "--schema", "id INT, name STRING")
    command = [find_binary("coffer"), "encrypt", "--append", *schema, site.source, path]
    env = {**site.owner.environment(), **site.store.environment()}
    return subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("word", ["/part-", "/_coffer/"])
def test_a_command_that_is_killed_has_written_nothing(site: Site, word: str) -> None:
    name = site.new()
    path = site.at(name)
    assert of_command(sealed(site, name)) is None
    with held(site.store, puts(word)) as holding:
        writer = appended(site, path)
        holding.wait()
        writer.send_signal(signal.SIGKILL)
        writer.communicate(timeout=60)
        # What it asked for last comes to pass all the same.
        holding.let_go()
    assert site.count(path) == ROWS
    done = appended(site, path)
    assert done.wait(HANGS) == 0, done.stderr
    assert site.count(path) == 2 * ROWS
    site.coffer("verify", "--clean", path)
    assert "sound" in site.coffer("verify", "--deep", path).stdout
    assert site.count(path) == 2 * ROWS


def requested(site: Site, run: Callable[[], object]) -> int:
    """How many requests it takes."""
    before = site.store.relay.count
    run()
    return site.store.relay.count - before


def nth(number: int) -> Callable[[Request], bool]:
    """Says yes to one request: so many came before it."""
    requests = itertools.count()
    return lambda _: next(requests) == number


@pytest.mark.full
def test_a_command_that_is_killed_at_each_step(site: Site) -> None:
    name = site.new()
    path = site.at(name)
    assert of_command(sealed(site, name)) is None
    steps = requested(site, lambda: appended(site, path).communicate(timeout=HANGS))
    there = 2 * ROWS
    assert site.count(path) == there
    for step in range(steps):
        for late in (True, False):
            with held(site.store, nth(step)) as holding:
                writer = appended(site, path)
                holding.wait()
                writer.send_signal(signal.SIGKILL)
                writer.communicate(timeout=60)
                holding.let_go(done=late)
            # All that follows the commit is tidying up.
            found = site.count(path)
            assert found in (there, there + ROWS), step
            there = found
    assert appended(site, path).wait(HANGS) == 0
    site.coffer("verify", "--clean", path)
    assert "sound" in site.coffer("verify", "--deep", path).stdout
    assert site.count(path) == there + ROWS


def other_writes(site: Site, path: str, step: int) -> int:
    """One writer, in the middle of which another one writes; how many of them wrote."""
    with held(site.store, nth(step)) as holding:
        first = appended(site, path)
        holding.wait()
        second = appended(site, path)
        # It may have to wait for the first.
        with suppress(subprocess.TimeoutExpired):
            second.wait(5)
        holding.let_go()
        ended = [writer.communicate(timeout=HANGS) for writer in (first, second)]
    wrote = 0
    for writer, (_, stderr) in zip((first, second), ended, strict=True):
        wrote += writer.returncode == 0
        assert writer.returncode == 0 or b"write_conflict" in stderr or b"another" in stderr, stderr
    return wrote


@pytest.mark.parametrize(
    "part", [0.5, *(pytest.param(p, marks=pytest.mark.full) for p in (0.1, 0.3, 0.7, 0.9))]
)
def test_of_two_writers_none_loses_the_other_s_rows(site: Site, part: float) -> None:
    name = site.new()
    path = site.at(name)
    assert of_command(sealed(site, name)) is None
    steps = requested(site, lambda: appended(site, path).communicate(timeout=HANGS))
    wrote = other_writes(site, path, int(steps * part))
    assert wrote >= 1
    assert site.count(path) == (2 + wrote) * ROWS
    site.coffer("verify", "--clean", path)
    assert "sound" in site.coffer("verify", "--deep", path).stdout


def kill_jvms(roots: set[int]) -> None:
    """Ends JVMs and engines below these processes at once, as when a machine fails."""
    for pid in [*processes.named(roots, "java"), *processes.named(roots, "coffer-engine")]:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.full
@pytest.mark.parametrize("word", ["/part-", "/_coffer/"])
def test_a_driver_that_is_killed_has_written_nothing(site: Site, word: str, tmp_path: Path) -> None:
    name = site.new()
    path = site.at(name)
    create(site, name)
    with driver(tmp_path, site.owner, site.store.conf(), "killed") as other:
        code = "spark.sql(sql).write.format('coffer').mode('append').save(path)"
        with held(site.store, puts(word)) as holding:
            failed: list[BaseException] = []

            def write() -> None:
                try:
                    other.run(code, sql=VALUES, path=path)
                except BaseException as error:
                    failed.append(error)

            writing = threading.Thread(target=write)
            writing.start()
            holding.wait()
            kill_jvms({other.pid})
            holding.let_go()
            writing.join(HANGS)
        assert failed
    assert site.count(path) == ROWS
    site.driver.run(code, sql=VALUES, path=path)
    site.coffer("verify", "--clean", path)
    assert site.count(path) == 2 * ROWS


@pytest.mark.full
@pytest.mark.cluster
def test_an_executor_that_is_killed_loses_nothing(site: Site, tmp_path: Path) -> None:
    name = site.new()
    path = site.at(name)
    create(site, name)
    code = "spark.sql(sql).write.format('coffer').mode('append').save(path)"
    with Cluster(tmp_path / "cluster") as cluster:
        conf = {
            **site.store.conf(),
            "spark.executor.memory": "768m",
            "spark.cores.max": "2",
        }
        running = Driver(
            {},
            sealed=True,
            log=tmp_path / "clustered.log",
            master=cluster.master,
            config_dir=site.owner.config_dir,
            passphrase_file=site.owner.passphrase_file,
            conf=conf,
        )
        with running, held(site.store, puts("/part-")) as holding:
            failed: list[QueryFailed] = []

            def write() -> None:
                try:
                    running.run(code, sql=VALUES, path=path)
                except QueryFailed as error:
                    failed.append(error)

            writing = threading.Thread(target=write)
            writing.start()
            holding.wait()
            for pid in cluster.executors():
                os.kill(pid, signal.SIGKILL)
            holding.let_go()
            writing.join(HANGS)
            assert not writing.is_alive()
    # Its tasks ran again elsewhere, or the write failed; never half of it.
    wanted = ROWS if failed else 2 * ROWS
    assert site.count(path) == wanted
    site.coffer("verify", "--clean", path)
    assert site.count(path) == wanted


@pytest.mark.full
def test_a_command_that_is_killed_at_any_time_on_hdfs(tmp_path: Path) -> None:
    owner = Owner.create(tmp_path / "trusted")
    store = Hdfs(tmp_path / "store").start()
    try:
        env = store.environment()
        path = f"{store.root}/t"
        source = tmp_path / "rows.csv"
        source.write_text("id\n" + "".join(f"{i}\n" for i in range(ROWS)))
        schema = ("--header", "--schema", "id INT")
        owner.coffer("encrypt", *schema, source, path, env=env)

        def rows() -> int:
            out = tmp_path / "out.csv"
            out.unlink(missing_ok=True)
            owner.coffer("decrypt", path, out, env=env)
            with out.open() as lines:
                return len([row for row in csv.reader(lines) if row and row[0] != "id"])

        command = [find_binary("coffer"), "encrypt", "--append", *schema, source, path]
        began = time.monotonic()
        owner.coffer(*command[1:], env=env)
        takes = time.monotonic() - began
        written = 2 * ROWS
        for part in range(1, 12):
            writer = subprocess.Popen(
                command,
                env={**owner.environment(), **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                writer.wait(takes * part / 10)
            except subprocess.TimeoutExpired:
                writer.send_signal(signal.SIGKILL)
            ended = writer.wait(60)
            found = rows()
            assert found - written in ((ROWS,) if ended == 0 else (0, ROWS))
            written = found
        owner.coffer("verify", "--clean", path, env=env)
        assert "sound" in owner.coffer("verify", "--deep", path, env=env).stdout
        assert rows() == written
    finally:
        store.stop()
