"""The benchmark's arithmetic and its page, without running anything."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coffer_bench import page, queries, report, sides
from coffer_bench.queries import SUITES
from coffer_bench.sides import Resources
from coffer_testing.runner import QueryFailed

SECONDS = {
    "spark": {"q1": [4.0, 2.0, 3.0], "q6": [1.0, 1.0, 1.0], "q9": [5.0, 5.0, 5.0]},
    "coffer": {"q1": [1.5, 1.0, 9.0], "q6": [0.9, 0.9, 0.9]},
    "unsealed": {},
    "comet": {},
}


def result() -> dict[str, Any]:
    measured = report.Measured(
        SECONDS,
        same_answer={"q1": True, "q6": True, "q9": False},
        counters={"q1": {"crossings": 2001, "bytes_sealed": 1, "bytes_opened": 1}},
        milliseconds={
            "coffer": {
                "q1": {"planning": 100, "sealing": 5, "launch": 20, "engine": 400, "wire": 30}
            }
        },
        failed={("q9", "coffer"): "<no> such & thing"},
    )
    return {
        "benchmark": "tpch",
        "sf": 1,
        "machine": {"cpu": "a <cpu>", "cores": 2, "memory_mib": 4096, "system": "Linux"},
        "versions": {"coffer": "0"},
        "runs": 3,
        "seconds": SECONDS,
        "same_answer": measured.same_answer,
        "ratios": {
            f"coffer/{side}": report.ratios(SECONDS["coffer"], SECONDS[side])
            for side in ("spark", "unsealed", "comet")
        },
        "counters": measured.counters,
        "milliseconds": measured.milliseconds,
    }


def test_ratios_are_of_medians_of_queries_that_both_ran() -> None:
    ratios = report.ratios(SECONDS["coffer"], SECONDS["spark"])
    assert ratios["total"] == pytest.approx((1.5 + 0.9) / (3.0 + 1.0))
    assert ratios["worst"] == ["q6", 0.9]
    assert ratios["geomean"] == pytest.approx((0.5 * 0.9) ** 0.5, abs=1e-4)
    assert report.ratios(SECONDS["coffer"], {}) == {}


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    text = page.render(result(), {"A <plot>": "<svg></svg>"})
    assert "a &lt;cpu&gt;" in text and "missed" in text and "2,001" in text
    assert "<h2>A &lt;plot&gt;</h2>\n<svg></svg>" in text
    assert "<script" not in text and "http" not in text and "src=" not in text
    medians = page.medians_of(result())
    assert list(medians.columns) == ["spark", "coffer"] and medians.loc["q1", "coffer"] == 1.5
    # q9 has no time of Coffer's.
    assert page.totals(medians).to_dict() == {"spark": 4.0, "coffer": 2.4}


def test_which_queries() -> None:
    tpch, tpcds = SUITES["tpch"], SUITES["tpcds"]
    assert tpch.choose("all") == [f"q{number}" for number in range(1, 23)]
    assert tpch.choose("1,6,12-15,6") == ["q1", "q6", "q12", "q13", "q14", "q15"]
    assert tpcds.choose("13-15,39b") == ["q13", "q14a", "q14b", "q15", "q39b"]
    assert tpcds.choose("5a_v2.7,q5") == ["q5a_v2.7", "q5"]
    assert len(tpcds.choose("v2.7")) == 32 and len(tpcds.choose("all")) == 135
    for wrong in ("23", "0", "x", "", "3-1", "1,"):
        with pytest.raises(ValueError, match="no query"):
            tpch.choose(wrong)


class Answering:
    """A driver that gives these answers, one after the other; None is a failure."""

    def __init__(self, *answers: list[list[str]] | None) -> None:
        self.answers = list(answers)

    def timed(self, _: str) -> dict[str, Any]:
        rows = self.answers.pop(0)
        if rows is None:
            message = "An error occurred while calling o1.f.\n: not today\nat all"
            raise QueryFailed("Py4JJavaError", message, None)
        counted = {"counters": {"crossings": 1}, "milliseconds": {"planning": 2}}
        return {"seconds": 1.0, "schema": [["a", "string"]], "rows": rows, **counted}

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def measured_of(
    sql: str, sides: dict[str, Answering], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> report.Measured:
    """Of two runs after two to warm up."""
    starts = {name: lambda *_, side=side: side for name, side in sides.items()}
    monkeypatch.setattr(queries, "START", starts)
    suite = queries.Suite(("q1",), lambda _: {}, lambda _: sql)
    rounds, resources = queries.Rounds(2, 2), Resources.of(2, 4, "1g")
    return queries.measure(suite, "1", ["q1"], rounds, folder, list(sides), resources)


def test_every_run_is_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right, other, turned = [["1"], ["2"]], [["1"], ["3"]], [["2"], ["1"]]

    def measured(sql: str, *answers: list[list[str]] | None) -> report.Measured:
        sides = {"spark": Answering(*[right] * 4), "coffer": Answering(*answers)}
        return measured_of(sql, sides, monkeypatch, tmp_path)

    good = measured("SELECT a FROM t", right, turned, right, right)
    assert good.same_answer == {"q1": True} and not good.failed
    assert good.seconds == {"spark": {"q1": [1.0, 1.0]}, "coffer": {"q1": [1.0, 1.0]}}
    assert good.answers["q1"]["spark"] == good.answers["q1"]["coffer"]
    assert len(good.answers["q1"]["coffer"]) == 1 and good.settings["warm_ups"] == 2
    assert not measured("SELECT a FROM t ORDER BY a", right, turned, right, right).same_answer["q1"]
    for last in (other, None):
        bad = measured("SELECT a FROM t", right, right, right, last)
        assert bad.same_answer == {"q1": False} and "q1" not in bad.seconds["coffer"]
        assert list(bad.failed) == [("q1", "coffer")] and len(bad.seconds["spark"]["q1"]) == 2
    assert bad.failed[("q1", "coffer")] == "not today"


class Started:
    """A driver that only remembers how it would have been started."""

    def __init__(self, _: dict[str, Path], *, conf: dict[str, str], master: str, **__: Any) -> None:
        self.conf, self.master = conf, master

    def gibibytes(self) -> int:
        """Of the JVM's heap, what it keeps outside of it, and the engine beside it."""
        keys = ("spark.driver.memory", "spark.memory.offHeap.size", "spark.coffer.engine.memory")
        sizes = [self.conf[key] for key in keys if key in self.conf]
        assert all(re.fullmatch(r"\d+(g|GiB)", size) for size in sizes), sizes
        return sum(int(re.sub(r"\D", "", size)) for size in sizes)


@pytest.mark.parametrize("memory", ["1g", "3 GiB"])
def test_sides_have_the_same_cores_and_memory_in_all(
    memory: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "policy.toml").write_text("")
    owner = SimpleNamespace(
        config_dir=tmp_path,
        passphrase_file=tmp_path,
        policy="",
        sign=lambda _: None,
        encrypt=lambda tables, _: tables,
    )
    monkeypatch.setattr(sides, "Driver", Started)
    monkeypatch.setattr(sides, "Owner", SimpleNamespace(create=lambda *_: owner))
    monkeypatch.setattr(
        sides.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=f"{tmp_path}\n")
    )
    for made in ("_comet_jar", "_comet_python"):
        monkeypatch.setattr(sides, made, lambda: tmp_path)
    resources = Resources.of(2, 4, memory)
    started = {name: start({}, tmp_path, resources) for name, start in sides.START.items()}
    assert set(started) >= {*sides.ALL, *sides.HIDING}
    whole = resources.heap + int(memory[0])
    assert {name: side.gibibytes() for name, side in started.items()} == dict.fromkeys(
        started, whole
    )
    assert {
        (side.master, side.conf["spark.sql.shuffle.partitions"]) for side in started.values()
    } == {("local[2]", "4")}
    # Not all of it in one place where a side has two.
    assert all(
        side.conf["spark.coffer.engine.memory"] == f"{memory[0]}GiB"
        for name, side in started.items()
        if name not in ("spark", "comet")
    )
    with pytest.raises(ValueError, match="memory size"):
        Resources.of(2, 4, "much")
