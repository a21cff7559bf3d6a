"""`coffer encrypt` of lineitem against plaintext Spark reading and writing the same Parquet file.

Spark is warm and its session started outside the clock; `coffer encrypt` is a process from start to
end, its passphrase's key derivation included.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from coffer_bench.report import Measured
from coffer_testing import tpch
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver

NAME = "encrypt"

_REWRITE = """
import time
start = time.perf_counter()
spark.read.parquet(source).write.mode("overwrite").parquet(target)
result = time.perf_counter() - start
"""


def measure(scale: str, runs: int, folder: Path) -> Measured:
    """One warm-up of each side, then `runs` turns; the last sealed table is verified and its rows
    counted."""
    source = tpch.data(scale)["lineitem"]
    owner = Owner.create(folder / "trusted")
    theirs: list[float] = []
    ours: list[float] = []
    with Driver(
        {"lineitem": source},
        sealed=False,
        log=folder / "spark.log",
        conf={"spark.driver.memory": "3g"},
    ) as spark:
        rows = int(spark.query("SELECT count(*) FROM lineitem").rows[0][0] or 0)
        for run in range(runs + 1):
            target = folder / "plain"
            seconds = spark.run(_REWRITE, source=str(source), target=str(target))
            shutil.rmtree(target)
            sealed = folder / f"sealed_{run}"
            start = time.perf_counter()
            owner.coffer("encrypt", source, sealed)
            mine = time.perf_counter() - start
            if run > 0:
                theirs.append(round(seconds, 4))
                ours.append(round(mine, 4))
                print(f"run {run}: spark {seconds:.3f} s, coffer {mine:.3f} s", file=sys.stderr)
            if run < runs:
                shutil.rmtree(sealed)
    same = (
        owner.coffer("verify", "--deep", sealed, check=False).returncode == 0
        and _rows(owner, sealed) == rows
    )
    return Measured({"spark": {NAME: theirs}, "coffer": {NAME: ours}}, {NAME: same})


def _rows(owner: Owner, sealed: Path) -> int:
    return int(json.loads(owner.coffer("inspect", "--json", sealed).stdout)["rows"])
