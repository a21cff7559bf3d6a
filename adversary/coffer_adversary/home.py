"""Lies about what comes home: sealed results that the client engine keeps, and puts together with others by itself.

Such a query has two parts, which engines run one after the other; what they return stays in the client engine, and the rest
of the plan runs there over both.
"""

from __future__ import annotations

from coffer_adversary.hostile import Told

_NEEDS = frozenset({"protected"})

# By the lie about a task's result that is told.
_LIES = {
    "home-input-flipped": "result-stream-flipped",
    "home-input-cut": "result-stream-cut",
    "home-input-extended": "result-stream-extended",
    "home-input-emptied": "result-stream-empty",
    "home-input-twice": "result-stream-twice",
    "home-input-missing": "result-missing",
    "home-input-without-bytes": "result-without-bytes",
    "home-input-of-another-partition": "result-of-another-partition",
    "home-input-as-the-other": "result-of-an-earlier-query",
    "home-input-as-another-task": "result-of-an-earlier-task",
    "home-input-stream-of-the-other": "result-stream-of-an-earlier-query",
    "home-input-record-of-the-other": "result-commit-of-an-earlier-query",
}

MUTATIONS = tuple(Told(name, lie=lie, home=True, needs=_NEEDS) for name, lie in _LIES.items())
