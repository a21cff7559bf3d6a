"""The least-revealing protections under which hosts compute as much as they can.

From everything that a type allows down, column by column, as long as the planner brings no more home.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from coffer.advise import domains
from coffer.advise.planner import Choice, Place, Planner, Policy, Understood, Use, Weighed
from coffer.advise.protections import Protections
from coffer.advise.tables import Column, Table

# Guesses of rows are no better than this.
_SAME = 1.0 + 1e-6


@dataclass
class Found:
    """What was found. `most`: what comes home when engines have every form of everything; `std`: when they have none."""

    policy: dict[Place, Choice]
    weighed: list[Weighed]
    most: list[Weighed]
    std: list[Weighed]
    reasons: dict[Place, list[tuple[int, float]]] = field(default_factory=dict)
    """Of columns that show something: statements that would bring more home were it only carried, and how many bytes of
    values."""


@dataclass(frozen=True)
class Facts:
    """What the search goes by: tables by name, links between columns, a domain for each column that can have one, and what
    protections show and allow."""

    protections: Protections
    tables: Mapping[str, Table]
    links: Mapping[Place, str]
    domains: Mapping[Place, domains.Domain]

    def column(self, place: Place) -> Column:
        """The column at a place."""
        return self.tables[place[0]].column(place[1])

    def candidates(self, place: Place) -> list[tuple[str, ...]]:
        """Sets of protections for a column, from what shows least."""
        column = self.column(place)
        some = self.protections.candidates(domains.is_text(column))
        domain = self.domains.get(place)
        summed = domains.is_summed(column) and domain is not None
        if not summed or domains.summed_rows(domain, self.tables[place[0]].rows) is None:
            bounded = self.protections.using("rows")
            return [names for names in some if not bounded & set(names)]
        return some

    def choice(self, place: Place, protections: tuple[str, ...]) -> Choice:
        """A choice with the column's link."""
        domain = self.domains.get(place)
        return Choice(protections, self.links.get(place, ""), domain is not None and domain.narrow)


def facts(tables: Iterable[Table], uses: Iterable[Use], protections: Protections) -> Facts:
    """Columns that are compared with each other, of one type, are linked and have one domain."""
    by_name = {table.name: table for table in tables}
    parents: dict[Place, Place] = {}

    def root(place: Place) -> Place:
        while place in parents:
            place = parents[place]
        return place

    for use in uses:
        if use.partner is not None:
            a, b = root(use.place), root(use.partner)
            alike = by_name[a[0]].column(a[1]).type == by_name[b[0]].column(b[1]).type
            if a != b and alike:
                parents[max(a, b)] = min(a, b)
    groups: dict[Place, list[Place]] = {}
    for table in by_name.values():
        for column in table.columns:
            groups.setdefault(root((table.name, column.name)), []).append((table.name, column.name))
    links, found = {}, {}
    for members in groups.values():
        domain = domains.of(by_name[t].column(c) for t, c in members)
        link = _link_name(members, set(links.values())) if len(members) > 1 else ""
        for place in members:
            if domain is not None:
                found[place] = domain
            if link:
                links[place] = link
    return Facts(protections, by_name, links, found)


def _link_name(members: list[Place], taken: set[str]) -> str:
    """What the columns' names end in alike: o_custkey and c_custkey are "custkey"."""
    names = [column for _, column in members]
    shared = names[0]
    while shared and not all(name.endswith(shared) for name in names):
        shared = shared[1:]
    shared = shared.lstrip("_")
    name = shared if len(shared) > 2 else min(names)
    return name if name not in taken else ".".join(min(members))


def search(planner: Planner, known: Facts, understood: list[Understood], slack: float) -> Found:
    """Descends from all forms of every column that is used. `slack`: bytes of values that each statement may bring home
    beyond what it must, if a column then shows less."""
    uses = [{use.place for use in one.uses} or _counted(known, one) for one in understood]
    used = sorted(set().union(*uses))
    by_place = {place: [n for n, places in enumerate(uses) if place in places] for place in used}
    everything = range(len(understood))

    def under(policy: Policy, which: Iterable[int]) -> list[Weighed]:
        return planner.weigh(policy, True, which)

    policy = {place: known.choice(place, known.candidates(place)[-1]) for place in used}
    most = under(policy, everything)
    carried = (known.protections.carried,)
    std = under({place: known.choice(place, carried) for place in used}, everything)

    def keeps(trial: Policy, which: list[int]) -> bool:
        return all(_no_worse(now, most[n], slack) for n, now in zip(which, under(trial, which), strict=True))

    def carries(trial: dict[Place, Choice], place: Place) -> bool:
        """Whether as `ashe` a column is still only carried along: of a sum hosts would learn which rows it took."""
        now = under(trial, by_place[place])
        summed = any(form[:2] == place for one in now for home in one.homes for form in home.forms)
        return not summed and all(_no_worse(one, most[n], slack) for n, one in zip(by_place[place], now, strict=True))

    for place in used:
        for protections in known.candidates(place):
            trial = {**policy, place: known.choice(place, protections)}
            if keeps(trial, by_place[place]):
                policy = trial
                break
    for place in used:
        policy = _lighter(policy, known, place, lambda trial, place=place: keeps(trial, by_place[place]))
    policy = _smaller(policy, known, carries)
    policy = _linked(policy, known, lambda trial, place: keeps(trial, by_place[place]))
    weighed = under(policy, everything)
    found = Found(policy, weighed, most, std)
    for place, choice in policy.items():
        if choice.protections != carried:
            which = by_place[place]
            without = under({**policy, place: known.choice(place, carried)}, which)
            more = [(n, _more(now, weighed[n])) for n, now in zip(which, without, strict=True)]
            found.reasons[place] = [(n, by) for n, by in more if by > 0]
    return found


def _counted(known: Facts, one: Understood) -> set[Place]:
    """Where only rows are asked for, the first column of each table: engines must be able to read something."""
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
    policy: dict[Place, Choice], known: Facts, place: Place, keeps: Callable[[dict[Place, Choice]], bool]
) -> dict[Place, Choice]:
    """Without forms that another one makes up for, such as `det` beside `ope`."""
    for form in known.protections.unordered():
        choice = policy[place]
        rest = tuple(p for p in choice.protections if p != form)
        if rest and rest != choice.protections:
            trial = {**policy, place: replace(choice, protections=rest)}
            if keeps(trial):
                policy = trial
    return policy


def _smaller(
    policy: dict[Place, Choice], known: Facts, carries: Callable[[dict[Place, Choice], Place], bool]
) -> dict[Place, Choice]:
    """Numbers that are only carried along as what could be added up: smaller, and they show no more."""
    carried, summed = (known.protections.carried,), (known.protections.allowing("sum"),)
    for place, choice in policy.items():
        if choice.protections == carried and summed in known.candidates(place):
            trial = {**policy, place: replace(choice, protections=summed)}
            if carries(trial, place):
                policy = trial
    return policy


def _linked(
    policy: dict[Place, Choice], known: Facts, keeps: Callable[[dict[Place, Choice], Place], bool]
) -> dict[Place, Choice]:
    """Links only where a join needs them: columns of a link show their equality to each other."""
    for place in sorted(policy):
        choice = policy[place]
        if choice.link:
            trial = {**policy, place: replace(choice, link="")}
            comparable = known.protections.using("link") & set(choice.protections)
            if not comparable or keeps(trial, place):
                policy = trial
    alone = {choice.link for choice in policy.values()}
    members = {link: [c for c in policy.values() if c.link == link] for link in alone}
    return {p: replace(c, link="") if c.link and len(members[c.link]) == 1 else c for p, c in policy.items()}
