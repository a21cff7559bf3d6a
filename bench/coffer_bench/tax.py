"""The sealing tax, taken apart: TPC-H by the engine without any sealing, then with one part of it
after the other.

    unsealed   no sealing (`bench/build-unsealed`)
    storage    + sealed tables (`bench/build-unsealed --sealed-tables`)
    coffer     + sealed shuffles, broadcasts, results and spill files: Coffer as it is
    pow2       + padding to powers of two (`spark.coffer.pad`)

The checks of completeness cannot be left out of any build. What is counted is their messages: for
each task its descriptor, commit record and metrics, for each stage its fragment and the list of
attempts that count; and what sealing and opening one costs, by `coffer-cipher-bench`. Their share
is calculated from these, and taken out of that of shuffles.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from coffer_bench import cipher, experiment
from coffer_bench.queries import SUITES, used
from coffer_bench.sides import START, Resources
from coffer_testing.answers import Answer, difference
from coffer_testing.runner import Driver

LEVELS = ("unsealed", "storage", "coffer", "pow2")
# The levels that need no build of their own.
SHIPPED = ("coffer", "pow2")
PER_TASK, PER_STAGE = 3, 2
_MESSAGE = 1024  # bytes, about, of such a message


def measure(
    scale: str,
    wanted: str,
    runs: int,
    warm_ups: int,
    folder: Path,
    resources: Resources,
    levels: tuple[str, ...] = LEVELS,
) -> dict[str, Any]:
    """The JSON object. `levels`: all, or those that need no build of their own."""
    suite = SUITES["tpch"]
    names = suite.choose(wanted)
    texts = {name: suite.text(name) for name in names}
    tables = used(suite.data(scale), texts.values())
    seconds: dict[str, dict[str, list[float]]] = {level: {} for level in levels}
    with ExitStack() as stack:
        drivers = {
            level: stack.enter_context(START[level](tables, folder, resources)) for level in levels
        }
        seen = _Seen(drivers)
        for name, text in texts.items():
            taken = experiment.in_turns(levels, runs, warm_ups, partial(seen.one, name, text))
            experiment.say(name, taken)
            for level in levels:
                seconds[level][name] = taken[level]
    settings = {
        "sf": scale,
        "runs": runs,
        "warm_ups": warm_ups,
        "cores": resources.cores,
        "partitions": resources.partitions,
        "message_us": _message_us(),
    }
    return _result(settings, levels, seconds, seen)


class _Seen:
    """Whether answers were the same, and messages that were counted, by query."""

    def __init__(self, drivers: dict[str, Driver]) -> None:
        self.drivers = drivers
        self.same: dict[str, bool] = {}
        self.messages: dict[str, int] = {}
        self._expected: dict[str, Answer] = {}

    def one(self, name: str, text: str, level: str, _: bool) -> float:
        reply = self.drivers[level].timed(text)
        answer = Answer.from_json(reply)
        found = difference(self._expected.setdefault(name, answer), answer, ordered=True)
        if found is not None:
            print(f"{name} on {level}: {found[:300]}", file=sys.stderr)
        self.same[name] = self.same.get(name, True) and found is None
        counters = reply["counters"]
        if level == "coffer":
            self.messages[name] = PER_TASK * counters["tasks"] + PER_STAGE * counters["stages"]
        return answer.seconds


def _result(
    settings: dict[str, Any],
    levels: tuple[str, ...],
    seconds: dict[str, dict[str, list[float]]],
    seen: _Seen,
) -> dict[str, Any]:
    names, messages = list(seen.messages), seen.messages
    medians = {
        level: {name: statistics.median(seconds[level][name]) for name in names} for level in levels
    }
    checks = {name: messages[name] * settings["message_us"] / 1e6 for name in names}
    rows = {
        name: parts({one: medians[one][name] for one in levels}, checks[name]) for name in names
    }
    totals = {level: sum(medians[level].values()) for level in levels}
    rows["all"] = parts(totals, sum(checks.values()))
    sealed = totals["coffer"] / totals["unsealed"] if "unsealed" in totals else None
    return {
        **experiment.head("tax", levels, settings),
        "seconds": seconds,
        "same_answer": seen.same,
        "messages": messages,
        "shares": rows,
        "targets": []
        if sealed is None
        else [experiment.at_most("sealed of unsealed", sealed, 1.08)],
        "tables": {"Shares of the time with everything on": rows},
        "left_out": [
            "The share of completeness is calculated, not measured: "
            f"{PER_TASK} messages for each task and {PER_STAGE} for each stage, "
            f"{settings['message_us']:.2f} µs each.",
            *(
                []
                if "unsealed" in levels
                else ["The levels that need builds of their own: unsealed, storage."]
            ),
        ],
    }


def parts(seconds: dict[str, float], checks: float) -> dict[str, float]:
    """Of the seconds of each level, the share that each step adds of the last."""
    last = seconds[list(seconds)[-1]]
    shares = {}
    before = None
    for level, took in seconds.items():
        if before is None:
            shares["unsealed engine" if level == "unsealed" else "all but padding"] = took
        elif level == "storage":
            shares["+ sealed storage"] = took - before
        elif level == "coffer":
            shares["+ sealed shuffle"] = took - before - checks
            shares["+ completeness"] = checks
        else:
            shares["+ padding"] = took - before
        before = took
    return {what: round(share / last, 4) for what, share in shares.items()}


def _message_us() -> float:
    """Microseconds to seal a message and open it again, on one core."""
    program = Path(os.environ["CARGO_TARGET_DIR"]) / "release" / cipher.PROGRAM
    done = subprocess.run(
        [program, "0.2", str(_MESSAGE), "1"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=600,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    [rate] = [line["bytes_per_s"] for line in lines if line["library"] == "coffer-message"]
    return round(1e6 * _MESSAGE / rate, 3)
