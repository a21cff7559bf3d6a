//! Attacks of several steps, which no single altered message is: a host that repeats, keeps and
//! waits, over the real client engine and a real engine.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use arrow::{array::AsArray, datatypes::Int64Type};
use coffer_protocol::{
    plan::{DataType, Node, Schema},
    wire::{
        ClientMessage, EndSession, NewSession, Problem, SealStage, SealValue, Session,
        SessionEnded, Start, TaskMessage, ValueSealed,
    },
};
use coffer_proxy::rng::Rng;

use crate::{
    harness::{
        Client, Ended, Engine, Output, Site, ir,
        query::{Query, feed, leaf_stage, reduce_stage},
    },
    users, whole,
};

/// How one went.
#[derive(Debug)]
pub(crate) enum End {
    /// A check refused it.
    Detected(String),
    /// It changed nothing.
    RightRows,
    /// It worked, or ended otherwise than it may.
    Wrong(String),
}

/// Every one, by name.
pub(crate) const NAMES: &[&str] = &[
    "repeat-map-of-sums",
    "repeat-map-of-averages",
    "repeat-map-of-moments",
    "repeat-map-of-a-limit",
    "value-of-another-version",
    "replay-a-session-ended-long-ago",
    "lease-renewed-by-a-start",
    "lease-renewed-by-an-old-release",
    "lease-renewed-by-an-altered-descriptor",
    "lease-held-by-an-unanswered-need",
    "guess-beyond-the-bound",
    "guess-beyond-the-bound-by-reconnecting",
    "write-outside-of-the-roots",
    "whole-query-without-a-stage",
    "whole-query-with-a-stage-twice",
    "whole-query-in-another-order",
    "whole-query-without-a-task",
    "whole-query-with-a-task-twice",
    "whole-query-with-parts-of-another-query",
    "whole-query-with-parts-of-another-stage",
    "whole-query-with-a-bit-flipped",
    "whole-query-of-two-runs",
    "whole-query-result-without-a-partition",
    "whole-query-task-alone",
];

/// What the client engine gives an engine; when it is over is said by the harness, which does not
/// wait for it.
const LEASE: Duration = Duration::from_secs(3600);
/// How long after its driver a host speaks of a session.
const WHILE: Duration = Duration::from_millis(200);
const READERS: u32 = 3;
const LIMIT: u64 = 10;
/// More sessions than any list of those that ended may have had room for.
const MANY: usize = 300;

pub(crate) async fn play(name: &str, rng: &mut Rng) -> End {
    match name {
        "guess-beyond-the-bound" => return users::guess(false).await,
        "guess-beyond-the-bound-by-reconnecting" => return users::guess(true).await,
        "write-outside-of-the-roots" => return users::outside(rng).await,
        name if name.starts_with("whole-query-") => return whole::play(name, rng).await,
        _ => {}
    }
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let mut sites = Sites { client, engine };
    match name {
        "repeat-map-of-sums" => {
            sites
                .repeated(Some(("sum", &[("sum", ir::binary())])), rng)
                .await
        }
        "repeat-map-of-averages" => {
            let buffer = [("sum", ir::binary()), ("count", ir::long())];
            sites.repeated(Some(("avg", &buffer)), rng).await
        }
        "repeat-map-of-moments" => {
            let buffer = [
                ("n", ir::double()),
                ("avg", ir::binary()),
                ("m2", ir::binary()),
            ];
            sites.repeated(Some(("stddev_pop", &buffer)), rng).await
        }
        "repeat-map-of-a-limit" => sites.repeated(None, rng).await,
        "value-of-another-version" => sites.another_version().await,
        "replay-a-session-ended-long-ago" => sites.long_ago().await,
        "lease-renewed-by-a-start" => sites.renewed(By::Start).await,
        "lease-renewed-by-an-old-release" => sites.renewed(By::Release).await,
        "lease-renewed-by-an-altered-descriptor" => sites.renewed(By::Descriptor).await,
        "lease-held-by-an-unanswered-need" => sites.held().await,
        _ => End::Wrong(format!("there is no scenario {name}")),
    }
}

/// With what a host tries to keep a session in an engine.
#[derive(Clone, Copy)]
enum By {
    /// START of that session, with nothing in it that its driver sealed.
    Start,
    /// The release that brought it, again.
    Release,
    /// START with a descriptor that does not open.
    Descriptor,
}

struct Sites {
    client: Client,
    engine: Engine,
}

fn pairs() -> Schema {
    ir::schema(&[("k", ir::long()), ("v", ir::double())])
}

/// Groups, and the values of each: sums of them depend on their order, if they are made as they
/// come. Odd: each of the two maps has every other row of every group.
const GROUPS: i64 = 25;

fn value(row: i64) -> f64 {
    let small = f64::from(i32::try_from(row % 1009).unwrap()) / 7.0;
    match (row / GROUPS) % 3 {
        0 => 1e16 + small,
        1 => small,
        _ => -1e16 - small,
    }
}

/// An aggregate's name and the layout of its buffer.
type Function<'a> = (&'a str, &'a [(&'static str, DataType)]);

impl Sites {
    /// The map of the second stage runs twice, over the same streams in another order, and one
    /// reader of each version of its rows goes on. Groups are placed by what was computed of them:
    /// where that differs, a group is lost, or there twice.
    async fn repeated(&mut self, function: Option<Function<'_>>, rng: &mut Rng) -> End {
        let (client, engine) = (&mut self.client, &mut self.engine);
        let query = Query::begin(client).await;
        let row = |at: i64| vec![ir::int(at % GROUPS), ir::real(value(at))];
        let made = ir::values(pairs(), (0..GROUPS * 60).map(row).collect());
        let spread = ir::to_round_robin(made, pairs(), 2);
        let leaves = query.seal(client, leaf_stage(1, &spread, 1)).await.unwrap();
        let outputs = query.run(client, engine, &leaves, &[]).await;
        query.accept(client, 1, &outputs).await.unwrap();
        // Two maps, each of which has every other row of a group.
        let gathered = ir::to_round_robin(ir::input(pairs()), pairs(), 1);
        let halves = query
            .seal(client, reduce_stage(2, &gathered, 1, 1, 2))
            .await
            .unwrap();
        let outputs = query.run(client, engine, &halves, &feed(&outputs, 2)).await;
        query.accept(client, 2, &outputs).await.unwrap();
        let forth = feed(&outputs, 1);
        let back = outputs
            .iter()
            .flat_map(|output| output.streams[&0].to_vec())
            .collect();

        let fragment = ir::to_hash_by(computed(function), pairs(), 1, READERS);
        let maps = query
            .seal(client, reduce_stage(3, &fragment, 2, 2, 1))
            .await
            .unwrap();
        let first = query.run(client, engine, &maps, &forth).await;
        query.accept(client, 3, &first).await.unwrap();
        let fragment = ir::to_result(ir::input(pairs()), pairs());
        let last = query
            .seal(client, reduce_stage(4, &fragment, 3, 1, READERS))
            .await
            .unwrap();
        let second = query.run(client, engine, &maps, &[back]).await;
        // At least one of each.
        let late = 1 + rng.below(READERS as usize - 1);
        let mut brought: Vec<Output> = Vec::new();
        // The list that counts from then on comes to those that run later.
        let mut list = None;
        for (reader, from) in (0..READERS as usize).map(|reader| (reader, reader >= late)) {
            if from && list.is_none() {
                list = Some(
                    query
                        .accept(client, 3, &second)
                        .await
                        .unwrap()
                        .sealed_attempts,
                );
            }
            let mut start = query.start(&last, reader, engine);
            start.sealed_objects.extend(list.clone());
            let streams = feed(if from { &second } else { &first }, READERS)[reader].clone();
            match engine
                .run(client, &start, &HashMap::from([(0, streams)]))
                .await
            {
                Ended::Done(output) => brought.push(output),
                Ended::Failed(failed) => {
                    return End::Detected(query.opened(client, &start, failed).await.code);
                }
            }
        }
        match client.rows(&query.result(4, &brought, None)).await {
            Err(problem) => End::Detected(problem.code),
            Ok(batches) => {
                let mut keys: Vec<i64> = batches
                    .iter()
                    .flat_map(|batch| {
                        batch
                            .column(0)
                            .as_primitive::<Int64Type>()
                            .values()
                            .to_vec()
                    })
                    .collect();
                keys.sort_unstable();
                match function {
                    // Any rows do, as long as they are so many.
                    None if keys.len() == LIMIT as usize => End::RightRows,
                    Some(_) if keys == (0..GROUPS).collect::<Vec<_>>() => End::RightRows,
                    _ => End::Wrong(format!("rows: the groups {keys:?}")),
                }
            }
        }
    }

    /// A subquery's value came of one version of a map's rows. The host runs the map again, and the
    /// rows that are compared with the value are of the other.
    async fn another_version(&mut self) -> End {
        let (client, engine) = (&mut self.client, &mut self.engine);
        let query = Query::begin(client).await;
        let rows = (0..GROUPS).map(|at| vec![ir::int(at), ir::real(value(at))]);
        let made = ir::to_round_robin(ir::values(pairs(), rows.collect()), pairs(), 1);
        let leaves = query.seal(client, leaf_stage(1, &made, 1)).await.unwrap();
        let outputs = query.run(client, engine, &leaves, &[]).await;
        query.accept(client, 1, &outputs).await.unwrap();
        let fed = feed(&outputs, 1);
        let fragment = ir::to_hash_by(computed(None), pairs(), 1, 1);
        let maps = reduce_stage(2, &fragment, 1, 1, 1);
        let maps = query.seal(client, maps).await.unwrap();
        let first = query.run(client, engine, &maps, &fed).await;
        query.accept(client, 2, &first).await.unwrap();
        let shown = ir::to_result(ir::input(pairs()), pairs());
        let shown = query
            .seal(client, reduce_stage(3, &shown, 2, 1, 1))
            .await
            .unwrap();
        let outputs = query.run(client, engine, &shown, &feed(&first, 1)).await;
        let result = query.result(3, &outputs, None);
        client.rows(&result).await.unwrap();
        let value = SealValue {
            session: query.session.clone(),
            id: 7,
            literal: Some(ir::int(3)),
        };
        let sealed: Result<ValueSealed, Problem> =
            client.ask(ClientMessage::SealValue, &value).await;
        sealed.unwrap();

        let second = query.run(client, engine, &maps, &fed).await;
        query.accept(client, 2, &second).await.unwrap();
        let found = ir::to_result(ir::at_the_value(ir::input(pairs()), 7), pairs());
        let request = SealStage {
            objects: vec![7],
            ..reduce_stage(4, &found, 2, 1, 1)
        };
        let stage = match query.seal(client, request).await {
            Ok(stage) => stage,
            Err(problem) => return End::Detected(problem.code),
        };
        let outputs = query.run(client, engine, &stage, &feed(&second, 1)).await;
        match client.rows(&query.result(4, &outputs, None)).await {
            Err(problem) => End::Detected(problem.code),
            Ok(_) => End::Wrong("rows: of one version, at a value of another".to_owned()),
        }
    }

    /// A task of a session that ended so many sessions ago that no list of ended ones has it any
    /// more.
    async fn long_ago(&mut self) -> End {
        let (client, engine) = (&mut self.client, &mut self.engine);
        let (query, start) = began(client, engine).await;
        let ended: Result<SessionEnded, _> = client
            .ask(
                ClientMessage::EndSession,
                &EndSession {
                    session: query.session,
                },
            )
            .await;
        ended.unwrap();
        for _ in 0..MANY {
            let other: Session = client
                .ask(ClientMessage::NewSession, &NewSession::default())
                .await
                .unwrap();
            let over = EndSession {
                session: other.session,
            };
            let _: SessionEnded = client.ask(ClientMessage::EndSession, &over).await.unwrap();
        }
        // What the engine hears of it comes with the next query.
        began(client, engine).await;
        match engine.run(client, &start, &HashMap::new()).await {
            Ended::Done(_) => End::Wrong("ran-again".to_owned()),
            Ended::Failed(failed) => End::Detected(failed.code),
        }
    }

    /// Nobody but the host has said anything of a session for as long as its lease.
    async fn renewed(&mut self, by: By) -> End {
        let (client, engine) = (&mut self.client, &mut self.engine);
        let (query, start) = began(client, engine).await;
        let heard = Instant::now();
        tokio::time::sleep(WHILE).await;
        let mut host = engine.again().await;
        let sent = match by {
            By::Start => Start {
                protocol: 1,
                session: query.session.clone(),
                ..Start::default()
            },
            By::Release => start.clone(),
            By::Descriptor => {
                let mut descriptor = start.sealed_descriptor.to_vec();
                if let Some(last) = descriptor.last_mut() {
                    *last ^= 1;
                }
                Start {
                    sealed_descriptor: descriptor.into(),
                    ..start.clone()
                }
            }
        };
        if let (By::Release, Some(release)) = (by, &sent.release) {
            host.send(TaskMessage::Release, release).await;
        } else {
            host.send(TaskMessage::Start, &sent).await;
        }
        // Whatever it says to that.
        host.receive().await;
        drop(host);
        self.gone(&start, heard).await
    }

    /// A task of the session waits for an input that its executor never gives it.
    async fn held(&mut self) -> End {
        let (client, engine) = (&mut self.client, &mut self.engine);
        let (query, start) = began(client, engine).await;
        let output = engine.run(client, &start, &HashMap::new()).await.done();
        query.accept(client, 1, &[output]).await.unwrap();
        let fragment = ir::to_result(ir::input(pairs()), pairs());
        let reads = query
            .seal(client, reduce_stage(2, &fragment, 1, 1, 1))
            .await
            .unwrap();
        let mut host = engine.again().await;
        host.send(TaskMessage::Start, &query.start(&reads, 0, engine))
            .await;
        if !matches!(host.receive().await, Some((TaskMessage::Need, _))) {
            return End::Wrong(
                "the engine did not ask for what the host was to hold back".to_owned(),
            );
        }
        // The host keeps the connection open.
        let end = self.gone(&start, Instant::now()).await;
        drop(host);
        end
    }

    /// Once its lease is over the engine has a session's key no more, and asks for it. `heard`:
    /// when its driver was last heard of.
    async fn gone(&mut self, start: &Start, heard: Instant) -> End {
        self.engine
            .enclave
            .sessions()
            .expire(heard + LEASE + WHILE / 2);
        let mut again = self.engine.again().await;
        let start = Start {
            release: None,
            ..start.clone()
        };
        again.send(TaskMessage::Start, &start).await;
        match again.receive().await {
            Some((TaskMessage::NeedKeys, _)) => End::Detected("session".to_owned()),
            other => End::Wrong(format!(
                "the session's key is still there: {:?}",
                other.map(|(kind, _)| kind)
            )),
        }
    }
}

fn computed(function: Option<Function<'_>>) -> Node {
    match function {
        // Of groups in the order of a hash table.
        None => {
            let sums = ir::of_doubles_by_key(ir::input(pairs()), "sum", &[("sum", ir::binary())]);
            ir::limited(sums, LIMIT)
        }
        Some((name, buffer)) => ir::of_doubles_by_key(ir::input(pairs()), name, buffer),
    }
}

/// A new query, of which a task has run: its START.
async fn began(client: &mut Client, engine: &mut Engine) -> (Query, Start) {
    let query = Query::begin(client).await;
    let start = leaf(&query, client, engine).await;
    engine.run(client, &start, &HashMap::new()).await.done();
    (query, start)
}

async fn leaf(query: &Query, client: &mut Client, engine: &Engine) -> Start {
    let made = ir::values(pairs(), vec![vec![ir::int(1), ir::real(1.0)]]);
    let spread = ir::to_round_robin(made, pairs(), 1);
    let stage = query.seal(client, leaf_stage(1, &spread, 1)).await.unwrap();
    query.start(&stage, 0, engine)
}
