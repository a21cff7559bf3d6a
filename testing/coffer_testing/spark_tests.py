"""Spark's own test jar: the texts of its benchmark queries, and the constants of its test classes.

It comes from Maven, in one version whose bytes are pinned here.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from coffer._find import cache_dir

SPARK = "4.1.3"
SHA256 = "e3302864af66035c2dd22fda0d980e72a456ef39531bcbcaef320886622bac14"
_JAR = f"org/apache/spark/spark-sql_2.13/{SPARK}/spark-sql_2.13-{SPARK}-tests.jar"

# Sizes of a class file's constants behind their tag, by tag (Java Virtual Machine Specification,
# 4.4); strings of text (tag 1) say theirs, and tags 5 and 6 count twice.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4}


def text(name: str) -> str:
    """A file of the jar, as text."""
    return _read(name).decode()


def names(folder: str) -> list[str]:
    """The files of one of the jar's folders."""
    with zipfile.ZipFile(jar()) as opened:
        return [
            name for name in opened.namelist() if name.startswith(f"{folder}/") and name[-1:] != "/"
        ]


def strings(class_name: str) -> list[str]:
    """The string constants of a class, in the order in which its code first names them."""
    data = _read(class_name.replace(".", "/") + ".class")
    texts: dict[int, str] = {}
    found: list[int] = []
    at, number, count = 10, 1, struct.unpack_from(">H", data, 8)[0]
    while number < count:
        tag = data[at]
        if tag == 1:
            size = 2 + struct.unpack_from(">H", data, at + 1)[0]
            texts[number] = data[at + 3 : at + 1 + size].decode()
        else:
            size = _SIZES[tag]
        if tag == 8:
            found.append(struct.unpack_from(">H", data, at + 1)[0])
        at += 1 + size
        number += 2 if tag in (5, 6) else 1
    return [texts[index] for index in found]


@functools.cache
def jar() -> Path:
    """The jar: in Maven's local repository where that is in its usual place, else in Coffer's cache
    folder."""
    local = Path(os.environ.get("COFFER_M2", Path.home() / ".m2" / "repository")) / _JAR
    kept = cache_dir() / local.name
    if not local.is_file() and not kept.is_file():
        _fetch(kept)
    found = local if local.is_file() else kept
    if hashlib.sha256(found.read_bytes()).hexdigest() != SHA256:
        raise ValueError(f"{found} is not the jar that is meant: its SHA-256 is not {SHA256}")
    return found


def _read(name: str) -> bytes:
    with zipfile.ZipFile(jar()) as opened:
        return opened.read(name)


def _fetch(kept: Path) -> None:
    # Not where Maven put it: that goes by its settings and the account's config directory, whatever
    # HOME says.
    with tempfile.TemporaryDirectory(prefix="coffer-") as folder:
        artifact = f"org.apache.spark:spark-sql_2.13:{SPARK}:jar:tests"
        subprocess.run(
            [
                "mvn",
                "-q",
                "-B",
                "dependency:copy",
                f"-Dartifact={artifact}",
                f"-DoutputDirectory={folder}",
            ],
            check=True,
            stdout=sys.stderr,
            cwd=folder,
            timeout=900,
        )
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(folder) / kept.name, kept.with_suffix(f".{os.getpid()}"))
        kept.with_suffix(f".{os.getpid()}").rename(kept)
