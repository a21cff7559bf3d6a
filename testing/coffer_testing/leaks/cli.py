"""`testing/run leaks`: runs all sides, writes the counts, ends with 1 on a finding."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from coffer_testing.leaks import harness, report


def main(argv: list[str]) -> int:
    """0 when the sealed runs showed nothing and the control showed what it must; else 1."""
    parser = argparse.ArgumentParser(prog="testing/run leaks", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the counts go")
    parser.add_argument(
        "--small",
        action="store_true",
        help="a part of the workload, memory dumped once, no control by an unsealed build: a "
        "minute or two",
    )
    parser.add_argument("--scale", default="0.01", help="of TPC-H's tables (default: %(default)s)")
    parser.add_argument(
        "--folder", type=Path, help="where it works (default: a temporary folder); needs some GB"
    )
    parser.add_argument(
        "--allow-missing",
        type=_places,
        default=frozenset(),
        metavar="PLACES",
        help=f"places that this machine cannot search, or not wholly, without which the result "
        f"counts all the same: of "
        f"{','.join(report.MAY_BE_MISSING)} (default: none)",
    )
    parser.add_argument("--keep", action="store_true", help="leave the folder behind")
    arguments = parser.parse_args(argv)

    folder = Path(tempfile.mkdtemp(prefix="coffer-leaks-", dir=arguments.folder))
    try:
        programs = None if arguments.small else _unsealed()
        runs = harness.run(folder, arguments.scale, small=arguments.small, programs=programs)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    found = report.problems(runs, arguments.allow_missing)
    result = report.result(
        runs, found, scale=arguments.scale, small=arguments.small, cores=os.cpu_count()
    )
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    print(report.table(result))
    seconds = result["seconds"]
    sides = ", ".join(f"{side} {spent} s" for side, spent in seconds.items())
    print(f"\n{result['planted']:,} values planted; {sides}")
    for line in result["not_searched"]:
        print(f"not searched: {line}")
    for line in found:
        print(f"FOUND: {line}", file=sys.stderr)
    return 1 if found else 0


def _unsealed() -> Path:
    """The folder of programs that seal nothing: built if need be."""
    build = Path(__file__).parents[3] / "bench" / "build-unsealed"
    return Path(
        subprocess.run(
            [build], check=True, stdout=subprocess.PIPE, text=True, timeout=3600
        ).stdout.strip()
    )


def _places(text: str) -> frozenset[str]:
    named = frozenset(text.split(","))
    if unknown := named - set(report.MAY_BE_MISSING):
        raise argparse.ArgumentTypeError(
            f"{', '.join(sorted(unknown))}: no place that can be missing"
        )
    return named
