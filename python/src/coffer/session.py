"""A ready Spark session: plugin, extensions, jar, programs and keys set."""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from coffer import cancelling, containers, notebook, pickles, results
from coffer._find import carries, engine_jar, find_binary, find_jar
from coffer.config_dir import renamed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUGIN = "org.apache.spark.sql.coffer.CofferPlugin"
EXTENSIONS = "org.apache.spark.sql.coffer.CofferExtensions"

FILTER_OPTION = "-Djdk.serialFilterFactory=org.apache.spark.sql.coffer.driver.SerialFilterFactory"
"""For the driver's JVM: it reads no Java object, from its first byte on, that is not on Coffer's
list."""

# Spark puts these before spark.driver.extraJavaOptions, which stay the user's.
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"

PASSPHRASE = "COFFER_PASSPHRASE"


def configuration(
    config_dir: str | os.PathLike[str] | None = None,
    passphrase_file: str | os.PathLike[str] | None = None,
    master: str | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
) -> dict[str, str]:
    """The Spark settings that switch Coffer on. Paths only: no secret may be in Spark's
    configuration, since all of it travels to executors.

    `master`: the one that they are for. With a local one the engine is started where it lies. Else
    executors, which may have nothing of Coffer, fetch the plugin's jar and the engine from the
    driver, as they do any of an application's jars: the engine is in the plugin's jar (`make dist`
    makes such a one), or in one of its own.

    `home` is the old name of `config_dir`.
    """
    config_dir = renamed(config_dir, home)
    plugin = find_jar()
    jar = str(plugin)
    local = master is not None and pickles.is_local(master)
    conf = {
        "spark.plugins": PLUGIN,
        "spark.sql.extensions": EXTENSIONS,
        # The driver needs the jar before a context starts.
        "spark.driver.extraClassPath": jar,
        "spark.jars": jar,
        _JAVA_OPTIONS: _java_options(_spark_default(_JAVA_OPTIONS)),
        # A worker of Python functions has had rows in the clear: it ends with its query.
        "spark.python.worker.reuse": "false",
        **containers.overhead(master or "", {}),
    }
    # A jar's own programs are those of its build.
    if not carries(plugin, "coffer-client"):
        conf["spark.coffer.client.path"] = str(find_binary("coffer-client"))
    if not carries(plugin, "coffer-engine"):
        if local:
            conf["spark.coffer.engine.path"] = str(find_binary("coffer-engine"))
        else:
            conf["spark.jars"] = f"{jar},{engine_jar()}"
    if config_dir is not None:
        conf["spark.coffer.configDir"] = str(Path(config_dir).expanduser().resolve())
    if passphrase_file is not None:
        conf["spark.coffer.passphraseFile"] = str(Path(passphrase_file).expanduser().resolve())
    return conf


def session(
    config_dir: str | os.PathLike[str] | None = None,
    master: str = "local[*]",
    *,
    passphrase_file: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
    **conf: str,
) -> SparkSession:
    """A Spark session that reads sealed tables.

    `config_dir` is the folder of keyring and policy (default: `$COFFER_CONFIG_DIR`, else
    `~/.coffer`); `home` is its old name. The keyring's passphrase comes from `passphrase_file`,
    from the environment variable `COFFER_PASSPHRASE`, or from a prompt when a terminal or a
    notebook is there that can ask. With `spark.coffer.client.socket`, the socket of the owner's key
    service, or `spark.coffer.client.address`, where it is over the network, there is neither config
    directory nor passphrase here. Further settings go in by name:
    `coffer.session(**{"spark.sql.shuffle.partitions": "8"})`; they win over Coffer's own.

    With a cluster's master, Python pickles from executors are opened by a list of names (see
    `coffer.pickles`), to which `spark.coffer.driver.allowPickles` adds.

    Raises RuntimeError when a Spark session without Coffer is running already: plugins are loaded
    when a context starts; and for a cluster's master when Spark's JVM runs already and was started
    without Coffer's deserialisation filter.
    """
    from pyspark.errors.exceptions.captured import install_exception_handler
    from pyspark.sql import SparkSession

    config_dir = renamed(config_dir, home)
    running = SparkSession.getActiveSession()
    if running is not None and not _has_plugin(running):
        raise RuntimeError(
            "a Spark session without Coffer is running in this process\n"
            "hint: stop it first, or start Spark with the settings of coffer.configuration()"
        )
    ours = configuration(config_dir, passphrase_file, master)
    # For the engine's memory as it is here, not as it would be by default.
    ours.pop(containers.OVERHEAD, None)
    settings = {**ours, **containers.overhead(master, conf), **conf}
    # An application's own jars come beside Coffer's.
    settings["spark.jars"] = _together(ours["spark.jars"], conf.get("spark.jars", ""))
    settings[_JAVA_OPTIONS] = _java_options(settings[_JAVA_OPTIONS])
    pickles.additions(settings.get(pickles.ALLOW, ""))
    _check_jvm(master)
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    # PySpark does so once a session is there; what is refused before is no JVM's stack either.
    install_exception_handler()
    notebook.install()
    # Users' functions run beside this process, and find the same packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _passphrase(settings):
        spark = builder.getOrCreate()
    results.install()
    cancelling.install(spark)
    pickles.install(spark)
    return spark


def _together(*lists: str) -> str:
    """Comma-separated lists as one, each name once."""
    names = [name.strip() for names in lists for name in names.split(",")]
    return ",".join(dict.fromkeys(name for name in names if name))


def _java_options(others: str | None) -> str:
    """Coffer's option for the driver's JVM beside what is asked for already."""
    asked = others or ""
    return asked if FILTER_OPTION in asked.split() else f"{asked} {FILTER_OPTION}".strip()


def _spark_default(key: str) -> str | None:
    """What Spark's own configuration file says, which a setting of ours would replace."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None:
        import pyspark

        folder = str(Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "conf")
    try:
        lines = (Path(folder) / "spark-defaults.conf").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    found = [
        match.group(1)
        for line in lines
        if (match := re.match(rf"\s*{re.escape(key)}[\s=:]+(.*\S)", line))
    ]
    return found[-1] if found else None


def _check_jvm(master: str) -> None:
    """A JVM that runs already cannot be given the filter any more. The plugin would refuse it, too;
    this says why."""
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    if jvm is None or SparkContext._active_spark_context is not None or pickles.is_local(master):
        return
    if (
        jvm.java.lang.System.getProperty("jdk.serialFilterFactory")
        != FILTER_OPTION.partition("=")[2]
    ):
        raise RuntimeError(
            "Spark's JVM runs already in this process, without Coffer's deserialisation filter, "
            "which a JVM takes only when "
            "it starts\n"
            "hint: start a new Python process and call coffer.session() before anything else of "
            "Spark's, "
            f"or start that JVM with spark.driver.extraJavaOptions={FILTER_OPTION}"
        )


def _has_plugin(spark: SparkSession) -> bool:
    return PLUGIN in (spark.sparkContext.getConf().get("spark.plugins") or "")


@contextmanager
def _passphrase(settings: dict[str, str]) -> Iterator[None]:
    """Asks for the passphrase when nothing else gives it. It reaches the driver's JVM by the
    environment of that one process and is taken out of this one's again."""
    given = (
        "spark.coffer.passphraseFile" in settings
        or "spark.coffer.client.socket" in settings
        or "spark.coffer.client.address" in settings
        or PASSPHRASE in os.environ
    )
    if given or not notebook.can_ask():
        yield
        return
    os.environ[PASSPHRASE] = getpass.getpass("Passphrase of the keyring: ")
    try:
        yield
    finally:
        del os.environ[PASSPHRASE]
