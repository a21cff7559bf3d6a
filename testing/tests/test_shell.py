"""`python -m coffer sql`: Spark's own shell over sealed tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coffer_testing.owner import Owner


def shell(owner: Owner, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "coffer",
            "sql",
            "--config-dir",
            owner.config_dir,
            "--master",
            "local[1]",
            *arguments,
        ],
        env={**owner.environment(), "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=check,
        timeout=300,
    )


def test_a_query(owner: Owner, sealed_tables: dict[str, Path]) -> None:
    # The policy has the table's name and path since `coffer encrypt`.
    assert sealed_tables["events"].is_dir()
    done = shell(owner, "-e", "SELECT count(*), min(id), max(id) FROM events")
    assert "160000\t0\t159999" in done.stdout


def test_a_file(owner: Owner, sealed_tables: dict[str, Path], tmp_path: Path) -> None:
    script = tmp_path / "query.sql"
    script.write_text(
        f"CREATE TEMPORARY VIEW other USING coffer OPTIONS (path '{sealed_tables['edge']}');\n"
        "SELECT id, k IS NULL FROM other WHERE id < 2 ORDER BY id;\n"
    )
    done = shell(owner, "-f", str(script))
    assert [line.split("\t")[0] for line in done.stdout.splitlines() if line[:1].isdigit()] == [
        "0",
        "1",
    ]


def test_an_error_is_an_exit_code(owner: Owner) -> None:
    done = shell(owner, "-e", "SELECT * FROM no_such_table", check=False)
    assert done.returncode != 0
    assert "no_such_table" in done.stdout + done.stderr


def test_query_and_file_exclude_each_other(owner: Owner) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        shell(owner, "-e", "SELECT 1", "-f", "x.sql")
    assert failed.value.returncode == 2
