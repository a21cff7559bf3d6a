"""What counts as detected: one of Coffer's own codes, at the driver, and no other kind of error."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_ERRORS = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"

# Codes that say that something of ours broke, rather than that a check held.
DEFECTS = frozenset({"COFFER_PANIC", "internal", "COFFER_CLIENT_LOST"})


@cache
def codes() -> frozenset[str]:
    """Every code of docs/reference/errors.md: the words in the first column of its tables."""
    found: set[str] = set()
    for line in _ERRORS.read_text().splitlines():
        if line.startswith("| `"):
            found |= set(re.findall(r"`(\w+)`", line.split("|")[1]))
    return frozenset(found)


def named(message: str) -> str | None:
    """The first of Coffer's codes that an error's text has in brackets, as `[COFFER_FRAME]`; None
    when it has none.

    Spark's words around it do not matter. `COFFER_TASK` names no check and is skipped when another
    code is there. Alone it says that no sealed error came: the host's word, which is all there is
    then, stands behind it, as `COFFER_TASK session`.
    """
    brackets = re.findall(r"\[(\w+)\]", message)
    known = [code for code in brackets if code in codes()]
    telling = [code for code in known if code != "COFFER_TASK"]
    if telling or not known:
        return telling[0] if telling else None
    word = re.search(r"a task failed in its engine \(([^,()]*), stage", message)
    return f"COFFER_TASK {word.group(1)}" if word else "COFFER_TASK"
