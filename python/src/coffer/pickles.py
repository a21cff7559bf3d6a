"""Pickles from executors, opened in the driver's Python without running what they say.

`collect`, `take`, `reduce` and the like of a Python RDD, and `df.rdd`, open what executors send
with `pickle`, which calls whatever the bytes name. With a cluster's master executors are hostile,
so `install` has PySpark open pickles in this process with a list of names
(`coffer._pickles.names`); any other name is an error with the code COFFER_PICKLE. What the driver's
own JVM sends as pickles, the rows of `DataFrame.collect` among it, takes the same way, and is on
the list. Executors' Python workers are other processes and open what the driver sends as ever.

It does not make rows true: values of plain data are the executors' word, as they were.
"""

from __future__ import annotations

import copyreg
import importlib
import io
import pickle
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from coffer._pickles import names, refusals
from coffer._pickles.refusals import ALLOW, PickleRefused, additions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ALLOW", "PickleRefused", "additions", "install", "is_local", "loads"]

# The names that the user adds; None: pickles are opened as Python does, as before `install` and
# with a local master.
_added: frozenset[str] | None = None


def install(spark: SparkSession) -> None:
    """Has this process open pickles by the list if the session's master is a cluster, and as ever
    if it is a local one, whose workers are this machine's. Harmless when called again.
    `coffer.session` calls it; a session that is configured by hand needs it, too."""
    global _added
    context = spark.sparkContext
    if is_local(context.master):
        _added = None
        return
    _added = frozenset()
    _replace()
    _added = additions(context.getConf().get(ALLOW) or "")


def is_local(master: str) -> bool:
    """Whether executors are this machine's own: `local`, `local[*]`; not `local-cluster[…]`."""
    return master == "local" or master.startswith("local[")


def loads(data: bytes | bytearray, encoding: str = "bytes") -> Any:
    """What the pickle holds, or PickleRefused."""
    _late()
    try:
        # An extension code that Python has seen before would come out of its cache, past any list.
        if not copyreg._extension_cache:  # type: ignore[attr-defined]
            try:
                # With a `peek`, without which old protocols are read byte by byte.
                file = io.BufferedReader(io.BytesIO(data), 1 << 17)  # type: ignore[arg-type]
                return _Plain(file, encoding=encoding).load()
            except _Checks:
                pass
        return _Checked(io.BytesIO(data), encoding=encoding).load()
    except EOFError:
        # To PySpark it would mean the end of all results.
        raise refusals.step("ends too early") from None


class _Checks(Exception):
    """The pickle has a name that is not plain."""


class _Plain(pickle.Unpickler):
    """For plain names: what they are cannot be changed, so no step needs a look."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return names.plain()[module, name]
        except KeyError:
            raise _Checks from None

    def persistent_load(self, _id: Any) -> Any:
        raise refusals.step("refers to an object outside of itself")


class _Checked(pickle._Unpickler):  # type: ignore[misc, name-defined]
    """For checked names: Python's other unpickler, the one whose steps can be replaced."""

    def find_class(self, module: str, name: str) -> Any:
        found = names.plain().get((module, name))
        if found is None:
            found = names.checked(module, name)
        if found is None:
            text = f"{module}.{name}"
            if text not in (_added or ()):
                raise refusals.name(text)
            found = names.added(module, name)
        return found

    def persistent_load(self, _id: Any) -> Any:
        raise refusals.step("refers to an object outside of itself")

    def get_extension(self, _code: int) -> None:
        raise refusals.step("names things by numbers")

    def load_build(self) -> None:
        names.check_state(self.stack[-2], self.stack[-1], _added or frozenset())
        super().load_build()

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,  # type: ignore[attr-defined]
        pickle.BUILD[0]: load_build,
    }


def _replace() -> None:
    """Puts `loads` in the place of what PySpark opens pickles with."""
    from pyspark import cloudpickle, serializers
    from pyspark.sql.types import UserDefinedType

    if getattr(cloudpickle.loads, "_coffer", False):
        return
    # CPickleSerializer is CloudPickleSerializer, and that calls cloudpickle.loads, as others of
    # PySpark's modules do.
    cloudpickle.loads = cloudpickle.cloudpickle.loads = _opener(cloudpickle.loads)
    opened: Any = serializers.PickleSerializer
    opened.loads = _method(opened.loads)
    unmarshalled: Any = serializers.MarshalSerializer
    unmarshalled.loads = _unmarshal(unmarshalled.loads)
    of_users: Any = UserDefinedType
    of_users.fromJson = classmethod(_from_json(of_users.fromJson))


def _opener(original: Callable[..., Any]) -> Callable[..., Any]:
    def opened(data: Any, /, **options: Any) -> Any:
        if _added is None:
            return original(data, **options)
        return loads(data, options.get("encoding", "ASCII"))

    opened._coffer = True  # type: ignore[attr-defined]
    return opened


def _method(original: Callable[..., Any]) -> Callable[..., Any]:
    def opened(self: Any, obj: Any, encoding: str = "bytes") -> Any:
        return original(self, obj, encoding) if _added is None else loads(obj, encoding)

    return opened


def _unmarshal(original: Callable[..., Any]) -> Callable[..., Any]:
    """Marshal's format runs nothing, but Python does not defend its memory against it."""

    def opened(self: Any, obj: Any) -> Any:
        if _added is None:
            return original(self, obj)
        raise PickleRefused(
            "an executor sent data in Python's marshal format, which cannot be opened safely",
            "use PySpark's default serializer",
        )

    return opened


def _from_json(original: Callable[..., Any]) -> Callable[..., Any]:
    def from_json(_cls: Any, json: dict[str, Any]) -> Any:
        if _added is not None:
            names.check_udt(str(json.get("pyClass")), _added)
        return original(json)

    return from_json


class _Pickle:
    """Python's `pickle` for a module of PySpark's that opens pickles by itself; to executors it is
    `pickle`."""

    dumps = staticmethod(pickle.dumps)
    loads = staticmethod(_opener(pickle.loads))

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, ("pickle",)


def _late() -> None:
    """pandas on Spark opens one pickle of an executor's with `pickle` itself. It came in a row, and
    so by this way; to load that module with every session would cost seconds."""
    module = sys.modules.get("pyspark.pandas.namespace")
    if module is not None and getattr(module, "pickle", None) is pickle:
        module.pickle = _Pickle()  # type: ignore[attr-defined]
