"""What judging an engine's evidence takes: the verifiers' process from its start to its end, over
recorded evidence.

It is started once for each engine; the rest of an admission is measured with simulated evidence
(`keys`).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from coffer import find_binary

VECTORS = Path(__file__).parents[2] / "helpers" / "verifiers" / "tests" / "vectors"
# When the recorded collateral was in force: June 2025.
NOW = 1_750_420_000
RUNS = 15
# Kind, report, and the collateral that its platform's vendor gives.
RECORDED = [
    ("sgx", "sgx_quote", "sgx_quote_collateral.json"),
    ("tdx", "tdx_quote", "tdx_quote_collateral.json"),
    ("sev-snp", "report_milan.hex", "vcek_milan.der"),
    ("tpm", "tpm_quote", None),
]


def measure(folder: Path) -> dict[str, float]:
    """Median milliseconds for each kind. It is an error if a signature does not pass: the rest is
    not checked then."""
    folder.mkdir()
    return {kind: _one(kind, report, collateral, folder) for kind, report, collateral in RECORDED}


def _one(kind: str, report: str, collateral: str | None, folder: Path) -> float:
    policy: dict[str, Any] = {"collateral": str(folder)}
    if kind == "tpm":
        policy["tpm"] = json.loads((VECTORS / "tpm_pins.json").read_text())
    raw = (VECTORS / report).read_bytes()
    question = {
        "kind": kind,
        "policy": policy,
        "report": raw.decode().strip() if report.endswith(".hex") else raw.hex(),
        "expected": "00" * 32,
        "now": NOW,
    }
    if collateral:
        words = " ".join(check["found"] for check in _ask(question)).replace(":", " ").split()
        name = next(word for word in words if word.endswith((".json", ".der")))
        (folder / name).write_bytes((VECTORS / collateral).read_bytes())
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        checks = _ask(question)
        seconds.append(time.perf_counter() - start)
        if not any(check["name"] == "signature" and check["passed"] for check in checks):
            raise SystemExit(f"error: the recorded evidence of {kind} does not pass: {checks}")
    return round(1000 * statistics.median(seconds), 1)


def _ask(question: dict[str, Any]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [find_binary("coffer-attest")],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)["checks"]
