"""Both runs: plaintext Spark as control, and Coffer; the same cluster, queries and settings."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coffer.workload.owner import Owner
from coffer.workload.runner import Driver, QueryFailed
from coffer_security.leaks import planted, workloads
from coffer_security.leaks.host import Host, Seen
from coffer_security.leaks.workloads import Session

# What Spark would compress lies open on both sides, or the control would find little.
OPEN = {
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
    "spark.rdd.compress": "false",
    "spark.eventLog.compress": "false",
    "spark.sql.parquet.compression.codec": "uncompressed",
}
CONF = {
    **OPEN,
    "spark.executor.memory": "640m",
    # What a JVM merely reserves is in core files too, as gigabytes of nothing.
    "spark.executor.extraJavaOptions": "-XX:CompressedClassSpaceSize=128m -XX:ReservedCodeCacheSize=96m",
    "spark.executorEnv.MALLOC_ARENA_MAX": "2",
    "spark.cores.max": "2",
    "spark.sql.files.maxPartitionBytes": "1m",
    "spark.coffer.scan.targetBytes": "1048576",
    "spark.task.maxFailures": "2",
    "spark.eventLog.enabled": "true",
}
TIGHT = {"spark.coffer.engine.memory": "24MiB", "spark.shuffle.spill.numElementsForceSpillThreshold": "10000"}


@dataclass(frozen=True)
class Application:
    """Workloads that one Spark application runs; whether memory is dumped after each, or after the last only."""

    conf: dict[str, str]
    workloads: tuple[tuple[str, Callable[[Session], None]], ...]
    look_after_each: bool = True


def _few(session: Session) -> None:
    for number in (2, 3, 11, 16, 18, 20):
        session.ask(planted.tpch_query(number), workloads.SWITCH if number % 2 else None)


FULL = (
    Application(
        {"spark.coffer.engine.memory": "256MiB"},
        (
            ("tpch", workloads.tpch),
            ("adaptive", workloads.adaptive),
            ("literals", workloads.literals),
            ("writes", workloads.writes),
            ("failed", workloads.failed),
            ("cancelled", workloads.cancelled),
        ),
    ),
    Application(TIGHT, (("spilling", workloads.spilling),)),
)
SMALL = (
    Application(
        TIGHT,
        (
            ("tpch", _few),
            ("literals", workloads.literals),
            ("writes", workloads.writes),
            ("failed", workloads.failed),
            ("spilling", workloads.spilling),
        ),
        look_after_each=False,
    ),
)


@dataclass(frozen=True)
class Asked:
    """What one workload asked for."""

    queries: int
    failed: int
    rows: int


@dataclass(frozen=True)
class Run:
    """One side's run: what could be seen of it, what it asked for, and what went wrong with the run itself."""

    seen: Seen
    asked: dict[str, Asked]
    seconds: float


@dataclass(frozen=True)
class Both:
    """Control and sealed run, and how many different values were planted in the tables."""

    control: Run
    sealed: Run
    planted: int


def run(folder: Path, scale: str, applications: tuple[Application, ...]) -> Both:
    """Both runs, one after the other, under `folder`."""
    tables = planted.tables(folder / "plain", scale)
    control = _side(folder / "control", tables.paths, None, applications)
    owner = Owner.create(folder / "trusted")
    sealed = _side(folder / "sealed", tables.paths, owner, applications)
    return Both(control, sealed, tables.values)


def _side(folder: Path, plain: dict[str, Path], owner: Owner | None, applications: tuple[Application, ...]) -> Run:
    """`owner`: of the sealed tables; None for the control."""
    started = time.monotonic()
    wanted = [*planted.wanted(), *planted.names()]
    asked: dict[str, Asked] = {}
    with Host(folder / "untrusted", wanted) as host:
        # A table of its own, to lose its files.
        sources = {**plain, "gone": plain["nation"]}
        if owner:
            tables = owner.encrypt(sources, host.stored)
        else:
            tables = {name: Path(shutil.copytree(path, host.stored / name)) for name, path in sources.items()}
        for number, application in enumerate(applications):
            last = number == len(applications) - 1
            with _driver(folder, number, tables, owner, host, application.conf) as driver:
                if "gone" in tables:
                    for part in tables.pop("gone").glob("part-*"):
                        part.unlink()
                for name, workload in application.workloads:
                    _say(f"{'sealed' if owner else 'control'}: {name}")
                    session = Session(
                        driver,
                        "coffer" if owner else "parquet",
                        host.stored,
                        lambda when, of=name: host.look(f"{of}, {when}"),
                    )
                    workload(session)
                    asked[name] = Asked(session.queries, session.failed, session.rows)
                    if application.look_after_each:
                        host.look(name)
                if not application.look_after_each:
                    host.look(", ".join(name for name, _ in application.workloads))
                if last:
                    if owner:
                        _refused_event_log(folder, tables, owner, host)
                    seen = host.finish()
    return Run(seen, asked, time.monotonic() - started)


def _driver(
    folder: Path, number: int, tables: dict[str, Path], owner: Owner | None, host: Host, conf: dict[str, str]
) -> Driver:
    """The trusted site's: its log, its event log and its scratch are not searched. The control's event log is."""
    trusted = folder / "driver-on-the-trusted-site"
    (trusted / "events").mkdir(parents=True, exist_ok=True)
    events = trusted / "events" if owner else host.events
    return Driver(
        tables,
        sealed=owner is not None,
        log=trusted / f"{number}.log",
        master=host.cluster.master,
        home=owner.home if owner else None,
        passphrase_file=owner.passphrase_file if owner else None,
        conf={
            **CONF,
            **conf,
            "spark.driver.host": host.driver_address,
            "spark.driver.bindAddress": host.driver_address,
            "spark.sql.warehouse.dir": str(host.stored / f"warehouse-{number}"),
            "spark.eventLog.dir": str(events),
            "spark.coffer.eventLog.trustedDir": str(trusted),
        },
    )


def _refused_event_log(folder: Path, tables: dict[str, Path], owner: Owner, host: Host) -> None:
    """An event log on untrusted storage would show queries in clear, so Coffer must not start with one. What is written
    there all the same is searched with the rest."""
    try:
        with Driver(
            tables,
            sealed=True,
            log=folder / "driver-on-the-trusted-site" / "refused.log",
            home=owner.home,
            passphrase_file=owner.passphrase_file,
            conf={"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(host.events)},
        ) as driver:
            driver.query(f"SELECT count(*) FROM secret WHERE tag <> '{planted.LITERAL}-18'")
    except QueryFailed as refused:
        if "COFFER_EVENT_LOG" not in refused.message:
            raise


def _say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {words}", file=sys.stderr, flush=True)
