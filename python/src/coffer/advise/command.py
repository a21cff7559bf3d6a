"""The command line of Coffer, asked one question."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from coffer._find import find_binary

_DEADLINE = 600  # seconds


class AdviseError(Exception):
    """What the user can mend, in words."""


def ask(
    *arguments: str, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """What `coffer` said, and how it ended.

    Raises:
        AdviseError: it did not end in ten minutes.
    """
    command = [str(find_binary("coffer")), *arguments]
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=_DEADLINE,
        )
    except subprocess.TimeoutExpired as error:
        raise AdviseError(
            f"`coffer {' '.join(arguments[:3])}` did not end in {_DEADLINE} s"
        ) from error
