"""Nothing in clear at executors.

Distinctive values are planted in the data and in the queries' literals; the queries run on the two-worker cluster; then
heap dumps of the executor JVMs, their local disks, work folders and logs, and the stored tables are searched. The same
run on plain Parquet without the plugin is the control: there the search must find the values, in each kind of place.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer.workload.cluster import Cluster
from coffer.workload.owner import Owner
from coffer.workload.runner import Driver
from coffer.workload.search import Hit, search

pytestmark = pytest.mark.cluster

ROWS = 20_000

# In the data only, in the queries only, and in both. The integers have random bytes in all eight places.
DATA_TEXTS = ["quokka-Zr7-amber-5519", "ocelot-Qx2-cobalt-8843"]
DATA_NUMBERS = [0x5A1DC93BE7F02467, -0x3B9AD5E81C7F4602]
LITERAL_TEXTS = ["axolotl-Vm9-crimson-3071"]
LITERAL_NUMBERS = [0x6C3E91A7D25B08F4]
SHARED_TEXTS = ["numbat-Kd4-indigo-6628"]
COLUMN = "tamarin_Wp6_column"
PLANTED = [*DATA_TEXTS, *DATA_NUMBERS, *LITERAL_TEXTS, *LITERAL_NUMBERS, *SHARED_TEXTS]

QUERIES = [
    f"SELECT count(*) FROM secret WHERE {COLUMN} = '{LITERAL_TEXTS[0]}' OR number = {LITERAL_NUMBERS[0]}L",
    f"SELECT {COLUMN}, number FROM secret WHERE {COLUMN} = '{SHARED_TEXTS[0]}' ORDER BY number",
    f"SELECT {COLUMN}, count(*), max(number) FROM secret GROUP BY {COLUMN} ORDER BY {COLUMN}",
    f"SELECT number, {COLUMN} FROM secret WHERE number <> {LITERAL_NUMBERS[0]}L ORDER BY number DESC LIMIT 50",
    f"SELECT DISTINCT number FROM secret WHERE {COLUMN} LIKE '%{SHARED_TEXTS[0][:18]}%'",
]

# Heap dumps; local disks (shuffle, spill); work folders (logs); the table as stored.
PLACES = ("heap", "local", "work", "stored")

# Uncompressed and unencrypted shuffle: what plaintext Spark writes must be there for the control to find.
CONF = {
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.executor.memory": "768m",
    "spark.cores.max": "2",
    "spark.sql.files.maxPartitionBytes": "131072",
}


def test_nothing_in_clear(tmp_path: Path) -> None:
    plain = write_table(tmp_path / "plain")
    owner = Owner.create(tmp_path / "trusted")
    sealed = owner.encrypt({"secret": plain}, tmp_path / "sealed")["secret"]

    control, searched = observe(tmp_path / "control", {"secret": plain}, None)
    found = {place for place in PLACES if any(place_of(hit) == place for hit in control)}
    assert found == set(PLACES), "the control found too little: the search proves nothing"
    unseen = {str(value) for value in PLANTED} - {hit.value for hit in control}
    assert not unseen, f"the control did not find {unseen}"
    assert searched > 50_000_000

    hits, searched = observe(tmp_path / "coffer", {"secret": sealed}, owner)
    assert searched > 50_000_000
    assert not hits, [f"{hit.value} as {hit.form} in {hit.path}" for hit in hits[:20]]


def observe(folder: Path, tables: dict[str, Path], owner: Owner | None) -> tuple[list[Hit], int]:
    """Runs the queries on a cluster under `folder` and searches all that the untrusted side has."""
    with (
        Cluster(folder) as cluster,
        Driver(
            tables,
            sealed=owner is not None,
            log=folder / "driver-on-the-trusted-site",
            master=cluster.master,
            home=owner.home if owner else None,
            passphrase_file=owner.passphrase_file if owner else None,
            conf=CONF,
        ) as driver,
    ):
        for sql in QUERIES:
            driver.run("spark.sparkContext.setJobDescription(sql)\nspark.sql(sql).collect()", sql=sql)
        executors = cluster.executors()
        assert len(executors) == 2
        dumps = folder / "heap"
        dumps.mkdir()
        for pid in executors:
            dump_heap(pid, dumps / f"{pid}.hprof")
        logs = [*folder.glob("*.log"), cluster.work_folder(0), cluster.work_folder(1)]
        stored = folder / "stored"
        shutil.copytree(tables["secret"], stored)
        places = [dumps, cluster.local_folder(0), cluster.local_folder(1), *logs, stored]
        result = search(places, [*PLANTED, COLUMN] if owner else PLANTED)
        shutil.rmtree(dumps)
    return result


def dump_heap(pid: int, target: Path) -> None:
    """The whole heap, unreachable objects included: what is garbage to the JVM is not to an attacker."""
    subprocess.run(["jcmd", str(pid), "GC.heap_dump", "-all", str(target)], check=True, capture_output=True, timeout=120)
    assert target.stat().st_size > 1_000_000


def place_of(hit: Hit) -> str:
    return next((part for part in PLACES if part in hit.path.parts), "log")


def write_table(folder: Path) -> Path:
    """Rows of which many hold a planted value; strings and numbers without dictionaries, so the bytes lie open."""
    rng = random.Random(7)
    texts = [*DATA_TEXTS, *SHARED_TEXTS]
    table = pa.table(
        {
            COLUMN: [rng.choice(texts) if rng.random() < 0.3 else f"filler-{rng.randrange(500)}" for _ in range(ROWS)],
            "number": pa.array(
                [rng.choice(DATA_NUMBERS) if rng.random() < 0.3 else rng.randrange(10**6) for _ in range(ROWS)], pa.int64()
            ),
        }
    )
    folder.mkdir(parents=True)
    for part in range(2):
        rows = table.slice(part * ROWS // 2, ROWS // 2)
        pq.write_table(rows, folder / f"part-{part}.parquet", compression="none", use_dictionary=False)
    return folder
