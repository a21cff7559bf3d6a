"""A result's JSON as one HTML page that loads nothing from elsewhere: pandas makes the tables,
matplotlib the plots."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from coffer_bench import plots, report

# Our seconds as a share of the other side's, at most: by benchmark, and by scale where they differ.
_TARGETS: dict[str, dict[str, dict[str, float]]] = {
    "tpch": {
        "coffer/spark": {"total": 0.18, "worst": 0.5},
        "coffer/unsealed": {"total": 1.03},
        "coffer/comet": {"total": 0.35},
    },
    "tpcds": {"coffer/spark": {"total": 0.45, "worst": 1.1}},
}
_TOTAL_SF10 = 0.13
_CROSSINGS = 2000
# What Opaque, Spark SQL in SGX enclaves, published of its encryption mode (NSDI 2017).
_PUBLISHED = {"within 2x": 2.0, "Opaque's slowest, 3.3x": 3.3}

_TITLES = {"tpch": "TPC-H", "tpcds": "TPC-DS"}

_WHERE = """\
Milliseconds, summed over tasks that run side by side: planning by Catalyst; translating and sealing
of stages; launching of tasks; the engine's operators; and the wire, which is the rest of the tasks'
time: frames and their sealing, sockets, shuffle files, waiting."""

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">{head}
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em; }}
td, th {{ padding: .15em .7em; text-align: right; }}
.missed {{ color: #c0392b; font-weight: bold; }}
pre {{ white-space: pre-wrap; }} svg {{ max-width: 100%; height: auto; }}</style></head>
<body>
{body}
</body></html>
"""


def write(result: dict[str, Any], path: Path) -> None:
    """Writes a page of one result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(result, drawn(result)))


def drawn(result: dict[str, Any]) -> dict[str, str]:
    """The plots: HTML by title."""
    medians = medians_of(result)
    targets = _targets(result)
    plotted = {"All queries together, s": plots.bars(totals(medians).to_frame().T, "s")}
    plotted["Each query, s"] = plots.bars(medians, "s")
    for other in report.SIDES:
        if other != "coffer" and other in medians and "coffer" in medians:
            target = targets.get(f"coffer/{other}", {}).get("worst")
            plotted[f"Coffer against {other}"] = plots.ratios(
                (medians["coffer"] / medians[other]).dropna(),
                target,
                _PUBLISHED if other == "spark" else None,
            )
    parts = result.get("milliseconds", {}).get("coffer")
    if parts:
        plotted["Where Coffer's time goes"] = f"<p>{_WHERE}</p>" + plots.stacks(
            pd.DataFrame(parts).T, "ms"
        )
    return plotted


def render(result: dict[str, Any], plotted: dict[str, str]) -> str:
    """The page's text. `plotted`: HTML by title."""
    name = title(result)
    return whole(name, f"<h1>{escape(name)}</h1>\n{body(result, plotted)}")


def whole(name: str, text: str, head: str = "") -> str:
    """A page around this HTML."""
    return _PAGE.format(title=escape(name), body=text, head=head)


def title(result: dict[str, Any]) -> str:
    """Of a benchmark at a scale."""
    return f"{_TITLES.get(result['benchmark'], result['benchmark'])} at scale {result['sf']}"


def body(result: dict[str, Any], plotted: dict[str, str]) -> str:
    """What a page or a part of one says, below its title."""
    parts = [f"<p>{escape(line)}</p>" for line in _head(result)]
    parts += ["<h2>Ratios</h2>", table(ratios(result))]
    parts += [f"<h2>{escape(what)}</h2>\n{html}" for what, html in plotted.items()]
    parts += ["<h2>Numbers</h2>", table(numbers(result))]
    return "\n".join(parts)


def medians_of(result: dict[str, Any]) -> pd.DataFrame:
    """Seconds: a row for each query, a column for each side that ran."""
    seconds = {
        side: pd.DataFrame(dict(runs)).median() for side, runs in result["seconds"].items() if runs
    }
    return pd.DataFrame(seconds).reindex(list(result["same_answer"]))


def totals(medians: pd.DataFrame) -> pd.Series[float]:
    """By side, over the queries that every side ran."""
    return medians.dropna().sum().rename("all")


def ratios(result: dict[str, Any]) -> pd.DataFrame:
    """A row for each pair of sides: totals and the worst query, held against their targets."""
    rows = {}
    for pair, ratio in result["ratios"].items():
        if not ratio:
            continue
        targets = _targets(result).get(pair, {})
        worst, factor = ratio["worst"]
        rows[pair] = {
            "total": _judged(ratio["total"], targets.get("total")),
            "geometric mean": f"{ratio['geomean']:.3f}",
            "worst query": f"{worst}: {_judged(factor, targets.get('worst'))}",
        }
    return pd.DataFrame(rows).T


def _targets(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """By pair of sides."""
    targets = _TARGETS.get(result["benchmark"], {})
    if result["benchmark"] == "tpch" and result["sf"] == 10:
        return {**targets, "coffer/spark": {"total": _TOTAL_SF10}}
    return targets


def numbers(result: dict[str, Any]) -> pd.DataFrame:
    """A row for each query: medians, what crossed between executors and engines, and whether the
    answer was the same."""
    table = medians_of(result).add_suffix(" s").round(3)
    counted = pd.DataFrame(result["counters"]).T.reindex(table.index)
    if "crossings" in counted:
        table["crossings"] = counted["crossings"].map(
            lambda n: f"{n:,.0f}" + ("" if n <= _CROSSINGS else " (missed)"), na_action="ignore"
        )
    for name in ("bytes_sealed", "bytes_opened"):
        if name in counted:
            table[f"MB {name.removeprefix('bytes_')}"] = (counted[name] / 1e6).round(2)
    table["same answer"] = ["yes" if same else "NO" for same in result["same_answer"].values()]
    return table


def _head(result: dict[str, Any]) -> list[str]:
    machine, settings = result["machine"], result.get("settings", {})
    same = sum(result["same_answer"].values())
    shared = f"{settings.get('cores', machine['cores'])} cores"
    if settings:
        shared += (
            f" and {settings['heap'] + settings['native']} GiB a side"
            f" ({settings['native']} GiB of it for what runs beside the JVM), "
            f"{_partitions(settings)}"
        )
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return [
        f"Medians of {result['runs']} runs after {settings.get('warm_ups', 1)} to warm up, the "
        f"sides taking turns. {shared}. "
        f"{same} of {len(result['same_answer'])} answers are the same.",
        f"{machine['cpu']}, {machine['memory_mib'] // 1024} GiB, {machine['system']}; {versions}.",
    ]


def _partitions(settings: dict[str, Any]) -> str:
    if "tuned" not in settings:
        return f"{settings['partitions']} shuffle partitions"
    best = [f"{side} {tuned['partitions']}" for side, tuned in settings["tuned"].items()]
    return f"each side's best number of shuffle partitions ({', '.join(best)})"


def _judged(value: float, target: float | None) -> str:
    if target is None:
        return f"{value:.3f}"
    return f"{value:.3f} (target {target:g}: {'met' if value <= target else 'missed'})"


def table(rows: pd.DataFrame) -> str:
    """A table of HTML; what was missed is red."""
    text: str = rows.to_html(border=0, na_rep="–")
    return re.sub(
        r"<td>([^<]*(?:missed|not measured)[^<]*)</td>", r'<td class="missed">\1</td>', text
    )
