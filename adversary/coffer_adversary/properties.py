"""What Spark tells an executor of a job beside its tasks: a name that the user gave a group of jobs
must not be guessed from it."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coffer_adversary import hostile
from coffer_adversary.mutation import Outcome

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster
    from coffer_testing.answers import Answer

_GROUP = (
    "spark.sparkContext.setJobGroup(name, name) if name else "
    "spark.sparkContext._jsc.clearJobGroup()"
)
_NAMES = tuple(f"payroll of {year}" for year in range(1990, 2031))
_HASHES = ("md5", "sha1", "sha256", "sha384", "sha512", "sha3_256", "blake2b", "blake2s")
_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")


def _hashes(name: str) -> set[str]:
    """The first 16 digits of all that a name hashes to without a salt, and the name."""
    return {name} | {
        hashlib.new(how, name.encode(encoding)).hexdigest()[:16]
        for how in _HASHES
        for encoding in _ENCODINGS
    }


@dataclass(frozen=True)
class Grouped:
    """The executor tries names for the group that it sees."""

    name: str = "job-group-guessed"
    needs: frozenset[str] = frozenset({"local"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        question = cluster.ask(rng)
        group = rng.choice(_NAMES)
        seen: list[str] = []

        def run() -> Answer:
            cluster.within(lambda: cluster.driver.run(_GROUP, name=group))
            try:
                return cluster.run(question)
            finally:
                cluster.within(lambda: cluster.driver.run(_GROUP, name=""))

        hostile.call(cluster, "arm", "job-groups-read", rng.getrandbits(48))
        judgement = cluster.judge(question, run)
        seen.extend(hostile.call(cluster, "disarm"))
        guessed = [
            name
            for name in _NAMES
            if any(digest in what for digest in _hashes(name) for what in seen)
        ]
        detail = f"{question.name}: {len(set(seen))} groups seen, as {sorted(set(seen))[:1]}"
        if guessed:
            return Outcome(True, "wrong", "group-guessed", f"{detail}: {guessed[0]!r}")
        return Outcome(
            bool(seen), judgement.verdict, judgement.check, f"{detail}: {judgement.detail}"
        )


MUTATIONS = (Grouped(),)
