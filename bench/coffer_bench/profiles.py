"""Which build of the Rust programs is measured."""

from __future__ import annotations

import os
from pathlib import Path

NAMES = ("release", "dist")
# Below the folder of what `make dist` builds: scripts/packaging/programs.py.
_DIST = Path("x86_64-unknown-linux-gnu", "dist")
_VARIABLE = "COFFER_BIN"


def choose(name: str) -> None:
    """All that is started from here on is of this profile. SystemExit where it was not built."""
    if name == "release":
        return
    target = Path(os.environ["CARGO_TARGET_DIR"])
    folder = target.with_name(f"{target.name}-dist") / _DIST
    if not (folder / "coffer-engine").is_file():
        raise SystemExit(f"error: no programs in {folder}\nhint: run make dist")
    os.environ[_VARIABLE] = str(folder)


def chosen() -> str:
    """The profile of the programs that are started."""
    named = os.environ.get(_VARIABLE)
    return Path(named).name if named else NAMES[0]
