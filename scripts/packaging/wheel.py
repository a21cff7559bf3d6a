"""The wheel `coffer-spark`: modules, programs and the plugin's jar."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import programs

from coffer._find import jar_of

PLATFORM = "manylinux_2_28_x86_64"
MOST_BYTES = 120_000_000


def make(jars: dict[str, Path], built: Path, notes: Path, into: Path, profile: str) -> Path:
    """Builds the wheel from a copy of the sources with the programs in it. That of the profile
    `release` has this machine's tag, as it may need this machine's glibc."""
    platform = PLATFORM if profile == "dist" else "linux_x86_64"
    leave = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    with tempfile.TemporaryDirectory(prefix="coffer-wheel-") as folder:
        sources = Path(folder) / "python"
        shutil.copytree(programs.ROOT / "python", sources, ignore=leave)
        for text in (programs.ROOT / "LICENSE", notes):
            shutil.copy(text, sources)
        package = sources / "src" / "coffer"
        shutil.copytree(built, package / "bin")
        for line, jar in jars.items():
            to = package / "jars" / jar_of(line)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(jar, to)
        _modes(sources)
        code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
        # Not pip, which would fetch the build's requirements.
        done = subprocess.run(
            [Path(os.environ["VENV"]) / "bin" / "python", "-c", code, folder],
            cwd=sources,
            env={
                **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
                "COFFER_PLATFORM": platform,
                # Equal sources make an equal wheel.
                "SOURCE_DATE_EPOCH": "1735689600",
            },
            capture_output=True,
            text=True,
            umask=0o022,
        )
        if done.returncode != 0:
            raise ValueError(f"the wheel could not be built\n{done.stdout}{done.stderr}")
        (wheel,) = Path(folder).glob("*.whl")
        size = wheel.stat().st_size
        if size > MOST_BYTES:
            raise ValueError(f"the wheel has {size:,} bytes, more than {MOST_BYTES:,}")
        return Path(shutil.copy(wheel, into))


def _modes(sources: Path) -> None:
    """They are part of the wheel, and must not be what the umask makes of them."""
    for path in sources.rglob("*"):
        if path.is_file():
            program = path.parent.name == "bin" and not path.suffix
            path.chmod(0o755 if program else 0o644)


def audit(wheel: Path) -> None:
    """Raises ValueError unless auditwheel finds the wheel to be what its name says."""
    done = subprocess.run(
        [programs.tools() / "auditwheel", "show", wheel], capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    found = re.search(r"constrains\s+the\s+platform\s+tag\s+to\s+\"(\w+)\"", said) or re.search(
        r"consistent\s+with\s+the\s+following\s+platform\s+tag:\s+\"(\w+)\"", said
    )
    if done.returncode != 0 or found is None or _newer(found[1]):
        raise ValueError(f"auditwheel does not agree with {PLATFORM}:\n{said}")
    print(f"auditwheel: {found[1]}")


def _newer(tag: str) -> bool:
    """Whether a tag asks for a later glibc than the wheel's name says."""
    version = re.fullmatch(r"manylinux_(\d+)_(\d+)_x86_64", tag)
    return version is None or tuple(map(int, version.groups())) > (2, 28)
