"""The config directory, with keyring and policy in it: how it is named, and how it was before."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

VARIABLE = "COFFER_CONFIG_DIR"
# What that variable was called before. It still works, with a warning.
OLD_VARIABLE = "COFFER_HOME"

StrPath = str | os.PathLike[str]


def add_option(parser: argparse.ArgumentParser) -> None:
    """`--config-dir`, and `--home`, its old name."""
    names = parser.add_mutually_exclusive_group()
    names.add_argument(
        "--config-dir",
        type=Path,
        help=f"folder of keyring and policy (default: ${VARIABLE}, else ~/.coffer)",
    )
    names.add_argument("--home", type=Path, help=argparse.SUPPRESS)


def named(arguments: argparse.Namespace) -> Path | None:
    """The folder that options name."""
    if arguments.home is not None:
        print("warning: --home is an old name: use --config-dir instead", file=sys.stderr)
    folder: Path | None = arguments.config_dir or arguments.home
    return folder


def of(arguments: argparse.Namespace) -> Path:
    """The folder that options or environment name."""
    folder = named(arguments)
    if folder is not None:
        return folder
    now, old = os.environ.get(VARIABLE), os.environ.get(OLD_VARIABLE)
    if old:
        if now and now != old:
            print(
                f"error: {VARIABLE} and {OLD_VARIABLE}, its old name, name two folders\n"
                f"hint: unset {OLD_VARIABLE}",
                file=sys.stderr,
            )
            sys.exit(2)
        print(f"warning: {OLD_VARIABLE} is an old name: set {VARIABLE} instead", file=sys.stderr)
    return Path(now or old or Path.home() / ".coffer")


def renamed(config_dir: StrPath | None, home: StrPath | None) -> StrPath | None:
    """The argument `config_dir` of a public function, which may be given by its old name. To be
    called by that function itself: the warning is of its caller's line."""
    if home is None:
        return config_dir
    if config_dir is not None:
        raise TypeError("config_dir and home, its old name, are both given")
    warnings.warn("home is an old name: use config_dir instead", FutureWarning, stacklevel=3)
    return home
