//! Tasks of a real engine, in process: one connection of the task protocol, with a session whose
//! key the target knows, so that what it sends is authentic. One part is the input; the others are
//! as they should be.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use coffer_engine::{
    connection,
    enclave::{Enclave, Settings},
    task::kind_byte,
};
use coffer_process::{
    address::Address,
    listen::{Listener, ReadHalf, WriteHalf, connect},
};
use coffer_protocol::{
    framing::{put_message, put_raw, read_message},
    plan::{Fragment, Partitioning, Schema, partitioning, sink},
    wire::{
        AttemptList, Bounds, ErrorDetail, Failed, InputTask, Need, ObjectPin, ScanTask,
        SealedObject, Start, TaskDescriptor, TaskMessage, Value, sealed_object::Kind,
    },
};
use coffer_sealing::{
    Attempt, ExecutionId, ObjectKind, Partition, StageId, StreamTarget, identity, seal_message,
    seal_object, sha256, stream::PREAMBLE_LEN, with_execution,
};
use prost::Message;
use tokio::io::AsyncWriteExt;

use super::{cut, encoded, fragment, seed, with};
use crate::{
    Outcome, Seed, Target,
    fixture::{self, SESSION, TABLE_KEY, keks, session_key},
    variant,
};

pub(super) const DESCRIPTOR: Target = Target {
    name: "task_descriptor",
    about: "descriptors in a running engine",
    memory: |input| 4096 * input + (64 << 20),
    smoke: 1_200,
    run: |input| own_fault(task(&descriptor_task(input), &STREAM_OF_ROWS)),
    seeds: descriptor_seeds,
};

pub(super) const OBJECT: Target = Target {
    name: "task_object",
    about: "attempt lists, bounds and subquery values in a running engine",
    memory: |input| 4096 * input + (64 << 20),
    smoke: 1_200,
    run: |input| own_fault(task(&object_task(input), &STREAM_OF_ROWS)),
    seeds: object_seeds,
};

pub(super) const STREAM: Target = Target {
    name: "task_stream",
    about: "the bytes of an input in a running engine",
    memory: |input| 64 * input + (64 << 20),
    smoke: 1_200,
    run: |input| own_fault(task(&reading(attempt_in(input)), input)),
    seeds: stream_seeds,
};

pub(super) const PAYLOAD: Target = Target {
    name: "task_payload",
    about: "authentic frames with any payload, in a running engine",
    // As `codec`, and once more where small batches are put together.
    memory: |input| 3 * coffer_plan::codec::MAX_BODY + 1024 * input,
    smoke: 400,
    run: |input| {
        let stream = stream_of(&[input]);
        own_fault(task(&reading(attempt_in(&stream)), &stream))
    },
    seeds: payload_seeds,
};

/// No input takes so long.
const PATIENCE: Duration = Duration::from_secs(20);
const STAGE: u32 = 4;
const PRODUCER: u32 = 3;
const EXECUTION: ExecutionId = ExecutionId(0);
const BOUNDS_ID: u32 = 5;

static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
});
pub(super) static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(fixture::scratch);

/// A panic of our own code is a finding, although the engine contains it.
pub(super) fn own_fault(outcome: Outcome) -> Outcome {
    assert_ne!(outcome, "COFFER_PANIC", "a task panicked");
    outcome
}

/// Runs a task in a new engine; `input` is what input 0 has.
pub(super) fn task(start: &Start, input: &[u8]) -> Outcome {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = COUNT.fetch_add(1, Ordering::Relaxed);
    let enclave = Enclave::start(&Settings {
        memory: 32 << 20,
        spill_folder: FOLDER.path().join("spill"),
        executors_files: false,
    })
    .unwrap();
    enclave
        .sessions()
        .accept(
            SESSION,
            session_key(),
            &keks(),
            Duration::from_secs(3600),
            Instant::now(),
        )
        .unwrap();
    let address = Address::Unix(FOLDER.path().join(format!("s{name}")));
    RUNTIME.block_on(async {
        let listener = Listener::bind(&address).unwrap();
        let serving = tokio::spawn(connection::accept(Arc::clone(&enclave), listener));
        let (read, write) = connect(&address).await.unwrap();
        let ended = tokio::time::timeout(PATIENCE, converse(read, write, start, input)).await;
        // The task's thread goes when its connection has: what it still holds is this input's.
        let gone = tokio::time::timeout(PATIENCE, async {
            while enclave.running() > 0 {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        });
        gone.await.expect("the task ends with its connection");
        serving.abort();
        let _ = serving.await;
        ended.expect("the engine answers")
    })
}

/// An executor that answers from `input` and sends nothing else.
async fn converse(
    mut read: ReadHalf,
    mut write: WriteHalf,
    start: &Start,
    mut input: &[u8],
) -> Outcome {
    let mut out = Vec::new();
    put_message(&mut out, kind_byte(TaskMessage::Start), start).unwrap();
    write.write_all(&out).await.unwrap();
    loop {
        let Ok(Some(message)) = read_message(&mut read).await else {
            return "Closed".to_owned();
        };
        match TaskMessage::try_from(i32::from(message.kind)) {
            Ok(TaskMessage::Need) => {
                let id = Need::decode(message.payload).unwrap().input_id;
                let (now, rest) = input.split_at(input.len().min(4999));
                input = rest;
                let kind = if now.is_empty() {
                    TaskMessage::InEnd
                } else {
                    TaskMessage::In
                };
                out.clear();
                put_raw(&mut out, kind_byte(kind), &[&id.to_le_bytes(), now]).unwrap();
                if write.write_all(&out).await.is_err() {
                    return "Closed".to_owned();
                }
            }
            Ok(TaskMessage::Out) => {}
            Ok(TaskMessage::Done) => return "ok".to_owned(),
            Ok(TaskMessage::Failed) => return failure(&Failed::decode(message.payload).unwrap()),
            Ok(other) => return variant(&other),
            Err(_) => return "UnknownKind".to_owned(),
        }
    }
}

fn failure(failed: &Failed) -> Outcome {
    let identity = identity::error(SESSION, StageId(STAGE), Partition(0));
    coffer_sealing::open_message(&session_key(), &identity, &failed.sealed_error)
        .ok()
        .and_then(|plain| ErrorDetail::decode(plain.as_slice()).ok())
        .map_or_else(|| failed.code.clone(), |detail| detail.code)
}

// ---- what a task is made of ----

fn result_of_input() -> Fragment {
    fragment::result(fragment::input(0), fragment::schema())
}

/// The attempt that a stream says it is of.
fn attempt_in(stream: &[u8]) -> [u8; 16] {
    stream
        .get(4..20)
        .and_then(|id| id.try_into().ok())
        .unwrap_or([7; 16])
}

/// A stream of map 0 for reduce 0, a frame for each payload.
fn stream_of(payloads: &[&[u8]]) -> Vec<u8> {
    let mut attempt = Attempt::begin(
        &session_key(),
        SESSION,
        EXECUTION,
        StageId(PRODUCER),
        Partition(0),
    )
    .unwrap();
    let mut sealer = attempt.sealer(StreamTarget::Shuffle(0)).unwrap();
    let mut out = Vec::new();
    sealer.preamble(&mut out);
    for payload in payloads {
        sealer.seal(payload, false, &mut out).unwrap();
    }
    sealer.seal(&[], true, &mut out).unwrap();
    out
}

fn payload(rows: i64) -> Vec<u8> {
    let fields = fixture::columns()
        .iter()
        .map(coffer_format::Column::field)
        .collect::<Vec<_>>();
    let mut out = Vec::new();
    let rows = fixture::rows(Arc::new(arrow::datatypes::Schema::new(fields)), rows);
    coffer_plan::codec::encode_batch(&rows, &mut out).unwrap();
    out
}

static STREAM_OF_ROWS: LazyLock<Vec<u8>> =
    LazyLock::new(|| stream_of(&[&payload(20), &payload(3)]));

fn attempts(attempt: [u8; 16]) -> Vec<u8> {
    let list = AttemptList {
        stage: PRODUCER,
        epoch: 1,
        attempts: vec![attempt.to_vec().into()],
    };
    SealedObject {
        kind: Some(Kind::Attempts(list)),
    }
    .encode_to_vec()
}

/// The descriptor of a task that reads all of input 0.
pub(super) fn descriptor(fragment: &Fragment) -> TaskDescriptor {
    TaskDescriptor {
        session: SESSION.as_bytes().to_vec().into(),
        execution: EXECUTION.0,
        stage: STAGE,
        partition: 0,
        partitions: 1,
        fragment_sha256: sha256(&fragment.encode_to_vec()).to_vec().into(),
        inputs: vec![InputTask {
            input_id: 0,
            producer_stage: PRODUCER,
            map_begin: 0,
            map_end: 1,
            reduce_begin: 0,
            reduce_end: 1,
            producer_maps: 1,
            epoch: 1,
            ..InputTask::default()
        }],
        ..TaskDescriptor::default()
    }
}

pub(super) fn start(
    fragment: &Fragment,
    descriptor: &[u8],
    objects: &[(ObjectKind, Vec<u8>)],
) -> Start {
    let key = session_key();
    let stage = StageId(STAGE);
    let sealed = seal_message(
        &key,
        &identity::descriptor(SESSION, EXECUTION, stage, Partition(0)),
        descriptor,
    );
    let fragment = seal_message(
        &key,
        &identity::fragment(SESSION, stage),
        &fragment.encode_to_vec(),
    );
    Start {
        protocol: 1,
        session: SESSION.as_bytes().to_vec().into(),
        sealed_fragment: fragment.unwrap().into(),
        sealed_descriptor: with_execution(EXECUTION, &sealed.unwrap()).into(),
        sealed_objects: objects
            .iter()
            .map(|(kind, plain)| seal_object(&key, SESSION, *kind, plain).unwrap().into())
            .collect(),
        release: None,
        stage: STAGE,
        partition: 0,
    }
}

/// A task that reads a stream of this attempt.
fn reading(attempt: [u8; 16]) -> Start {
    let fragment = result_of_input();
    let descriptor = descriptor(&fragment).encode_to_vec();
    start(
        &fragment,
        &descriptor,
        &[(ObjectKind::Attempts, attempts(attempt))],
    )
}

fn descriptor_task(descriptor: &[u8]) -> Start {
    let list = attempts(attempt_in(&STREAM_OF_ROWS));
    start(
        &result_of_input(),
        descriptor,
        &[(ObjectKind::Attempts, list)],
    )
}

/// The first byte is the object's kind, the rest its plaintext, which the descriptor pins.
fn object_task(input: &[u8]) -> Start {
    let (kind, plain) = input.split_first().unwrap_or((&0, &[]));
    let kind = match kind {
        0 => ObjectKind::Attempts,
        1 => ObjectKind::Bounds,
        _ => ObjectKind::Value,
    };
    let list = attempts(attempt_in(&STREAM_OF_ROWS));
    let mut objects = vec![(kind, plain.to_vec())];
    if kind != ObjectKind::Attempts {
        objects.push((ObjectKind::Attempts, list));
    }
    let range = sink::Kind::Shuffle(Partitioning {
        kind: Some(partitioning::Kind::Range(partitioning::Range {
            keys: vec![fragment::key(0)],
            partitions: 3,
            bounds_id: BOUNDS_ID,
        })),
    });
    let fragment = match kind {
        ObjectKind::Bounds => fragment::fragment(fragment::input(0), range, fragment::schema()),
        _ => result_of_input(),
    };
    let mut descriptor = descriptor(&fragment);
    let id = match SealedObject::decode(plain)
        .ok()
        .and_then(|object| object.kind)
    {
        Some(Kind::Bounds(bounds)) => Some(bounds.id),
        Some(Kind::Value(value)) => Some(value.id),
        _ => None,
    };
    if kind != ObjectKind::Attempts {
        descriptor.objects = vec![ObjectPin {
            id: id.unwrap_or(BOUNDS_ID),
            sha256: sha256(plain).to_vec().into(),
        }];
    }
    start(&fragment, &descriptor.encode_to_vec(), &objects)
}

// ---- seeds ----

fn descriptor_seeds() -> Vec<Seed> {
    let good = descriptor(&result_of_input());
    let changed = |change: &dyn Fn(&mut TaskDescriptor)| encoded(&good, change);
    vec![
        seed("whole", good.encode_to_vec()),
        seed(
            "ends_other_sessions",
            changed(&|d| {
                d.next_session = u64::MAX;
                d.live_sessions = vec![3, SESSION.number()];
            }),
        ),
        seed("no_part_of_the_input", changed(&|d| d.inputs.clear())),
        seed("nothing", []),
        seed("cut", cut(&good.encode_to_vec(), 3)),
        seed(
            "another_session",
            changed(&|d| d.session = vec![9; 16].into()),
        ),
        seed("another_stage", changed(&|d| d.stage = 9)),
        seed("another_partition", changed(&|d| d.partition = 1)),
        seed("no_partitions", changed(&|d| d.partitions = 0)),
        seed(
            "another_fragment",
            changed(&|d| d.fragment_sha256 = vec![9; 32].into()),
        ),
        seed(
            "fragment_digest_short",
            changed(&|d| d.fragment_sha256.truncate(5)),
        ),
        seed(
            "list_older_than_the_descriptor",
            changed(&|d| d.inputs[0].epoch = 2),
        ),
        seed("input_unknown", changed(&|d| d.inputs[0].input_id = 8)),
        seed(
            "input_twice",
            changed(&|d| d.inputs.push(d.inputs[0].clone())),
        ),
        seed(
            "producer_unknown",
            changed(&|d| d.inputs[0].producer_stage = 8),
        ),
        seed(
            "maps_beyond_the_producer",
            changed(&|d| d.inputs[0].map_end = 5),
        ),
        seed(
            "more_maps_than_attempts",
            changed(&|d| d.inputs[0].producer_maps = 5),
        ),
        seed(
            "rectangle_reversed",
            changed(&|d| d.inputs[0].reduce_begin = 3),
        ),
        seed(
            "reduces_huge",
            changed(&|d| d.inputs[0].reduce_end = u32::MAX),
        ),
        seed(
            "scan_unknown",
            changed(&|d| d.scans = vec![ScanTask::default()]),
        ),
        seed(
            "object_missing",
            changed(&|d| {
                d.objects = vec![ObjectPin {
                    id: 1,
                    ..ObjectPin::default()
                }]
            }),
        ),
        seed(
            "object_pinned_twice",
            changed(&|d| d.objects = vec![ObjectPin::default(), ObjectPin::default()]),
        ),
        seed("kek_malformed", changed(&|d| d.keks = vec!["x".to_owned()])),
        seed(
            "kek_not_here",
            changed(&|d| d.keks = vec![format!("{}.7", TABLE_KEY.table())]),
        ),
        seed(
            "write_of_a_result",
            changed(&|d| d.write = Some(coffer_protocol::wire::WriteTask::default())),
        ),
        seed(
            "ends_its_own_session",
            changed(&|d| d.next_session = u64::MAX),
        ),
        seed(
            "lives_before_it_begins",
            changed(&|d| d.live_sessions = vec![SESSION.number()]),
        ),
    ]
}

fn object_seeds() -> Vec<Seed> {
    let object = |kind: u8, of: Kind| {
        [
            &[kind][..],
            &SealedObject { kind: Some(of) }.encode_to_vec(),
        ]
        .concat()
    };
    let row = |value: i64| coffer_protocol::plan::values::Row {
        values: vec![literal(value)],
    };
    let bounds = |rows: Vec<coffer_protocol::plan::values::Row>| Bounds {
        id: BOUNDS_ID,
        schema: Some(Schema {
            fields: vec![fragment::schema().fields[0].clone()],
        }),
        rows,
    };
    let good = bounds(vec![row(5), row(9)]);
    let changed = |change: &dyn Fn(&mut Bounds)| {
        let mut bounds = good.clone();
        change(&mut bounds);
        object(1, Kind::Bounds(bounds))
    };
    let value = Value {
        id: 3,
        literal: Some(literal(7)),
    };
    let list = |attempts: Vec<Vec<u8>>| AttemptList {
        stage: PRODUCER,
        epoch: 1,
        attempts: attempts.into_iter().map(Into::into).collect(),
    };
    vec![
        seed("bounds", object(1, Kind::Bounds(good.clone()))),
        seed("bounds_none", object(1, Kind::Bounds(bounds(vec![])))),
        seed("value", object(2, Kind::Value(value.clone()))),
        seed("nothing", []),
        seed("attempts_empty", [0]),
        seed(
            "attempts_of_another_run",
            object(0, Kind::Attempts(list(vec![vec![9; 16]]))),
        ),
        seed("attempts_too_few", object(0, Kind::Attempts(list(vec![])))),
        seed(
            "attempts_short",
            object(0, Kind::Attempts(list(vec![vec![9; 5]]))),
        ),
        seed("bounds_as_attempts", object(0, Kind::Bounds(good.clone()))),
        seed("value_as_bounds", object(1, Kind::Value(value))),
        seed(
            "bounds_too_many",
            object(1, Kind::Bounds(bounds((0..9).map(row).collect()))),
        ),
        seed(
            "bounds_descending",
            object(1, Kind::Bounds(bounds(vec![row(9), row(5)]))),
        ),
        seed("bounds_without_schema", changed(&|b| b.schema = None)),
        seed(
            "bounds_of_another_type",
            changed(&|b| b.schema = Some(fragment::schema())),
        ),
        seed("bounds_of_another_id", changed(&|b| b.id = 6)),
        seed(
            "value_without_literal",
            object(
                2,
                Kind::Value(Value {
                    id: 3,
                    literal: None,
                }),
            ),
        ),
        seed("garbage", [2, 0xff, 0xff, 0xff]),
    ]
}

fn literal(value: i64) -> coffer_protocol::plan::Literal {
    coffer_protocol::plan::Literal {
        r#type: Some(fragment::kind(coffer_protocol::plan::TypeId::Long)),
        value: Some(coffer_protocol::plan::literal::Value::Int(value)),
    }
}

fn stream_seeds() -> Vec<Seed> {
    let whole = stream_of(&[&payload(20), &payload(3)]);
    let second = stream_of(&[&payload(20)]);
    vec![
        seed("two_batches", whole.clone()),
        seed("no_rows", stream_of(&[])),
        seed("nothing", []),
        seed("cut", cut(&whole, 7)),
        seed("preamble_alone", &whole[..PREAMBLE_LEN]),
        seed("preamble_cut", &whole[..PREAMBLE_LEN - 2]),
        seed("twice", [&whole[..], &whole].concat()),
        seed("and_another_attempt", [&whole[..], &second].concat()),
        seed("another_map", with(&whole, 20, &[1])),
        seed("another_target", with(&whole, 24, &[1])),
        seed(
            "frame_length_huge",
            with(&whole, PREAMBLE_LEN + 12, &[0xff; 4]),
        ),
        seed(
            "frame_length_at_the_limit",
            with(&whole, PREAMBLE_LEN + 12, &[0xf0, 0xff, 0xff, 3]),
        ),
        seed("frame_last_flag_set", with(&whole, PREAMBLE_LEN + 1, &[1])),
        seed(
            "frame_flipped",
            with(&whole, PREAMBLE_LEN + 40, &[whole[PREAMBLE_LEN + 40] ^ 1]),
        ),
    ]
}

fn payload_seeds() -> Vec<Seed> {
    let good = payload(20);
    vec![
        seed("rows", good.clone()),
        seed("nothing", []),
        seed("cut", cut(&good, 9)),
        seed("header_alone", &good[..20]),
        seed("codec_unknown", with(&good, 0, &[7])),
        seed("columns_garbage", with(&good, 20, &[0xff; 40])),
        seed("rows_huge", with(&good, 4, &[0xff, 0xff, 0xff, 0x7f])),
        seed("text_huge", with(&good, 12, &[0, 0, 0, 0x40])),
        seed(
            "packed_text_huge",
            with(&with(&good, 0, &[1]), 12, &[0, 0, 0, 0x40]),
        ),
    ]
}
