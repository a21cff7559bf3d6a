//! Exchanges whose rows stay in the engine: what goes out is checked as ever, and the rows are
//! found in that engine, in that session, and nowhere else.

use crate::harness;

use std::collections::BTreeMap;

use arrow::{array::AsArray, datatypes::Int64Type};
use coffer_protocol::{
    plan::{AggMode, Fragment, Node, Schema},
    wire::{ClientMessage, NewSession, SealStage, Session},
};
use harness::{
    Client, Engine, Output, Site, ir,
    query::{Query, Stage, feed, leaf_stage, reduce_stage},
};

const MEMORY: usize = 64 << 20;
const MAPS: usize = 2;
const TARGETS: u32 = 3;
const ROWS: i64 = 5000;

fn pairs() -> Schema {
    ir::schema(&[("k", ir::long()), ("v", ir::long())])
}

/// Values that do not pack well.
fn value(i: i64) -> i64 {
    i * i * 31 % 1_000_003
}

/// All rows are the first task's. What a client engine seals where all tasks run in one engine.
fn spread(rows: i64) -> SealStage {
    through(&ir::to_hash(all(rows), pairs(), TARGETS))
}

fn all(rows: i64) -> Node {
    let rows = (0..rows)
        .map(|i| vec![ir::int(i % 7), ir::int(value(i))])
        .collect();
    ir::values(pairs(), rows)
}

fn through(fragment: &Fragment) -> SealStage {
    SealStage {
        one_engine: true,
        ..leaf_stage(1, fragment, MAPS)
    }
}

async fn written(
    client: &mut Client,
    engine: &mut Engine,
    query: &Query,
    request: SealStage,
) -> Vec<Output> {
    let stage = query.seal(client, request).await.unwrap();
    let outputs = query.run(client, engine, &stage, &[]).await;
    query.accept(client, 1, &outputs).await.unwrap();
    outputs
}

async fn summing(client: &mut Client, query: &Query) -> Stage {
    let total = ir::to_result(
        ir::sum_by_key(ir::input(pairs()), AggMode::Partial),
        pairs(),
    );
    let request = reduce_stage(2, &total, 1, u32::try_from(MAPS).unwrap(), TARGETS);
    query.seal(client, request).await.unwrap()
}

async fn sums(client: &mut Client, query: &Query, outputs: &[Output]) -> BTreeMap<i64, i64> {
    sums_of(client, query, outputs, 0).await
}

/// By the value of a column, sums of the one behind it.
async fn sums_of(
    client: &mut Client,
    query: &Query,
    outputs: &[Output],
    key: usize,
) -> BTreeMap<i64, i64> {
    let mut sums = BTreeMap::new();
    for batch in client.rows(&query.result(2, outputs, None)).await.unwrap() {
        let (keys, values) = (
            batch.column(key).as_primitive::<Int64Type>().values(),
            batch.column(key + 1).as_primitive::<Int64Type>().values(),
        );
        for (key, value) in keys.iter().zip(values) {
            *sums.entry(*key).or_default() += value;
        }
    }
    sums
}

fn expected(rows: i64) -> BTreeMap<i64, i64> {
    let mut sums = BTreeMap::new();
    for i in 0..rows {
        *sums.entry(i % 7).or_default() += value(i);
    }
    sums
}

fn bytes_out(outputs: &[Output]) -> usize {
    let streams = outputs.iter().flat_map(|output| output.streams.values());
    streams.map(|stream| stream.len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_stay_are_read_as_often_as_they_are_asked_for() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", MEMORY).await;
    engine.admit(&mut client).await.unwrap();
    let query = Query::begin(&mut client).await;
    let outputs = written(&mut client, &mut engine, &query, spread(ROWS)).await;
    assert!(bytes_out(&outputs) < 2000, "no row has left the engine");
    let stage = summing(&mut client, &query).await;
    for _ in 0..2 {
        query
            .run(&mut client, &mut engine, &stage, &feed(&outputs, TARGETS))
            .await;
    }
    // Results are taken of one run of each task.
    let sealed = query
        .run(&mut client, &mut engine, &stage, &feed(&outputs, TARGETS))
        .await;
    assert_eq!(sums(&mut client, &query, &sealed).await, expected(ROWS));
}

/// An exchange with one target, and a broadcast: in memory, and in an engine that has no room for
/// all of the rows.
#[tokio::test(flavor = "multi_thread")]
async fn rows_for_one_target_stay_as_well() {
    let site = Site::open().await;
    let mut client = site.client().await;
    for (name, memory) in [("roomy", MEMORY), ("full", 600 << 10)] {
        let mut engine = site.engine(name, memory).await;
        engine.admit(&mut client).await.unwrap();
        for broadcast in [false, true] {
            let query = Query::begin(&mut client).await;
            let fragment = match broadcast {
                true => ir::to_broadcast(all(3 * ROWS), pairs()),
                false => ir::to_round_robin(all(3 * ROWS), pairs(), 1),
            };
            let outputs = written(&mut client, &mut engine, &query, through(&fragment)).await;
            assert_eq!(
                bytes_out(&outputs) < 1000,
                memory == MEMORY,
                "{name}, broadcast: {broadcast}"
            );
            let (root, output, key) = match broadcast {
                true => {
                    let one = ir::values(pairs(), vec![vec![ir::int(0), ir::int(0)]]);
                    let all = ir::with_broadcast(one, &pairs());
                    (all, ir::twice(&pairs()), 2)
                }
                false => (ir::input(pairs()), pairs(), 0),
            };
            let maps = u32::try_from(MAPS).unwrap();
            let mut request = reduce_stage(2, &ir::to_result(root, output), 1, maps, 1);
            request.inputs[0].broadcast = broadcast;
            let stage = query.seal(&mut client, request).await.unwrap();
            let read = query
                .run(&mut client, &mut engine, &stage, &feed(&outputs, 1))
                .await;
            let sums = sums_of(&mut client, &query, &read, key).await;
            assert_eq!(sums, expected(3 * ROWS), "{name}, broadcast: {broadcast}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_stay_are_in_no_other_engine() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", MEMORY).await;
    engine.admit(&mut client).await.unwrap();
    let query = Query::begin(&mut client).await;
    let outputs = written(&mut client, &mut engine, &query, spread(ROWS)).await;
    let stage = summing(&mut client, &query).await;
    let mut other = site.engine("other", MEMORY).await;
    other.admit(&mut client).await.unwrap();
    let start = query.start(&stage, 0, &other);
    let input = feed(&outputs, TARGETS).remove(0);
    let error = query
        .error_of(&mut client, &mut other, &start, input.clone())
        .await;
    assert_eq!(error.code, "COFFER_ROWS_GONE");
    // A stream of another target is refused by what it says it is, as ever.
    let start = query.start(&stage, 1, &engine);
    let error = query
        .error_of(&mut client, &mut engine, &start, input)
        .await;
    assert_eq!(error.code, "COFFER_STREAM_FOREIGN");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_more_than_its_part_of_memory_travels() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 200 << 10).await;
    engine.admit(&mut client).await.unwrap();
    let query = Query::begin(&mut client).await;
    let outputs = written(&mut client, &mut engine, &query, spread(ROWS)).await;
    assert!(bytes_out(&outputs) > 20_000, "rows have left the engine");
    let stage = summing(&mut client, &query).await;
    let sealed = query
        .run(&mut client, &mut engine, &stage, &feed(&outputs, TARGETS))
        .await;
    assert_eq!(sums(&mut client, &query, &sealed).await, expected(ROWS));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_other_sessions_read_travels() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", MEMORY).await;
    engine.admit(&mut client).await.unwrap();
    let request = NewSession {
        caches: true,
        ..NewSession::default()
    };
    let session: Session = client
        .ask(ClientMessage::NewSession, &request)
        .await
        .unwrap();
    let cache = Query {
        session: session.session,
        execution: 0,
    };
    let outputs = written(&mut client, &mut engine, &cache, spread(ROWS)).await;
    assert!(bytes_out(&outputs) > 20_000);
}
