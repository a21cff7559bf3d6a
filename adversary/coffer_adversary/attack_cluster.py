"""Where attacks happen: sealed TPC-H tables, their owner, a driver whose engines are proxies, and
the right answers."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from coffer_adversary import fixtures, hostile, policy, questions
from coffer_adversary.judge import DEFECTS, named
from coffer_adversary.logs import Log
from coffer_adversary.mutation import Outcome, Verdict
from coffer_adversary.proxies import Done, Health, Proxies, program
from coffer_adversary.questions import PROFILES, Question
from coffer_testing import policies, tpch
from coffer_testing.answers import Answer, difference
from coffer_testing.cluster import Cluster
from coffer_testing.owner import Owner
from coffer_testing.processes import named as named_processes
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.servers.store_relay import RelayedS3

Kind = Literal["local", "cluster", "store", "det-ope", "mixed"]
# clusters in local mode whose tables' columns have protections, by the policy's name:
# `coffer_testing.policies`.
PROTECTED: tuple[Kind, ...] = ("det-ope", "mixed")
Kept = TypeVar("Kept")

# Past this a run counts as hung: some hundred times what one takes.
HANGS = 60.0

# Small tables must still be several partitions, or nothing is shuffled.
CONF = {
    "spark.sql.shuffle.partitions": "3",
    "spark.coffer.scan.targetBytes": "131072",
    "spark.sql.files.maxPartitionBytes": "131072",
    "spark.sql.files.openCostInBytes": "1024",
    "spark.driver.memory": "1g",
    "spark.coffer.engine.memory": "512MiB",
    # What is attacked must cross the host.
    "spark.coffer.exchange.inMemory": "off",
}


class Hung(RuntimeError):
    """A run neither answered nor failed in time."""


class Unwritten(RuntimeError):
    """A failed write left something behind: a wrong answer, whatever error there was."""


@dataclass(frozen=True)
class Judgement:
    """What came of one run: see `Outcome`."""

    verdict: Verdict
    check: str
    detail: str


class AttackCluster:
    """One Spark application under attack. `kind`: local mode, where driver and executor are one
    JVM, over `tee` columns or under a policy of other protections, or with an S3 whose answers are
    the harness's; or a cluster of two workers on loopback. `scale`: TPC-H's. `only`: names of the
    questions that are asked, all by default.
    `like`: a cluster whose questions this one takes over, and, where the policy is the same, its
    owner and tables."""

    def __init__(
        self,
        folder: Path,
        *,
        kind: Kind = "local",
        scale: str = "0.01",
        only: frozenset[str] | None = None,
        profiles: tuple[str, ...] = tuple(PROFILES),
        hangs: float = HANGS,
        like: AttackCluster | None = None,
    ) -> None:
        self.folder = folder
        self.kind = kind
        self.hangs = hangs
        folder.mkdir(parents=True, exist_ok=True)
        self.plain: dict[str, Path] = like.plain if like else tpch.data(scale)
        mine = like if like and like.policy == self.policy else None
        # Plain files that the policy lists as inputs lie there.
        self.inputs: Path = mine.inputs if mine else folder / "plain-inputs"
        self.owner = mine.owner if mine else self._owner()
        self.sealed: dict[str, Path] = (
            mine.sealed if mine else self.owner.encrypt(self.plain, folder / "sealed")
        )
        self.proxies = Proxies()
        self.restarts = 0
        self._tables = count()
        self._seen: dict[tuple[str, str], int] = {}
        self._engines: frozenset[int] = frozenset()
        self._served = 0
        self._cluster: Cluster | None = None
        self._kept: dict[str, Any] = {}
        self.driver: Driver
        self.store: RelayedS3 | None = None
        try:
            if kind == "store":
                # Its mutations have questions of their own.
                self.store = RelayedS3(folder / "store").start()
                self._questions = []
            else:
                self._questions = like._questions if like else self._answered(only, profiles)
            self._start()
        except BaseException:
            self.stop()
            raise

    # ---- what mutations use ---------------------------------------------------------------------

    @property
    def policy(self) -> str | None:
        """The name of the policy by which columns have protections other than `tee`."""
        return self.kind if self.kind in PROTECTED else None

    def ask(self, rng: random.Random, *, writes: bool = False) -> Question:
        """A question of the pool. With `writes`, one that writes a table; engines write none with
        ciphertexts. Those of other shapes than TPC-H's are asked of `tee` columns."""
        pool = [
            question
            for question in self._questions
            if question.writes == (writes and self.policy is None)
            and not (self.policy and question.shaped)
        ]
        if not pool:
            raise ValueError("this cluster has no such question")
        return rng.choice(pool)

    def question(self, name: str) -> Question:
        """The question of that name, as `q05/shuffled` or `insert`."""
        return next(question for question in self._questions if question.name == name)

    def run(self, question: Question, *, disarm: Callable[[], object] = lambda: None) -> Answer:
        """The question's answer now: the query's rows, or what a write left, read back after
        `disarm` was called. A write that failed raises its error, after the table was found to be
        as it was before."""
        if not question.writes:
            return self.within(lambda: self.driver.query(question.sql, question.conf))
        table = f"written_{self.kind}_{next(self._tables)}"
        back = questions.read_back(table)
        for command in question.before:
            self.within(lambda command=command: self.driver.query(command.format(table=table)))
        try:
            try:
                self.within(
                    lambda: self.driver.query(question.sql.format(table=table), question.conf)
                )
            except QueryFailed:
                disarm()
                self._as_before(question, back)
                raise
            disarm()
            return self.within(lambda: self.driver.query(back))
        finally:
            disarm()
            self.within(lambda: self.driver.query(f"DROP TABLE IF EXISTS {table}"))

    def judge(self, question: Question, run: Callable[[], Answer]) -> Judgement:
        """What `run` came to, which asks `question` under attack. After a hang, a lost driver or a
        lost engine the cluster is started again."""
        try:
            answer = run()
        except Hung as hung:
            self.restart()
            return Judgement("wrong", "hang", str(hung))
        except Unwritten as left:
            return Judgement("wrong", "left-behind", str(left))
        except QueryFailed as error:
            judgement = self._refusal(error)
        else:
            found = difference(question.expected, answer, ordered=question.ordered)
            judgement = (
                Judgement("wrong", "rows", found) if found else Judgement("right_rows", "", "")
            )
        return self._healthy() or judgement

    def attack(
        self,
        mutation: str,
        rng: random.Random,
        *,
        question: Question | None = None,
        first: bool = False,
    ) -> Outcome:
        """One run in which the proxies apply `mutation`, at the `first` place where they can, or
        one that `rng` picks."""
        question = question or self.ask(rng)
        seed = rng.getrandbits(48)
        key = (mutation, question.name)
        skip = 0 if first else rng.randrange(max(1, self._seen.get(key, 1)))
        self.proxies.arm(mutation, seed, skip)
        return self._attacked(mutation, question, f"seed={seed} skip={skip}")

    def attack_at_start(self, mutation: str, rng: random.Random) -> Outcome:
        """One run for which engines have to be started, at which the proxies apply `mutation`. An
        engine that is refused serves no task; if a task of an earlier run that is still ending met
        it, the run itself goes on with another."""
        question = self.ask(rng)
        seed = rng.getrandbits(48)
        self.proxies.arm_at_start(mutation, seed)
        self.proxies.end_engines()
        self.expect_new_engines()
        outcome = self._attacked(mutation, question, f"seed={seed}")
        # One that was admitted and opens no key, say, would fail every run to come.
        self.proxies.end_engines()
        self.expect_new_engines()
        if outcome.applied and outcome.verdict == "right_rows" and self._served:
            # The answer may be right; that such an engine got work and keys is not.
            return replace(outcome, verdict="wrong", check="accepted")
        return outcome

    def _attacked(self, mutation: str, question: Question, drawn: str) -> Outcome:
        """Asks while a mutation is armed."""
        applied: list[Done] = []

        def disarm() -> None:
            applied.append(self.proxies.disarm())

        judgement = self.judge(question, lambda: self.run(question, disarm=disarm))
        disarm()
        key = (mutation, question.name)
        self._seen[key] = max(self._seen.get(key, 0), *(done.seen for done in applied))
        what = next((done.what for done in applied if done.what), None)
        self._served = sum(done.served for done in applied)
        detail = f"{question.name} {drawn}: {what or 'nothing'}"
        if judgement.detail:
            detail = f"{detail}: {judgement.detail}"
        return Outcome(what is not None, judgement.verdict, judgement.check, detail)

    def keep(self, name: str, make: Callable[[], Kept]) -> Kept:
        """What a mutation needs while the cluster lives: made at its first use. If it has a method
        `stop`, that ends it."""
        if name not in self._kept:
            self._kept[name] = make()
        kept: Kept = self._kept[name]
        return kept

    def forget(self, name: str) -> None:
        """What is kept under that name is ended, and made anew when it is needed next."""
        kept = self._kept.pop(name, None)
        getattr(kept, "stop", lambda: None)()

    def restart(self) -> None:
        """A new Spark application, and on a cluster a new one of these; tables and owner stay."""
        self.restarts += 1
        self._end()
        self._start()

    def expect_new_engines(self) -> None:
        """To be called when engines were ended on purpose: those that run next are the
        cluster's."""
        self._engines = frozenset()

    def within(self, action: Callable[[], Any]) -> Any:
        """What `action` returns or raises; Hung if it does neither in time."""
        outcome: dict[str, Any] = {}

        def run() -> None:
            try:
                outcome["value"] = action()
            except BaseException as error:
                outcome["error"] = error

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(self.hangs)
        if thread.is_alive():
            raise Hung(f"no answer and no error within {self.hangs} s")
        if "error" in outcome:
            raise outcome["error"]
        return outcome["value"]

    def stop(self) -> None:
        """Ends what the cluster started; its folder stays."""
        for kept in self._kept.values():
            getattr(kept, "stop", lambda: None)()
        self._kept.clear()
        self._end()
        self.proxies.close()
        if self.store is not None:
            self.store.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # ---- its parts ------------------------------------------------------------------------------

    def _start(self) -> None:
        master = "local[2]"
        environment = self.proxies.environment()
        conf = {
            **CONF,
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.task.maxFailures": "1",
        }
        if self.store is not None:
            # The proxy knows of no storage that is asked for; what is attacked is behind it.
            conf |= self.store.conf()
        else:
            conf["spark.coffer.engine.path"] = str(program())
        if self.kind not in ("cluster", "store"):
            conf |= hostile.configuration()
        if self.kind == "cluster":
            self._cluster = Cluster(
                self.folder / f"cluster-{self.restarts}", environment=environment
            )
            master = self._cluster.master
            conf |= {"spark.executor.memory": "768m", "spark.cores.max": "2"}
        self.driver = Driver(
            self.sealed,
            sealed=True,
            log=self.folder / "driver.log",
            master=master,
            config_dir=self.owner.config_dir,
            passphrase_file=self.owner.passphrase_file,
            conf=conf,
            env=environment,
        )
        self._log = Log(self.driver, self.folder / "driver.log")
        if self.store is None:
            self.proxies.wait(2 if self.kind == "cluster" else 1)
        self._engines = frozenset()
        self.within(lambda: self.driver.query("SELECT count(*) FROM nation"))
        self._engines = self._health().engines

    def _end(self) -> None:
        driver = getattr(self, "driver", None)
        if driver is not None:
            driver.stop()
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None

    def _owner(self) -> Owner:
        owner = Owner.create(self.folder / "trusted")
        if self.policy:
            policies.write(self.policy, owner)
            fixtures.protect(self.policy, owner)
        listed = f'unverified_inputs = ["{self.inputs}"]'
        policy.write(owner, policy.read(owner).replace("unverified_inputs = []", listed))
        return owner

    def _answered(self, only: frozenset[str] | None, profiles: tuple[str, ...]) -> list[Question]:
        """All questions with plaintext Spark's answers."""
        asked: list[Question] = []
        conf = {**CONF, "spark.sql.warehouse.dir": str(self.folder / "plain-warehouse")}
        with Driver(self.plain, sealed=False, log=self.folder / "plain.log", conf=conf) as plain:
            for name, sql in questions.queries().items():
                if only is None or name in only:
                    answer = plain.query(sql)
                    asked += [
                        Question(f"{name}/{profile}", sql, PROFILES[profile], True, answer)
                        for profile in profiles
                    ]
            for name, sql in questions.shapes().items():
                if only is None or name in only:
                    answer = plain.query(sql)
                    asked += [
                        Question(f"{name}/{profile}", sql, PROFILES[profile], False, answer)
                        for profile in profiles
                    ]
            for name, (before, sql) in questions.writes().items():
                if only is None or name in only:
                    asked.append(self._answered_write(plain, name, before, sql))
        shutil.rmtree(self.folder / "plain-warehouse", ignore_errors=True)
        return asked

    def _answered_write(
        self, plain: Driver, name: str, before: tuple[str, ...], sql: str
    ) -> Question:
        table = "plain_" + name.replace("-", "_")
        back = questions.read_back(table)

        def run(command: str) -> None:
            plain.query(command.format(table=table).replace("USING coffer", "USING parquet"))

        for command in before:
            run(command)
        unwritten = plain.query(back) if before else None
        run(sql)
        return Question(name, sql, {}, False, plain.query(back), before, unwritten)

    def _as_before(self, question: Question, back: str) -> None:
        """A write that failed has left the table as it was."""
        try:
            left = self.within(lambda: self.driver.query(back))
        except QueryFailed as error:
            if question.unwritten is None and "TABLE_OR_VIEW_NOT_FOUND" in error.message:
                return
            raise Unwritten(
                f"after the failed write the table cannot be read: {error.message[:300]}"
            ) from error
        if question.unwritten is None:
            raise Unwritten(f"after the failed write there is a table of {len(left.rows)} rows")
        found = difference(question.unwritten, left, ordered=False)
        if found:
            raise Unwritten(f"after the failed write: {found}")

    def _refusal(self, error: QueryFailed) -> Judgement:
        code = named(error.message)
        short = " ".join(error.message.split())[:400]
        if error.kind == "Driver":
            self.restart()
            return Judgement("wrong", "driver-lost", short)
        if code is None:
            return Judgement("wrong", "no-code", short)
        if code in DEFECTS:
            return Judgement("wrong", code, short)
        return Judgement("detected", code, short)

    def _health(self) -> Health:
        if self.store is None:
            return self.proxies.health()
        return Health(frozenset(named_processes({self.driver.pid}, "coffer-engine")), ())

    def _healthy(self) -> Judgement | None:
        """None if the engines are those that ran before and nothing has panicked: they, one that is
        gone, or the client engine."""
        health = self._health()
        panics = [panic for panic in (self._log.panic(), *health.panics) if panic]
        if panics:
            self._engines = health.engines
            return Judgement("wrong", "panic", panics[0])
        if not self._engines:
            self._engines = health.engines
        elif health.engines != self._engines:
            lost = sorted(self._engines - health.engines)
            self._engines = health.engines
            return Judgement("wrong", "engine-lost", f"engine process {lost} ended")
        return None
