"""What is claimed of a column: the words of `coffer policy check --json`, as degrees that each
pattern may have."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from coffer_testing.patterns.measures import Degree

# In the order of reports.
PATTERNS = (
    "nulls",
    "lengths",
    "equality",
    "order",
    "first-bits",
    "later-bits",
    "upper-bits",
    "lower-bits",
    "values",
)

Allowed = dict[str, Collection[Degree]]

_PREFIX = re.compile(r"the order of their first (\d+) bytes, and which are equal there")
_ALL: Collection[Degree] = ("all",)
_NONE: Collection[Degree] = ("none",)
_BEYOND: Collection[Degree] = ("none", "some", "all")
# Words that say nothing of what lies in the files: a sum's rows show when it is made, sizes always.
_ELSEWHERE = {
    "which rows each sum took",
    "nothing but sizes, and which files, row groups and pages are read",
}
_WORDS = {
    "which are NULL": "nulls",
    "lengths": "lengths",
    "which values are equal": "equality",
    "their order": "order",
    "the first bit in which any two differ": "first-bits",
    "about the upper half of each one's bits": "upper-bits",
    "every value": "values",
    "every value, in the files' paths": "values",
}


def words(column: dict[str, Any]) -> list[str]:
    """All that the check says hosts see of a column, by its own protections and by its link."""
    return [*column["hosts"], *column["hosts_by_link"]]


def prefix(said: Collection[str]) -> int | None:
    """Bytes of a text that are in its order; None when the whole value is, or there is none."""
    found = [match for word in said if (match := _PREFIX.fullmatch(word))]
    return int(found[0].group(1)) if found else None


def allowed(said: Collection[str]) -> Allowed:
    """What each pattern may come to where the claim is exact: what is claimed wholly, what is not
    claimed not at all."""
    unknown = [
        word
        for word in said
        if word not in _WORDS and word not in _ELSEWHERE and not _PREFIX.fullmatch(word)
    ]
    if unknown:
        raise ValueError(f"a claim that no measure stands for: {unknown[0]}")
    claimed = {_WORDS[word] for word in said if word in _WORDS}
    if "values" in claimed:
        return {"values": _ALL}
    found: Allowed = {pattern: _ALL if pattern in claimed else _NONE for pattern in PATTERNS}
    if prefix(said) is not None:
        # The prefix is what is judged as order; what is equal there may be equal as a whole.
        found["order"] = _ALL
        found["equality"] = _ALL if "equality" in claimed else _BEYOND
    if "order" in claimed or prefix(said) is not None:
        # Which of two is greater is told by the first bit in which they differ, and numbers in
        # order lie about on a line.
        found["first-bits"] = _ALL if "first-bits" in claimed else _BEYOND
    return found
