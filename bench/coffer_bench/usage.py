"""What a group of processes uses while something runs: CPU, memory, disk, and the traffic of
loopback, as `dstat` would give it, but of these processes alone.

CPU and disk are the kernel's own counts of each process: bytes that came from or went to storage,
not to the page cache, so a file that is cached counts nothing (`forget` takes files out of it).
Memory is looked at twenty times a second. Loopback's traffic has no owner: it is the machine's.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY = 0.05  # seconds

Usage = dict[str, float]


class Meter:
    """Measures the processes that `pids` names when it is entered: `usage` has then `cpu_s`,
    `read_bytes`, `written_bytes`, `loopback_bytes` and `memory_mib`, the most that they held
    together. What may not be read of a process is left out of all."""

    def __init__(self, pids: Callable[[], list[int]]) -> None:
        self._find = pids
        self.usage: Usage = {}

    def __enter__(self) -> Self:
        self._pids = self._find()
        self._most = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self._before = self._counts()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        after = self._counts()
        self._ended.set()
        self._thread.join(10)
        self.usage = {
            name: round(after[name] - self._before[name], 3)
            for name in after
            if name in self._before
        }
        self.usage["memory_mib"] = round(self._most, 1)

    def _counts(self) -> Usage:
        counts = {"cpu_s": sum(map(_cpu, self._pids)), "loopback_bytes": loopback()}
        moved = [_moved(pid) for pid in self._pids]
        if None not in moved:
            pairs = [pair for pair in moved if pair is not None]
            counts["read_bytes"] = sum(read for read, _ in pairs)
            counts["written_bytes"] = sum(written for _, written in pairs)
        return counts

    def _watch(self) -> None:
        while True:
            self._most = max(self._most, sum(map(resident_mib, self._pids)))
            if self._ended.wait(_EVERY):
                return


def resident_mib(pid: int) -> float:
    """What of a process is in memory; 0 of one that has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 2**20
    return 0.0


def loopback() -> int:
    """Bytes that the loopback device has carried."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[0])
    return 0


def forget(paths: Iterable[Path]) -> None:
    """Takes the files below these paths out of the page cache, so that the next to read them reads
    the disk."""
    os.sync()
    for path in paths:
        for file in path.rglob("*") if path.is_dir() else [path]:
            if file.is_file():
                opened = os.open(file, os.O_RDONLY)
                try:
                    os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(opened)


def _cpu(pid: int) -> float:
    with contextlib.suppress(OSError):
        after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(after[11]) + int(after[12])) / _TICKS
    return 0.0


def _moved(pid: int) -> tuple[int, int] | None:
    """Bytes that a process read from storage and wrote to it; what it wrote and deleted before that
    is not in it."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except ProcessLookupError:
        return 0, 0
    except OSError:
        return None
    counts = {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}
    return counts["read_bytes"], counts["write_bytes"]
