"""The count of each mutation's runs, as a table and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from coffer_adversary import expected
from coffer_adversary.mutation import Outcome

_FINDINGS = 20  # of a mutation that are kept word by word
_COUNTS = ("applied", "live", "protected", "detected", "right_rows", "wrong")


@dataclass
class Row:
    """What came of one mutation's runs. `live` of the applied ones met the real processes, nearly
    all of them through Spark; the rest ran below it, in one process. `protected` of the live ones
    were over columns stored as ciphertexts. `raced`: runs that a race of `expected.RACES` ended;
    they count as nothing."""

    tried: int = 0
    applied: int = 0
    live: int = 0
    protected: int = 0
    detected: int = 0
    right_rows: int = 0
    wrong: int = 0
    raced: int = 0
    seconds: float = 0.0
    checks: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome, seconds: float, *, protected: bool = False) -> None:
        """Counts a run. One that was not applied counts only when it went wrong: then something
        else is amiss."""
        self.tried += 1
        self.seconds += seconds
        if outcome.verdict == "wrong":
            self.wrong += 1
            self.findings = [*self.findings, f"{outcome.check}: {outcome.detail}"][:_FINDINGS]
        self.raced += outcome.verdict == "race"
        if not outcome.applied:
            return
        self.applied += 1
        self.live += 1
        self.protected += protected
        self.detected += outcome.verdict == "detected"
        self.right_rows += outcome.verdict == "right_rows"
        if outcome.verdict == "detected":
            self.checks[outcome.check] += 1

    def merge(self, counted: dict[str, Any]) -> None:
        """Adds runs that were counted elsewhere, below Spark, in the form of `as_json`."""
        for name in ("tried", "applied", "detected", "right_rows", "wrong", "seconds"):
            setattr(self, name, getattr(self, name) + counted.get(name, 0))
        self.checks.update(counted.get("checks", {}))
        self.findings = [*self.findings, *counted.get("findings", [])][:_FINDINGS]

    def as_json(self) -> dict[str, Any]:
        return {
            "applied": self.applied,
            "detected": self.detected,
            "right_rows": self.right_rows,
            "wrong": self.wrong,
            "live": self.live,
            "protected": self.protected,
            "tried": self.tried,
            "raced": self.raced,
            "seconds": round(self.seconds, 2),
            "checks": dict(self.checks.most_common()),
            **({"findings": self.findings} if self.findings else {}),
        }


class Report:
    """All rows of a run."""

    def __init__(self, names: list[str]) -> None:
        self.rows: dict[str, Row] = {name: Row() for name in names}

    def row(self, name: str) -> Row:
        return self.rows.setdefault(name, Row())

    @property
    def applied(self) -> int:
        return sum(row.applied for row in self.rows.values())

    @property
    def wrong(self) -> int:
        return sum(row.wrong for row in self.rows.values())

    @property
    def idle(self) -> list[str]:
        """Mutations that were tried and never found a place: the harness's fault."""
        return [name for name, row in self.rows.items() if row.tried and not row.applied]

    @property
    def unseen(self) -> list[str]:
        """Mutations that were applied and never detected, though they must be: they do not bite on
        what is read, or the check that is there for them does not hold."""
        return [
            name
            for name, row in self.rows.items()
            if row.applied and not row.detected and expected.must_be_detected(name)
        ]

    @property
    def lenient(self) -> list[str]:
        """Mutations that gave right rows oftener than is declared of them, and how often that
        was."""
        found = {
            name: expected.too_often(name, row.applied, row.right_rows)
            for name, row in self.rows.items()
            if row.applied
        }
        return [f"{name}: {amiss}" for name, amiss in found.items() if amiss]

    @property
    def sound(self) -> bool:
        """Whether a run of the harness ends well."""
        return not (self.wrong or self.idle or self.unseen or self.lenient)

    def as_json(self, **beside: Any) -> dict[str, Any]:
        return {
            "mutations": {name: row.as_json() for name, row in self.rows.items() if row.tried},
            **beside,
        }

    def table(self) -> str:
        """The table as Markdown, which reads well in a terminal too."""
        lines = [
            (
                "mutation",
                "applied",
                "live",
                "protected",
                "detected",
                "right rows",
                "wrong",
                "checks that named it",
            )
        ]
        for name, row in self.rows.items():
            if row.tried:
                checks = ", ".join(f"{code} {n}" for code, n in row.checks.most_common(3))
                lines.append((name, *(str(getattr(row, count)) for count in _COUNTS), checks))
        sums = (sum(getattr(row, count) for row in self.rows.values()) for count in _COUNTS)
        lines.append(("**all**", *map(str, sums), ""))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        last = len(widths) - 1

        def written(line: tuple[str, ...]) -> str:
            cells = [
                cell.ljust(width) if column in (0, last) else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            return f"| {' | '.join(cells)} |"

        rule = "|".join(
            "-" * (width + 1) + (":" if 0 < at < last else "-") for at, width in enumerate(widths)
        )
        return "\n".join([written(lines[0]), f"|{rule}|", *map(written, lines[1:])])
