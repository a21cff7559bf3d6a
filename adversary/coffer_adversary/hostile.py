"""A malicious executor: the component of `spark/src/test/…/hostile`, in a jar that is built beside
the plugin's.

It is loaded into the cluster's local driver and sleeps there until a mutation arms one of its
mutations for one query.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coffer._find import find_jar
from coffer.session import PLUGIN
from coffer_adversary import fixtures
from coffer_adversary.mutation import Outcome
from coffer_testing.runner import QueryFailed

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster
    from coffer_adversary.questions import Question
    from coffer_testing.answers import Answer
    from coffer_testing.runner import Driver

_PACKAGE = "org.apache.spark.sql.coffer.hostile"
_WRITES = 0.15  # of the runs attack a write
_CALL = f"result = list(getattr(spark._jvm.{_PACKAGE}.Hostile, call)(*arguments) or [])"
_SEND = f"result = list(getattr(spark._jvm.{_PACKAGE}.Intruder, call)(seed))"
_RAN = f"result = bool(spark._jvm.{_PACKAGE}.Intruder.ran())"


def configuration(*, coffer: bool = True) -> dict[str, str]:
    """The settings that put the malicious executor beside Coffer's plugin, into a driver in local
    mode; without `coffer` it is put into plaintext Spark, for controls.

    There, once shuffle data was lost, Spark's heartbeats fail for the rest of the application's
    life: it forgets its only block manager and has no way to take it back. So they may fail for
    ever, and a task's result, which Spark would look for in that block manager if it were longer
    than a megabyte, comes as it is.
    """
    jars = [str(find_jar()), str(jar())]
    plugin = f"{_PACKAGE}.HostilePlugin"
    return {
        "spark.plugins": f"{PLUGIN},{plugin}" if coffer else plugin,
        "spark.jars": ",".join(jars),
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.executor.heartbeat.maxFailures": str(2**31 - 1),
        "spark.task.maxDirectResultSize": "64m",
    }


def jar() -> Path:
    """The test jar, beside the plugin's."""
    return find_jar().with_name("coffer-spark-hostile.jar")


@dataclass(frozen=True)
class Applied:
    """One mutation of the executor's, applied in the course of a query or of a write. `plans`: the
    ways of planning under which it finds most to change; any, if empty. `pieces`: in a query whose
    broadcast comes from several tasks. `mutation`: which one, if its name is not that of the
    mutation; `client`: in a query of two parts that are put together at the client."""

    name: str
    plans: tuple[str, ...] = ()
    writes: bool = True
    pieces: bool = False
    needs: frozenset[str] = frozenset({"local", "query"})
    mutation: str = ""
    client: bool = False

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        question = self._question(cluster, rng)
        seed = rng.getrandbits(48)
        deeds: list[str] = []

        def disarm() -> None:
            deeds.extend(call(cluster, "disarm"))

        def run() -> Answer:
            if self.pieces or self.client:
                return fixtures.pieces(cluster).ask(cluster, question)
            return cluster.run(question, disarm=disarm)

        call(cluster, "arm", self.mutation or self.name, seed)
        judgement = cluster.judge(question, run)
        disarm()
        detail = f"{question.name} seed={seed}: {'; '.join(deeds[:3]) or 'nothing'}"
        if judgement.detail:
            detail = f"{detail}: {judgement.detail}"
        if ran_harm(cluster):
            return Outcome(True, "wrong", "gadget-ran", detail)
        return Outcome(bool(deeds), judgement.verdict, judgement.check, detail)

    def _question(self, cluster: AttackCluster, rng: random.Random) -> Question:
        if self.client:
            return fixtures.pieces(cluster).at_client(rng)
        if self.pieces:
            return fixtures.pieces(cluster).broadcasting(rng)
        if self.writes and rng.random() < _WRITES:
            return cluster.ask(rng, writes=True)
        for _ in range(50):
            question = cluster.ask(rng)
            if not self.plans or question.name.rpartition("/")[2] in self.plans:
                return question
        return question


def call(cluster: AttackCluster, name: str, *arguments: str | int) -> list[str]:
    """Says something to the cluster's malicious executor. One that is gone, with its driver, has
    nothing to say."""
    return say(cluster.driver, name, *arguments)


def say(driver: Driver, name: str, *arguments: str | int) -> list[str]:
    """The same for the malicious executor of any driver."""
    try:
        reply: list[str] = driver.run(_CALL, call=name, arguments=list(arguments))
    except QueryFailed as error:
        if error.kind == "Driver":
            return []
        raise
    return reply


def send_harm(cluster: AttackCluster, seed: int, *, chain: bool = False) -> tuple[str, str]:
    """Sends the driver an object over a socket, as executors do; what and where, and its answer.
    `chain`: one of Java's, Scala's and Spark's own classes alone."""
    call = "sendChain" if chain else "send"
    what, answer = cluster.within(lambda: cluster.driver.run(_SEND, call=call, seed=seed))
    return what, answer


def ran_harm(cluster: AttackCluster) -> bool:
    """Whether any such object has done in the driver what it was made for."""
    return bool(cluster.driver.run(_RAN))
