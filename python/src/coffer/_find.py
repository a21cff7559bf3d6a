"""Where Coffer's jar and programs are.

The order, first hit wins: the environment (`COFFER_JAR`, `COFFER_BIN`), beside this package (as an
installed wheel has them), the build tree this file is part of, and, for programs, `PATH`. What the
environment names must exist: a wrong setting is an error, not a reason to look elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
import time
import zipfile
from importlib import metadata
from pathlib import Path
from typing import IO

JAR = "coffer-spark.jar"
# Lines of Spark's versions that there is a jar for, and the one that is tested throughout.
LINES = ("4.0", "4.1", "4.2")
LINE = "4.1"
PROGRAMS = (
    "coffer",
    "coffer-client",
    "coffer-engine",
    "coffer-attest",
    "coffer-aws",
    "coffer-relay",
    "coffer-store",
    "coffer-tpm-quote",
)

_JAR_KEPT = 7 * 86400.0  # seconds

_PACKAGE = Path(__file__).resolve().parent


class CofferNotFound(FileNotFoundError):
    """The jar or a program is nowhere to be found; the message says where was looked."""


def find_jar() -> Path:
    """The Spark plugin's jar, for the line of versions that Spark is of."""
    named = os.environ.get("COFFER_JAR")
    if named:
        return _must_be_file(Path(named), "COFFER_JAR")
    line = spark_line()
    if line not in LINES:
        raise CofferNotFound(
            f"Coffer has no jar for Spark {line}\n"
            f"hint: install pyspark of one of these lines: {', '.join(LINES)}"
        )
    jar = jar_of(line)
    candidates = [_PACKAGE / "jars" / jar]
    tree = _build_tree()
    if tree is not None:
        candidates.append(tree / "spark" / "target" / jar)
    return _first(candidates, f"{JAR} for Spark {line}", "COFFER_JAR")


def jar_of(line: str) -> Path:
    """A line's jar, in a folder of jars: that of `LINE` lies where there was but one."""
    return Path(JAR) if line == LINE else Path(f"spark-{line}", JAR)


def spark_line() -> str:
    """The line of versions, as `4.1`, of the Spark that a session would start: that of
    `SPARK_HOME`, or of the installed pyspark."""
    home = os.environ.get("SPARK_HOME")
    if home:
        for core in Path(home, "jars").glob("spark-core_*.jar"):
            return _line(core.stem.partition("-")[2].rpartition("-")[2])
    try:
        return _line(metadata.version("pyspark"))
    except metadata.PackageNotFoundError:
        return LINE


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])


def find_binary(name: str) -> Path:
    """One of `PROGRAMS`. `COFFER_BIN` names their folder."""
    if name not in PROGRAMS:
        raise ValueError(f"{name!r} is not one of Coffer's programs: {', '.join(PROGRAMS)}")
    named = os.environ.get("COFFER_BIN")
    if named:
        return _must_be_file(Path(named) / name, "COFFER_BIN")
    candidates = [_PACKAGE / "bin" / name]
    if _build_tree() is not None:
        candidates.append(target_dir() / "release" / name)
    on_path = shutil.which(name)
    if on_path:
        candidates.append(Path(on_path))
    return _first(candidates, name, "COFFER_BIN")


def carries(jar: Path, program: str) -> bool:
    """Whether this jar has the program in it, for machines like this one."""
    try:
        with zipfile.ZipFile(jar) as entries:
            return _entry(program) in entries.namelist()
    except zipfile.BadZipFile:
        return False


def _entry(program: str) -> str:
    """Where a jar has a program for machines like this one."""
    return f"coffer/bin/{platform.system().lower()}-{platform.machine()}/{program}"


def engine_jar() -> Path:
    """A jar with the engine alone, for executors on machines where nothing of Coffer is installed:
    they unpack it. Packed once for each engine, into the user's cache."""
    engine = find_binary("coffer-engine")
    stat = engine.stat()
    entry = _entry(engine.name)
    stamp = repr((str(engine.resolve()), stat.st_size, stat.st_mtime_ns, entry))
    name = f"coffer-engine-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.jar"
    folder = cache_dir() / "jars"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        jar = folder / name
        if not jar.exists():
            _pack(engine, entry, jar)
        os.utime(jar)
    except OSError:
        # A home directory that cannot be written.
        jar = Path(tempfile.mkdtemp(prefix="coffer-jars-")) / name
        _pack(engine, entry, jar)
        return jar
    for old in folder.glob("coffer-engine-*"):
        # Another session may still send the one of yesterday's build.
        if old != jar and time.time() - old.stat().st_mtime > _JAR_KEPT:
            old.unlink(missing_ok=True)
    return jar


def _pack(engine: Path, entry: str, jar: Path) -> None:
    handle, making = tempfile.mkstemp(prefix="coffer-engine-", dir=jar.parent)
    try:
        with (
            os.fdopen(handle, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
        ):
            put_program(packed, entry, engine)
        # The driver's file server reads it, whoever that is.
        Path(making).chmod(0o644)
        Path(making).rename(jar)
    except BaseException:
        Path(making).unlink(missing_ok=True)
        raise


def put_program(packed: zipfile.ZipFile, entry: str, program: Path) -> None:
    """Puts a program into a jar, as the plugin looks for it there: with its digest, and with what
    it needs of a processor."""
    digest = hashlib.sha256()
    with program.open("rb") as source, put(packed, entry) as target:
        while block := source.read(1 << 20):
            digest.update(block)
            target.write(block)
    said = {"sha256": digest.hexdigest(), "needs": " ".join(needs_of(program))}
    for suffix, text in said.items():
        with put(packed, f"{entry}.{suffix}") as target:
            target.write(text.encode())


def put(packed: zipfile.ZipFile, entry: str) -> IO[bytes]:
    """A new entry of an archive. All have one time, so that equal entries make equal archives."""
    info = zipfile.ZipInfo(entry, date_time=(2025, 1, 1, 0, 0, 0))
    info.compress_type, info._compresslevel = packed.compression, packed.compresslevel
    return packed.open(info, "w")


def needs_of(program: Path) -> list[str]:
    """What a program needs of a processor beyond what all of its kind have, by the names of
    `/proc/cpuinfo`: where it was installed, the file `NAME.needs` beside it says so."""
    try:
        return program.with_name(f"{program.name}.needs").read_text().split()
    except OSError:
        return []


def processor_lacks(program: Path, cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """What of that this machine's processor has not, where the system says it."""
    try:
        flags = next(line for line in cpuinfo.read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return []
    has = set(flags.partition(":")[2].split())
    return [name for name in needs_of(program) if name not in has]


def target_dir() -> Path:
    """Where the build puts the Rust programs (the Makefile's default unless CARGO_TARGET_DIR says
    otherwise)."""
    named = os.environ.get("CARGO_TARGET_DIR")
    return Path(named) if named else cache_dir() / "target"


def cache_dir() -> Path:
    """Coffer's folder for what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "coffer"


def _build_tree() -> Path | None:
    """The repository's root when this file lies in one (python/src/coffer), else None."""
    root = _PACKAGE.parents[2]
    return (
        root
        if (root / "engine" / "Cargo.toml").is_file() and (root / "spark" / "pom.xml").is_file()
        else None
    )


def _must_be_file(path: Path, variable: str) -> Path:
    if not path.is_file():
        raise CofferNotFound(
            f"{variable} points to {path}, which does not exist\nhint: correct or unset {variable}"
        )
    return path


def _first(candidates: list[Path], name: str, variable: str) -> Path:
    for path in candidates:
        if path.is_file():
            return path
    looked = "".join(f"\n  {path}" for path in candidates)
    raise CofferNotFound(
        f"{name} was not found; looked at:{looked}\n"
        f"hint: install coffer-spark, or run `make build`, or set {variable}"
    )
