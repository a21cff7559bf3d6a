"""SafeSpark's table: eight queries of TPC-DS, plaintext Spark against three setups of protections.

The setups are policies under `bench/policies`: `enclave` (everything is opened in enclaves),
`ope-first` and `det-first` (what is compared is compared as ciphertext). All on clusters of two
workers with one core each, whose executors and engines are measured: CPU, memory, the bytes that
they read from disk and write to it, and loopback's traffic. Seconds are from a query's text to its
rows at the client, the encryption of its parameters and the decryption of its result included.

Loading is plaintext Spark reading the tables and writing them as Parquet, and `coffer encrypt` of
the same files, each from start to end but for Spark's own start.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from coffer_bench import clusters, experiment
from coffer_bench.clusters import Running, Shape
from coffer_bench.queries import SUITES, used
from coffer_bench.usage import Usage, forget
from coffer_testing import tpcds
from coffer_testing.answers import Answer, difference
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed

QUERIES = "24,27,31,37,40,46,73,82"
POLICIES = Path(__file__).parents[1] / "policies"
SETUPS = ("enclave", "ope-first", "det-first")
SIDES = ("spark", *SETUPS)
REFERENCE = {
    "query time": "1.13 to 4.1 times plaintext",
    "load": "148 to 165 times plaintext",
    "size": "4.7 to 6.4 times plaintext",
    "crossings": "4.5 million for query 31",
    "bytes read": "query 46: 107 % more",
    "bytes written": "query 82: 97 % more",
}
# Of plaintext Spark, at most: with everything in enclaves, and with det and ope.
QUERY, LOAD, SIZE = (0.6, 1.0), (1.0, 2.0), (1.03, 1.8)
BYTES, CROSSINGS = 1.1, 999
_REWRITE = """
import time
start = time.perf_counter()
for name, source in tables.items():
    spark.read.parquet(source).write.parquet(f"{target}/{name}")
result = time.perf_counter() - start
"""


def measure(
    scale: str, runs: int, warm_ups: int, folder: Path, wanted: str = QUERIES, loads: int = 3
) -> dict[str, Any]:
    """The JSON object. `loads`: how often loading is timed."""
    suite = SUITES["tpcds"]
    names = suite.choose(wanted)
    texts = {name: suite.text(name) for name in names}
    tables = used(tpcds.data(scale), texts.values())
    load, owners, sealed = _load(tables, folder, loads)
    experiment.say("load", load)
    plain = sum(map(experiment.size, tables.values()))
    sizes = {setup: sum(map(experiment.size, sealed[setup].values())) / plain for setup in SETUPS}
    seen = _Seen()
    shape = Shape(partitions=4 if float(scale) <= 1 else round(5 * float(scale)))
    with ExitStack() as stack:
        sides = {
            side: stack.enter_context(
                clusters.running(
                    side,
                    sealed.get(side, tables),
                    folder,
                    shape,
                    owner=owners.get(side),
                    conf={"spark.coffer.client.maxBytes": "4g"} if side in owners else None,
                )
            )
            for side in SIDES
        }
        for name, text in texts.items():
            sql = suite.as_run(text, sides["spark"].driver)
            files = {side: list(sealed.get(side, tables).values()) for side in SIDES}
            _Query(name, sql, sides, files, seen).measure(runs, warm_ups)
    settings = {
        "sf": float(scale) if "." in scale else int(scale),
        "queries": names,
        "runs": runs,
        "warm_ups": warm_ups,
        "workers": shape.workers,
        "heap": shape.heap,
        "native": shape.native,
        "partitions": shape.partitions,
        "plain_bytes": plain,
    }
    return _result(settings, names, load, sizes, seen)


class _Seen:
    """What was measured: by side and query."""

    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, list[float]]] = {side: {} for side in SIDES}
        self.usage: dict[str, dict[str, Usage]] = {side: {} for side in SIDES}
        self.crossings: dict[str, dict[str, int]] = {side: {} for side in SETUPS}
        self.answers: dict[str, dict[str, list[str]]] = {}
        self.same: dict[str, bool] = {}
        self.failed: dict[str, dict[str, str]] = {}


class _Query:
    """One query on all sides."""

    def __init__(
        self,
        name: str,
        sql: str,
        sides: dict[str, Running],
        files: dict[str, list[Path]],
        seen: _Seen,
    ) -> None:
        self.name, self.sql, self.sides, self.files, self.seen = name, sql, sides, files, seen
        self.expected: Answer | None = None
        self.used: dict[str, list[Usage]] = {side: [] for side in sides}

    def measure(self, runs: int, warm_ups: int) -> None:
        self.seen.same[self.name] = True
        for side in SIDES:
            try:
                self._run(side, False)
            except QueryFailed as failure:
                why = str(failure).splitlines()[0]
                print(f"{self.name} on {side}: {failure}", file=sys.stderr)
                self.seen.failed.setdefault(self.name, {})[side] = why
                self.seen.same[self.name] = False
        ready = [side for side in SIDES if side not in self.seen.failed.get(self.name, {})]
        taken = experiment.in_turns(ready, runs, warm_ups, self._run)
        experiment.say(self.name, taken)
        for side, seconds in taken.items():
            self.seen.seconds[side][self.name] = seconds
            means = {
                key: statistics.mean(used[key] for used in self.used[side])
                for key in ("cpu_s", "memory_mib", "loopback_bytes")
            }
            forget(self.files[side])
            before = len(self.used[side])
            self._run(side, True)
            cold = self.used[side][before]
            disk = {key: cold[key] for key in ("read_bytes", "written_bytes") if key in cold}
            self.seen.usage[side][self.name] = {key: round(v, 3) for key, v in means.items()} | disk

    def _run(self, side: str, counted: bool) -> float:
        with self.sides[side].meter() as meter:
            reply = self.sides[side].driver.timed(self.sql)
        answer = Answer.from_json(reply)
        ordered = tpcds.is_ordered(self.sql)
        self.expected = self.expected or answer
        found = difference(self.expected, answer, ordered=ordered)
        if found is not None:
            print(f"{self.name} on {side}: {found[:300]}", file=sys.stderr)
            self.seen.same[self.name] = False
        rows = answer.rows if ordered else sorted(answer.rows, key=str)
        digests = self.seen.answers.setdefault(self.name, {}).setdefault(side, [])
        if (digest := experiment.digest([answer.schema, *rows])) not in digests:
            digests.append(digest)
        if counted:
            self.used[side].append(meter.usage)
        if side in self.seen.crossings:
            self.seen.crossings[side][self.name] = reply["counters"]["crossings"]
        return float(reply["seconds"])


def _load(
    tables: dict[str, Path], folder: Path, loads: int
) -> tuple[dict[str, list[float]], dict[str, Owner], dict[str, dict[str, Path]]]:
    """Seconds of loading by side; and by setup the owner and the tables of the last time."""
    owners: dict[str, Owner] = {}
    sealed: dict[str, dict[str, Path]] = {}
    fresh = itertools.count()
    with Driver(
        {}, sealed=False, log=folder / "load.log", conf={"spark.driver.memory": "3g"}
    ) as spark:
        sources = {name: str(path) for name, path in tables.items()}

        def one(side: str, _: bool) -> float:
            target = folder / f"{side}-tables-{next(fresh)}"
            if side == "spark":
                took: float = spark.run(_REWRITE, tables=sources, target=str(target))
                shutil.rmtree(target)
                return took
            for old in sealed.pop(side, {}).values():
                shutil.rmtree(old)
            # One of its own each time: a register remembers tables that are gone.
            owners[side] = Owner.create(target.with_name(f"{target.name}-trusted"))
            owners[side].sign(owners[side].policy + (POLICIES / f"{side}.toml").read_text())
            start = time.perf_counter()
            sealed[side] = owners[side].encrypt(tables, target)
            return time.perf_counter() - start

        return experiment.in_turns(SIDES, loads, min(1, loads - 1), one), owners, sealed


def _result(
    settings: dict[str, Any],
    names: list[str],
    load: dict[str, list[float]],
    sizes: dict[str, float],
    seen: _Seen,
) -> dict[str, Any]:
    targets = []
    for setup in SETUPS:
        enclave = 0 if setup == "enclave" else 1
        of = {
            name: experiment.ratio(seen.seconds[setup].get(name, []), seen.seconds["spark"][name])
            for name in names
        }
        targets += [
            experiment.at_most(
                f"{setup}, {name}: time of plaintext", value, (QUERY[0], 1.0)[enclave]
            )
            for name, value in of.items()
        ]
        targets += [
            experiment.at_most(
                f"{setup}: load of plaintext",
                experiment.ratio(load[setup], load["spark"]),
                LOAD[enclave],
            ),
            experiment.at_most(f"{setup}: size of plaintext", sizes[setup], SIZE[enclave]),
            experiment.at_most(
                f"{setup}: most crossings",
                max(seen.crossings[setup].values(), default=None),
                CROSSINGS,
            ),
            *_moved(setup, names, seen),
        ]
    table = {
        name: {
            side: _mean(seen.seconds[side][name]) for side in SIDES if seen.seconds[side].get(name)
        }
        for name in names
    }
    return {
        **experiment.head("safespark", SIDES, settings),
        "seconds": {side: {"load": load[side], **seen.seconds[side]} for side in SIDES},
        "same_answer": seen.same,
        "answers": seen.answers,
        "failed": seen.failed,
        "size": {setup: round(size, 4) for setup, size in sizes.items()},
        "crossings": seen.crossings,
        "usage": seen.usage,
        "targets": targets,
        "tables": {
            "Seconds, mean and deviation": table,
            "Crossings": {
                name: {setup: seen.crossings[setup].get(name) for setup in SETUPS} for name in names
            },
            **{
                f"Executors' side: {what}": {
                    name: {side: seen.usage[side].get(name, {}).get(key) for side in SIDES}
                    for name in names
                }
                for key, what in {
                    "cpu_s": "CPU seconds",
                    "memory_mib": "most memory, MiB",
                    "read_bytes": "bytes read from disk, tables not cached",
                    "written_bytes": "bytes written to disk",
                    "loopback_bytes": "bytes over loopback (of the whole machine)",
                }.items()
            },
        },
        "reference": REFERENCE,
        "left_out": [
            "Bytes read and written are of one more run of each query, whose tables were taken out "
            "of the page cache before it; everything else is of the counted runs.",
        ],
    }


def _moved(setup: str, names: Iterable[str], seen: _Seen) -> list[dict[str, Any]]:
    targets = []
    for key, what in (("read_bytes", "bytes read"), ("written_bytes", "bytes written")):
        sums = {
            side: [seen.usage[side].get(name, {}).get(key) for name in names]
            for side in (setup, "spark")
        }
        ours, theirs = (
            None if None in sums[side] else sum(filter(None, sums[side]))
            for side in (setup, "spark")
        )
        value = ours / theirs if ours is not None and theirs else None
        targets.append(experiment.at_most(f"{setup}: {what} of plaintext", value, BYTES))
    return targets


def _mean(seconds: list[float]) -> str:
    deviation = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return f"{statistics.mean(seconds):.3f} ± {deviation:.3f}"
