"""Plots of medians, ratios and parts, by matplotlib, as SVG text that a page takes as it is."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {
    "spark": "#8a8f98",
    "spark-rewritten": "#5e646d",
    "coffer": "#2058c7",
    "unsealed": "#8db4f2",
    "comet": "#e08a1e",
    "duckdb": "#c9b51e",
}
_ROW, _WIDTH = 0.32, 9.0  # inches


def bars(medians: pd.DataFrame, unit: str) -> str:
    """A group of bars for each row, a bar for each column: a side."""
    axes = _axes(len(medians) * max(1, medians.shape[1] / 2))
    colours = [_COLOURS.get(str(side), "#3c9d6b") for side in medians.columns]
    medians.plot.barh(ax=axes, color=colours, width=0.8)
    for drawn in axes.containers:
        axes.bar_label(drawn, fmt="%.2f", padding=3, fontsize=7)
    return _svg(axes, unit)


def ratios(
    each: pd.Series[float], target: float | None, references: dict[str, float] | None = None
) -> str:
    """A dot for each row on a logarithmic axis, with a line at 1 and, dashed, at the target; dotted
    and named where others have published theirs."""
    axes = _axes(len(each))
    missed = each > (target or float("inf"))
    axes.scatter(each, each.index, c=missed.map({False: _COLOURS["coffer"], True: "#c0392b"}))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axvline(1, color="#9aa1ab")
    if target:
        axes.axvline(target, color="#b03024", linestyle="--")
    for name, value in (references or {}).items():
        axes.axvline(value, color="#6b7280", linestyle=":")
        # Above the axes, wherever their rows begin.
        place = axes.get_xaxis_transform()
        axes.text(value, 1.01, name, fontsize=7, ha="left", va="bottom", transform=place)
    return _svg(axes, "ratio")


def lines(table: pd.DataFrame, x: str, y: str) -> str:
    """A line for each column over the rows' numbers, both axes logarithmic."""
    from matplotlib.figure import Figure

    axes = Figure(figsize=(_WIDTH, 3.6), layout="constrained").subplots()
    for name in table.columns:
        known = table[name].dropna()
        side = str(name).partition(" ")[0]
        axes.plot(known.index, known, marker="o", markersize=3, label=name, c=_COLOURS.get(side))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=7, frameon=False, bbox_to_anchor=(1, 1))
    axes.set_ylabel(y)
    axes.grid(color="#e8eaee")
    return _text(axes, x)


def stacks(parts: pd.DataFrame, unit: str) -> str:
    """A bar for each row, made of its columns."""
    axes = _axes(len(parts))
    parts.plot.barh(ax=axes, stacked=True, width=0.8)
    return _svg(axes, unit)


def _axes(rows: float) -> Axes:
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH, 1.6 + _ROW * rows), layout="constrained").subplots()


def _svg(axes: Axes, unit: str) -> str:
    axes.invert_yaxis()
    if axes.get_legend():
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5, frameon=False)
    axes.set_ylabel("")
    axes.grid(axis="x", color="#e8eaee")
    return _text(axes, unit)


def _text(axes: Axes, x: str) -> str:
    import matplotlib

    axes.set_xlabel(x)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    out = io.StringIO()
    # Text stays text; the same result gives the same page.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "coffer"}):
        axes.figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
