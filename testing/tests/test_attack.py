"""The host that attacks, in small: every mutation at least once, and until it is detected, if it
must be. The whole of it: `make attack`."""

from __future__ import annotations

import io
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_adversary import (
    below,
    expected,
    fixtures,
    forged,
    hostile,
    judge,
    registry,
    wire,
    writes,
)
from coffer_adversary.attack_cluster import CONF, AttackCluster
from coffer_adversary.mutation import Mutation, Outcome
from coffer_adversary.orchestrator import Campaign, kinds_of
from coffer_adversary.questions import PROFILES, Question
from coffer_adversary.report import Report
from coffer_testing.answers import Answer
from coffer_testing.parquet_layout import Chunk, pages
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.turns import one_of

SEED = 20261121
# Few questions, but all kinds of stages: scans, shuffles, broadcasts, sorts, a write of each sort.
QUESTIONS = frozenset({"q03", "q12", "q16", "q18", "ctas-shuffled", "insert"})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackCluster]:
    with AttackCluster(tmp_path_factory.mktemp("attack"), only=QUESTIONS) as cluster:
        yield cluster


LOCAL = [mutation for mutation in registry.mutations() if "local" in kinds_of(mutation)]
# The proxy's are also applied below Spark, each of them, where they must be detected as here
# (`cargo test --test attack`): of these one in eight goes through Spark too.
_WIRE = {mutation.name for mutation in wire.MUTATIONS}
_NAMED = [pytest.param(mutation, id=mutation.name) for mutation in LOCAL]
LOCAL_BY_TURNS = [
    *(named for named in _NAMED if named.id not in _WIRE),
    *one_of([named for named in _NAMED if named.id in _WIRE], 8),
]
# Over columns of other protections than `tee`: all mutations that exist there alone, and some of
# those that apply to any query.
PROTECTED = [mutation for mutation in registry.mutations() if "protected" in mutation.needs]
STORED = [mutation for mutation in registry.mutations() if "store" in mutation.needs]
# It takes what a session takes to give up on a listing.
_LASTING = "store-listing-endless"
CLUSTERED = [mutation for mutation in registry.mutations() if "cluster" in mutation.needs]
# What is broadcast there may be built at the client, where nobody can change it.
SOME = [
    mutation
    for mutation in registry.mutations()
    if "query" in mutation.needs and not mutation.name.startswith("broadcast-")
][::16]


def test_unharmed_questions_are_answered_right(cluster: AttackCluster) -> None:
    for writing in (False, True):
        question = cluster.ask(random.Random(1), writes=writing)
        assert (
            cluster.judge(question, lambda question=question: cluster.run(question)).verdict
            == "right_rows"
        )


@pytest.mark.parametrize("mutation", LOCAL_BY_TURNS)
def test_a_mutation_is_detected_or_harmless(mutation: Mutation, cluster: AttackCluster) -> None:
    campaign = Campaign([mutation], lambda _: cluster, seed=SEED)
    row = campaign.once(mutation, cluster)
    assert not row.findings
    assert row.applied >= 1
    assert row.detected == 1 or not expected.must_be_detected(mutation.name)
    assert campaign.report.sound


@pytest.fixture(scope="module")
def protected(
    cluster: AttackCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AttackCluster]:
    with AttackCluster(
        tmp_path_factory.mktemp("protected"), kind="mixed", like=cluster
    ) as protected:
        yield protected


@pytest.mark.parametrize("mutation", [*PROTECTED, *SOME], ids=lambda mutation: mutation.name)
def test_a_mutation_over_protected_columns_is_detected_or_harmless(
    mutation: Mutation, protected: AttackCluster
) -> None:
    row = Campaign([mutation], lambda _: protected, seed=SEED).once(mutation, protected)
    assert not row.findings
    assert row.applied == row.protected >= 1
    # Those that any query will do for are detected above.
    assert (
        row.detected == 1
        or "query" in mutation.needs
        or not expected.must_be_detected(mutation.name)
    )


@pytest.fixture(scope="module")
def stored(
    cluster: AttackCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AttackCluster]:
    with AttackCluster(tmp_path_factory.mktemp("stored"), kind="store", like=cluster) as stored:
        yield stored


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(m, id=m.name, marks=[pytest.mark.full] if m.name == _LASTING else [])
        for m in STORED
    ],
)
def test_a_mutation_of_a_store_is_detected_or_harmless(
    mutation: Mutation, stored: AttackCluster
) -> None:
    campaign = Campaign([mutation], lambda _: stored, seed=SEED)
    row = campaign.once(mutation, stored)
    assert not row.findings
    assert row.applied >= 1
    assert campaign.report.sound


def test_the_proxy_and_the_registry_know_the_same_mutations(cluster: AttackCluster) -> None:
    # The last engine may have been ended with its mutation.
    cluster.run(cluster.ask(random.Random(1)))
    assert set(cluster.proxies.mutations()) == {mutation.name for mutation in wire.MUTATIONS}


def test_the_judge_finds_what_is_wrong(cluster: AttackCluster) -> None:
    """The control: each kind of wrong outcome is seen as one."""
    question = cluster.ask(random.Random(2))
    right = cluster.run(question)

    def judged(rows: list[list[str | None]]) -> str:
        return cluster.judge(question, lambda: Answer(right.schema, rows, 0.0)).check

    assert judged(right.rows) == ""
    assert judged([]) == "rows"
    assert judged(right.rows[:-1]) == "rows"
    assert judged([*right.rows, right.rows[-1]]) == "rows"

    def failed(text: str) -> tuple[str, str]:
        def run() -> Answer:
            raise QueryFailed("PySparkException", text, None)

        judgement = cluster.judge(question, run)
        return judgement.verdict, judgement.check

    assert failed("[COFFER_FRAME_TAG] a frame does not open") == ("detected", "COFFER_FRAME_TAG")
    assert failed("java.lang.NullPointerException") == ("wrong", "no-code")
    assert failed("[TABLE_OR_VIEW_NOT_FOUND] lineitem") == ("wrong", "no-code")
    assert failed("[COFFER_PANIC] a defect") == ("wrong", "COFFER_PANIC")
    # The line of a thread that panicked, in an engine that may be gone by now.
    cluster.driver.run(_LINE)
    assert cluster.judge(question, lambda: right).check == "panic"
    assert cluster.judge(question, lambda: right).check == ""


def test_an_engine_that_ends_by_itself_is_seen_when_another_has_taken_its_place(
    cluster: AttackCluster,
) -> None:
    question = cluster.ask(random.Random(2))
    right = cluster.run(question)
    (engine,) = cluster.proxies.health().engines
    os.kill(engine, signal.SIGABRT)
    # Spark tries its task again, with a new engine.
    found = cluster.judge(question, lambda: cluster.run(question))
    assert found.check == "panic" and "ended by itself: signal: 6" in found.detail, found
    assert cluster.judge(question, lambda: right).check == ""
    (other,) = cluster.proxies.health().engines
    assert other != engine


_LINE = """
name = "org.apache.spark.sql.coffer.transport.EngineProcess"
logger = spark._jvm.org.apache.logging.log4j.LogManager.getLogger(name)
logger.info("engine: thread 'worker' panicked at a place that there is not")
"""


@pytest.fixture(scope="module")
def standalone(
    cluster: AttackCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AttackCluster]:
    with AttackCluster(
        tmp_path_factory.mktemp("cluster"), kind="cluster", like=cluster
    ) as standalone:
        yield standalone


@pytest.mark.parametrize("mutation", CLUSTERED, ids=lambda mutation: mutation.name)
def test_a_mutation_of_two_engines_is_detected_or_harmless(
    mutation: Mutation, standalone: AttackCluster
) -> None:
    row = Campaign([mutation], lambda _: standalone, seed=SEED).once(mutation, standalone)
    assert not row.findings
    assert row.applied >= 1
    assert row.detected == 1 or not expected.must_be_detected(mutation.name)


@pytest.mark.parametrize(
    ("error", "fits"),
    [
        ("[TABLE_OR_VIEW_NOT_FOUND] written", True),
        ("[manifest_tag] the manifest does not open", True),
        ("[COFFER_PANIC] a defect", False),
        ("java.lang.NullPointerException", False),
    ],
)
def test_what_a_failed_write_left_cannot_be_read_for_any_reason(
    error: str, fits: bool, cluster: AttackCluster
) -> None:
    def fail() -> Answer:
        raise QueryFailed("PySparkException", error, None)

    new = cluster.question("ctas-shuffled")
    assert (writes.left_behind(new, fail) is None) == fits
    # A table that was there must be readable.
    assert writes.left_behind(cluster.question("insert"), fail) is not None


def test_a_failed_write_left_the_old_rows(cluster: AttackCluster) -> None:
    question = cluster.question("insert")
    assert question.unwritten
    assert writes.left_behind(question, lambda: question.unwritten) is None
    # Who says it again has them twice.
    assert writes.left_behind(question, lambda: question.expected) is not None
    half = Answer(question.expected.schema, question.expected.rows[:-1], 0.0)
    assert writes.left_behind(question, lambda: half) is not None
    new = cluster.question("ctas-shuffled")
    assert writes.left_behind(new, lambda: Answer(new.expected.schema, [], 0.0)) is not None


def test_every_mutation_is_applied_somewhere() -> None:
    assert {mutation.name for mutation in registry.mutations()} == {
        mutation.name for mutation in (*LOCAL, *PROTECTED, *CLUSTERED, *STORED)
    }


# A join, a sort and a limit that AQE would drop if it believed the counts of rows; in plaintext
# Spark it does. Nothing in it is aggregated: how many groups an engine's tasks have before the
# shuffle depends on which rows come first.
_COUNTED = (
    "SELECT o_orderkey, l_linenumber, o_custkey FROM orders JOIN lineitem ON o_orderkey = "
    "l_orderkey WHERE l_quantity > 30"
    " ORDER BY o_orderkey, l_linenumber LIMIT 7"
)
_COUNTS = (
    "row-counts-zero",
    "row-counts-one",
    "row-counts-huge",
    "accumulators-missing",
    "accumulators-zero",
    "accumulators-one",
    "accumulators-negative",
    "accumulators-huge",
)
_KNOWN = """
from coffer_testing.answers import encode
for key, value in conf.items():
    spark.conf.set(key, value)
try:
    df = spark.sql(sql)
    rows = [[encode(value) for value in row] for row in df.collect()]
finally:
    for key in conf:
        spark.conf.unset(key)
schema = [[field.name, field.dataType.simpleString()] for field in df.schema.fields]
formatted = spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
result = [schema, rows, df._jdf.queryExecution().explainString(formatted)]
"""


def _counted(driver: Driver) -> tuple[Answer, list[str]]:
    """The answer, and the runtime statistics of its plan's stages: what AQE went by."""
    schema, rows, plan = driver.run(_KNOWN, sql=_COUNTED, conf=PROFILES["shuffled"])
    return Answer(schema, rows, 0.0), sorted(re.findall(r"Statistics\([^)]*\)", plan))


@pytest.fixture(scope="module")
def believing(cluster: AttackCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Plaintext Spark over the cluster's tables, with the same malicious executor."""
    folder = tmp_path_factory.mktemp("believing")
    conf = {
        **CONF,
        **hostile.configuration(coffer=False),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    with Driver(cluster.plain, sealed=False, log=folder / "driver.log", conf=conf) as driver:
        yield driver


@pytest.mark.parametrize("mutation", one_of(_COUNTS, 2))
def test_false_counts_deceive_plaintext_spark_and_not_coffer(
    mutation: str, cluster: AttackCluster, believing: Driver
) -> None:
    """The control: what these mutations change where they are believed."""
    right, known = _counted(believing)
    assert len(right.rows) == 7 and len(known) >= 2
    hostile.say(believing, "arm", mutation, SEED)
    false, applied = _counted(believing)
    assert hostile.say(believing, "disarm")
    assert applied != known
    if mutation in ("row-counts-zero", "accumulators-zero", "accumulators-missing"):
        assert false.rows == []
    if mutation == "row-counts-one":
        assert len(false.rows) > 7

    _, known = _counted(cluster.driver)
    assert len(known) >= 2
    reply: list[str] = []

    def run() -> Answer:
        answer, now = _counted(cluster.driver)
        reply.extend(now)
        return answer

    hostile.call(cluster, "arm", mutation, SEED)
    judgement = cluster.judge(Question("counted", _COUNTED, PROFILES["shuffled"], True, right), run)
    assert hostile.call(cluster, "disarm")
    assert (judgement.verdict, judgement.detail, reply) == ("right_rows", "", known)


def test_codes_are_those_of_the_reference() -> None:
    assert {
        "COFFER_FRAME_TAG",
        "COFFER_STREAM_MISSING",
        "commit_opening_tag",
        "failed",
        "wrong_binding",
    } <= judge.codes()
    assert (
        judge.named("Job aborted: [COFFER_TASK] stage 1: failed {x}; [COFFER_OPENING_TAG] altered")
        == "COFFER_OPENING_TAG"
    )
    alone = "[COFFER_TASK] a task failed in its engine (session, stage 1, partition 0)"
    assert judge.named(alone) == "COFFER_TASK session"


# No check refuses anything when a disk is full or fails, or memory is short.
NO_CHECKS = frozenset(
    {
        "COFFER_DISK_FULL",
        "COFFER_STORAGE",
        "COFFER_MEMORY",
        "disk_full",
        "storage",
        "failed",
        "finish",
    }
)
NAMES = [*(mutation.name for mutation in registry.mutations()), *below.SCENARIOS]


def test_scenarios_are_those_that_are_played_below_spark() -> None:
    source = Path(__file__).parents[2] / "engine/crates/owner/client/tests/attack/scenarios.rs"
    listed = re.search(r"const NAMES: &\[&str\] = &\[(.*?)\];", source.read_text(), re.DOTALL)
    assert listed is not None
    assert tuple(re.findall(r'"([\w-]+)"', listed[1])) == below.SCENARIOS


@pytest.mark.parametrize("name", NAMES)
def test_each_mutation_is_declared(name: str) -> None:
    declared = expected.declaration(name)
    # Harmless with a reason, or to be detected by codes.
    assert bool(declared.codes) != bool(declared.reason)
    assert declared.benign is None or (
        declared.codes and declared.benign.reason and 0 < declared.benign.share <= 1
    )
    codes = {code.removeprefix("COFFER_TASK ") for code in declared.codes}
    assert codes <= judge.codes() - judge.DEFECTS
    # Where the host's own word is all there is, or an engine is lost, the mutation is one that says
    # why.
    if not name.startswith(CHOSEN_BY_THE_HOST):
        assert not {code for code in declared.codes if code.startswith("COFFER_TASK ")}
        assert not codes & (NO_CHECKS | {"COFFER_ENGINE_LOST"})


def test_a_mutation_may_end_only_in_the_codes_that_explain_it() -> None:
    def held(name: str, check: str) -> str:
        return expected.held(name, Outcome(True, "detected", check, "")).verdict

    assert held("flip-bit-in", "COFFER_FRAME_TAG") == "detected"
    assert (
        held("flip-bit-in", "COFFER_MEMORY") == held("flip-bit-in", "COFFER_TASK failed") == "wrong"
    )
    # The check that is there for it, and not another one.
    assert held("end-stream-early-in", "COFFER_FRAME_TAG") == "detected"
    assert held("end-stream-early-in", "COFFER_FRAME_LENGTH") == "wrong"
    assert held("stored-footer-zeroed", "COFFER_FILE_DIGEST") == "detected"
    assert (
        held("stored-footer-zeroed", "COFFER_FILE_TAG")
        == held("stored-footer-zeroed", "COFFER_STORAGE")
        == "wrong"
    )
    assert held("spill-flipped", "COFFER_DISK_FULL") == "wrong"
    assert held("attest-other-owner", "COFFER_ENGINE_LOST") == "wrong"
    assert held("close-midway", "COFFER_ENGINE_LOST") == "detected"
    assert held("replay-an-ended-session", "closed") == "wrong"
    with pytest.raises(KeyError):
        expected.codes_of("a mutation of which nothing was said")


# ---- the harness finds fault with a product that has one ---------------------------------------


@dataclass(frozen=True)
class Fabricated:
    """A mutation that does nothing, under the name of one that must be detected, with an outcome
    that is made up."""

    outcome: Outcome
    name: str = "flip-bit-in"
    needs: frozenset[str] = frozenset({"local"})

    def attempt(self, _: AttackCluster, __: random.Random) -> Outcome:
        return self.outcome


def fabricated(cluster: AttackCluster, outcome: Outcome, name: str = "flip-bit-in") -> Campaign:
    mutation = Fabricated(outcome, name)
    campaign = Campaign([mutation], lambda _: cluster, seed=SEED)
    campaign.once(mutation, cluster)
    return campaign


def test_a_refusal_without_a_mutation_is_wrong(cluster: AttackCluster) -> None:
    """A product that refuses what is sound."""
    campaign = fabricated(cluster, Outcome(False, "detected", "COFFER_FRAME_TAG", "nothing"))
    row = campaign.report.row("flip-bit-in")
    assert row.wrong == 1 and not row.applied and not row.detected
    assert row.findings == ["refused without a mutation: COFFER_FRAME_TAG: nothing"]
    assert not campaign.report.sound
    # Of a harmless one too, whether it was applied or not.
    for applied in (True, False):
        assert not fabricated(
            cluster, Outcome(applied, "detected", "COFFER_FRAME_TAG", ""), "reorder-streams-in"
        ).report.sound


@dataclass(frozen=True)
class Quietly:
    """Damages a table, and does not say so."""

    name: str = "stored-cut"
    needs: frozenset[str] = frozenset({"local"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        pieces = fixtures.pieces(cluster)
        question = pieces.whole(rng)
        with pieces.restored():
            for file in pieces.files:
                os.truncate(file, 100)
            judgement = cluster.judge(question, lambda: pieces.ask(cluster, question))
        return Outcome(False, judgement.verdict, judgement.check, judgement.detail)


def test_a_query_that_is_refused_for_nothing_that_the_harness_did_is_wrong(
    cluster: AttackCluster,
) -> None:
    campaign = Campaign([Quietly()], lambda _: cluster, seed=SEED)
    row = campaign.once(Quietly(), cluster)
    assert row.wrong == 1 and row.findings[0].startswith(
        "refused without a mutation: COFFER_FILE_LENGTH"
    )


@dataclass(frozen=True)
class Unseen:
    """Another mutation's harmless bytes under the name of one that must be detected: as if the
    check for that were switched off."""

    name: str = "swap-reducers"
    needs: frozenset[str] = frozenset({"local"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        return cluster.attack("reorder-streams-in", rng)


def test_a_product_that_lets_an_altered_stream_pass_is_wrong(cluster: AttackCluster) -> None:
    campaign = Campaign([Unseen()], lambda _: cluster, seed=SEED)
    row = campaign.once(Unseen(), cluster)
    assert row.wrong == 1 and row.findings[0].startswith("undetected: ")
    assert campaign.report.unseen == ["swap-reducers"]
    assert not campaign.report.sound


def test_what_may_come_to_nothing_must_be_detected_at_times(cluster: AttackCluster) -> None:
    campaign = fabricated(cluster, Outcome(True, "right_rows", "", ""), "stored-page-flipped")
    row = campaign.report.row("stored-page-flipped")
    assert row.applied == row.right_rows > expected.ENOUGH and not row.wrong
    assert campaign.report.unseen == ["stored-page-flipped"]
    assert not campaign.report.sound


def test_what_gives_right_rows_oftener_than_declared_fails_the_run() -> None:
    report = Report(["stored-page-flipped"])
    row = report.row("stored-page-flipped")
    row.merge({"applied": 100, "detected": 30, "right_rows": 70})
    assert report.sound
    row.merge({"applied": 100, "detected": 1, "right_rows": 99})
    assert report.unseen == [] and len(report.lenient) == 1 and not report.sound
    # Where none may, one is enough.
    report = Report(["flip-bit-in"])
    report.row("flip-bit-in").merge({"applied": 100, "detected": 99, "right_rows": 1})
    assert not report.sound


def test_a_race_is_one_code_in_one_situation() -> None:
    race = expected.RACES[0]
    assert len(expected.RACES) < 10 and all(race.reason for race in expected.RACES)

    def verdict(name: str, check: str) -> str:
        return expected.held(name, Outcome(race.applied, "detected", check, "")).verdict

    assert verdict("spill-flipped", race.code) == "race"
    assert (
        verdict("spill-flipped", "COFFER_STORAGE") == verdict("flip-bit-in", race.code) == "wrong"
    )
    report = Report(["spill-flipped"])
    report.row("spill-flipped").add(Outcome(False, "race", race.code, ""), 1.0)
    assert (report.row("spill-flipped").raced, report.applied, report.wrong) == (1, 0, 0)
    # A mutation that only ever ended in races was never applied.
    assert report.idle == ["spill-flipped"]


CHOSEN_BY_THE_HOST = (
    *("failed-invented", "false-session", "false-protocol", "drop-release", "flip-bit-release"),
    *(
        "release-of-another-query",
        # The store's own word that a name is taken, of which it shows nothing.
        "store-put-of-manifest-taken",
        # A listing that never ends shows nothing but that.
        "store-listing-endless",
        "release-under-another-number",
        "start-of-a-query",
        "answer-",
        "garbage-",
    ),
    *(
        "replay-start-before-start",
        "hostile-length-midway",
        "attest-midway",
        "start-midway",
        "close-midway",
    ),
)


@pytest.mark.parametrize("forge", [forged.plain, forged.foreign, forged.plain_with_sealed_magic])
def test_a_forgery_has_the_size_of_what_it_replaces(
    forge: Callable[[Path, int], bytes | None], tmp_path: Path
) -> None:
    source = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"k": range(5000), "s": [str(k) for k in range(5000)]}), source)
    least = len(forge(source, 1 << 20) or b"")
    assert least == 1 << 20
    for size in (3000, 9999, 20_000, 20_001, 20_127, 20_128, 90_000):
        content = forge(source, size)
        assert content is not None
        assert len(content) == size
        if forge is forged.plain:
            assert pq.read_table(io.BytesIO(content)).schema.names == ["k", "s"]
    assert forge(source, 100) is None


def test_pages_of_a_chunk_are_found_by_their_lengths() -> None:
    def module(length: int) -> bytes:
        return length.to_bytes(4, "little") + bytes(length)

    content = b"PARE" + b"".join(map(module, (30, 100, 31, 100, 30, 50)))
    chunk = Chunk(0, "a", 4, len(content))
    found = pages(content, chunk)
    assert [len(page) for page in found] == [138, 139, 88]
    assert (found[0].start, found[-1].stop) == (4, len(content))
    assert pages(content, Chunk(0, "a", 4, len(content) - 1)) == []


def test_a_report_counts_only_what_was_applied() -> None:
    report = Report(["a", "b"])
    report.row("a").add(Outcome(True, "detected", "COFFER_FRAME_TAG", ""), 1.0)
    report.row("a").add(Outcome(False, "right_rows", "", ""), 1.0)
    report.row("b").add(Outcome(False, "wrong", "hang", "x"), 1.0)
    assert (report.applied, report.wrong, report.idle) == (1, 1, ["b"])
    assert report.as_json()["mutations"]["a"]["detected"] == 1
    assert "| a " in report.table()
