"""The sides of a comparison: what each is, and how it is started with the same cores and memory as
the others."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from coffer._find import cache_dir
from coffer_bench import layout, profiles
from coffer_bench.duck import DuckDB
from coffer_testing import policies
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver

COMET = "0.12.0"
COMET_SPARK = "3.5.8"
_COMET_ARTIFACT = f"org.apache.datafusion:comet-spark-spark3.5_2.12:{COMET}"
_COMET_JAR = (
    f"org/apache/datafusion/comet-spark-spark3.5_2.12/{COMET}/comet-spark-spark3.5_2.12-{COMET}.jar"
)


@dataclass(frozen=True)
class Resources:
    """The same for all sides. What runs beside the JVM (Coffer's engine, Comet) has `native` GiB,
    and the JVM `heap`; plaintext Spark's JVM has both. `more`: further settings of Spark."""

    cores: int
    partitions: int
    heap: int
    native: int
    policy: str | None = None
    more: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(cores: int, partitions: int, engine_memory: str, policy: str | None = None) -> Resources:
        found = re.fullmatch(r"(\d+)\s*[gG](i?[bB])?", engine_memory)
        if not found:
            raise ValueError(f"{engine_memory!r} is no memory size such as 2g")
        return Resources(cores, partitions, heap=2, native=int(found.group(1)), policy=policy)

    @property
    def master(self) -> str:
        return f"local[{self.cores}]"

    def conf(self, scratch: Path, heap: int) -> dict[str, str]:
        return {
            "spark.sql.shuffle.partitions": str(self.partitions),
            "spark.driver.memory": f"{heap}g",
            "spark.local.dir": str(scratch),
            **self.more,
        }


Tables = dict[str, Path]
Side = Driver | DuckDB
Start = Callable[[Tables, Path, Resources], Driver]


def spark(tables: Tables, folder: Path, resources: Resources) -> Driver:
    """Plaintext Spark on plain Parquet, as it comes."""
    conf = resources.conf(folder / "spark", resources.heap + resources.native)
    return Driver(
        tables, sealed=False, log=folder / "spark.log", master=resources.master, conf=conf
    )


def spark_rewritten(tables: Tables, folder: Path, resources: Resources) -> Driver:
    """Plaintext Spark on plain Parquet that is laid out as Coffer's tables are."""
    print("writing the tables of spark-rewritten", file=sys.stderr)
    rewritten = layout.rewrite(tables, folder / "spark-rewritten-tables")
    return Driver(
        rewritten,
        sealed=False,
        log=folder / "spark-rewritten.log",
        master=resources.master,
        conf=resources.conf(folder / "spark-rewritten", resources.heap + resources.native),
    )


def duckdb(tables: Tables, folder: Path, resources: Resources) -> DuckDB:
    """DuckDB on plain Parquet: one process, with the memory of both of ours."""
    return DuckDB(tables, folder, resources.cores, resources.heap + resources.native)


def coffer(tables: Tables, folder: Path, resources: Resources) -> Driver:
    """Coffer on sealed tables made of the same files, under the policy that is asked for."""
    return _sealed("coffer", tables, folder, resources, policy=resources.policy)


# What is hidden beyond values, and how: docs/security/sizes.md says what of.
HIDING = {
    "pow2": {"spark.coffer.pad": "pow2"},
    "fixed": {"spark.coffer.pad": "fixed"},
    "whole": {"spark.coffer.prune": "off"},
}


def _hiding(name: str) -> Start:
    """Coffer with settings of `HIDING`."""
    return lambda tables, folder, resources: _sealed(
        name, tables, folder, resources, conf=HIDING[name]
    )


def unsealed(tables: Tables, folder: Path, resources: Resources) -> Driver:
    """The same engine, plugin and plans with sealing switched off, on tables that are not
    encrypted."""
    return _sealed("unsealed", tables, folder, resources, programs=build_unsealed())


def storage(tables: Tables, folder: Path, resources: Resources) -> Driver:
    """The same on tables that are sealed: only what travels and spills is open."""
    return _sealed("storage", tables, folder, resources, programs=build_unsealed("--sealed-tables"))


def build_unsealed(*options: str) -> Path:
    """The folder of an unsealed build's programs, which are built where they are not there."""
    if profiles.chosen() != "release":
        raise SystemExit(
            "error: unsealed programs are of the profile release alone\n"
            "hint: leave --profile out, or name --sides without unsealed"
        )
    built = subprocess.run(
        [Path(__file__).parent.parent / "build-unsealed", *options],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=3600,
    ).stdout
    return Path(built.strip())


def _sealed(
    name: str,
    tables: Tables,
    folder: Path,
    resources: Resources,
    *,
    programs: Path | None = None,
    conf: dict[str, str] | None = None,
    policy: str | None = None,
) -> Driver:
    owner = Owner.create(folder / f"{name}-trusted", programs)
    if policy is not None:
        policies.write(policy, owner)
        conf = {**(conf or {}), **policies.conf(policy)}
    conf = {**resources.conf(folder / name, resources.heap), **(conf or {})}
    conf["spark.coffer.engine.memory"] = f"{resources.native}GiB"
    env = {}
    if programs is not None:
        # A policy of one build is an error for the other: this one is made for the unsealed, here
        # and nowhere else.
        owner.sign(owner.policy.replace('accept = ["simulated"]', 'accept = ["unsealed"]'))
        conf["spark.coffer.engine.evidence"] = "unsealed"
        env["COFFER_BIN"] = str(programs)
    print(f"writing the tables of {name}", file=sys.stderr)
    sealed = owner.encrypt(tables, folder / f"{name}-tables")
    return Driver(
        sealed,
        sealed=True,
        log=folder / f"{name}.log",
        master=resources.master,
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf=conf,
        env=env,
    )


def comet(tables: Tables, folder: Path, resources: Resources) -> Driver:
    """Plaintext Comet: Spark 3.5 whose operators run in DataFusion inside the JVM's process. It
    keeps its data outside the heap and needs its own shuffle manager."""
    jar = str(_comet_jar())
    conf = {
        **resources.conf(folder / "comet", resources.heap),
        "spark.jars": jar,
        "spark.driver.extraClassPath": jar,
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.comet.enabled": "true",
        "spark.comet.exec.enabled": "true",
        "spark.comet.exec.shuffle.enabled": "true",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": f"{resources.native}g",
    }
    python = _comet_python()
    return Driver(
        tables,
        sealed=False,
        log=folder / "comet.log",
        master=resources.master,
        conf=conf,
        env={"PYSPARK_PYTHON": str(python)},
        python=python,
    )


def _comet_jar() -> Path:
    jar = Path.home() / ".m2" / "repository" / _COMET_JAR
    if not jar.is_file():
        command = [
            "mvn",
            "-q",
            "-B",
            "dependency:get",
            f"-Dartifact={_COMET_ARTIFACT}",
            "-Dtransitive=false",
        ]
        subprocess.run(command, check=True, stdout=sys.stderr, timeout=3600)
    return jar


def _comet_python() -> Path:
    """The interpreter of an environment with Comet's Spark; made on demand, then kept in Coffer's
    cache folder."""
    venv = cache_dir() / f"comet-{COMET}-venv"
    python = venv / "bin" / "python"
    if not (venv / ".ready").is_file():
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=3600)
        install = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            f"pyspark=={COMET_SPARK}",
        ]
        subprocess.run(install, check=True, stdout=sys.stderr, timeout=3600)
        (venv / ".ready").touch()
    return python


START: dict[str, Start] = {
    "spark": spark,
    "spark-rewritten": spark_rewritten,
    "coffer": coffer,
    "unsealed": unsealed,
    "storage": storage,
    "comet": comet,
    **{name: _hiding(name) for name in HIDING},
}
# Also those that are no Spark session.
EVERY: dict[str, Callable[[Tables, Path, Resources], Side]] = {**START, "duckdb": duckdb}
# What they get wrong is not held against Coffer.
PEERS = ("comet", "duckdb")
