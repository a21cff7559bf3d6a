"""Jars of servers and file systems, fetched by Maven once for all runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def fetched(name: str, pom: Path) -> Path:
    """The folder of a pom's runtime jars. `name` is the folder's, with the version in it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coffer" / "servers"
    folder = cache / name
    if not folder.is_dir():
        if shutil.which("mvn") is None:
            raise RuntimeError(
                f"{name} comes through Maven, which is not installed: apt-get install maven"
            )
        fresh = cache / f"{name}.{os.getpid()}"
        goal = [
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={fresh}",
        ]
        done = subprocess.run(
            ["mvn", "-q", "-B", "-f", str(pom), *goal], text=True, capture_output=True, timeout=600
        )
        if done.returncode != 0:
            raise RuntimeError(f"Maven did not fetch {name}:\n{done.stdout[-2000:]}")
        try:
            fresh.rename(folder)
        except OSError:  # another run was faster
            shutil.rmtree(fresh, ignore_errors=True)
    return folder
