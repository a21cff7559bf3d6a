"""Coffer as users have it: what `make dist` makes, in an environment without the build tree."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from coffer._find import LINE

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Shipped:
    """A folder that scripts/dist has filled."""

    folder: Path

    @property
    def wheel(self) -> Path:
        (wheel,) = self.folder.glob("coffer_spark-*.whl")
        return wheel

    @property
    def repository(self) -> Path:
        return self.folder / "maven"

    @property
    def jar(self) -> Path:
        (jar,) = (
            path
            for path in self.repository.rglob("coffer-spark-*.jar")
            if not path.stem.endswith(("-sources", "-javadoc"))
        )
        return jar


def ship(folder: Path) -> Shipped:
    """What is shipped, of the programs and the jar of this build."""
    done = subprocess.run(
        [
            ROOT / "scripts" / "dist",
            "--profile",
            "release",
            "--lines",
            LINE,
            "--fast",
            "--no-release",
            "--to",
            folder,
        ],
        env={**os.environ, "VENV": sys.prefix},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Shipped(folder)


def environment(venv: Path, **more: str) -> dict[str, str]:
    """The variables of a user who has nothing but a JDK and this Python environment."""
    java = os.environ.get("JAVA_HOME")
    path = [str(venv / "bin"), *([f"{java}/bin"] if java else []), "/usr/bin", "/bin"]
    kept = {name: os.environ[name] for name in ("LANG", "JAVA_HOME") if name in os.environ}
    return {**kept, "PATH": os.pathsep.join(path), "SPARK_LOCAL_IP": "127.0.0.1", **more}


def install(venv: Path, wheel: Path) -> None:
    """An environment with the wheel. What it depends on is that of this process, which has none of
    the build tree's packages: they come by PYTHONPATH."""
    run = {"check": True, "capture_output": True, "timeout": 300}
    subprocess.run([sys.executable, "-m", "venv", venv], **run)
    pip = [venv / "bin" / "python", "-m", "pip", "install", "--no-index", "--no-deps", wheel]
    subprocess.run(pip, env=environment(venv), **run)
    (site,) = venv.glob("lib/python*/site-packages")
    (theirs,) = Path(sys.prefix).glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{theirs}\n")
    # Those of Spark's commands that are scripts of its distribution.
    for command in (Path(sys.prefix) / "bin").glob("*spark*"):
        (venv / "bin" / command.name).symlink_to(command)
