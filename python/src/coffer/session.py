"""A ready Spark session: plugin, extensions, jar, programs and keys set."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from coffer import results
from coffer._find import find_binary, find_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUGIN = "org.apache.spark.sql.coffer.CofferPlugin"
EXTENSIONS = "org.apache.spark.sql.coffer.CofferExtensions"

PASSPHRASE = "COFFER_PASSPHRASE"


def configuration(
    home: str | os.PathLike[str] | None = None,
    passphrase_file: str | os.PathLike[str] | None = None,
) -> dict[str, str]:
    """The Spark settings that switch Coffer on. Paths only: no secret may be in Spark's configuration, since all of it
    travels to executors."""
    jar = str(find_jar())
    conf = {
        "spark.plugins": PLUGIN,
        "spark.sql.extensions": EXTENSIONS,
        # Driver and executors need the jar before a context or a task starts; executors that do not have it at this path
        # fetch it from the driver.
        "spark.jars": jar,
        "spark.driver.extraClassPath": jar,
        "spark.executor.extraClassPath": jar,
        "spark.coffer.engine.path": str(find_binary("coffer-engine")),
        "spark.coffer.client.path": str(find_binary("coffer-client")),
    }
    if home is not None:
        conf["spark.coffer.home"] = str(Path(home).expanduser().resolve())
    if passphrase_file is not None:
        conf["spark.coffer.passphraseFile"] = str(Path(passphrase_file).expanduser().resolve())
    return conf


def session(
    home: str | os.PathLike[str] | None = None,
    master: str = "local[*]",
    *,
    passphrase_file: str | os.PathLike[str] | None = None,
    **conf: str,
) -> SparkSession:
    """A Spark session that reads sealed tables.

    `home` is the folder of keyring and policy (default: `$COFFER_HOME`, else `~/.coffer`). The keyring's passphrase comes
    from `passphrase_file`, from the environment variable `COFFER_PASSPHRASE`, or from a prompt when a terminal is there.
    With `spark.coffer.client.socket`, the socket of the owner's key service, there is neither home nor passphrase here.
    Further settings go in by name: `coffer.session(**{"spark.sql.shuffle.partitions": "8"})`; they win over Coffer's own.

    Raises RuntimeError when a Spark session without Coffer is running already: plugins are loaded when a context starts.
    """
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None and not _has_plugin(running):
        raise RuntimeError(
            "a Spark session without Coffer is running in this process\n"
            "hint: stop it first, or start Spark with the settings of coffer.configuration()"
        )
    settings = {**configuration(home, passphrase_file), **conf}
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _passphrase(settings):
        spark = builder.getOrCreate()
    results.install()
    return spark


def _has_plugin(spark: SparkSession) -> bool:
    return PLUGIN in (spark.sparkContext.getConf().get("spark.plugins") or "")


@contextmanager
def _passphrase(settings: dict[str, str]) -> Iterator[None]:
    """Asks for the passphrase when nothing else gives it. It reaches the driver's JVM by the environment of that one
    process and is taken out of this one's again."""
    given = "spark.coffer.passphraseFile" in settings or "spark.coffer.client.socket" in settings or PASSPHRASE in os.environ
    if given or not sys.stdin.isatty():
        yield
        return
    os.environ[PASSPHRASE] = getpass.getpass("Passphrase of the keyring: ")
    try:
        yield
    finally:
        del os.environ[PASSPHRASE]
