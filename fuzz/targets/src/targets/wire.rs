//! Framing and protobuf messages of both socket protocols, and of what travels sealed.
//!
//! The first byte says which: 0 the task protocol, 1 the client protocol, else a sealed content of
//! that number.

use coffer_protocol::{framing, plan, wire};
use futures::executor::block_on;
use prost::Message as _;

use super::{cut, seed, with};
use crate::{Outcome, Seed, Target, variant};

pub(super) const TARGET: Target = Target {
    name: "wire",
    about: "framing, every protobuf message of both protocols and of sealed contents",
    // An empty element of two bytes becomes a struct; the buffers of a list double.
    memory: |input| 512 * input + (4 << 20),
    smoke: 30_000,
    run,
    seeds,
};

fn run(input: &[u8]) -> Outcome {
    let Some((which, rest)) = input.split_first() else {
        return "Nothing".to_owned();
    };
    match which {
        0 => conversation(rest, framing::MAX_MESSAGE, task_message),
        1 => conversation(rest, (1 << 31) - 1, client_message),
        2 => decoded::<wire::TaskDescriptor>(rest),
        3 => decoded::<wire::CommitRecord>(rest),
        4 => decoded::<wire::TaskMetrics>(rest),
        5 => decoded::<wire::ErrorDetail>(rest),
        6 => decoded::<wire::SealedObject>(rest),
        7 => decoded::<plan::Fragment>(rest),
        _ => decoded::<wire::EngineEvidence>(rest),
    }
}

fn conversation(mut bytes: &[u8], limit: usize, decode: fn(u8, &[u8]) -> Outcome) -> Outcome {
    loop {
        match block_on(framing::read_message_up_to(&mut bytes, limit)) {
            Ok(None) => return "ok".to_owned(),
            Ok(Some(message)) => match decode(message.kind, &message.payload).as_str() {
                "ok" => {}
                other => return other.to_owned(),
            },
            Err(error) => return variant(&error),
        }
    }
}

fn decoded<M: prost::Message + Default>(bytes: &[u8]) -> Outcome {
    M::decode(bytes).map_or_else(|_| "Malformed".to_owned(), |_| "ok".to_owned())
}

fn task_message(kind: u8, payload: &[u8]) -> Outcome {
    use wire::TaskMessage as Kind;
    match Kind::try_from(i32::from(kind)) {
        Ok(Kind::Attest) => decoded::<wire::Attest>(payload),
        Ok(Kind::Evidence) => decoded::<wire::EngineEvidence>(payload),
        Ok(Kind::Refused) => decoded::<wire::Refused>(payload),
        Ok(Kind::Release) => decoded::<wire::Release>(payload),
        Ok(Kind::Released) => decoded::<wire::Released>(payload),
        Ok(Kind::Start) => decoded::<wire::Start>(payload),
        Ok(Kind::RunQuery) => decoded::<wire::RunQuery>(payload),
        Ok(Kind::QueryDone) => decoded::<wire::QueryDone>(payload),
        Ok(Kind::NeedKeys) => decoded::<wire::NeedKeys>(payload),
        Ok(Kind::Need) => decoded::<wire::Need>(payload),
        Ok(Kind::Done) => decoded::<wire::Done>(payload),
        Ok(Kind::Failed) => decoded::<wire::Failed>(payload),
        Ok(Kind::In | Kind::InEnd | Kind::Out) => "ok".to_owned(),
        Ok(Kind::Storage) => decoded::<coffer_protocol::port::StorageRequest>(payload),
        Ok(Kind::Stored) => decoded::<coffer_protocol::port::StorageAnswer>(payload),
        Ok(Kind::Unspecified) | Err(_) => "UnknownKind".to_owned(),
    }
}

fn client_message(kind: u8, payload: &[u8]) -> Outcome {
    use wire::ClientMessage as Kind;
    match Kind::try_from(i32::from(kind)) {
        Ok(Kind::Hello) => decoded::<wire::Hello>(payload),
        Ok(Kind::OpenTable) => decoded::<wire::OpenTable>(payload),
        Ok(Kind::NewSession) => decoded::<wire::NewSession>(payload),
        Ok(Kind::AdmitEngine) => decoded::<wire::AdmitEngine>(payload),
        Ok(Kind::SealStage) => decoded::<wire::SealStage>(payload),
        Ok(Kind::SealQuery) => decoded::<wire::SealQuery>(payload),
        Ok(Kind::ReleaseKeys) => decoded::<wire::ReleaseKeys>(payload),
        Ok(Kind::ReadCache) => decoded::<wire::ReadCache>(payload),
        Ok(Kind::AcceptCommits) => decoded::<wire::AcceptCommits>(payload),
        Ok(Kind::OpenResult) => decoded::<wire::OpenResult>(payload),
        Ok(Kind::PickBounds) => decoded::<wire::PickBounds>(payload),
        Ok(Kind::SealValue) => decoded::<wire::SealValue>(payload),
        Ok(Kind::OpenError) => decoded::<wire::OpenError>(payload),
        Ok(Kind::OpenMetrics) => decoded::<wire::OpenMetrics>(payload),
        Ok(Kind::EndSession) => decoded::<wire::EndSession>(payload),
        Ok(Kind::NewChallenge) => decoded::<wire::NewChallenge>(payload),
        Ok(Kind::BeginWrite) => decoded::<wire::BeginWrite>(payload),
        Ok(Kind::PublishWrite) => decoded::<wire::PublishWrite>(payload),
        Ok(Kind::AbortWrite) => decoded::<wire::AbortWrite>(payload),
        Ok(Kind::DropTable) => decoded::<wire::DropTable>(payload),
        Ok(Kind::CheckPlain) => decoded::<wire::CheckPlain>(payload),
        Ok(Kind::CheckSettings) => decoded::<wire::CheckSettings>(payload),
        Ok(Kind::CheckRead) => decoded::<wire::CheckRead>(payload),
        Ok(Kind::DescribeFragment) => decoded::<wire::DescribeFragment>(payload),
        Ok(Kind::Unspecified) | Err(_) => "UnknownKind".to_owned(),
        // What the client engine answers.
        Ok(_) => "ok".to_owned(),
    }
}

fn seeds() -> Vec<Seed> {
    let task = |kind: wire::TaskMessage, message: Vec<u8>| framed(0, i32::from(kind), &message);
    let client = |kind: wire::ClientMessage, message: Vec<u8>| framed(1, i32::from(kind), &message);
    let start = wire::Start {
        protocol: 1,
        session: vec![1; 16].into(),
        sealed_fragment: vec![2; 40].into(),
        sealed_descriptor: vec![3; 40].into(),
        sealed_objects: vec![vec![4; 20].into(); 3],
        release: Some(wire::Release {
            encapsulated: vec![5; 32].into(),
            sequence: 7,
            ciphertext: vec![6; 50].into(),
        }),
        stage: 1,
        partition: 2,
    };
    let start = task(wire::TaskMessage::Start, start.encode_to_vec());
    let attest = wire::Attest {
        protocol: 1,
        owner_key: vec![9; 32].into(),
        challenge: vec![8; 32].into(),
        application: "application_1".to_owned(),
    };
    let attest = task(wire::TaskMessage::Attest, attest.encode_to_vec());
    let stage = wire::SealStage {
        session: vec![1; 16].into(),
        stage: 3,
        fragment: vec![1, 2, 3].into(),
        tasks: vec![wire::TaskSpec {
            rectangles: vec![wire::task_spec::Rectangle {
                map_end: 2,
                reduce_end: 4,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let stage = client(wire::ClientMessage::SealStage, stage.encode_to_vec());
    let descriptor = wire::TaskDescriptor {
        session: vec![1; 16].into(),
        partitions: 2,
        inputs: vec![wire::InputTask {
            producer_maps: 3,
            ..Default::default()
        }],
        keks: vec!["x.footer".to_owned()],
        ..Default::default()
    };
    let commit = wire::CommitRecord {
        attempt: vec![3; 16].into(),
        streams: vec![wire::StreamCount::default(); 4],
        files: vec![wire::WrittenFile {
            path: "part-1.parquet".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let alone = |which: u8, message: &[u8]| [&[which][..], message].concat();
    // Expr { call { args: Expr { … } } }: each level a message in a message.
    let nested =
        |levels: usize| (0..levels).fold(vec![], |inner, _| lengthened(3, &lengthened(2, &inner)));
    vec![
        seed("start", start.clone()),
        seed("attest", attest.clone()),
        seed("two_messages", [&start[..], &attest[1..]].concat()),
        seed(
            "input",
            framed(0, wire::TaskMessage::In.into(), &[0, 0, 0, 0, 1, 2, 3]),
        ),
        seed("seal_stage", stage.clone()),
        seed("descriptor", alone(2, &descriptor.encode_to_vec())),
        seed("commit", alone(3, &commit.encode_to_vec())),
        seed("nothing", []),
        seed("length_zero", [0, 0, 0, 0, 0]),
        seed("length_without_type", [0, 9, 0, 0]),
        seed("length_over_the_limit", [0, 1, 0, 0, 4]),
        seed("length_at_the_limit", [0, 0, 0, 0, 4, 6]),
        seed("length_beyond_the_end", [0, 0xff, 0xff, 0, 0, 6, 1]),
        seed("client_length_over_the_limit", [1, 0xff, 0xff, 0xff, 0xff]),
        seed(
            "client_length_at_the_limit",
            [1, 0xff, 0xff, 0xff, 0x7f, 10],
        ),
        seed("type_unknown", framed(0, 99, b"")),
        seed("client_type_unknown", framed(1, 59, b"")),
        seed("start_cut", cut(&start, 3)),
        seed("start_field_beyond_the_end", with(&start, 9, &[0xff, 0x7f])),
        seed("string_not_utf8", alone(2, &[0x5a, 1, 0xff])),
        seed(
            "varint_too_long",
            alone(2, &[[0x18].as_slice(), &[0xff; 11]].concat()),
        ),
        seed("wire_type_unknown", alone(2, &[0x0f])),
        seed("field_number_zero", alone(2, &[0x02, 0])),
        seed(
            "nested_deep",
            alone(7, &lengthened(2, &lengthened(3, &nested(200)))),
        ),
        seed("group_never_ends", alone(7, &[0x0b; 300])),
        seed(
            "list_of_empty_messages",
            alone(7, &lengthened(4, &[0x0a, 0].repeat(2000))),
        ),
    ]
}

fn framed(which: u8, kind: i32, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![which];
    framing::put_raw(&mut out, u8::try_from(kind).unwrap(), &[payload]).unwrap();
    out
}

/// A length-delimited field of this number.
fn lengthened(field: u8, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![field << 3 | 2];
    prost::encode_length_delimiter(inner.len(), &mut out).unwrap();
    out.extend_from_slice(inner);
    out
}
