"""The host with somebody who reads all of it: a cluster on addresses of its own, and what was found
where."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from coffer_testing.cluster import Cluster
from coffer_testing.leaks import disks, dumps, pages
from coffer_testing.leaks.capture import Capture, Captured
from coffer_testing.leaks.pages import Fetched
from coffer_testing.search import Hit, Planted, search
from coffer_testing.servers.store_relay import RelayedS3

# What is searched, in the order of reports.
PLACES = {
    "heap": "heap dumps of the executors' JVMs, unreachable objects included",
    "core": "core files of the executors' JVMs (gcore)",
    "shuffle": "shuffle and broadcast files on the executors' local disks, those too that live "
    "for a moment",
    "spill": "spill files, the same way",
    "disk": "whatever else is on the local disks",
    "logs": "work folders and logs: stdout and stderr of executors, workers, master",
    "events": "Spark's event log, its folder on untrusted storage",
    "pages": "the web pages and JSON of master and workers",
    "traffic": "TCP streams between driver, executors, workers and master",
    "stored": "the tables as stored, and those that were written",
    "store": "a store that tables lie on (S3): its objects, all that it was asked and answered, "
    "its log",
    "names": "names of all those files",
    "processes": "command lines and environments of executors, engines, workers, master",
    "daemons": "heap dumps of master and workers",
}


@dataclass(frozen=True)
class Finding:
    """A hit, in which place, and after which workload if it was found in a dump."""

    place: str
    moment: str
    hit: Hit


@dataclass
class Seen:
    """What one run let be seen."""

    searched: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    findings: list[Finding] = field(default_factory=list)
    captured: Captured = field(default_factory=lambda: Captured(missing="it was not begun"))
    no_core: str | None = None
    looks: int = 0
    pages: Fetched = field(default_factory=Fetched)
    keys: int = 0  # secrets that were searched for beside the planted values
    keys_in_engines: int | None = (
        None  # how many of them engines had in memory: the control of that search
    )

    def count(self, *, place: str | None = None, moment: str | None = None) -> int:
        """How many hits there were there and then."""
        return sum(
            finding.hit.count
            for finding in self.findings
            if place in (None, finding.place) and moment in (None, finding.moment)
        )


class Host:
    """A two-worker cluster under `folder` and its reader. All its addresses, and that of a driver,
    are in one network, which tells its traffic from whatever else goes over loopback: PySpark's
    talk with its own JVM is the client site's. With `store`, it has an S3 too, whose relay writes
    down each request and answer whole."""

    def __init__(self, folder: Path, wanted: Iterable[Planted], *, store: bool = False) -> None:
        number = os.getpid()
        network = f"127.{1 + number // 250 % 250}.{1 + number % 250}."
        self.driver_address = f"{network}9"
        self.events = folder / "events"
        self.stored = folder / "stored"
        for place in (self.events, self.stored):
            place.mkdir(parents=True)
        self._folder = folder
        self._wanted = list(wanted)
        self.seen = Seen(no_core=dumps.can_core())
        self._capture: Capture | None = Capture(network, folder / "traffic")
        self.cluster = Cluster(folder / "site", hosts=[f"{network}{last}" for last in (10, 11, 12)])
        local = [self.cluster.local_folder(number) for number in range(2)]
        self._keeper = disks.Keeper(local, folder / "kept")
        self.store = RelayedS3(folder / "server", record=True).start() if store else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cluster.stop()
        if self._capture:
            self._capture.stop()
        self._keeper.stop()
        if self.store:
            self.store.stop()

    def want(self, more: Iterable[Planted]) -> None:
        """Searches for these too, from now on."""
        known = {value.name for value in self._wanted}
        new = [value for value in more if value.name not in known]
        self._wanted += new
        self.seen.keys += len(new)

    def look(self, moment: str) -> None:
        """Dumps the executors' memory as it is now, and searches it."""
        executors = self.cluster.executors()
        if len(executors) != 2:
            raise AssertionError(f"{len(executors)} executors are running, not two")
        folder = self._folder / "dumps"
        for pid in executors:
            for place, dump in (("heap", dumps.heap), ("core", dumps.core)):
                if place == "core" and self.seen.no_core:
                    continue
                folder.mkdir()
                dump(pid, folder)
                self._search(place, [folder], moment)
                shutil.rmtree(folder)
        self.seen.looks += 1

    def finish(self) -> Seen:
        """Searches all that was gathered. The application must still be running: ended ones clean
        up behind themselves."""
        assert self._capture, "it was finished before"
        folder, cluster = self._folder, self.cluster
        self.seen.captured = self._capture.stop()
        self._capture = None
        self._keeper.stop()
        self.seen.pages = pages.fetch(cluster.uis, folder / "pages")
        (folder / "processes").mkdir()
        dumps.processes(
            [*cluster.daemons(), *cluster.executors(), *cluster.engines()], folder / "processes"
        )
        (folder / "daemons").mkdir()
        for pid in cluster.daemons():
            dumps.heap(pid, folder / "daemons")
        logs = [
            *(folder / "site").glob("*.log"),
            *(cluster.work_folder(number) for number in range(2)),
        ]
        kept = {kind: [folder / "kept" / kind] for kind in disks.KINDS}
        store = [*self.store.dump(folder / "objects"), self.store.recorded] if self.store else []
        gathered = {
            **kept,
            "store": store,
            "logs": logs,
            **{
                place: [folder / place]
                for place in ("events", "pages", "traffic", "stored", "processes", "daemons")
            },
        }
        names = folder / "names"
        names.write_text(
            "\n".join(str(path) for roots in gathered.values() for path in _names(roots))
        )
        for place, roots in {**gathered, "names": [names]}.items():
            self._search(place, roots, "the end")
        return self.seen

    def _search(self, place: str, roots: list[Path], moment: str) -> None:
        hits, searched = search([root for root in roots if root.exists()], self._wanted)
        self.seen.searched[place] += searched
        self.seen.findings += [Finding(place, moment, hit) for hit in hits]


def _names(roots: Iterable[Path]) -> list[Path]:
    """Below each root, without the part above it, which is the harness's own."""
    return [path.relative_to(root.parent) for root in roots for path in (root, *root.rglob("*"))]
