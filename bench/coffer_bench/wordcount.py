"""Encryption at rest: counting the words of a text, and looking single rows up.

A text of Zipf-distributed words is split, exploded, counted by word, and the counts are written:
by plaintext Spark on plain files; on an HDFS; on an encryption zone of that HDFS, with keys of a
real Hadoop KMS, where text and counts are encrypted; and by Coffer on the text as a sealed table
(`coffer encrypt --format text`). With one executor of one core and with two. Each output is read
back and must be what the generator counted itself.

Random access: rows of a table that is sorted by a number are asked for by that number, which is
where an encrypted file may cost most: what is around the row is decrypted too.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coffer_bench import clusters, corpus, experiment
from coffer_bench.clusters import Running, Shape
from coffer_bench.corpus import Corpus
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver
from coffer_testing.servers.hadoop_kms import HadoopKms
from coffer_testing.servers.hdfs import Hdfs

SIDES = ("spark", "hdfs", "zone", "coffer")
OF_SPARK = 0.6
# What the study of encryption at rest found for word counts in encryption zones.
PUBLISHED = "published impact of an encryption zone on counting words: -27 % to +8 %"
_COUNT = """
import time
start = time.perf_counter()
lines = spark.read.format(source).load(text)
words = lines.selectExpr("explode(split(value, ' ')) AS word")
words.groupBy("word").count().write.format(sink).save(target)
result = time.perf_counter() - start
"""
_READ = "result = {r['word']: r['count'] for r in spark.read.format(sink).load(target).collect()}"
_DELETE = """
path = spark._jvm.org.apache.hadoop.fs.Path(target)
path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)
"""
_COPY = """
hadoop = spark._jvm.org.apache.hadoop
conf = spark._jsc.hadoopConfiguration()
root = hadoop.fs.Path(root)
fs = root.getFileSystem(conf)
fs.mkdirs(root)
if key:
    hadoop.hdfs.client.HdfsAdmin(root.toUri(), conf).createEncryptionZone(root, key)
for source in sources:
    fs.copyFromLocalFile(hadoop.fs.Path("file:" + source), root)
below, found = fs.listFiles(root, True), []
while below.hasNext():
    found.append(below.next().isEncrypted())
result = found
"""
_LOOK = """
import time
taken, rows = [], []
spark.read.format(source).load(table).createOrReplaceTempView("sorted")
for number in numbers:
    start = time.perf_counter()
    rows += [list(row) for row in spark.sql(f"SELECT * FROM sorted WHERE id = {number}").collect()]
    taken.append(time.perf_counter() - start)
result = [taken, rows]
"""


@dataclass(frozen=True)
class Place:
    """Where a side has its things: the text, the table to look up rows in, a folder to write to;
    Spark's names of the formats; and its settings."""

    text: str
    table: str
    output: str
    source: str
    sink: str
    conf: dict[str, str]


def measure(
    gigabytes: float,
    runs: int,
    warm_ups: int,
    seed: int,
    executors: list[int],
    folder: Path,
) -> dict[str, Any]:
    """The JSON object. A count that is wrong is an error."""
    print(f"making {gigabytes:g} GB of text", file=sys.stderr)
    made = corpus.generate(folder / "text", gigabytes, seed)
    rows = max(10_000, round(5_000_000 * gigabytes))
    _table(folder / "sorted", rows)
    owner = Owner.create(folder / "trusted")
    owner.coffer("encrypt", "--format", "text", made.folder, folder / "sealed-text")
    owner.coffer("encrypt", folder / "sorted", folder / "sealed-sorted")
    counted: dict[int, dict[str, list[float]]] = {}
    looked: dict[str, list[float]] = {}
    with _places(folder, made) as places:
        for workers in executors:
            shape = Shape(workers=workers, partitions=max(4, round(4 * gigabytes)))
            with ExitStack() as stack:
                sides = {
                    side: stack.enter_context(
                        clusters.running(
                            side,
                            {},
                            folder / f"{workers}",
                            shape,
                            owner=owner if side == "coffer" else None,
                            conf=places[side].conf,
                        )
                    )
                    for side in SIDES
                }
                counted[workers] = _count(workers, sides, places, made, runs, warm_ups)
                experiment.say(f"{workers} executors", counted[workers])
                if workers == max(executors):
                    looked = _look(sides, places, rows, seed, runs)
                    experiment.say("look-ups", looked)
    settings = {
        "gigabytes": gigabytes,
        "bytes": made.bytes,
        "words": sum(made.counts.values()),
        "different_words": len(made.counts),
        "table_rows": rows,
        "warm_ups": warm_ups,
        "executors": executors,
    }
    return _result(settings, seed, counted, looked, folder, made)


def _result(
    settings: dict[str, Any],
    seed: int,
    counted: dict[int, dict[str, list[float]]],
    looked: dict[str, list[float]],
    folder: Path,
    made: Corpus,
) -> dict[str, Any]:
    def of(workers: int, side: str, other: str) -> float | None:
        return experiment.ratio(counted[workers][side], counted[workers][other])

    medians = {
        workers: {side: statistics.median(taken) for side, taken in by_side.items()}
        for workers, by_side in counted.items()
    }

    def change(workers: int, side: str, other: str) -> str:
        return f"{100 * (medians[workers][side] / medians[workers][other] - 1):+.0f} %"

    impact = {
        f"{workers} executors": {
            "zone against HDFS": change(workers, "zone", "hdfs"),
            "Coffer against plain files": change(workers, "coffer", "spark"),
        }
        for workers in counted
    }
    first = min(medians)
    growth = {
        side: {
            f"{workers} executors": round(medians[first][side] / found[side], 2)
            for workers, found in medians.items()
        }
        for side in SIDES
    }
    points = {
        side: {
            "median ms": round(1000 * statistics.median(taken), 1),
            "mean ms": round(1000 * statistics.mean(taken), 1),
        }
        for side, taken in looked.items()
    }
    return {
        **experiment.head("wordcount", SIDES, settings, seed),
        "seconds": {
            side: {
                **{f"{workers} executors": found[side] for workers, found in counted.items()},
                "look-up": looked.get(side, []),
            }
            for side in SIDES
        },
        "same_answer": dict.fromkeys(SIDES, True),
        "targets": [
            experiment.at_most(
                f"{workers} executors, of plaintext Spark on plain files",
                of(workers, "coffer", "spark"),
                OF_SPARK,
            )
            for workers in counted
        ],
        "tables": {
            "What encryption changes": impact,
            "How many times faster with more executors": growth,
            "Look-ups of single rows": points,
            "Bytes at rest": {
                "text": {
                    "plain": made.bytes,
                    "sealed": experiment.size(folder / "sealed-text"),
                },
                "sorted table": {
                    "plain": experiment.size(folder / "sorted"),
                    "sealed": experiment.size(folder / "sealed-sorted"),
                },
            },
        },
        "reference": PUBLISHED,
        "left_out": [
            "One DataNode on loopback, in a JVM of 384 MiB that shares the cores; Hadoop's native "
            "library is not there, so its client encrypts through JCE.",
        ],
    }


@contextmanager
def _places(folder: Path, made: Corpus) -> Iterator[dict[str, Place]]:
    """Brings text and table to where each side reads them."""
    kms = HadoopKms(folder / "kms", users="*", cache=True).start()
    hdfs = Hdfs(folder / "hdfs", kms)
    try:
        kms.create("zone")
        hdfs.start()
        sources = [str(made.folder), str(folder / "sorted")]
        places = {
            "spark": Place(sources[0], sources[1], str(folder / "out"), "text", "parquet", {}),
            "coffer": Place(
                str(folder / "sealed-text"),
                str(folder / "sealed-sorted"),
                str(folder / "sealed-out"),
                "coffer",
                "coffer",
                {},
            ),
        }
        with Driver({}, sealed=False, log=folder / "copy.log", conf=hdfs.conf()) as driver:
            for side, key in (("hdfs", None), ("zone", "zone")):
                root = f"{hdfs.root}/{side}"
                encrypted = driver.run(_COPY, root=root, key=key, sources=sources)
                if not encrypted or set(encrypted) != {key is not None}:
                    raise SystemExit(f"error: {root} is not what it should be: {encrypted}")
                places[side] = Place(
                    f"{root}/text", f"{root}/sorted", f"{root}/out", "text", "parquet", hdfs.conf()
                )
        yield places
    finally:
        hdfs.stop()
        kms.stop()


def _count(
    workers: int,
    sides: dict[str, Running],
    places: dict[str, Place],
    made: Corpus,
    runs: int,
    warm_ups: int,
) -> dict[str, list[float]]:
    fresh = itertools.count()

    def one(side: str, _: bool) -> float:
        driver, place = sides[side].driver, places[side]
        # What was a sealed table stays one in its owner's register.
        target = f"{place.output}-{workers}-{next(fresh)}"
        names = {"source": place.source, "sink": place.sink, "target": target}
        took: float = driver.run(_COUNT, text=place.text, **names)
        counts = driver.run(_READ, **names)
        if counts != made.counts:
            raise SystemExit(f"error: {side} counts other words than there are")
        if side == "coffer":
            shutil.rmtree(target)
        else:
            driver.run(_DELETE, **names)
        return took

    return experiment.in_turns(SIDES, runs, warm_ups, one)


def _look(
    sides: dict[str, Running], places: dict[str, Place], rows: int, seed: int, runs: int
) -> dict[str, list[float]]:
    """Seconds of look-ups, of which each run has twenty."""
    random = np.random.default_rng([seed, 1])
    looked: dict[str, list[float]] = {side: [] for side in SIDES}
    for run in range(-1, runs):
        numbers = [int(number) for number in random.integers(0, rows, size=20)]
        wanted = [[number, _payload(number)] for number in numbers]
        for side in SIDES:
            place = places[side]
            format_ = "coffer" if side == "coffer" else "parquet"
            taken, found = sides[side].driver.run(
                _LOOK, source=format_, table=place.table, numbers=numbers
            )
            if found != wanted:
                raise SystemExit(f"error: {side} finds other rows than there are")
            if run >= 0:
                looked[side] += [round(one, 4) for one in taken]
    return looked


def _payload(number: int) -> str:
    return f"row {number * 2654435761 % 2**32:08x} " + "x" * 40


def _table(folder: Path, rows: int) -> None:
    """A table sorted by its number, in files of a million rows."""
    folder.mkdir(parents=True)
    for part, first in enumerate(range(0, rows, 1_000_000)):
        numbers = range(first, min(first + 1_000_000, rows))
        table = pa.table({"id": list(numbers), "payload": [_payload(n) for n in numbers]})
        pq.write_table(table, folder / f"part-{part:05}.parquet", row_group_size=250_000)
