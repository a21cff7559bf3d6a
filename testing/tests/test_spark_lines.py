"""The other lines of Spark's versions: each with its own jar, in an environment with its pyspark.

The same tests as ever run there, of TPC-H, writes, joins and what must fail closed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from coffer._find import LINE, LINES, cache_dir, jar_of

ROOT = Path(__file__).parents[2]
FILES = ["test_quick.py", "test_tpch.py", "test_writes.py", "test_joins.py", "test_fail_closed.py"]
# What is another answer there, and why.
OTHERWISE = {
    # A table's missing columns are no NULLs to an INSERT.
    "4.0": "not test_insert_appends_reorders_and_casts",
    # An overflow of BIGINT has another text, and its place; the condition is the same.
    "4.2": "not key_overflows",
}


def version_of(line: str) -> str:
    """The version that a line's jar is compiled for."""
    pom = (ROOT / "spark/pom.xml").read_text()
    profile = re.search(rf"<id>spark-{re.escape(line)}</id>.*?</profile>", pom, re.DOTALL)
    found = re.search(r"<spark\.version>([^<]+)<", profile[0] if profile else pom)
    assert found is not None
    return found[1]


def environment(line: str) -> Path:
    """A Python environment as the build's, with that line's pyspark."""
    venv = cache_dir() / f"venv-spark-{line}"
    wanted = re.sub(
        r"(?m)^pyspark==.*$",
        f"pyspark=={version_of(line)}",
        (ROOT / "testing/requirements.txt").read_text(),
    )
    ready = venv / "requirements.txt"
    if not ready.is_file() or ready.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True, timeout=120)
        asked = venv / "asked.txt"
        asked.write_text(wanted)
        pip = [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", asked]
        subprocess.run(pip, check=True, timeout=900)
        asked.rename(ready)
    return venv


def test_each_line_has_a_version_of_it() -> None:
    assert LINE in LINES
    for line in LINES:
        assert version_of(line).startswith(f"{line}.")


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("line", [line for line in LINES if line != LINE])
def test_a_line(line: str) -> None:
    jar = ROOT / "spark/target" / jar_of(line)
    subprocess.run(["make", "-C", ROOT, jar.relative_to(ROOT)], check=True, timeout=1200)
    venv = environment(line)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [
            venv / "bin/python",
            *("-m", "pytest", "-c", "testing/pyproject.toml", "--rootdir", "testing"),
            *(f"testing/tests/{name}" for name in FILES),
            *("-m", "not full", "-k", OTHERWISE[line], "-q", "-p", "no:cacheprovider"),
        ],
        cwd=ROOT,
        # Its jar is found by the version of pyspark.
        env={**env, "COFFER_JAR": "", "VENV": str(venv)},
        capture_output=True,
        text=True,
        timeout=3300,
    )
    assert done.returncode == 0, done.stdout[-6000:]
