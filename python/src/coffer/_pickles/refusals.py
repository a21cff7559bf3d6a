"""Refusals of pickles, and the names that the user adds to the list."""

from __future__ import annotations

import re
from pickle import UnpicklingError

ALLOW = "spark.coffer.driver.allowPickles"

_PLAIN_VALUES = "have tasks return plain values: numbers, texts, bytes, dates, lists, dicts, rows"


class PickleRefused(UnpicklingError):
    """What executors sent was not opened. The text begins with COFFER_PICKLE and ends with a
    hint."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"[COFFER_PICKLE] {what}\nhint: {hint}")


def name(text: str) -> PickleRefused:
    """A pickle has a name that is not on the list."""
    what = (
        f"a pickle from an executor names {shown(text)}, which is not on the list of what the "
        "driver's Python takes from pickles"
    )
    if _makes_code(text):
        hint = (
            "a class of a script or notebook travels as code: put it into a module that executors "
            f"have, too, and add its full name to {ALLOW}; or {_PLAIN_VALUES}"
        )
    elif never(text):
        hint = f"{_PLAIN_VALUES} ({ALLOW} takes no names of modules that can run code)"
    else:
        hint = (
            f"{_PLAIN_VALUES}; or, if it is a class that only holds data, set {ALLOW}={shown(text)}"
        )
    return PickleRefused(what, hint)


def step(what: str) -> PickleRefused:
    """A pickle does what none of plain values does."""
    return PickleRefused(
        f"a pickle from an executor {what}, which none of plain values does",
        f"{_PLAIN_VALUES}; {ALLOW} adds classes that only hold data, by their full names",
    )


def shown(text: str) -> str:
    """A name of a pickle's, in an error: neither long nor of several lines."""
    return text if re.fullmatch(r"[\w.<>]{1,200}", text) else ascii(text[:200])


def additions(text: str) -> frozenset[str]:
    """The user's names: exact ones, separated by commas. Raises ValueError for one that is none."""
    names = frozenset(part.strip() for part in text.split(",") if part.strip())
    for added in sorted(names):
        if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", added):
            raise ValueError(
                f"[COFFER_CONF] {ALLOW} has {added}, which is no class's full name\n"
                "hint: name each class as module.Class, separated by commas; packages, prefixes "
                "and "
                "wildcards are not taken"
            )
        if never(added):
            raise ValueError(
                f"[COFFER_CONF] {ALLOW} has {added}: who sends that name can run code in the "
                f"driver\n"
                f"hint: {_PLAIN_VALUES}, or use a local master"
            )
    return names


# Modules whose business is to run code, or to reach what does. It keeps users from mistakes; what
# executors may send is decided by the list alone.
_CODE = """
    __builtin__ _codecs _ctypes _functools _io _operator _pickle _posixsubprocess _thread asyncio
    bdb builtins cPickle code codecs codeop concurrent copy_reg copyreg ctypes doctest ensurepip
    functools gc idlelib importlib inspect io linecache logging marshal mmap multiprocessing nt
    operator os pdb pickle pip pkgutil platform posix profile pty py4j pydoc runpy shelve shutil
    signal site socket socketserver ssl subprocess sys tempfile test threading timeit trace types
    unittest urllib venv webbrowser xmlrpc
"""


def never(text: str) -> bool:
    """Whether nobody may add the name."""
    return text.partition(".")[0] in _CODE.split() or _makes_code(text)


def _makes_code(text: str) -> bool:
    """Whether it is one of cloudpickle's, which make classes and functions of what a pickle
    says."""
    return re.match(r"(.*\.)?cloudpickle(\.|$)", text) is not None
