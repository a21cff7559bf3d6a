//! What counts as detected: for each lie the codes that may come of it, by the check that is there for it. All else is wrong.

use coffer_saboteur::lies;

/// The word of a task that failed before a sealed error could be made, or without one: its host's word is all there is.
const NO_SEALED_ERROR: &str = "COFFER_TASK";

const FRAME: &[&str] = &["COFFER_FRAME"];
const FOREIGN: &[&str] = &["COFFER_STREAM_FOREIGN"];
const MISSING: &[&str] = &["COFFER_STREAM_MISSING"];
const ATTEMPT: &[&str] = &["COFFER_STREAM_ATTEMPT"];
const OPENING: &[&str] = &["COFFER_OPENING"];
const COMMIT: &[&str] = &["commit_opening"];
const SESSION: &[&str] = &["session"];
const BINDING: &[&str] = &["wrong_binding"];
const HARMLESS: &[&str] = &[];

/// Which one, depends on the bit or byte.
const STREAMS: &[&str] = &[
    "COFFER_FRAME",
    "COFFER_STREAM_ATTEMPT",
    "COFFER_STREAM_CUT",
    "COFFER_STREAM_FOREIGN",
    "COFFER_STREAM_FORMAT",
    "COFFER_STREAM_MISSING",
    "COFFER_STREAM_REPEATED",
];
/// What a task brought is read by a task, or by the client engine.
const BROUGHT: &[&str] = &[
    "COFFER_FRAME",
    "COFFER_STREAM_ATTEMPT",
    "COFFER_STREAM_CUT",
    "COFFER_STREAM_FOREIGN",
    "COFFER_STREAM_FORMAT",
    "COFFER_STREAM_MISSING",
    "COFFER_STREAM_REPEATED",
    "stream",
];

/// What an engine, the client engine or the executor may say of a lie; nothing: it is harmless, and a refusal is wrong.
fn codes(lie: &str) -> Option<&'static [&'static str]> {
    Some(match lie {
        "flip-bit-in" | "drop-frame-in" | "cut-stream-in" | "repeat-frame-in" | "swap-reducers" => STREAMS,
        "swap-frames-in" | "reverse-frames-in" => &["COFFER_FRAME", "COFFER_STREAM_CUT", "COFFER_STREAM_FORMAT"],
        "truncate-in" => &["COFFER_STREAM_CUT", "COFFER_STREAM_FORMAT", "COFFER_STREAM_MISSING"],
        "extend-in" => &["COFFER_STREAM_FORMAT"],
        "drop-input" | "drop-stream-in" | "early-end" => MISSING,
        "repeat-stream-in" => &["COFFER_STREAM_REPEATED"],
        "swap-inputs" => &["COFFER_STREAM_ATTEMPT", "COFFER_STREAM_FOREIGN"],
        "replay-stream-of-a-query" | "forge-attempt-in" => ATTEMPT,
        // The same task of another query may have had nothing as that input.
        "replay-input-of-a-query" => &["COFFER_STREAM_ATTEMPT", "COFFER_STREAM_MISSING"],
        "end-stream-early-in"
        | "swap-frames-of-streams-in"
        | "swap-inputs-relabelled"
        | "swap-reducers-relabelled"
        | "replay-stream-of-a-query-relabelled"
        | "replay-stream-of-a-stage-relabelled"
        | "replay-frame-of-a-query-in"
        | "replay-frame-of-a-stage-in"
        | "replay-frame-of-an-attempt-in"
        | "forge-counter-in"
        | "swap-targets-relabelled-out" => FRAME,
        "flip-bit-out" | "truncate-out" | "drop-frame-out" | "cut-stream-out" | "repeat-frame-out" => BROUGHT,
        "swap-frames-out" | "reverse-frames-out" => {
            &["COFFER_FRAME", "COFFER_STREAM_CUT", "COFFER_STREAM_FORMAT", "stream"]
        }
        "extend-out" => &["COFFER_STREAM_FORMAT", "stream"],
        "empty-stream-out" | "drop-target-out" => &["COFFER_STREAM_MISSING", "stream"],
        "repeat-stream-out" => &["COFFER_STREAM_REPEATED", "stream"],
        "replay-stream-out" | "mix-attempts" | "commit-of-another-attempt" => &["COFFER_STREAM_ATTEMPT", "stream"],
        "end-stream-early-out"
        | "replay-stream-relabelled-out"
        | "replay-frame-of-a-query-out"
        | "replay-frame-of-a-stage-out"
        | "replay-frame-of-an-attempt-out" => &["COFFER_FRAME", "stream"],
        "swap-targets-out" => FOREIGN,
        "replay-result-of-a-query"
        | "replay-result-of-a-task"
        | "replay-result-of-a-stage"
        | "commit-of-another-query"
        | "commit-of-another-task"
        | "commit-of-another-stage"
        | "flip-bit-commit"
        | "empty-commit"
        | "metrics-as-commit" => COMMIT,
        // What it did is another task's doing, so its record is; and so is its error.
        "start-of-a-stage" | "start-of-a-task" => &["commit_opening", "opening"],
        "false-stage" | "false-partition" => &["opening"],
        "failed-invented" => &["opening", NO_SEALED_ERROR],
        "flip-bit-fragment"
        | "flip-bit-descriptor"
        | "flip-bit-object"
        | "fragment-of-a-query"
        | "fragment-of-a-stage"
        | "descriptor-of-a-query"
        | "descriptor-of-a-stage"
        | "descriptor-of-a-task"
        | "add-object-of-a-query"
        | "object-of-a-query"
        | "false-execution" => OPENING,
        // Of nothing at all it is not asked whether it opens.
        "truncate-fragment" | "truncate-descriptor" | "truncate-object" => &["COFFER_OPENING", "COFFER_MALFORMED"],
        "drop-object" | "object-of-a-stage" => &["COFFER_ATTEMPTS_MISSING"],
        // A query's first task is the engine's first word of it that the one before has ended.
        "start-of-a-query" => &["session", "commit_opening", "opening"],
        "false-session" => &["session", "opening"],
        "flip-bit-release" | "drop-release" | "release-under-another-number" | "replay-an-ended-session" => SESSION,
        "release-of-another-query" => &["session", "COFFER_KEYS_MISSING"],
        "false-protocol" => &["version"],
        "answer-another-input" | "answer-too-short" | "attest-midway" | "start-midway" | "garbage-midway" => {
            &["protocol"]
        }
        "answer-unasked" | "answer-after-the-end" => &["COFFER_STREAM_MISSING", "protocol"],
        // An engine may see the end of the conversation before it has looked at the message.
        "hostile-length-midway" => &["protocol", "cancelled"],
        "close-midway" => &["cancelled", "protocol"],
        // The engine's answer to what came before START is the answer to no START.
        "garbage-before-start" => &["COFFER_ENGINE_PROTOCOL", "protocol", "session", "version"],
        "replay-start-before-start" => &["commit_opening", "protocol", "session"],
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
        "reorder-streams-in"
        | "honest-twin"
        | "tampered-twin"
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
        _ => return None,
    })
}

/// The check that refused, or what is wrong with the refusal.
pub(crate) fn check(lie: &str, code: &str) -> Result<String, String> {
    // What refuses a made-up word is that no sealed error is there.
    let code = match lie {
        "failed-invented" if lies::INVENTED.contains(&code) => NO_SEALED_ERROR,
        _ => code,
    };
    match codes(lie) {
        Some(expected) if expected.contains(&code) => Ok(code.to_owned()),
        Some(expected) => Err(format!("{code}, where one of {expected:?} was due")),
        None => Err(format!("{code}, and nobody said what may come of this lie")),
    }
}

/// What is wrong with the end of a run beside the one that is asked for.
pub(crate) fn beside(lie: &str, end: Option<&str>) -> Option<String> {
    let end = end?;
    let expected: &[&str] = match lie {
        // The queries here need all of every input.
        "tampered-twin" => &["failed", "session"],
        _ => &["done", "done in part", "session"],
    };
    (!expected.contains(&end)).then(|| format!("the run beside ended with {end}"))
}

#[cfg(test)]
mod tests {
    use coffer_saboteur::lies::Lie;

    use super::*;

    const REFERENCE: &str = include_str!("../../../../../docs/reference/errors.md");

    #[test]
    fn each_lie_has_codes_and_each_code_is_in_the_reference() {
        for (name, lie) in lies::all() {
            if matches!(lie, Lie::Exchange) {
                continue;
            }
            for code in codes(name).unwrap_or_else(|| panic!("{name}")) {
                let rows = REFERENCE.lines().filter(|line| line.starts_with("| `"));
                let known = rows.filter_map(|row| row.split('|').nth(1));
                assert!(
                    known.into_iter().any(|cell| cell.contains(&format!("`{code}`"))),
                    "{code}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_check_is_wrong() {
        assert_eq!(
            check("flip-bit-fragment", "COFFER_OPENING"),
            Ok("COFFER_OPENING".to_owned())
        );
        for code in [
            "",
            "hang",
            "internal",
            "COFFER_PANIC",
            "COFFER_ENGINE_LOST",
            "COFFER_FRAME",
            "no such word",
        ] {
            assert!(check("flip-bit-fragment", code).is_err(), "{code}");
            assert!(check("reorder-streams-in", code).is_err(), "{code}");
        }
        assert!(check("replay-an-ended-session", "ran-again").is_err());
        assert_eq!(check("failed-invented", "no such word"), Ok("COFFER_TASK".to_owned()));
        assert!(check("failed-invented", "COFFER_PANIC").is_err());
        assert!(check("truth", "COFFER_FRAME").is_err());
    }

    #[test]
    fn a_task_over_altered_inputs_may_not_be_done() {
        assert!(beside("tampered-twin", Some("done")).is_some());
        assert!(beside("tampered-twin", Some("hang")).is_some());
        assert!(beside("honest-twin", Some("failed")).is_some());
        assert_eq!(beside("tampered-twin", Some("failed")), None);
        assert_eq!(beside("honest-twin", Some("done")), None);
        assert_eq!(beside("flip-bit-in", None), None);
    }
}
