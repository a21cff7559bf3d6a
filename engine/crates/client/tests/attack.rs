//! The lying host below Spark: the real client engine and real enclaves, and between them a small executor whose connection goes through
//! the saboteur. Every lie of the saboteur's, many times over: each run ends in an error that names a check, or in the right rows.
//!
//! `COFFER_ATTACK_RUNS`: how many applied lies (default 300), `COFFER_ATTACK_SEED`, and `COFFER_ATTACK_JSON`: where the counts go.

mod harness;

use std::{
    collections::{BTreeMap, HashMap},
    env,
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::Int64Type,
    ipc::reader::StreamReader,
};
use bytes::Bytes;
use coffer_engine::{
    connection,
    enclave::{Enclave, Settings},
    listen::Listener,
};
use coffer_proto::{
    plan::{AggMode, JoinType, Schema},
    wire::{
        AcceptCommits, AdmitEngine, Admitted, Attest, Challenge, ClientMessage, CommitsAccepted, Done, EndSession,
        EngineEvidence, ErrorOpened, Failed, Hello, KeysReleased, Need, NeedKeys, NewChallenge, NewSession, OpenError,
        OpenResult, Problem, Refused, Release, ReleaseKeys, SealStage, SealedStage, Session, SessionEnded, StageInput,
        Start, TaskMessage, TaskResult, TaskSpec, Welcome, task_spec::Rectangle,
    },
};
use coffer_saboteur::{
    hands::{Hands, Told},
    lies::{self, Lie},
    past::{End, Outcome},
    relay::{Relay, again},
    rng::Rng,
    wire::{Message, read, write},
};
use harness::{APPLICATION, Site, ir, query::leaf_stage};
use prost::Message as _;

/// Past this a run counts as hung.
const HANGS: Duration = Duration::from_secs(20);
/// Tries of a lie in a row without a place to tell it.
const TRIES: u64 = 60;
const HOSTS: usize = 2;

/// What a run ended with: rows, or the code of the check that refused them.
type Ended<T> = Result<T, String>;
type Rows = Vec<(Option<i64>, Option<i64>)>;

#[test]
fn every_lie_is_detected_or_harmless() {
    let runs: usize = variable("COFFER_ATTACK_RUNS", 300);
    let seed: u64 = variable("COFFER_ATTACK_SEED", 20_261_121);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let site = runtime.block_on(Site::open());
    let applied = AtomicUsize::new(0);
    let counts = thread::scope(|scope| {
        let hosts: Vec<_> = (0..HOSTS)
            .map(|number| {
                let (site, runtime, applied) = (&site, &runtime, &applied);
                scope.spawn(move || campaign(&Place { site, runtime, number }, runs, seed, applied))
            })
            .collect();
        let mut all: BTreeMap<&'static str, Count> = BTreeMap::new();
        for host in hosts {
            for (name, count) in host.join().unwrap() {
                all.entry(name).or_default().add(count);
            }
        }
        all
    });
    if let Some(path) = env::var_os("COFFER_ATTACK_JSON") {
        let counts: serde_json::Map<_, _> = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), count.json()))
            .collect();
        std::fs::write(
            PathBuf::from(path),
            serde_json::json!({ "mutations": counts, "seed": seed }).to_string(),
        )
        .unwrap();
    }
    let findings: Vec<&String> = counts.values().flat_map(|count| &count.findings).collect();
    assert!(findings.is_empty(), "{findings:#?}");
    let idle: Vec<_> = counts
        .iter()
        .filter(|(_, count)| count.applied == 0)
        .map(|(name, _)| *name)
        .collect();
    assert!(idle.is_empty(), "never told: {idle:?}");
}

fn variable<T: std::str::FromStr>(name: &str, or: T) -> T {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

#[derive(Default)]
struct Count {
    tried: u64,
    applied: u64,
    detected: u64,
    right_rows: u64,
    seconds: f64,
    checks: BTreeMap<String, u64>,
    findings: Vec<String>,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.tried += other.tried;
        self.applied += other.applied;
        self.detected += other.detected;
        self.right_rows += other.right_rows;
        self.seconds += other.seconds;
        for (code, count) in other.checks {
            *self.checks.entry(code).or_default() += count;
        }
        self.findings.extend(other.findings);
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "tried": self.tried, "applied": self.applied, "detected": self.detected, "right_rows": self.right_rows,
            "wrong": self.findings.len(), "seconds": self.seconds, "checks": self.checks, "findings": self.findings,
        })
    }
}

/// Where a host works: its trusted site, and a name of its own.
struct Place<'a> {
    site: &'a Site,
    runtime: &'a tokio::runtime::Runtime,
    number: usize,
}

/// Lie after lie until enough were told, all hosts together.
fn campaign(place: &Place<'_>, runs: usize, seed: u64, applied: &AtomicUsize) -> BTreeMap<&'static str, Count> {
    let lies: Vec<(&'static str, Lie)> = lies::all()
        .into_iter()
        .filter(|(_, lie)| !matches!(lie, Lie::Exchange))
        .collect();
    let mut rng = Rng::new(seed ^ place.number as u64);
    let mut counts: BTreeMap<&'static str, Count> = BTreeMap::new();
    let mut seen: HashMap<(&'static str, bool), u64> = HashMap::new();
    let mut host = Host::open(place, 0);
    let mut engines = 1;
    for shape in [Shape::Sums, Shape::Joined] {
        host.ask(shape).unwrap();
    }
    for turn in 0.. {
        let (name, lie) = lies[(turn + place.number * lies.len() / HOSTS) % lies.len()];
        let settled = |count: &Count| count.applied > 0 || count.tried >= TRIES;
        let all_settled = || counts.len() == lies.len() && counts.values().all(settled);
        if applied.load(Ordering::Relaxed) >= runs && all_settled() {
            break;
        }
        let count = counts.entry(name).or_default();
        if count.applied == 0 && settled(count) {
            continue;
        }
        let shape = if rng.coin() { Shape::Sums } else { Shape::Joined };
        let places = seen.entry((name, shape == Shape::Sums)).or_insert(1);
        let (lie_seed, skip) = (rng.bits(), rng.below(usize::try_from(*places).unwrap()) as u64);
        let began = Instant::now();
        if matches!(lie, Lie::Attest(_) | Lie::Evidence(_)) {
            engines += 1;
            host.renew(place, engines);
        }
        host.hands.arm(name, lie_seed, skip);
        let (told, ended) = host.attacked(lie, shape, lie_seed);
        *places = told.seen.max(*places);
        count.tried += 1;
        count.seconds += began.elapsed().as_secs_f64();
        let what = format!(
            "{name} {shape:?} seed={lie_seed} skip={skip}: {:?}: {ended:?}",
            told.what
        );
        let defect = match &ended {
            Ok(rows) if *rows != shape.expected() => Some("rows"),
            Ok(_) if told.what.is_some() && lie.place() == "boot" => Some("accepted"),
            Ok(_) => None,
            Err(code) => ["COFFER_PANIC", "internal", "hang", "ran-again"]
                .into_iter()
                .find(|bad| bad == code),
        };
        if let Some(defect) = defect {
            count.findings.push(format!("{defect}: {what}"));
        }
        if told.what.is_some() {
            applied.fetch_add(1, Ordering::Relaxed);
            count.applied += 1;
            match ended {
                Ok(_) if defect.is_none() => count.right_rows += 1,
                Err(code) if defect.is_none() => {
                    count.detected += 1;
                    *count.checks.entry(code).or_default() += 1;
                }
                _ => {}
            }
        } else if ended.is_err() {
            count.findings.push(format!("refused without a lie: {what}"));
        }
        if host.id.is_empty() {
            engines += 1;
            host.renew(place, engines);
        }
    }
    counts
}

/// Two queries of three stages: sums over two shuffles, and a shuffle joined with a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Sums,
    Joined,
}

/// Rows of the shuffle: several frames for each target.
const MADE: i64 = 2500;
const TIMES: usize = 10;

impl Shape {
    fn schema() -> Schema {
        ir::schema(&[("k", ir::long()), ("v", ir::long())])
    }

    fn expected(self) -> Rows {
        match self {
            Self::Sums => (0..7)
                .map(|key| {
                    let sum: i64 = (0..MADE).filter(|value| value % 7 == key).sum();
                    (Some(key), Some(sum * TIMES as i64))
                })
                .collect(),
            Self::Joined => {
                let one = (0..MADE).map(|value| (Some(value), (value % 7 >= 3).then_some(value % 7)));
                let mut all: Rows = one.flat_map(|row| std::iter::repeat_n(row, TIMES)).collect();
                all.sort_unstable();
                all
            }
        }
    }

    /// Its stages in order; the last one brings the result.
    fn stages(self) -> Vec<SealStage> {
        let made = (0..MADE).map(|i| vec![ir::int(i % 7), ir::int(i)]).collect();
        let made = ir::multiplied(8, ir::values(Self::schema(), made), Self::schema(), TIMES);
        let whole = |input, producer, maps, reduces| StageInput {
            input_id: input,
            producer_stage: producer,
            maps,
            reduces,
            ..StageInput::default()
        };
        let rectangle = |input, reduce: u32| Rectangle {
            input_id: input,
            map_begin: 0,
            map_end: 2,
            reduce_begin: reduce,
            reduce_end: reduce + 1,
        };
        let tasks = |broadcast: bool| {
            let rectangles = move |reduce| match broadcast {
                true => vec![rectangle(0, reduce), rectangle(1, 0)],
                false => vec![rectangle(0, reduce)],
            };
            let task = move |reduce| TaskSpec {
                rectangles: rectangles(reduce),
                ..TaskSpec::default()
            };
            (0..3).map(task).collect::<Vec<_>>()
        };
        match self {
            Self::Sums => {
                let spread = ir::to_round_robin(made, Self::schema(), 2);
                let gathered = ir::to_hash(ir::input(Self::schema()), Self::schema(), 3);
                let gathered = SealStage {
                    stage: 2,
                    fragment: gathered.encode_to_vec().into(),
                    tasks: tasks(false).into_iter().take(2).collect(),
                    inputs: vec![whole(0, 1, 2, 2)],
                    ..SealStage::default()
                };
                let sums = ir::to_result(
                    ir::sum_by_key(ir::input(Self::schema()), AggMode::Complete),
                    Self::schema(),
                );
                let top = SealStage {
                    stage: 3,
                    fragment: sums.encode_to_vec().into(),
                    tasks: tasks(false),
                    inputs: vec![whole(0, 2, 2, 3)],
                    ..SealStage::default()
                };
                vec![leaf_stage(1, &spread, 2), gathered, top]
            }
            Self::Joined => {
                let spread = ir::to_round_robin(made, Self::schema(), 3);
                let right = (3..7).map(|k| vec![ir::int(k), ir::int(k)]).collect();
                let right = ir::to_broadcast(ir::values(Self::schema(), right), Self::schema());
                let joined = ir::join(JoinType::LeftOuter, &Self::schema(), true);
                let joined = ir::to_result(joined, ir::twice(&Self::schema()));
                let broadcast = StageInput {
                    broadcast: true,
                    ..whole(1, 2, 2, 1)
                };
                let top = SealStage {
                    stage: 3,
                    fragment: joined.encode_to_vec().into(),
                    tasks: tasks(true),
                    inputs: vec![whole(0, 1, 2, 3), broadcast],
                    ..SealStage::default()
                };
                vec![leaf_stage(1, &spread, 2), leaf_stage(2, &right, 2), top]
            }
        }
    }

    /// The result's rows as pairs, sorted: key and sum, or left and right value.
    fn rows(self, batches: &[RecordBatch]) -> Rows {
        let columns = if self == Self::Sums { (0, 1) } else { (1, 3) };
        let mut all = Vec::new();
        for batch in batches {
            let cell = |column: usize, row: usize| {
                let column = batch.column(column).as_primitive::<Int64Type>();
                (!column.is_null(row)).then(|| column.value(row))
            };
            all.extend((0..batch.num_rows()).map(|row| (cell(columns.0, row), cell(columns.1, row))));
        }
        all.sort_unstable();
        all
    }
}

/// What a task brought: its streams by target, and its records.
struct Brought {
    streams: BTreeMap<u32, Vec<u8>>,
    done: Done,
}

/// A small executor and driver in one: an engine behind a saboteur, and the client engine.
struct Host {
    client: UnixStream,
    engine: Option<UnixStream>,
    behind: Relay,
    hands: Arc<Hands>,
    front: PathBuf,
    /// Empty: not admitted.
    id: String,
    execution: u64,
}

impl Host {
    fn open(place: &Place<'_>, number: usize) -> Self {
        let coffer_engine::address::Address::Unix(client) = place.site.address.clone() else {
            unreachable!()
        };
        let client = UnixStream::connect(client).unwrap();
        client.set_read_timeout(Some(HANGS)).unwrap();
        let hands = Hands::new();
        let (front, behind) = behind_saboteur(place, number, &hands);
        let mut host = Self {
            client,
            engine: None,
            behind,
            hands,
            front,
            id: String::new(),
            execution: 0,
        };
        let _: Welcome = host.hello().unwrap();
        host.admit().unwrap();
        host
    }

    /// Another engine, not admitted yet; what crossed before is not forgotten.
    fn renew(&mut self, place: &Place<'_>, number: usize) {
        let (front, behind) = behind_saboteur(place, number, &self.hands);
        self.engine = None;
        self.id.clear();
        (self.front, self.behind) = (front, behind);
    }

    fn hello(&mut self) -> Ended<Welcome> {
        let hello = Hello {
            protocol: 1,
            application: APPLICATION.to_owned(),
            cluster_deploy_mode: false,
            local_master: true,
        };
        self.request(ClientMessage::Hello, &hello)
    }

    /// One query while a lie is armed, and what both came to.
    fn attacked(&mut self, lie: Lie, shape: Shape, seed: u64) -> (Told, Ended<Rows>) {
        if matches!(lie, Lie::Again) {
            return self.ended_session(shape, seed);
        }
        let ended = self.ask(shape);
        (self.hands.disarm(), ended)
    }

    /// A task of a session that the driver has ended, once more.
    fn ended_session(&mut self, shape: Shape, seed: u64) -> (Told, Ended<Rows>) {
        // The next descriptors name the session that the query before it had.
        let ended = self.ask(shape).and_then(|_| self.ask(shape));
        let newest = self
            .hands
            .past(|past| past.newest().map(|task| task.start.session.clone()));
        let tasks = self
            .hands
            .past(|past| past.tasks(|task| Some(&task.start.session) != newest.as_ref()));
        let mut told = Told::default();
        let mut code = String::new();
        // Only of this very engine: another one has no such session.
        let mine: Vec<_> = tasks.iter().rev().take(6).collect();
        if let (Ok(_), Some(task)) = (&ended, Rng::new(seed).pick(&mine)) {
            told.what = Some(format!("stage {} partition {}", task.start.stage, task.start.partition));
            code = match again(&self.behind, &task.start, task.inputs.clone()) {
                Ok(Outcome { end: End::Done(_), .. }) => "ran-again".to_owned(),
                Ok(Outcome {
                    end: End::Failed(failed),
                    ..
                }) => failed.code,
                Err(error) => format!("closed: {:?}", error.kind()),
            };
        }
        self.hands.disarm();
        let ended = if told.what.is_some() { Err(code) } else { ended };
        (told, ended)
    }

    /// Runs a query from end to end.
    fn ask(&mut self, shape: Shape) -> Ended<Rows> {
        if self.id.is_empty() {
            self.admit()?;
        }
        let session: Session = self.request(ClientMessage::NewSession, &NewSession {})?;
        let ended = self.in_session(shape, &session.session);
        let _: SessionEnded = self.request(
            ClientMessage::EndSession,
            &EndSession {
                session: session.session,
            },
        )?;
        ended
    }

    fn in_session(&mut self, shape: Shape, session: &Bytes) -> Ended<Rows> {
        self.execution += 1;
        let mut outputs: HashMap<u32, Vec<Brought>> = HashMap::new();
        let stages = shape.stages();
        let last = stages.len();
        for (at, stage) in stages.into_iter().enumerate() {
            let request = SealStage {
                session: session.clone(),
                execution: self.execution,
                ..stage
            };
            let sealed: SealedStage = self.request(ClientMessage::SealStage, &request)?;
            let mut brought = Vec::new();
            for (partition, spec) in request.tasks.iter().enumerate() {
                let start = Start {
                    protocol: 1,
                    session: session.clone(),
                    sealed_fragment: sealed.sealed_fragment.clone(),
                    sealed_descriptor: sealed.sealed_descriptors[partition].clone(),
                    sealed_objects: sealed.sealed_objects.clone(),
                    release: sealed
                        .releases
                        .iter()
                        .find(|release| release.engine_id == self.id)
                        .and_then(|release| release.release.clone()),
                    stage: request.stage,
                    partition: u32::try_from(partition).unwrap(),
                };
                let inputs = request.inputs.iter().map(|input| {
                    let targets = spec
                        .rectangles
                        .iter()
                        .find(|rectangle| rectangle.input_id == input.input_id);
                    let target = targets.map_or(0, |rectangle| rectangle.reduce_begin);
                    let streams = outputs[&input.producer_stage]
                        .iter()
                        .filter_map(|output| output.streams.get(&target));
                    (input.input_id, streams.flatten().copied().collect())
                });
                let inputs: HashMap<u32, Vec<u8>> = inputs.collect();
                brought.push(self.task(&start, &inputs)?);
            }
            if at + 1 == last {
                return self.result(shape, &request, brought);
            }
            let accept = AcceptCommits {
                session: session.clone(),
                stage: request.stage,
                maps: u32::try_from(brought.len()).unwrap(),
                commits: brought.iter().map(|task| task.done.sealed_commit.clone()).collect(),
            };
            let _: CommitsAccepted = self.request(ClientMessage::AcceptCommits, &accept)?;
            outputs.insert(request.stage, brought);
        }
        unreachable!("the last stage brings the result")
    }

    fn result(&mut self, shape: Shape, stage: &SealStage, brought: Vec<Brought>) -> Ended<Rows> {
        let results = brought.into_iter().zip(0..).map(|(task, partition)| TaskResult {
            partition,
            stream: task.streams.get(&0).cloned().unwrap_or_default().into(),
            commit: task.done.sealed_commit,
        });
        let request = OpenResult {
            session: stage.session.clone(),
            execution: stage.execution,
            stage: stage.stage,
            partitions: 3,
            results: results.collect(),
            ..OpenResult::default()
        };
        self.say(ClientMessage::OpenResult, &request);
        let mut arrow = Vec::new();
        loop {
            let message = self.hear()?;
            if i32::from(message.kind) == i32::from(ClientMessage::ResultEnd) {
                break;
            }
            arrow.extend_from_slice(&message.payload);
        }
        let reader = StreamReader::try_new(arrow.as_slice(), None).unwrap();
        let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        Ok(shape.rows(&batches))
    }

    /// Runs a task as an executor does. What the engine sealed of an error is opened.
    fn task(&mut self, start: &Start, inputs: &HashMap<u32, Vec<u8>>) -> Ended<Brought> {
        let mut engine = match self.engine.take() {
            Some(engine) => engine,
            None => self.connect(),
        };
        let ended = self.converse(&mut engine, start, inputs);
        match ended {
            Ok(Ok(brought)) => {
                self.engine = Some(engine);
                Ok(brought)
            }
            Ok(Err(failed)) => {
                self.engine = Some(engine);
                Err(self.opened(start, failed))
            }
            Err(error) => Err(match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => "hang".to_owned(),
                _ => "closed".to_owned(),
            }),
        }
    }

    fn connect(&self) -> UnixStream {
        let engine = UnixStream::connect(&self.front).unwrap();
        engine.set_read_timeout(Some(HANGS)).unwrap();
        engine
    }

    fn converse(
        &mut self,
        engine: &mut UnixStream,
        start: &Start,
        inputs: &HashMap<u32, Vec<u8>>,
    ) -> std::io::Result<Result<Brought, Failed>> {
        let mut left: HashMap<u32, &[u8]> = inputs.iter().map(|(id, bytes)| (*id, bytes.as_slice())).collect();
        let mut streams: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        write(engine, &Message::of(TaskMessage::Start, start.encode_to_vec()))?;
        loop {
            let message = read(engine)?.ok_or(std::io::ErrorKind::UnexpectedEof)?;
            if message.is(TaskMessage::NeedKeys) {
                let session = NeedKeys::decode(message.payload.as_slice())?.session;
                let engine_id = self.id.clone();
                let keys: Ended<KeysReleased> =
                    self.request(ClientMessage::ReleaseKeys, &ReleaseKeys { session, engine_id });
                let release: Release = keys.ok().and_then(|keys| keys.release).unwrap_or_default();
                write(engine, &Message::of(TaskMessage::Release, release.encode_to_vec()))?;
            } else if message.is(TaskMessage::Need) {
                let id = Need::decode(message.payload.as_slice())?.input_id;
                let rest = left.entry(id).or_default();
                let (now, later) = rest.split_at(rest.len().min(4999));
                *rest = later;
                let kind = if now.is_empty() {
                    TaskMessage::InEnd
                } else {
                    TaskMessage::In
                };
                write(engine, &Message::of(kind, [&id.to_le_bytes(), now].concat()))?;
            } else if message.is(TaskMessage::Out) {
                let (target, bytes) = message
                    .payload
                    .split_first_chunk::<4>()
                    .ok_or(std::io::ErrorKind::InvalidData)?;
                streams
                    .entry(u32::from_le_bytes(*target))
                    .or_default()
                    .extend_from_slice(bytes);
            } else if message.is(TaskMessage::Done) {
                let done = Done::decode(message.payload.as_slice())?;
                return Ok(Ok(Brought { streams, done }));
            } else if message.is(TaskMessage::Failed) {
                return Ok(Err(Failed::decode(message.payload.as_slice())?));
            } else {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
        }
    }

    fn opened(&mut self, start: &Start, failed: Failed) -> String {
        if failed.sealed_error.is_empty() {
            return failed.code;
        }
        let request = OpenError {
            session: start.session.clone(),
            stage: start.stage,
            partition: start.partition,
            sealed_error: failed.sealed_error,
        };
        match self.request::<_, ErrorOpened>(ClientMessage::OpenError, &request) {
            Ok(opened) => opened.detail.unwrap_or_default().code,
            Err(code) => code,
        }
    }

    /// Challenge, evidence, verdict.
    fn admit(&mut self) -> Ended<()> {
        let welcome = self.hello()?;
        let challenge: Challenge = self.request(ClientMessage::NewChallenge, &NewChallenge {})?;
        let attest = Attest {
            protocol: 1,
            owner_key: welcome.owner_key,
            challenge: challenge.challenge.clone(),
            application: APPLICATION.to_owned(),
        };
        let mut engine = self.connect();
        let closed = |_| "closed".to_owned();
        write(&mut engine, &Message::of(TaskMessage::Attest, attest.encode_to_vec())).map_err(closed)?;
        let answer = read(&mut engine).map_err(closed)?.ok_or("closed")?;
        if answer.is(TaskMessage::Refused) {
            return Err(Refused::decode(answer.payload.as_slice()).unwrap().code);
        }
        let id = EngineEvidence::decode(answer.payload.as_slice()).unwrap().engine_id;
        let request = AdmitEngine {
            evidence: answer.payload.into(),
            challenge: challenge.challenge,
        };
        let _: Admitted = self.request(ClientMessage::AdmitEngine, &request)?;
        self.id = id;
        self.engine = Some(engine);
        Ok(())
    }

    fn say<Q: prost::Message>(&mut self, kind: ClientMessage, request: &Q) {
        let kind = u8::try_from(i32::from(kind)).unwrap();
        let payload = request.encode_to_vec();
        write(&mut self.client, &Message { kind, payload }).unwrap();
    }

    fn hear(&mut self) -> Ended<Message> {
        let message = read(&mut self.client)
            .expect("the client engine answers")
            .expect("and stays");
        match i32::from(message.kind) == i32::from(ClientMessage::Problem) {
            true => Err(Problem::decode(message.payload.as_slice()).unwrap().code),
            false => Ok(message),
        }
    }

    fn request<Q: prost::Message, A: prost::Message + Default>(
        &mut self,
        kind: ClientMessage,
        request: &Q,
    ) -> Ended<A> {
        self.say(kind, request);
        Ok(A::decode(self.hear()?.payload.as_slice()).unwrap())
    }
}

/// An engine in this process, and a saboteur before it: where it listens, and its relay.
fn behind_saboteur(place: &Place<'_>, number: usize, hands: &Arc<Hands>) -> (PathBuf, Relay) {
    let name = |what: &str| {
        place
            .site
            .folder
            .path()
            .join(format!("{}-{number}-{what}", place.number))
    };
    let enclave = Enclave::start(&Settings {
        memory: 256 << 20,
        spill_folder: name("spill"),
    })
    .unwrap();
    let _entered = place.runtime.enter();
    let listener = Listener::bind(&coffer_engine::address::Address::Unix(name("engine"))).unwrap();
    place.runtime.spawn(connection::accept(enclave, listener));
    let relay = Relay {
        engine: name("engine"),
        hands: Arc::clone(hands),
        exchange: None,
    };
    let front = name("front");
    let listening = UnixListener::bind(&front).unwrap();
    let accepting = relay.clone();
    thread::spawn(move || accepting.accept(&listening));
    (front, relay)
}
