"""What was recovered, as Markdown."""

from __future__ import annotations

from coffer_testing.patterns.claims import PATTERNS
from coffer_testing.patterns.fixture import LINKED, Fixture
from coffer_testing.patterns.measures import Degree

_SIGNS: dict[Degree, str] = {"all": "all", "some": "some", "none": ""}


def table(tables: Fixture, columns: dict[str, dict[str, Degree]]) -> str:
    """A line for each column: its type, its protections, what a host recovers of it."""
    lines = [
        f"| column | type | protections | {' | '.join(PATTERNS)} |",
        f"|---|---|---|{'---|' * len(PATTERNS)}",
    ]
    for place, found in columns.items():
        claim = tables.claim(*place.split("."))
        degrees = (_SIGNS[found.get(pattern, "none")] for pattern in PATTERNS)
        lines.append(
            f"| `{place}` | {claim['type']} | {' '.join(claim['protections'])} | "
            f"{' | '.join(degrees)} |"
        )
    return "\n".join(lines)


def pairs(found: dict[str, Degree]) -> str:
    """A line for each pair of columns that hold equal values."""
    linked = {f"{'.'.join(one)} and {'.'.join(other)}" for one, other in LINKED}
    lines = ["| columns of equal values | linked | equality between them |", "|---|---|---|"]
    lines += [
        f"| `{place}` | {'yes' if place in linked else 'no'} | {degree} |"
        for place, degree in found.items()
    ]
    return "\n".join(lines).replace(" and ", "`, `")
