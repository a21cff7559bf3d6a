"""What a driver's log tells of crashes: in local mode it has the lines of its engines and of its
client engine, those too of an engine that is gone."""

from __future__ import annotations

from pathlib import Path

from coffer_testing.runner import Driver

# PySpark's level is WARN; what Coffer's programs write to their standard error is logged one below
# it.
_HEAR = """
configurator = spark._jvm.org.apache.logging.log4j.core.config.Configurator
level = spark._jvm.org.apache.logging.log4j.Level.INFO
configurator.setLevel("org.apache.spark.sql.coffer.transport.EngineProcess", level)
"""


# What Rust's runtime says last.
_CRASHES = ("panicked", "has overflowed its stack", "memory allocation of", "fatal runtime error")


class Log:
    """The log of a driver from now on."""

    def __init__(self, driver: Driver, path: Path) -> None:
        self._path = path
        self._at = path.stat().st_size
        driver.run(_HEAR)

    def panic(self) -> str | None:
        """The first line of a panic, or of an abort, since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            more = file.read()
        # A line that is still being written counts the next time.
        whole = more[: more.rfind(b"\n") + 1]
        self._at += len(whole)
        lines = whole.decode(errors="replace").splitlines()
        return next((line for line in lines if any(words in line for words in _CRASHES)), None)
