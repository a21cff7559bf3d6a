"""**An estimate, on paper**: what each query would take on TEE hardware, from what is counted here
without it and from what others have published that the hardware costs.

    seconds = measured
            + crossings × cycles of a crossing ÷ clock
            + bytes across ÷ bytes per second of a copy through memory that both sides see
            + engine's CPU seconds × memory share × (slowdown of memory − 1)
            + max(0, peak − protected memory) ÷ 4096 × touched ÷ peak × cycles of a page ÷ clock

Counted, for each query: crossings (messages between an executor and its engine, each of which
leaves and enters an enclave, or a virtual machine), bytes across in both directions, the engine's
CPU seconds, the memory that it touched (pages that the kernel marks as referenced) and its peak.
The low end of a range takes the least of each published cost, the high end the greatest.
"""

from __future__ import annotations

import contextlib
import re
import statistics
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

from coffer_bench import clusters, experiment
from coffer_bench.clusters import Running, Shape
from coffer_bench.queries import SUITES, used
from coffer_bench.usage import Meter
from coffer_testing.answers import Answer, difference
from coffer_testing.owner import Owner

COSTS = Path(__file__).with_name("costs.toml")
FORMULA = str(__doc__)
_PAGE = 4096
Counted = dict[str, float | None]


def measure(scale: str, wanted: str, runs: int, warm_ups: int, folder: Path) -> dict[str, Any]:
    """The JSON object, of TPC-H on a cluster of two workers."""
    suite = SUITES["tpch"]
    names = suite.choose(wanted)
    texts = {name: suite.text(name) for name in names}
    tables = used(suite.data(scale), texts.values())
    owner = Owner.create(folder / "trusted")
    sealed = owner.encrypt(tables, folder / "sealed")
    shape = Shape()
    seconds: dict[str, dict[str, list[float]]] = {"spark": {}, "coffer": {}}
    with (
        clusters.running("spark", tables, folder, shape) as spark,
        clusters.running("coffer", sealed, folder, shape, owner=owner) as coffer,
    ):
        seen = _Seen({"spark": spark, "coffer": coffer})
        for name, text in texts.items():
            one = partial(seen.one, name, text)
            taken = experiment.in_turns(list(seconds), runs, warm_ups, one)
            experiment.say(name, taken)
            for side in seconds:
                seconds[side][name] = taken[side]
    counted = seen.counted()
    costs = tomllib.loads(COSTS.read_text())
    estimates = {
        platform: {
            name: estimate(
                statistics.median(seconds["coffer"][name]), counted[name], costs["clock_hz"], cost
            )
            for name in names
        }
        for platform, cost in costs["platforms"].items()
    }
    return _result(scale, runs, seconds, seen.same, counted, costs, estimates)


def estimate(
    measured: float, counted: Counted, clock: float, cost: dict[str, Any]
) -> tuple[float, float]:
    """Seconds at least and at most. What could not be counted is taken as its bound: the peak for
    the memory touched."""
    found = []
    peak = (counted["peak_mib"] or 0) * 2**20
    touched = (counted["touched_mib"] or counted["peak_mib"] or 0) * 2**20
    for end in (0, 1):
        crossings = (counted["crossings"] or 0) * cost["crossing_cycles"][end] / clock
        copies = (counted["bytes_across"] or 0) / cost["copy_bytes_per_s"][1 - end]
        memory = (
            (counted["engine_cpu_s"] or 0)
            * cost["memory_share"][end]
            * (cost["memory_slowdown"][end] - 1)
        )
        over = max(0.0, peak - cost["protected_mib"][1 - end] * 2**20)
        pages = over / _PAGE * (touched / peak if peak else 0) * cost["page_cycles"][end] / clock
        found.append(round(measured + crossings + copies + memory + pages, 4))
    return found[0], found[1]


def _result(
    scale: str,
    runs: int,
    seconds: dict[str, dict[str, list[float]]],
    same: dict[str, bool],
    counted: dict[str, Counted],
    costs: dict[str, Any],
    estimates: dict[str, dict[str, tuple[float, float]]],
) -> dict[str, Any]:
    medians = {
        side: {name: statistics.median(taken) for name, taken in by_name.items()}
        for side, by_name in seconds.items()
    }
    table = {
        name: {
            "measured s": round(medians["coffer"][name], 3),
            "plaintext Spark s": round(medians["spark"][name], 3),
            **{
                f"{platform}, estimate s": "{:.3f} to {:.3f}".format(*found[name])
                for platform, found in estimates.items()
            },
        }
        for name in counted
    }
    total = {
        platform: [sum(found[name][end] for name in counted) for end in (0, 1)]
        for platform, found in estimates.items()
    }
    ours, theirs = (sum(medians[side].values()) for side in ("coffer", "spark"))
    table["all"] = {
        "measured s": round(ours, 3),
        "plaintext Spark s": round(theirs, 3),
        **{
            f"{platform}, estimate s": "{:.3f} to {:.3f}".format(*ends)
            for platform, ends in total.items()
        },
    }
    settings = {"sf": scale, "runs": runs, "workers": 2}
    return {
        **experiment.head("hardware", ["spark", "coffer"], settings),
        "estimate": True,
        "seconds": seconds,
        "same_answer": same,
        "counted": counted,
        "costs": costs,
        "estimates": estimates,
        "targets": [],
        "tables": {
            "Estimates, not measurements": table,
            "Counted of each query": counted,
            "Published costs, least and greatest": {
                platform: {key: value for key, value in cost.items() if key != "sources"}
                for platform, cost in costs["platforms"].items()
            },
        },
        "formula": FORMULA,
        "sources": {platform: cost["sources"] for platform, cost in costs["platforms"].items()},
        "left_out": [
            "No run on such hardware. Starting and attesting an enclave is not in it, nor what a "
            "virtual machine costs that protects nothing, nor contention between machines.",
        ],
    }


class _Seen:
    """What was counted of each query, in each counted run; and whether answers were the same."""

    def __init__(self, sides: dict[str, Running]) -> None:
        self.sides = sides
        self.same: dict[str, bool] = {}
        self._runs: dict[str, list[Counted]] = {}
        self._expected: dict[str, Answer] = {}

    def one(self, name: str, text: str, side: str, counts: bool) -> float:
        driver = self.sides[side].driver
        if side == "coffer":
            reply, found = _counted(self.sides[side], text)
            if counts:
                self._runs.setdefault(name, []).append(found)
        else:
            reply = driver.timed(text)
        answer = Answer.from_json(reply)
        differs = difference(self._expected.setdefault(name, answer), answer, ordered=True)
        if differs is not None:
            print(f"{name} on {side}: {differs[:300]}", file=sys.stderr)
        self.same[name] = self.same.get(name, True) and differs is None
        return answer.seconds

    def counted(self) -> dict[str, Counted]:
        """Medians by query."""
        return {
            name: {key: _median([one[key] for one in runs]) for key in runs[0]}
            for name, runs in self._runs.items()
        }


def _counted(side: Running, sql: str) -> tuple[dict[str, Any], Counted]:
    engines = side.cluster.engines()
    readable = all([_clear(pid) for pid in engines])
    with Meter(side.cluster.engines) as meter:
        reply = side.driver.timed(sql)
    touched = [_touched(pid) for pid in engines] if readable else [None]
    counters = reply["counters"]
    return reply, {
        "crossings": counters["crossings"],
        "bytes_across": counters["bytes_sealed"] + counters["bytes_opened"],
        "engine_cpu_s": meter.usage["cpu_s"],
        "touched_mib": None if None in touched else sum(filter(None, touched)),
        "peak_mib": meter.usage["memory_mib"],
    }


def _clear(pid: int) -> bool:
    """Forgets which pages a process has touched; whether that is allowed."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("1")
        return True
    return False


def _touched(pid: int) -> float | None:
    """MiB that a process has touched since."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return None
    found = re.search(r"^Referenced:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) / 1024 if found else None


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if len(known) == len(values) else None


def show(result: dict[str, Any]) -> None:
    """The sums, on standard output."""
    for what, value in result["tables"]["Estimates, not measurements"]["all"].items():
        print(f"{what}: {value}")
    if any(found["touched_mib"] is None for found in result["counted"].values()):
        print("note: memory touched could not be counted; the peak stands for it", file=sys.stderr)
