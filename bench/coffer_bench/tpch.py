"""TPC-H queries: plaintext Spark on plain Parquet against Coffer on sealed tables made from the same files."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from coffer.workload import tpch
from coffer.workload.answers import Answer, difference
from coffer.workload.owner import Owner
from coffer.workload.runner import Driver
from coffer_bench.report import Measured

# The same for both sides. Coffer's engine has its memory beside the JVM's; each side's JVM has the same.
CONF = {
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "3g",
}


def measure(scale: str, numbers: list[int], runs: int, folder: Path) -> Measured:
    """Runs each query once on each side to warm up, then `runs` times, the sides taking turns."""
    texts = {f"q{number}": tpch.query(number) for number in numbers}
    data = tpch.data(scale)
    plain = {name: path for name, path in data.items() if any(_names(text, name) for text in texts.values())}
    owner = Owner.create(folder / "trusted")
    sealed = owner.encrypt(plain, folder / "tables")
    measured = Measured({"spark": {}, "coffer": {}})
    with (
        Driver(plain, sealed=False, log=folder / "spark.log", conf={**CONF, "spark.local.dir": str(folder / "a")}) as spark,
        Driver(
            sealed,
            sealed=True,
            log=folder / "coffer.log",
            home=owner.home,
            passphrase_file=owner.passphrase_file,
            conf={**CONF, "spark.local.dir": str(folder / "b")},
        ) as coffer,
    ):
        for name, text in texts.items():
            _measure_one(name, text, runs, spark, coffer, measured)
    return measured


def _measure_one(name: str, text: str, runs: int, spark: Driver, coffer: Driver, measured: Measured) -> None:
    expected, reply = spark.query(text), coffer.timed(text)
    ordered = re.search(r"\border\s+by\b", text, re.IGNORECASE) is not None
    found = difference(expected, Answer.from_json(reply), ordered=ordered)
    if found is not None:
        print(f"{name}: {found}", file=sys.stderr)
    measured.same_answer[name] = found is None
    theirs = measured.seconds["spark"].setdefault(name, [])
    ours = measured.seconds["coffer"].setdefault(name, [])
    for run in range(runs):
        theirs.append(round(spark.query(text).seconds, 4))
        reply = coffer.timed(text)
        ours.append(round(reply["seconds"], 4))
        print(f"{name} run {run + 1}: spark {theirs[-1]:.3f} s, coffer {ours[-1]:.3f} s", file=sys.stderr)
    measured.counters[name] = reply["counters"]


def _names(text: str, table: str) -> bool:
    return re.search(rf"\b{table}\b", text) is not None
