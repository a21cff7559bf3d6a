//! `vectors/streams.json`. The session key is 32 times the byte `key`.

use serde::{Deserialize, Serialize};

use super::{Case, attempt, check_vectors, flipped, frame_ranges, key, session};
use crate::{
    Error, ExecutionId, Partition, StageId, StreamIdentity, StreamOpener, StreamPreamble,
    StreamSealer, StreamTarget, frame::FrameHeader, frame::HEADER_LEN, stream::PREAMBLE_LEN,
};

/// Session and attempt are 16 times the byte.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    key: u8,
    session: u8,
    execution: u64,
    stage: u32,
    partition: u32,
    attempt: u8,
    kind: Kind,
    target: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Shuffle,
    Broadcast,
    Result,
    Sample,
}

const HERE: Context = Context {
    key: 1,
    session: 2,
    execution: 7,
    stage: 3,
    partition: 4,
    attempt: 5,
    kind: Kind::Shuffle,
    target: 6,
};
const RESULT: Context = Context {
    kind: Kind::Result,
    target: 0,
    ..HERE
};
const BROADCAST: Context = Context {
    kind: Kind::Broadcast,
    ..RESULT
};
const PLAINS: [&[u8]; 3] = [b"alpha", b"bravo", b""];

impl Context {
    fn identity(&self) -> StreamIdentity {
        StreamIdentity {
            session: session(self.session),
            execution: ExecutionId(self.execution),
            stage: StageId(self.stage),
            partition: Partition(self.partition),
            attempt: attempt(self.attempt),
            target: match self.kind {
                Kind::Shuffle => StreamTarget::Shuffle(self.target),
                Kind::Broadcast => StreamTarget::Broadcast,
                Kind::Result => StreamTarget::Result,
                Kind::Sample => StreamTarget::Sample,
            },
        }
    }

    fn seal(&self, plains: &[&[u8]]) -> Vec<u8> {
        let mut sealer = StreamSealer::new(&key(self.key), self.identity()).unwrap();
        let mut out = Vec::new();
        sealer.preamble(&mut out);
        for (number, plain) in plains.iter().enumerate() {
            sealer
                .seal(plain, number + 1 == plains.len(), &mut out)
                .unwrap();
        }
        out
    }
}

/// As an engine reads: preamble, then frame by frame, then nothing.
fn open(case: &Case<Context>) -> Result<Vec<Vec<u8>>, Error> {
    let bytes = case.bytes();
    let identity = case.context.identity();
    StreamPreamble::parse(&bytes)?.check(&identity)?;
    let mut opener = StreamOpener::new(&key(case.context.key), identity)?;
    let mut plains = Vec::new();
    let mut rest = &bytes[PREAMBLE_LEN..];
    while !rest.is_empty() {
        let length = FrameHeader::parse(rest)?.frame_len()?.min(rest.len());
        let (frame, behind) = rest.split_at(length);
        let opened = opener.open(frame.to_vec())?;
        plains.push(opened.plain().to_vec());
        rest = behind;
    }
    opener.finish()?;
    Ok(plains)
}

/// The stream of another place, with the preamble of [`HERE`]: what a host would try.
fn disguised(context: Context) -> Vec<u8> {
    let mut bytes = context.seal(&PLAINS);
    bytes[..PREAMBLE_LEN].copy_from_slice(&HERE.seal(&PLAINS)[..PREAMBLE_LEN]);
    bytes
}

fn joined(stream: &[u8], frames: &[&[u8]]) -> Vec<u8> {
    [&stream[..PREAMBLE_LEN], &frames.concat()].concat()
}

#[test]
fn streams() {
    let whole = HERE.seal(&PLAINS);
    let ranges = frame_ranges(&whole);
    let [first, second, third] = [0, 1, 2].map(|n| &whole[ranges[n].clone()]);
    let [at_first, at_third] = [ranges[0].start, ranges[2].start];
    let other = HERE.seal(&[b"alpha", b"oscar", b""]);
    let other_attempt = Context { attempt: 9, ..HERE }.seal(&PLAINS);
    let fails = |name: &str, bytes: Vec<u8>, code: &str| Case::fails(name, HERE, &bytes, code);
    let mut cases = vec![
        Case::opens("stream_whole", HERE, &whole, &PLAINS),
        Case::opens(
            "stream_of_one_empty_frame",
            HERE,
            &HERE.seal(&[b""]),
            &[b""],
        ),
        Case::opens("stream_result", RESULT, &RESULT.seal(&PLAINS), &PLAINS),
        Case::opens(
            "shuffle_outlives_its_execution",
            Context {
                execution: 8,
                ..HERE
            },
            &whole,
            &PLAINS,
        ),
        Case::opens(
            "broadcast_outlives_its_execution",
            Context {
                execution: 8,
                ..BROADCAST
            },
            &BROADCAST.seal(&PLAINS),
            &PLAINS,
        ),
        fails(
            "frame_last_flag_flipped",
            flipped(&whole, at_first + 1, 1),
            "unauthentic",
        ),
        fails(
            "frame_last_flag_cleared",
            flipped(&whole, at_third + 1, 1),
            "unauthentic",
        ),
        fails(
            "frame_counter_changed",
            flipped(&whole, at_first + 4, 1),
            "wrong_counter",
        ),
        fails(
            "frame_counter_high_byte_changed",
            flipped(&whole, at_first + 11, 0x80),
            "wrong_counter",
        ),
        fails(
            "frame_ciphertext_flipped",
            flipped(&whole, at_first + HEADER_LEN, 1),
            "unauthentic",
        ),
        fails(
            "frame_tag_flipped",
            flipped(&whole, ranges[0].end - 1, 1),
            "unauthentic",
        ),
        fails(
            "frame_version_unknown",
            flipped(&whole, at_first, 2),
            "unknown_version",
        ),
        fails(
            "frame_unknown_flag_set",
            flipped(&whole, at_first + 1, 2),
            "reserved_bits",
        ),
        fails(
            "frame_reserved_byte_set",
            flipped(&whole, at_first + 3, 1),
            "reserved_bits",
        ),
        fails(
            "frame_length_shorter",
            flipped(&whole, at_first + 12, 1),
            "unauthentic",
        ),
        fails(
            "frame_length_under_a_tag",
            flipped(&whole, at_first + 12, 0x10),
            "bad_length",
        ),
        fails(
            "frame_length_over_the_limit",
            flipped(&whole, at_first + 15, 0x80),
            "bad_length",
        ),
        fails(
            "frame_length_past_the_end",
            flipped(&whole, at_third + 13, 1),
            "truncated",
        ),
        fails(
            "frame_missing_first",
            joined(&whole, &[second, third]),
            "wrong_counter",
        ),
        fails(
            "frame_missing_middle",
            joined(&whole, &[first, third]),
            "wrong_counter",
        ),
        fails(
            "frame_missing_last",
            joined(&whole, &[first, second]),
            "unfinished",
        ),
        fails(
            "frame_repeated",
            joined(&whole, &[first, first, second, third]),
            "wrong_counter",
        ),
        fails(
            "frames_swapped",
            joined(&whole, &[second, first, third]),
            "wrong_counter",
        ),
        fails(
            "frame_after_last",
            joined(&whole, &[first, second, third, third]),
            "frame_after_last",
        ),
        fails("stream_without_frames", joined(&whole, &[]), "unfinished"),
        fails(
            "stream_cut_in_a_frame",
            whole[..whole.len() - 1].to_vec(),
            "truncated",
        ),
        fails(
            "stream_cut_in_a_header",
            whole[..at_third + 5].to_vec(),
            "truncated",
        ),
        fails(
            "stream_cut_in_the_preamble",
            whole[..PREAMBLE_LEN - 1].to_vec(),
            "truncated",
        ),
        fails("stream_empty", Vec::new(), "truncated"),
        fails("preamble_magic_changed", flipped(&whole, 0, 1), "bad_magic"),
        fails(
            "preamble_attempt_changed",
            flipped(&whole, 4, 1),
            "wrong_attempt",
        ),
        fails(
            "preamble_partition_changed",
            flipped(&whole, 20, 1),
            "wrong_partition",
        ),
        fails(
            "preamble_target_changed",
            flipped(&whole, 24, 1),
            "wrong_target",
        ),
        fails(
            "stream_of_other_attempt",
            other_attempt.clone(),
            "wrong_attempt",
        ),
        fails(
            "frame_of_other_attempt",
            joined(&whole, &[first, &other_attempt[ranges[1].clone()], third]),
            "unauthentic",
        ),
        Case::fails(
            "frame_key_other",
            Context { key: 9, ..HERE },
            &whole,
            "unauthentic",
        ),
    ];
    let disguises = [
        (
            "stream_of_other_attempt_disguised",
            Context { attempt: 9, ..HERE },
        ),
        ("stream_of_other_session", Context { session: 9, ..HERE }),
        ("stream_of_other_stage", Context { stage: 9, ..HERE }),
        (
            "stream_of_other_partition",
            Context {
                partition: 9,
                ..HERE
            },
        ),
        ("stream_of_other_target", Context { target: 9, ..HERE }),
    ];
    cases.extend(disguises.map(|(name, context)| fails(name, disguised(context), "unauthentic")));
    let broadcasts = [
        (
            "broadcast_of_other_attempt",
            Context {
                attempt: 9,
                ..BROADCAST
            },
        ),
        (
            "broadcast_of_other_stage",
            Context {
                stage: 9,
                ..BROADCAST
            },
        ),
        (
            "broadcast_of_other_partition",
            Context {
                partition: 9,
                ..BROADCAST
            },
        ),
        (
            "broadcast_from_shuffle",
            Context {
                kind: Kind::Shuffle,
                ..BROADCAST
            },
        ),
        ("broadcast_from_result", RESULT),
    ];
    let disguised_as_broadcast = |context: Context| {
        let mut bytes = context.seal(&PLAINS);
        bytes[..PREAMBLE_LEN].copy_from_slice(&BROADCAST.seal(&PLAINS)[..PREAMBLE_LEN]);
        bytes
    };
    cases.extend(broadcasts.map(|(name, context)| {
        Case::fails(
            name,
            BROADCAST,
            &disguised_as_broadcast(context),
            "unauthentic",
        )
    }));
    let results = [
        (
            "result_of_other_execution",
            Context {
                execution: 8,
                ..RESULT
            },
        ),
        (
            "result_from_broadcast",
            Context {
                kind: Kind::Broadcast,
                ..RESULT
            },
        ),
        (
            "result_from_sample",
            Context {
                kind: Kind::Sample,
                ..RESULT
            },
        ),
        (
            "result_from_shuffle",
            Context {
                kind: Kind::Shuffle,
                ..RESULT
            },
        ),
    ];
    cases.extend(
        results.map(|(name, context)| {
            Case::fails(name, RESULT, &context.seal(&PLAINS), "unauthentic")
        }),
    );
    // Two streams under one key cannot be made outside of tests (see Attempt), but were they made,
    // this would hold:
    assert_ne!(other[ranges[1].clone()], *second);
    check_vectors("streams.json", cases, open);
}
