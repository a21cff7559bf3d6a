"""Mutations of an executor's disk about spill: files that an engine with little memory wrote, and
will read again."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coffer_adversary import fixtures
from coffer_adversary.attack_cluster import CONF, Hung
from coffer_adversary.judge import DEFECTS, named
from coffer_adversary.logs import Log
from coffer_adversary.mutation import Outcome
from coffer_testing.answers import difference
from coffer_testing.processes import ended
from coffer_testing.processes import named as processes_named
from coffer_testing.runner import Driver, QueryFailed

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster
    from coffer_adversary.fixtures import Pieces

# So little that sorts and aggregates of 140,000 rows do not fit, and so much that the queries still
# end.
_MEMORY = "8MiB"
_SETTLES = 5.0  # seconds that a refused query's tasks may take to end
_STOPS = 1.0  # seconds that the threads of an engine may take to stand still


def _stands(process: int) -> bool:
    """Whether each thread is stopped (proc(5): state T), or the process is gone."""
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        states = [(thread / "stat").read_text().rpartition(") ")[2][:1] for thread in threads]
    except (FileNotFoundError, ProcessLookupError):
        return not Path(f"/proc/{process}").exists()
    return all(state in "TtZX" for state in states)


class Cramped:
    """A Spark application of its own whose engine has little memory."""

    def __init__(self, cluster: AttackCluster) -> None:
        self.pieces: Pieces = fixtures.pieces(cluster)
        self._cluster_for = cluster
        self._local = cluster.folder / "cramped"
        self._local.mkdir(exist_ok=True)
        # Files of earlier queries; what this query's files were at the last look.
        self.museum: list[bytes] = []
        self.seen: dict[Path, bytes] = {}
        self._start()

    def _start(self) -> None:
        cluster = self._cluster_for
        self.driver = Driver(
            {"pieces": self.pieces.folder},
            sealed=True,
            log=cluster.folder / "cramped.log",
            config_dir=cluster.owner.config_dir,
            passphrase_file=cluster.owner.passphrase_file,
            conf={
                **CONF,
                "spark.coffer.engine.memory": _MEMORY,
                "spark.local.dir": str(self._local),
                "spark.sql.autoBroadcastJoinThreshold": "-1",
                "spark.sql.shuffle.partitions": "2",
            },
        )
        self.log = Log(self.driver, cluster.folder / "cramped.log")
        # An engine makes the folder of its spill files when it starts.
        cluster.within(lambda: self.driver.query("SELECT count(*) FROM pieces WHERE id < 5"))
        self._folders = list(self._local.glob("*/coffer-spill-*/coffer-spill-*"))

    def restart(self) -> None:
        self.driver.stop()
        self._start()

    def stop(self) -> None:
        self.driver.stop()

    def engines(self) -> list[int]:
        return processes_named({self.driver.pid}, "coffer-engine")

    def files(self) -> list[Path]:
        """Spill files that hold something now."""
        found = []
        for folder in self._folders:
            for entry in os.scandir(folder):
                try:
                    if entry.stat().st_size:
                        found.append(Path(entry.path))
                except FileNotFoundError:
                    continue
        return sorted(found)

    def settle(self) -> None:
        """Waits, for a while, until the tasks of the last query have let go of their files, and so
        of their memory."""
        deadline = time.monotonic() + _SETTLES
        while self.files() and time.monotonic() < deadline:
            time.sleep(0.01)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The engine does nothing meanwhile."""
        engines = self.engines()
        for engine in engines:
            os.kill(engine, signal.SIGSTOP)
        deadline = time.monotonic() + _STOPS
        while not all(map(_stands, engines)) and time.monotonic() < deadline:
            time.sleep(0.0002)
        try:
            yield
        finally:
            for engine in engines:
                os.kill(engine, signal.SIGCONT)


# Changes some of the files of an engine that stands still; says what it did.
Change = Callable[[Cramped, list[Path], random.Random], str | None]


@dataclass(frozen=True)
class Spilled:
    """One change of spill files, while a query that spills is asked. The first file is waited for,
    then a moment more, so that the change falls into the writing or into the reading."""

    name: str
    change: Change
    needs: frozenset[str] = frozenset({"local"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        cramped = cluster.keep("cramped", lambda: Cramped(cluster))
        cramped.settle()
        question = cramped.pieces.spilling(rng)
        # Whole, or with time between stages, in which files are looked at.
        whole = rng.choice(["on", "off"])
        conf = {"spark.coffer.oneMachine": whole, "spark.coffer.exchange.inMemory": whole}
        cramped.seen.clear()
        engines = cramped.engines()
        what: list[str] = []
        over = threading.Event()

        def watch() -> None:
            spared = rng.choice([0, 0, 1, 2])
            while not over.is_set() and not what:
                if not cramped.files():
                    time.sleep(0.0005)
                    continue
                if spared:
                    spared -= 1
                    over.wait(0.003)
                    continue
                # A file may go before the engine stands still.
                with cramped.stopped(), suppress(FileNotFoundError):
                    files = cramped.files()
                    did = self.change(cramped, files, rng) if files else None
                    what.extend([did] if did else [])
                over.wait(0.001)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            answer = cluster.within(lambda: cramped.driver.query(question.sql, conf))
        except Hung as hung:
            cramped.restart()
            verdict = ("wrong", "hang", str(hung))
        except QueryFailed as error:
            code = named(error.message)
            sound = code is not None and code not in DEFECTS
            short = " ".join(error.message.split())[:300]
            verdict = ("detected", code, short) if sound else ("wrong", code or "no-code", short)
        else:
            found = difference(question.expected, answer, ordered=False)
            verdict = ("wrong", "rows", found) if found else ("right_rows", "", "")
        finally:
            over.set()
            ended(thread)
        if cramped.engines() != engines:
            verdict = ("wrong", "engine-lost", "the engine ended")
        panic = cramped.log.panic()
        if panic:
            verdict = ("wrong", "panic", panic)
        detail = (
            f"{question.sql}, whole {whole}: "
            f"{what[0] if what else 'nothing'}{': ' + verdict[2] if verdict[2] else ''}"
        )
        return Outcome(bool(what), verdict[0], verdict[1], detail)


def _rewrite(file: Path, content: bytes) -> None:
    """Writes over a file that is there. One that the engine has just let go of is not made anew: it
    would lie there for ever, and be what every later mutation finds first."""
    with file.open("r+b") as there:
        there.write(content)
        there.truncate()


def _flip(_: Cramped, files: list[Path], rng: random.Random) -> str:
    file = rng.choice(files)
    at = rng.randrange(file.stat().st_size)
    fixtures.flip(file, at, rng.randrange(8))
    return f"byte {at} of a spill file of {file.stat().st_size}"


def _cut(_: Cramped, files: list[Path], rng: random.Random) -> str:
    file = rng.choice(files)
    size = file.stat().st_size
    left = rng.randrange(size)
    os.truncate(file, left)
    return f"a spill file cut from {size} to {left}"


def _emptied(_: Cramped, files: list[Path], rng: random.Random) -> str:
    os.truncate(rng.choice(files), 0)
    return "a spill file emptied"


def _extended(_: Cramped, files: list[Path], rng: random.Random) -> str:
    with rng.choice(files).open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(rng.randbytes(100))
    return "bytes behind a spill file"


def _zeroed(_: Cramped, files: list[Path], rng: random.Random) -> str:
    file = rng.choice(files)
    at = rng.randrange(file.stat().st_size)
    fixtures.overwrite(file, at, bytes(min(400, file.stat().st_size - at)))
    return f"zeros at {at}"


def _swapped(_: Cramped, files: list[Path], rng: random.Random) -> str | None:
    if len(files) < 2:
        return None
    one, other = rng.sample(files, 2)
    a, b = one.read_bytes(), other.read_bytes()
    if a == b:
        return None
    _rewrite(one, b)
    _rewrite(other, a)
    return "two spill files swapped"


def _twice(_: Cramped, files: list[Path], rng: random.Random) -> str | None:
    if len(files) < 2:
        return None
    one, other = rng.sample(files, 2)
    if one.read_bytes() == other.read_bytes():
        return None
    _rewrite(one, other.read_bytes())
    return "a spill file in another one's place"


def _blocks_swapped(_: Cramped, files: list[Path], rng: random.Random) -> str | None:
    """Two equal stretches of one file change places."""
    file = rng.choice(files)
    content = file.read_bytes()
    half = len(content) // 2
    if content[:half] == content[half : 2 * half]:
        return None
    _rewrite(file, content[half : 2 * half] + content[:half] + content[2 * half :])
    return "the halves of a spill file swapped"


def _of_an_earlier_query(cramped: Cramped, files: list[Path], rng: random.Random) -> str | None:
    now = rng.choice(files).read_bytes()
    old = rng.choice(cramped.museum) if cramped.museum else None
    cramped.museum = [*cramped.museum, now][-8:]
    if old is None:
        return None
    for file in files:
        _rewrite(file, old)
    return f"a spill file of an earlier query, {len(old)} bytes, in the place of {len(files)}"


def _aged(cramped: Cramped, files: list[Path], _: random.Random) -> str | None:
    """Files are what they were a moment before: all that have grown, as some have been read and
    will not be again."""
    aged = []
    for file in files:
        before, now = cramped.seen.get(file, b""), file.read_bytes()
        if before and len(before) < len(now):
            _rewrite(file, before)
            aged.append(f"{len(now)} bytes as it was with {len(before)}")
        cramped.seen[file] = now
    return f"spill files of {', '.join(aged)}" if aged else None


def _removed(_: Cramped, files: list[Path], rng: random.Random) -> str:
    """All of them: what an engine holds open it goes on reading, and others it opens only when it
    reads them."""
    del rng
    for file in files:
        file.unlink(missing_ok=True)
    return f"{len(files)} spill files removed"


MUTATIONS = (
    Spilled("spill-flipped", _flip),
    Spilled("spill-cut", _cut),
    Spilled("spill-emptied", _emptied),
    Spilled("spill-extended", _extended),
    Spilled("spill-zeroed", _zeroed),
    Spilled("spill-swapped", _swapped),
    Spilled("spill-twice", _twice),
    Spilled("spill-halves-swapped", _blocks_swapped),
    Spilled("spill-of-an-earlier-query", _of_an_earlier_query),
    Spilled("spill-aged", _aged),
    Spilled("spill-removed", _removed),
)
