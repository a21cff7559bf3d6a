"""Looks for known values in files, in the forms that a JVM or a Parquet file would keep them."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Hit:
    """Where which value was found, in which form."""

    path: Path
    value: str
    form: str


def forms(value: str | int) -> dict[str, bytes]:
    """The byte forms to search for.

    Text in UTF-8 and UTF-16 of both orders (Java's compact strings are Latin-1: for ASCII values the same bytes as
    UTF-8). Integers as their 8 bytes in both orders, as heap dumps and Spark's rows have them, and as decimal text.
    Choose integers whose bytes are random in all 8 places, or chance finds them in a dump.
    """
    if isinstance(value, int):
        return {
            "int64-le": struct.pack("<q", value),
            "int64-be": struct.pack(">q", value),
            **{f"digits-{form}": data for form, data in forms(str(value)).items()},
        }
    return {
        "utf-8": value.encode("utf-8"),
        "latin-1": value.encode("latin-1", errors="ignore"),
        "utf-16-le": value.encode("utf-16-le"),
        "utf-16-be": value.encode("utf-16-be"),
    }


def search(roots: Iterable[Path], values: Iterable[str | int]) -> tuple[list[Hit], int]:
    """All hits in the files under `roots`, and how many bytes were searched."""
    wanted: dict[bytes, tuple[str, str]] = {}
    for value in values:
        for form, data in forms(value).items():
            wanted.setdefault(data, (str(value), form))
    wanted.pop(b"", None)
    hits: list[Hit] = []
    searched = 0
    for path in files(roots):
        size = path.stat().st_size
        if size == 0:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            searched += size
            hits += [Hit(path, *what) for pattern, what in wanted.items() if data.find(pattern) >= 0]
    return hits, searched


def files(roots: Iterable[Path]) -> list[Path]:
    """The plain files at or under `roots`."""
    found: list[Path] = []
    for root in roots:
        found += [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
    return found
