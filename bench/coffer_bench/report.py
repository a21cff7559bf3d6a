"""The result's JSON form, which every benchmark keeps, and its short table."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from collections.abc import Collection
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from coffer_bench import profiles
from coffer_bench.sides import COMET, COMET_SPARK, HIDING

SIDES = ("spark", "spark-rewritten", "coffer", "unsealed", "comet", "duckdb")


@dataclass
class Measured:
    """Seconds by side and query, in the order they were taken; whether answers were the same; what
    was counted; medians of where the milliseconds went, by side and query; what failed, by query
    and side, with the reason; and the digests of the answers of all runs, by query and side, each
    once."""

    seconds: dict[str, dict[str, list[float]]]
    same_answer: dict[str, bool] = field(default_factory=dict)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    milliseconds: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    failed: dict[tuple[str, str], str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, dict[str, list[str]]] = field(default_factory=dict)


def assemble(benchmark: str, scale: str, runs: int, measured: Measured) -> dict[str, Any]:
    """The JSON object. Sides that did not run are empty."""
    seconds = {side: measured.seconds.get(side, {}) for side in SIDES}
    hiding = {side: measured.seconds[side] for side in HIDING if side in measured.seconds}
    over = {
        f"coffer/{side}": ratios(seconds["coffer"], seconds[side])
        for side in SIDES
        if side != "coffer"
    }
    costs = {f"{side}/coffer": ratios(hiding[side], seconds["coffer"]) for side in hiding}
    return {
        "benchmark": benchmark,
        "sf": float(scale) if "." in scale else int(scale),
        "machine": machine(),
        "versions": versions(measured.seconds),
        "settings": measured.settings,
        "runs": runs,
        "seconds": {**seconds, **hiding},
        "spread": {side: spread(taken) for side, taken in measured.seconds.items() if taken},
        "same_answer": measured.same_answer,
        "ratios": {**over, **costs},
        "counters": measured.counters,
        "milliseconds": measured.milliseconds,
        "failed": _failed(measured),
        "answers": measured.answers,
    }


def _failed(measured: Measured) -> dict[str, dict[str, str]]:
    failed: dict[str, dict[str, str]] = {}
    for (name, side), why in measured.failed.items():
        failed.setdefault(name, {})[side] = why
    return failed


def ratios(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> dict[str, Any]:
    """Total, geometric mean and worst query of our medians over theirs; empty when one side did not
    run."""
    names = [name for name in ours if name in theirs]
    if not names:
        return {}
    mine = {name: statistics.median(ours[name]) for name in names}
    other = {name: statistics.median(theirs[name]) for name in names}
    each = {name: mine[name] / other[name] for name in names}
    worst = max(each, key=lambda name: each[name])
    return {
        "total": round(sum(mine.values()) / sum(other.values()), 4),
        "geomean": round(statistics.geometric_mean(each.values()), 4),
        "worst": [worst, round(each[worst], 4)],
    }


def spread(taken: dict[str, list[float]]) -> dict[str, Any]:
    """How far apart the runs of a query are, as a share of their median: half of the queries are
    below `median`; and the worst of them."""
    each = {name: (max(runs) - min(runs)) / statistics.median(runs) for name, runs in taken.items()}
    worst = max(each, key=lambda name: each[name])
    return {
        "median": round(statistics.median(each.values()), 4),
        "worst": [worst, round(each[worst], 4)],
    }


def show(result: dict[str, Any]) -> None:
    """The medians side by side on standard output."""
    sides = {side: queries for side, queries in result["seconds"].items() if queries}
    print(f"{'query':<10}" + "".join(f"{side:>17}" for side in sides) + "  same answer?")
    for name, same in result["same_answer"].items():
        medians = "".join(_median(queries.get(name)) for queries in sides.values())
        print(f"{name:<10}{medians}  {'yes' if same else 'NO'}")
    for pair, ratio in result["ratios"].items():
        if ratio:
            worst, factor = ratio["worst"]
            print(
                f"{pair}: total {ratio['total']:.3f}, geometric mean {ratio['geomean']:.3f}, "
                f"worst {worst} {factor:.3f}"
            )


def _median(seconds: list[float] | None) -> str:
    return f"{statistics.median(seconds):>17.3f}" if seconds else f"{'-':>17}"


def machine() -> dict[str, Any]:
    model = next(
        (
            line.split(":")[1].strip()
            for line in _lines("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        "",
    )
    memory = next(
        (int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_mib": memory // 1024,
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
    }


def versions(sides: Collection[str]) -> dict[str, str]:
    """Of what took part, and the commit."""
    import pyspark

    from coffer import __version__, find_binary

    java = subprocess.run(
        ["java", "-version"], capture_output=True, text=True, check=True, timeout=60
    ).stderr.splitlines()[0]
    coffer = subprocess.run(
        [find_binary("coffer"), "--version"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    found = {
        "coffer": coffer.split()[-1] if coffer.split() else __version__,
        "commit": commit(),
        "profile": profiles.chosen(),
        "spark": pyspark.__version__,
        "java": java,
        "python": platform.python_version(),
    }
    if "comet" in sides:
        found |= {"comet": f"{COMET} on Spark {COMET_SPARK}"}
    if "duckdb" in sides:
        found |= {"duckdb": metadata.version("duckdb")}
    return found


def commit() -> str:
    """The commit of this tree, and whether files differ from it."""
    described = subprocess.run(
        ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return described.stdout.strip() or "unknown"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
