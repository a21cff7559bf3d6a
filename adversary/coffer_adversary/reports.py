"""What an executor tells the driver, falsely: map statuses, accumulators, row counts, records,
results."""

from __future__ import annotations

from coffer_adversary.hostile import Applied

_SHUFFLED = ("shuffled", "merged")

_MAPS = (
    "map-sizes-zero",
    "map-sizes-one-zero",
    "map-sizes-huge",
    "map-sizes-swapped",
    "map-sizes-more",
    "map-of-another-id",
    "map-of-no-id",
    "record-flipped",
    "record-cut",
    "record-empty",
    "record-without-bytes",
    "record-of-an-earlier-map",
    "record-of-a-result",
    "record-of-another-partition",
    "record-of-another-map",
    "record-missing",
    "record-for-other-maps-too",
)

_ANY = (
    "task-counters-false",
    "task-metrics-false",
    "accumulators-missing",
    "accumulators-zero",
    "accumulators-one",
    "accumulators-negative",
    "accumulators-huge",
    "row-counts-zero",
    "row-counts-one",
    "row-counts-huge",
    "result-stream-flipped",
    "result-stream-cut",
    "result-stream-extended",
    "result-stream-empty",
    "result-stream-noise",
    "result-stream-twice",
    "result-commit-flipped",
    "result-commit-missing",
    "result-commit-of-a-map",
    "result-of-another-partition",
    "result-of-no-partition",
    "result-of-an-earlier-query",
    "result-of-an-earlier-task",
    "result-stream-of-an-earlier-query",
    "result-commit-of-an-earlier-query",
    "result-without-bytes",
    "result-missing",
    "result-of-another-class",
)

MUTATIONS = (*(Applied(name, _SHUFFLED) for name in _MAPS), *(Applied(name) for name in _ANY))
