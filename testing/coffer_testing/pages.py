"""The code of documentation pages, which tests run as it stands there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

_FENCE = re.compile(r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n", re.MULTILINE)
_HEADING = re.compile(r"^#+ (.+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Code:
    """A block of code below a heading. `title`: the file that it is, or what else a page's test
    takes it for."""

    heading: str
    language: str
    title: str | None
    text: str


def code(page: str) -> list[Code]:
    """The blocks of a page of docs/, in their order."""
    text = (DOCS / page).read_text()
    found = []
    heading, at = "", 0
    while fence := _FENCE.search(text, at):
        end = text.index("\n```\n", fence.end() - 1)
        # A comment of a shell is no heading: only what stands between two blocks is looked at.
        for match in _HEADING.finditer(text, at, fence.start()):
            heading = match[1]
        found.append(Code(heading, fence["language"], fence["title"], text[fence.end() : end + 1]))
        at = end + len("\n```\n")
    return found
