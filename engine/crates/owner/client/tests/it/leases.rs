//! How long engines keep keys: as long as the client site's word reaches, and no longer for
//! anything that a host does.

use crate::harness;

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use bytes::Bytes;
use coffer_protocol::{
    plan::Schema,
    wire::{
        ClientMessage, EndSession, Failed, KeysReleased, NeedKeys, NewSession, Problem, Release,
        ReleaseKeys, Session, SessionEnded, Start, TaskMessage,
    },
};
use harness::{
    Client, Ended, Engine, Output, Site, ir,
    query::{Query, Stage, feed, leaf_stage, reduce_stage},
};
use prost::Message;

const LEASE: Duration = Duration::from_secs(4);
/// Nothing here takes as long.
const DEADLINE: Duration = Duration::from_secs(60);

fn pairs() -> Schema {
    ir::schema(&[("k", ir::long()), ("v", ir::long())])
}

async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait).await.expect(what)
}

async fn leasing() -> (Site, Client, Engine) {
    let site = Site::leasing(LEASE).await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    (site, client, engine)
}

async fn small(client: &mut Client) -> (Query, Stage) {
    let query = Query::begin(client).await;
    let fragment = ir::to_result(
        ir::values(pairs(), vec![vec![ir::int(1), ir::int(2)]]),
        pairs(),
    );
    let stage = query
        .seal(client, leaf_stage(1, &fragment, 1))
        .await
        .unwrap();
    (query, stage)
}

/// A release that no engine has seen.
async fn release(client: &mut Client, session: &Bytes, engine: &Engine) -> Release {
    let request = ReleaseKeys {
        session: session.clone(),
        engine_id: engine.id.clone(),
    };
    let keys: KeysReleased = client
        .ask(ClientMessage::ReleaseKeys, &request)
        .await
        .unwrap();
    keys.release.unwrap()
}

/// What a START is answered with first, by a host that answers nothing itself.
async fn first_answer(engine: &Engine, start: &Start) -> TaskMessage {
    let mut host = engine.again().await;
    host.send(TaskMessage::Start, start).await;
    in_time("START was not answered", host.receive())
        .await
        .unwrap()
        .0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_repeats_what_it_has_does_not_extend_a_lease() {
    let (_site, mut client, engine) = leasing().await;
    let (query, stage) = small(&mut client).await;
    let start = query.start(&stage, 0, &engine);
    let held_back = release(&mut client, &query.session, &engine).await;

    // The whole START again and again: its descriptor opens each time, and the task may run again
    // as long as the session lives.
    let began = Instant::now();
    let mut runs = 0;
    let repeating = async {
        loop {
            // A task that runs, or in the lease's second half one that asks for more time first.
            first_answer(&engine, &start).await;
            runs += 1;
            tokio::time::sleep(LEASE / 20).await;
            // As the engine's own clockwork does, now and then.
            engine.enclave.sessions().expire(Instant::now());
            if engine.enclave.sessions().is_empty() {
                return;
            }
        }
    };
    in_time("the lease goes on", repeating).await;
    assert!(runs > 2, "it lived for a while: {runs}");
    assert!(began.elapsed() < LEASE * 5, "{:?}", began.elapsed());
    assert_eq!(
        first_answer(&engine, &start).await,
        TaskMessage::NeedKeys,
        "its keys are gone"
    );

    // Nor does a release that was made while it ran, and that nobody has delivered yet.
    let late = Start {
        release: Some(held_back),
        ..start.clone()
    };
    assert_eq!(first_answer(&engine, &late).await, TaskMessage::NeedKeys);
    assert!(engine.enclave.sessions().is_empty());

    // The client site's word does.
    let mut asking = engine.again().await;
    in_time("keys", asking.run(&mut client, &start, &HashMap::new()))
        .await
        .done();
}

/// A stage that waits for its input.
async fn waiting(client: &mut Client, engine: &mut Engine) -> (Query, Vec<Output>, Start) {
    let query = Query::begin(client).await;
    let spread = ir::to_round_robin(ir::values(pairs(), vec![]), pairs(), 1);
    let stage = query.seal(client, leaf_stage(1, &spread, 1)).await.unwrap();
    let outputs = query.run(client, engine, &stage, &[]).await;
    query.accept(client, 1, &outputs).await.unwrap();
    let all = ir::to_result(ir::input(pairs()), pairs());
    let release = query.start(&stage, 0, engine).release;
    assert!(release.is_some());
    let stage = query
        .seal(client, reduce_stage(2, &all, 1, 1, 1))
        .await
        .unwrap();
    let start = Start {
        release,
        ..query.start(&stage, 0, engine)
    };
    (query, outputs, start)
}

/// What a host does while a task waits for it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Host {
    Nothing,
    /// The beginning of an answer.
    HalfAMessage,
    /// Answers each NEED with nothing, and each NEED_KEYS with a release that the engine took
    /// before.
    AnOldRelease,
    /// Feeds the input a byte at a time, for ever.
    Drips,
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_host_does_or_leaves_undone_keeps_a_session() {
    tokio::join!(
        waited_for(Host::Nothing),
        waited_for(Host::HalfAMessage),
        waited_for(Host::AnOldRelease),
        waited_for(Host::Drips)
    );
}

async fn waited_for(host: Host) {
    let (_site, mut client, mut engine) = leasing().await;
    let (_query, outputs, start) = waiting(&mut client, &mut engine).await;
    let old = start.release.clone();
    let input = feed(&outputs, 1).remove(0);
    let mut dripped = input.chunks(1).cycle();

    let mut task = engine.again().await;
    task.send(TaskMessage::Start, &start).await;
    let began = Instant::now();
    let ended = async {
        loop {
            let (kind, payload) = task.receive().await?;
            match (kind, host) {
                (TaskMessage::Failed, _) => return Some(Failed::decode(payload).unwrap()),
                (TaskMessage::Need, Host::HalfAMessage) => {
                    task.send_raw(&[200, 0, 0, 0, 9, 0, 0]).await
                }
                (TaskMessage::Need, Host::Drips) => {
                    tokio::time::sleep(LEASE / 10).await;
                    // The stream's own bytes for a while, then no end of preamble.
                    let bytes = dripped.next().unwrap().to_vec();
                    if task.try_answer_input(0, Some(&bytes)).await.is_err() {
                        return None;
                    }
                }
                (TaskMessage::Need, Host::AnOldRelease) => {
                    tokio::time::sleep(LEASE / 10).await;
                    if task.try_answer_input(0, Some(&[])).await.is_err() {
                        return None;
                    }
                }
                (TaskMessage::NeedKeys, Host::AnOldRelease) => {
                    task.send(TaskMessage::Release, old.as_ref().unwrap()).await;
                }
                _ => {}
            }
        }
    };
    let failed = in_time("the task pins its session", ended).await;
    if let Some(failed) = failed {
        assert_eq!(failed.code, "session", "{host:?}");
        assert!(
            failed.sealed_error.is_empty(),
            "nothing is sealed under keys that are gone"
        );
    }
    assert!(
        began.elapsed() < LEASE * 5,
        "{host:?}: {:?}",
        began.elapsed()
    );
    let idle = async {
        while engine.enclave.running() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time("the task goes on", idle).await;
    engine.enclave.sessions().expire(Instant::now() + LEASE);
    assert!(engine.enclave.sessions().is_empty(), "{host:?}");
    assert_eq!(engine.enclave.memory_in_use(), 0, "{host:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_takes_longer_than_its_lease_has_it_renewed() {
    let (_site, mut client, mut engine) = leasing().await;
    let (query, outputs, start) = waiting(&mut client, &mut engine).await;
    let mut task = engine.again().await;
    task.send(TaskMessage::Start, &start).await;
    let until = Instant::now() + LEASE * 5 / 2;
    let (mut left, mut asked) = (feed(&outputs, 1).remove(0), 0);
    let done = async {
        loop {
            let (kind, payload) = task.receive().await.expect("the engine hung up");
            match kind {
                TaskMessage::Need => {
                    // A byte now and then; at last all of it.
                    let step = if Instant::now() < until {
                        1
                    } else {
                        left.len()
                    };
                    tokio::time::sleep(LEASE / 10).await;
                    let rest = left.split_off(step.min(left.len()));
                    let now = std::mem::replace(&mut left, rest);
                    task.answer_input(0, (!now.is_empty()).then_some(&now))
                        .await;
                }
                TaskMessage::NeedKeys => {
                    asked += 1;
                    assert_eq!(NeedKeys::decode(payload).unwrap().session, query.session);
                    let release = release(&mut client, &query.session, &engine).await;
                    task.send(TaskMessage::Release, &release).await;
                }
                TaskMessage::Out => {}
                TaskMessage::Done => return,
                other => panic!("{other:?} came"),
            }
        }
    };
    in_time("the task does not end", done).await;
    assert!(Instant::now() > until);
    assert!(asked >= 2, "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_session_ends_its_tasks() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let (query, _, start) = waiting(&mut client, &mut engine).await;
    let mut task = engine.again().await;
    task.send(TaskMessage::Start, &start).await;
    assert_eq!(
        in_time("NEED", task.receive()).await.unwrap().0,
        TaskMessage::Need
    );
    end(&mut client, &query.session).await.unwrap();
    // Any other query's word brings it.
    let (next, stage) = small(&mut client).await;
    next.run(&mut client, &mut engine, &stage, &[]).await;
    let failed = async {
        loop {
            match task.receive().await.expect("the engine hung up") {
                (TaskMessage::Failed, payload) => return Failed::decode(payload).unwrap(),
                (kind, _) => assert_eq!(kind, TaskMessage::Need),
            }
        }
    };
    assert_eq!(in_time("the task waits on", failed).await.code, "session");
}

async fn end(client: &mut Client, session: &Bytes) -> Result<SessionEnded, Problem> {
    let request = EndSession {
        session: session.clone(),
    };
    client.ask(ClientMessage::EndSession, &request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_never_opens_again_however_many_ended_after_it() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let (long, stage_of_long) = small(&mut client).await;
    let (early, stage) = small(&mut client).await;
    long.run(&mut client, &mut engine, &stage_of_long, &[])
        .await;

    // The host holds back a whole START with a release that the engine has not seen.
    let unused = release(&mut client, &early.session, &engine).await;
    let start = Start {
        release: Some(unused),
        ..early.start(&stage, 0, &engine)
    };
    end(&mut client, &early.session).await.unwrap();
    for _ in 0..200 {
        let session: Session = client
            .ask(ClientMessage::NewSession, &NewSession::default())
            .await
            .unwrap();
        end(&mut client, &session.session).await.unwrap();
    }
    let (last, stage) = small(&mut client).await;
    last.run(&mut client, &mut engine, &stage, &[]).await;

    match in_time(
        "no answer",
        engine.run(&mut client, &start, &HashMap::new()),
    )
    .await
    {
        Ended::Failed(failed) => assert_eq!(failed.code, "session"),
        Ended::Done(_) => panic!("the ended session opened"),
    }
    assert_eq!(engine.enclave.sessions().len(), 2, "those that live");
    // The long one lives on, below all that have ended.
    long.run(&mut client, &mut engine, &stage_of_long, &[])
        .await;
    // And an older word about which sessions live, which the host repeats, takes nothing back.
    match in_time(
        "no answer",
        engine.run(&mut client, &start, &HashMap::new()),
    )
    .await
    {
        Ended::Failed(failed) => assert_eq!(failed.code, "session"),
        Ended::Done(_) => panic!("the ended session opened"),
    }
}
