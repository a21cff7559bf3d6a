"""Nothing in clear at executors: the leak harness on a part of its workload. `make leaks` runs all of it.

What is planted and searched: docs/security/leaks.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]


def test_nothing_in_clear(tmp_path: Path) -> None:
    report = tmp_path / "leaks.json"
    done = subprocess.run(
        [ROOT / "security" / "run", "leaks", "--small", "--json", report, "--folder", tmp_path],
        env={**os.environ, "VENV": str(Path(sys.prefix))},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(report.read_text())
    assert result["hits"] == 0 and not result["problems"]
    assert result["control_hits"] > 10_000
    assert result["searched_bytes"] > 500_000_000
    assert result["event_log_on_untrusted_storage"] == "refused"
