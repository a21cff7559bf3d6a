"""The same lies below Spark: engine/crates/client/tests/attack, where the real client engine and real engines run in one
process with a small executor between them, hundreds of times as fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from coffer_security.attack.report import Report

_MANIFEST = Path(__file__).parents[3] / "engine" / "Cargo.toml"


def add(report: Report, runs: int, seed: int) -> None:
    """Tells so many lies, and adds what came of them to the rows of those that are told through Spark."""
    with tempfile.TemporaryDirectory(prefix="coffer-attack-") as folder:
        counts = Path(folder) / "counts.json"
        # The whole workspace is selected: with another selection its dependencies would be built once more.
        command = ["cargo", "test", "--quiet", "--release", "--workspace", "--locked", "--manifest-path", str(_MANIFEST)]
        environment = {"COFFER_ATTACK_RUNS": str(runs), "COFFER_ATTACK_SEED": str(seed), "COFFER_ATTACK_JSON": str(counts)}
        done = subprocess.run([*command, "--test", "attack"], env={**os.environ, **environment}, stdout=sys.stderr)
        if not counts.is_file():
            raise RuntimeError(f"the lies below Spark were not counted: {' '.join(command)} ended with {done.returncode}")
        mutations: dict[str, dict[str, Any]] = json.loads(counts.read_text())["mutations"]
    for name, counted in mutations.items():
        report.row(name).merge(counted)
    if done.returncode != 0 and not report.wrong:
        raise RuntimeError(f"the test of the lies below Spark ended with {done.returncode}")
