"""The lying host, in small: every lie at least once. The whole of it: `make attack`."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from coffer.workload.answers import Answer
from coffer.workload.runner import Driver, QueryFailed
from coffer_security.attack import hostile, judge, registry, wire
from coffer_security.attack.arena import CONF, Arena
from coffer_security.attack.mutation import Mutation, Outcome
from coffer_security.attack.orchestrator import Campaign, kinds_of
from coffer_security.attack.questions import PROFILES, Question
from coffer_security.attack.report import Report

SEED = 20261121
# Few questions, but all kinds of stages: scans, shuffles, broadcasts, sorts, a write of each sort.
QUESTIONS = frozenset({"q03", "q12", "q16", "q18", "ctas-shuffled", "insert"})


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with Arena(tmp_path_factory.mktemp("attack"), only=QUESTIONS) as arena:
        yield arena


LOCAL = [mutation for mutation in registry.mutations() if "local" in kinds_of(mutation)]
# Over columns of other protections than `tee`: all lies that exist there alone, and some of those that any query is told.
PROTECTED = [mutation for mutation in registry.mutations() if "protected" in mutation.needs]
SOME = [mutation for mutation in registry.mutations() if "query" in mutation.needs][::8]


def test_unharmed_questions_are_answered_right(arena: Arena) -> None:
    for writes in (False, True):
        question = arena.ask(random.Random(1), writes=writes)
        assert arena.judge(question, lambda question=question: arena.run(question)).verdict == "right_rows"


@pytest.mark.parametrize("mutation", LOCAL, ids=lambda mutation: mutation.name)
def test_a_lie_is_detected_or_harmless(mutation: Mutation, arena: Arena) -> None:
    row = Campaign([mutation], lambda _: arena, seed=SEED).once(mutation, arena)
    assert not row.findings
    assert row.applied == 1


@pytest.fixture(scope="module")
def protected(arena: Arena, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with Arena(tmp_path_factory.mktemp("protected"), kind="mixed", like=arena) as protected:
        yield protected


@pytest.mark.parametrize("mutation", [*PROTECTED, *SOME], ids=lambda mutation: mutation.name)
def test_a_lie_over_protected_columns_is_detected_or_harmless(mutation: Mutation, protected: Arena) -> None:
    row = Campaign([mutation], lambda _: protected, seed=SEED).once(mutation, protected)
    assert not row.findings
    assert row.applied == row.protected == 1


def test_the_saboteur_and_the_registry_know_the_same_lies(arena: Arena) -> None:
    assert set(arena.saboteur.lies()) == {mutation.name for mutation in wire.MUTATIONS}


def test_the_judge_finds_what_is_wrong(arena: Arena) -> None:
    """The control: each kind of wrong outcome is seen as one."""
    question = arena.ask(random.Random(2))
    right = arena.run(question)

    def judged(rows: list[list[str | None]]) -> str:
        return arena.judge(question, lambda: Answer(right.schema, rows, 0.0)).check

    assert judged(right.rows) == ""
    assert judged([]) == "rows"
    assert judged(right.rows[:-1]) == "rows"
    assert judged([*right.rows, right.rows[-1]]) == "rows"

    def failed(text: str) -> tuple[str, str]:
        def run() -> Answer:
            raise QueryFailed("PySparkException", text, None)

        judgement = arena.judge(question, run)
        return judgement.verdict, judgement.check

    assert failed("[COFFER_FRAME] a frame does not open") == ("detected", "COFFER_FRAME")
    assert failed("java.lang.NullPointerException") == ("wrong", "no-code")
    assert failed("[TABLE_OR_VIEW_NOT_FOUND] lineitem") == ("wrong", "no-code")
    assert failed("[COFFER_PANIC] a defect") == ("wrong", "COFFER_PANIC")


# A join, a sort and a limit that AQE would drop if it believed the counts of rows; in plaintext Spark it does. Nothing in it
# is aggregated: how many groups an engine's tasks have before the shuffle depends on which rows come first.
_COUNTED = (
    "SELECT o_orderkey, l_linenumber, o_custkey FROM orders JOIN lineitem ON o_orderkey = l_orderkey WHERE l_quantity > 30"
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
from coffer.workload.answers import encode
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
def believing(arena: Arena, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Plaintext Spark over the arena's tables, with the same lying executor."""
    folder = tmp_path_factory.mktemp("believing")
    conf = {**CONF, **hostile.configuration(coffer=False), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    with Driver(arena.plain, sealed=False, log=folder / "driver.log", conf=conf) as driver:
        yield driver


@pytest.mark.parametrize("lie", _COUNTS)
def test_false_counts_deceive_plaintext_spark_and_not_coffer(lie: str, arena: Arena, believing: Driver) -> None:
    """The control: what these lies change where they are believed."""
    right, known = _counted(believing)
    assert len(right.rows) == 7 and len(known) >= 2
    hostile.say(believing, "arm", lie, SEED)
    false, told = _counted(believing)
    assert hostile.say(believing, "disarm")
    assert told != known
    if lie in ("row-counts-zero", "accumulators-zero", "accumulators-missing"):
        assert false.rows == []
    if lie == "row-counts-one":
        assert len(false.rows) > 7

    _, known = _counted(arena.driver)
    assert len(known) >= 2
    said: list[str] = []

    def run() -> Answer:
        answer, now = _counted(arena.driver)
        said.extend(now)
        return answer

    hostile.call(arena, "arm", lie, SEED)
    judgement = arena.judge(Question("counted", _COUNTED, PROFILES["shuffled"], True, right), run)
    assert hostile.call(arena, "disarm")
    assert (judgement.verdict, judgement.detail, said) == ("right_rows", "", known)


def test_codes_are_those_of_the_reference() -> None:
    assert {"COFFER_FRAME", "COFFER_STREAM_MISSING", "commit_opening", "failed", "wrong_binding"} <= judge.codes()
    assert judge.named("Job aborted: [COFFER_TASK] stage 1: failed {x}; [COFFER_OPENING] altered") == "COFFER_OPENING"


def test_a_report_counts_only_what_was_applied() -> None:
    report = Report(["a", "b"])
    report.row("a").add(Outcome(True, "detected", "COFFER_FRAME", ""), 1.0)
    report.row("a").add(Outcome(False, "right_rows", "", ""), 1.0)
    report.row("b").add(Outcome(False, "wrong", "hang", "x"), 1.0)
    assert (report.applied, report.wrong, report.idle) == (1, 1, ["b"])
    assert report.as_json()["mutations"]["a"]["detected"] == 1
    assert "| a " in report.table()
