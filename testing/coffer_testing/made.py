"""Data that is made once by a generator and kept in Coffer's cache folder."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path


def once(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder; where it is not there, `make` has filled it under another name first, so that it
    is whole or not there."""
    if not folder.is_dir():
        making = folder.with_name(f"{folder.name}.{os.getpid()}")
        making.mkdir(parents=True)
        try:
            make(making)
            try:
                making.rename(folder)
            except OSError:  # another run was faster
                if not folder.is_dir():
                    raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder


def keep(file: Path, text: str) -> None:
    """Writes the file: whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.rename(file)


def remove(folder: Path) -> None:
    """Deletes what was needed on the way only."""
    shutil.rmtree(folder, ignore_errors=True)


def program(name: str) -> str:
    """A generator's program: beside this interpreter, or on the PATH."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if not found:
        raise FileNotFoundError(
            f"{name} was not found\nhint: pip install -r testing/requirements.txt"
        )
    return found
