"""The schemes of a column's protections, timed by a program of their own crate on one core.

The program takes its counted runs itself and reports medians; it fails when a column does not come
back as it was.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from coffer_bench import report

PROGRAM = "coffer-schemes-bench"
ROWS = 10_000_000


def measure(runs: int, rows: int = ROWS) -> dict[str, Any]:
    """Median seconds for each scheme and direction, and bytes for each stored value."""
    program = Path(os.environ["CARGO_TARGET_DIR"]) / "release" / PROGRAM
    if not program.exists():
        raise SystemExit(f"error: no program at {program}\nhint: run make build")
    done = subprocess.run(
        [program, str(rows), str(runs)], stdout=subprocess.PIPE, check=True, text=True, timeout=3600
    )
    measured = json.loads(done.stdout)
    return {
        "benchmark": "schemes",
        "machine": report.machine(),
        "runs": runs,
        "rows": rows,
        "seconds": measured["seconds"],
        "bytes_per_value": measured["bytes_per_value"],
    }
