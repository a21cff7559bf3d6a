"""Looks for known values in files, in the forms that a JVM, a Parquet file or a wire would keep
them.

What is looked for is a `Planted`: a value, or a family of values with a part in common, and the
bytes of each of its forms. The search itself is `coffer-leakscan`, one pass over the files for all
patterns at once.
"""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from coffer_testing import programs


@dataclass(frozen=True)
class Planted:
    """A value, or what a family of values has in common: a name for reports, and its bytes by
    form."""

    name: str
    forms: dict[str, bytes]


@dataclass(frozen=True)
class Hit:
    """Where which value was found, in which form, how often, and at which offsets first."""

    path: Path
    value: str
    form: str
    count: int
    offsets: tuple[int, ...]


def text(value: str) -> Planted:
    """Text in UTF-8, and in UTF-16 of both orders. Java's compact strings are Latin-1: for ASCII
    the same bytes as UTF-8."""
    return Planted(value, _text(value))


def int64(value: int) -> Planted:
    """A number as its 8 bytes in both orders, as heap dumps and Spark's rows have it, and as
    decimal text. Choose one whose bytes are random in nearly all 8 places, or chance finds it in a
    dump."""
    return Planted(str(value), {**_both("int64", struct.pack(">q", value)), **_digits(str(value))})


def int64_family(name: str, high: int) -> Planted:
    """All numbers whose upper 6 bytes are `high`: keys that count up from `high << 16`. As text
    they share the digits that the lower 2 bytes cannot reach. Fewer bytes would be found by chance
    in gigabytes of ciphertext."""
    first, last = str(high << 16), str((high << 16) + 0xFFFF)
    common = next(at for at, (a, b) in enumerate(zip(first, last, strict=True)) if a != b)
    return Planted(name, {**_both("int64", high.to_bytes(6, "big")), **_digits(first[:common])})


def int32(value: int) -> Planted:
    """Four bytes alone are found by chance in gigabytes. So: two of them in a row, as columns have
    them; the first field of one of Spark's rows, between its null bits and its own upper half; a
    boxed Integer in a heap dump; and decimal text."""
    big = struct.pack(">i", value)
    little = big[::-1]
    return Planted(
        str(value),
        {
            "int32-le-twice": little * 2,
            "int32-be-twice": big * 2,
            "int32-le-row": bytes(8) + little + bytes(4),
            "int32-be-boxed": struct.pack(">i", 4) + big,
            **_digits(str(value)),
        },
    )


def double(value: float) -> Planted:
    """A double as its 8 bytes in both orders, and as text."""
    return Planted(
        repr(value), {**_both("double", struct.pack(">d", value)), **_digits(repr(value))}
    )


def decimal(value: Decimal) -> Planted:
    """The unscaled number as 8 bytes where it fits, else as 16, in both orders; the digits of
    Java's BigInteger in memory, 4-byte words from the highest on; and text, with the point and
    without."""
    sign, digits, _ = value.as_tuple()  # exact, where arithmetic would round to 28 digits
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    forms: dict[str, bytes] = {}
    if -(2**63) <= unscaled < 2**63:
        forms |= _both("decimal", struct.pack(">q", unscaled))
        # Parquet's fixed-length arrays and BigInteger.toByteArray drop leading zeros.
        forms["decimal-be-short"] = forms["decimal-be"].lstrip(b"\0")
    else:
        forms |= _both("decimal128", unscaled.to_bytes(16, "big", signed=True))
        big = abs(unscaled).to_bytes(16, "big")
        forms["decimal128-words"] = b"".join(big[at : at + 4][::-1] for at in range(0, 16, 4))
    return Planted(
        str(value), {**forms, **_digits(str(value)), **_digits(str(unscaled), "unscaled")}
    )


def day(value: date) -> Planted:
    """A date as days since 1970, twice in a row in both orders, and as text."""
    big = struct.pack(">i", (value - date(1970, 1, 1)).days)
    return Planted(
        value.isoformat(),
        {
            "date-le-twice": big[::-1] * 2,
            "date-be-twice": big * 2,
            **_digits(value.isoformat(), "date"),
        },
    )


def moment(value: datetime) -> Planted:
    """A timestamp in UTC as microseconds since 1970 in both orders, and as text to the
    microsecond."""
    micros = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    words = value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return Planted(
        words, {**_both("timestamp", struct.pack(">q", micros)), **_digits(words, "timestamp")}
    )


def search(roots: Iterable[Path], planted: Iterable[Planted]) -> tuple[list[Hit], int]:
    """All hits in the files at or under `roots`, and how many bytes were searched. Links are not
    followed.

    Raises RuntimeError when something could not be read: what was not searched is not free of hits.
    """
    wanted: dict[bytes, tuple[str, str]] = {}
    for value in planted:
        for form, data in value.forms.items():
            wanted.setdefault(data, (value.name, form))
    patterns = list(wanted)
    done = subprocess.run(
        [str(programs.find(programs.LEAKSCAN)), *map(str, roots)],
        input=json.dumps([pattern.hex() for pattern in patterns]),
        capture_output=True,
        text=True,
        timeout=3600,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the search failed: {done.stderr}")
    report = json.loads(done.stdout)
    hits = [
        Hit(
            Path(hit["path"]),
            *wanted[patterns[hit["pattern"]]],
            hit["count"],
            tuple(hit["offsets"]),
        )
        for hit in report["hits"]
    ]
    return hits, report["searched_bytes"]


def files(roots: Iterable[Path]) -> list[Path]:
    """The plain files at or under `roots`."""
    found: list[Path] = []
    for root in roots:
        found += (
            [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
        )
    return found


def _text(value: str, name: str = "") -> dict[str, bytes]:
    prefix = f"{name}-" if name else ""
    return {
        f"{prefix}utf-8": value.encode("utf-8"),
        f"{prefix}utf-16-le": value.encode("utf-16-le"),
        f"{prefix}utf-16-be": value.encode("utf-16-be"),
    }


def _digits(value: str, name: str = "digits") -> dict[str, bytes]:
    return _text(value, name)


def _both(name: str, big: bytes) -> dict[str, bytes]:
    return {f"{name}-le": big[::-1], f"{name}-be": big}
