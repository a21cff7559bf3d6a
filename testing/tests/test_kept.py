"""Answers of plaintext Spark that are kept stand for nothing but what Spark says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coffer_testing import kept
from coffer_testing.answers import Answer, Digested, difference
from coffer_testing.runner import QueryFailed


def answer(*values: str | None) -> Answer:
    return Answer([["a", "int"]], [[value] for value in values], 0.0)


class Spark:
    """In the place of plaintext Spark: gives this answer, and counts how often it is asked."""

    def __init__(self, given: Answer | QueryFailed) -> None:
        self.given = given
        self.asked = 0

    def run(self, _code: str, **names: int) -> list[int]:
        self.asked += 1
        return [*names.values(), 7]

    def query(self, _sql: str, _conf: dict[str, str]) -> Answer:
        self.asked += 1
        if isinstance(self.given, QueryFailed):
            raise self.given
        return self.given


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of this test alone, and no table."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "answers")
    for name in (kept.FRESH, kept.ASKED, "COFFER_REGENERATE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def answers(spark: Spark) -> kept.Answers:
    return kept.Answers("t", {}, {}, lambda: spark)  # type: ignore[arg-type, return-value]


LONG = answer(*(str(number) for number in range(500)))


@pytest.mark.parametrize("given", [answer("1", None), LONG])
def test_an_answer_is_asked_for_once(given: Answer) -> None:
    spark = Spark(given)
    assert difference(answers(spark).query("q", {}), given, ordered=True) is None
    again = answers(spark).query("q", {})
    assert difference(again, given, ordered=True) is None and spark.asked == 1
    answers(spark).query("q", {"a": "b"})
    assert spark.asked == 2, "other settings are another question"


def test_a_digest_tells_what_is_equal_and_nothing_else() -> None:
    spark = Spark(LONG)
    answers(spark).query("q", {})
    known = answers(spark).query("q", {})
    backwards = Answer(LONG.schema, LONG.rows[::-1], 0.0)
    assert difference(known, backwards, ordered=False) is None and spark.asked == 1
    # What differs is told by Spark's rows.
    assert difference(known, backwards, ordered=True) is not None and spark.asked == 2
    fewer = Answer(LONG.schema, LONG.rows[1:], 0.0)
    assert "rows: expected 500, got 499" in str(difference(known, fewer, ordered=False))
    other = Answer([["b", "string"]], LONG.rows, 0.0)
    assert "columns" in str(difference(known, other, ordered=False))
    # A digest of something else is no verdict.
    wrong = Digested(LONG.schema, ["0", "0"], lambda: LONG)
    assert difference(wrong, LONG, ordered=True) is None


def test_of_a_result_a_digest_is_kept() -> None:
    spark = Spark(LONG)
    assert answers(spark).result("code", [1, 7], {"n": 1}) == [1, 7]
    assert answers(spark).result("code", [1, 7], {"n": 1}) == [1, 7] and spark.asked == 1
    # What differs is told by Spark's; so are other names.
    assert answers(spark).result("code", [1, 8], {"n": 1}) == [1, 7] and spark.asked == 2
    assert answers(spark).result("code", [1, 7], {"n": 2}) == [2, 7] and spark.asked == 3


def test_an_error_is_kept_too() -> None:
    spark = Spark(QueryFailed("SparkException", "[DIVIDE_BY_ZERO] no", "DIVIDE_BY_ZERO"))
    for _ in range(2):
        with pytest.raises(QueryFailed, match="DIVIDE_BY_ZERO"):
            answers(spark).query("q", {})
    assert spark.asked == 1
    broken = Spark(QueryFailed("OSError", "the child ended", None))
    for _ in range(2):
        with pytest.raises(QueryFailed):
            answers(broken).query("r", {})
    assert broken.asked == 2, "what is no answer is not kept"


def test_the_file_is_made_of_what_was_asked_and_held_against_spark(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kept.ASKED, str(cache / "asked"))
    answers(Spark(LONG)).query("q", {})
    kept.write(cache / "asked")
    monkeypatch.delenv(kept.ASKED)
    shutil.rmtree(cache / "cache")
    spark = Spark(LONG)
    assert difference(answers(spark).query("q", {}), LONG, ordered=True) is None
    assert spark.asked == 0
    # As `make test-full` does it.
    monkeypatch.setenv(kept.FRESH, "1")
    assert difference(answers(spark).query("q", {}), LONG, ordered=True) is None
    assert spark.asked == 1
    with pytest.raises(AssertionError, match=r"testing/answers/t\.json has another answer"):
        answers(Spark(answer("1"))).query("q", {})
