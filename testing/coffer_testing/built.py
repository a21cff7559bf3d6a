"""Programs of the tests that no other build makes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from coffer import find_binary

_TREE = Path(__file__).resolve().parents[2]


def built(workspace: str, program: str) -> Path:
    """The program, built with the others of its workspace."""
    folder = Path(find_binary("coffer-engine")).parent
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--quiet", "--workspace", "--bin", program],
        cwd=_TREE / workspace,
        env={**os.environ, "CARGO_TARGET_DIR": str(folder.parent)},
        check=True,
        timeout=3000,
    )
    return folder / program
