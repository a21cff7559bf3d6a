"""TPC-H and TPC-DS: every side runs every query, taking turns, on the same machine in the same run.

All sides read the same rows: plaintext Spark and Comet plain Parquet files, the others tables made
of them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from coffer_bench import duck, layout
from coffer_bench.report import Measured
from coffer_bench.sides import EVERY, PEERS, Resources, Side
from coffer_testing import tpcds, tpch
from coffer_testing.answers import Answer, difference
from coffer_testing.runner import Driver, QueryFailed


@dataclass(frozen=True)
class Suite:
    """A benchmark's queries by name, in their order; its tables at a scale; the text of a query;
    how it is run, for which one of the sides may be asked. `tolerances`: of queries whose floats
    plaintext Spark itself rounds differently from run to run."""

    queries: tuple[str, ...]
    data: Callable[[str], dict[str, Path]]
    text: Callable[[str], str]
    as_run: Callable[[str, Driver], str] = lambda sql, _: sql
    tolerances: dict[str, float] = dataclasses.field(default_factory=dict)

    def choose(self, wanted: str) -> list[str]:
        """The queries that are asked for, as `1,6,12-15,14a`; `all`, and TPC-DS's `v2.7`."""
        found: list[str] = []
        for part in wanted.split(","):
            chosen = [name for name in self.queries if _is_meant(name, part)]
            if not chosen:
                raise ValueError(f"no query {part!r}")
            found += [name for name in chosen if name not in found]
        return found


def _is_meant(name: str, part: str) -> bool:
    base, _, version = name.removeprefix("q").partition("_")
    if part in ("all", name, name.removeprefix("q"), version or "all"):
        return True
    bounds = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
    if bounds is None or version:
        return False
    first, last = bounds.group(1), bounds.group(2)
    return int(first) <= int(base.rstrip("ab")) <= int(last or first)


SUITES = {
    "tpch": Suite(
        tuple(f"q{number}" for number in range(1, 23)),
        tpch.data,
        lambda name: tpch.query(int(name.removeprefix("q"))),
    ),
    "tpcds": Suite(
        tuple(tpcds.QUERIES),
        tpcds.data,
        tpcds.query,
        # Answers could not be compared as they are: see there.
        lambda sql, side: tpcds.total_order(sql, tpcds.column_count(sql, side)),
        tpcds.APPROXIMATE,
    ),
}


@dataclass(frozen=True)
class Rounds:
    """How often each side runs each query: to warm up, and to be measured. `partitions`: numbers of
    shuffle partitions of which each side that is a Spark session takes what suits it best; none:
    all take that of the resources."""

    warm_ups: int
    runs: int
    partitions: tuple[int, ...] = ()


def measure(
    suite: Suite,
    scale: str,
    names: list[str],
    rounds: Rounds,
    folder: Path,
    sides: list[str],
    resources: Resources,
    keep: Callable[[Measured], None] = lambda _: None,
) -> Measured:
    """Runs each query on each side to warm up, then to be measured, the sides taking turns. The
    first side's first answer is what all others are compared with, in every run. A query that fails
    on a side is a wrong answer, and not in its seconds. `keep` takes what there is after each
    query."""
    texts = {name: suite.text(name) for name in names}
    tables = used(suite.data(scale), texts.values())
    measured = Measured({side: {} for side in sides}, settings=dataclasses.asdict(resources))
    measured.settings["warm_ups"] = rounds.warm_ups
    with ExitStack() as stack:
        drivers = {
            side: stack.enter_context(EVERY[side](tables, folder, resources)) for side in sides
        }
        measured.settings["layout"] = {side: layout.of(side, tables, folder) for side in sides}
        first = cast(Driver, drivers[sides[0]])
        as_run = {name: suite.as_run(text, first) for name, text in texts.items()}
        confs = _tuned(drivers, as_run.values(), rounds.partitions, measured)
        loads = measured.settings.setdefault("load", [])
        for name, sql in as_run.items():
            loads.append(round(os.getloadavg()[0], 2))
            tolerance = suite.tolerances.get(name, 0.0)
            _Query(name, sql, tolerance, drivers, confs, measured).measure(rounds)
            keep(measured)
        if (sealed := folder / "coffer-tables").is_dir():
            plain, stored = sum(map(_bytes, tables.values())), _bytes(sealed)
            measured.settings["storage"] = {
                "plain_bytes": plain,
                "sealed_bytes": stored,
                "ratio": round(stored / plain, 3),
            }
    return measured


def _tuned(
    drivers: dict[str, Side], texts: Iterable[str], candidates: tuple[int, ...], measured: Measured
) -> dict[str, dict[str, str]]:
    """The settings by side: of the numbers of partitions that by which all queries together took
    the side the least time, in one run each after one to warm up. One with which a query fails is
    taken only if all are such."""
    if not candidates:
        return {}
    chosen = {}
    for side, driver in drivers.items():
        if side == "duckdb":
            continue
        totals: dict[int, float] = {}
        for partitions in (candidates[0], *candidates):
            seconds = 0.0
            for sql in texts:
                try:
                    seconds += driver.timed(sql, _partitions(partitions))["seconds"]
                except QueryFailed:
                    seconds = math.inf
            totals[partitions] = round(seconds, 3)
        best = min(totals, key=lambda partitions: totals[partitions])
        print(f"{side}: {best} shuffle partitions of {totals}", file=sys.stderr)
        measured.settings.setdefault("tuned", {})[side] = {
            "partitions": best,
            "seconds": {
                str(partitions): taken if math.isfinite(taken) else None
                for partitions, taken in totals.items()
            },
        }
        chosen[side] = _partitions(best)
    return chosen


def _partitions(count: int) -> dict[str, str]:
    return {"spark.sql.shuffle.partitions": str(count)}


@dataclass
class _Query:
    """One query on all sides, each with its settings."""

    name: str
    text: str
    tolerance: float
    drivers: dict[str, Side]
    confs: dict[str, dict[str, str]]
    measured: Measured
    expected: Answer | None = None

    def measure(self, rounds: Rounds) -> None:
        replies: dict[str, list[dict[str, Any]]] = {side: [] for side in self.drivers}
        for run in range(-rounds.warm_ups, rounds.runs):
            for side in self._turn(run):
                reply = self._run(side)
                if reply is not None and run >= 0:
                    replies[side].append(reply)
            if run >= 0:
                told = [f"{side} {replies[side][-1]['seconds']:.3f} s" for side in self._ready()]
                print(f"{self.name} run {run + 1}: {', '.join(told)}", file=sys.stderr)
        for side in self._ready():
            self._keep(side, replies[side])

    def _ready(self) -> list[str]:
        return [side for side in self.drivers if (self.name, side) not in self.measured.failed]

    def _turn(self, run: int) -> list[str]:
        """Whoever comes first finds the caches as the last one left them: so the first place
        changes hands. The first run of all is the first side's, whose answer is expected."""
        ready = self._ready()
        first = max(0, run) % max(1, len(ready))
        return ready[first:] + ready[:first]

    def _run(self, side: str) -> dict[str, Any] | None:
        try:
            reply = self.drivers[side].timed(self.text, self.confs.get(side))
        except QueryFailed as failure:
            _wrong(self.name, side, _reason(failure), self.measured)
            return None
        answer = Answer.from_json(reply)
        ordered = tpcds.is_ordered(self.text)
        self.expected = self.expected or answer
        found = (
            duck.difference(self.expected, answer)
            if side == "duckdb"
            else difference(self.expected, answer, ordered=ordered, tolerance=self.tolerance)
        )
        if found is not None:
            _wrong(self.name, side, found, self.measured)
            return None
        self.measured.same_answer.setdefault(self.name, True)
        digests = self.measured.answers.setdefault(self.name, {}).setdefault(side, [])
        if (digest := _digest(answer, ordered)) not in digests:
            digests.append(digest)
        return reply

    def _keep(self, side: str, replies: list[dict[str, Any]]) -> None:
        self.measured.seconds[side][self.name] = [round(one["seconds"], 4) for one in replies]
        times = [reply["milliseconds"] for reply in replies]
        if times:
            self.measured.milliseconds.setdefault(side, {})[self.name] = {
                key: round(statistics.median(one[key] for one in times)) for key in times[0]
            }
            if side == "coffer":
                self.measured.counters[self.name] = replies[-1]["counters"]


def _digest(answer: Answer, ordered: bool) -> str:
    """SHA-256 of the columns and the rows; of rows without an order in one that is always the
    same."""
    rows = [json.dumps(row) for row in answer.rows]
    text = "\n".join([json.dumps(answer.schema), *(rows if ordered else sorted(rows))])
    return hashlib.sha256(text.encode()).hexdigest()


def _reason(failure: QueryFailed) -> str:
    """The line that says why: where Py4J carries an error of Java, that is its second."""
    lines = str(failure).splitlines()
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])


def _wrong(name: str, side: str, why: str, measured: Measured) -> None:
    print(f"{name} on {side}: {why[:300]}", file=sys.stderr)
    measured.failed[(name, side)] = why
    # Peers may be wrong by themselves; what is said here of an answer is said of Coffer.
    if side not in PEERS:
        measured.same_answer[name] = False


def _bytes(path: Path) -> int:
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        if path.is_dir()
        else path.stat().st_size
    )


def used(tables: dict[str, Path], texts: Iterable[str]) -> dict[str, Path]:
    """Those of the tables that these queries name."""
    words = set(re.findall(r"\w+", " ".join(texts)))
    return {name: path for name, path in tables.items() if name in words}
