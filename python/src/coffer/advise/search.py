"""The least-revealing protections under which hosts compute as much as they can.

From everything that a type allows down, column by column, as long as the planner brings no more to
the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from coffer.advise import domains
from coffer.advise.planner import Choice, ColumnRef, Planner, Policy, Understood, Use, Weighed
from coffer.advise.protections import Protections
from coffer.advise.tables import Column, Table

# Guesses of rows are no better than this.
_SAME = 1.0 + 1e-6


@dataclass
class Found:
    """What was found. `most`: what comes to the client when engines have every encoding of
    everything; `std`: when they have none."""

    policy: dict[ColumnRef, Choice]
    weighed: list[Weighed]
    most: list[Weighed]
    std: list[Weighed]
    reasons: dict[ColumnRef, list[tuple[int, float]]] = field(default_factory=dict)
    """Of columns that show something: statements that would bring more to the client were it only
    carried, and how many bytes of values."""


@dataclass(frozen=True)
class Facts:
    """What the search goes by: tables by name, links between columns, a domain for each column that
    can have one, and what protections show and allow."""

    protections: Protections
    tables: Mapping[str, Table]
    links: Mapping[ColumnRef, str]
    domains: Mapping[ColumnRef, domains.Domain]

    def column(self, ref: ColumnRef) -> Column:
        """The column at a place."""
        return self.tables[ref[0]].column(ref[1])

    def candidates(self, ref: ColumnRef) -> list[tuple[str, ...]]:
        """Sets of protections for a column, from what shows least."""
        column = self.column(ref)
        some = self.protections.candidates(domains.is_text(column))
        domain = self.domains.get(ref)
        summed = domains.is_summed(column) and domain is not None
        if not summed or domains.summed_rows(domain, self.tables[ref[0]].rows) is None:
            bounded = self.protections.using("rows")
            return [names for names in some if not bounded & set(names)]
        return some

    def choice(self, ref: ColumnRef, protections: tuple[str, ...]) -> Choice:
        """A choice with the column's link."""
        domain = self.domains.get(ref)
        return Choice(protections, self.links.get(ref, ""), domain is not None and domain.narrow)


def facts(tables: Iterable[Table], uses: Iterable[Use], protections: Protections) -> Facts:
    """Columns that are compared with each other, of one type, are linked and have one domain."""
    by_name = {table.name: table for table in tables}
    parents: dict[ColumnRef, ColumnRef] = {}

    def root(ref: ColumnRef) -> ColumnRef:
        while ref in parents:
            ref = parents[ref]
        return ref

    for use in uses:
        if use.partner is not None:
            a, b = root(use.ref), root(use.partner)
            alike = by_name[a[0]].column(a[1]).type == by_name[b[0]].column(b[1]).type
            if a != b and alike:
                parents[max(a, b)] = min(a, b)
    groups: dict[ColumnRef, list[ColumnRef]] = {}
    for table in by_name.values():
        for column in table.columns:
            groups.setdefault(root((table.name, column.name)), []).append((table.name, column.name))
    links, found = {}, {}
    for members in groups.values():
        domain = domains.of(by_name[t].column(c) for t, c in members)
        link = _link_name(members, set(links.values())) if len(members) > 1 else ""
        for ref in members:
            if domain is not None:
                found[ref] = domain
            if link:
                links[ref] = link
    return Facts(protections, by_name, links, found)


def _link_name(members: list[ColumnRef], taken: set[str]) -> str:
    """What the columns' names end in alike: o_custkey and c_custkey are "custkey"."""
    names = [column for _, column in members]
    shared = names[0]
    while shared and not all(name.endswith(shared) for name in names):
        shared = shared[1:]
    shared = shared.lstrip("_")
    name = shared if len(shared) > 2 else min(names)
    return name if name not in taken else ".".join(min(members))


def search(planner: Planner, known: Facts, understood: list[Understood], slack: float) -> Found:
    """Descends from all encodings of every column that is used. `slack`: bytes of values that each
    statement may bring to the client beyond what it must, if a column then shows less."""
    uses = [{use.ref for use in one.uses} or _counted(known, one) for one in understood]
    used = sorted(set().union(*uses))
    by_column = {ref: [n for n, refs in enumerate(uses) if ref in refs] for ref in used}
    everything = range(len(understood))

    def under(policy: Policy, which: Iterable[int]) -> list[Weighed]:
        return planner.weigh(policy, True, which)

    policy = {ref: known.choice(ref, known.candidates(ref)[-1]) for ref in used}
    most = under(policy, everything)
    carried = (known.protections.carried,)
    std = under({ref: known.choice(ref, carried) for ref in used}, everything)

    def keeps(trial: Policy, which: list[int]) -> bool:
        return all(
            _no_worse(now, most[n], slack)
            for n, now in zip(which, under(trial, which), strict=True)
        )

    def carries(trial: dict[ColumnRef, Choice], ref: ColumnRef) -> bool:
        """Whether as `ashe` a column is still only carried along: of a sum hosts would learn which
        rows it took."""
        now = under(trial, by_column[ref])
        summed = any(
            encoding[:2] == ref for one in now for part in one.parts for encoding in part.encodings
        )
        return not summed and all(
            _no_worse(one, most[n], slack) for n, one in zip(by_column[ref], now, strict=True)
        )

    for ref in used:
        for protections in known.candidates(ref):
            trial = {**policy, ref: known.choice(ref, protections)}
            if keeps(trial, by_column[ref]):
                policy = trial
                break
    for ref in used:
        policy = _lighter(policy, known, ref, lambda trial, ref=ref: keeps(trial, by_column[ref]))
    policy = _smaller(policy, known, carries)
    policy = _linked(policy, known, lambda trial, ref: keeps(trial, by_column[ref]))
    weighed = under(policy, everything)
    found = Found(policy, weighed, most, std)
    for ref, choice in policy.items():
        if choice.protections != carried:
            which = by_column[ref]
            without = under({**policy, ref: known.choice(ref, carried)}, which)
            more = [(n, _more(now, weighed[n])) for n, now in zip(which, without, strict=True)]
            found.reasons[ref] = [(n, by) for n, by in more if by > 0]
    return found


def _counted(known: Facts, one: Understood) -> set[ColumnRef]:
    """Where only rows are asked for, the first column of each table: engines must be able to read
    something."""
    return {(table, known.tables[table].columns[0].name) for table in one.tables}


def _more(now: Weighed, before: Weighed) -> float:
    """Bytes of values more; infinitely many where the statement cannot run any more."""
    if now.refusal is not None:
        return 0.0 if before.refusal is not None else float("inf")
    return now.values - before.values


def _no_worse(now: Weighed, best: Weighed, slack: float) -> bool:
    if best.refusal is not None:
        return True
    return now.refusal is None and now.values <= best.values * _SAME + slack


def _lighter(
    policy: dict[ColumnRef, Choice],
    known: Facts,
    ref: ColumnRef,
    keeps: Callable[[dict[ColumnRef, Choice]], bool],
) -> dict[ColumnRef, Choice]:
    """Without encodings that another one makes up for, such as `det` beside `ope`."""
    for encoding in known.protections.unordered():
        choice = policy[ref]
        rest = tuple(p for p in choice.protections if p != encoding)
        if rest and rest != choice.protections:
            trial = {**policy, ref: replace(choice, protections=rest)}
            if keeps(trial):
                policy = trial
    return policy


def _smaller(
    policy: dict[ColumnRef, Choice],
    known: Facts,
    carries: Callable[[dict[ColumnRef, Choice], ColumnRef], bool],
) -> dict[ColumnRef, Choice]:
    """Numbers that are only carried along as what could be added up: smaller, and they show no
    more."""
    carried, summed = (known.protections.carried,), (known.protections.allowing("sum"),)
    for ref, choice in policy.items():
        if choice.protections == carried and summed in known.candidates(ref):
            trial = {**policy, ref: replace(choice, protections=summed)}
            if carries(trial, ref):
                policy = trial
    return policy


def _linked(
    policy: dict[ColumnRef, Choice],
    known: Facts,
    keeps: Callable[[dict[ColumnRef, Choice], ColumnRef], bool],
) -> dict[ColumnRef, Choice]:
    """Links only where a join needs them: columns of a link show their equality to each other."""
    for ref in sorted(policy):
        choice = policy[ref]
        if choice.link:
            trial = {**policy, ref: replace(choice, link="")}
            comparable = known.protections.using("link") & set(choice.protections)
            if not comparable or keeps(trial, ref):
                policy = trial
    alone = {choice.link for choice in policy.values()}
    members = {link: [c for c in policy.values() if c.link == link] for link in alone}
    return {
        p: replace(c, link="") if c.link and len(members[c.link]) == 1 else c
        for p, c in policy.items()
    }
