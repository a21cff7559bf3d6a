"""TPC-H: data by `tpchgen-cli`, query texts from Spark's own test jar."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from coffer._find import cache_dir
from coffer_testing import made, spark_tests

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def data(scale: str) -> dict[str, Path]:
    """TPC-H's tables at that scale as Parquet, by name: made once, then kept in Coffer's cache
    folder."""

    def make(folder: Path) -> None:
        command = [made.program("tpchgen-cli"), "parquet", "-s", scale]
        command += ["--output-dir", str(folder)]
        subprocess.run(command, check=True, stdout=sys.stderr, timeout=900)

    folder = made.once(cache_dir() / "tpch" / f"sf{scale}", make)
    return {name: folder / f"{name}.parquet" for name in TABLES}


def query(number: int) -> str:
    """The text of one of TPC-H's 22 queries as Spark's own tests have it."""
    return spark_tests.text(f"tpch/q{number}.sql")
