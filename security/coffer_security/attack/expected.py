"""Which codes each lie may end in. One that ends in another was not refused by the check that is there for it."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from coffer_security.attack.mutation import Outcome


def _host(*words: str) -> frozenset[str]:
    """What a host sees of a task, and how the driver says that nothing else came: see `judge.named`."""
    return frozenset({*words, *(f"COFFER_TASK {word}" for word in words)})


_NOTHING: frozenset[str] = frozenset()
# Streams are checked by the engine that reads them; those of results and of parts at home, by the client engine.
_STREAM = frozenset(
    {
        *("COFFER_FRAME", "COFFER_STREAM_FORMAT", "COFFER_STREAM_CUT", "COFFER_STREAM_ATTEMPT"),
        *("COFFER_STREAM_FOREIGN", "COFFER_STREAM_MISSING", "COFFER_STREAM_REPEATED"),
    }
)
_AT_HOME = frozenset({"stream", "stream_count"})
_OUT = _STREAM | _AT_HOME
_COMMIT = frozenset({"commit_opening"})
_SENT = frozenset({"COFFER_OPENING"})
# A list of attempts, bounds or values that the descriptor pins, and that came not, or as another's.
_PINNED = frozenset(
    {
        *("COFFER_ATTEMPTS_MISSING", "COFFER_ATTEMPTS_STALE", "COFFER_ATTEMPTS_COUNT"),
        *("COFFER_OBJECT_MISSING", "COFFER_OBJECT_DIGEST", "COFFER_OBJECT_FOREIGN"),
    }
)
_FILE = frozenset({"COFFER_FILE"})
_TABLE = frozenset({"table"})
# Of messages that are out of turn: the engine says so, or that its task has ended, or what follows finds the connection
# closed.
_TURN = _host("protocol", "cancelled") | {"COFFER_ENGINE_PROTOCOL", "COFFER_ENGINE_LOST"}
# An engine whose targets are not those of the stage.
_TARGETS = frozenset({"COFFER_ENGINE_PROTOCOL"})

# The first pattern that fits a name counts. With no codes: such a lie changes nothing that anybody relies on.
_ENDS: tuple[tuple[str, frozenset[str]], ...] = (
    # wire.py: inputs of a task
    ("reorder-streams-in", _NOTHING),
    ("replay-frame-*-out", _OUT),
    ("replay-frame-*", _STREAM),
    ("*-in", _STREAM),
    ("drop-input", _STREAM),
    ("swap-inputs*", _STREAM),
    ("swap-reducers*", _STREAM),
    ("replay-stream-of-*", _STREAM),
    ("replay-input-of-*", _STREAM),
    ("*-twin", _NOTHING),
    # its outcome
    ("drop-target-out", _OUT | _TARGETS),
    ("*-out", _OUT),
    ("mix-attempts", _OUT),
    ("commit-of-another-attempt", _OUT),
    ("replay-result-of-*", _COMMIT | _TARGETS),
    ("swap-engines", _COMMIT | _TARGETS),
    ("metrics-as-commit", _COMMIT),
    ("*-commit", _COMMIT),
    ("commit-of-*", _COMMIT),
    ("*metrics*", _NOTHING),
    ("false-counters", _NOTHING),
    ("run-twice", _NOTHING),
    # A made-up word of the host's is passed on as what it is, and one that no engine has is not read as an engine's; where
    # it says that a sealed error came, none opens.
    (
        "failed-invented",
        _host("failed", "session", "draining", "cancelled", "protocol", "version") | {"opening", "COFFER_TASK"},
    ),
    # what starts a task
    # Bounds and values are pinned one by one; of lists of attempts the same one twice is none too many.
    ("repeat-object", frozenset({"COFFER_OBJECT_FOREIGN"})),
    ("reorder-objects", _NOTHING),
    ("drop-object", _PINNED),
    ("object-of-a-stage", _SENT | _PINNED),
    # Of nothing at all it is not asked whether it opens.
    *((f"truncate-{sent}", _SENT | {"COFFER_MALFORMED"}) for sent in ("fragment", "descriptor", "object")),
    ("*object*", _SENT),
    ("*fragment*", _SENT),
    ("*descriptor*", _SENT),
    ("false-execution", _SENT),
    ("start-of-a-query", _host("session") | _COMMIT | _TARGETS | {"opening"}),
    ("start-of-*", _COMMIT | _TARGETS | {"opening"}),
    ("false-session", _host("session") | {"opening"}),
    ("false-protocol", _host("version")),
    ("false-*", frozenset({"opening"})),
    # keys
    ("drop-release", _host("session")),
    ("flip-bit-release", _host("session")),
    # The session may be open already, by another task's release, and want a table's keys only.
    ("release-of-another-query", _host("session") | {"COFFER_KEYS_MISSING"}),
    ("release-under-another-number", _host("session")),
    ("replay-an-ended-session", frozenset({"session"})),
    # the conversation
    ("early-end", _STREAM),
    ("answer-unasked", _TURN | _STREAM),
    ("answer-*", _TURN),
    ("*-midway", _TURN),
    ("replay-start-before-start", _TURN | _host("session") | _COMMIT | {"opening"}),
    ("garbage-before-start", _TURN),
    ("*-beside", _NOTHING),
    # attestation
    ("attest-other-protocol", frozenset({"other_protocol"})),
    ("attest-*", frozenset({"wrong_binding"})),
    ("evidence-of-another-version", frozenset({"other_version"})),
    ("evidence-of-another-protocol", frozenset({"other_protocol"})),
    ("evidence-of-another-kind", frozenset({"evidence_not_accepted", "unknown_evidence"})),
    ("flip-bit-evidence", frozenset({"wrong_binding", "malformed_report"})),
    ("*evidence*", frozenset({"wrong_binding"})),
    # stored.py: what is behind the length that the manifest has is not read
    ("stored-extended", _NOTHING),
    ("stored-huge", _NOTHING),
    ("stored-*", _FILE),
    # versions.py: nobody reads an earlier manifest, or a file that no manifest names
    ("version-parent-changed", _NOTHING),
    ("version-strange-files", _NOTHING),
    ("version-file*", _FILE),
    ("version-*", _TABLE),
    ("manifest-*", _TABLE),
    # writes.py
    ("write-published-file-extended", _NOTHING),
    ("write-published-file-a-link", _NOTHING),
    ("write-published-*", _FILE),
    ("write-files-swapped", _FILE),
    ("write-file-twice", _FILE),
    ("write-begun-file-*", _TABLE | _FILE | {"COFFER_STORAGE"}),
    ("write-whole-file-*", _TABLE | _FILE | {"COFFER_STORAGE"}),
    ("write-manifest-*", _TABLE | {"write_conflict"}),
    ("write-parents-manifest-missing", _TABLE),
    ("write-*", _NOTHING),
    # shuffle_files.py: what cannot be fetched is made again, until Spark gives up
    ("shuffle-data-extended", _NOTHING),
    ("shuffle-maps-swapped", _NOTHING),
    ("shuffle-*", _STREAM | {"COFFER_SHUFFLE_LOST", "COFFER_MAPS_MISSING", "COFFER_ATTEMPTS_STALE"}),
    ("broadcast-streams-swapped", _NOTHING),
    ("broadcast-*", _STREAM),
    # spill.py
    ("spill-removed", frozenset({"COFFER_SPILL", "COFFER_STORAGE"})),
    # What a full shuffle puts there are pieces of its streams: whoever reads those finds out.
    ("spill-*", _STREAM | {"COFFER_SPILL", "COFFER_STORAGE"}),
    # reports.py
    ("map-sizes-zero", frozenset({"COFFER_STREAM_MISSING"})),
    ("map-sizes-one-zero", frozenset({"COFFER_STREAM_MISSING"})),
    ("map-sizes-*", _NOTHING),
    ("map-of-*", frozenset({"COFFER_COMMIT_MISSING"})),
    # A record under a neighbour's number may stand in the way of the neighbour's own.
    ("record-for-other-maps-too", frozenset({"COFFER_COMMIT_MISSING"})),
    *((f"record-{name}", _COMMIT) for name in ("flipped", "cut", "empty", "of-an-earlier-map", "of-a-result")),
    ("record-*", frozenset({"COFFER_COMMIT_MISSING"})),
    ("task-*", _NOTHING),
    ("accumulators-*", _NOTHING),
    ("row-counts-*", _NOTHING),
    ("result-stream-*", _OUT),
    ("result-commit-*", _COMMIT),
    ("result-of-another-class", frozenset({"COFFER_TASK_RESULT"})),
    ("result-of-an-earlier-query", _COMMIT),
    ("result-of-an-earlier-task", _COMMIT | {"result_partition"}),
    ("result-of-*", frozenset({"result_partition"})),
    ("result-*", frozenset({"COFFER_TASK_RESULT"})),
    # home.py
    ("home-input-missing", frozenset({"COFFER_TASK_RESULT"})),
    ("home-input-without-bytes", frozenset({"COFFER_TASK_RESULT"})),
    ("home-input-of-another-partition", frozenset({"result_partition"})),
    ("home-input-as-another-task", _COMMIT | {"result_partition"}),
    ("home-input-as-the-other", _COMMIT),
    ("home-input-record-of-the-other", _COMMIT),
    ("home-input-*", _AT_HOME),
    # engines.py
    ("engine-second-owner", frozenset({"other_owner"})),
    ("engine-owner-key-malformed", frozenset({"malformed_owner_key"})),
    ("engine-attest-otherwise", frozenset({"other_protocol", "malformed_challenge", "application_too_long"})),
    ("release-of-an-ended-session", frozenset({"session"})),
    ("release-for-an-unknown-engine", frozenset({"engine_unknown"})),
    ("release-*", frozenset({"release"})),
    ("admission-of-another-report", frozenset({"wrong_binding", "malformed_report"})),
    ("admission-of-another-version", frozenset({"other_version", "unsealed_engine"})),
    ("admission-of-another-kind", frozenset({"evidence_not_accepted", "unknown_evidence"})),
    ("admission-of-another-protocol", frozenset({"other_protocol"})),
    (
        "admission-without-a-field",
        frozenset({"protocol", "other_protocol", "other_version", "unknown_evidence", "malformed_report", "wrong_binding"}),
    ),
    ("admission-of-noise", frozenset({"protocol"})),
    ("admission-again", frozenset({"unknown_challenge"})),
    ("admission-of-no-challenge", frozenset({"malformed_challenge", "unknown_challenge"})),
    ("admission-*", frozenset({"wrong_binding"})),
    ("gadget-*", frozenset({"COFFER_DESERIALIZATION_FILTER"})),
    # cipher.py
    ("cipher-linked-tables-swapped", _TABLE),
    ("cipher-*", _FILE),
)

# Their codes are right when they come, but they need not come: bytes behind a file that is still being written are written
# over, a record that is in nobody's way is not looked at, and few queries have bounds or values that could be repeated.
_SELDOM = frozenset({"write-begun-file-extended", "record-for-other-maps-too", "repeat-object"})


def codes_of(name: str) -> frozenset[str]:
    """The codes that a lie of that name may end in; none for one that is harmless. KeyError: nobody has said."""
    for pattern, codes in _ENDS:
        if fnmatchcase(name, pattern):
            return codes
    raise KeyError(name)


def harmless(name: str) -> bool:
    """Whether such a lie may come to nothing however often it is told."""
    return name in _SELDOM or not codes_of(name)


def held(name: str, outcome: Outcome) -> Outcome:
    """The outcome, or a wrong one where a code is not one that explains the lie."""
    if outcome.verdict != "detected" or outcome.check in codes_of(name):
        return outcome
    return replace(outcome, verdict="wrong", check=f"unexpected {outcome.check}")
