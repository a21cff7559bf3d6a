"""What an executor tells the driver, falsely, of a query that runs in one engine in one request."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coffer_adversary import hostile
from coffer_adversary.attack_cluster import CONF
from coffer_adversary.logs import Log
from coffer_adversary.mutation import Outcome
from coffer_testing.runner import Driver

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster
    from coffer_testing.answers import Answer

_WHOLE = {"spark.coffer.oneMachine": "on", "spark.coffer.exchange.inMemory": "on"}


class Alone:
    """A Spark application of its own, in which a malicious executor has an engine that is what it
    seems: the harness's stand-in for engines takes stages one by one."""

    def __init__(self, cluster: AttackCluster) -> None:
        self.driver = Driver(
            cluster.sealed,
            sealed=True,
            log=cluster.folder / "alone.log",
            config_dir=cluster.owner.config_dir,
            passphrase_file=cluster.owner.passphrase_file,
            conf={
                **CONF,
                **_WHOLE,
                **hostile.configuration(),
                "spark.sql.warehouse.dir": str(cluster.folder / "alone-warehouse"),
                "spark.task.maxFailures": "1",
            },
        )
        self.log = Log(self.driver, cluster.folder / "alone.log")

    def stop(self) -> None:
        self.driver.stop()


@dataclass(frozen=True)
class OfWhole:
    """One mutation of what the task of such a query returns."""

    name: str
    needs: frozenset[str] = frozenset({"local"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        alone = cluster.keep("alone", lambda: Alone(cluster))
        question = cluster.ask(rng)
        seed = rng.getrandbits(48)

        def run() -> Answer:
            return cluster.within(lambda: alone.driver.query(question.sql, question.conf))

        hostile.say(alone.driver, "arm", self.name, seed)
        judgement = cluster.judge(question, run)
        deeds = hostile.say(alone.driver, "disarm")
        if judgement.check in ("hang", "driver-lost"):
            cluster.forget("alone")
        detail = f"{question.name} seed={seed}: {'; '.join(deeds[:3]) or 'nothing'}"
        if judgement.detail:
            detail = f"{detail}: {judgement.detail}"
        if judgement.check not in ("hang", "driver-lost") and (panic := alone.log.panic()):
            return Outcome(True, "wrong", "panic", f"{detail}: {panic}")
        return Outcome(bool(deeds), judgement.verdict, judgement.check, detail)


MUTATIONS = tuple(
    OfWhole(f"whole-outcome-{name}")
    for name in (
        "stream-flipped",
        "stream-cut",
        "stream-extended",
        "stream-empty",
        "stream-noise",
        "stream-twice",
        "stream-of-an-earlier-query",
        "streams-fewer",
        "streams-more",
        "done-flipped",
        "done-noise",
        "done-empty",
        "of-an-earlier-query",
        "without-bytes",
        "missing",
        "of-another-class",
        "no-memory",
        "no-memory-of-noise",
    )
)
