"""Many queries at once, for long: whether answers stay right, and whether anything grows.

Eight threads of one application run TPC-H's queries in twenty sessions of Spark, until all are
done. After each hundred the resident memory of engine and client engine is read, and what is alive
in the JVM's heap after a full collection; what counts is the end against the first hundred. What
Spark keeps for its pages of jobs and queries that have ended is bounded, so that it is full by
then. Each answer is compared with plaintext Spark's, by its digest.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from coffer_bench import experiment
from coffer_bench.queries import SUITES
from coffer_bench.sides import START, Resources
from coffer_bench.usage import resident_mib
from coffer_testing.processes import named
from coffer_testing.runner import Driver

HUNDRED = 100
SESSIONS, AT_ONCE = 20, 8
GROWTH = 1.05
# By default Spark keeps a thousand of each.
_KEPT = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "50",
}
_WORK = """
import concurrent.futures, gc, hashlib, json, time
from coffer_testing.answers import encode

if not hasattr(spark, "soaking"):
    spark.soaking = [spark.newSession() for _ in range(sessions)]
    for one in spark.soaking:
        for name, path in tables.items():
            one.read.format(source).load(path).createOrReplaceTempView(name)

def run(number):
    name, sql = texts[number % len(texts)]
    rows = spark.soaking[number % sessions].sql(sql).collect()
    lines = sorted(json.dumps([encode(value) for value in row]) for row in rows)
    return name, hashlib.sha256("\\n".join(lines).encode()).hexdigest()

start = time.perf_counter()
with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
    found = list(pool.map(run, range(first, first + count)))
result = [time.perf_counter() - start, found]
# What Python no longer refers to, the JVM may let go of.
gc.collect()
"""


def measure(
    scale: str,
    wanted: str,
    count: int,
    folder: Path,
    resources: Resources,
    *,
    every: int = HUNDRED,
) -> dict[str, Any]:
    """The JSON object. `count` queries in all; `every`: how many are between two looks."""
    suite = SUITES["tpch"]
    resources = dataclasses.replace(resources, more=_KEPT)
    texts = [(name, suite.text(name)) for name in suite.choose(wanted)]
    tables = suite.data(scale)
    with START["spark"](tables, folder, resources) as spark:
        _, found = _run(spark, "parquet", tables, texts, 0, len(texts))
        expected = dict(found)
    looks: list[dict[str, float]] = []
    seconds: list[float] = []
    wrong: list[str] = []
    with START["coffer"](tables, folder, resources) as coffer:
        sealed = {name: folder / "coffer-tables" / name for name in tables}
        for first in range(0, count, every):
            size = min(every, count - first)
            took, found = _run(coffer, "coffer", sealed, texts, first, size)
            wrong += [name for name, digest in found if digest != expected[name]]
            looks.append(_look(coffer))
            seconds.append(round(took, 3))
            shown = ", ".join(f"{what} {value:.0f}" for what, value in looks[-1].items())
            print(f"{first + size} queries: {took:.1f} s, {shown} MiB", file=sys.stderr)
    settings = {
        "sf": scale,
        "queries": count,
        "every": every,
        "sessions": SESSIONS,
        "at_once": AT_ONCE,
        "cores": resources.cores,
        "heap": resources.heap,
        "native": resources.native,
        "spark": _KEPT,
    }
    growth = {what: looks[-1][what] / looks[0][what] for what in looks[0]}
    return {
        **experiment.head("soak", ["coffer"], settings),
        "seconds": {"coffer": {f"{every} queries": seconds}},
        "same_answer": {name: name not in wrong for name, _ in texts},
        "wrong_answers": len(wrong),
        "memory_mib": looks,
        "growth": {what: round(value, 4) for what, value in growth.items()},
        "targets": [
            *(
                experiment.at_most(f"{what}: end against the first {every}", value, GROWTH)
                for what, value in growth.items()
            ),
            experiment.at_most("wrong answers", len(wrong), 0),
        ],
        "tables": {
            "MiB": {
                f"after {min(count, (at + 1) * every)}": {
                    what: round(value, 1) for what, value in look.items()
                }
                for at, look in enumerate(looks)
            }
        },
        "left_out": ["One user and one application; users of a key service are tested elsewhere."],
    }


def _run(
    driver: Driver,
    source: str,
    tables: dict[str, Path],
    texts: list[tuple[str, str]],
    first: int,
    count: int,
) -> tuple[float, list[tuple[str, str]]]:
    took, found = driver.run(
        _WORK,
        source=source,
        tables={name: str(path) for name, path in tables.items()},
        texts=texts,
        first=first,
        count=count,
        sessions=SESSIONS,
        at_once=AT_ONCE,
    )
    return took, [(name, digest) for name, digest in found]


def _look(driver: Driver) -> dict[str, float]:
    """MiB of engines, of the client engine, and alive in the JVM's heap."""
    below = {driver.pid}
    return {
        "engine": sum(map(resident_mib, named(below, "coffer-engine"))),
        "client engine": sum(map(resident_mib, named(below, "coffer-client"))),
        "live heap": sum(map(_live, named(below, "java"))),
    }


def _live(pid: int) -> float:
    """After a full collection, which counting the objects brings about; twice, since what has
    finalisers or cleaners goes with the second."""
    for _ in range(2):
        done = subprocess.run(
            ["jcmd", str(pid), "GC.class_histogram"],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            timeout=600,
        )
    found = re.search(r"^Total\s+\d+\s+(\d+)", done.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit("error: jcmd does not say how large the heap is")
    return int(found.group(1)) / 2**20
