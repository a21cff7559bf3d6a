"""Processes by their parents, from /proc: so that tests touch only what they started."""

from __future__ import annotations

import contextlib
from pathlib import Path


def named(roots: set[int], name: str) -> list[int]:
    """The processes that descend from `roots` and are called `name`. Engines let nobody read more of them than that."""
    return sorted(pid for pid, own in _below(roots).items() if own == name)


def running(roots: set[int], main_class: str) -> list[int]:
    """The JVMs that descend from `roots` and run this class."""
    return sorted(pid for pid in _below(roots) if main_class in _command(pid))


def _below(roots: set[int]) -> dict[int, str]:
    """All descendants of `roots`, with their names."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # A process may end while it is looked at.
            with contextlib.suppress(OSError):
                before, _, after = (entry / "stat").read_text().rpartition(")")
                children.setdefault(int(after.split()[1]), []).append(int(entry.name))
                names[int(entry.name)] = before.partition("(")[2]
    found: dict[int, str] = {}
    pending = list(roots)
    while pending:
        for child in children.get(pending.pop(), []):
            if child not in found:
                found[child] = names[child]
                pending.append(child)
    return found


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
