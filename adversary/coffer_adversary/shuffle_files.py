"""Mutations of an executor's disk and block store between two stages: map outputs' files, and
broadcasts."""

from __future__ import annotations

from coffer_adversary.hostile import Applied

_SHUFFLES = (
    "shuffle-data-flipped",
    "shuffle-data-cut",
    "shuffle-data-extended",
    "shuffle-data-zeroed",
    "shuffle-data-missing",
    "shuffle-index-flipped",
    "shuffle-index-cut",
    "shuffle-index-missing",
    "shuffle-both-files-missing",
    "shuffle-block-emptied",
    "shuffle-block-cut",
    "shuffle-block-twice",
    "shuffle-block-of-another-reducer",
    "shuffle-blocks-swapped",
    "shuffle-blocks-as-one",
    "shuffle-of-an-earlier-query",
    "shuffle-data-of-an-earlier-query",
    "shuffle-maps-swapped",
    "shuffle-map-twice",
    "shuffle-index-of-another-map",
    "shuffle-block-of-another-map",
    "shuffle-map-a-link",
)

_BROADCASTS = (
    "broadcast-flipped",
    "broadcast-cut",
    "broadcast-extended",
    "broadcast-stream-missing",
    "broadcast-stream-twice",
    "broadcast-noise",
    "broadcast-of-an-earlier-query",
    "broadcast-stream-of-another",
)

# These take a broadcast of several streams.
_OF_STREAMS = ("broadcast-streams-swapped", "broadcast-repeats-a-stream")

MUTATIONS = (
    *(Applied(name, ("shuffled", "merged"), writes=False) for name in _SHUFFLES),
    *(Applied(name, ("adaptive",), writes=False) for name in _BROADCASTS),
    *(Applied(name, pieces=True) for name in _OF_STREAMS),
)
