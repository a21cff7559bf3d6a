"""What an attack is, and what came of one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster

Verdict = Literal["detected", "right_rows", "wrong", "race"]


@dataclass(frozen=True)
class Outcome:
    """One mutated run.

    `applied`: false when the mutation found nothing to bite on; the run is then not counted, unless
    it went wrong. `verdict`: "race" is given by the judge alone, to a refusal of `expected.RACES`.
    `check`: the code that named the check which failed; empty for right rows; for a wrong outcome,
    in a word what was wrong. `detail`: what was done, to reproduce it: question, seed, place.
    """

    applied: bool
    verdict: Verdict
    check: str
    detail: str


class Mutation(Protocol):
    """One mutation by a host. `name` is its row in the table; what may come of it is declared in
    `expected`.

    `needs` is what of a cluster it takes: "cluster", else it runs in local mode; "store" for one
    whose tables lie on an S3; "write" when it
    attacks writes; "alone" when nothing else may have run in its cluster since the last restart;
    "query" when any query will do, so that it runs over columns of every protection too;
    "protected" when it takes columns that are stored as ciphertexts.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> frozenset[str]: ...

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        """One run. It leaves the cluster as it was: tables restored, nothing armed, or
        `cluster.restart()` called."""
        ...
