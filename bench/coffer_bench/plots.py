"""Plots as SVG text, to be put into a page as they are: no script, no font, no file from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

COLOURS = {"spark": "#8a8f98", "coffer": "#2058c7", "unsealed": "#8db4f2", "comet": "#e08a1e"}
PARTS = {"planning": "#c9a227", "sealing": "#7c4dab", "launch": "#8a8f98", "engine": "#2058c7", "wire": "#3c9d6b"}
_WIDTH, _LEFT, _RIGHT = 860, 74, 60
_SPAN = _WIDTH - _LEFT - _RIGHT


def bars(rows: Sequence[tuple[str, Sequence[tuple[str, float, Sequence[float]]]]], unit: str) -> str:
    """Groups of horizontal bars from 0: (label, [(side, median, single runs)]). Runs are dots on their bar."""
    high = max((max(value, *runs, 0) for _, group in rows for _, value, runs in group), default=0) or 1
    scale = _Linear(high)
    thick, gap = 11, 9
    parts: list[str] = []
    y = 24.0
    for label, group in rows:
        parts.append(_text(_LEFT - 8, y + len(group) * thick / 2 + 4, label, "end"))
        for side, value, runs in group:
            title = f"{label} {side}: {value:.3f} {unit}"
            parts.append(_bar(_LEFT, y, scale.at(value) - _LEFT, thick - 2, COLOURS[side], title))
            parts += [f'<circle cx="{scale.at(run):.1f}" cy="{y + thick / 2 - 1:.1f}" r="1.8" class="run"/>' for run in runs]
            parts.append(_text(scale.at(max(value, *runs, 0)) + 5, y + thick - 2, f"{value:.2f}", "start", "small"))
            y += thick
        y += gap
    return _svg(y + 6, scale.grid(y, unit) + parts)


def ratios(rows: Sequence[tuple[str, float]], target: float | None, side: str) -> str:
    """One dot a query on a logarithmic axis, with a line at 1 and, dashed, at the target."""
    values = [value for _, value in rows] + [1.0] + ([target] if target else [])
    low, high = math.log2(min(values)) - 0.3, math.log2(max(values)) + 0.3

    def at(value: float) -> float:
        return _LEFT + (math.log2(value) - low) / (high - low) * _SPAN

    height = 30 + 17 * len(rows)
    parts = [_line(at(1.0), 18, height, "axis"), _text(at(1.0), 13, "1", "middle", "small")]
    if target:
        parts += [_line(at(target), 18, height, "target"), _text(at(target), 13, f"{target:g}", "middle", "small")]
    y = 32.0
    for label, value in rows:
        fill = COLOURS[side] if target is None or value <= target else "#c0392b"
        parts.append(_text(_LEFT - 8, y + 4, label, "end"))
        parts.append(f'<line x1="{at(1.0):.1f}" x2="{at(value):.1f}" y1="{y:.1f}" y2="{y:.1f}" class="stem"/>')
        parts.append(
            f'<circle cx="{at(value):.1f}" cy="{y:.1f}" r="4.5" fill="{fill}">'
            f"<title>{escape(label)} {value:.3f}</title></circle>"
        )
        parts.append(
            _text(at(value) + (8 if value >= 1 else -8), y + 4, f"{value:.2f}", "start" if value >= 1 else "end", "small")
        )
        y += 17
    return _svg(height + 8, parts)


def stacks(rows: Sequence[tuple[str, dict[str, float]]], unit: str) -> str:
    """One bar a query, made of its named parts."""
    high = max((sum(parts.values()) for _, parts in rows), default=0) or 1
    scale = _Linear(high)
    drawn: list[str] = []
    y = 24.0
    for label, values in rows:
        drawn.append(_text(_LEFT - 8, y + 10, label, "end"))
        x = float(_LEFT)
        for part, value in values.items():
            width = scale.at(value) - _LEFT
            drawn.append(_bar(x, y, width, 13, PARTS[part], f"{label} {part}: {value:.0f} {unit}"))
            x += width
        drawn.append(_text(x + 5, y + 10, f"{sum(values.values()):.0f}", "start", "small"))
        y += 18
    return _svg(y + 6, scale.grid(y, unit) + drawn)


def legend(colours: dict[str, str]) -> str:
    """Names and colours, as HTML."""
    return "".join(
        f'<span class="key"><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in colours.items()
    )


class _Linear:
    def __init__(self, high: float) -> None:
        step = 10.0 ** math.floor(math.log10(high))
        self._step = next(step * factor for factor in (0.2, 0.5, 1.0, 2.0) if high / (step * factor) <= 7)
        self._high = high

    def at(self, value: float) -> float:
        return _LEFT + max(0.0, value) / self._high * _SPAN

    def grid(self, height: float, unit: str) -> list[str]:
        parts: list[str] = []
        for i in range(int(self._high / self._step) + 1):
            x, value = self.at(i * self._step), i * self._step
            parts.append(_line(x, 18, height, "axis" if i == 0 else "grid"))
            parts.append(_text(x, 13, f"{value:g} {unit}" if i == 0 else f"{value:g}", "middle", "small"))
        return parts


def _bar(x: float, y: float, width: float, height: float, colour: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" fill="{colour}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _line(x: float, top: float, bottom: float, kind: str) -> str:
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" class="{kind}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'


def _svg(height: float, parts: list[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" role="img">{"".join(parts)}</svg>'
