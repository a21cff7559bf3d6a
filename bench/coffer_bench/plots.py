"""Plots of medians, ratios and parts, by matplotlib, as SVG text that a page takes as it is."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"spark": "#8a8f98", "coffer": "#2058c7", "unsealed": "#8db4f2", "comet": "#e08a1e"}
_ROW, _WIDTH = 0.32, 9.0  # inches


def bars(medians: pd.DataFrame, unit: str) -> str:
    """A group of bars for each row, a bar for each column: a side."""
    axes = _axes(len(medians) * max(1, medians.shape[1] / 2))
    colours = [_COLOURS.get(str(side), "#3c9d6b") for side in medians.columns]
    medians.plot.barh(ax=axes, color=colours, width=0.8)
    for drawn in axes.containers:
        axes.bar_label(drawn, fmt="%.2f", padding=3, fontsize=7)
    return _svg(axes, unit)


def ratios(each: pd.Series[float], target: float | None) -> str:
    """A dot for each row on a logarithmic axis, with a line at 1 and, dashed, at the target."""
    axes = _axes(len(each))
    missed = each > (target or float("inf"))
    axes.scatter(each, each.index, c=missed.map({False: _COLOURS["coffer"], True: "#c0392b"}))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axvline(1, color="#9aa1ab")
    if target:
        axes.axvline(target, color="#b03024", linestyle="--")
    return _svg(axes, "ratio")


def stacks(parts: pd.DataFrame, unit: str) -> str:
    """A bar for each row, made of its columns."""
    axes = _axes(len(parts))
    parts.plot.barh(ax=axes, stacked=True, width=0.8)
    return _svg(axes, unit)


def _axes(rows: float) -> Axes:
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH, 1.2 + _ROW * rows), layout="constrained").subplots()


def _svg(axes: Axes, unit: str) -> str:
    import matplotlib

    axes.invert_yaxis()
    if axes.get_legend():
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5, frameon=False)
    axes.set_xlabel(unit)
    axes.set_ylabel("")
    axes.grid(axis="x", color="#e8eaee")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    out = io.StringIO()
    # Text stays text; the same result gives the same page.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "coffer"}):
        axes.figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
