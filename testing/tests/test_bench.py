"""The benchmark's arithmetic and its page, without running anything."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_bench import duck, layout, page, queries, report, sides
from coffer_bench.queries import SUITES
from coffer_bench.sides import Resources
from coffer_testing.answers import Answer, encode
from coffer_testing.owner import Owner
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

    def timed(self, _: str, __: dict[str, str] | None = None) -> dict[str, Any]:
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
    monkeypatch.setattr(queries, "EVERY", starts)
    suite = queries.Suite(("q1",), lambda _: {}, lambda _: sql)
    rounds, resources = queries.Rounds(2, 2), Resources.of(2, 4, "1g")
    kept: list[report.Measured] = []
    found = queries.measure(suite, "1", ["q1"], rounds, folder, list(sides), resources, kept.append)
    assert kept == [found]
    return found


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


class Timed:
    """A driver that is as fast as its number of shuffle partitions lets it."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    def timed(self, _: str, conf: dict[str, str] | None = None) -> dict[str, Any]:
        partitions = (conf or {})["spark.sql.shuffle.partitions"]
        if partitions not in self.seconds:
            raise QueryFailed("Py4JJavaError", "too few", None)
        counted = {"counters": {}, "milliseconds": {}}
        return {"seconds": self.seconds[partitions], "schema": [], "rows": [], **counted}

    def __enter__(self) -> Timed:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_each_side_runs_with_the_partitions_that_suit_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    each = {
        "spark": Timed({"4": 3.0, "8": 2.0, "16": 2.5}),
        "coffer": Timed({"4": 1.0, "8": 2.0, "16": 3.0}),
        "unsealed": Timed({"16": 3.0}),
    }
    monkeypatch.setattr(
        queries, "EVERY", {name: lambda *_, side=side: side for name, side in each.items()}
    )
    suite = queries.Suite(("q1", "q2"), lambda _: {}, lambda _: "SELECT 1")
    rounds, resources = queries.Rounds(1, 1, (4, 8, 16)), Resources.of(2, 4, "1g")
    found = queries.measure(suite, "1", ["q1", "q2"], rounds, tmp_path, list(each), resources)
    assert found.settings["tuned"]["spark"] == {
        "partitions": 8,
        "seconds": {"4": 6.0, "8": 4.0, "16": 5.0},
    }
    assert found.settings["tuned"]["coffer"]["partitions"] == 4
    # What fails is no fast query.
    assert found.settings["tuned"]["unsealed"] == {
        "partitions": 16,
        "seconds": {"4": None, "8": None, "16": 6.0},
    }
    assert found.seconds["spark"]["q1"] == [2.0] and found.seconds["coffer"]["q2"] == [1.0]
    assert len(found.settings["load"]) == 2


def test_a_peer_with_other_types_is_compared_by_values() -> None:
    def answer(kinds: list[str], *rows: list[Any]) -> Answer:
        encoded = [[encode(value) for value in row] for row in rows]
        return Answer([[kind, kind] for kind in kinds], encoded, 0.0)

    ours = answer(
        ["decimal(12,2)", "string", "date"],
        [Decimal("1.50"), "a  ", date(1995, 1, 2)],
        [None, "b", None],
    )

    def theirs(number: float | None, text: str = "a") -> Answer:
        rows = [[None, "b", None], [number, text, datetime(1995, 1, 2)]]
        return answer(["DOUBLE", "VARCHAR", "TIMESTAMP"], *rows)

    assert duck.difference(ours, theirs(1.5)) is None
    assert duck.difference(ours, theirs(1.5 + 1e-9)) is None
    for wrong in (theirs(1.51), theirs(None), theirs(1.5, "c")):
        assert duck.difference(ours, wrong)
    assert duck.difference(ours, answer(["DOUBLE"], [1.0], [2.0]))
    assert duck.difference(ours, answer(["DOUBLE", "VARCHAR", "DATE"]))


def test_files_are_rewritten_as_sealed_ones_lie(tmp_path: Path) -> None:
    rows = pa.table({"a": range(5000), "b": [f"text {n % 7}" for n in range(5000)]})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=700, compression="zstd")
    (tmp_path / "many").mkdir()
    for part in range(3):
        pq.write_table(rows.slice(part * 1500, 1500), tmp_path / "many" / f"{part}.parquet")
    tables = {"t": tmp_path / "t.parquet", "many": tmp_path / "many"}
    rewritten = layout.rewrite(tables, tmp_path / "new-tables")
    assert pq.read_table(rewritten["t"]).equals(rows)
    assert pq.read_table(rewritten["many"]).equals(rows.slice(0, 4500))
    owner = Owner.create(tmp_path / "coffer-trusted")
    owner.encrypt(tables, tmp_path / "coffer-tables")
    sealed, plain = layout.of("coffer", tables, tmp_path), layout.of("new", tables, tmp_path)
    for name in tables:
        for what in ("files", "row_groups", "rows_of_a_group"):
            assert sealed[name][what] == plain[name][what]
    assert layout.of("spark", tables, tmp_path)["t"]["row_groups"] == 8


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
    monkeypatch.setattr(sides.layout, "rewrite", lambda tables, _: tables)
    monkeypatch.setattr(sides, "Owner", SimpleNamespace(create=lambda *_: owner))
    monkeypatch.setattr(
        sides.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=f"{tmp_path}\n")
    )
    for made in ("_comet_jar", "_comet_python"):
        monkeypatch.setattr(sides, made, lambda: tmp_path)
    resources = Resources.of(2, 4, memory)
    started = {name: start({}, tmp_path, resources) for name, start in sides.START.items()}
    assert set(started) == {*report.SIDES, "storage", *sides.HIDING} - {"duckdb"}
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
        if name not in ("spark", "spark-rewritten", "comet")
    )
    with pytest.raises(ValueError, match="memory size"):
        Resources.of(2, 4, "much")
