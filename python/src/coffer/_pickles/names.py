"""The names that a pickle from executors may have, and what may be done with each.

A pickle is a program: it names classes and functions, has them called with arguments of its own,
and sets the state of what they return. Each name here was read with that in mind. Called with
anything, it calls nothing that the pickle chose, and it changes nothing that outlives the pickle;
who adds a name answers both questions.

* *Plain* names are types that nobody can change, and functions that a pickle can only call. A
  pickle with no other names is opened by Python's fast unpickler.
* *Checked* names are classes that could be changed, or whose objects are given a state. A pickle
  with one of them is opened by an unpickler that looks at each such step.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from coffer._pickles import arrays, refusals


class Function:
    """A function that a pickle can call, and to which it can do nothing else."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        object.__setattr__(self, "function", function)

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __setattr__(self, _name: str, _value: Any) -> None:
        raise refusals.step("changes a function")

    def __setstate__(self, _state: Any) -> None:
        raise refusals.step("changes a function")


# ---- plain names -------------------------------------------------------------------------------

_PLAIN = {
    "array": "array _array_reconstructor",
    "builtins": (
        "bool bytearray bytes complex dict float frozenset int list range set slice str tuple "
        "Ellipsis NotImplemented "
        "ArithmeticError AssertionError AttributeError Exception IndexError KeyError LookupError "
        "NotImplementedError OSError OverflowError RuntimeError StopIteration TimeoutError "
        "TypeError "
        "UnicodeDecodeError UnicodeEncodeError UnicodeError ValueError ZeroDivisionError"
    ),
    "collections": "OrderedDict defaultdict deque",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
}


@cache
def plain() -> dict[tuple[str, str], Any]:
    """What each plain name is."""
    from pyspark.sql.types import _create_row

    found: dict[tuple[str, str], Any] = {}
    for module, names in _PLAIN.items():
        for name in names.split():
            found[module, name] = getattr(importlib.import_module(module), name)
            if module == "builtins":  # in pickles of the JVM, which speaks Python 2's protocol
                found["__builtin__", name] = found[module, name]
    functions = {
        "_create_row": _create_row,
        "_create_row_inbound_converter": _row_converter,
        "_parse_datatype_json_string": _Schema,
    }
    for name, function in functions.items():
        found["pyspark.sql.types", name] = Function(function)
    return found


class _Schema:
    """A schema on its way to a converter of rows. Types such as `DateType()` exist once in a
    process: a pickle that got hold of one could change how every row is read from then on."""

    __slots__ = ("schema",)

    def __init__(self, text: Any = None) -> None:
        from pyspark.sql.types import _parse_datatype_json_string

        if type(text) is not str:
            raise refusals.step("has a schema that is no text")
        object.__setattr__(self, "schema", _parse_datatype_json_string(text))

    def __setattr__(self, _name: str, _value: Any) -> None:
        raise refusals.step("changes a schema")

    def __setstate__(self, _state: Any) -> None:
        raise refusals.step("changes a schema")


def _row_converter(schema: Any = None) -> Callable[..., Any]:
    from pyspark.sql.types import _create_row_inbound_converter

    if type(schema) is not _Schema:
        raise refusals.step("has rows of something that is no schema")
    return _create_row_inbound_converter(schema.schema)


# ---- checked names -----------------------------------------------------------------------------

# Of classes, with the attributes that make up their objects' state: none, where calling the class
# makes the object.
_LINALG = dict.fromkeys(("DenseVector", "SparseVector", "DenseMatrix", "SparseMatrix"), "")
_UDTS = dict.fromkeys(("VectorUDT", "MatrixUDT"), "")
_SINGLE_TYPES = """
    BinaryType BooleanType ByteType CalendarIntervalType DateType DoubleType FloatType IntegerType
    LongType NullType ShortType TimestampNTZType TimestampType
"""
_CLASSES: dict[str, dict[str, str]] = {
    "collections": {"Counter": ""},
    "fractions": {"Fraction": ""},
    "uuid": {"UUID": "int is_safe"},
    "pyspark.ml.linalg": {**_LINALG, **_UDTS},
    "pyspark.mllib.linalg": {**_LINALG, **_UDTS},
    "pyspark.mllib.linalg.distributed": {"IndexedRow": "index vector", "MatrixEntry": "i j value"},
    "pyspark.mllib.recommendation": {"Rating": ""},
    "pyspark.mllib.regression": {"LabeledPoint": ""},
    "pyspark.resultiterable": {"ResultIterable": "data index maxindex"},
    "pyspark.sql.types": {
        "Row": "",
        **dict.fromkeys(_SINGLE_TYPES.split(), ""),
        "ArrayType": "elementType containsNull",
        "DayTimeIntervalType": "startField endField",
        "DecimalType": "precision scale hasPrecisionInfo",
        "MapType": "keyType valueType valueContainsNull",
        "StringType": "collation",
        "StructField": "name dataType nullable metadata",
        "StructType": "fields names _needConversion _needSerializeAnyField",
        "TimeType": "precision",
        "VariantVal": "value metadata",
        "YearMonthIntervalType": "startField endField",
    },
    "pyspark.statcounter": {"StatCounter": "n mu m2 maxValue minValue"},
}


def checked(module: str, name: str) -> Any | None:
    """What a checked name is; None for a name that is not on the list."""
    function = _FUNCTIONS.get((module, name))
    if function is not None:
        return Function(function)
    if name in _CLASSES.get(module, ()):
        return getattr(importlib.import_module(module), name)
    return None


def added(module: str, name: str) -> Any:
    """What a name is that the user added."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def check_state(thing: Any, state: Any, additions: frozenset[str]) -> None:
    """Raises PickleRefused if a pickle may not give this state to this object."""
    kind = type(thing)
    module, name = kind.__module__, kind.__qualname__
    if module.partition(".")[0] == "numpy" and arrays.is_numpy(thing):
        arrays.check_state(thing, state)
        return
    if name in _CLASSES.get(module, ()):
        attributes = _CLASSES[module][name].split()
        named = type(state) is dict and all(type(key) is str and key in attributes for key in state)
        if not attributes or not named:
            raise refusals.step(f"gives a {name} a state that is not its own")
        return
    if plain().get((module, name)) is not kind and f"{module}.{name}" not in additions:
        raise refusals.step(f"sets the state of a {refusals.shown(name)}")


def _row(kind: Any = None, base: Any = None, values: Any = None) -> Any:
    """A row without names: all that is left of a function that makes objects of any class."""
    from pyspark.sql.types import Row

    if kind is not Row or base is not tuple or type(values) is not tuple:
        raise refusals.name("copyreg._reconstructor")
    return Row(*values)


_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("copyreg", "_reconstructor"): _row,
    **arrays.FUNCTIONS,
}


def check_udt(text: str, additions: frozenset[str]) -> None:
    """Raises PickleRefused if a schema may not name this class as a user-defined type. Spark
    imports the module that it names, whichever that is."""
    from pyspark.sql.types import UserDefinedType

    module, _, name = text.rpartition(".")
    if text in additions or (name in _UDTS and name in _CLASSES.get(module, ())):
        return
    known = getattr(sys.modules.get(module), name, None)
    if not (isinstance(known, type) and issubclass(known, UserDefinedType)):
        raise refusals.PickleRefused(
            f"a schema names {refusals.shown(text)}, which is no user-defined type that this "
            f"Python has imported",
            f"import the module of the type first, or add the type's full name to {refusals.ALLOW}",
        )
