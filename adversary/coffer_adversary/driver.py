"""Objects that do harm when the driver reads them: in a task's result, in what a task counted, or
straight to its ports."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coffer_adversary import hostile
from coffer_adversary.hostile import Applied
from coffer_adversary.mutation import Outcome

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster


@dataclass(frozen=True)
class Intrusion:
    """An object of a class that is not on the driver's allow-list, sent to one of its endpoints
    over a socket. With `chain`, all its classes are Java's, Scala's and Spark's, and calling what
    the sender likes is what they do. It must be refused before any code of its class runs, and the
    next query must have its answer."""

    name: str
    chain: bool = False
    needs: frozenset[str] = frozenset({"local"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        what, answer = hostile.send_harm(cluster, rng.getrandbits(48), chain=self.chain)
        if hostile.ran_harm(cluster):
            return Outcome(True, "wrong", "gadget-ran", f"{what}: {answer}")
        if "filter status: REJECTED" not in answer:
            return Outcome(True, "wrong", "not-refused", f"{what}: {answer[:300]}")
        question = cluster.ask(rng)
        judgement = cluster.judge(question, lambda: cluster.run(question))
        if judgement.verdict != "right_rows":
            return Outcome(
                True, "wrong", judgement.check, f"{what}, then {question.name}: {judgement.detail}"
            )
        return Outcome(True, "detected", "COFFER_DESERIALIZATION_FILTER", what)


MUTATIONS = (
    Applied("gadget-as-result"),
    Applied("gadget-as-map-status", ("shuffled", "merged")),
    Applied("gadget-inside-a-result"),
    Applied("gadget-as-accumulator"),
    Intrusion("gadget-to-the-drivers-ports"),
    Intrusion("gadget-chain-to-the-drivers-ports", chain=True),
)
