"""A result's JSON as one HTML page that needs nothing else."""

from __future__ import annotations

import statistics
from html import escape
from pathlib import Path
from typing import Any

from coffer_bench import plots

# What TPC-H is measured for: our seconds as a share of the other side's, at most. By scale where they differ.
_TARGETS: dict[str, dict[str, float]] = {
    "coffer/spark": {"total": 0.33, "worst": 0.8},
    "coffer/unsealed": {"total": 1.08},
    "coffer/comet": {"total": 1.0},
}
_TOTAL_SF10 = 0.22
_CROSSINGS = 2000

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em; }
body { color: #1c2430; background: #fff; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15em .7em; text-align: right; border-bottom: 1px solid #e3e6ea; }
th:first-child, td:first-child { text-align: left; }
.met { color: #1d7a4d; } .missed { color: #b03024; font-weight: 600; }
.scroll { overflow-x: auto; } svg { max-width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: #1c2430; } svg text.small { font-size: 10.5px; fill: #5a6472; }
.grid { stroke: #e8eaee; } .axis { stroke: #9aa1ab; } .target { stroke: #b03024; stroke-dasharray: 4 3; }
.stem { stroke: #cfd4da; } .run { fill: #1c2430; fill-opacity: .45; }
.key { margin-right: 1.2em; } .key i { display: inline-block; width: .9em; height: .9em; margin-right: .35em; }
p.note { color: #5a6472; }
"""


def write(result: dict[str, Any], path: Path) -> None:
    """Writes the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(result))


def render(result: dict[str, Any]) -> str:
    """The page's text."""
    medians = {
        side: {name: statistics.median(runs) for name, runs in queries.items()}
        for side, queries in result["seconds"].items()
        if queries
    }
    names = list(result["same_answer"])
    body = [_head(result), _ratios(result), _totals(medians), _queries(result, medians, names)]
    body += [_each_ratio(medians, other) for other in ("spark", "unsealed", "comet") if other in medians]
    body += [_where(result), _table(result, medians, names)]
    title = f"{result['benchmark']} at scale {result['sf']}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>\n'
        + "\n".join(part for part in body if part)
        + "\n</body></html>\n"
    )


def _head(result: dict[str, Any]) -> str:
    machine, versions = result["machine"], result["versions"]
    settings = result.get("settings", {})
    same = sum(result["same_answer"].values())
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    shared = f"{settings.get('cores', machine['cores'])} cores"
    if settings:
        shared += (
            f" and {settings['heap'] + settings['native']} GiB a side"
            f" ({settings['native']} GiB of it for what runs beside the JVM), "
            f"{settings['partitions']} shuffle partitions"
        )
    return (
        f"<h1>{escape(result['benchmark'].upper())} at scale {result['sf']}</h1>"
        f"<p>Medians of {result['runs']} runs after one warm-up, the sides taking turns. {shared}. "
        f"{same} of {len(result['same_answer'])} answers are the same.</p>"
        f'<p class="note">{escape(machine["cpu"])}, {machine["memory_mib"] // 1024} GiB, '
        f"{escape(machine['system'])}; {escape(told)}.</p>"
    )


def _ratios(result: dict[str, Any]) -> str:
    rows = []
    for pair, ratio in result["ratios"].items():
        if not ratio:
            continue
        targets = dict(_TARGETS.get(pair, {})) if result["benchmark"] == "tpch" else {}
        if pair == "coffer/spark" and targets and result["sf"] == 10:
            targets = {"total": _TOTAL_SF10}
        worst, factor = ratio["worst"]
        rows.append(
            f"<tr><td>{escape(pair)}</td><td>{_judged(ratio['total'], targets.get('total'))}</td>"
            f"<td>{ratio['geomean']:.3f}</td><td>{_judged(factor, targets.get('worst'))} ({escape(worst)})</td></tr>"
        )
    if not rows:
        return ""
    return (
        "<h2>Ratios</h2><table><tr><th>sides</th><th>total</th><th>geometric mean</th><th>worst query</th></tr>"
        + "".join(rows)
        + "</table>"
    )


def _judged(value: float, target: float | None) -> str:
    if target is None:
        return f"{value:.3f}"
    kind = "met" if value <= target else "missed"
    return f'<span class="{kind}">{value:.3f}</span> (target {target:g})'


def _totals(medians: dict[str, dict[str, float]]) -> str:
    shared = set.intersection(*(set(queries) for queries in medians.values())) if medians else set()
    if not shared:
        return ""
    rows = [(side, [(side, sum(queries[name] for name in shared), [])]) for side, queries in medians.items()]
    return f"<h2>All queries together</h2><p>{len(shared)} queries that every side ran.</p>" + plots.bars(rows, "s")


def _queries(result: dict[str, Any], medians: dict[str, dict[str, float]], names: list[str]) -> str:
    def group(name: str) -> list[tuple[str, float, list[float]]]:
        return [(side, of[name], result["seconds"][side][name]) for side, of in medians.items() if name in of]

    rows = [(name, group(name)) for name in names if group(name)]
    return (
        "<h2>Each query</h2><p>Bars are medians, dots single runs.</p>"
        + plots.legend({side: plots.COLOURS[side] for side in medians})
        + f'<div class="scroll">{plots.bars(rows, "s")}</div>'
    )


def _each_ratio(medians: dict[str, dict[str, float]], other: str) -> str:
    ours, theirs = medians.get("coffer", {}), medians[other]
    rows = [(name, ours[name] / theirs[name]) for name in ours if name in theirs]
    target = _TARGETS[f"coffer/{other}"].get("worst")
    return f"<h2>Coffer against {escape(other)}</h2>" + plots.ratios(rows, target, "coffer") if rows else ""


def _where(result: dict[str, Any]) -> str:
    times = result.get("milliseconds", {}).get("coffer", {})
    rows = [(name, {part: float(of[part]) for part in plots.PARTS if part in of}) for name, of in times.items()]
    if not rows:
        return ""
    return (
        "<h2>Where Coffer's time goes</h2><p>Milliseconds, summed over tasks that run side by side: planning by Catalyst; "
        "translating and sealing of stages; launching of tasks; the engine's operators; and the wire, which is the rest of "
        "the tasks' time: frames and their sealing, sockets, shuffle files, waiting.</p>"
        + plots.legend(plots.PARTS)
        + f'<div class="scroll">{plots.stacks(rows, "ms")}</div>'
    )


def _table(result: dict[str, Any], medians: dict[str, dict[str, float]], names: list[str]) -> str:
    head = "".join(f"<th>{escape(side)} s</th>" for side in medians)
    rows = []
    for name in names:
        cells = "".join(f"<td>{queries[name]:.3f}</td>" if name in queries else "<td>–</td>" for queries in medians.values())
        counted = result["counters"].get(name, {})
        crossings = counted.get("crossings")
        crossed = (
            "–"
            if crossings is None
            else f'<span class="{"met" if crossings <= _CROSSINGS else "missed"}">{crossings:,}</span>'
        )
        sealed, opened = (f"{counted[key] / 1e6:.2f}" if key in counted else "–" for key in ("bytes_sealed", "bytes_opened"))
        same = "yes" if result["same_answer"][name] else '<span class="missed">NO</span>'
        rows.append(f"<tr><td>{name}</td>{cells}<td>{crossed}</td><td>{sealed}</td><td>{opened}</td><td>{same}</td></tr>")
    return (
        f'<h2>Numbers</h2><div class="scroll"><table><tr><th>query</th>{head}<th>crossings</th><th>MB sealed</th>'
        "<th>MB opened</th>"
        f"<th>same answer</th></tr>{''.join(rows)}</table></div>"
    )
