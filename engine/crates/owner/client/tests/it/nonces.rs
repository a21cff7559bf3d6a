//! No key seals twice with one nonce: the streams of shuffles, broadcasts, samples and results, the
//! records that come with them, and fragments, descriptors, lists of attempts and bounds, as real
//! engines and a real client engine sealed them over retries, speculation, AQE's other cuts of a
//! shuffle, repeated runs, a restarted engine and a restarted driver. Not looked at: errors,
//! subquery values, key releases and spill.
//!
//! A key is HKDF of the session's key over a label and an identity whose parts are length-prefixed,
//! so two things share a key only if session, label and identity are the same; and a stream's nonce
//! is its frame's counter, a message's 0. The test is given the session's key as an engine is,
//! opens each stream under the identity that it claims, and notes (identity, counter).

use crate::harness;

use std::collections::{HashMap, HashSet};

use bytes::BytesMut;
use coffer_protocol::{
    Challenge, OwnerPublicKey, SealedRelease,
    plan::{AggMode, DataType, Schema, TypeId},
    wire::{
        AdmitEngine, Admitted, BoundsPicked, Challenge as Drawn, ClientMessage, KeysReleased,
        NewChallenge, PickBounds, ReleaseKeys, SealStage, TaskSpec, task_spec::Rectangle,
    },
};
use coffer_release::{EngineKey, ReleaseReceiver, Simulated};
use coffer_sealing::{
    ExecutionId, OpenedStream, SessionId, SessionKey, StageId, StreamIdentity, StreamPreamble,
    StreamTarget,
};
use harness::{
    APPLICATION, Client, Engine, Output, Site, ir,
    query::{Query, Stage, feed, leaf_stage, reduce_stage, results},
};
use prost::Message;

const MAPS: u32 = 2;
const REDUCES: u32 = 3;

fn pairs() -> Schema {
    ir::schema(&[("k", ir::long()), ("v", ir::long())])
}

/// What was sealed, by key and nonce.
#[derive(Default)]
struct Sealed {
    frames: HashSet<(StreamIdentity, u64)>,
    /// By purpose, session and message id: what its key is derived from, and more.
    messages: HashMap<(&'static str, SessionId, [u8; 16]), Vec<u8>>,
}

impl Sealed {
    /// Notes all that one run of a task sealed.
    fn task(
        &mut self,
        key: &SessionKey,
        query: &Query,
        stage: u32,
        target: fn(u32) -> StreamTarget,
        run: &Output,
    ) {
        let session = SessionId::from_slice(&query.session).unwrap();
        for (number, stream) in &run.streams {
            let preamble = StreamPreamble::parse(stream).unwrap();
            assert_eq!(preamble.target, *number);
            let identity = StreamIdentity {
                session,
                execution: ExecutionId(query.execution),
                stage: StageId(stage),
                partition: preamble.partition,
                attempt: preamble.attempt,
                target: target(*number),
            };
            let mut frames = OpenedStream::new(key, identity, BytesMut::from(&stream[..])).unwrap();
            while let Some(frame) = frames.next_frame().unwrap() {
                let counter = frame.counter();
                assert!(
                    self.frames.insert((identity, counter)),
                    "{identity:?}, frame {counter}"
                );
            }
        }
        self.message("commit", session, &run.done.sealed_commit, 0);
        self.message("metrics", session, &run.done.sealed_metrics, 0);
    }

    fn stage(&mut self, query: &Query, stage: &Stage) {
        let session = SessionId::from_slice(&query.session).unwrap();
        self.message("fragment", session, &stage.sealed.sealed_fragment, 0);
        for descriptor in &stage.sealed.sealed_descriptors {
            self.message("descriptor", session, descriptor, 8);
        }
        for object in &stage.sealed.sealed_objects {
            self.message("object", session, object, 1);
        }
    }

    /// The same bytes may be handed out again; other bytes under one key may not.
    fn message(&mut self, purpose: &'static str, session: SessionId, sealed: &[u8], before: usize) {
        let id: [u8; 16] = sealed[before + 4..before + 20].try_into().unwrap();
        let held = self
            .messages
            .entry((purpose, session, id))
            .or_insert_with(|| sealed.to_vec());
        assert_eq!(held, sealed, "{purpose}: two messages under one key");
    }
}

/// Whom the client engine takes for an engine, and releases a session's key to.
struct Spy {
    receiver: ReleaseReceiver,
}

impl Spy {
    async fn admitted(client: &mut Client) -> Self {
        let welcome = client.hello(false).await.unwrap();
        let drawn: Drawn = client
            .ask(ClientMessage::NewChallenge, &NewChallenge {})
            .await
            .unwrap();
        let mut receiver =
            ReleaseReceiver::new(EngineKey::generate().unwrap(), vec![Box::new(Simulated)]);
        let owner = OwnerPublicKey(welcome.owner_key.as_ref().try_into().unwrap());
        let challenge = Challenge::from_slice(&drawn.challenge).unwrap();
        let evidence = receiver.attest(1, owner, &challenge, APPLICATION).unwrap();
        let admit = AdmitEngine {
            evidence: evidence.to_wire().encode_to_vec().into(),
            challenge: drawn.challenge,
        };
        let _: Admitted = client
            .ask(ClientMessage::AdmitEngine, &admit)
            .await
            .unwrap();
        Self { receiver }
    }

    async fn key(&mut self, client: &mut Client, query: &Query) -> SessionKey {
        let ask = ReleaseKeys {
            session: query.session.clone(),
            engine_id: self.receiver.engine_id(),
        };
        let released: KeysReleased = client.ask(ClientMessage::ReleaseKeys, &ask).await.unwrap();
        let release = released.release.unwrap();
        let sealed = SealedRelease {
            encapsulated: release.encapsulated.as_ref().try_into().unwrap(),
            sequence: release.sequence,
            ciphertext: release.ciphertext.to_vec(),
        };
        self.receiver.open(&sealed).unwrap().session_key
    }
}

/// As AQE coalesces: one task for all reduce partitions.
fn coalesced(stage: u32) -> SealStage {
    let all = ir::to_result(
        ir::sum_by_key(ir::input(pairs()), AggMode::Complete),
        pairs(),
    );
    let mut request = reduce_stage(stage, &all, 1, MAPS, REDUCES);
    request.tasks = vec![TaskSpec {
        rectangles: vec![Rectangle {
            input_id: 0,
            map_begin: 0,
            map_end: MAPS,
            reduce_begin: 0,
            reduce_end: REDUCES,
        }],
        ..TaskSpec::default()
    }];
    request
}

/// Runs a stage without inputs on one engine, on the other, and on the first again. Gives the last
/// run's outputs.
async fn repeated(
    query: &Query,
    client: &mut Client,
    engines: [&mut Engine; 2],
    stage: &Stage,
    key: &SessionKey,
    target: fn(u32) -> StreamTarget,
    sealed: &mut Sealed,
) -> Vec<Output> {
    let [first, second] = engines;
    sealed.stage(query, stage);
    let mut last = Vec::new();
    for at_first in [true, false, true] {
        let engine = if at_first { &mut *first } else { &mut *second };
        last = query.run(client, engine, stage, &[]).await;
        for run in &last {
            sealed.task(key, query, stage.number, target, run);
        }
    }
    last
}

/// A broadcast, and a range exchange over sampled bounds.
async fn broadcast_and_range(
    query: &Query,
    client: &mut Client,
    first: &mut Engine,
    second: &mut Engine,
    key: &SessionKey,
    sealed: &mut Sealed,
) {
    let session = SessionId::from_slice(&query.session).unwrap();
    let source = || {
        let rows = (0..60)
            .map(|i| vec![ir::int((i * 7919) % 60), ir::int(i)])
            .collect();
        ir::values(pairs(), rows)
    };
    let request = leaf_stage(11, &ir::to_broadcast(source(), pairs()), 2);
    let stage = query.seal(client, request).await.unwrap();
    let target: fn(u32) -> StreamTarget = |_| StreamTarget::Broadcast;
    let outputs = repeated(query, client, [first, second], &stage, key, target, sealed).await;
    let accepted = query.accept(client, 11, &outputs).await.unwrap();
    sealed.message("object", session, &accepted.sealed_attempts, 1);

    let request = leaf_stage(12, &ir::to_sample(source(), pairs()), 1);
    let stage = query.seal(client, request).await.unwrap();
    let target: fn(u32) -> StreamTarget = |_| StreamTarget::Sample;
    let samples = repeated(query, client, [first, second], &stage, key, target, sealed).await;
    let weight = DataType {
        id: TypeId::Double.into(),
        ..DataType::default()
    };
    let pick = PickBounds {
        session: query.session.clone(),
        execution: query.execution,
        stage: 12,
        bounds_id: 40,
        partitions: 4,
        sampled_partitions: 1,
        samples: results(&samples),
        keys: vec![ir::ascending(0)],
        schema: Some(ir::schema(&[("key0", ir::long()), ("weight", weight)])),
    };
    let _: BoundsPicked = client.ask(ClientMessage::PickBounds, &pick).await.unwrap();
    let mut request = leaf_stage(13, &ir::to_range(source(), pairs(), 4, 40), 1);
    request.objects = vec![40];
    let stage = query.seal(client, request).await.unwrap();
    assert_eq!(stage.sealed.sealed_objects.len(), 1);
    repeated(
        query,
        client,
        [first, second],
        &stage,
        key,
        StreamTarget::Shuffle,
        sealed,
    )
    .await;
}

/// A query with every kind of repetition that Spark knows, over two engines; the second takes over
/// in the middle.
async fn query(
    site: &Site,
    client: &mut Client,
    first: &mut Engine,
    second: &mut Engine,
    spy: &mut Spy,
    sealed: &mut Sealed,
) {
    let mut query = Query::begin(client).await;
    let key = spy.key(client, &query).await;
    let rows = (0..40).map(|i| vec![ir::int(i % 7), ir::int(i)]).collect();
    let spread = ir::to_hash(ir::values(pairs(), rows), pairs(), REDUCES);
    let maps = query
        .seal(client, leaf_stage(1, &spread, MAPS as usize))
        .await
        .unwrap();
    sealed.stage(&query, &maps);

    // Each map runs; then again on the same engine (a retry), and on both engines at once
    // (speculation).
    let outputs = query.run(client, first, &maps, &[]).await;
    let again = query.run(client, first, &maps, &[]).await;
    let mut other_client = site.client().await;
    let (at_first, at_second) = tokio::join!(
        query.run(client, first, &maps, &[]),
        query.run(&mut other_client, second, &maps, &[])
    );
    for run in outputs
        .iter()
        .chain(&again)
        .chain(&at_first)
        .chain(&at_second)
    {
        sealed.task(&key, &query, 1, StreamTarget::Shuffle, run);
    }
    let accepted = query.accept(client, 1, &outputs).await.unwrap();
    let session = SessionId::from_slice(&query.session).unwrap();
    sealed.message("object", session, &accepted.sealed_attempts, 1);
    // Lost shuffle files: another run's outputs count from now on.
    let accepted = query.accept(client, 1, &at_second).await.unwrap();
    sealed.message("object", session, &accepted.sealed_attempts, 1);

    broadcast_and_range(&query, client, first, second, &key, sealed).await;

    // The shuffle is read in two cuts, each twice, and once more in another execution of the plan.
    let sums = ir::to_result(
        ir::sum_by_key(ir::input(pairs()), AggMode::Complete),
        pairs(),
    );
    for execution in [query.execution, query.execution + 1] {
        query.execution = execution;
        let reduce = query
            .seal(client, reduce_stage(2, &sums, 1, MAPS, REDUCES))
            .await
            .unwrap();
        let whole = query.seal(client, coalesced(3)).await.unwrap();
        let fed = feed(&at_second, REDUCES);
        for (stage, inputs) in [(&reduce, fed.clone()), (&whole, vec![fed.concat()])] {
            sealed.stage(&query, stage);
            for at_first in [true, false, true] {
                let engine = if at_first { &mut *first } else { &mut *second };
                for run in query.run(client, engine, stage, &inputs).await {
                    sealed.task(&key, &query, stage.number, |_| StreamTarget::Result, &run);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_and_nonce_come_twice() {
    let mut sealed = Sealed::default();
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut spy = Spy::admitted(&mut client).await;
    let mut first = site.engine("first", 64 << 20).await;
    let mut second = site.engine("second", 64 << 20).await;
    first.admit(&mut client).await.unwrap();
    second.admit(&mut client).await.unwrap();
    query(
        &site,
        &mut client,
        &mut first,
        &mut second,
        &mut spy,
        &mut sealed,
    )
    .await;
    // A second query of the application.
    query(
        &site,
        &mut client,
        &mut second,
        &mut first,
        &mut spy,
        &mut sealed,
    )
    .await;
    // An engine that was lost and started again.
    drop(second);
    let mut third = site.engine("third", 64 << 20).await;
    third.admit(&mut client).await.unwrap();
    query(
        &site,
        &mut client,
        &mut first,
        &mut third,
        &mut spy,
        &mut sealed,
    )
    .await;
    let (frames, messages) = (sealed.frames.len(), sealed.messages.len());

    // A driver that was started again: engines serve the same owner, the application is another run
    // of the same name.
    let site = site.restarted().await;
    let mut client = site.client().await;
    let mut spy = Spy::admitted(&mut client).await;
    first.admit(&mut client).await.unwrap();
    third.admit(&mut client).await.unwrap();
    query(
        &site,
        &mut client,
        &mut first,
        &mut third,
        &mut spy,
        &mut sealed,
    )
    .await;
    assert!(
        frames >= 150 && sealed.frames.len() > frames,
        "{frames} frames were looked at"
    );
    assert!(
        messages >= 150 && sealed.messages.len() > messages,
        "{messages} messages were looked at"
    );
}
