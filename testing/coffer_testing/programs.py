"""Where the programs are that only tests have: built beside the others, and never installed."""

from __future__ import annotations

import os
from pathlib import Path

from coffer import CofferNotFound
from coffer._find import target_dir

LEAKSCAN = "coffer-leakscan"
PROXY = "coffer-proxy"


def find(name: str) -> Path:
    """The program of this name; in `COFFER_BIN` where that is set."""
    program = Path(os.environ.get("COFFER_BIN") or target_dir() / "release") / name
    if not program.is_file():
        raise CofferNotFound(f"{name} was not found in {program.parent}\nhint: run `make build`")
    return program
