//! A broadcast is read once for all tasks of an engine, whole or not at all.

use std::{collections::HashMap, time::Duration};

use coffer_protocol::{
    plan::JoinType,
    wire::{Need, Problem, SealStage, StageInput, TaskMessage},
};
use prost::Message;

use super::{LEFT, RIGHT, TOP, pairs, rectangle, rows, task, values, whole};
use crate::harness::{
    Client, Engine, Output, Site, ir,
    query::{Query, Stage, feed, leaf_stage},
};

/// Left rows 0..60 in three reduce partitions of two maps; right rows 20..100 as a broadcast of two
/// maps.
struct Ready {
    site: Site,
    client: Client,
    engine: Engine,
    query: Query,
    right: Stage,
    left_outputs: Vec<Output>,
    right_outputs: Vec<Output>,
    top: Stage,
}

fn broadcast_join() -> SealStage {
    let fragment = ir::to_result(
        ir::join(JoinType::LeftOuter, &pairs(), true),
        ir::twice(&pairs()),
    );
    let tasks = (0..3).map(|reduce| {
        task(vec![
            rectangle(0, 0..2, reduce..reduce + 1),
            rectangle(1, 0..2, 0..1),
        ])
    });
    let broadcast = StageInput {
        broadcast: true,
        ..whole(1, RIGHT, 2, 1)
    };
    SealStage {
        stage: TOP,
        fragment: fragment.encode_to_vec().into(),
        tasks: tasks.collect(),
        inputs: vec![whole(0, LEFT, 2, 3), broadcast],
        ..SealStage::default()
    }
}

async fn ready() -> Ready {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let query = Query::begin(&mut client).await;
    let left = ir::to_round_robin(ir::values(pairs(), rows(0..60)), pairs(), 3);
    let left = query
        .seal(&mut client, leaf_stage(LEFT, &left, 2))
        .await
        .unwrap();
    let left_outputs = query.run(&mut client, &mut engine, &left, &[]).await;
    query
        .accept(&mut client, LEFT, &left_outputs)
        .await
        .unwrap();
    let right = ir::to_broadcast(ir::values(pairs(), rows(20..100)), pairs());
    let right = query
        .seal(&mut client, leaf_stage(RIGHT, &right, 2))
        .await
        .unwrap();
    let right_outputs = query.run(&mut client, &mut engine, &right, &[]).await;
    let accepted = query
        .accept(&mut client, RIGHT, &right_outputs)
        .await
        .unwrap();
    assert_eq!((accepted.epoch, accepted.rows), (1, 80));
    assert_eq!(accepted.rows_by_reduce, [80], "one stream for all readers");
    let top = query.seal(&mut client, broadcast_join()).await.unwrap();
    Ready {
        site,
        client,
        engine,
        query,
        right,
        left_outputs,
        right_outputs,
        top,
    }
}

impl Ready {
    fn probe(&self, partition: usize) -> Vec<u8> {
        feed(&self.left_outputs, 3)[partition].clone()
    }

    fn broadcast(&self) -> Vec<u8> {
        feed(&self.right_outputs, 1)[0].clone()
    }

    fn start(&self, partition: usize) -> coffer_protocol::wire::Start {
        self.query.start(&self.top, partition, &self.engine)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_is_asked_for_once_and_joined_by_every_task() {
    let mut ready = ready().await;
    let mut outputs = Vec::new();
    for partition in 0..3 {
        let mut inputs: HashMap<u32, Vec<u8>> = [(0, ready.probe(partition))].into();
        if partition == 0 {
            // The other tasks would find no such input at their executor.
            inputs.insert(1, ready.broadcast());
        }
        let start = ready.start(partition);
        let ended = ready.engine.run(&mut ready.client, &start, &inputs).await;
        outputs.push(ended.done());
    }
    let batches = ready
        .client
        .rows(&ready.query.result(TOP, &outputs, None))
        .await
        .unwrap();
    let expected: Vec<_> = (0..60)
        .map(|k| (Some(k * 10), (k >= 20).then_some(k * 10)))
        .collect();
    assert_eq!(values(&batches), expected);

    // It goes with the session, and so does its memory.
    assert!(ready.engine.enclave.memory_in_use() > 0);
    let session = coffer_sealing::SessionId::from_slice(&ready.query.session).unwrap();
    ready.engine.enclave.sessions().end([session]);
    for _ in 0..3000 {
        if ready.engine.enclave.memory_in_use() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ready.engine.enclave.memory_in_use(), 0);
}

/// Starts a task that reads the broadcast, up to the point where it asks for it.
async fn begin_reading(ready: &Ready, partition: usize) -> Engine {
    let mut reader = ready.engine.again().await;
    reader
        .send(TaskMessage::Start, &ready.start(partition))
        .await;
    let (kind, payload) = reader.receive().await.unwrap();
    assert_eq!(kind, TaskMessage::Need);
    assert_eq!(Need::decode(payload).unwrap().input_id, 1);
    reader
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_reading_task_is_cancelled_one_that_waits_reads_itself() {
    let mut ready = ready().await;
    let reader = begin_reading(&ready, 0).await;
    let mut waiting = ready.engine.again().await;
    waiting.send(TaskMessage::Start, &ready.start(1)).await;
    let early = tokio::time::timeout(Duration::from_millis(200), waiting.receive()).await;
    assert!(
        early.is_err(),
        "it asks for nothing while another task reads"
    );
    drop(reader);
    let (kind, payload) = waiting.receive().await.unwrap();
    assert_eq!(kind, TaskMessage::Need);
    assert_eq!(Need::decode(payload).unwrap().input_id, 1);
    drop(waiting);
    // And a third one, when that is gone too.
    let inputs: HashMap<u32, Vec<u8>> = [(0, ready.probe(2)), (1, ready.broadcast())].into();
    let start = ready.start(2);
    ready
        .engine
        .run(&mut ready.client, &start, &inputs)
        .await
        .done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_that_is_not_exactly_the_accepted_one_is_refused_and_not_kept() {
    let mut ready = ready().await;
    let again = ready
        .query
        .run(&mut ready.client, &mut ready.engine, &ready.right, &[])
        .await;
    let [one, two] = [0, 1].map(|map| ready.right_outputs[map].streams[&0].to_vec());
    let whole = [one.clone(), two.clone()].concat();
    let mut flipped = whole.clone();
    flipped[60] ^= 1;
    let mut disguised = again[0].streams[&0].to_vec();
    disguised[4..20].copy_from_slice(&one[4..20]);
    let mut shuffled = ready.left_outputs[0].streams[&0].to_vec();
    let undisguised = shuffled.clone();
    shuffled[4..20].copy_from_slice(&one[4..20]);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing comes", vec![], "COFFER_STREAM_MISSING"),
        (
            "a map's stream is dropped",
            one.clone(),
            "COFFER_STREAM_MISSING",
        ),
        (
            "an empty stream is dropped",
            two.clone(),
            "COFFER_STREAM_MISSING",
        ),
        (
            "a stream comes twice",
            [&whole[..], &one].concat(),
            "COFFER_STREAM_REPEATED",
        ),
        (
            "cut in a frame",
            whole[..whole.len() - 1].to_vec(),
            "COFFER_STREAM_CUT",
        ),
        ("a bit flipped", flipped, "COFFER_FRAME_TAG"),
        (
            "another run of the same map",
            [&again[0].streams[&0][..], &two].concat(),
            "COFFER_STREAM_ATTEMPT",
        ),
        (
            "another run under the accepted one's name",
            [disguised, two.clone()].concat(),
            "COFFER_FRAME_TAG",
        ),
        (
            "a shuffle's stream",
            [undisguised, two.clone()].concat(),
            "COFFER_STREAM_ATTEMPT",
        ),
        (
            "a shuffle's stream under the broadcast's name",
            [shuffled, two.clone()].concat(),
            "COFFER_FRAME_TAG",
        ),
        (
            "another target",
            [&ready.left_outputs[0].streams[&1][..], &whole].concat(),
            "COFFER_STREAM_FOREIGN",
        ),
        (
            "bytes after the end",
            [&whole[..], &[0]].concat(),
            "COFFER_STREAM_LENGTH",
        ),
    ];
    for (name, broadcast, code) in cases {
        let inputs: HashMap<u32, Vec<u8>> = [(0, ready.probe(0)), (1, broadcast)].into();
        let start = ready.start(0);
        let failed = ready
            .engine
            .run(&mut ready.client, &start, &inputs)
            .await
            .failed();
        let error = ready.query.opened(&mut ready.client, &start, failed).await;
        assert_eq!(error.code, code, "{name}: {error:?}");
        assert!(!error.retryable, "{name}");
    }
    // Nothing of that was kept: the true bytes, in any order, still do.
    let inputs: HashMap<u32, Vec<u8>> = [(0, ready.probe(0)), (1, [two, one].concat())].into();
    let start = ready.start(0);
    ready
        .engine
        .run(&mut ready.client, &start, &inputs)
        .await
        .done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_execution_reads_the_broadcast_of_an_earlier_one() {
    let mut ready = ready().await;
    ready.query.execution += 1;
    let top = ready
        .query
        .seal(&mut ready.client, broadcast_join())
        .await
        .unwrap();
    let start = ready.query.start(&top, 1, &ready.engine);
    let inputs: HashMap<u32, Vec<u8>> = [(0, ready.probe(1)), (1, ready.broadcast())].into();
    ready
        .engine
        .run(&mut ready.client, &start, &inputs)
        .await
        .done();
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_runs_out_while_reading_or_building_is_said_and_tried_again() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let query = Query::begin(&mut client).await;
    let left = ir::to_round_robin(ir::values(pairs(), rows(0..60)), pairs(), 3);
    let left = query
        .seal(&mut client, leaf_stage(LEFT, &left, 2))
        .await
        .unwrap();
    let left = query.run(&mut client, &mut engine, &left, &[]).await;
    query.accept(&mut client, LEFT, &left).await.unwrap();
    let many = ir::multiplied(9, ir::values(pairs(), rows(0..2000)), pairs(), 20);
    let right = ir::to_broadcast(many, pairs());
    let right = query
        .seal(&mut client, leaf_stage(RIGHT, &right, 2))
        .await
        .unwrap();
    let right = query.run(&mut client, &mut engine, &right, &[]).await;
    query.accept(&mut client, RIGHT, &right).await.unwrap();
    let top = query.seal(&mut client, broadcast_join()).await.unwrap();
    let inputs: HashMap<u32, Vec<u8>> = [
        (0, feed(&left, 3)[0].clone()),
        (1, feed(&right, 1)[0].clone()),
    ]
    .into();
    // The rows take 640 kB: they do not fit; they fit, but what is built of them does not.
    for (name, memory) in [("reading", 300_000), ("building", 1_380_000)] {
        let mut small = site.engine(name, memory).await;
        small.admit(&mut client).await.unwrap();
        for _ in 0..2 {
            let start = query.start(&top, 0, &small);
            let failed = small.run(&mut client, &start, &inputs).await.failed();
            let error = query.opened(&mut client, &start, failed).await;
            assert_eq!(
                (error.code.as_str(), error.retryable),
                ("COFFER_MEMORY", true),
                "{name}: {error:?}"
            );
            assert!(
                error.message.contains("spark.coffer.engine.memory"),
                "{error:?}"
            );
            assert_eq!(
                small.enclave.memory_in_use(),
                0,
                "{name}: nothing is kept that nobody uses"
            );
        }
    }
    let start = query.start(&top, 0, &engine);
    engine.run(&mut client, &start, &inputs).await.done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_is_accepted_once_and_read_as_what_it_is() {
    let mut ready = ready().await;
    let again = ready
        .query
        .run(&mut ready.client, &mut ready.engine, &ready.right, &[])
        .await;
    let same = ready
        .query
        .accept(&mut ready.client, RIGHT, &ready.right_outputs)
        .await;
    assert_eq!(same.unwrap().epoch, 1);
    let other = ready
        .query
        .accept(&mut ready.client, RIGHT, &again)
        .await
        .unwrap_err();
    assert_eq!(other.code, "broadcast_taken");

    let sealed = |change: fn(&mut SealStage)| {
        let mut request = broadcast_join();
        request.stage = 9;
        change(&mut request);
        request
    };
    let cases: Vec<(&str, SealStage, &str)> = vec![
        (
            "said to be a shuffle",
            sealed(|r| r.inputs[1].broadcast = false),
            "stage",
        ),
        (
            "a shuffle said to be a broadcast",
            sealed(|r| r.inputs[0].broadcast = true),
            "stage",
        ),
        ("in a group", sealed(|r| r.inputs[1].group = 1), "coverage"),
        (
            "below a product",
            sealed(|r| r.inputs[1].side = 1),
            "coverage",
        ),
        (
            "a task does without",
            sealed(|r| {
                r.tasks[2].rectangles.pop();
            }),
            "coverage",
        ),
        (
            "a task reads a part",
            sealed(|r| r.tasks[2].rectangles[1].map_end = 1),
            "coverage",
        ),
    ];
    for (name, request, code) in cases {
        let refused: Problem = match ready.query.seal(&mut ready.client, request).await {
            Err(problem) => problem,
            Ok(_) => panic!("{name}: it was sealed"),
        };
        assert_eq!(refused.code, code, "{name}: {refused:?}");
    }
}
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_at_the_same_time_share_one_reading_and_one_build() {
    let ready = ready().await;
    let mut running = Vec::new();
    // Every executor could give the broadcast; one is asked, whichever it is.
    for round in 0..4 {
        for partition in 0..3 {
            let mut engine = ready.engine.again().await;
            let mut client = ready.site.client().await;
            let start = ready.start(partition);
            let inputs: HashMap<u32, Vec<u8>> =
                [(0, ready.probe(partition)), (1, ready.broadcast())].into();
            running.push(tokio::spawn(async move {
                let output = engine.run(&mut client, &start, &inputs).await.done();
                (round, output)
            }));
        }
    }
    let broadcast = ready.broadcast().len();
    let mut asked = 0;
    let mut rounds: Vec<Vec<Output>> = vec![vec![]; 4];
    for task in running {
        let (round, output): (usize, Output) = task.await.unwrap();
        let came = output.done.counters.as_ref().unwrap().bytes_in;
        asked += usize::from(came > broadcast as u64);
        rounds[round].push(output);
    }
    assert_eq!(
        asked, 1,
        "the broadcast is larger than what a task reads beside it"
    );
    let mut client = ready.client;
    let batches = client
        .rows(&ready.query.result(TOP, &rounds[0], None))
        .await
        .unwrap();
    let expected: Vec<_> = (0..60)
        .map(|k| (Some(k * 10), (k >= 20).then_some(k * 10)))
        .collect();
    assert_eq!(values(&batches), expected);
}
