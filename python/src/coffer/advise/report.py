"""Advice in words, and as JSON."""

from __future__ import annotations

from typing import Any

from coffer.advise import sizes, toml
from coffer.advise.planner import Choice, ColumnRef, Understood, Weighed
from coffer.advise.proposal import Advice, Proposal, reason
from coffer.advise.tables import Table

# Spark's setting that bounds what each part of a query may bring to the client, and its default.
_MOST = "spark.coffer.client.maxBytes"
_DEFAULT_MOST = 1 << 30
_NONE = Choice(("tee",))


def words(advice: Advice) -> str:
    """For people."""
    parts = [_workload(advice), _enclaves(advice), _hosts(advice)]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _workload(advice: Advice) -> list[str]:
    lines = [
        f"{_counted(len(advice.statements), 'statement')} over "
        f"{_counted(len(advice.tables), 'table')}",
        "",
    ]
    lines.append("WHAT THEY COMPUTE")
    for table in advice.tables:
        lines.append(
            f"  {table.name}: {table.rows:,} rows, {size(sizes.plain(table))} as plain Parquet; "
            f"{table.source}"
        )
        for column in table.columns:
            use = reason((table.name, column.name), advice.understood, advice.statements)
            lines.append(f"    {column.name} ({column.type}){_values(column.distinct)}: {use}")
    for statement, one in zip(advice.statements, advice.understood, strict=True):
        if one.refusal is not None:
            lines.append(f"  {statement.name} is not understood: {one.refusal}")
    return lines


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _values(distinct: float | None) -> str:
    return "" if distinct is None else f", about {distinct:,.0f} values"


def _enclaves(advice: Advice) -> list[str]:
    proposal = advice.enclaves
    lines = ["WITH ENCLAVES: every column tee"]
    lines.append(
        "  An enclave computes all of SQL on tee columns, so no column needs to show anything: "
        "hosts see sizes, and"
    )
    lines.append(
        "  which files, row groups and pages are read. Another protection beside tee would show "
        "more and save nothing."
    )
    lines.append(
        "  std in its place keeps a key from enclaves too, for columns that no query computes on:"
    )
    lines.append(f"  {_carried(advice)}")
    lines += _cost(advice, proposal)
    lines += _warnings(proposal)
    lines += _refusals(advice, proposal)
    return lines


def _carried(advice: Advice) -> str:
    computed = {use.ref for one in advice.understood for use in one.uses if use.kind != "output"}
    carried = [
        f"{t.name}.{c.name}"
        for t in advice.tables
        for c in t.columns
        if (t.name, c.name) not in computed
    ]
    return ", ".join(carried) if carried else "there are none here"


def _hosts(advice: Advice) -> list[str]:
    proposal = advice.hosts
    lines = ['WITHOUT ENCLAVES: host_results = "accept", spark.coffer.enclave=none']
    lines.append(
        "  Hosts compute where a protection lets them; the rest comes to the client. Answers are "
        "not verified."
    )
    std = sum(one.values for one in advice.found.std)
    now = sum(one.values for one in proposal.weighed)
    lines.append(
        f"  All columns std would show least: {size(std)} of values would then come to the client "
        f"in all, in place of {size(now)};"
    )
    lines.append(
        "  --bring-to-client SIZE lets each statement bring so much more to the client where a "
        "column then shows less."
    )
    for table in advice.tables:
        lines.append(f"  {table.name}")
        for column in table.columns:
            lines += _column(advice, (table.name, column.name))
    lines.append("  statements")
    for number, statement in enumerate(advice.statements):
        lines += _statement(statement.name, proposal.weighed[number], advice.understood[number])
    lines += _cost(advice, proposal)
    lines += _warnings(proposal)
    lines += _refusals(advice, proposal)
    return lines


def _column(advice: Advice, ref: ColumnRef) -> list[str]:
    choice = advice.hosts.policy.get(ref, _NONE)
    entry = toml.entry(ref, choice, advice.facts)
    if choice == _NONE:
        return [
            f"    {ref[1]} = {entry}: not used; {advice.facts.protections.carried} if queries to "
            f"come should read it"
        ]
    shows = advice.hosts.checked.hosts.get(".".join(ref), ())
    lines = [f"    {ref[1]} = {entry}", f"        hosts see {'; '.join(shows)}"]
    saved = advice.found.reasons.get(ref, [])
    protections = advice.facts.protections
    if choice.protections == (protections.allowing("sum"),) and not saved:
        lines.append(
            f"        in place of {protections.carried}, for its size: no statement has hosts add "
            f"it up"
        )
    if saved:
        most = sorted(saved, key=lambda one: -one[1])[:3]
        named = ", ".join(f"{advice.statements[n].name} ({_more(by)})" for n, by in most)
        rest = f" and {_counted(len(saved) - 3, 'other')}" if len(saved) > 3 else ""
        lines.append(
            f"        were it {protections.carried}, more would come to the client of {named}{rest}"
        )
    return lines


def _more(by: float) -> str:
    return "it could not run" if by == float("inf") else size(by)


def _statement(name: str, weighed: Weighed, understood: Understood) -> list[str]:
    if weighed.refusal is not None or understood.refusal is not None or understood.command:
        return []
    lines = [
        f"    {name}: {size(weighed.bytes)} come to the client; there {_operators(weighed.above)}"
    ]
    for part in weighed.parts:
        columns = ", ".join(part.columns) or "no column"
        lines.append(
            f"        hosts {_operators(part.work)}; client: {part.rows:,.0f} rows of {columns}"
        )
    return lines


def _operators(names: tuple[str, ...]) -> str:
    unique = sorted(set(names), key=names.index)
    return (
        ", ".join(
            f"{name} ×{names.count(name)}" if names.count(name) > 1 else name for name in unique
        )
        or "only read"
    )


def _cost(advice: Advice, proposal: Proposal) -> list[str]:
    plain = sum(sizes.plain(table) for table in advice.tables)
    ratio = proposal.bytes / max(1.0, plain)
    lines = [f"  size on disk: about {size(proposal.bytes)}, {ratio:.2f} of plain Parquet"]
    seconds = "less than 0.1" if proposal.seconds < 0.1 else f"about {proposal.seconds:.1f}"
    lines.append(
        f"  encrypting: {seconds} s of one core for the schemes, beside reading and packing"
    )
    most = max((part.bytes for one in proposal.weighed for part in one.parts), default=0.0)
    if most > _DEFAULT_MOST:
        lines.append(
            f"  one part brings about {size(most)} to the client: set {_MOST} above its default "
            f"of 1g"
        )
    return lines


def _warnings(proposal: Proposal) -> list[str]:
    found: dict[str, list[str]] = {}
    for warning in proposal.checked.warnings:
        found.setdefault(warning.id, []).append(f"{warning.place or 'the policy'}: {warning.what}")
    if not found:
        return ["  coffer policy check warns of nothing"]
    seen = "" if proposal.checked.sampled else ", by the policy alone"
    return [f"  coffer policy check warns{seen} of"] + [
        line
        for kind, texts in found.items()
        for line in (f"    {kind}", *(f"      {text}" for text in texts))
    ]


def _refusals(advice: Advice, proposal: Proposal) -> list[str]:
    refused = [
        (s.name, why)
        for s, (why, _) in zip(advice.statements, proposal.planned, strict=True)
        if why is not None
    ]
    if not refused:
        return ["  every statement can run"]
    return [
        f"  cannot run: {len(refused)} of {len(advice.statements)}",
        *(f"    {name}: {why}" for name, why in refused),
    ]


def size(number: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            return (
                f"{number:,.0f} {unit}"
                if unit == "bytes" or number >= 10
                else f"{number:.1f} {unit}"
            )
        number /= 1024
    raise AssertionError


def table_of(advice: Advice) -> dict[str, Any]:
    """For programs."""
    return {
        "statements": [
            {
                "name": statement.name,
                "refusal": one.refusal,
                "uses": [
                    {"column": ".".join(use.ref), "kind": use.kind, "other": use.other}
                    for use in one.uses
                ],
            }
            for statement, one in zip(advice.statements, advice.understood, strict=True)
        ],
        "tables": [_table(table) for table in advice.tables],
        "enclaves": _proposal(advice, advice.enclaves),
        "hosts": {
            **_proposal(advice, advice.hosts),
            "all_std_values_to_client": sum(one.values for one in advice.found.std),
        },
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "rows": table.rows,
        "plain_bytes": round(sizes.plain(table)),
        "source": table.source,
        "columns": [
            {"name": c.name, "type": c.type, "distinct": c.distinct} for c in table.columns
        ],
    }


def _proposal(advice: Advice, proposal: Proposal) -> dict[str, Any]:
    plain = sum(sizes.plain(table) for table in advice.tables)
    names = [statement.name for statement in advice.statements]
    return {
        "policy": proposal.text,
        "columns": {
            f"{table.name}.{column.name}": list(
                proposal.policy.get((table.name, column.name), _NONE).protections
            )
            for table in advice.tables
            for column in table.columns
        },
        "bytes": round(proposal.bytes),
        "ratio": round(proposal.bytes / max(1.0, plain), 3),
        "encrypt_seconds": round(proposal.seconds, 3),
        "hosts_see": {ref: list(shown) for ref, shown in proposal.checked.hosts.items()},
        "warnings": [
            {"id": w.id, "place": w.place, "what": w.what} for w in proposal.checked.warnings
        ],
        "saves": {
            ".".join(ref): {names[n]: by if by != float("inf") else None for n, by in saved}
            for ref, saved in (advice.found.reasons.items() if proposal.hosts else ())
        },
        "plans": [
            {
                "name": name,
                "refusal": why,
                "client_bytes": round(weighed.bytes),
                "client_rows": round(sum(part.rows for part in weighed.parts)),
                "hosts": [list(part.work) for part in weighed.parts],
                "brought": [list(part.columns) for part in weighed.parts],
                "client": list(weighed.above),
                "plan": plan,
            }
            for name, weighed, (why, plan) in zip(
                names, proposal.weighed, proposal.planned, strict=True
            )
        ],
    }
