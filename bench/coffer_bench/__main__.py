"""The command line: which benchmark, at which scale, where the JSON goes."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from coffer_bench import encrypt, report, tpch


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument("benchmark", choices=["tpch", "encrypt"])
    parser.add_argument("--sf", default="1", help="TPC-H scale factor (default: %(default)s)")
    parser.add_argument("--queries", default="1,6", help="tpch: which queries, by number (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each side (default: %(default)s)")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the result goes")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="coffer-bench-") as folder:
        if arguments.benchmark == "tpch":
            numbers = [int(number) for number in arguments.queries.split(",")]
            measured = tpch.measure(arguments.sf, numbers, arguments.runs, Path(folder))
        else:
            measured = encrypt.measure(arguments.sf, arguments.runs, Path(folder))
    result = report.assemble(arguments.benchmark, arguments.sf, arguments.runs, measured)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    report.show(result)
    return 0 if all(measured.same_answer.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
