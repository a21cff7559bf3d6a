"""How cost grows with work: with the size of the data at fixed memory, with the number of files,
with the number of shuffle partitions, and with the number of queries at once.

Plaintext Spark and Coffer with the same cores and memory, taking turns. A slope is that of a
straight line through the logarithms of work and seconds (least squares): 1 is linear, 0 is no
growth. Each answer is compared with plaintext Spark's.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from coffer_bench import experiment
from coffer_bench.queries import SUITES, used
from coffer_bench.sides import START, Resources
from coffer_testing import tpch
from coffer_testing.answers import Answer, difference
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver

SIDES = ("spark", "coffer")
SCALES = ("0.1", "1", "3", "10")
FILES = (1, 10, 100, 1000)
PARTITIONS = (2, 8, 32, 200)
AT_ONCE = (1, 2, 4, 8)
# A scan with groups, a scan with a filter, a join with a sort, one with many groups.
QUERIES = (1, 3, 6, 18)
LINEAR = 1.0
_SPREAD = "spark.table(table).repartition(files).write.format(source).save(target)"
_TOGETHER = """
import concurrent.futures, time
def run(sql):
    return len(spark.sql(sql).collect())
with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
    start = time.perf_counter()
    counts = [one.result() for one in [pool.submit(run, q) for q in queries * at_once]]
    result = [time.perf_counter() - start, counts]
"""


def measure(
    runs: int,
    warm_ups: int,
    folder: Path,
    resources: Resources,
    *,
    scales: Sequence[str] = SCALES,
    files: Sequence[int] = FILES,
    partitions: Sequence[int] = PARTITIONS,
    at_once: Sequence[int] = AT_ONCE,
    scale: str = "1",
) -> dict[str, Any]:
    """The JSON object. `scale`: of the data of everything but the first part."""
    grown = _Growth(runs, warm_ups)
    for of_data in scales:
        with _both(of_data, folder / f"sf{of_data}", resources) as drivers:
            grown.queries("scale factor", float(of_data), drivers, {})
    with _both(scale, folder / "rest", resources) as drivers:
        for number in partitions:
            # AQE would join small partitions again.
            conf = {
                "spark.sql.shuffle.partitions": str(number),
                "spark.sql.adaptive.coalescePartitions.enabled": "false",
            }
            grown.queries("shuffle partitions", number, drivers, conf)
        for number in at_once:
            grown.together(number, drivers)
    for number in files:
        with _spread(scale, number, folder / f"files{number}", resources) as drivers:
            grown.queries("files", number, drivers, {}, only=(1, 6))
    settings = {
        "queries": list(QUERIES),
        "sf": scale,
        "runs": runs,
        "warm_ups": warm_ups,
        "cores": resources.cores,
        "heap": resources.heap,
        "native": resources.native,
    }
    return grown.result(settings)


class _Growth:
    """Seconds by axis, side and amount of work."""

    def __init__(self, runs: int, warm_ups: int) -> None:
        self.runs, self.warm_ups = runs, warm_ups
        self.seconds: dict[str, dict[str, dict[float, list[float]]]] = {}
        self.same: dict[str, bool] = {}

    def queries(
        self,
        axis: str,
        work: float,
        drivers: dict[str, Driver],
        conf: dict[str, str],
        only: Sequence[int] = QUERIES,
    ) -> None:
        """Of each run the sum over the queries."""
        expected: dict[int, Answer] = {}

        def one(side: str, _: bool) -> float:
            total = 0.0
            for number in only:
                answer = drivers[side].query(tpch.query(number), conf)
                first = expected.setdefault(number, answer)
                found = difference(first, answer, ordered=True)
                self._note(axis, found is None, f"query {number} on {side}: {found}")
                total += answer.seconds
            return total

        self._keep(axis, work, experiment.in_turns(SIDES, self.runs, self.warm_ups, one))

    def together(self, at_once: int, drivers: dict[str, Driver]) -> None:
        """So many threads with one of each of the queries for each of them."""
        texts = [tpch.query(number) for number in QUERIES]
        expected: list[list[int]] = []

        def one(side: str, _: bool) -> float:
            took, counts = drivers[side].run(_TOGETHER, queries=texts, at_once=at_once)
            expected.append(counts)
            self._note("queries at once", counts == expected[0], f"{side} gives other rows")
            return float(took)

        taken = experiment.in_turns(SIDES, self.runs, self.warm_ups, one)
        self._keep("queries at once", at_once * len(texts), taken)

    def result(self, settings: dict[str, Any]) -> dict[str, Any]:
        slopes = {
            axis: {side: slope(points) for side, points in by_side.items()}
            for axis, by_side in self.seconds.items()
        }
        return {
            **experiment.head("growth", SIDES, settings),
            "seconds": {
                side: {
                    f"{axis} {work:g}": taken
                    for axis, by_side in self.seconds.items()
                    for work, taken in by_side[side].items()
                }
                for side in SIDES
            },
            "same_answer": self.same,
            "slopes": slopes,
            "targets": [
                experiment.at_most(f"slope by {axis}", by_side["coffer"], LINEAR)
                for axis, by_side in slopes.items()
            ],
            "tables": {
                "Slopes": slopes,
                **{
                    f"Median seconds by {axis}": {
                        f"{work:g}": {
                            side: round(statistics.median(by_side[side][work]), 3) for side in SIDES
                        }
                        for work in by_side[SIDES[0]]
                    }
                    for axis, by_side in self.seconds.items()
                },
            },
            "left_out": [],
        }

    def _note(self, axis: str, same: bool, words: str) -> None:
        self.same[axis] = self.same.get(axis, True) and same
        if not same:
            print(f"{axis}: {words[:300]}", file=sys.stderr)

    def _keep(self, axis: str, work: float, taken: dict[str, list[float]]) -> None:
        experiment.say(f"{axis} {work:g}", taken)
        for side, seconds in taken.items():
            self.seconds.setdefault(axis, {}).setdefault(side, {})[work] = seconds


def slope(points: dict[float, list[float]]) -> float | None:
    """Of the line through the logarithms of work and of the medians; none of a single point."""
    if len(points) < 2:
        return None
    xs = [math.log(work) for work in points]
    ys = [math.log(statistics.median(seconds)) for seconds in points.values()]
    return round(statistics.linear_regression(xs, ys).slope, 3)


@contextmanager
def _both(scale: str, folder: Path, resources: Resources) -> Iterator[dict[str, Driver]]:
    suite = SUITES["tpch"]
    texts = [suite.text(f"q{number}") for number in QUERIES]
    tables = used(suite.data(scale), texts)
    folder.mkdir()
    with ExitStack() as stack:
        yield {side: stack.enter_context(START[side](tables, folder, resources)) for side in SIDES}


@contextmanager
def _spread(
    scale: str, files: int, folder: Path, resources: Resources
) -> Iterator[dict[str, Driver]]:
    """Both sides over lineitem in so many files, which each side has written itself."""
    plain = {"lineitem": tpch.data(scale)["lineitem"]}
    folder.mkdir()
    owner = Owner.create(folder / "trusted")
    sealed = owner.encrypt(plain, folder / "sealed")
    with ExitStack() as stack:
        drivers: dict[str, Driver] = {}
        for side in SIDES:
            ours = side == "coffer"
            heap = resources.heap + (0 if ours else resources.native)
            conf = resources.conf(folder / f"{side}-scratch", heap)
            if ours:
                conf["spark.coffer.engine.memory"] = f"{resources.native}GiB"
            drivers[side] = stack.enter_context(
                Driver(
                    sealed if ours else plain,
                    sealed=ours,
                    log=folder / f"{side}.log",
                    master=resources.master,
                    config_dir=owner.config_dir if ours else None,
                    passphrase_file=owner.passphrase_file if ours else None,
                    conf=conf,
                )
            )
            target = folder / f"spread-{side}"
            names = {"source": "coffer" if ours else "parquet", "target": str(target)}
            drivers[side].run(_SPREAD, table="lineitem", files=files, **names)
            found = sum(1 for file in target.rglob("*.parquet") if file.is_file())
            if found != files:
                raise SystemExit(f"error: {found} files instead of {files} on {side}")
            load = "spark.read.format(source).load(target).createOrReplaceTempView('lineitem')"
            drivers[side].run(load, **names)
        yield drivers
