"""Lies told on the wire between executor and engine. What each does is in engine/crates/saboteur; here is when."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coffer_security.attack.mutation import Outcome

if TYPE_CHECKING:
    from coffer_security.attack.arena import Arena

_WRITES = 0.15  # of the runs attack a write


@dataclass(frozen=True)
class Lie:
    """One lie of the saboteur's, told in the course of a query or of a write."""

    name: str
    needs: frozenset[str] = frozenset({"local"})

    def attempt(self, arena: Arena, rng: random.Random) -> Outcome:
        writes = "write" in self.needs or rng.random() < _WRITES
        return arena.attack(self.name, rng, question=arena.ask(rng, writes=writes))


MUTATIONS = (Lie("flip-bit-in"),)
