"""TeraSort, as Hadoop has it: records of 10-byte keys and 90-byte values, made from a seed, sorted
by key into files, and validated: every file in order, each after the one before it, and all records
there.

Plaintext Spark, Spark with its own encryption of local files and of what its processes send
(`spark.io.encryption`, `spark.network.crypto`, with AES-CTR and with AES-GCM for the messages), and
Coffer, whose shuffles, spill files and output are sealed and authenticated. All on clusters of two
workers with one core each. Of each run the output is read back and validated, not timed; Coffer's
is opened by `coffer decrypt` for that, and by nothing else.
"""

from __future__ import annotations

import itertools
import shutil
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coffer_bench import clusters, experiment
from coffer_bench.clusters import Running, Shape
from coffer_testing.owner import Owner

KEY, VALUE = 10, 90
RECORD = KEY + VALUE
PER_FILE = 1_000_000
SIDES = ("spark", *clusters.CIPHERS, "coffer")
# As fractions of plaintext Spark's time, and of Spark's with its encryption.
OF_SPARK, OF_ENCRYPTED = 0.5, 0.4
_DIGITS = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)
_SORT = """
import time
start = time.perf_counter()
spark.table("records").orderBy("key").write.format(source).save(target)
result = time.perf_counter() - start
"""


@dataclass(frozen=True)
class Seen:
    """What a validation saw: how many records, and the sum of a hash of each of them."""

    records: int
    checksum: int


def generate(folder: Path, gigabytes: float, seed: int) -> Seen:
    """Writes the records as Parquet files, each of a million; the same for the same seed."""
    records = round(gigabytes * 1e9 / RECORD)
    folder.mkdir(parents=True)
    checksum = 0
    for number, first in enumerate(range(0, records, PER_FILE)):
        rows = _rows(first, min(PER_FILE, records - first), np.random.default_rng([seed, number]))
        checksum += _hashes(rows)
        table = pa.table({"key": _binary(rows[:, :KEY]), "value": _binary(rows[:, KEY:])})
        pq.write_table(table, folder / f"part-{number:05}.parquet", row_group_size=PER_FILE // 2)
    return Seen(records, checksum % 2**64)


def validate(files: list[Path]) -> Seen:
    """Reads sorted files, in this order. ValueError where a key is less than the one before."""
    records, checksum, before = 0, 0, b""
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(PER_FILE, columns=["key", "value"]):
            if batch.num_rows == 0:
                continue
            rows = np.hstack([_bytes(batch["key"], KEY), _bytes(batch["value"], VALUE)])
            high, low = _halves(rows)
            wrong = (high[1:] < high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] < low[:-1]))
            if wrong.any() or rows[0, :KEY].tobytes() < before:
                raise ValueError(f"{file} is not in order")
            before = rows[-1, :KEY].tobytes()
            records += len(rows)
            checksum += _hashes(rows)
    return Seen(records, checksum % 2**64)


def measure(gigabytes: float, runs: int, warm_ups: int, seed: int, folder: Path) -> dict[str, Any]:
    """The JSON object. An output that is not the input in order is an error."""
    print(f"making {gigabytes:g} GB of records", file=sys.stderr)
    made = generate(folder / "records", gigabytes, seed)
    owner = Owner.create(folder / "trusted")
    sealed = owner.encrypt({"records": folder / "records"}, folder / "sealed")
    shape = Shape(heap=2 if gigabytes > 2 else 1, partitions=max(4, round(8 * gigabytes)))
    written: dict[str, int] = {}
    usage: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        sides: dict[str, Running] = {}
        for side in SIDES:
            ours = side == "coffer"
            tables = sealed if ours else {"records": folder / "records"}
            sides[side] = stack.enter_context(
                clusters.running(side, tables, folder, shape, owner=owner if ours else None)
            )

        fresh = itertools.count()

        def one(side: str, _: bool) -> float:
            # What was a sealed table stays one in its owner's register.
            target = folder / f"sorted-{side}-{next(fresh)}"
            source = "coffer" if side == "coffer" else "parquet"
            with sides[side].meter() as meter:
                took: float = sides[side].driver.run(_SORT, source=source, target=str(target))
            usage[side] = meter.usage
            written[side] = experiment.size(target)
            _check(side, target, owner, made)
            return took

        seconds = experiment.in_turns(SIDES, runs, warm_ups, one)
    experiment.say("terasort", seconds)
    settings = {
        "gigabytes": gigabytes,
        "records": made.records,
        "warm_ups": warm_ups,
        "workers": shape.workers,
        "heap": shape.heap,
        "native": shape.native,
        "partitions": shape.partitions,
    }
    ours = seconds["coffer"]
    return {
        **experiment.head("terasort", SIDES, settings, seed),
        "seconds": {side: {"sort": taken} for side, taken in seconds.items()},
        "same_answer": dict.fromkeys(SIDES, True),
        "checksum": f"{made.checksum:016x}",
        "targets": [
            experiment.at_most(
                "of plaintext Spark", experiment.ratio(ours, seconds["spark"]), OF_SPARK
            ),
            *(
                experiment.at_most(
                    f"of {side} Spark", experiment.ratio(ours, seconds[side]), OF_ENCRYPTED
                )
                for side in clusters.CIPHERS
            ),
        ],
        "tables": {
            "Executors' side, last run": usage,
            "Bytes of the output": {side: {"bytes": size} for side, size in written.items()},
        },
        "left_out": [
            "Spark's encryption is as it comes: 128 bits for local files and for messages, and no "
            "authentication of local files; its output is not encrypted. Coffer's has 256 bits, "
            "and everything is authenticated, the output too."
        ],
    }


def _check(side: str, target: Path, owner: Owner, made: Seen) -> None:
    """The output is what was made, in order; then it is deleted."""
    opened = target
    if side == "coffer":
        opened = target.with_name("opened")
        owner.coffer("decrypt", target, opened)
    seen = validate(sorted(opened.glob("*.parquet")))
    if seen != made:
        raise SystemExit(f"error: the output of {side} has {seen}, and the input {made}")
    for folder in {target, opened}:
        shutil.rmtree(folder)


def _rows(first: int, count: int, random: np.random.Generator) -> np.ndarray:
    """Records as gensort and Hadoop's TeraGen have them: a random key; the number of the record as
    32 hexadecimal digits; and a filler of twelve times four equal digits."""
    rows = np.empty((count, RECORD), dtype=np.uint8)
    rows[:, :KEY] = np.frombuffer(random.bytes(count * KEY), dtype=np.uint8).reshape(count, KEY)
    rows[:, 10:12] = (0x00, 0x11)
    rows[:, 12:28] = ord("0")
    numbers = np.arange(first, first + count, dtype=np.uint64)
    for digit in range(16):
        shift = np.uint64(4 * (15 - digit))
        rows[:, 28 + digit] = _DIGITS[(numbers >> shift) & np.uint64(15)]
    rows[:, 44:48] = (0x88, 0x99, 0xAA, 0xBB)
    filler = _DIGITS[random.integers(0, 16, size=(count, 12))]
    rows[:, 48:96] = np.repeat(filler, 4, axis=1)
    rows[:, 96:] = (0xCC, 0xDD, 0xEE, 0xFF)
    return rows


def _binary(rows: np.ndarray) -> pa.Array:
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    data = pa.py_buffer(np.ascontiguousarray(rows))
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), data])


def _bytes(column: pa.Array, width: int) -> np.ndarray:
    fixed = column.cast(pa.binary(width))
    data = np.frombuffer(fixed.buffers()[1], dtype=np.uint8)
    begin = fixed.offset * width
    return data[begin : begin + len(fixed) * width].reshape(-1, width)


def _halves(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys as two numbers each."""
    high = np.ascontiguousarray(rows[:, :8]).view(">u8").ravel()
    low = np.ascontiguousarray(rows[:, 8:KEY]).view(">u2").ravel()
    return high, low


def _hashes(rows: np.ndarray) -> int:
    """The sum of a hash of each record, whatever their order."""
    mixed = np.zeros(len(rows), dtype=np.uint64)
    weights = np.random.default_rng(0).integers(1, 2**63, size=RECORD, dtype=np.uint64)
    for at in range(RECORD):
        mixed += (rows[:, at].astype(np.uint64) + np.uint64(1)) * weights[at]
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    return int(mixed.sum(dtype=np.uint64))
