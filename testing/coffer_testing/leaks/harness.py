"""The runs: plaintext Spark as control, Coffer over `tee` columns, Coffer over columns of every
protection, and, as a control with Coffer running, its unsealed build; on the same cluster, with the
same settings."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coffer_testing.leaks import keys, planted, protected, workloads
from coffer_testing.leaks.host import Host, Seen
from coffer_testing.leaks.workloads import Session
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.servers.store_relay import RelayedS3

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
    "spark.executor.extraJavaOptions": "-XX:CompressedClassSpaceSize=128m "
    "-XX:ReservedCodeCacheSize=96m",
    "spark.executorEnv.MALLOC_ARENA_MAX": "2",
    "spark.cores.max": "2",
    "spark.sql.files.maxPartitionBytes": "1m",
    "spark.coffer.scan.targetBytes": "1048576",
    "spark.task.maxFailures": "2",
    "spark.eventLog.enabled": "true",
    # With little data queries would run in one engine, and nothing would travel between them.
    "spark.coffer.oneMachine": "off",
}
WHOLE = {"spark.coffer.oneMachine": "on"}
TIGHT = {
    "spark.coffer.engine.memory": "24MiB",
    "spark.shuffle.spill.numElementsForceSpillThreshold": "10000",
}


@dataclass(frozen=True)
class Application:
    """Workloads that one Spark application runs; whether memory is dumped after each, or after the
    last only. `policy`: that of its tables' columns, which are `tee` without one; see
    `protected`. `store`: its tables lie on an S3. `control_dumped`: whether memory of the control
    is dumped too, which shows that the search there finds something."""

    conf: dict[str, str]
    workloads: tuple[tuple[str, Callable[[Session], None]], ...]
    look_after_each: bool = True
    policy: str | None = None
    store: bool = False
    control_dumped: bool = True


# Tables of a store, and what is asked of them there.
AT_STORE = ("secret", "nation", "supplier")
STORE = Application(
    {"spark.coffer.engine.memory": "256MiB", **WHOLE},
    (("store", workloads.store),),
    look_after_each=False,
    store=True,
)


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
            ("shapes", workloads.shapes),
            ("tail", workloads.tail),
            ("cancelled", workloads.cancelled),
            ("protections", protected.protections),
        ),
    ),
    STORE,
    Application(TIGHT, (("spilling", workloads.spilling),)),
    Application({**TIGHT, **WHOLE}, (("spilling, whole", workloads.spilling),)),
)
SMALL = (
    Application(
        TIGHT,
        (
            ("literals", workloads.literals),
            ("writes", workloads.writes),
            ("failed", workloads.failed),
            ("spilling", workloads.spilling),
        ),
        look_after_each=False,
    ),
    replace(STORE, control_dumped=False),
)
# What leaves an unsealed engine by each way out: exchanges, results, writes, spills.
OPENED = (
    Application(
        TIGHT,
        (
            ("tpch", _few),
            ("literals", workloads.literals),
            ("writes", workloads.writes),
            ("spilling", workloads.spilling),
        ),
        look_after_each=False,
    ),
)


def _protected(
    workload: Callable[[Session], None], named: Sequence[str]
) -> tuple[Application, ...]:
    return tuple(
        Application(
            protected.conf(policy),
            ((f"protections, {policy}", workload),),
            look_after_each=False,
            policy=policy,
        )
        for policy in named
    )


@dataclass(frozen=True)
class Asked:
    """What one workload asked for."""

    queries: int
    failed: int
    rows: int


@dataclass(frozen=True)
class Run:
    """One side's run: what could be seen of it, what it asked for, and what went wrong with the run
    itself."""

    seen: Seen
    asked: dict[str, Asked]
    seconds: float


@dataclass(frozen=True)
class Runs:
    """Control, sealed run, how many different values were planted in the tables; the run over
    columns of every protection, with enclaves and without; and the sealed run's workload by
    programs that seal nothing, if that was asked for."""

    control: Run
    sealed: Run
    planted: int
    protected: Run
    unsealed: Run | None = None


def run(folder: Path, scale: str, *, small: bool, programs: Path | None = None) -> Runs:
    """All runs, one after the other, under `folder`; `small`: of a part of the workload.
    `programs`: the folder of an unsealed build, for its control."""
    applications = SMALL if small else FULL
    policies = (
        _protected(protected.few, ["enclaves"])
        if small
        else _protected(protected.protections, protected.POLICIES)
    )
    tables = planted.tables(folder / "plain", scale)
    control = _side(folder / "control", tables.paths, "control", applications)
    sealed = _side(folder / "sealed", tables.paths, "sealed", applications)
    protections = _side(folder / "protected", tables.paths, "protected", policies)
    unsealed = (
        _side(folder / "unsealed", tables.paths, "unsealed", OPENED, programs) if programs else None
    )
    return Runs(control, sealed, tables.values, protections, unsealed)


def _side(
    folder: Path,
    plain: dict[str, Path],
    side: str,
    applications: tuple[Application, ...],
    programs: Path | None = None,
) -> Run:
    """One run: `control` in the clear, or another, by other `programs` than those at hand."""
    started = time.monotonic()
    wanted = [*planted.wanted(), *planted.names()]
    asked: dict[str, Asked] = {}
    owner: Owner | None = None
    tables: dict[str, Path] = {}
    stored = any(application.store for application in applications)
    with Host(folder / "untrusted", wanted, store=stored) as host:
        env = host.store.environment() if host.store else None
        # A table of its own, to lose its files.
        sources = {**plain, "gone": plain["nation"]}
        for number, application in enumerate(applications):
            last = number == len(applications) - 1
            if side == "control" and not tables:
                tables = {
                    name: Path(shutil.copytree(path, host.stored / name))
                    for name, path in sources.items()
                }
            elif application.policy:
                owner = Owner.create(folder / f"trusted-{application.policy}")
                protected.write(application.policy, owner)
                tables = owner.encrypt(
                    {name: plain[name] for name in protected.TABLES},
                    host.stored / application.policy,
                )
            elif owner is None and side != "control":
                owner = (
                    _unsealed(folder, programs) if programs else Owner.create(folder / "trusted")
                )
                tables = owner.encrypt(sources, host.stored)
            if owner and not programs:
                host.want(keys.secrets(owner, folder / f"keks-{number}", env))
            mine: dict[str, Path] | dict[str, str] = tables
            conf = application.conf
            if application.store and host.store:
                mine = _at_store(host.store, plain, owner)
                conf = {**conf, **host.store.conf()}
            with _driver(folder, number, mine, owner, host, conf) as driver:
                if "gone" in tables:
                    for part in tables.pop("gone").glob("part-*"):
                        part.unlink()
                for name, workload in application.workloads:
                    _say(f"{side}: {name}")
                    session = Session(
                        driver,
                        "coffer" if owner else "parquet",
                        host.stored,
                        lambda when, of=name: host.look(f"{of}, {when}"),
                        host.store.root if host.store else "",
                    )
                    workload(session)
                    asked[name] = Asked(session.queries, session.failed, session.rows)
                    if application.look_after_each:
                        host.look(name)
                dumped = application.control_dumped or side != "control"
                if not application.look_after_each and dumped:
                    host.look(", ".join(name for name, _ in application.workloads))
                if last:
                    if owner and side == "sealed":
                        _refused_event_log(folder, tables, owner, host)
                    if owner and not programs:
                        # Those of tables that the workloads made, too.
                        host.want(keys.secrets(owner, folder / "keks-at-the-end", env))
                        host.seen.keys_in_engines = keys.in_engines(
                            owner, host.cluster.engines(), folder / "engines", env
                        )
                    seen = host.finish()
    return Run(seen, asked, time.monotonic() - started)


def _at_store(store: RelayedS3, plain: dict[str, Path], owner: Owner | None) -> dict[str, str]:
    """Some of the tables on a store: sealed by their owner, or as they are."""
    # An owner's tables are called as their folders, and these names are taken.
    tables = {name: f"{store.root}/tables/{name}_at_store" for name in AT_STORE}
    for name, url in tables.items():
        if owner:
            owner.coffer("encrypt", plain[name], url, env=store.environment())
        else:
            for file in plain[name].iterdir():
                store.put(f"{url}/{file.name}", file.read_bytes())
    return tables


def _driver(
    folder: Path,
    number: int,
    tables: dict[str, Path] | dict[str, str],
    owner: Owner | None,
    host: Host,
    conf: dict[str, str],
) -> Driver:
    """The client site's: its log, its event log and its scratch are not searched. The control's
    event log is."""
    trusted = folder / "driver-on-the-trusted-site"
    (trusted / "events").mkdir(parents=True, exist_ok=True)
    events = trusted / "events" if owner else host.events
    return Driver(
        tables,
        sealed=owner is not None,
        log=trusted / f"{number}.log",
        master=host.cluster.master,
        config_dir=owner.config_dir if owner else None,
        passphrase_file=owner.passphrase_file if owner else None,
        conf={
            **CONF,
            **conf,
            "spark.driver.host": host.driver_address,
            "spark.driver.bindAddress": host.driver_address,
            "spark.sql.warehouse.dir": str(host.stored / f"warehouse-{number}"),
            "spark.eventLog.dir": str(events),
            "spark.coffer.eventLog.trustedDir": str(trusted),
            **({"spark.coffer.engine.evidence": "unsealed"} if owner and owner.programs else {}),
        },
        env={"COFFER_BIN": str(owner.programs)} if owner and owner.programs else None,
    )


def _unsealed(folder: Path, programs: Path) -> Owner:
    """An owner whose policy accepts engines that seal nothing, here and nowhere else."""
    owner = Owner.create(folder / "trusted", programs)
    owner.sign(owner.policy.replace('accept = ["simulated"]', 'accept = ["unsealed"]'))
    return owner


def _refused_event_log(folder: Path, tables: dict[str, Path], owner: Owner, host: Host) -> None:
    """An event log on untrusted storage would show queries in clear, so Coffer must not start with
    one. What is written there all the same is searched with the rest."""
    try:
        with Driver(
            tables,
            sealed=True,
            log=folder / "driver-on-the-trusted-site" / "refused.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            conf={"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(host.events)},
        ) as driver:
            driver.query(f"SELECT count(*) FROM secret WHERE tag <> '{planted.LITERAL}-18'")
    except QueryFailed as refused:
        if "COFFER_EVENT_LOG" not in refused.message:
            raise


def _say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {words}", file=sys.stderr, flush=True)
