"""The command line: which benchmark, at which scale, against whom, where the JSON and the page
go."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from coffer_bench import encrypt, keys, page, queries, report, schemes, sides, storage
from coffer_testing import policies


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument(
        "benchmark", choices=[*queries.SUITES, "encrypt", "keys", "schemes", "storage", "page"]
    )
    parser.add_argument("--sf", default="1", help="scale factor of the data (default: %(default)s)")
    parser.add_argument(
        "--queries",
        default="all",
        help="tpch, tpcds, storage: which queries, as 1,6,12-15; of TPC-DS also 14a, v2.7 or "
        "5a_v2.7 (default: %(default)s)",
    )
    parser.add_argument(
        "--sides",
        help="tpch, tpcds: who takes part (default: spark,coffer,unsealed; with --policy "
        "spark,coffer)",
    )
    parser.add_argument(
        "--peer",
        choices=["comet"],
        help="tpch, tpcds: compare with plaintext Comet too; fetched on demand",
    )
    parser.add_argument(
        "--runs", type=int, default=5, help="counted runs of each side (default: %(default)s)"
    )
    parser.add_argument(
        "--warm-ups",
        type=int,
        default=3,
        help="tpch, tpcds, storage: runs of each side before those that count (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--cores", type=int, default=os.cpu_count() or 1, help="of each side (default: all)"
    )
    parser.add_argument(
        "--partitions",
        type=int,
        help="shuffle partitions (default: 4, above scale 1 5 for each unit of scale)",
    )
    parser.add_argument(
        "--policy",
        choices=policies.NAMES,
        help="tpch: the protections of Coffer's tables (default: all tee)",
    )
    parser.add_argument(
        "--engine-memory",
        default="2g",
        help="what runs beside the JVM has so much; Spark's JVM has it on top (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="where tables, logs and spill go while it runs (default: a temporary one)",
    )
    parser.add_argument(
        "--tables",
        type=int,
        default=1000,
        help="keys: how many tables' keys are rewrapped (default: %(default)s)",
    )
    parser.add_argument(
        "--json",
        type=Path,
        required=True,
        metavar="FILE",
        help="where the result goes; page: where it is",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="where a page that reads the result goes"
    )
    arguments = parser.parse_args()
    if arguments.benchmark == "page":
        page.write(
            json.loads(arguments.json.read_text()),
            arguments.html or arguments.json.with_suffix(".html"),
        )
        return 0

    if arguments.benchmark == "schemes":
        _write(arguments.json, schemes.measure(arguments.runs))
        return 0

    if arguments.benchmark == "keys":
        with tempfile.TemporaryDirectory(prefix="coffer-bench-", dir=arguments.folder) as folder:
            _write(arguments.json, keys.measure(Path(folder), arguments.tables))
        return 0

    if arguments.benchmark == "storage":
        with tempfile.TemporaryDirectory(prefix="coffer-bench-", dir=arguments.folder) as folder:
            result = storage.measure(
                arguments.sf,
                arguments.queries,
                queries.Rounds(max(1, arguments.warm_ups), arguments.runs),
                Path(folder),
                sides.Resources.of(
                    arguments.cores, arguments.partitions or 4, arguments.engine_memory
                ),
            )
        _write(arguments.json, result)
        storage.show(result)
        return 0 if all(result["same_answer"].values()) else 1

    with tempfile.TemporaryDirectory(prefix="coffer-bench-", dir=arguments.folder) as folder:
        measured = _measure(arguments, Path(folder))
    result = report.assemble(arguments.benchmark, arguments.sf, arguments.runs, measured)
    _write(arguments.json, result)
    if arguments.html:
        page.write(result, arguments.html)
    report.show(result)
    return 0 if all(measured.same_answer.values()) else 1


def _write(file: Path, result: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")


def _measure(arguments: argparse.Namespace, folder: Path) -> report.Measured:
    if arguments.benchmark == "encrypt":
        return encrypt.measure(arguments.sf, arguments.runs, folder)
    chosen = arguments.sides or ("spark,coffer" if arguments.policy else "spark,coffer,unsealed")
    names = [*chosen.split(","), *([arguments.peer] if arguments.peer else [])]
    unknown = [name for name in names if name not in sides.START]
    if unknown:
        raise SystemExit(f"error: no side {unknown[0]!r}\nhint: there are {', '.join(sides.START)}")
    partitions = arguments.partitions or max(
        4, round(5 * float(arguments.sf)) if float(arguments.sf) > 1 else 4
    )
    resources = sides.Resources.of(
        arguments.cores, partitions, arguments.engine_memory, arguments.policy
    )
    if arguments.policy and arguments.benchmark != "tpch":
        raise SystemExit("error: --policy names protections of TPC-H's columns")
    suite = queries.SUITES[arguments.benchmark]
    try:
        chosen_queries = suite.choose(arguments.queries)
    except ValueError as error:
        raise SystemExit(f"error: {error}\nhint: --queries 1,6,12-15, or all") from error
    rounds = queries.Rounds(max(1, arguments.warm_ups), arguments.runs)
    return queries.measure(suite, arguments.sf, chosen_queries, rounds, folder, names, resources)


if __name__ == "__main__":
    sys.exit(main())
