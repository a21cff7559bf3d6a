"""Archives of Spark's loaded classes (application class-data sharing, JEP 350), with which the JVMs
of tests start in half the time. A JVM that finds no archive of its class path starts without one.

There is one archive for plaintext Spark and daemons and one for Coffer's drivers and executors,
whose class paths differ. They lie in the user's cache, and are made anew when a jar has changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Read by each `java`, before its own arguments.
VARIABLE = "JDK_JAVA_OPTIONS"
# Most of the JVMs here end before code compiled at the highest level has paid for itself. A JVM
# whose archive does not fit would say so on standard output.
_BASE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
_ARCHIVE = "-XX:SharedArchiveFile="
_MINUTES = 5


def prepare() -> None:
    """Makes what is missing. Without an archive tests are slower, and nothing else."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_make, (False, True)))


def install() -> None:
    """Gives the JVMs that this process starts their options."""
    os.environ.setdefault(VARIABLE, _BASE)
    os.environ[VARIABLE] = options(sealed=True)


def options(sealed: bool) -> str:
    """What this process's JVMs are given, with the archive of that kind if there is one; empty
    where nobody has called `install`."""
    given = os.environ.get(VARIABLE, "")
    if _BASE not in given:
        return given
    rest = re.sub(rf"\s*{_ARCHIVE}\S+", "", given)
    file = _file(sealed)
    return f"{rest} {_ARCHIVE}{file}" if file.exists() else rest


def environment(sealed: bool) -> dict[str, str]:
    """`options` as a part of an environment."""
    return {VARIABLE: said} if (said := options(sealed)) else {}


def _file(sealed: bool) -> Path:
    import pyspark

    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    if sealed:
        from coffer._find import find_jar

        jars.append(find_jar())
    home = os.environ.get("JAVA_HOME")
    java = os.path.realpath(f"{home}/bin/java" if home else shutil.which("java") or "java")
    stamps = [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars]
    name = hashlib.sha256(repr((java, sys.version, stamps)).encode()).hexdigest()[:16]
    return _folder() / f"{'sealed' if sealed else 'plain'}-{name}.jsa"


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "coffer" / "classes"


def _make(sealed: bool) -> None:
    file = _file(sealed)
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as work:
        made = Path(work) / file.name
        try:
            # The JVM writes the archive when it ends, after Python; it holds the pipe until then.
            subprocess.run(
                [sys.executable, "-m", "coffer_testing.archives", *(["sealed"] if sealed else [])],
                env={**os.environ, VARIABLE: f"{_BASE} -XX:ArchiveClassesAtExit={made}"},
                cwd=work,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=True,
                timeout=60 * _MINUTES,
            )
            made.rename(file)
        except (subprocess.SubprocessError, OSError) as error:
            words = getattr(error, "output", None) or b""
            print(f"note: no archive of classes: {error}\n{words.decode(errors='replace')}")
            return
    for old in file.parent.glob(f"{file.name.partition('-')[0]}-*.jsa"):
        if old != file:
            old.unlink(missing_ok=True)


def _work(sealed: bool) -> None:
    """Loads the classes of a session's everyday work, in the JVM of this process."""
    from coffer_testing.owner import Owner
    from coffer_testing.runner import session

    with tempfile.TemporaryDirectory() as folder:
        request = {"conf": {}, "sealed": sealed, "master": "local[2]", "tables": {}}
        made = Path(folder)
        if sealed:
            owner = Owner.create(made / "owner")
            request |= {
                "config_dir": owner.config_dir,
                "passphrase_file": owner.passphrase_file,
            }
        spark = session(request)
        source = "coffer" if sealed else "parquet"
        path = str(made / "rows")
        spark.range(100).selectExpr(
            "id", "CAST(id % 7 AS STRING) AS name", "CAST(id AS DECIMAL(12, 2)) AS amount"
        ).write.format(source).save(path)
        spark.read.format(source).load(path).createOrReplaceTempView("rows")
        spark.sql(
            "SELECT a.name, count(*), sum(b.amount), max(upper(b.name)) FROM rows a JOIN rows b "
            "ON a.id = b.id AND b.name LIKE '%1%' WHERE a.id > 3 AND b.amount < 80 "
            "GROUP BY a.name HAVING count(*) > 0 ORDER BY 1 DESC LIMIT 5"
        ).collect()
        spark.stop()


if __name__ == "__main__":
    _work(sealed=sys.argv[1:] == ["sealed"])
