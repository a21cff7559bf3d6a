"""TPC-H: data by `tpchgen-cli`, query texts from Spark's own test jar."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from coffer._find import cache_dir

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")

SPARK = "4.1.3"
_JAR = f"org/apache/spark/spark-sql_2.13/{SPARK}/spark-sql_2.13-{SPARK}-tests.jar"


def data(scale: str) -> dict[str, Path]:
    """TPC-H's tables at that scale as Parquet, by name: made once, then kept in Coffer's cache
    folder."""
    folder = cache_dir() / "tpch" / f"sf{scale}"
    if not folder.is_dir():
        making = folder.with_name(f"{folder.name}.{os.getpid()}")
        making.mkdir(parents=True)
        try:
            command = [_tpchgen(), "parquet", "-s", scale, "--output-dir", str(making)]
            subprocess.run(command, check=True, stdout=sys.stderr, timeout=900)
            try:
                making.rename(folder)
            except OSError:  # another run was faster
                if not folder.is_dir():
                    raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return {name: folder / f"{name}.parquet" for name in TABLES}


def query(number: int) -> str:
    """The text of one of TPC-H's 22 queries as Spark's own tests have it."""
    with zipfile.ZipFile(_tests_jar()) as jar:
        return jar.read(f"tpch/q{number}.sql").decode()


def _tests_jar() -> Path:
    """Spark's test jar: in Maven's local repository where that is in its usual place, else in
    Coffer's cache folder."""
    jar = Path(os.environ.get("COFFER_M2", Path.home() / ".m2" / "repository")) / _JAR
    kept = cache_dir() / jar.name
    if not jar.is_file() and not kept.is_file():
        # Not where Maven put it: that goes by its settings and the account's config directory,
        # whatever HOME says.
        with tempfile.TemporaryDirectory(prefix="coffer-") as folder:
            artifact = f"org.apache.spark:spark-sql_2.13:{SPARK}:jar:tests"
            subprocess.run(
                [
                    "mvn",
                    "-q",
                    "-B",
                    "dependency:copy",
                    f"-Dartifact={artifact}",
                    f"-DoutputDirectory={folder}",
                ],
                check=True,
                stdout=sys.stderr,
                cwd=folder,
                timeout=900,
            )
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(folder) / jar.name, kept.with_suffix(f".{os.getpid()}"))
            kept.with_suffix(f".{os.getpid()}").rename(kept)
    return jar if jar.is_file() else kept


def _tpchgen() -> str:
    beside = Path(sys.executable).with_name("tpchgen-cli")
    found = str(beside) if beside.is_file() else shutil.which("tpchgen-cli")
    if not found:
        raise FileNotFoundError(
            "tpchgen-cli was not found\nhint: pip install -r testing/requirements.txt"
        )
    return found
