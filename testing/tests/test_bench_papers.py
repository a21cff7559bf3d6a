"""The experiments of papers: their data, arithmetic and pages; the smallest runs of some, and of
all in `make test-full`."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_bench import corpus, experiment, growth, hardware, safespark, site, tax, terasort, usage
from coffer_bench.catalogue import BENCHMARKS

ROOT = Path(__file__).parents[2]


def test_sides_take_turns_and_long_runs_are_fewer() -> None:
    order: list[str] = []

    def one(side: str, counts: bool) -> float:
        order.append(side if counts else side.upper())
        return 1.0

    taken = experiment.in_turns(("a", "b"), 2, 1, one)
    assert order == ["A", "B", "a", "b", "b", "a"] and taken == {"a": [1.0] * 2, "b": [1.0] * 2}
    assert len(experiment.in_turns(("a",), 5, 0, lambda *_: 121.0)["a"]) == 3


def test_targets() -> None:
    assert experiment.at_most("x", 0.5, 0.5)["met"] and not experiment.at_most("x", 0.6, 0.5)["met"]
    assert experiment.at_least("x", 1.0, 0.95)["met"]
    # What was not measured is no success.
    assert not experiment.at_most("x", None, 1.0)["met"]


def test_records_are_of_their_seed_and_validated(tmp_path: Path) -> None:
    made = terasort.generate(tmp_path / "made", 0.0002, 7)
    assert made == terasort.generate(tmp_path / "again", 0.0002, 7)
    assert made.checksum != terasort.generate(tmp_path / "other", 0.0002, 8).checksum
    table = pq.read_table(tmp_path / "made")
    assert {len(key) for key in table["key"].to_pylist()} == {10}
    assert {len(value) for value in table["value"].to_pylist()} == {90}
    files = [tmp_path / "0.parquet", tmp_path / "1.parquet"]

    def validated(rows: pa.Table) -> terasort.Seen:
        for at, file in enumerate(files):
            pq.write_table(rows.slice(1000 * at, 1000), file)
        return terasort.validate(files)

    ordered = table.sort_by("key")
    assert validated(ordered) == made
    # A record twice in the place of another is seen, and so is one that is changed.
    twice = pa.concat_tables([ordered.slice(0, 1999), ordered.slice(1998, 1)])
    assert validated(twice) != made
    values = ordered["value"].to_pylist()
    values[5] = values[5][:-1] + b"!"
    assert validated(ordered.set_column(1, "value", pa.array(values))) != made
    # Files in the wrong order, and rows.
    for wrong in (pa.concat_tables([ordered.slice(1000), ordered.slice(0, 1000)]), table):
        with pytest.raises(ValueError, match="not in order"):
            validated(wrong)


def test_a_text_has_the_words_that_it_says(tmp_path: Path) -> None:
    made = corpus.generate(tmp_path / "text", 0.002, 3)
    assert made.bytes == sum(file.stat().st_size for file in made.folder.iterdir())
    assert 2_000_000 <= made.bytes < 2_000_500
    lines = (made.folder / "part-00000.txt").read_text().splitlines()
    words = Counter(word for line in lines for word in line.split(" "))
    assert words == Counter(made.counts) and {len(line.split(" ")) for line in lines} == {12}
    ranked = [count for _, count in words.most_common(2)]
    assert ranked[0] / ranked[1] == pytest.approx(2, rel=0.05)


def test_slopes_and_shares() -> None:
    assert growth.slope({1: [1.0], 10: [10.0], 100: [100.0]}) == pytest.approx(1)
    assert growth.slope({1: [3.0], 8: [3.0]}) == pytest.approx(0)
    assert growth.slope({1: [3.0]}) is None
    shares = tax.parts({"unsealed": 8.0, "storage": 8.5, "coffer": 9.5, "pow2": 10.0}, 0.2)
    assert shares == {
        "unsealed engine": 0.8,
        "+ sealed storage": 0.05,
        "+ sealed shuffle": 0.08,
        "+ completeness": 0.02,
        "+ padding": 0.05,
    }


def test_an_estimate_follows_its_formula() -> None:
    counted = {
        "crossings": 1000.0,
        "bytes_across": 1e9,
        "engine_cpu_s": 2.0,
        "touched_mib": 100.0,
        "peak_mib": 200.0,
    }
    cost = {
        "crossing_cycles": [3000, 6000],
        "copy_bytes_per_s": [1e9, 2e9],
        "memory_share": [0.5, 1.0],
        "memory_slowdown": [1.0, 1.5],
        "protected_mib": [100, 300],
        "page_cycles": [3000, 3000],
    }
    least, most = hardware.estimate(10.0, counted, 3e9, cost)
    assert least == pytest.approx(10 + 0.001 + 0.5)
    # 100 MiB do not fit, of which half are touched.
    assert most == pytest.approx(10 + 0.002 + 1.0 + 1.0 + 12800 * 1e-6, abs=1e-4)


def test_setups_are_policies_of_their_own() -> None:
    texts = [(safespark.POLICIES / f"{setup}.toml").read_text() for setup in safespark.SETUPS]
    assert len(set(texts)) == 3 and "protection" not in texts[0]


def test_the_meter_sees_this_process(tmp_path: Path) -> None:
    with usage.Meter(lambda: [os.getpid()]) as meter:
        (tmp_path / "file").write_bytes(np.random.default_rng(0).bytes(1 << 20))
        sum(range(5_000_000))
    assert meter.usage["cpu_s"] > 0.02 and meter.usage["memory_mib"] > 10
    assert meter.usage["written_bytes"] == 0 or meter.usage["written_bytes"] >= 1 << 20


def test_the_page_of_results_is_fresh() -> None:
    assert site.made_of(site.PAGE.read_text()) == site.digest(site.RESULTS), "run bench/report"


def run(name: str, tmp_path: Path, *options: str, seconds: int = 600) -> dict[str, Any]:
    file = tmp_path / f"{name}.json"
    done = subprocess.run(
        [ROOT / "bench" / "run", name, "--quick", "--json", file, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    result: dict[str, Any] = json.loads(file.read_text())
    return result


@pytest.mark.parametrize("name", ["cipher", "tax"])
def test_the_smallest_runs(name: str, tmp_path: Path) -> None:
    result = run(name, tmp_path)
    assert result["benchmark"] == name and result["versions"]["commit"] and result["machine"]


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_run(tmp_path: Path) -> None:
    results = run("all", tmp_path, seconds=1800)
    assert list(results) == list(BENCHMARKS)
    assert not [name for name, result in results.items() if "error" in result]
    assert all(name == result["benchmark"] for name, result in results.items())
    assert sum(result["took_s"] for result in results.values()) < 900


def test_digests_are_of_rows_in_their_order() -> None:
    rows = [["1", None], ["2", "a"]]
    assert experiment.digest(rows) != experiment.digest(rows[::-1])
    assert experiment.digest([]) == hashlib.sha256(b"").hexdigest()
