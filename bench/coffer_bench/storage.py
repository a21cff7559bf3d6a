"""TPC-H over tables on local files, on HDFS and on an S3: plaintext Spark and Coffer on each, and
what each store costs beside local files.

The S3 is a range server of our own (`bench/range-server`), which does little for a request, so that
the readers are measured and not it; once as it is, and once with 20 ms added to each request. All
sides read the same rows; tables are sealed once, locally, and copied or served as they are.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coffer_bench import report
from coffer_bench.queries import SUITES, Rounds
from coffer_bench.sides import Resources
from coffer_testing import tpch
from coffer_testing.answers import Answer, difference
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver
from coffer_testing.servers import s3
from coffer_testing.servers.hdfs import Hdfs
from coffer_testing.servers.process import ServerProcess

STORES = ("local", "hdfs", "s3", "s3_20ms")
SIDES = ("spark", "coffer")
PROGRAM = "coffer-range-server"
_BUCKET = "bench"
_COPY = """
hadoop = spark._jvm.org.apache.hadoop
to = hadoop.fs.Path(url)
fs = to.getFileSystem(spark._jsc.hadoopConfiguration())
fs.mkdirs(to.getParent())
fs.copyFromLocalFile(hadoop.fs.Path("file:" + source), to)
"""


class RangeServer:
    """A folder as a bucket, on loopback."""

    def __init__(self, served: Path, log: Path, delay_ms: int = 0) -> None:
        program = Path(os.environ["CARGO_TARGET_DIR"]) / "release" / PROGRAM
        if not program.exists():
            raise SystemExit(f"error: no program at {program}\nhint: run make build")
        command = [str(program), str(served), "--delay-ms", str(delay_ms)]
        says = r"listening on http://127\.0\.0\.1:(\d+)"
        self._process = ServerProcess(command, log, says, lambda: None, {})

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._process.port}"

    def start(self) -> RangeServer:
        self._process.start()
        return self

    def stop(self) -> None:
        self._process.stop()

    def counts(self) -> dict[str, int]:
        """Requests, bytes of bodies and milliseconds of CPU until now."""
        connection = http.client.HTTPConnection("127.0.0.1", self._process.port, timeout=60)
        try:
            connection.request("GET", "/-/counts")
            counted: dict[str, int] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return counted


@dataclass
class Seen:
    """By store, side and query: seconds of the counted runs, and what the last of them asked the
    server for. Whether the answers were the same, by query; and the bytes that Coffer's engines
    asked of local files, which is what a query needs."""

    seconds: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    asked: dict[str, dict[str, dict[str, dict[str, int]]]] = field(default_factory=dict)
    same_answer: dict[str, bool] = field(default_factory=dict)
    needed: dict[str, int] = field(default_factory=dict)


def measure(
    scale: str, queries: str, rounds: Rounds, folder: Path, resources: Resources
) -> dict[str, Any]:
    """The JSON object."""
    suite = SUITES["tpch"]
    names = suite.choose(queries)
    plain = tpch.data(scale)
    served = folder / "served"
    (served / "plain").mkdir(parents=True)
    for name, path in plain.items():
        (served / "plain" / name).symlink_to(path)
    owner = Owner.create(folder / "trusted")
    print("sealing the tables", file=sys.stderr)
    owner.encrypt(plain, served / "sealed")
    seen = Seen()
    expected: dict[str, Answer] = {}
    for store in STORES:
        with _store(store, served, folder, owner, list(plain)) as (root, conf, server):
            drivers: dict[str, Driver] = {}
            try:
                for side in SIDES:
                    drivers[side] = _driver(
                        side, store, root, conf, folder, owner, list(plain), resources
                    )
                for name in names:
                    text = suite.text(name)
                    _run(store, name, text, rounds, drivers, server, expected, seen)
            finally:
                for driver in drivers.values():
                    driver.stop()
    return _result(scale, rounds, resources, seen)


@contextmanager
def _store(
    store: str, served: Path, folder: Path, owner: Owner, names: list[str]
) -> Iterator[tuple[str, dict[str, str], RangeServer | None]]:
    """Below which URL the tables lie, how Spark reaches it, and the range server if it is one."""
    if store == "local":
        yield str(served), {}, None
    elif store == "hdfs":
        hdfs = Hdfs(folder / "hdfs").start()
        try:
            with Driver({}, sealed=False, log=folder / "copy.log", conf=hdfs.conf()) as driver:
                for name in names:
                    for kind in ("plain", "sealed"):
                        source = str((served / kind / name).resolve())
                        driver.run(_COPY, source=source, url=f"{hdfs.root}/{kind}/{name}")
            _record(owner, hdfs.root, names, hdfs.environment())
            yield hdfs.root, hdfs.conf(), None
        finally:
            hdfs.stop()
    else:
        delay = int(store.rpartition("_")[2].removesuffix("ms")) if "_" in store else 0
        server = RangeServer(served, folder / f"{store}.log", delay).start()
        try:
            root = f"s3a://{_BUCKET}"
            _record(owner, root, names, s3.environment(server.address))
            yield root, s3.conf(server.address), server
        finally:
            server.stop()


def _record(owner: Owner, root: str, names: list[str], env: dict[str, str]) -> None:
    """The tables lie there too from now on, by their owner's word."""
    for name in names:
        owner.coffer("verify", name, "--record-path", f"{root}/sealed/{name}", env=env)


def _driver(
    side: str,
    store: str,
    root: str,
    conf: dict[str, str],
    folder: Path,
    owner: Owner,
    names: list[str],
    resources: Resources,
) -> Driver:
    kind = "plain" if side == "spark" else "sealed"
    tables = {name: f"{root}/{kind}/{name}" for name in names}
    heap = resources.heap + (resources.native if side == "spark" else 0)
    conf = {**resources.conf(folder / f"{store}-{side}", heap), **conf}
    log = folder / f"{store}-{side}.log"
    if side == "spark":
        return Driver(tables, sealed=False, log=log, master=resources.master, conf=conf)
    conf["spark.coffer.engine.memory"] = f"{resources.native}GiB"
    return Driver(
        tables,
        sealed=True,
        log=log,
        master=resources.master,
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf=conf,
    )


def _run(
    store: str,
    name: str,
    text: str,
    rounds: Rounds,
    drivers: dict[str, Driver],
    server: RangeServer | None,
    expected: dict[str, Answer],
    seen: Seen,
) -> None:
    """One query on both sides, which take turns."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for run in range(-rounds.warm_ups, rounds.runs):
        for side in SIDES if run % 2 == 0 else SIDES[::-1]:
            before = server.counts() if server else {}
            reply = drivers[side].timed(text)
            after = server.counts() if server else {}
            answer = Answer.from_json(reply)
            first = expected.setdefault(name, answer)
            found = difference(first, answer, ordered=True)
            seen.same_answer[name] = seen.same_answer.get(name, True) and found is None
            if found is not None:
                print(f"{name} on {store}, {side}: {found[:300]}", file=sys.stderr)
            if run < 0:
                continue
            seconds[side].append(round(reply["seconds"], 4))
            if server:
                by_query = seen.asked.setdefault(store, {}).setdefault(side, {})
                by_query[name] = {key: after[key] - before[key] for key in after}
            if store == "local" and side == "coffer":
                seen.needed[name] = reply["counters"]["bytes_read"]
    for side in SIDES:
        seen.seconds.setdefault(store, {}).setdefault(side, {})[name] = seconds[side]
    told = ", ".join(f"{side} {statistics.median(seconds[side]):.3f} s" for side in SIDES)
    print(f"{name} on {store}: {told}", file=sys.stderr)


def _result(scale: str, rounds: Rounds, resources: Resources, seen: Seen) -> dict[str, Any]:
    local = seen.seconds["local"]["coffer"]
    of_local = {
        store: report.ratios(seen.seconds[store]["coffer"], local)
        for store in STORES
        if store != "local"
    }
    of_spark = {
        store: report.ratios(seen.seconds[store]["coffer"], seen.seconds[store]["spark"])
        for store in STORES
    }
    return {
        "benchmark": "storage",
        "sf": float(scale) if "." in scale else int(scale),
        "machine": report.machine(),
        "versions": {"commit": report.commit()},
        "settings": {"cores": resources.cores, "partitions": resources.partitions},
        "warm_ups": rounds.warm_ups,
        "runs": rounds.runs,
        # Coffer there over Coffer on local files, by the sums of the queries' medians.
        "ratio": {store: ratios["total"] for store, ratios in of_local.items()},
        "coffer_over_local": of_local,
        # Coffer over plaintext Spark on the same store.
        "coffer_over_spark": of_spark,
        "seconds": seen.seconds,
        "same_answer": seen.same_answer,
        # Of the last run of each query: requests, bytes of bodies, and the server's CPU time.
        "asked": seen.asked,
        "needed_bytes": seen.needed,
    }


def show(result: dict[str, Any]) -> None:
    """The figures on standard output."""
    print(
        f"{'store':<10}{'spark s':>10}{'coffer s':>10}{'of spark':>10}{'of local':>10}"
        f"{'requests':>10}{'MB read':>10}{'server CPU s':>14}"
    )
    for store, sides in result["seconds"].items():
        sums = [sum(statistics.median(runs) for runs in sides[side].values()) for side in SIDES]
        asked = result["asked"].get(store, {}).get("coffer", {}).values()
        requests = sum(one["requests"] for one in asked)
        read = sum(one["bytes"] for one in asked) / 1e6
        cpu = sum(one["cpu_ms"] for one in asked) / 1e3
        of_spark = result["coffer_over_spark"][store]["total"]
        print(
            f"{store:<10}{sums[0]:>10.2f}{sums[1]:>10.2f}{of_spark:>10.3f}"
            f"{result['ratio'].get(store, 1.0):>10.3f}"
            + (f"{requests:>10}{read:>10.1f}{cpu:>14.2f}" if asked else "")
        )
    print(f"needed: {sum(result['needed_bytes'].values()) / 1e6:.1f} MB")
