"""What the experiments of papers share: the head of a result, targets, turns, and digests of
answers.

Every result is one JSON object with `benchmark`, `machine`, `versions` (the commit among them),
`seed`, `settings`, `seconds` (side → what → each run), `targets`, `tables` (title → row → column)
and `left_out`. `bench/report` makes a page of any such object.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from coffer_bench import report

# Runs that take longer than this are counted three times instead of five.
LONG_SECONDS = 120.0
FEWER = 3

Table = dict[str, dict[str, Any]]


def head(
    benchmark: str, sides: Iterable[str], settings: dict[str, Any], seed: int | None = None
) -> dict[str, Any]:
    """The beginning of a result."""
    return {
        "benchmark": benchmark,
        "machine": report.machine(),
        "versions": report.versions(list(sides)),
        "seed": seed,
        "settings": settings,
    }


def at_most(what: str, value: float | None, limit: float) -> dict[str, Any]:
    """A target; one without a value was not measured, and is not met."""
    met = value is not None and value <= limit
    return {"what": what, "value": _rounded(value), "limit": limit, "at": "most", "met": met}


def at_least(what: str, value: float | None, limit: float) -> dict[str, Any]:
    """The other way round."""
    met = value is not None and value >= limit
    return {"what": what, "value": _rounded(value), "limit": limit, "at": "least", "met": met}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def in_turns(
    sides: Sequence[str], runs: int, warm_ups: int, one: Callable[[str, bool], float]
) -> dict[str, list[float]]:
    """Seconds of the counted runs of each side, which take turns: `one` runs a side once, and hears
    whether that counts. The first place changes hands."""
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for run in range(-warm_ups, runs):
        first = max(0, run) % len(sides)
        for side in [*sides[first:], *sides[:first]]:
            took = one(side, run >= 0)
            if run >= 0:
                seconds[side].append(round(took, 4))
        if run + 1 >= FEWER and max(max(taken) for taken in seconds.values()) > LONG_SECONDS:
            break
    return seconds


def say(what: str, seconds: dict[str, list[float]]) -> None:
    """The medians on standard error, as they come in."""
    said = ", ".join(
        f"{side} {statistics.median(taken):.3f} s" for side, taken in seconds.items() if taken
    )
    print(f"{what}: {said}", file=sys.stderr)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Of medians; none where a side did not run."""
    if not ours or not theirs:
        return None
    return statistics.median(ours) / statistics.median(theirs)


def digest(rows: Iterable[Any]) -> str:
    """SHA-256 of rows in their order, as JSON has them."""
    lines = "\n".join(json.dumps(row) for row in rows)
    return hashlib.sha256(lines.encode()).hexdigest()


def size(path: Path) -> int:
    """Bytes of a file, or of all below a folder."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def show(result: dict[str, Any]) -> None:
    """Medians and targets on standard output."""
    for side, by_name in result.get("seconds", {}).items():
        for name, taken in by_name.items():
            if taken:
                print(f"{side:<16}{name:<16}{statistics.median(taken):>10.3f} s")
    for target in result["targets"]:
        value = "not measured" if target["value"] is None else f"{target['value']:g}"
        judged = "met" if target["met"] else "MISSED"
        print(f"{target['what']}: {value} (at {target['at']} {target['limit']:g}: {judged})")


def sound(result: dict[str, Any]) -> bool:
    """Whether all answers were the same: a missed target is no wrong answer."""
    return all(result.get("same_answer", {}).values())
