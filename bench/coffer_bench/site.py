"""One page of all results: a section for each JSON file of a folder, with what its targets were and
which were missed (in red), plots, tables, what was left out, and, where a file NAME.md lies beside
NAME.json, what a profile showed and what was tried.

`bench/report [--results FOLDER] [--html FILE]`; the page names the results that it was made of by a
digest, by which a test finds it stale.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from coffer_bench import page, plots

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "benchmarks" / "results.html"
_MARK = "results"
_NUMBER = re.compile(r"^(?P<axis>.*?) ?(?P<number>\d+(?:\.\d+)?)(?P<unit> \w+)?$")


def digest(results: Path) -> str:
    """Of all that a page is made of."""
    found = hashlib.sha256()
    for file in _sources(results):
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def made_of(text: str) -> str | None:
    """The digest that a page names."""
    found = re.search(rf'<meta name="{_MARK}" content="(\w+)">', text)
    return found.group(1) if found else None


def render(results: Path) -> str:
    """The page's text."""
    sections = []
    for file in sorted(results.glob("*.json")):
        result = json.loads(file.read_text())
        # What `bench/run all` wrote is one object of many results.
        for name, one in _each(file.stem, result).items():
            sections.append((name, _title(one, name), _section(one, file.with_suffix(".md"))))
    links = " · ".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in sections)
    parts = [f"<h1>Results of the benchmarks</h1>\n<p>{links}</p>"]
    parts += [f'<h1 id="{name}">{escape(title)}</h1>\n{text}' for name, title, text in sections]
    mark = f'\n<meta name="{_MARK}" content="{digest(results)}">'
    return page.whole("Results of the benchmarks", "\n".join(parts), mark)


def _sources(results: Path) -> list[Path]:
    return sorted(file for file in results.iterdir() if file.suffix in (".json", ".md"))


def _each(name: str, result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    if "benchmark" in result or not all(isinstance(one, dict) for one in result.values()):
        return {name: result}
    found = all("benchmark" in one for one in result.values())
    return result if found else {name: result}


def _title(result: dict[str, Any], name: str) -> str:
    if result.get("ratios") and "sf" in result:
        return page.title(result)
    return name


def _section(result: dict[str, Any], notes: Path) -> str:
    if "error" in result:
        return f'<p class="missed">It failed: {escape(str(result["error"]))}</p>'
    if result.get("ratios") and "sf" in result:
        text = page.body(result, page.drawn(result))
    else:
        text = _experiment(result)
    if notes.is_file():
        text += f"\n<h2>What was seen and tried</h2>\n<pre>{escape(notes.read_text())}</pre>"
    # Sections have the second level of headings to themselves.
    return text.replace("<h2>", "<h3>").replace("</h2>", "</h3>")


def _experiment(result: dict[str, Any]) -> str:
    parts = [f"<p>{escape(line)}</p>" for line in _about(result)]
    if result.get("estimate"):
        parts.append('<p class="missed">Estimates, not measurements.</p>')
    if result.get("targets"):
        parts += ["<h2>Targets</h2>", page.table(_targets(result["targets"]))]
    parts += _plots(result)
    for title, rows in result.get("tables", {}).items():
        if rows:
            parts += [f"<h2>{escape(title)}</h2>", page.table(_frame(rows))]
    if "tables" not in result:
        parts += ["<h2>Numbers</h2>", page.table(_flat(result))]
    if "formula" in result:
        parts += ["<h2>The formula</h2>", f"<pre>{escape(result['formula'])}</pre>"]
    for what in ("reference", "sources"):
        if what in result:
            parts += [f"<h2>{what.capitalize()}</h2>", _said(result[what])]
    if result.get("left_out"):
        parts += ["<h2>What was left out</h2>", _said(result["left_out"])]
    return "\n".join(parts)


def _about(result: dict[str, Any]) -> list[str]:
    machine, settings = result["machine"], result.get("settings", {})
    seed = result.get("seed")
    lines = [f"{name} {value}" for name, value in settings.items() if not isinstance(value, dict)]
    lines += [f"seed {seed}"] if seed is not None else []
    versions = ", ".join(
        f"{name} {version}" for name, version in result.get("versions", {}).items()
    )
    return [
        "; ".join(lines) + "." if lines else "",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_mib'] // 1024} GiB, "
        f"{machine['system']}; {versions}.",
    ]


def _targets(targets: list[dict[str, Any]]) -> pd.DataFrame:
    rows = {}
    for target in targets:
        value = "not measured" if target["value"] is None else f"{target['value']:g}"
        rows[target["what"]] = {
            "value": value if target["met"] else f"{value} (missed)",
            "target": f"at {target['at']} {target['limit']:g}",
        }
    return pd.DataFrame(rows).T


def _plots(result: dict[str, Any]) -> list[str]:
    """Of rates a line for each kind over the sizes; of seconds by amounts of work a plot for each
    kind of work; of other seconds bars."""
    parts = []
    for title, rows in result.get("tables", {}).items():
        if title.startswith("GB/s by"):
            frame = _frame(rows).T
            frame.index = [float(str(size).partition(" ")[0]) for size in frame.index]
            parts += [f"<h2>{escape(title)}</h2>", plots.lines(frame, "KB", "GB/s")]
    sides = _sides(result.get("seconds", {}))
    medians = pd.DataFrame(
        {
            side: {name: pd.Series(taken).median() for name, taken in by_name.items() if taken}
            for side, by_name in sides.items()
        }
    )
    if result["benchmark"] == "growth":
        axes: dict[str, list[tuple[float, Any]]] = {}
        for name in medians.index:
            found = _NUMBER.match(str(name))
            if found:
                axes.setdefault(found["axis"], []).append((float(found["number"]), name))
        for axis, points in axes.items():
            frame = medians.loc[[name for _, name in points]]
            frame.index = [number for number, _ in points]
            parts += [f"<h2>Seconds by {escape(axis)}</h2>", plots.lines(frame, axis, "s")]
    elif len(medians) > 0 and len(medians.columns) > 0:
        parts += ["<h2>Median seconds</h2>", plots.bars(medians, "s")]
    return parts


def _sides(seconds: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """By side, what each of its works took; by place and side where there are several places."""
    sides: dict[str, dict[str, list[float]]] = {}
    for side, found in seconds.items():
        if not isinstance(found, dict) or not found:
            continue
        if any(isinstance(taken, dict) for taken in found.values()):
            sides |= {f"{side}, {name}": works for name, works in _sides(found).items()}
        else:
            sides[side] = found
    return sides


def _frame(rows: dict[str, dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows).T.convert_dtypes()


def _flat(result: dict[str, Any]) -> pd.DataFrame:
    """All numbers of a result by the path to them."""
    found: dict[str, Any] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, one in value.items():
                walk(f"{path} {name}".strip(), one)
        elif isinstance(value, list) and all(isinstance(one, int | float) for one in value):
            found[path] = pd.Series(value).median() if value else None
        elif isinstance(value, int | float):
            found[path] = value

    known = {"machine", "versions", "settings", "same_answer", "answers"}
    walk("", {name: value for name, value in result.items() if name not in known})
    return pd.DataFrame({"value": found})


def _said(what: Any) -> str:
    """Words as a list."""
    if isinstance(what, str):
        return f"<p>{escape(what)}</p>"
    if isinstance(what, dict):
        items = [f"<b>{escape(str(name))}</b>: {_inline(value)}" for name, value in what.items()]
    else:
        items = [_inline(value) for value in what]
    return "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def _inline(what: Any) -> str:
    return escape("; ".join(what) if isinstance(what, list) else str(what))


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/report", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--html", type=Path, default=PAGE, metavar="FILE")
    arguments = parser.parse_args()
    arguments.html.parent.mkdir(parents=True, exist_ok=True)
    arguments.html.write_text(render(arguments.results))
    print(arguments.html)
    return 0


if __name__ == "__main__":
    sys.exit(main())
