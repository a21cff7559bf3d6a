//! Cached rows: what one session has written and another one reads, and blocks of other caches in
//! their place.

use crate::harness;

use coffer_protocol::{
    plan::Schema,
    wire::{ClientMessage, CommitsAccepted, NewSession, Problem, ReadCache, Session},
};
use harness::{
    Client, Engine, Output, Site, ir,
    query::{Query, feed, leaf_stage, reduce_stage},
};

/// Of a stream: where it says what it is, in clear.
const PREAMBLE: usize = coffer_sealing::stream::PREAMBLE_LEN;

fn pairs() -> Schema {
    ir::schema(&[("k", ir::long()), ("v", ir::long())])
}

/// A session of which others read what it writes.
async fn caching(client: &mut Client) -> Query {
    let request = NewSession {
        caches: true,
        ..NewSession::default()
    };
    let session: Session = client
        .ask(ClientMessage::NewSession, &request)
        .await
        .unwrap();
    Query {
        session: session.session,
        execution: 0,
    }
}

/// Fills a cache by two tasks; what each of them wrote.
async fn filled(client: &mut Client, engine: &mut Engine, cache: &Query) -> Vec<Output> {
    let rows = (0..9).map(|i| vec![ir::int(i), ir::int(i)]).collect();
    let fragment = ir::to_round_robin(ir::values(pairs(), rows), pairs(), 1);
    let stage = cache
        .seal(client, leaf_stage(1, &fragment, 2))
        .await
        .unwrap();
    let outputs = cache.run(client, engine, &stage, &[]).await;
    cache.accept(client, 1, &outputs).await.unwrap();
    outputs
}

async fn read(
    client: &mut Client,
    query: &Query,
    stage: u32,
    cache: &Query,
) -> Result<CommitsAccepted, Problem> {
    let request = ReadCache {
        session: query.session.clone(),
        stage,
        cache_session: cache.session.clone(),
        cache_stage: 1,
    };
    client.ask(ClientMessage::ReadCache, &request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_has_cached_others_read_and_nothing_in_its_place() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let (cache, other) = (caching(&mut client).await, caching(&mut client).await);
    let outputs = filled(&mut client, &mut engine, &cache).await;
    let others = filled(&mut client, &mut engine, &other).await;
    let before = caching(&mut client).await;
    let stale = filled(&mut client, &mut engine, &before).await;

    let query = Query::begin(&mut client).await;
    let accepted = read(&mut client, &query, 5, &cache).await.unwrap();
    assert_eq!(accepted.epoch, 1);
    let again = read(&mut client, &query, 5, &cache).await.unwrap();
    assert_eq!(again.sealed_attempts, accepted.sealed_attempts);
    let fragment = ir::to_result(ir::input(pairs()), pairs());
    let stage = query
        .seal(&mut client, reduce_stage(6, &fragment, 5, 2, 1))
        .await
        .unwrap();

    // An engine that comes later is given the cache's key with the query's.
    let mut late = site.engine("late", 64 << 20).await;
    late.admit(&mut client).await.unwrap();
    for (engine, name) in [(&mut engine, "first"), (&mut late, "late")] {
        let start = query.start(&stage, 0, engine);
        for wrong in [&others, &stale] {
            let input = feed(wrong, 1).remove(0);
            let error = query
                .error_of(&mut client, engine, &start, input.clone())
                .await;
            assert_eq!(error.code, "COFFER_STREAM_ATTEMPT", "{name}");
            // Under the names of those that are expected.
            let relabelled: Vec<u8> = outputs
                .iter()
                .zip(wrong)
                .flat_map(|(own, wrong)| {
                    [&own.streams[&0][..PREAMBLE], &wrong.streams[&0][PREAMBLE..]].concat()
                })
                .collect();
            let error = query
                .error_of(&mut client, engine, &start, relabelled)
                .await;
            assert_eq!(error.code, "COFFER_FRAME_TAG", "{name}");
        }
    }
    let done = query
        .run(&mut client, &mut engine, &stage, &feed(&outputs, 1))
        .await;
    let request = query.result(6, &done, None);
    let batches = client.rows(&request).await.unwrap();
    let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    // Rows that come with a fragment are of its first task alone.
    assert_eq!(rows, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_session_has_cached_is_not_read() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let cache = caching(&mut client).await;
    let query = Query::begin(&mut client).await;
    let code = |answer: Result<CommitsAccepted, Problem>| answer.unwrap_err().code;
    // Nothing is there yet; then of a session that caches nothing; then its own.
    assert_eq!(
        code(read(&mut client, &query, 5, &cache).await),
        "cache_unknown"
    );
    filled(&mut client, &mut engine, &query).await;
    let reader = Query::begin(&mut client).await;
    assert_eq!(
        code(read(&mut client, &reader, 5, &query).await),
        "cache_unknown"
    );
    filled(&mut client, &mut engine, &cache).await;
    assert_eq!(
        code(read(&mut client, &cache, 5, &cache).await),
        "cache_unknown"
    );
    read(&mut client, &query, 5, &cache).await.unwrap();
    // The number stands for the one cache, and for no other.
    let other = caching(&mut client).await;
    filled(&mut client, &mut engine, &other).await;
    assert_eq!(
        code(read(&mut client, &query, 5, &other).await),
        "stage_taken"
    );
}
