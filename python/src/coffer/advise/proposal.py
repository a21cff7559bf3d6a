"""The two proposals for a workload, found and confirmed: everything in enclaves, and no enclave at
all."""

from __future__ import annotations

from dataclasses import dataclass

from coffer.advise import checks, sizes, toml
from coffer.advise.planner import Choice, ColumnRef, Planner, Understood, Weighed
from coffer.advise.protections import Protections
from coffer.advise.search import Facts, Found, facts, search
from coffer.advise.tables import Table
from coffer.advise.workload import Statement


@dataclass(frozen=True)
class Proposal:
    """A policy and what it comes to. `planned`: of each statement why it is refused, and its plan
    otherwise."""

    hosts: bool
    policy: dict[ColumnRef, Choice]
    text: str
    weighed: list[Weighed]
    planned: list[tuple[str | None, list[str]]]
    checked: checks.Checked
    bytes: float
    seconds: float


@dataclass(frozen=True)
class Advice:
    """All that is said of a workload."""

    statements: list[Statement]
    tables: list[Table]
    understood: list[Understood]
    facts: Facts
    found: Found
    enclaves: Proposal
    hosts: Proposal


def advise(
    planner: Planner,
    tables: list[Table],
    statements: list[Statement],
    protections: Protections,
    slack: float,
) -> Advice:
    """Both proposals. A statement that the proposal's own plan refuses is named, never passed
    over."""
    understood = planner.understand(statement.sql for statement in statements)
    known = facts(tables, (use for one in understood for use in one.uses), protections)
    found = search(planner, known, understood, slack)
    everything = range(len(statements))

    def proposal(hosts: bool, policy: dict[ColumnRef, Choice], weighed: list[Weighed]) -> Proposal:
        def why(ref: ColumnRef) -> str:
            return reason(ref, understood, statements) if hosts else ""

        text = toml.policy_file(tables, policy, known, hosts, why)
        return Proposal(
            hosts,
            policy,
            text,
            weighed,
            planner.plan(policy, hosts),
            checks.check(text, tables if hosts else []),
            sum(sizes.stored(table, policy, protections) for table in tables),
            sum(sizes.seconds(table, policy, protections) for table in tables),
        )

    enclaves = proposal(False, {}, planner.weigh({}, False, everything))
    return Advice(
        statements,
        tables,
        understood,
        known,
        found,
        enclaves,
        proposal(True, found.policy, found.weighed),
    )


def reason(ref: ColumnRef, understood: list[Understood], statements: list[Statement]) -> str:
    """What a column is used for, in words: "range in q1, q6"."""
    by_use: dict[str, list[str]] = {}
    for statement, one in zip(statements, understood, strict=True):
        for use in one.uses:
            if use.ref == ref:
                words = (
                    f"{use.kind} with {use.other}"
                    if use.kind in ("join", "compare") and use.other
                    else use.kind
                )
                if use.kind == "expression":
                    words = (
                        f"inside an expression ({use.other})"
                        if use.other
                        else "inside an expression"
                    )
                names = by_use.setdefault({"output": "in the result"}.get(words, words), [])
                if statement.name not in names:
                    names.append(statement.name)
    if not by_use:
        return "not used"
    return "; ".join(f"{words}: {_names(names)}" for words, names in by_use.items())


def _names(names: list[str]) -> str:
    return (
        ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
    )
