"""Processes that end with the one that starts them, threads that must end, and descendants from
/proc: so that tests leave nothing behind, and touch only what they started."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# The kernel takes the thread that starts a process for its parent, so one that lasts starts them
# all.
_STARTER = ThreadPoolExecutor(1, thread_name_prefix="starter")
_SETPRIV = shutil.which("setpriv")


def start(command: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
    """As `subprocess.Popen`, of a process that is told to end when this one does, however that
    comes about. Its own children are its business."""
    ending = [_SETPRIV, "--pdeathsig", "TERM", "--"] if _SETPRIV else []
    return _STARTER.submit(subprocess.Popen, [*ending, *command], **options).result(60)


def ended(thread: threading.Thread, seconds: float = 60) -> None:
    """Waits for a thread. AssertionError where it goes on: what it does then, it does to whatever
    comes next."""
    thread.join(seconds)
    assert not thread.is_alive(), f"the thread {thread.name} still runs after {seconds:.0f} s"


def line_of(process: subprocess.Popen[Any], seconds: float) -> Any:
    """The next line of its standard output, empty when it has ended. TimeoutError when none has
    begun by then. For protocols of one line at a time: what was read ahead of a line is not
    seen."""
    assert process.stdout
    if not select.select([process.stdout], [], [], seconds)[0]:
        raise TimeoutError(f"process {process.pid} has said nothing for {seconds:.0f} s")
    return process.stdout.readline()


def named(roots: set[int], name: str) -> list[int]:
    """The processes that descend from `roots` and are called `name`. Engines let nobody read more
    of them than that."""
    return sorted(pid for pid, own in _below(roots).items() if own == name)


def running(roots: set[int], main_class: str) -> list[int]:
    """The JVMs that descend from `roots` and run this class."""
    return sorted(pid for pid in _below(roots) if main_class in _command(pid))


def stat(pid: int) -> list[str]:
    """What the kernel says of a process, behind its name (proc(5)). OSError when it has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def worked(pids: Iterable[int]) -> float:
    """Seconds on a processor that they have had. OSError when one has ended."""
    fields = [stat(pid) for pid in pids]
    return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK")


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
