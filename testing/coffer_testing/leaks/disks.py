"""Files that live for a moment: shuffle and spill files go with their task or query, so they are
linked aside at once."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from coffer_testing.processes import ended

KINDS = ("shuffle", "spill", "disk")
_PAUSE = 0.02  # seconds; what lives shorter is missed


class Keeper:
    """Gives every file that appears under `folders` a second name under `kept`/KIND, until `stop`.
    A hard link: it shows what is written later too, and outlives the first name. All must be on one
    file system."""

    def __init__(self, folders: Iterable[Path], kept: Path) -> None:
        self._folders = list(folders)
        self._kept = kept
        self._seen: set[int] = set()
        self._ended = threading.Event()
        for name in KINDS:
            (kept / name).mkdir(parents=True)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """A last look, then no more."""
        self._ended.set()
        ended(self._thread)
        self._look()

    def _watch(self) -> None:
        while not self._ended.wait(_PAUSE):
            self._look()

    def _look(self) -> None:
        for folder in self._folders:
            self._below(str(folder))

    def _below(self, folder: str) -> None:
        # Folders and files may go while they are looked at.
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    self._below(entry.path)
                elif entry.is_file(follow_symlinks=False) and entry.inode() not in self._seen:
                    self._keep(entry)

    def _keep(self, entry: os.DirEntry[str]) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.link(
                entry.path, self._kept / kind(entry.path) / f"{len(self._seen):06}-{entry.name}"
            )
            self._seen.add(entry.inode())


def kind(path: str) -> str:
    """Which place a file of a local disk belongs to."""
    name = Path(path).name
    if "coffer-spill-" in path or name.startswith(("temp_local_", "temp_shuffle_")):
        return "spill"
    return "shuffle" if name.startswith(("shuffle_", "broadcast_", "rdd_")) else "disk"
