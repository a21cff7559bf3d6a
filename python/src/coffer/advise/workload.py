"""The queries of a workload: SQL files, taken apart into statements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from coffer.advise.command import AdviseError

# Quoted texts and names, comments, and what ends a statement.
_TOKEN = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|;", re.DOTALL
)


@dataclass(frozen=True)
class Statement:
    """One statement, and what it is called in the report: its file's name, numbered where a file
    has several."""

    name: str
    sql: str


def read(path: Path) -> list[Statement]:
    """The statements of a file, or of the .sql files of a folder in the order of their names."""
    if not path.exists():
        raise AdviseError(f"there is nothing at {path}")
    files = sorted(path.glob("*.sql"), key=_natural) if path.is_dir() else [path]
    found = []
    for file in files:
        try:
            parts = split(file.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise AdviseError(f"{file} is no text that can be read: {error}") from error
        prefix = file.stem if path.is_dir() else "query"
        for number, sql in enumerate(parts, 1):
            found.append(
                Statement(
                    prefix if path.is_dir() and len(parts) == 1 else f"{prefix} {number}", sql
                )
            )
    if not found:
        raise AdviseError(f"there is no statement in {path}")
    return found


def split(text: str) -> list[str]:
    """Statements, without the semicolons between them and without what is only comment."""
    parts, begin = [], 0
    for token in _TOKEN.finditer(text):
        if token.group() == ";":
            parts.append(text[begin : token.start()])
            begin = token.end()
    parts.append(text[begin:])
    return [part.strip() for part in parts if _bare(part)]


def _bare(part: str) -> str:
    return _TOKEN.sub(
        lambda token: "" if token.group()[:2] in ("--", "/*") else token.group(), part
    ).strip()


def _natural(path: Path) -> list[tuple[int, str]]:
    """q2 before q10."""
    return [
        (int(piece), "") if piece.isdigit() else (-1, piece)
        for piece in re.split(r"(\d+)", path.stem)
    ]
