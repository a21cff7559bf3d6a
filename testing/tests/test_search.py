"""The search of the leak harness finds what it looks for, in every form it claims."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from coffer_testing import search
from coffer_testing.search import Hit, Planted, files

NUMBER = 0x5A1DC93BE7F02467
WIDE = Decimal("-7294816350294718563047291846.5038274619")
VALUES = {
    "text": search.text("wombat"),
    "int64": search.int64(NUMBER),
    "family": search.int64_family("keys", NUMBER >> 16),
    "int32": search.int32(0x7A5DC3B9),
    "decimal": search.decimal(Decimal("5031842617953.46")),
    "wide": search.decimal(WIDE),
    "double": search.double(1234.5678901),
    "day": search.day(date(7349, 4, 23)),
    "moment": search.moment(datetime(6817, 9, 14, 11, 52, 37, 481516, UTC)),
}


@pytest.mark.parametrize(
    ("value", "form"), [(name, form) for name, value in VALUES.items() for form in value.forms]
)
def test_each_form_is_found(tmp_path: Path, value: str, form: str) -> None:
    planted = VALUES[value]
    (tmp_path / "file").write_bytes(b"\1\2" + planted.forms[form] + b"\3")
    hits, searched = search.search([tmp_path], [planted, search.text("absent")])
    assert (
        hits[0].value == planted.name and hits[0].path == tmp_path / "file" and hits[0].count == 1
    )
    assert searched == (tmp_path / "file").stat().st_size


def test_forms_are_those_of_arrow_and_java() -> None:
    """Against encodings that others made."""

    def buffer(value: object, kind: pa.DataType, rows: int = 1) -> bytes:
        return pa.array([value] * rows, kind).buffers()[1].to_pybytes()

    assert VALUES["int64"].forms["int64-le"] in buffer(NUMBER, pa.int64())
    assert VALUES["family"].forms["int64-le"] in buffer(NUMBER, pa.int64())
    assert VALUES["family"].forms["int64-be"] in struct.pack(">q", NUMBER)
    assert VALUES["family"].forms["digits-utf-8"] in str(NUMBER).encode()
    assert VALUES["int32"].forms["int32-le-twice"] in buffer(0x7A5DC3B9, pa.int32(), 2)
    assert VALUES["decimal"].forms["decimal-le"] in buffer(
        Decimal("5031842617953.46"), pa.decimal128(15, 2)
    )
    assert VALUES["wide"].forms["decimal128-le"] in buffer(WIDE, pa.decimal128(38, 10))
    assert VALUES["day"].forms["date-le-twice"] in buffer(date(7349, 4, 23), pa.date32(), 2)
    moment = datetime(6817, 9, 14, 11, 52, 37, 481516, UTC)
    assert VALUES["moment"].forms["timestamp-le"] in buffer(moment, pa.timestamp("us", "UTC"))
    assert VALUES["double"].forms["double-be"] == struct.pack(">d", 1234.5678901)
    assert VALUES["text"].forms["utf-16-be"] == b"\0w\0o\0m\0b\0a\0t"


def test_hits_are_counted_by_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"wombat.wombat")
    (tmp_path / "b").write_bytes(b"womba")
    (tmp_path / "empty").touch()
    assert search.search([tmp_path], [VALUES["text"]]) == (
        [Hit(tmp_path / "a", "wombat", "utf-8", 2, (0, 7))],
        18,
    )


def test_what_cannot_be_searched_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no-such"):
        search.search([tmp_path / "no-such"], [VALUES["text"]])
    with pytest.raises(RuntimeError, match="empty pattern"):
        search.search([tmp_path], [Planted("nothing", {"utf-8": b""})])


def test_folders_and_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").touch()
    assert files([tmp_path / "a", tmp_path / "a" / "b" / "c"]) == [tmp_path / "a" / "b" / "c"] * 2
