"""What may come of each mutation: which checks explain its detection, or why right rows are its
only right outcome.

A mutation is declared here before it may run. What is not harmless by its declaration must be
detected; where it may come to nothing at times, the declaration says why, and how often at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from coffer_adversary.mutation import Outcome


@dataclass(frozen=True)
class Benign:
    """Why a mutation that must be detected may give right rows at times. `share`: of its applied
    runs, at most."""

    reason: str
    share: float


@dataclass(frozen=True)
class Declaration:
    """Of the mutations that fit `pattern`. `codes`: checks that explain a detection; none: the
    mutation is harmless, for the `reason`, and a refusal is wrong. `benign`: when, all the same,
    one of the others may give right rows; None: never."""

    pattern: str
    codes: frozenset[str]
    reason: str = ""
    benign: Benign | None = None


@dataclass(frozen=True)
class Race:
    """A refusal that no mutation is to blame for: it must be this code, in this situation.
    `applied`: whether the mutation had been applied by then; a run that ends so counts neither as
    detected nor as right."""

    pattern: str
    code: str
    applied: bool
    reason: str


# Reviewed one by one; keep it short. What is not here is a wrong refusal.
RACES: tuple[Race, ...] = tuple(
    Race(
        "spill-*",
        "COFFER_MEMORY",
        applied,
        "the engine has 8 MiB, and whether a sort fits depends on which task is first",
    )
    for applied in (False, True)
)


def _host(*words: str) -> frozenset[str]:
    """What a host sees of a task, and how the driver says that nothing else came: see
    `judge.named`."""
    return frozenset({*words, *(f"COFFER_TASK {word}" for word in words)})


def _by(code: str, *checks: str) -> frozenset[str]:
    """One code for each check: `_by("COFFER_FRAME", "TAG", "ORDER")`."""
    return frozenset(f"{code}_{check}" for check in checks)


# ---- codes by check ----------------------------------------------------------------------------

# Streams are checked by the engine that reads them; those of results and of parts at the client, by
# the client engine.
_TAG = frozenset({"COFFER_FRAME_TAG", "stream_tag"})
_ORDER = frozenset(
    {
        "COFFER_FRAME_ORDER",
        "COFFER_STREAM_CUT",
        "COFFER_STREAM_FORMAT",
        "stream_order",
        "stream_length",
    }
)
_LONGER = frozenset({"COFFER_STREAM_FORMAT", "COFFER_STREAM_LENGTH", "stream_order"})
_CUT = frozenset(
    {"COFFER_STREAM_CUT", "COFFER_STREAM_LENGTH", "COFFER_STREAM_MISSING", "stream_length"}
)
_MISSING = frozenset({"COFFER_STREAM_MISSING", "stream_length"})
_REPEATED = frozenset({"COFFER_STREAM_REPEATED", "stream_order"})
_ATTEMPT = frozenset({"COFFER_STREAM_ATTEMPT", "stream_identity"})
_FOREIGN = frozenset({"COFFER_STREAM_FOREIGN", "stream_identity"})
# Which of them, depends on the bit or byte.
_AT_CLIENT = _by("stream", "tag", "order", "length", "format", "identity") | {"stream_count"}
_STREAM = _by("COFFER_FRAME", "TAG", "ORDER", "LENGTH", "FORMAT") | _by(
    "COFFER_STREAM", "FORMAT", "LENGTH", "CUT", "ATTEMPT", "FOREIGN", "MISSING", "REPEATED"
)
_ANY_STREAM = _STREAM | _AT_CLIENT
_COMMIT = frozenset({"commit_opening_tag"})
_COMMIT_BYTES = _by("commit_opening", "tag", "length", "format")
_ERROR = frozenset({"opening_tag"})
_ERROR_BYTES = _by("opening", "tag", "length", "format")
_SENT = frozenset({"COFFER_OPENING_TAG"})
_SENT_BYTES = _by("COFFER_OPENING", "TAG", "LENGTH", "FORMAT")
# A list of attempts, bounds or values that the descriptor pins, and that came not, or as another's.
_PINNED = _by("COFFER_ATTEMPTS", "MISSING", "STALE", "COUNT") | _by(
    "COFFER_OBJECT", "MISSING", "DIGEST", "FOREIGN"
)

# Files: engines' codes, and the client engine's when it reads or publishes.
_MODULE = frozenset({"COFFER_FILE_TAG", "COFFER_FILE_FORMAT"})
_FOOTER = frozenset({"COFFER_FILE_DIGEST", "COFFER_FILE_MAGIC", "COFFER_FILE_LENGTH"})
_CHUNK = frozenset({"COFFER_FILE_DIGEST"})
_BYTES = _MODULE | _FOOTER
_OF_A_FILE = _by("COFFER_FILE", "DIGEST", "MAGIC", "LENGTH", "TAG", "FORMAT", "KIND", "MISSING")
_PUBLISHED = _by("file", "digest", "magic", "length", "tag", "format", "kind", "missing", "changed")
_MANIFEST = {
    *_by("manifest", "tag", "length", "format", "version", "key", "foreign", "missing"),
    *("file_kind", "file_missing", "other_table"),
}
_VERSION = _by("version", "missing", "digest", "unknown", "chain")

# Another table than the one that the path stands for.
_NAMES = frozenset({"other_table", "path_not_recorded", "folder_changed"})
# A plain input is not the one that the query began with.
_INPUT = frozenset(
    {
        "COFFER_INPUT_CHANGED",
        "input_changed",
        "COFFER_FILE_DIGEST",
        "COFFER_FILE_MISSING",
        "COFFER_FILE_LENGTH",
    }
)

# Of messages that are out of turn: the engine says so, or that its task has ended, or what follows
# finds the connection closed.
_TURN = _host("protocol", "cancelled") | {"COFFER_ENGINE_PROTOCOL", "COFFER_ENGINE_LOST"}
# An engine whose targets are not those of the stage.
_TARGETS = frozenset({"COFFER_ENGINE_PROTOCOL"})

# ---- why right rows may come all the same -------------------------------------------------------

_UNREAD = Benign("a limit or AQE may have what it needs before it reads this target's stream", 0.25)
_RESULT = Benign("the driver takes rows until a limit is full, and opens no more results", 0.6)
_PRUNED = Benign(
    "bounds or a limit may let a query do without the row group, page or column that was altered",
    0.8,
)
_FOOTER_UNREAD = Benign("a limit may be full before the file is opened", 0.3)
_REMADE = Benign(
    "a map output that cannot be fetched is made again, or its reader was done before", 0.9
)
_BROADCAST = Benign("AQE may find the other side empty, and then reads no broadcast", 0.6)
_SPILLED = Benign(
    "the file may have been read to where it was altered, or is written on and read later", 0.95
)
_WRITTEN = Benign(
    "bytes in the gaps between a Parquet file's pages, or of columns that are not read back", 0.5
)


def _must(pattern: str, codes: Iterable[str], benign: Benign | None = None) -> Declaration:
    return Declaration(pattern, frozenset(codes), benign=benign)


def _harmless(pattern: str, reason: str) -> Declaration:
    return Declaration(pattern, frozenset(), reason)


# The first pattern that fits a name counts.
_DECLARATIONS: tuple[Declaration, ...] = (
    # wire.py: inputs of a task
    _harmless(
        "reorder-streams-in", "streams are told apart by what they are, not by when they come"
    ),
    _must("replay-frame-*-out", _TAG, _UNREAD),
    _must("replay-frame-*", _TAG),
    _must("flip-bit-in", _STREAM),
    _must("truncate-in", _CUT),
    _must("extend-in", _LONGER),
    # Behind a stream's only frame the next stream begins, which is no frame.
    _must("drop-frame-in", _ORDER | _CUT | {"COFFER_FRAME_FORMAT"}),
    _must("repeat-frame-in", _ORDER),
    _must("swap-frames-in", _ORDER),
    _must("reverse-frames-in", _ORDER),
    _must("cut-stream-in", _STREAM),
    _must("end-stream-early-in", _TAG),
    _must("swap-frames-of-streams-in", _TAG),
    _must("drop-stream-in", _MISSING),
    _must("repeat-stream-in", _REPEATED),
    _must("forge-attempt-in", _ATTEMPT),
    _must("forge-counter-in", {"COFFER_FRAME_TAG", "COFFER_FRAME_ORDER"}),
    _must("drop-input", _MISSING),
    _must("swap-inputs-relabelled", _TAG),
    _must("swap-inputs", _FOREIGN | _ATTEMPT),
    _must("swap-reducers-relabelled", _TAG),
    _must("swap-reducers", _STREAM),
    _must("replay-stream-of-*-relabelled", _TAG),
    _must("replay-stream-of-*", _ATTEMPT),
    _must("replay-input-of-*", _ATTEMPT | _FOREIGN | _MISSING),
    _harmless(
        "honest-duplicate",
        "a second run of a task over the same inputs does not count, and changes nothing",
    ),
    _harmless(
        "tampered-duplicate",
        "the run over altered inputs is beside the one that counts; that it may not end well is "
        "judged below Spark",
    ),
    # its outcome
    _must("drop-target-out", _MISSING | _TARGETS, _UNREAD),
    _must(
        "swap-targets-out",
        _FOREIGN,
        Benign(
            "streams that change targets reach one reader all the same when AQE joins these "
            "targets",
            0.9,
        ),
    ),
    _must("swap-targets-relabelled-out", _TAG, _UNREAD),
    _must("replay-stream-relabelled-out", _TAG, _UNREAD),
    _must("replay-stream-out", _ATTEMPT, _UNREAD),
    _must("end-stream-early-out", _TAG, _UNREAD),
    _must("swap-frames-out", _ORDER, _UNREAD),
    _must("reverse-frames-out", _ORDER, _UNREAD),
    _must("extend-out", _LONGER, _UNREAD),
    _must("empty-stream-out", _MISSING, _UNREAD),
    _must("repeat-stream-out", _REPEATED, _UNREAD),
    _must("mix-attempts", _ATTEMPT, _UNREAD),
    _must("commit-of-another-attempt", _ATTEMPT, _UNREAD),
    _must("*-out", _ANY_STREAM, _UNREAD),
    _must("replay-result-of-*", _COMMIT | _TARGETS),
    _must("swap-engines", _COMMIT | _TARGETS),
    _must("metrics-as-commit", _COMMIT),
    _must("empty-commit", {"commit_opening_length"}),
    _must("flip-bit-commit", _COMMIT_BYTES),
    _must("commit-of-*", _COMMIT),
    _harmless("*metrics*", "metrics are shown, and decide nothing"),
    _harmless("false-counters", "what an engine counts in clear is for metrics alone"),
    _harmless("run-twice", "the driver takes one attempt of a task, whichever"),
    # A made-up word of the host's is passed on as what it is, and one that no engine has is not
    # read as an engine's; where it says that a sealed error came, none opens.
    _must(
        "failed-invented",
        _host("failed", "session", "draining", "cancelled", "protocol", "version")
        | _ERROR_BYTES
        | {"COFFER_TASK"},
    ),
    # what starts a task
    # Bounds and values are pinned one by one.
    _must(
        "repeat-object",
        {"COFFER_OBJECT_FOREIGN"},
        Benign(
            "nearly all objects are lists of attempts, of which the same one twice is none too "
            "many",
            1.0,
        ),
    ),
    _harmless("reorder-objects", "objects are told apart by what they are"),
    _must("drop-object", _PINNED),
    _must("object-of-a-stage", _SENT | _PINNED),
    # Of nothing at all it is not asked whether it opens.
    *(
        _must(f"truncate-{sent}", _SENT | {"COFFER_OPENING_LENGTH", "COFFER_MALFORMED"})
        for sent in ("fragment", "descriptor", "object")
    ),
    *(_must(f"flip-bit-{sent}", _SENT_BYTES) for sent in ("fragment", "descriptor", "object")),
    _must("*object*", _SENT),
    _must("*fragment*", _SENT),
    _must("*descriptor*", _SENT),
    _must("false-execution", _SENT),
    _must("start-of-a-query", _host("session") | _COMMIT | _TARGETS | _ERROR),
    _must("start-of-*", _COMMIT | _TARGETS | _ERROR),
    _must("false-session", _host("session") | _ERROR),
    _must("false-protocol", _host("version")),
    _must("false-*", _ERROR),
    # keys
    _must(
        "drop-release",
        # The session may be open already, and want a table's keys only.
        _host("session") | {"COFFER_KEYS_MISSING"},
        Benign("the session may be open already by the release that an earlier task brought", 0.6),
    ),
    _must("flip-bit-release", _host("session")),
    # The session may be open already, by another task's release, and want a table's keys only.
    _must(
        "release-of-another-query",
        _host("session") | {"COFFER_KEYS_MISSING"},
        Benign("the session may be open already by the release that an earlier task brought", 0.6),
    ),
    _must(
        "release-under-another-number",
        _host("session"),
        Benign("a session that is open already needs no release", 0.3),
    ),
    _must("replay-an-ended-session", {"session"}),
    # the conversation
    _must("early-end", _MISSING),
    _must("answer-unasked", _TURN | _STREAM),
    _must("answer-*", _TURN | {"COFFER_STREAM_MISSING"}),
    _must("*-midway", _TURN),
    _must("replay-start-before-start", _TURN | _host("session") | _COMMIT | _ERROR),
    _must("garbage-before-start", _TURN),
    _harmless("*-beside", "what is said on a connection of its own ends that connection alone"),
    # attestation
    _must("attest-other-protocol", {"other_protocol"}),
    _must("attest-*", {"wrong_binding"}),
    _must("evidence-of-another-version", {"other_version"}),
    _must("evidence-of-another-protocol", {"other_protocol"}),
    _must("evidence-of-another-kind", {"evidence_not_accepted", "unknown_evidence"}),
    _must("evidence-of-one-kind-more", {"evidence_not_accepted", "evidence_twice"}),
    _must("flip-bit-evidence", {"wrong_binding", "malformed_report"}),
    # site.py, before what is said of evidence
    _must(
        "policy-kind-of-evidence-revoked",
        {"evidence_not_accepted", "engine_unknown", "session_revoked", "session", "policy"},
    ),
    _must("policy-*", {"policy"}),
    _must("*evidence*", {"wrong_binding"}),
    # caches.py
    _must("cache-*-relabelled", _TAG),
    _must("cache-*", _ATTEMPT),
    # stored.py
    _harmless("stored-extended", "what is behind the length that the manifest has is not read"),
    _harmless("stored-huge", "what is behind the length that the manifest has is not read"),
    _must("stored-bit-flipped", _BYTES, _PRUNED),
    _must("stored-page-flipped", _MODULE | _CHUNK, _PRUNED),
    _must("stored-module-length-flipped", _MODULE | _CHUNK, _PRUNED),
    _must("stored-page-index-*", _MODULE, _PRUNED),
    _must("stored-footer-zeroed", {"COFFER_FILE_DIGEST"}, _FOOTER_UNREAD),
    _must("stored-footer-flipped", {"COFFER_FILE_DIGEST"}, _FOOTER_UNREAD),
    _must("stored-footer-part-zeroed", {"COFFER_FILE_DIGEST"}, _FOOTER_UNREAD),
    _must("stored-footer-of-another-file", _FOOTER, _FOOTER_UNREAD),
    _must("stored-tail-flipped", {"COFFER_FILE_MAGIC", "COFFER_FILE_LENGTH"}, _FOOTER_UNREAD),
    _must("stored-range-zeroed", _BYTES, _PRUNED),
    _must("stored-cut", {"COFFER_FILE_LENGTH"}, _FOOTER_UNREAD),
    *(
        _must(f"stored-{what}-swapped", _MODULE | _CHUNK, _PRUNED)
        for what in ("columns", "row-groups", "pages")
    ),
    _must("stored-chunk-of-another-file", _MODULE | _CHUNK, _PRUNED),
    _must("stored-file-missing", {"COFFER_FILE_MISSING"}, _FOOTER_UNREAD),
    _must(
        "stored-file-a-link-to-itself", {"COFFER_FILE_KIND", "COFFER_FILE_MISSING"}, _FOOTER_UNREAD
    ),
    _must("stored-file-a-folder", {"COFFER_FILE_KIND", "COFFER_FILE_MISSING"}, _FOOTER_UNREAD),
    _must("stored-file-a-pipe", {"COFFER_FILE_KIND", "COFFER_FILE_LENGTH"}, _FOOTER_UNREAD),
    _must("stored-file-a-device", _FOOTER | {"COFFER_FILE_KIND"}, _FOOTER_UNREAD),
    _must("stored-plain-file-of-sealed-magic", _FOOTER, _FOOTER_UNREAD),
    _must("stored-plain-file", _FOOTER, _FOOTER_UNREAD),
    _must("stored-*", _FOOTER, _FOOTER_UNREAD),
    # stores.py
    _harmless("store-size-larger", "what is behind the length that the manifest has is not read"),
    _harmless("store-size-huge", "what is behind the length that the manifest has is not read"),
    _harmless("store-size-smaller", "the manifest has the length, and nobody asks for another"),
    _must("store-size-*", _OF_A_FILE, _FOOTER_UNREAD),
    _harmless("store-range-long", "what is behind a range is not read"),
    _must("store-range-*", _OF_A_FILE, _PRUNED),
    _must("store-manifest-*", _MANIFEST | _VERSION | {"file_length"}),
    _must("store-listing-extra-there", {"version_unknown"}),
    _must("store-listing-endless", {"storage"}),
    _harmless("store-listing-*", "which version counts says the register, and no listing"),
    _must("store-put-of-manifest-taken", {"version_taken", "storage"}),
    _must("store-put-of-manifest-dropped", _VERSION | _MANIFEST),
    _must("store-put-*", _PUBLISHED | _OF_A_FILE),
    # versions.py
    _harmless("version-parent-changed", "nobody reads an earlier manifest"),
    _harmless("version-strange-files", "nobody reads a file that no manifest names"),
    _must("version-files-missing", {"COFFER_FILE_MISSING"}),
    _must("version-file-*", _FOOTER),
    _must("version-foreign-*", _MANIFEST | _VERSION),
    _must("version-*", _VERSION),
    _must(
        "manifest-bit-flipped",
        _by("manifest", "tag", "format", "version", "key", "foreign") | _VERSION | {"other_table"},
    ),
    _must("manifest-*", _MANIFEST | _VERSION),
    # writes.py
    _harmless(
        "write-published-file-extended",
        "what is behind the length that the manifest has is not read",
    ),
    _harmless("write-published-file-a-link", "a link to the very same bytes moves no bytes"),
    _must("write-outside-of-the-roots", {"denied_folder"}),
    _must("write-published-file-removed", {"COFFER_FILE_MISSING"}),
    _must("write-published-file-cut", {"COFFER_FILE_LENGTH"}),
    _must("write-published-*", _BYTES, _WRITTEN),
    _must("write-files-swapped", _FOOTER),
    _must("write-file-twice", _FOOTER),
    _must("write-whole-footer-*", _PUBLISHED | _OF_A_FILE),
    _must(
        "write-begun-file-extended",
        _PUBLISHED | _OF_A_FILE,
        Benign("bytes behind a file that is being written are written over", 0.9),
    ),
    _must("write-begun-file-*", _PUBLISHED | _OF_A_FILE, _WRITTEN),
    _must("write-whole-file-*", _PUBLISHED | _OF_A_FILE, _WRITTEN),
    _must(
        "write-manifest-taken",
        {"version_taken", "version_unknown", "write_conflict", "manifest_foreign"},
    ),
    _must("write-manifest-of-a-later-version", {"version_unknown", "version_taken"}),
    _must(
        "write-parents-manifest-missing",
        {"version_missing", "manifest_missing"},
        Benign(
            "the parent of a table's first version is none; a write that began has read it", 0.8
        ),
    ),
    _harmless("write-extra-*", "only files that sealed commit records name are published"),
    _harmless("write-temporary-files", "nobody reads a temporary file of others"),
    # paths.py: a table that is opened is the one that its path, as it is written, stands for
    _harmless(
        "path-moved-behind-a-link-*", "links move bytes, not names: the table's own bytes are read"
    ),
    _must("path-*", _MANIFEST | _VERSION | _NAMES),
    # plain.py: what a query reads of a plain input is what was there when it began
    _must("plain-*-between-runs", _INPUT),
    _must("plain-*-and-maps-lost", _INPUT | {"COFFER_SHUFFLE_LOST"}),
    _harmless(
        "plain-guess-*",
        "frames that hold a host's bytes are not compressed, so no length tells of their "
        "neighbours",
    ),
    # publication.py: the rows are there once, by the retry or not at all
    _must(
        "publication-put-back-*",
        _VERSION | _MANIFEST | {"version_taken", "file_missing"},
        Benign("the retry may clear away what lies under its name, and publish", 1.0),
    ),
    # site.py (policies are further up)
    _must("secret-in-settings", {"COFFER_SECRET_IN_CONF"}),
    # properties.py
    _harmless("job-group-guessed", "a group's name is hashed with a salt of the driver's"),
    # below Spark alone: engine/crates/owner/client/tests/attack/scenarios.rs
    _must("repeat-map-of-a-limit", {"mixed"}),
    _must("value-of-another-version", {"mixed"}),
    _must(
        "repeat-map-of-*", {"mixed"}, Benign("what is summed exactly is the same in any order", 1.0)
    ),
    _must("replay-a-session-ended-long-ago", {"session"}),
    _must("lease-*", {"session"}),
    _must("guess-beyond-*", {"too_many_literals"}),
    _must("whole-query-of-two-runs", {"commit_identity"}),
    _must("whole-query-result-*", {"result_partition"}),
    _must("whole-query-task-alone", {"COFFER_DESCRIPTOR_IDENTITY"}),
    _must(
        "whole-query-*",
        _SENT_BYTES | {"COFFER_ATTEMPTS_MISSING", "COFFER_DESCRIPTOR_IDENTITY", "commit_count"},
    ),
    # shuffle_files.py
    _harmless("shuffle-data-extended", "what is behind the last block is not fetched"),
    _harmless(
        "shuffle-maps-swapped",
        "both outputs go to the same readers, and each stream says whose it is",
    ),
    _must(
        "shuffle-*",
        _STREAM | {"COFFER_SHUFFLE_LOST", "COFFER_MAPS_MISSING", "COFFER_ATTEMPTS_STALE"},
        _REMADE,
    ),
    _harmless(
        "broadcast-streams-swapped",
        "streams are told apart by what they are, not by when they come",
    ),
    _must("broadcast-*", _STREAM, _BROADCAST),
    # spill.py: what a full shuffle puts there are pieces of its streams, and whoever reads those
    # finds out
    _must("spill-removed", {"COFFER_SPILL_MISSING", "COFFER_SPILL_LENGTH"}, _SPILLED),
    _must("spill-*", _STREAM | _by("COFFER_SPILL", "TAG", "ORDER", "LENGTH", "FORMAT"), _SPILLED),
    # reports.py
    *(
        _must(
            name,
            {"COFFER_STREAM_MISSING"},
            Benign("the reducer that is skipped may be one that a limit does not need", 0.4),
        )
        for name in ("map-sizes-zero", "map-sizes-one-zero")
    ),
    _harmless(
        "map-sizes-*",
        "sizes by an executor's word change how a stage is planned, not what it must read",
    ),
    _must("map-of-*", {"COFFER_COMMIT_MISSING"}),
    _must(
        "record-for-other-maps-too",
        {"COFFER_COMMIT_MISSING"},
        Benign(
            "a record under a neighbour's number is in nobody's way once the neighbour's own came",
            0.98,
        ),
    ),
    *(_must(f"record-{name}", _COMMIT_BYTES) for name in ("flipped", "cut", "empty")),
    *(_must(f"record-{name}", _COMMIT) for name in ("of-an-earlier-map", "of-a-result")),
    _must("record-*", {"COFFER_COMMIT_MISSING"}),
    _harmless("task-*", "what a task counts in clear is for metrics alone"),
    _harmless("accumulators-*", "AQE hears row counts from sealed commit records alone"),
    _harmless("row-counts-*", "AQE hears row counts from sealed commit records alone"),
    _must("result-stream-*", _ANY_STREAM, _RESULT),
    _must("result-commit-*", _COMMIT_BYTES, _RESULT),
    _must("result-of-another-class", {"COFFER_TASK_RESULT"}, _RESULT),
    _must("result-of-an-earlier-query", _COMMIT, _RESULT),
    _must("result-of-an-earlier-task", _COMMIT | {"result_partition"}, _RESULT),
    _must("result-of-*", {"result_partition"}, _RESULT),
    _must("result-*", {"COFFER_TASK_RESULT"}, _RESULT),
    # outcomes.py
    _must("whole-outcome-stream-*", _ANY_STREAM),
    _must("whole-outcome-streams-*", {"COFFER_ENGINE_PROTOCOL"}),
    _must(
        "whole-outcome-done-flipped",
        _COMMIT_BYTES | {"COFFER_ENGINE_PROTOCOL"},
        Benign("most of it is counters, and records of stages that no client reads", 0.98),
    ),
    _must("whole-outcome-done-*", {"COFFER_ENGINE_PROTOCOL"}),
    _must("whole-outcome-of-an-earlier-query", _COMMIT | {"COFFER_ENGINE_PROTOCOL"}),
    _harmless("whole-outcome-no-memory", "the query runs stage by stage"),
    _must("whole-outcome-no-memory-of-noise", {"COFFER_ENGINE_PROTOCOL"}),
    _must("whole-outcome-*", {"COFFER_TASK_RESULT"}),
    # client_inputs.py
    _must("client-input-missing", {"COFFER_TASK_RESULT"}),
    _must("client-input-without-bytes", {"COFFER_TASK_RESULT"}),
    _must("client-input-of-another-partition", {"result_partition"}),
    _must("client-input-as-another-task", _COMMIT | {"result_partition"}),
    _must("client-input-as-the-other", _COMMIT),
    _must("client-input-record-of-the-other", _COMMIT),
    _must("client-input-stream-of-the-other", {"stream_identity", "stream_tag"}),
    _must("client-input-extended", {"stream_order"}),
    _must("client-input-emptied", {"stream_length"}),
    _must("client-input-twice", {"stream_order"}),
    _must("client-input-cut", {"stream_length"}),
    _must("client-input-*", _AT_CLIENT),
    # engines.py
    _must("engine-second-owner", {"other_owner"}),
    _must("engine-owner-key-malformed", {"malformed_owner_key"}),
    _must(
        "engine-attest-otherwise", {"other_protocol", "malformed_challenge", "application_too_long"}
    ),
    _must("release-of-an-ended-session", {"session"}),
    _must("release-for-an-unknown-engine", {"engine_unknown"}),
    _must("release-*", {"release"}),
    _must("admission-of-another-report", {"wrong_binding", "malformed_report"}),
    _must("admission-of-another-version", {"other_version", "unsealed_engine"}),
    _must("admission-of-another-kind", {"evidence_not_accepted", "unknown_evidence"}),
    _must("admission-of-another-protocol", {"other_protocol"}),
    _must(
        "admission-without-a-field",
        {
            "protocol",
            "other_protocol",
            "other_version",
            "unknown_evidence",
            "malformed_report",
            "wrong_binding",
        },
    ),
    _must("admission-of-noise", {"protocol"}),
    _must("admission-again", {"unknown_challenge"}),
    _must("admission-of-no-challenge", {"malformed_challenge", "unknown_challenge"}),
    _must("admission-*", {"wrong_binding"}),
    _must("gadget-*", {"COFFER_DESERIALIZATION_FILTER"}),
    # cipher.py: a chunk that lies unencrypted has a digest, and so has every footer
    _must("cipher-linked-tables-swapped", _MANIFEST | _VERSION),
    _must("cipher-footer-*", _FOOTER),
    _must("cipher-file-ids", _CHUNK | {"COFFER_FILE_FORMAT"}, _PRUNED),
    _must("cipher-file*", _FOOTER),
    _must("cipher-*", _CHUNK | {"COFFER_FILE_FORMAT"}, _PRUNED),
)


def declaration(name: str) -> Declaration:
    """What is declared of the mutation of that name. KeyError: nobody has said."""
    for declared in _DECLARATIONS:
        if fnmatchcase(name, declared.pattern):
            return declared
    raise KeyError(name)


def codes_of(name: str) -> frozenset[str]:
    """The codes that a mutation of that name may end in; none for one that is harmless. KeyError:
    nobody has said."""
    return declaration(name).codes


def harmless(name: str) -> bool:
    """Whether right rows are the only right outcome of such a mutation."""
    return not codes_of(name)


def must_be_detected(name: str) -> bool:
    """Whether a run has failed in which such a mutation was applied and never detected. Not where
    all of its runs may give right rows: then either outcome is right."""
    declared = declaration(name)
    return bool(declared.codes) and (declared.benign is None or declared.benign.share < 1)


def too_often(name: str, applied: int, right_rows: int) -> str | None:
    """What is amiss when so many of the applied runs of a mutation gave right rows; None if nothing
    is."""
    declared = declaration(name)
    if not declared.codes or not right_rows:
        return None
    if declared.benign is None:
        return f"right rows in {right_rows} of {applied} runs, and it must be detected"
    if applied >= ENOUGH and right_rows > declared.benign.share * applied:
        return (
            f"right rows in {right_rows} of {applied} runs, more than "
            f"{declared.benign.share:.0%} ({declared.benign.reason})"
        )
    return None


ENOUGH = 12  # runs from which on shares are judged


def held(name: str, outcome: Outcome) -> Outcome:
    """The outcome as it is judged by what is declared of the mutation."""
    declared = declaration(name)
    if outcome.verdict == "wrong":
        return outcome
    if outcome.verdict == "right_rows":
        if outcome.applied and declared.codes and declared.benign is None:
            return replace(outcome, verdict="wrong", check="undetected")
        return outcome
    if _raced(name, outcome):
        return replace(outcome, applied=False, verdict="race")
    if not outcome.applied:
        return replace(
            outcome, verdict="wrong", check=f"refused without a mutation: {outcome.check}"
        )
    if outcome.check in declared.codes:
        return outcome
    return replace(outcome, verdict="wrong", check=f"unexpected {outcome.check}")


def _raced(name: str, outcome: Outcome) -> bool:
    return any(
        fnmatchcase(name, race.pattern)
        and (race.code, race.applied) == (outcome.check, outcome.applied)
        for race in RACES
    )
