//! A stream of sealed frames, read as an engine's input or the client engine's result is.

use coffer_sealing::{
    Attempt, Error, ExecutionId, OpenedStream, Partition, StageId, StreamIdentity, StreamReader,
    StreamTarget, stream::PREAMBLE_LEN,
};

use super::{cut, seed, with};
use crate::{
    Outcome, Seed, Target,
    fixture::{SESSION, session_key},
    outcome,
};

pub(super) const TARGET: Target = Target {
    name: "frames",
    about: "preamble, frame headers, opening of frames",
    memory: |input| 2 * input + (64 << 10),
    smoke: 20_000,
    run,
    seeds,
};

const STAGE: StageId = StageId(3);
const PARTITION: Partition = Partition(5);
const REDUCE: StreamTarget = StreamTarget::Shuffle(2);

fn run(input: &[u8]) -> Outcome {
    outcome(read(input))
}

fn read(input: &[u8]) -> Result<u64, Error> {
    let mut hint = StreamReader::new();
    hint.push(input.get(..PREAMBLE_LEN).unwrap_or(input));
    let short = Error::Truncated {
        need: PREAMBLE_LEN,
        got: input.len(),
    };
    let identity = StreamIdentity {
        session: SESSION,
        execution: ExecutionId(0),
        stage: STAGE,
        partition: PARTITION,
        // As if the list of attempts named it: a foreign one does not open.
        attempt: hint.preamble()?.ok_or(short)?.attempt,
        target: REDUCE,
    };
    let mut frames = OpenedStream::new(&session_key(), identity, input.into())?;
    while frames.next_frame()?.is_some() {}
    Ok(frames.frames())
}

/// A stream of these plaintexts.
fn stream(target: StreamTarget, plains: &[&[u8]], ends: bool) -> Vec<u8> {
    let mut attempt =
        Attempt::begin(&session_key(), SESSION, ExecutionId(0), STAGE, PARTITION).unwrap();
    let mut sealer = attempt.sealer(target).unwrap();
    let mut out = Vec::new();
    sealer.preamble(&mut out);
    for (position, plain) in plains.iter().enumerate() {
        sealer
            .seal(plain, ends && position + 1 == plains.len(), &mut out)
            .unwrap();
    }
    out
}

fn seeds() -> Vec<Seed> {
    let whole = stream(REDUCE, &[b"first", b"second", b""], true);
    // Preamble 28, first frame 16 + 5 + 16, second frame 16 + 6 + 16.
    let (first, second) = (28, 28 + 37);
    let swapped = [
        &whole[..first],
        &whole[second..second + 38],
        &whole[first..second],
        &whole[second + 38..],
    ]
    .concat();
    let repeated = [&whole[..second], &whole[first..]].concat();
    let dropped = [&whole[..first], &whole[second..]].concat();
    vec![
        seed("three_frames", whole.clone()),
        seed("one_empty_frame", stream(REDUCE, &[b""], true)),
        seed("large_frame", stream(REDUCE, &[&[0; 9000]], true)),
        seed("nothing", []),
        seed("preamble_alone", &whole[..first]),
        seed("preamble_cut", &whole[..27]),
        seed("magic_of_another_format", with(&whole, 0, b"CFM1")),
        seed("another_partition", with(&whole, 20, &[6])),
        seed("another_target", with(&whole, 24, &[3])),
        seed("another_attempt", with(&whole, 4, &[whole[4] ^ 1])),
        seed(
            "target_of_a_result",
            stream(StreamTarget::Result, &[b"x"], true),
        ),
        seed("frame_version_unknown", with(&whole, first, &[2])),
        seed("frame_flags_reserved", with(&whole, first + 1, &[2])),
        seed("frame_last_flag_set", with(&whole, first + 1, &[1])),
        seed("frame_counter_skipped", with(&whole, first + 4, &[1])),
        seed("frame_counter_huge", with(&whole, first + 4, &[0xff; 8])),
        seed("frame_length_zero", with(&whole, first + 12, &[0; 4])),
        seed(
            "frame_length_over_the_limit",
            with(&whole, first + 12, &[0xff; 4]),
        ),
        seed(
            "frame_length_beyond_the_end",
            with(&whole, first + 12, &[0, 0, 1, 0]),
        ),
        seed(
            "frame_ciphertext_flipped",
            with(&whole, first + 16, &[whole[first + 16] ^ 0x80]),
        ),
        seed(
            "frame_tag_flipped",
            with(&whole, second - 1, &[whole[second - 1] ^ 1]),
        ),
        seed("frames_swapped", swapped),
        seed("frame_repeated", repeated),
        seed("frame_dropped", dropped),
        seed("stream_cut_in_a_frame", cut(&whole, 5)),
        seed("stream_cut_between_frames", &whole[..second]),
        seed("bytes_after_the_last_frame", [&whole[..], &[0]].concat()),
        seed("never_ends", stream(REDUCE, &[b"first"], false)),
    ]
}
