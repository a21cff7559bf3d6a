"""The benchmark's ratios, by hand-made numbers."""

from __future__ import annotations

import pytest

from coffer_bench.report import ratios


def test_ratios_are_of_medians() -> None:
    ours = {"q1": [1.0, 9.0, 1.0], "q6": [4.0, 4.0, 0.1]}
    theirs = {"q1": [2.0, 2.0, 50.0], "q6": [2.0, 2.0, 2.0]}
    result = ratios(ours, theirs)
    assert result["total"] == pytest.approx(5 / 4)
    assert result["geomean"] == pytest.approx(1.0)
    assert result["worst"] == ["q6", 2.0]


def test_a_side_that_did_not_run_has_no_ratio() -> None:
    assert ratios({"q1": [1.0]}, {}) == {}
