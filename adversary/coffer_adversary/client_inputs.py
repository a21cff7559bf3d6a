"""Mutations about what comes to the client: sealed results that the client engine keeps, and puts
together with others by itself.

Such a query has two parts, which engines run one after the other; what they return stays in the
client engine, and the rest of the plan runs there over both.
"""

from __future__ import annotations

from coffer_adversary.hostile import Applied

_NEEDS = frozenset({"protected"})

# By the mutation about a task's result that is applied.
_MUTATIONS = {
    "client-input-flipped": "result-stream-flipped",
    "client-input-cut": "result-stream-cut",
    "client-input-extended": "result-stream-extended",
    "client-input-emptied": "result-stream-empty",
    "client-input-twice": "result-stream-twice",
    "client-input-missing": "result-missing",
    "client-input-without-bytes": "result-without-bytes",
    "client-input-of-another-partition": "result-of-another-partition",
    "client-input-as-the-other": "result-of-an-earlier-query",
    "client-input-as-another-task": "result-of-an-earlier-task",
    "client-input-stream-of-the-other": "result-stream-of-an-earlier-query",
    "client-input-record-of-the-other": "result-commit-of-an-earlier-query",
}

MUTATIONS = tuple(
    Applied(name, mutation=mutation, client=True, needs=_NEEDS)
    for name, mutation in _MUTATIONS.items()
)
