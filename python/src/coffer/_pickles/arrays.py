"""NumPy's values in pickles. NumPy believes a pickle about lengths, and about what is a pointer:
parts that do not fit together would have it read memory that is none of theirs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from coffer._pickles import refusals

_KINDS = "biufcmMSU"  # numbers, times, texts and bytes: no objects, no records
_DIMENSIONS = 64


def is_numpy(thing: Any) -> bool:
    """Whether it is one of the two kinds of objects that `check_state` knows."""
    import numpy as np

    return isinstance(thing, np.dtype) or type(thing) is np.ndarray


def check_state(thing: Any, state: Any) -> None:
    """Raises PickleRefused if the state does not fit."""
    import numpy as np

    if isinstance(thing, np.dtype):
        fits = _plain(thing) and _dtype_state(thing.__reduce__()[2], state)
    else:
        fits = (
            (thing.shape == (0,) and thing.base is None)
            and (type(state) is tuple and len(state) == 5)
            and (type(state[0]) is int and type(state[3]) in (bool, int))
            and _fits(state[1], state[2], state[4])
        )
    if not fits:
        raise _misfit()


def _dtype_state(own: tuple[Any, ...], state: Any) -> bool:
    """Only the byte order and a time's unit may differ from the type that the code alone makes."""
    if type(state) is not tuple or len(state) not in (8, len(own)):
        return False
    if any(type(part) not in (int, str, type(None)) for part in state[:8]):
        return False
    if state[0] not in (3, 4) or state[1] not in ("<", ">", "=", "|") or state[2:8] != own[2:8]:
        return False
    if len(state) == 8:
        return True
    if type(state[8]) is not tuple or len(state[8]) != 2:
        return False
    metadata, unit = state[8]
    return (
        (metadata is None or (type(metadata) is dict and not metadata))
        and type(unit) is tuple
        and [type(part) for part in unit] == [bytes, int, int, int]
    )


def _plain(dtype: Any) -> bool:
    import numpy as np

    return isinstance(dtype, np.dtype) and dtype.kind in _KINDS and not dtype.hasobject


def _fits(shape: Any, dtype: Any, data: Any) -> bool:
    return (
        _plain(dtype)
        and (type(shape) is tuple and len(shape) <= _DIMENSIONS)
        and all(type(length) is int and length >= 0 for length in shape)
        and type(data) in (bytes, bytearray)
        and math.prod(shape) * dtype.itemsize == len(data)
    )


def _misfit() -> refusals.PickleRefused:
    return refusals.step("has a value of NumPy's whose parts do not fit together")


@cache
def _numpy() -> tuple[Any, Any]:
    """NumPy's own functions, under the names of this version."""
    try:
        from numpy._core import multiarray, numeric
    except ImportError:
        from numpy.core import multiarray, numeric
    return multiarray, numeric


def _dtype(code: Any = None, *_: Any) -> Any:
    import numpy as np

    if type(code) is not str or not re.fullmatch(rf"[{_KINDS}]\d{{0,9}}", code):
        raise refusals.step("has a value of NumPy's other than numbers, times and texts")
    # A copy: what exists once in a process is not a pickle's to change.
    return np.dtype(code, False, True)


def _ndarray(*_: Any) -> Any:
    raise _misfit()


def _reconstruct(kind: Any = None, shape: Any = None, code: Any = None) -> Any:
    import numpy as np

    if getattr(kind, "function", None) is not _ndarray or shape != (0,) or code not in (b"b", "b"):
        raise _misfit()
    return _numpy()[0]._reconstruct(np.ndarray, (0,), b"b")


def _scalar(dtype: Any = None, data: Any = None) -> Any:
    if not _fits((), dtype, data):
        raise _misfit()
    return _numpy()[0].scalar(dtype, data)


def _frombuffer(
    data: Any = None, dtype: Any = None, shape: Any = None, order: Any = None, axes: Any = None
) -> Any:
    if not _fits((shape,) if type(shape) is int else shape, dtype, data):
        raise _misfit()
    if order not in ("C", "F", "K") or not (axes is None or type(axes) is tuple):
        raise _misfit()
    return _numpy()[1]._frombuffer(data, dtype, shape, order, *([] if axes is None else [axes]))


FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _dtype,
    ("numpy", "ndarray"): _ndarray,
    **{
        (f"numpy.{core}.{module}", function): guard
        for core in ("core", "_core")
        for module, function, guard in (
            ("multiarray", "_reconstruct", _reconstruct),
            ("multiarray", "scalar", _scalar),
            ("numeric", "_frombuffer", _frombuffer),
        )
    },
}
