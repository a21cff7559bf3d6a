"""The benchmark's arithmetic and its page, without running anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.dom import minidom

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from coffer_bench import page, report
from coffer_bench.__main__ import _numbers
from coffer_bench.sides import Resources

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
        milliseconds={"coffer": {"q1": {"planning": 100, "sealing": 5, "launch": 20, "engine": 400, "wire": 30}}},
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
            f"coffer/{side}": report.ratios(SECONDS["coffer"], SECONDS[side]) for side in ("spark", "unsealed", "comet")
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
    text = page.render(result())
    assert "a &lt;cpu&gt;" in text and "missed" in text and "2,001" in text
    assert "<script" not in text and "http" not in text and "src=" not in text
    for svg in text.split("<svg")[1:]:
        minidom.parseString("<svg" + svg[: svg.index("</svg>")] + "</svg>")


def test_which_queries() -> None:
    assert _numbers("all") == list(range(1, 23))
    assert _numbers("1,6,12-15") == [1, 6, 12, 13, 14, 15]


def test_sides_have_the_same_memory_in_all() -> None:
    resources = Resources.of(2, 4, "1g")
    assert resources.native == 1
    assert resources.conf(Path("/x"), 3)["spark.driver.memory"] == "3g"
    with pytest.raises(ValueError, match="memory size"):
        Resources.of(2, 4, "much")
