//! What counts as detected: for each mutation the codes that may come of it, by the check that is
//! there for it. All else is wrong.

use coffer_proxy::mutations;

/// The word of a task that failed before a sealed error could be made, or without one: its host's
/// word is all there is.
const NO_SEALED_ERROR: &str = "COFFER_TASK";

const TAG: &[&str] = &["COFFER_FRAME_TAG"];
const FOREIGN: &[&str] = &["COFFER_STREAM_FOREIGN"];
const MISSING: &[&str] = &["COFFER_STREAM_MISSING"];
const ATTEMPT: &[&str] = &["COFFER_STREAM_ATTEMPT"];
const OPENING: &[&str] = &["COFFER_OPENING_TAG"];
/// Flips may fall on what says how long the object is, or what it is.
const OPENING_FLIPPED: &[&str] = &[
    "COFFER_OPENING_TAG",
    "COFFER_OPENING_LENGTH",
    "COFFER_OPENING_FORMAT",
];
const COMMIT: &[&str] = &["commit_opening_tag"];
const SESSION: &[&str] = &["session"];
const BINDING: &[&str] = &["wrong_binding"];
const HARMLESS: &[&str] = &[];

/// Which one, depends on the bit or byte.
const STREAMS: &[&str] = &[
    "COFFER_FRAME_TAG",
    "COFFER_FRAME_ORDER",
    "COFFER_FRAME_LENGTH",
    "COFFER_FRAME_FORMAT",
    "COFFER_STREAM_ATTEMPT",
    "COFFER_STREAM_CUT",
    "COFFER_STREAM_FOREIGN",
    "COFFER_STREAM_FORMAT",
    "COFFER_STREAM_LENGTH",
    "COFFER_STREAM_MISSING",
    "COFFER_STREAM_REPEATED",
];
/// What a task brought is read by a task, or by the client engine.
const BROUGHT: &[&str] = &[
    "COFFER_FRAME_TAG",
    "COFFER_FRAME_ORDER",
    "COFFER_FRAME_LENGTH",
    "COFFER_FRAME_FORMAT",
    "COFFER_STREAM_ATTEMPT",
    "COFFER_STREAM_CUT",
    "COFFER_STREAM_FOREIGN",
    "COFFER_STREAM_FORMAT",
    "COFFER_STREAM_LENGTH",
    "COFFER_STREAM_MISSING",
    "COFFER_STREAM_REPEATED",
    "stream_tag",
    "stream_order",
    "stream_length",
    "stream_format",
    "stream_identity",
];
/// Frames in another order: the next one is not the one that was due, or where it should begin
/// there is none.
const ORDER: &[&str] = &[
    "COFFER_FRAME_ORDER",
    "COFFER_STREAM_CUT",
    "COFFER_STREAM_FORMAT",
];

/// What an engine, the client engine or the executor may say of a mutation; nothing: it is
/// harmless, and a refusal is wrong.
fn codes(mutation: &str) -> Option<&'static [&'static str]> {
    Some(match mutation {
        "flip-bit-in" | "drop-frame-in" | "cut-stream-in" | "repeat-frame-in" | "swap-reducers" => {
            STREAMS
        }
        "swap-frames-in" | "reverse-frames-in" => ORDER,
        "truncate-in" => &[
            "COFFER_STREAM_CUT",
            "COFFER_STREAM_LENGTH",
            "COFFER_STREAM_MISSING",
        ],
        "extend-in" => &["COFFER_STREAM_FORMAT", "COFFER_STREAM_LENGTH"],
        "drop-input" | "drop-stream-in" | "early-end" => MISSING,
        "repeat-stream-in" => &["COFFER_STREAM_REPEATED"],
        "swap-inputs" => &["COFFER_STREAM_ATTEMPT", "COFFER_STREAM_FOREIGN"],
        "replay-stream-of-a-query" | "forge-attempt-in" => ATTEMPT,
        // The same task of another query may have had nothing as that input, or another stage's.
        "replay-input-of-a-query" => &[
            "COFFER_STREAM_ATTEMPT",
            "COFFER_STREAM_FOREIGN",
            "COFFER_STREAM_MISSING",
        ],
        "end-stream-early-in"
        | "swap-frames-of-streams-in"
        | "swap-inputs-relabelled"
        | "swap-reducers-relabelled"
        | "replay-stream-of-a-query-relabelled"
        | "replay-stream-of-a-stage-relabelled"
        | "replay-frame-of-a-query-in"
        | "replay-frame-of-a-stage-in"
        | "replay-frame-of-an-attempt-in"
        | "swap-targets-relabelled-out" => TAG,
        // Under the number that is due, or under another.
        "forge-counter-in" => &["COFFER_FRAME_TAG", "COFFER_FRAME_ORDER"],
        "flip-bit-out" | "truncate-out" | "drop-frame-out" | "cut-stream-out"
        | "repeat-frame-out" => BROUGHT,
        "swap-frames-out" | "reverse-frames-out" => &[
            "COFFER_FRAME_ORDER",
            "COFFER_STREAM_CUT",
            "COFFER_STREAM_FORMAT",
            "stream_order",
            "stream_length",
        ],
        "extend-out" => &[
            "COFFER_STREAM_FORMAT",
            "COFFER_STREAM_LENGTH",
            "stream_order",
        ],
        "empty-stream-out" | "drop-target-out" => &["COFFER_STREAM_MISSING", "stream_length"],
        "repeat-stream-out" => &["COFFER_STREAM_REPEATED", "stream_order"],
        "replay-stream-out" | "mix-attempts" | "commit-of-another-attempt" => {
            &["COFFER_STREAM_ATTEMPT", "stream_identity"]
        }
        "end-stream-early-out"
        | "replay-stream-relabelled-out"
        | "replay-frame-of-a-query-out"
        | "replay-frame-of-a-stage-out"
        | "replay-frame-of-an-attempt-out" => &["COFFER_FRAME_TAG", "stream_tag"],
        "swap-targets-out" => FOREIGN,
        "replay-result-of-a-query"
        | "replay-result-of-a-task"
        | "replay-result-of-a-stage"
        | "commit-of-another-query"
        | "commit-of-another-task"
        | "commit-of-another-stage"
        | "metrics-as-commit" => COMMIT,
        "flip-bit-commit" => &[
            "commit_opening_tag",
            "commit_opening_length",
            "commit_opening_format",
        ],
        "empty-commit" => &["commit_opening_length"],
        // What it did is another task's doing, so its record is; and so is its error.
        "start-of-a-stage" | "start-of-a-task" => &["commit_opening_tag", "opening_tag"],
        "false-stage" | "false-partition" => &["opening_tag"],
        "failed-invented" => &[
            "opening_tag",
            "opening_length",
            "opening_format",
            NO_SEALED_ERROR,
        ],
        "flip-bit-fragment" | "flip-bit-descriptor" | "flip-bit-object" => OPENING_FLIPPED,
        "fragment-of-a-query"
        | "fragment-of-a-stage"
        | "descriptor-of-a-query"
        | "descriptor-of-a-stage"
        | "descriptor-of-a-task"
        | "add-object-of-a-query"
        | "object-of-a-query"
        | "false-execution" => OPENING,
        // Of nothing at all it is not asked whether it opens.
        "truncate-fragment" | "truncate-descriptor" | "truncate-object" => &[
            "COFFER_OPENING_TAG",
            "COFFER_OPENING_LENGTH",
            "COFFER_MALFORMED",
        ],
        "drop-object" | "object-of-a-stage" => &["COFFER_ATTEMPTS_MISSING"],
        // A query's first task is the engine's first word of it that the one before has ended.
        "start-of-a-query" => &["session", "commit_opening_tag", "opening_tag"],
        "false-session" => &["session", "opening_tag"],
        "flip-bit-release" | "release-under-another-number" | "replay-an-ended-session" => SESSION,
        "drop-release" | "release-of-another-query" => &["session", "COFFER_KEYS_MISSING"],
        "false-protocol" => &["version"],
        "answer-another-input"
        | "answer-too-short"
        | "attest-midway"
        | "start-midway"
        | "garbage-midway" => &["protocol"],
        "answer-unasked" | "answer-after-the-end" => &["COFFER_STREAM_MISSING", "protocol"],
        // An engine may see the end of the conversation before it has looked at the message.
        "hostile-length-midway" => &["protocol", "cancelled"],
        "close-midway" => &["cancelled", "protocol"],
        // The engine's answer to what came before START is the answer to no START.
        "garbage-before-start" => &["COFFER_ENGINE_PROTOCOL", "protocol", "session", "version"],
        "replay-start-before-start" => &["commit_opening_tag", "protocol", "session"],
        "attest-other-owner"
        | "attest-other-challenge"
        | "attest-other-application"
        | "old-evidence"
        | "evidence-over-another-key"
        | "old-evidence-over-this-key" => BINDING,
        "attest-other-protocol" | "evidence-of-another-protocol" => &["other_protocol"],
        "flip-bit-evidence" => &["wrong_binding", "malformed_report"],
        "evidence-of-another-version" => &["other_version"],
        "evidence-of-another-kind" => &["evidence_not_accepted", "unknown_evidence"],
        "evidence-of-one-kind-more" => &["evidence_not_accepted", "evidence_twice"],
        "reorder-streams-in"
        | "honest-duplicate"
        | "tampered-duplicate"
        | "metrics-of-another-task"
        | "flip-bit-metrics"
        | "empty-metrics"
        | "false-counters"
        | "run-twice"
        | "repeat-object"
        | "reorder-objects"
        | "garbage-beside"
        | "broken-start-beside"
        | "hostile-length-beside"
        | "half-a-message-beside" => HARMLESS,
        "repeat-map-of-a-limit" | "value-of-another-version" => &["mixed"],
        "repeat-map-of-sums" | "repeat-map-of-averages" | "repeat-map-of-moments" => &["mixed"],
        "guess-beyond-the-bound" | "guess-beyond-the-bound-by-reconnecting" => {
            &["too_many_literals"]
        }
        "write-outside-of-the-roots" => &["denied_folder"],
        // Without the last one, no result comes.
        "whole-query-without-a-stage" | "whole-query-in-another-order" => {
            &["COFFER_ATTEMPTS_MISSING", "commit_count"]
        }
        "whole-query-with-a-stage-twice" | "whole-query-without-a-task" => &[
            "COFFER_ATTEMPTS_MISSING",
            "COFFER_DESCRIPTOR_IDENTITY",
            "COFFER_OPENING_TAG",
        ],
        "whole-query-with-a-task-twice"
        | "whole-query-with-parts-of-another-query"
        | "whole-query-with-parts-of-another-stage" => {
            &["COFFER_OPENING_TAG", "COFFER_DESCRIPTOR_IDENTITY"]
        }
        "whole-query-with-a-bit-flipped" => OPENING_FLIPPED,
        "whole-query-of-two-runs" => &["commit_identity"],
        "whole-query-result-without-a-partition" => &["result_partition"],
        "whole-query-task-alone" => &["COFFER_DESCRIPTOR_IDENTITY"],
        "replay-a-session-ended-long-ago"
        | "lease-renewed-by-a-start"
        | "lease-renewed-by-an-old-release"
        | "lease-renewed-by-an-altered-descriptor"
        | "lease-held-by-an-unanswered-need" => SESSION,
        _ => return None,
    })
}

/// Of what is not harmless: when right rows may come all the same.
fn benign(name: &str) -> Option<&'static str> {
    Some(match name {
        "swap-targets-out" => "a reader of all targets takes its streams in any order",
        "repeat-map-of-sums" | "repeat-map-of-averages" | "repeat-map-of-moments" => {
            "what is summed exactly is the same in any order"
        }
        _ => return None,
    })
}

/// Whether an applied mutation may give right rows.
pub(crate) fn may_be_right(name: &str) -> bool {
    codes(name).is_some_and(<[_]>::is_empty) || benign(name).is_some()
}

/// Whether a run in which none of them is detected has failed.
pub(crate) fn must_be_detected(name: &str) -> bool {
    codes(name).is_none_or(|codes| !codes.is_empty()) && !name.starts_with("repeat-map-of-")
        || name == "repeat-map-of-a-limit"
}

/// The check that refused, or what is wrong with the refusal.
pub(crate) fn check(mutation: &str, code: &str) -> Result<String, String> {
    // What refuses a made-up word is that no sealed error is there.
    let code = match mutation {
        "failed-invented" if mutations::INVENTED.contains(&code) => NO_SEALED_ERROR,
        _ => code,
    };
    match codes(mutation) {
        Some(expected) if expected.contains(&code) => Ok(code.to_owned()),
        Some(expected) => Err(format!("{code}, where one of {expected:?} was due")),
        None => Err(format!(
            "{code}, and nobody said what may come of this mutation"
        )),
    }
}

/// What is wrong with the end of a run beside the one that is asked for.
pub(crate) fn beside(mutation: &str, end: Option<&str>) -> Option<String> {
    let end = end?;
    let expected: &[&str] = match mutation {
        // The queries here need all of every input.
        "tampered-duplicate" => &["failed", "session"],
        _ => &["done", "done in part", "session"],
    };
    (!expected.contains(&end)).then(|| format!("the run beside ended with {end}"))
}

#[cfg(test)]
mod tests {
    use coffer_proxy::mutations::Mutation;

    use super::*;

    const REFERENCE: &str = include_str!("../../../../../../docs/reference/errors.md");

    #[test]
    fn each_mutation_has_codes_and_each_code_is_in_the_reference() {
        for (name, mutation) in mutations::all() {
            if matches!(mutation, Mutation::Exchange) {
                continue;
            }
            for code in codes(name).unwrap_or_else(|| panic!("{name}")) {
                let rows = REFERENCE.lines().filter(|line| line.starts_with("| `"));
                let known = rows.filter_map(|row| row.split('|').nth(1));
                assert!(
                    known
                        .into_iter()
                        .any(|cell| cell.contains(&format!("`{code}`"))),
                    "{code}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_check_is_wrong() {
        assert_eq!(
            check("flip-bit-fragment", "COFFER_OPENING_TAG"),
            Ok("COFFER_OPENING_TAG".to_owned())
        );
        for code in [
            "",
            "hang",
            "internal",
            "COFFER_PANIC",
            "COFFER_ENGINE_LOST",
            "COFFER_FRAME_TAG",
            "no such word",
        ] {
            assert!(check("flip-bit-fragment", code).is_err(), "{code}");
            assert!(check("reorder-streams-in", code).is_err(), "{code}");
        }
        assert!(check("replay-an-ended-session", "ran-again").is_err());
        assert_eq!(
            check("failed-invented", "no such word"),
            Ok("COFFER_TASK".to_owned())
        );
        assert!(check("failed-invented", "COFFER_PANIC").is_err());
        assert!(check("truth", "COFFER_FRAME_TAG").is_err());
    }

    #[test]
    fn right_rows_are_right_where_that_is_declared() {
        assert!(may_be_right("reorder-streams-in") && !must_be_detected("reorder-streams-in"));
        assert!(!may_be_right("flip-bit-in") && must_be_detected("flip-bit-in"));
        // At times, and not always.
        assert!(may_be_right("swap-targets-out") && must_be_detected("swap-targets-out"));
        assert!(!may_be_right("truth") && must_be_detected("truth"));
    }

    #[test]
    fn a_task_over_altered_inputs_may_not_be_done() {
        assert!(beside("tampered-duplicate", Some("done")).is_some());
        assert!(beside("tampered-duplicate", Some("hang")).is_some());
        assert!(beside("honest-duplicate", Some("failed")).is_some());
        assert_eq!(beside("tampered-duplicate", Some("failed")), None);
        assert_eq!(beside("honest-duplicate", Some("done")), None);
        assert_eq!(beside("flip-bit-in", None), None);
    }
}
