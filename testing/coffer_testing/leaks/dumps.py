"""The memory of the host's JVMs: heap dumps and core files; and what the system shows of its
processes."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path


class DumpFailed(RuntimeError):
    """A JVM could not be dumped; the message says what the tool said."""


def heap(pid: int, folder: Path) -> None:
    """The whole heap, unreachable objects included: what is garbage to the JVM is not to an
    attacker."""
    target = folder / f"{pid}.hprof"
    _run(["jcmd", str(pid), "GC.heap_dump", "-all", str(target)], target)


def core(pid: int, folder: Path) -> None:
    """The process's own memory as a debugger writes it: direct buffers, stacks, code, and what the
    heap held before. Files that are mapped in are left out."""
    _run(["gcore", "-o", str(folder / "core"), str(pid)], folder / f"core.{pid}")


def can_core() -> str | None:
    """None, or why there can be no core files here."""
    return None if shutil.which("gcore") else "gcore is not installed (it comes with gdb)"


def processes(pids: Iterable[int], folder: Path) -> None:
    """Command lines and environments, as the system shows them to root."""
    for pid in pids:
        for name in ("cmdline", "environ"):
            # Engines let nobody read theirs, not even their owner; root could.
            with contextlib.suppress(OSError):
                (folder / f"{pid}-{name}").write_bytes(Path(f"/proc/{pid}/{name}").read_bytes())


def _run(command: list[str], target: Path) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0 or not target.is_file() or target.stat().st_size < 1_000_000:
        raise DumpFailed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
