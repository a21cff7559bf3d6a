"""Pickles from executors: what the driver's Python makes of them, and what it refuses without
running any of it."""

from __future__ import annotations

import array
import collections
import copyreg
import datetime
import decimal
import fractions
import pickle
import struct
import subprocess
import sys
import types
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark import cloudpickle
from pyspark.ml.linalg import Matrices, Vectors, VectorUDT
from pyspark.mllib.linalg import Vectors as OldVectors
from pyspark.mllib.regression import LabeledPoint
from pyspark.resultiterable import ResultIterable
from pyspark.serializers import CPickleSerializer, MarshalSerializer, PickleSerializer
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    MapType,
    Row,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
)
from pyspark.statcounter import StatCounter

from coffer import PickleRefused, pickles
from coffer._pickles import names

MARK = "pickles-ran-here"


@pytest.fixture(autouse=True)
def restricted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """As on a cluster, without one; and nothing that was refused has run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pickles, "_added", frozenset())
    yield
    assert not (tmp_path / MARK).exists()


# ---- what passes -------------------------------------------------------------------------------

VALUES = [
    *(
        None,
        True,
        1,
        1 << 90,
        1.5,
        2j,
        "text",
        b"bytes",
        bytearray(b"x"),
        ...,
        int,
        [1],
        (1,),
        {"a": {1}},
    ),
    *({1, 2}, frozenset([1]), range(3), slice(1, 2), array.array("i", [1, 2])),
    *(
        datetime.date(2020, 1, 1),
        datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
        datetime.time(1),
    ),
    *(datetime.timedelta(1), decimal.Decimal("1.50"), fractions.Fraction(1, 3), uuid.UUID(int=7)),
    *(
        collections.OrderedDict(a=1),
        collections.defaultdict(int, a=1),
        collections.Counter("aab"),
        collections.deque([1]),
    ),
    *(Row(a=1, b=Row(c=[2])), Row(1, "x"), Row()),
    *(
        Vectors.dense([1, 2]),
        Vectors.sparse(3, [1], [2.0]),
        Matrices.dense(1, 2, [1, 2]),
        OldVectors.dense([1]),
    ),
    *(LabeledPoint(1.0, [1.0]).features, StatCounter([1, 2, 3]), ResultIterable([1, 2])),
    StructType()
    .add("a", ArrayType(DecimalType(5, 2)))
    .add("m", MapType(StringType(), DayTimeIntervalType())),
]

NUMPY = [
    *(
        np.float64(1.5),
        np.int32(3),
        np.bool_(True),
        np.str_("abc"),
        np.bytes_(b"ab"),
        np.complex64(1j),
    ),
    *(np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.dtype(">U7"), np.dtype("f8")),
    *(
        np.arange(6).reshape(2, 3),
        np.arange(6).reshape(2, 3).T,
        np.arange(10)[::2],
        np.arange(3, dtype=">i4"),
    ),
    *(
        np.array(["a", "bcd"]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.zeros(0),
        np.zeros((2, 0)),
        np.array(5.0),
    ),
    np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
]


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("value", VALUES + NUMPY, ids=lambda value: type(value).__name__)
def test_values_come_as_python_opens_them(value: Any, protocol: int) -> None:
    data = cloudpickle.dumps([value, value], protocol)
    got, again = pickles.loads(data)
    expected, shared = pickle.loads(data)
    assert (got is again) == (expected is shared)
    assert type(got) is type(expected)
    if isinstance(expected, np.ndarray):
        assert got.dtype == expected.dtype and np.array_equal(got, expected) and got.flags.writeable
    elif isinstance(expected, StatCounter | ResultIterable):
        assert vars(got) == vars(expected)
    else:
        assert got == expected and repr(got) == repr(expected)


def test_errors_that_tasks_return_as_values() -> None:
    (error,) = pickles.loads(cloudpickle.dumps([ValueError("not a number", 7)]))
    assert type(error) is ValueError and error.args == ("not a number", 7)


def test_rows_of_the_jvm() -> None:
    schema = (
        StructType().add("n", IntegerType()).add("d", DateType()).add("b", ArrayType(DateType()))
    )
    day = datetime.date(2020, 1, 2)
    values = (1, schema["d"].dataType.toInternal(day), [18262])
    binary = (
        _global("__builtin__", "bytearray") + b"(" + _text("\xff\x00") + _text("latin-1") + b"tR"
    )
    parts = [
        *(_jvm_row(schema, values), _jvm_row(schema, values)),
        _global("builtins", "bytes") + binary + b"\x85R",
        _global("__builtin__", "set") + b"](K\x01K\x02e\x85R",
        _global("decimal", "Decimal") + _text("1.5") + b"\x85R",
    ]
    data = b"\x80\x02](" + b"".join(parts) + b"e."
    row, again, raw, numbers, amount = pickles.loads(data)
    assert row == again == Row(n=1, d=day, b=[datetime.date(2020, 1, 1)])
    assert row.__fields__ == ["n", "d", "b"] and (raw, numbers, amount) == (
        b"\xff\x00",
        {1, 2},
        decimal.Decimal("1.5"),
    )


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def _jvm_row(schema: DataType, values: tuple[Any, ...]) -> bytes:
    """As Spark's RowPickler writes one."""
    types = "pyspark.sql.types"
    parsed = _global(types, "_parse_datatype_json_string") + _text(schema.json()) + b"\x85R"
    return (
        _global(types, "_create_row_inbound_converter")
        + parsed
        + b"\x85R"
        + pickle.dumps(values, 2)[2:-1]
        + b"R"
    )


def test_plain_names_cannot_be_changed_by_a_pickle() -> None:
    immutable = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
    for name, found in names.plain().items():
        if isinstance(found, type):
            assert found.__flags__ & immutable, name
        else:
            constants = (types.EllipsisType, types.NotImplementedType, types.BuiltinFunctionType)
            assert isinstance(found, (names.Function, *constants)), name


# ---- what does not -----------------------------------------------------------------------------


class Calls:
    """An object whose pickle has this called."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, state: Any = None) -> None:
        self.parts = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.parts


class InScript:
    """Stands for a class of a script; pickled by value."""


def _stack_global(module: str, name: str) -> bytes:
    return (
        b"\x80\x04"
        + b"".join(b"\x8c" + bytes([len(part)]) + part.encode() for part in (module, name))
        + b"\x93"
    )


TOUCH = f"import pathlib; pathlib.Path({MARK!r}).touch()"
SHELL = f"touch {MARK}"


def _system() -> Calls:
    import os

    return Calls(os.system, SHELL)


BY_NAME: dict[str, tuple[Any, str]] = {
    "os.system": (_system(), "posix.system"),
    "in a list": ([1, [_system()]], "posix.system"),
    "in a dict's key": ({(1, _system()): 2}, "posix.system"),
    "in a Row": (Row(a=1, b=_system()), "posix.system"),
    "in an OrderedDict": (collections.OrderedDict(a=_system()), "posix.system"),
    "in a UUID's neighbour": ([uuid.UUID(int=1), _system()], "posix.system"),
    "as a default factory": (Calls(collections.defaultdict, exec), "builtins.exec"),
    "as an argument of a listed type": (Calls(set, [_system()]), "posix.system"),
    "subprocess": (Calls(subprocess.Popen, SHELL), "subprocess.Popen"),
    "eval": (Calls(eval, TOUCH), "builtins.eval"),
    "exec": (Calls(exec, TOUCH), "builtins.exec"),
    "getattr": (Calls(getattr, "text", "join"), "builtins.getattr"),
    "__import__": (Calls(__import__, "antigravity"), "builtins.__import__"),
    "type": (Calls(type, "T", (), {}), "builtins.type"),
    "map": (Calls(map, str, [1]), "builtins.map"),
    "pickle.loads": (Calls(pickle.loads, b"N."), "_pickle.loads"),
    "cloudpickle": (InScript, "cloudpickle"),
    "a lambda": (lambda: 1, "cloudpickle"),
    "a file": (Calls(open, MARK, "w"), ".open"),
    "another class": (Path("x"), "pathlib.PosixPath"),
    "a module": (sys, "subimport"),
    "any object by its class": (
        Calls(copyreg._reconstructor, uuid.UUID, dict, None),
        "copyreg._reconstructor",
    ),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("case", BY_NAME)
def test_a_name_off_the_list_is_refused(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value, name = BY_NAME[case]
    if value is InScript:
        monkeypatch.setattr(InScript, "__module__", "__main__")
    with pytest.raises(PickleRefused) as refused:
        pickles.loads(cloudpickle.dumps(value))
    message = str(refused.value)
    assert message.startswith("[COFFER_PICKLE] ") and "\nhint: " in message
    hint = message.partition("\nhint: ")[2]
    assert name in message and "spark.coffer.driver.allowPickles" in hint


BY_BYTES = {
    "an attribute of a module": _stack_global("datetime", "sys.modules") + b".",
    "an attribute of a class": _stack_global("builtins", "str.format_map") + b".",
    "an attribute of a listed function": _stack_global(
        "pyspark.sql.types", "_create_row.__globals__"
    )
    + b".",
    "an attribute of a checked class": _stack_global("pyspark.sql.types", "Row.__getattr__") + b".",
    "a module of a listed package": _stack_global("pyspark.sql.types", "json") + b".",
    "os.system in the oldest protocol": b"cos\nsystem\n(S'" + SHELL.encode() + b"'\ntR.",
    "os.system by INST": b"(S'" + SHELL.encode() + b"'\nios\nsystem\n.",
    "os.system by OBJ": b"(cos\nsystem\nS'" + SHELL.encode() + b"'\no.",
    "the name Python 2 had for eval": b"\x80\x02c__builtin__\neval\nX\x01\x00\x00\x001\x85R.",
    "a persistent id": b"\x80\x04K\x01Q.",
    "a persistent id as text": b"Pnumber one\n.",
    "a persistent id beside a checked name": b"\x80\x04]("
    + _stack_global("uuid", "UUID")[2:]
    + b"K\x01Qe.",
    "a name of many lines": b"\x80\x04\x8c\x03a\nb\x8c\x03c\x1bd\x93.",
    "a pickle that ends early": b"\x80\x04]K\x01",
    "a pickle that ends early behind a checked name": _stack_global("uuid", "UUID"),
}


@pytest.mark.parametrize("case", BY_BYTES)
def test_bytes_that_are_refused(case: str) -> None:
    with pytest.raises((PickleRefused, pickle.UnpicklingError)) as refused:
        pickles.loads(BY_BYTES[case])
    assert "truncated" in str(refused.value) or str(refused.value).startswith("[COFFER_PICKLE] ")
    assert str(refused.value).count("\n") <= 1


@pytest.mark.parametrize("seen", [False, True])
def test_extension_codes_are_refused(seen: bool) -> None:
    copyreg.add_extension("posix", "system", 200)
    try:
        if seen:
            assert pickle.loads(b"\x80\x02\x82\xc8.")
        for data in (
            b"\x80\x02\x82\xc8.",
            b"\x80\x02\x83\xc8\x00.",
            b"\x80\x02\x84\xc8\x00\x00\x00.",
        ):
            with pytest.raises(PickleRefused, match="COFFER_PICKLE"):
                pickles.loads(data)
    finally:
        copyreg.remove_extension("posix", "system", 200)
        copyreg.clear_extension_cache()


# A pickle that gives a state to a class, or to what exists once in the process, changes what the
# driver does later on.
TYPES = "pyspark.sql.types"
ONE_DATE_LATER = b"}" + _text("EPOCH_ORDINAL") + b"J\xbb\xf9\x0a\x00s"
ON_ATTRIBUTES = b"N}" + _text("fromInternal") + _global("builtins", "str") + b"s\x86"
A_DATE_TYPE = _global(TYPES, "_parse_datatype_json_string") + _text('"date"') + b"\x85R"
A_COUNTER = _global("pyspark.statcounter", "StatCounter") + b")\x81"
A_DTYPE = _global("numpy", "dtype") + b"("
STATES = {
    "the type of dates, from a schema": A_DATE_TYPE + ONE_DATE_LATER,
    "the type of dates, made": _global(TYPES, "DateType") + b")R" + ONE_DATE_LATER,
    "the class of dates": _global(TYPES, "DateType") + ON_ATTRIBUTES,
    "the class of rows": _global(TYPES, "Row") + ON_ATTRIBUTES,
    "a function of rows": _global(TYPES, "_create_row") + ON_ATTRIBUTES,
    "a function of arrays": _global("numpy._core.multiarray", "scalar") + ON_ATTRIBUTES,
    "a type of Python's": _global("builtins", "set") + ON_ATTRIBUTES,
    "a class by a dict": _global("collections", "Counter") + ONE_DATE_LATER,
    "a method of a listed object": A_COUNTER + b"}" + _text("merge") + _text("x") + b"s",
    "an attribute of a listed object, by its slots": A_COUNTER + ON_ATTRIBUTES,
    "a listed object that has no state": _global("collections", "Counter")
    + b")\x81}"
    + _text("keys")
    + b"Ns",
    "NumPy's numbers": A_DTYPE
    + _text("f8")
    + b"\x89\x89tR(K\x03"
    + _text("<")
    + b"NNNK\x10K\x08K\x00t",
    "NumPy's pointers": A_DTYPE
    + _text("O8")
    + b"\x89\x88tR(K\x03"
    + _text("|")
    + b"NNNK\x08K\x08K\x00t",
}


def _shared() -> list[Any]:
    """What a pickle could change for all later ones."""
    from pyspark.sql.types import _create_row

    owners = (DateType(), DateType, Row, _create_row, collections.Counter, StatCounter)
    return [
        DateType().EPOCH_ORDINAL,
        np.dtype("f8").itemsize,
        *(dict(vars(owner)) for owner in owners),
    ]


@pytest.mark.parametrize("case", STATES)
def test_what_outlives_a_pickle_is_not_changed(case: str) -> None:
    before = _shared()
    with pytest.raises((PickleRefused, AttributeError, TypeError)):
        pickles.loads(b"\x80\x02" + STATES[case] + b"b.")
    assert before == _shared()


ARRAYS = {
    "longer than its bytes": ((1, (4,), np.dtype("f8"), False, b"\0" * 8), None),
    "of a negative length": ((1, (-1, -1), np.dtype("f8"), False, b"\0" * 8), None),
    "of objects": ((1, (1,), np.dtype("O"), False, [1]), "numbers, times and texts"),
    "of records": (
        (1, (1,), np.dtype([("a", "i4")]), False, b"\0" * 4),
        "numbers, times and texts",
    ),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_whose_parts_do_not_fit_are_refused(case: str) -> None:
    from numpy._core.multiarray import _reconstruct

    state, part = ARRAYS[case]
    with pytest.raises(PickleRefused, match=part or "do not fit together"):
        pickles.loads(pickle.dumps(Calls(_reconstruct, np.ndarray, (0,), b"b", state=state)))


def test_buffers_and_scalars_that_do_not_fit_are_refused() -> None:
    from numpy._core.multiarray import scalar
    from numpy._core.numeric import _frombuffer

    for value in (
        Calls(_frombuffer, b"\0" * 8, np.dtype("f8"), (2,), "C"),
        Calls(_frombuffer, b"\0" * 8, "O", (1,), "C"),
        Calls(scalar, np.dtype("f8"), b"\0"),
        Calls(scalar, "O", b"\0" * 8),
        Calls(np.ndarray, (1 << 40,)),
    ):
        with pytest.raises(PickleRefused, match="do not fit together"):
            pickles.loads(pickle.dumps(value))


# ---- types of the user's, and names that the user adds -----------------------------------------


class PointUDT(UserDefinedType):
    @classmethod
    def sqlType(cls) -> DataType:
        return ArrayType(IntegerType())

    @classmethod
    def module(cls) -> str:
        return __name__

    def deserialize(self, datum: Any) -> Any:
        return tuple(datum)


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def test_user_defined_types() -> None:
    points = StructType([StructField("p", PointUDT())])
    (row,) = pickles.loads(b"\x80\x02](" + _jvm_row(points, ([1, 2],)) + b"e.")
    assert row == Row(p=(1, 2))
    schema = StructType().add("v", VectorUDT())
    values = ((1, None, None, [1.0, 2.0]),)
    assert pickles.loads(b"\x80\x02" + _jvm_row(schema, values) + b".") == Row(
        v=Vectors.dense([1, 2])
    )


@pytest.mark.parametrize(
    "name", ["antigravity.X", "subprocess.Popen", "json.tool.main", "nowhere", ""]
)
def test_a_schema_has_nothing_imported_or_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pickles_replaced(monkeypatch)
    json = f'{{"type":"udt","pyClass":"{name}","serializedClass":"","sqlType":"integer"}}'
    before = set(sys.modules)
    with pytest.raises(PickleRefused, match="no user-defined type"):
        pickles.loads(
            b"\x80\x02" + _global(TYPES, "_parse_datatype_json_string") + _text(json) + b"\x85R."
        )
    assert set(sys.modules) == before


def test_names_that_the_user_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{__name__}.Point"
    data = pickle.dumps([Point(7), {1}])
    with pytest.raises(PickleRefused, match=f"allowPickles={name}"):
        pickles.loads(data)
    monkeypatch.setattr(pickles, "_added", pickles.additions(f" {name} , other.Class"))
    point, rest = pickles.loads(data)
    assert type(point) is Point and point.x == 7 and rest == {1}
    # It adds that class, and not what hangs on it.
    for other in ("Point.__init__", "Points", "sys"):
        with pytest.raises(PickleRefused):
            pickles.loads(_stack_global(__name__, other) + b".")
    with pytest.raises(PickleRefused, match="sets the state of a type"):
        pickles.loads(_stack_global(__name__, "Point") + b"N}" + _text("x") + b"K\x01s\x86b.")


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "builtins.eval",
        "pyspark.cloudpickle.cloudpickle._make_function",
        "subprocess.Popen",
    ],
)
def test_names_that_nobody_adds(name: str) -> None:
    with pytest.raises(ValueError, match=r"^\[COFFER_CONF\] .*can run code in the driver\nhint: "):
        pickles.additions(f"my.Class,{name}")


@pytest.mark.parametrize(
    "name", ["Class", "my.", "my.*", "my..Class", "my.Class()", "my Class", "*"]
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match=r"^\[COFFER_CONF\] .*no class's full name\nhint: "):
        pickles.additions(name)


# ---- where it is put ---------------------------------------------------------------------------


def pickles_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `install`, until the end of the test."""
    from pyspark import serializers

    for owner, name in (
        *((cloudpickle, "loads"), (cloudpickle.cloudpickle, "loads")),
        *(
            (serializers.PickleSerializer, "loads"),
            (serializers.MarshalSerializer, "loads"),
            (UserDefinedType, "fromJson"),
        ),
    ):
        monkeypatch.setattr(owner, name, vars(owner)[name])
    pickles._replace()


def test_pyspark_opens_pickles_so_until_a_local_session(monkeypatch: pytest.MonkeyPatch) -> None:
    pickles_replaced(monkeypatch)

    class Sub(type(CPickleSerializer())):  # type: ignore[misc]
        pass

    data = pickle.dumps(Calls(len, "four"))
    for serializer in (CPickleSerializer(), PickleSerializer(), Sub()):
        assert serializer.loads(serializer.dumps([1, Row(a=1)])) == [1, Row(a=1)]
        with pytest.raises(PickleRefused, match=r"builtins\.len"):
            serializer.loads(data)
    with pytest.raises(PickleRefused, match=r"builtins\.len"):
        cloudpickle.loads(data)
    with pytest.raises(PickleRefused, match="marshal"):
        MarshalSerializer().loads(MarshalSerializer().dumps([1]))
    namespace = types.ModuleType("pyspark.pandas.namespace")
    namespace.pickle = pickle  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, namespace.__name__, namespace)
    pickles.loads(pickle.dumps(1))
    with pytest.raises(PickleRefused, match=r"builtins\.len"):
        namespace.pickle.loads(data)  # type: ignore[attr-defined]
    assert pickle.loads(cloudpickle.dumps(namespace.pickle)) is pickle  # type: ignore[attr-defined]
    assert pickle.loads(data) == 4
    monkeypatch.setattr(pickles, "_added", None)
    for serializer in (CPickleSerializer(), PickleSerializer(), Sub()):
        assert serializer.loads(data) == 4
    assert (
        MarshalSerializer().loads(MarshalSerializer().dumps([1])) == [1]
        and cloudpickle.loads(data) == 4
    )
