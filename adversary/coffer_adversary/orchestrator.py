"""Which mutation comes next, in which cluster, until enough have been applied."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable

from coffer_adversary import expected
from coffer_adversary.attack_cluster import PROTECTED, AttackCluster, Kind
from coffer_adversary.mutation import Mutation, Outcome
from coffer_adversary.report import Report, Row

# Tries without a place to apply it after which a mutation is given up: where it belongs, and where
# it may find nothing, as those about broadcasts in a query that ends at the client. So many tries
# one that must be detected has, until it is.
_TRIES = 40
_TRIES_ELSEWHERE = 8
# Of all runs, in each cluster of protected columns.
_PROTECTED_PERCENT = 15


def kinds_of(mutation: Mutation) -> tuple[Kind, ...]:
    """The clusters that a mutation runs in."""
    if "cluster" in mutation.needs:
        return ("cluster",)
    if "store" in mutation.needs:
        return ("store",)
    if "protected" in mutation.needs:
        return PROTECTED
    return (*PROTECTED, "local") if "query" in mutation.needs else ("local",)


def _spent(row: Row) -> float:
    """The seconds that a mutation has had. A run counts for a fifth of one, or those without Spark
    would be nearly all."""
    return max(row.seconds, 0.2 * row.tried)


class Campaign:
    """Runs mutations in clusters made by `cluster`, one cluster after the other, and counts.
    `seed`: everything that is drawn comes from it; what Spark's threads do in which order does
    not."""

    def __init__(
        self,
        mutations: Iterable[Mutation],
        cluster: Callable[[Kind], AttackCluster],
        *,
        seed: int,
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
    ) -> None:
        self._mutations = list(mutations)
        self._cluster_for = cluster
        self._seed = seed
        self._say = say
        self.report = Report([mutation.name for mutation in self._mutations])

    def until(self, runs: int, seconds: float | None = None) -> Report:
        """So many applied runs in all, at least one of each mutation. Mutations get equal shares of
        the time, so cheap ones run more often. With `seconds`, it ends at that time with as many as
        there were."""
        started = time.monotonic()
        # The cluster and the store first: their runs are few, the rest is filled in local mode.
        for kind in ("cluster", "store", *PROTECTED, "local"):
            mine = [mutation for mutation in self._mutations if kind in kinds_of(mutation)]
            if not mine:
                continue
            before = self.report.applied
            with self._cluster_for(kind) as cluster:
                for mutation in mine:
                    self.once(mutation, cluster)
                share = runs
                if kind in ("cluster", "store"):
                    share = before + runs * len(mine) // (10 * len(self._mutations))
                elif kind != "local":
                    share = before + runs * _PROTECTED_PERCENT // 100
                self._run(cluster, mine, share, None if seconds is None else started + seconds)
        return self.report

    def once(self, mutation: Mutation, cluster: AttackCluster) -> Row:
        """Tries a mutation until it was applied once, and, where it belongs, until it was detected
        if it must be. A finding ends it too: more tries would not take that away."""
        row = self.report.row(mutation.name)
        before = (row.tried, row.applied, row.wrong)
        elsewhere = cluster.policy is not None and "query" in mutation.needs
        must = not elsewhere and expected.must_be_detected(mutation.name)
        tries = _TRIES_ELSEWHERE if elsewhere else _TRIES

        def open_still() -> bool:
            return row.applied == before[1] or (must and not row.detected)

        while open_still() and row.wrong == before[2] and row.tried - before[0] < tries:
            self._once(cluster, mutation, row)
        if row.applied == before[1]:
            self._say(f"{mutation.name}: not applied in {row.tried - before[0]} tries")
        return row

    def _run(
        self, cluster: AttackCluster, mutations: list[Mutation], runs: int, deadline: float | None
    ) -> None:
        live = [mutation for mutation in mutations if self.report.row(mutation.name).applied]
        reported = time.monotonic()
        while live and self.report.applied < runs:
            if deadline is not None and time.monotonic() > deadline:
                return
            mutation = min(live, key=lambda mutation: _spent(self.report.row(mutation.name)))
            self._once(cluster, mutation, self.report.row(mutation.name))
            if time.monotonic() - reported > 30:
                reported = time.monotonic()
                self._say(f"{self.report.applied} of {runs} runs, {self.report.wrong} wrong")

    def _once(self, cluster: AttackCluster, mutation: Mutation, row: Row) -> None:
        rng = random.Random(f"{self._seed}/{mutation.name}/{row.tried}")
        started = time.monotonic()
        try:
            outcome = expected.held(mutation.name, mutation.attempt(cluster, rng))
        except Exception as error:
            # The harness's own failure: a long run goes on, but does not end well.
            outcome = Outcome(False, "wrong", "harness", f"try {row.tried}: {repr(error)[:600]}")
            cluster.restart()
        row.add(outcome, time.monotonic() - started, protected=cluster.policy is not None)
        if outcome.verdict == "wrong":
            self._say(f"WRONG {mutation.name}: {outcome.check}: {outcome.detail}")
