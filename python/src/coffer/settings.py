"""The settings that switch Coffer on, as a properties file for spark-submit and Spark's shells.

python -m coffer settings > coffer.conf
pyspark --properties-file coffer.conf
"""

from __future__ import annotations

import argparse
from pathlib import Path

from coffer import config_dir
from coffer.session import configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m coffer settings`."""
    config_dir.add_option(parser)
    parser.add_argument(
        "--passphrase-file",
        type=Path,
        help="file with the passphrase (default: $COFFER_PASSPHRASE of the driver)",
    )
    parser.add_argument("--master", help="Spark master that they are for (default: any)")


def run(arguments: argparse.Namespace) -> int:
    """Prints a line for each setting."""
    conf = configuration(config_dir.named(arguments), arguments.passphrase_file, arguments.master)
    if arguments.master is not None:
        conf["spark.master"] = arguments.master
    print("\n".join(f"{key} {_escaped(value)}" for key, value in conf.items()))
    return 0


def _escaped(value: str) -> str:
    """As Java's properties files have it."""
    return value.replace("\\", "\\\\")
