"""Where the programs are that only tests have: built beside the others, and never installed."""

from __future__ import annotations

import os
from pathlib import Path

from coffer import CofferNotFound
from coffer._find import target_dir

LEAKSCAN = ("coffer-leakscan",)
# The first is its name once its crate has moved beside the harness, the second until then.
PROXY = "coffer-proxy"


def find(names: tuple[str, ...]) -> Path:
    """The first program of these names that is there; in `COFFER_BIN` where that is set."""
    folder = Path(os.environ.get("COFFER_BIN") or target_dir() / "release")
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise CofferNotFound(f"{names[0]} was not found in {folder}\nhint: run `make build`")
