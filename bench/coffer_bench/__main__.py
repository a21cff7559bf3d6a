"""The command line: which benchmark, at which scale, against whom, where the JSON and the page
go."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from coffer_bench import files, page, profiles, report
from coffer_bench.catalogue import BENCHMARKS
from coffer_testing import policies

ALL = "all"
# What options are where neither the command line nor the benchmark says otherwise.
_DEFAULTS: dict[str, Any] = {
    "sf": "1",
    "queries": "all",
    "runs": 5,
    "warm_ups": 3,
    "tables": 1000,
    "gb": 1.0,
    "rows": 1_000_000,
    "count": 1000,
}


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.benchmark == "page":
        page.write(
            json.loads(arguments.json.read_text()),
            arguments.html or arguments.json.with_suffix(".html"),
        )
        return 0
    profiles.choose(arguments.profile)
    if arguments.benchmark == ALL:
        return _all(arguments)
    options = _options(arguments.benchmark, arguments)
    result = _run(arguments.benchmark, options)
    files.write(options.json, result)
    if options.html:
        page.write(result, options.html)
    benchmark = BENCHMARKS[arguments.benchmark]
    benchmark.show(result)
    return 0 if benchmark.sound(result) else 1


def _all(arguments: argparse.Namespace) -> int:
    """Each benchmark, one after the other: one object with the result of each, by name. One that
    fails has `error` in its place, and the rest go on."""
    results: dict[str, Any] = {}
    wrong = []
    for name, benchmark in BENCHMARKS.items():
        print(f"== {name}", file=sys.stderr)
        start = time.monotonic()
        try:
            results[name] = _run(name, _options(name, arguments))
            if not benchmark.sound(results[name]):
                wrong.append(name)
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            results[name] = {"benchmark": name, "error": str(error)}
            wrong.append(name)
        results[name]["took_s"] = round(time.monotonic() - start, 1)
        # What is measured is kept, whatever comes.
        files.write(arguments.json, results)
    for name, result in results.items():
        print(f"{name:<12}{result['took_s']:>8.1f} s{'  FAILED' if name in wrong else ''}")
    return 1 if wrong else 0


def _options(name: str, arguments: argparse.Namespace) -> argparse.Namespace:
    """What was asked for, or the benchmark's smallest form, or its defaults."""
    benchmark = BENCHMARKS[name]
    fallback = {**_DEFAULTS, **benchmark.defaults, **(benchmark.quick if arguments.quick else {})}
    asked = {key: value for key, value in vars(arguments).items() if value is not None}
    return argparse.Namespace(**{**vars(arguments), **fallback, **asked})


def _run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="coffer-bench-", dir=options.folder) as folder:
        result = BENCHMARKS[name].run(options, Path(folder))
    result.setdefault("versions", report.versions([]))
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    add = parser.add_argument
    add("benchmark", choices=[*BENCHMARKS, ALL, "page"])
    add("--quick", action="store_true", help="the smallest form, which proves that it runs")
    add("--sf", help=f"scale factor of the data (default: {_DEFAULTS['sf']})")
    add("--gb", type=float, help=f"terasort, wordcount: GB of data (default: {_DEFAULTS['gb']:g})")
    add("--seed", type=int, default=1, help="terasort, wordcount: of the data (default: 1)")
    add(
        "--queries",
        help="which queries, as 1,6,12-15; of TPC-DS also 14a, v2.7 or 5a_v2.7; functions: which "
        "functions (default: all)",
    )
    add(
        "--sides",
        help="tpch, tpcds: who takes part (default: spark,coffer,unsealed; with --policy "
        "spark,coffer)",
    )
    add(
        "--peer",
        choices=["comet", "duckdb", "comet,duckdb"],
        metavar="PEERS",
        help="tpch, tpcds: compare with plaintext comet, duckdb or both (comet,duckdb) too; "
        "fetched on demand",
    )
    add(
        "--runs",
        type=int,
        help="counted runs of each side (default: 5; safespark 10, functions 3)",
    )
    add(
        "--warm-ups",
        type=int,
        help="runs of each side before those that count (default: 3; where data is written 1)",
    )
    add("--cores", type=int, default=os.cpu_count() or 1, help="of each side (default: all)")
    add("--executors", default="1,2", help="wordcount: numbers of executors (default: 1,2)")
    add(
        "--partitions",
        type=int,
        help="shuffle partitions (default: 4, above scale 1 5 for each unit of scale)",
    )
    add(
        "--tune",
        metavar="N,N",
        help="tpch, tpcds: numbers of shuffle partitions of which each side takes the best for it",
    )
    add(
        "--policy",
        choices=policies.NAMES,
        help="tpch: the protections of Coffer's tables (default: all tee)",
    )
    add(
        "--engine-memory",
        default="2g",
        help="what runs beside the JVM has so much; Spark's JVM has it on top (default: "
        "%(default)s)",
    )
    add(
        "--profile",
        choices=profiles.NAMES,
        default=profiles.NAMES[0],
        help="whose programs run: what tests use, or what is shipped, which make dist builds "
        "(default: %(default)s)",
    )
    add(
        "--folder",
        type=Path,
        help="where tables, logs and spill go while it runs (default: a temporary one)",
    )
    add("--tables", type=int, help="keys: how many tables' keys are rewrapped (default: 1000)")
    add("--rows", type=int, help="schemes, functions: rows (default: 10 million, 500,000)")
    add("--count", type=int, help="soak: queries in all (default: 1000)")
    add(
        "--json",
        type=Path,
        required=True,
        metavar="FILE",
        help="where the result goes; page: where it is",
    )
    add("--html", type=Path, metavar="FILE", help="where a page that reads the result goes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
