"""Spark's own SQL shell with plugin, programs and keys set.

Tables that the policy gives a path are there under their names, as temporary views.
"""

from __future__ import annotations

import argparse
import getpass
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from coffer import config_dir
from coffer._find import find_binary
from coffer.session import PASSPHRASE, configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m coffer sql`."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-e", dest="query", metavar="QUERY", help="run this SQL and end")
    what.add_argument(
        "-f", dest="file", metavar="FILE", type=Path, help="run the SQL of this file and end"
    )
    config_dir.add_option(parser)
    parser.add_argument(
        "--passphrase-file",
        type=Path,
        help=f"file with the passphrase (default: ${PASSPHRASE}, else a prompt)",
    )
    parser.add_argument("--master", default="local[*]", help="Spark master (default: %(default)s)")


def run(arguments: argparse.Namespace, rest: list[str]) -> int:
    """Replaces this process by Spark's shell."""
    import pyspark

    folder = config_dir.of(arguments)
    conf = {
        # No Hive metastore: tables live in files of their own, and the catalog is not trusted
        # anyway.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.enabled": "false",
        **configuration(folder, arguments.passphrase_file, arguments.master),
    }
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-sql"),
        "--master",
        arguments.master,
    ]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    command += rest
    environment = dict(os.environ)
    if arguments.passphrase_file is None and PASSPHRASE not in environment and sys.stdin.isatty():
        environment[PASSPHRASE] = getpass.getpass("Passphrase of the keyring: ")
    views = views_of(signed_policy(folder, arguments.passphrase_file, environment))
    if views:
        command += ["-i", str(_script(views))]
    if arguments.query is not None:
        command += ["-e", arguments.query]
    elif arguments.file is not None:
        command += ["-f", str(arguments.file)]
    os.execve(command[0], command, environment)


def signed_policy(folder: Path, passphrase_file: Path | None, environment: dict[str, str]) -> str:
    """The policy's text, if its owner signed it: which path a name means is the owner's word. Empty
    where it cannot be had: the client engine reads it too, and says what is wrong with it."""
    if not (folder / "policy.toml").exists():
        return ""
    command = [str(find_binary("coffer")), "--config-dir", str(folder)]
    if passphrase_file is not None:
        command += ["--passphrase-file", str(passphrase_file)]
    try:
        shown = subprocess.run(
            [*command, "policy", "show"],
            env=environment,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
    except subprocess.TimeoutExpired:
        return ""
    return shown.stdout if shown.returncode == 0 else ""


def views_of(policy: str) -> list[str]:
    """A `CREATE TEMPORARY VIEW` for each table to which the policy's text gives a path."""
    try:
        tables = tomllib.loads(policy).get("tables", {})
    except tomllib.TOMLDecodeError:
        return []
    views = []
    for name, table in tables.items():
        path = table.get("path") if isinstance(table, dict) else None
        if isinstance(path, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            quoted = str(Path(path).expanduser()).replace("\\", "\\\\").replace("'", "\\'")
            views.append(f"CREATE TEMPORARY VIEW {name} USING coffer OPTIONS (path '{quoted}');")
    return views


def _script(views: list[str]) -> Path:
    """A file of SQL for the shell to start with; it names tables and paths only, and is left to the
    system to clear."""
    handle, path = tempfile.mkstemp(prefix="coffer-views-", suffix=".sql")
    with os.fdopen(handle, "w") as file:
        file.write("\n".join(views) + "\n")
    return Path(path)
