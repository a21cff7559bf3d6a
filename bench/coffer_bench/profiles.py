"""Which build of the Rust programs is measured."""

from __future__ import annotations

import os
import sys
from pathlib import Path

NAMES = ("release", "dist")
# Who builds them says where they are.
_PACKAGING = Path(__file__).resolve().parents[2] / "scripts" / "packaging"
_VARIABLE = "COFFER_BIN"


def choose(name: str) -> None:
    """All that is started from here on is of this profile. SystemExit where it was not built."""
    if name == "release":
        return
    sys.path.insert(0, str(_PACKAGING))
    from programs import dist_folder

    folder = dist_folder()
    if not (folder / "coffer-engine").is_file():
        raise SystemExit(f"error: no programs in {folder}\nhint: run make dist")
    os.environ[_VARIABLE] = str(folder)


def chosen() -> str:
    """The profile of the programs that are started."""
    named = os.environ.get(_VARIABLE)
    return Path(named).name if named else NAMES[0]
