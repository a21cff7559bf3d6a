"""TPC-H: every side runs every query, taking turns, on the same machine in the same run.

All sides read the same rows: plaintext Spark and Comet the files that `tpchgen` wrote, the others
tables made of them.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from coffer_bench.report import Measured
from coffer_bench.sides import START, Resources
from coffer_testing import tpch
from coffer_testing.answers import Answer, difference
from coffer_testing.runner import Driver, QueryFailed

QUERIES = tuple(range(1, 23))


def measure(
    scale: str, numbers: list[int], runs: int, folder: Path, sides: list[str], resources: Resources
) -> Measured:
    """Runs each query once on each side to warm up, then `runs` times, the sides taking turns. The
    first side's answers are what the others' are compared with. A query that fails on a side is a
    wrong answer, and not in its seconds."""
    texts = {f"q{number}": tpch.query(number) for number in numbers}
    data = tpch.data(scale)
    tables = {
        name: path
        for name, path in data.items()
        if any(_names(text, name) for text in texts.values())
    }
    measured = Measured({side: {} for side in sides}, settings=dataclasses.asdict(resources))
    with ExitStack() as stack:
        drivers = {
            side: stack.enter_context(START[side](tables, folder, resources)) for side in sides
        }
        for name, text in texts.items():
            _measure_one(name, text, runs, drivers, measured)
        if (sealed := folder / "coffer-tables").is_dir():
            plain, stored = sum(map(_bytes, tables.values())), _bytes(sealed)
            measured.settings["storage"] = {
                "plain_bytes": plain,
                "sealed_bytes": stored,
                "ratio": round(stored / plain, 3),
            }
    return measured


def _measure_one(
    name: str, text: str, runs: int, drivers: dict[str, Driver], measured: Measured
) -> None:
    ordered = re.search(r"\border\s+by\b", text, re.IGNORECASE) is not None
    replies: dict[str, list[dict[str, Any]]] = {side: [] for side in drivers}
    expected: Answer | None = None
    for side, driver in drivers.items():
        try:
            answer = Answer.from_json(driver.timed(text))
        except QueryFailed as failure:
            _wrong(name, side, str(failure).splitlines()[0], measured)
            continue
        expected = expected or answer
        found = difference(expected, answer, ordered=ordered)
        if found is None:
            measured.same_answer.setdefault(name, True)
        else:
            _wrong(name, side, found, measured)
    ready = [side for side in drivers if (name, side) not in measured.failed]
    for run in range(runs):
        # Whoever comes first finds the caches as the last one left them: so the first place changes
        # hands.
        turn = ready[run % max(1, len(ready)) :] + ready[: run % max(1, len(ready))]
        for side in turn:
            replies[side].append(drivers[side].timed(text))
        told = ", ".join(f"{side} {replies[side][-1]['seconds']:.3f} s" for side in ready)
        print(f"{name} run {run + 1}: {told}", file=sys.stderr)
    for side in ready:
        measured.seconds[side][name] = [round(reply["seconds"], 4) for reply in replies[side]]
        times = [reply["milliseconds"] for reply in replies[side]]
        measured.milliseconds.setdefault(side, {})[name] = {
            key: round(statistics.median(one[key] for one in times)) for key in times[0]
        }
    if replies.get("coffer"):
        measured.counters[name] = replies["coffer"][-1]["counters"]


def _wrong(name: str, side: str, why: str, measured: Measured) -> None:
    print(f"{name} on {side}: {why[:300]}", file=sys.stderr)
    measured.failed[(name, side)] = why
    # Peers may be wrong by themselves; what is said here of an answer is said of Coffer.
    if side != "comet":
        measured.same_answer[name] = False


def _bytes(path: Path) -> int:
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        if path.is_dir()
        else path.stat().st_size
    )


def _names(text: str, table: str) -> bool:
    return re.search(rf"\b{table}\b", text) is not None
