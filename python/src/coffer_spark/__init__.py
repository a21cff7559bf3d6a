"""What the distribution `coffer-spark` has beside the package `coffer`: the command `coffer`, and
the check that this package is Coffer's. A stranger's distribution has the name `coffer` too, and
pip writes the one over the other without a word."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import NoReturn

HINT = "hint: use an environment of its own for Coffer, or: pip uninstall coffer coffer-spark; "
HINT += "pip install coffer-spark"


class NameClash(ImportError):
    """The package `coffer` is another's, or two have been written over each other."""


def check(site: Path | None = None) -> None:
    """Raises NameClash where a distribution `coffer` was installed into the same folder."""
    site = site or Path(__file__).resolve().parents[1]
    for stranger in metadata.distributions(name="coffer", path=[str(site)]):
        raise NameClash(
            f"the distribution coffer {stranger.version} in {site} is not Coffer, and has a "
            f"package of the same name as coffer-spark\n{HINT}"
        )


def main() -> NoReturn:
    """The command `coffer`: the program takes this process's place."""
    try:
        program = _program()
    except (ImportError, OSError) as error:
        sys.exit(f"error: {error}")
    from coffer._find import processor_lacks

    lacks = processor_lacks(program)
    if lacks:
        sys.exit(
            f"error: this machine's processor lacks {', '.join(lacks)}, for which Coffer is built\n"
            "hint: use a machine of 2015 or later, or build Coffer for older ones: "
            "make dist DIST_CPU=x86-64"
        )
    # `coffer sql` and others are run by Python: by the one that has this package.
    os.environ.setdefault("COFFER_PYTHON", sys.executable)
    os.execv(program, [str(program), *sys.argv[1:]])


def _program() -> Path:
    check()
    found = importlib.util.find_spec("coffer._find")
    ours = Path(__file__).resolve().parents[1] / "coffer"
    if found is None or found.origin is None or Path(found.origin).resolve().parent != ours:
        raise NameClash(f"the package coffer that Python finds is not the one in {ours}\n{HINT}")
    from coffer import CofferNotFound, find_binary

    program = find_binary("coffer")
    if program.resolve() == Path(sys.argv[0]).resolve():
        raise CofferNotFound(
            "this installation of coffer-spark has no programs\n"
            "hint: install the wheel that make dist makes"
        )
    return program
