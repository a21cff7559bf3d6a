"""Coffer in IPython and in notebooks: the passphrase is asked for where the front end passes input
on, and what Coffer refuses is shown without Python's frames."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

# A message has no more: what failed, why, and a hint.
_MOST_LINES = 5


def shell() -> Any:
    """The IPython shell that this code runs in, or None."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


def can_ask() -> bool:
    """Whether someone is there who could type a passphrase: at a terminal, or at a notebook whose
    front end passes input on. Then `getpass` asks there without showing it."""
    if sys.stdin is not None and sys.stdin.isatty():
        return True
    return bool(getattr(getattr(shell(), "kernel", None), "_allow_stdin", False))


def install() -> None:
    """Shows what Coffer refuses as its message alone. What fails otherwise is shown as ever."""
    from pyspark.errors import PySparkException

    ours = shell()
    if ours is not None and PySparkException not in ours.custom_exceptions:
        ours.set_custom_exc((*ours.custom_exceptions, PySparkException), _show)


def _show(
    ours: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    condition = getattr(error, "getCondition", lambda: None)()
    if isinstance(condition, str) and condition.startswith("COFFER_"):
        ours._showtraceback(kind, error, message(error).splitlines())
    else:
        ours.showtraceback((kind, error, trace), tb_offset=tb_offset)


def message(error: BaseException) -> str:
    """The first lines of what an error says."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "\n".join(lines[:_MOST_LINES])
