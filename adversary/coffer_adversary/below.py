"""The same mutations below Spark: engine/crates/owner/client/tests/attack, where the real client
engine and real engines run in one process with a small executor between them, hundreds of times as
fast."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from coffer_adversary.report import Report

_MANIFEST = Path(__file__).parents[2] / "engine" / "Cargo.toml"

# Seconds for building the test, and for one run: some hundred times what one takes.
_BUILDS = 7200.0
_RUN = 2.0


# Attacks of several steps that are played there alone: `scenarios.rs`.
SCENARIOS = (
    "repeat-map-of-sums",
    "repeat-map-of-averages",
    "repeat-map-of-moments",
    "repeat-map-of-a-limit",
    "value-of-another-version",
    "replay-a-session-ended-long-ago",
    "lease-renewed-by-a-start",
    "lease-renewed-by-an-old-release",
    "lease-renewed-by-an-altered-descriptor",
    "lease-held-by-an-unanswered-need",
    "guess-beyond-the-bound",
    "guess-beyond-the-bound-by-reconnecting",
    "write-outside-of-the-roots",
    "whole-query-without-a-stage",
    "whole-query-with-a-stage-twice",
    "whole-query-in-another-order",
    "whole-query-without-a-task",
    "whole-query-with-a-task-twice",
    "whole-query-with-parts-of-another-query",
    "whole-query-with-parts-of-another-stage",
    "whole-query-with-a-bit-flipped",
    "whole-query-of-two-runs",
    "whole-query-result-without-a-partition",
    "whole-query-task-alone",
)


def add(report: Report, runs: int, seed: int, only: frozenset[str] = frozenset()) -> None:
    """Applies so many, and adds what came of them to the rows of those that are applied through
    Spark. `only`: these scenarios, and nothing else."""
    with tempfile.TemporaryDirectory(prefix="coffer-attack-") as folder:
        counts = Path(folder) / "counts.json"
        # The whole workspace is selected: with another selection its dependencies would be built
        # once more.
        command = [
            "cargo",
            "test",
            "--quiet",
            "--release",
            "--workspace",
            "--locked",
            "--manifest-path",
            str(_MANIFEST),
        ]
        environment = {
            "COFFER_ATTACK_RUNS": str(runs),
            "COFFER_ATTACK_SEED": str(seed),
            "COFFER_ATTACK_JSON": str(counts),
        }
        if only:
            environment["COFFER_ATTACK_ONLY"] = ",".join(sorted(only))
        ended = _run(
            [*command, "--test", "attack"], {**os.environ, **environment}, _BUILDS + runs * _RUN
        )
        if not counts.is_file():
            raise RuntimeError(
                f"the mutations below Spark were not counted: {' '.join(command)} ended with "
                f"{ended}"
            )
        mutations: dict[str, dict[str, Any]] = json.loads(counts.read_text())["mutations"]
    for name, counted in mutations.items():
        report.row(name).merge(counted)
    if ended != 0 and report.sound:
        raise RuntimeError(f"the test of the mutations below Spark ended with {ended}")


def _run(command: list[str], environment: dict[str, str], seconds: float) -> int:
    """The exit code. What hangs is ended, and is an error."""
    with subprocess.Popen(
        command, env=environment, stdout=sys.stderr, start_new_session=True
    ) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(
                f"the mutations below Spark did not end in {seconds:.0f} s"
            ) from error
        finally:
            # The test is cargo's child, and would outlive it; so it would when this program is
            # interrupted.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
