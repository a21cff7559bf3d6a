"""The build's check of tools names what is missing and how to install it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / "scripts" / "check-tools"

# What the script itself needs to run.
SHELL = ("bash", "env", "sort", "awk", "sed", "head")


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PYTHON")}
    return subprocess.run([CHECK], env={**env, "PATH": str(folder)}, capture_output=True, text=True, check=False)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    for name in SHELL:
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    return tmp_path


def program(folder: Path, name: str, says: str, to: str = "stdout") -> None:
    """A tool that prints one line, whatever it is asked."""
    script = folder / name
    script.write_text(f"#!{folder / 'bash'}\necho '{says}'{' >&2' if to == 'stderr' else ''}\n")
    script.chmod(0o755)


def test_every_missing_tool_is_named_with_how_to_install_it(tools: Path) -> None:
    done = check(tools)
    assert done.returncode == 1
    for name in ("cargo", "rustc", "java 17", "mvn", "python3", "cc"):
        assert f"missing: {name}" in done.stderr
    assert done.stderr.count("  install: ") == done.stderr.count("missing: ")


def test_old_versions_are_named(tools: Path) -> None:
    program(tools, "cargo", "cargo 1.93.1 (abc 2026-01-01)")
    program(tools, "rustc", "rustc 1.94.0 (abc 2026-01-01)")
    program(tools, "java", 'openjdk version "11.0.2" 2019-01-15', "stderr")
    done = check(tools)
    assert "cargo 1.94 or newer (found 1.93.1)" in done.stderr
    assert "rustc" not in done.stderr
    assert "Spark 4.1 runs on (found 11)" in done.stderr


def test_all_there(tools: Path) -> None:
    for name in ("cargo", "rustc"):
        program(tools, name, f"{name} 1.100.0 (abc 2026-09-01)")
    program(tools, "java", 'openjdk version "17.0.12" 2024-07-16', "stderr")
    for name in ("javac", "mvn", "cc", "python3"):
        program(tools, name, "fine")
    done = check(tools)
    assert (done.returncode, done.stderr) == (0, "")
