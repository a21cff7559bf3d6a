"""`testing/run patterns`: what the stored columns show, beside what is claimed; ends with 1 where
the two differ."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from coffer_testing.patterns import judge, report
from coffer_testing.patterns.fixture import Fixture


def main(argv: list[str]) -> int:
    """0 when a host recovers what is claimed and nothing more; else 1."""
    parser = argparse.ArgumentParser(prog="testing/run patterns", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the degrees go")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="coffer-patterns-") as folder:
        tables = Fixture(Path(folder))
        columns, findings = judge.columns(tables)
        pairs, more = judge.pairs(tables)
        linked, others = judge.by_links(tables)
    findings = [*findings, *more, *others]
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "columns": columns,
            "pairs": pairs,
            "by_link": linked,
            "findings": [str(finding) for finding in findings],
        }
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    print(report.table(tables, columns))
    print()
    print(report.pairs(pairs))
    for finding in findings:
        print(f"FOUND: {finding}", file=sys.stderr)
    return 1 if findings else 0
