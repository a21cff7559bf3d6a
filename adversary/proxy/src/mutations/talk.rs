//! Mutations in the conversation itself: messages out of turn, of no meaning, or of a length that
//! they do not have.

use coffer_protocol::wire::{Attest, Start, TaskMessage};
use prost::Message as _;

use super::Mutation;
use crate::{
    rng::Rng,
    wire::{Message, byte},
};

/// The longest message that the protocol has.
const LONGEST: u32 = 64 << 20;

pub(super) const MUTATIONS: &[(&str, Mutation)] = &[
    (
        "answer-another-input",
        Mutation::Midway(|asked, rng| {
            let other = asked.wrapping_add(1 + u32::from(rng.bits().to_le_bytes()[0] % 3));
            let sent = sent(input(TaskMessage::In, other, b"not yours").bytes());
            (sent, format!("IN of input {other} where {asked} was due"))
        }),
    ),
    (
        "answer-unasked",
        Mutation::Midway(|asked, _| {
            let more = input(TaskMessage::InEnd, asked, b"").bytes();
            (
                Sent {
                    then_answer: true,
                    ..sent([more.clone(), more].concat())
                },
                "two IN_END before the answer".to_owned(),
            )
        }),
    ),
    (
        "answer-after-the-end",
        Mutation::Midway(|asked, _| {
            let end = input(TaskMessage::InEnd, asked, b"").bytes();
            (
                Sent {
                    then_answer: true,
                    ..sent(end)
                },
                "IN_END, then the input".to_owned(),
            )
        }),
    ),
    (
        "early-end",
        Mutation::Midway(|asked, _| {
            let end = input(TaskMessage::InEnd, asked, b"").bytes();
            (sent(end), "IN_END in place of the input".to_owned())
        }),
    ),
    (
        "answer-too-short",
        Mutation::Midway(|_, rng| {
            let count = rng.below(4);
            let short = Message::of(TaskMessage::In, rng.bytes(count)).bytes();
            (sent(short), format!("IN of {count} bytes"))
        }),
    ),
    (
        "garbage-midway",
        Mutation::Midway(|_, rng| {
            let bytes = garbage(rng);
            (sent(bytes), "a message of random bytes".to_owned())
        }),
    ),
    (
        "hostile-length-midway",
        Mutation::Midway(|_, rng| {
            let length = hostile_length(rng);
            // One that is allowed would be waited for.
            let sent = Sent {
                close: length == LONGEST,
                ..sent(length.to_le_bytes().to_vec())
            };
            (sent, format!("a length of {length}"))
        }),
    ),
    (
        "attest-midway",
        Mutation::Midway(|_, rng| {
            let attest = Attest {
                protocol: 1,
                owner_key: rng.bytes(32).into(),
                challenge: rng.bytes(32).into(),
                application: "another".to_owned(),
            };
            (
                sent(Message::of(TaskMessage::Attest, attest.encode_to_vec()).bytes()),
                "ATTEST in a task".to_owned(),
            )
        }),
    ),
    (
        "start-midway",
        Mutation::Midway(|_, _| {
            let start = Message::of(TaskMessage::Start, Start::default().encode_to_vec()).bytes();
            (sent(start), "START in a task".to_owned())
        }),
    ),
    (
        "close-midway",
        Mutation::Midway(|_, rng| {
            let close = Sent {
                close: true,
                ..sent(Vec::new())
            };
            let half = Sent {
                close: true,
                ..sent(vec![100, 0, 0, 0, byte(TaskMessage::In), 1, 2])
            };
            if rng.coin() {
                (close, "closed".to_owned())
            } else {
                (half, "closed within a message".to_owned())
            }
        }),
    ),
    (
        "garbage-before-start",
        Mutation::Before(|_, rng| {
            Some((sent(garbage(rng)), "a message of random bytes".to_owned()))
        }),
    ),
    (
        "replay-start-before-start",
        Mutation::Before(|past, rng| {
            let tasks = past.tasks(|_| true);
            let start = rng.pick(&tasks)?.start.encode_to_vec();
            Some((
                sent(Message::of(TaskMessage::Start, start).bytes()),
                "an earlier START before START".to_owned(),
            ))
        }),
    ),
    (
        "garbage-beside",
        Mutation::Beside(|_, rng| {
            let count = 1 + rng.below(4);
            let bytes: Vec<u8> = (0..count).flat_map(|_| garbage(rng)).collect();
            (bytes, format!("{count} messages of random bytes"))
        }),
    ),
    (
        "broken-start-beside",
        Mutation::Beside(|start, rng| {
            let mut bytes = start.encode_to_vec();
            let count = 1 + rng.below(8);
            for _ in 0..count {
                let at = rng.below(bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.bits().to_le_bytes()[0];
                }
            }
            (
                Message::of(TaskMessage::Start, bytes).bytes(),
                format!("START with {count} bytes made up"),
            )
        }),
    ),
    (
        "hostile-length-beside",
        Mutation::Beside(|_, rng| {
            let length = hostile_length(rng);
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.extend(rng.bytes(64));
            (bytes, format!("a length of {length} and 64 bytes"))
        }),
    ),
    (
        "half-a-message-beside",
        Mutation::Beside(|start, rng| {
            let mut bytes = Message::of(TaskMessage::Start, start.encode_to_vec()).bytes();
            let keep = 1 + rng.below(bytes.len().saturating_sub(1));
            bytes.truncate(keep);
            (bytes, format!("the first {keep} bytes of a START"))
        }),
    ),
];

/// What is said out of turn.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    /// Bytes for the engine.
    pub bytes: Vec<u8>,
    /// Whether what was due follows.
    pub then_answer: bool,
    /// Whether the connection is closed after it.
    pub close: bool,
}

fn sent(bytes: Vec<u8>) -> Sent {
    Sent {
        bytes,
        ..Sent::default()
    }
}

fn input(kind: TaskMessage, id: u32, bytes: &[u8]) -> Message {
    Message::of(kind, [&id.to_le_bytes(), bytes].concat())
}

/// A message of any type, in random bytes: no protobuf, or one by chance.
fn garbage(rng: &mut Rng) -> Vec<u8> {
    let kind = match rng.below(3) {
        0 => rng.bits().to_le_bytes()[0],
        _ => u8::try_from(rng.below(14)).unwrap_or(0),
    };
    let count = rng.below(200);
    let payload = rng.bytes(count);
    Message { kind, payload }.bytes()
}

fn hostile_length(rng: &mut Rng) -> u32 {
    match rng.below(4) {
        0 => 0,
        1 => LONGEST + 1,
        2 => u32::MAX,
        _ => LONGEST,
    }
}
