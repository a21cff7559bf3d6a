"""Mutations applied on the wire between executor and engine. What each does is in adversary/proxy;
here is when."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coffer_adversary.mutation import Mutation, Outcome

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster

_WRITES = 0.1  # of the runs attack a write

_LOCAL = frozenset({"local"})


@dataclass(frozen=True)
class Mutated:
    """One mutation of the proxy's, applied in the course of a query or of a write."""

    name: str
    needs: frozenset[str] = frozenset({"local", "query"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        return cluster.attack(
            self.name, rng, question=cluster.ask(rng, writes=rng.random() < _WRITES)
        )


@dataclass(frozen=True)
class Swap:
    """Two engines' answers to tasks of one stage change places."""

    name: str = "swap-engines"
    needs: frozenset[str] = frozenset({"cluster"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        return cluster.attack(self.name, rng, first=True)


@dataclass(frozen=True)
class StartMutation:
    """What is said once, when an engine is attested: so engines are ended first, and the executors
    start new ones."""

    name: str
    needs: frozenset[str] = _LOCAL

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        return cluster.attack_at_start(self.name, rng)


# Until no query's objects are left, and with them no session; how many there still are.
_COLLECT = """
import gc, time
queries = getattr(getattr(spark._jvm.org.apache.spark.sql.coffer.exec, "CofferQuery$"), "MODULE$")
for _ in range(50):
    gc.collect()
    spark._jvm.System.gc()
    time.sleep(0.02)
    result = queries.liveSessions()
    if not result:
        break
"""


@dataclass(frozen=True)
class EndedSession:
    """A task of a query that is over is run again with everything that was seen of it, its key
    release included. The driver ends a session when the query's objects are collected, and says so
    in the next descriptors."""

    name: str = "replay-an-ended-session"
    needs: frozenset[str] = _LOCAL

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        question = cluster.ask(rng)
        last = cluster.ask(rng)
        cluster.within(lambda: cluster.run(question))
        left = cluster.within(lambda: cluster.driver.run(_COLLECT))
        judgement = cluster.judge(last, lambda: cluster.run(last))
        seed = rng.getrandbits(48)
        reply = cluster.proxies.probe(self.name, seed)
        detail = f"{question.name} then {last.name} seed={seed}: {reply['what']}: {reply['answer']}"
        if judgement.verdict == "wrong":
            return Outcome(True, "wrong", judgement.check, f"{detail}: {judgement.detail}")
        if left or reply["what"] is None:
            return Outcome(False, "right_rows", "", f"{detail} ({left} sessions live)")
        if reply["answer"] == "done":
            return Outcome(True, "wrong", "ran-again", detail)
        # Which word it must be: `expected`.
        return Outcome(True, "detected", reply["answer"].partition(":")[0], detail)


_IN_TASKS = [
    "flip-bit-in",
    "truncate-in",
    "extend-in",
    "drop-input",
    "drop-frame-in",
    "repeat-frame-in",
    "swap-frames-in",
    "reverse-frames-in",
    "cut-stream-in",
    "end-stream-early-in",
    "swap-frames-of-streams-in",
    "drop-stream-in",
    "repeat-stream-in",
    "reorder-streams-in",
    "swap-inputs",
    "swap-inputs-relabelled",
    "swap-reducers",
    "swap-reducers-relabelled",
    "replay-stream-of-a-query",
    "replay-stream-of-a-query-relabelled",
    "replay-stream-of-a-stage-relabelled",
    "replay-frame-of-a-query-in",
    "replay-frame-of-a-stage-in",
    "replay-frame-of-an-attempt-in",
    "replay-input-of-a-query",
    "honest-duplicate",
    "tampered-duplicate",
    "forge-attempt-in",
    "forge-counter-in",
    "flip-bit-out",
    "truncate-out",
    "extend-out",
    "empty-stream-out",
    "repeat-stream-out",
    "drop-target-out",
    "drop-frame-out",
    "repeat-frame-out",
    "swap-frames-out",
    "reverse-frames-out",
    "cut-stream-out",
    "end-stream-early-out",
    "swap-targets-out",
    "swap-targets-relabelled-out",
    "replay-stream-out",
    "replay-stream-relabelled-out",
    "replay-frame-of-a-query-out",
    "replay-frame-of-a-stage-out",
    "replay-frame-of-an-attempt-out",
    "replay-result-of-a-query",
    "replay-result-of-a-task",
    "replay-result-of-a-stage",
    "commit-of-another-query",
    "commit-of-another-task",
    "commit-of-another-stage",
    "flip-bit-commit",
    "empty-commit",
    "metrics-as-commit",
    "metrics-of-another-task",
    "flip-bit-metrics",
    "empty-metrics",
    "false-counters",
    "failed-invented",
    "run-twice",
    "mix-attempts",
    "commit-of-another-attempt",
    "flip-bit-fragment",
    "flip-bit-descriptor",
    "flip-bit-object",
    "truncate-fragment",
    "truncate-descriptor",
    "truncate-object",
    "drop-object",
    "repeat-object",
    "reorder-objects",
    "add-object-of-a-query",
    "object-of-a-query",
    "object-of-a-stage",
    "fragment-of-a-query",
    "fragment-of-a-stage",
    "descriptor-of-a-query",
    "descriptor-of-a-stage",
    "descriptor-of-a-task",
    "start-of-a-query",
    "start-of-a-stage",
    "start-of-a-task",
    "false-stage",
    "false-partition",
    "false-execution",
    "false-session",
    "false-protocol",
    "flip-bit-release",
    "drop-release",
    "release-of-another-query",
    "release-under-another-number",
    "answer-another-input",
    "answer-unasked",
    "answer-after-the-end",
    "early-end",
    "answer-too-short",
    "garbage-midway",
    "hostile-length-midway",
    "attest-midway",
    "start-midway",
    "close-midway",
    "garbage-before-start",
    "replay-start-before-start",
    "garbage-beside",
    "broken-start-beside",
    "hostile-length-beside",
    "half-a-message-beside",
]

_AT_START = [
    "attest-other-owner",
    "attest-other-challenge",
    "attest-other-application",
    "attest-other-protocol",
    "flip-bit-evidence",
    "old-evidence",
    "evidence-over-another-key",
    "old-evidence-over-this-key",
    "evidence-of-another-version",
    "evidence-of-another-protocol",
    "evidence-of-another-kind",
    "evidence-of-one-kind-more",
]

MUTATIONS: tuple[Mutation, ...] = (
    *(Mutated(name) for name in _IN_TASKS),
    *(StartMutation(name) for name in _AT_START),
    EndedSession(),
    Swap(),
)
