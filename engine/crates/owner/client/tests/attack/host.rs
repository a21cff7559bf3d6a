//! A small executor and driver in one, whose connection to its engine goes through the proxy.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};

use arrow::{array::RecordBatch, ipc::reader::StreamReader};
use bytes::Bytes;
use coffer_engine::{
    connection,
    enclave::{Enclave, Settings},
};
use coffer_process::listen::Listener;
use coffer_protocol::wire::{
    AcceptCommits, AdmitEngine, Admitted, Attest, Challenge, ClientMessage, CommitsAccepted, Done,
    EndSession, EngineEvidence, ErrorOpened, Failed, Hello, KeysReleased, Need, NeedKeys,
    NewChallenge, NewSession, OpenError, OpenResult, Problem, Refused, Release, ReleaseKeys,
    SealStage, SealedStage, Session, SessionEnded, Start, TaskMessage, TaskResult, Welcome,
};
use coffer_proxy::{
    mutations::Mutation,
    past::{End, Outcome},
    recorder::{Recorder, Report},
    relay::{Relay, again, hung},
    rng::Rng,
    wire::{Message, read, write},
};
use prost::Message as _;

use crate::{
    harness::{APPLICATION, Site},
    shape::{Rows, Shape},
};

/// Past this a run counts as hung.
const HANGS: Duration = Duration::from_secs(20);

/// What an executor says of a connection that broke, and of messages out of turn.
const LOST: &str = "COFFER_ENGINE_LOST";
const OUT_OF_TURN: &str = "COFFER_ENGINE_PROTOCOL";

/// What a run ended with: rows, or the code of the check that refused them.
pub(crate) type Ended<T> = Result<T, String>;

/// Where a host works: its client site, and a name of its own.
pub(crate) struct Slot<'a> {
    pub(crate) site: &'a Site,
    pub(crate) runtime: &'a tokio::runtime::Runtime,
    pub(crate) number: usize,
}

/// What a task brought: its streams by target, and its records.
struct Brought {
    streams: BTreeMap<u32, Vec<u8>>,
    done: Done,
}

/// A small executor and driver in one: an engine behind a proxy, and the client engine.
pub(crate) struct Host {
    client: UnixStream,
    engine: Option<UnixStream>,
    behind: Relay,
    pub(crate) recorder: Arc<Recorder>,
    front: PathBuf,
    /// Empty: not admitted.
    pub(crate) id: String,
    execution: u64,
}

impl Host {
    pub(crate) fn open(slot: &Slot<'_>, number: usize) -> Self {
        let coffer_process::address::Address::Unix(client) = slot.site.address.clone() else {
            unreachable!()
        };
        let client = UnixStream::connect(client).unwrap();
        client.set_read_timeout(Some(HANGS)).unwrap();
        let recorder = Recorder::new();
        let (front, behind) = behind_proxy(slot, number, &recorder);
        let mut host = Self {
            client,
            engine: None,
            behind,
            recorder,
            front,
            id: String::new(),
            execution: 0,
        };
        let _: Welcome = host.hello().unwrap();
        host.admit().unwrap();
        host
    }

    /// Another engine, not admitted yet; what crossed before is not forgotten.
    pub(crate) fn renew(&mut self, slot: &Slot<'_>, number: usize) {
        let (front, behind) = behind_proxy(slot, number, &self.recorder);
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
            host_engines: false,
            network_sealed: false,
        };
        self.request(ClientMessage::Hello, &hello)
    }

    /// One query while a mutation is armed, and what both came to.
    pub(crate) fn attacked(
        &mut self,
        mutation: Mutation,
        shape: Shape,
        seed: u64,
    ) -> (Report, Ended<Rows>) {
        if matches!(mutation, Mutation::Again) {
            return self.ended_session(shape, seed);
        }
        let ended = self.ask(shape);
        (self.recorder.disarm(), ended)
    }

    /// A task of a session that the driver has ended, once more.
    fn ended_session(&mut self, shape: Shape, seed: u64) -> (Report, Ended<Rows>) {
        // The next descriptors name the session that the query before it had.
        let ended = self.ask(shape).and_then(|_| self.ask(shape));
        let newest = self
            .recorder
            .past(|past| past.newest().map(|task| task.start.session.clone()));
        let tasks = self
            .recorder
            // Without a key release of its session it would be refused for the want of one.
            .past(|past| {
                past.tasks(|task| {
                    Some(&task.start.session) != newest.as_ref()
                        && !past
                            .releases(|session| session == task.start.session)
                            .is_empty()
                })
            });
        let mut report = Report::default();
        let mut code = String::new();
        // Only of this very engine: another one has no such session.
        let mine: Vec<_> = tasks.iter().rev().take(6).collect();
        if let (Ok(_), Some(task)) = (&ended, Rng::new(seed).pick(&mine)) {
            report.what = Some(format!(
                "stage {} partition {}",
                task.start.stage, task.start.partition
            ));
            code = match again(&self.behind, &task.start, task.inputs.clone()) {
                Ok(Outcome {
                    end: End::Done(_), ..
                }) => "ran-again".to_owned(),
                Ok(Outcome {
                    end: End::Failed(failed),
                    ..
                }) => failed.code,
                Err(error) => broken(&error),
            };
        }
        self.recorder.disarm();
        let ended = if report.what.is_some() {
            Err(code)
        } else {
            ended
        };
        (report, ended)
    }

    /// Runs a query from end to end.
    pub(crate) fn ask(&mut self, shape: Shape) -> Ended<Rows> {
        if self.id.is_empty() {
            self.admit()?;
        }
        let session: Session = self.request(ClientMessage::NewSession, &NewSession::default())?;
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
                commits: brought
                    .iter()
                    .map(|task| task.done.sealed_commit.clone())
                    .collect(),
            };
            let _: CommitsAccepted = self.request(ClientMessage::AcceptCommits, &accept)?;
            outputs.insert(request.stage, brought);
        }
        unreachable!("the last stage brings the result")
    }

    fn result(&mut self, shape: Shape, stage: &SealStage, brought: Vec<Brought>) -> Ended<Rows> {
        let results = brought
            .into_iter()
            .zip(0..)
            .map(|(task, partition)| TaskResult {
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
            Err(error) => Err(broken(&error)),
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
    ) -> io::Result<Result<Brought, Failed>> {
        let mut left: HashMap<u32, &[u8]> = inputs
            .iter()
            .map(|(id, bytes)| (*id, bytes.as_slice()))
            .collect();
        let mut streams: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        write(
            engine,
            &Message::of(TaskMessage::Start, start.encode_to_vec()),
        )?;
        loop {
            let message = read(engine)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if message.is(TaskMessage::NeedKeys) {
                let session = NeedKeys::decode(message.payload.as_slice())?.session;
                let engine_id = self.id.clone();
                let keys: Ended<KeysReleased> = self.request(
                    ClientMessage::ReleaseKeys,
                    &ReleaseKeys { session, engine_id },
                );
                let release: Release = keys.ok().and_then(|keys| keys.release).unwrap_or_default();
                write(
                    engine,
                    &Message::of(TaskMessage::Release, release.encode_to_vec()),
                )?;
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
                write(
                    engine,
                    &Message::of(kind, [&id.to_le_bytes(), now].concat()),
                )?;
            } else if message.is(TaskMessage::Out) {
                let (target, bytes) = message
                    .payload
                    .split_first_chunk::<4>()
                    .ok_or(io::ErrorKind::InvalidData)?;
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
                return Err(io::ErrorKind::InvalidData.into());
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
        write(
            &mut engine,
            &Message::of(TaskMessage::Attest, attest.encode_to_vec()),
        )
        .map_err(|error| broken(&error))?;
        let answer = read(&mut engine)
            .map_err(|error| broken(&error))?
            .ok_or(LOST)?;
        if answer.is(TaskMessage::Refused) {
            return Err(Refused::decode(answer.payload.as_slice()).unwrap().code);
        }
        let id = EngineEvidence::decode(answer.payload.as_slice())
            .unwrap()
            .engine_id;
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

/// What an executor says of an engine that does not answer, or not as it should.
fn broken(error: &io::Error) -> String {
    match error.kind() {
        _ if hung(error) => "hang",
        io::ErrorKind::InvalidData => OUT_OF_TURN,
        _ => LOST,
    }
    .to_owned()
}

#[test]
fn silence_is_no_refusal() {
    let (mut mine, _theirs) = UnixStream::pair().unwrap();
    mine.set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    assert_eq!(broken(&read(&mut mine).unwrap_err()), "hang");
    assert_eq!(broken(&io::ErrorKind::TimedOut.into()), "hang");
    assert_eq!(broken(&io::ErrorKind::UnexpectedEof.into()), LOST);
    assert_eq!(broken(&io::ErrorKind::InvalidData.into()), OUT_OF_TURN);
}

/// An engine in this process, and a proxy before it: where it listens, and its relay.
fn behind_proxy(slot: &Slot<'_>, number: usize, recorder: &Arc<Recorder>) -> (PathBuf, Relay) {
    let name = |what: &str| {
        slot.site
            .folder
            .path()
            .join(format!("{}-{number}-{what}", slot.number))
    };
    let enclave = Enclave::start(&Settings {
        memory: 256 << 20,
        spill_folder: name("spill"),
        executors_files: false,
    })
    .unwrap();
    let _entered = slot.runtime.enter();
    let listener = Listener::bind(&coffer_process::address::Address::Unix(name("engine"))).unwrap();
    slot.runtime.spawn(connection::accept(enclave, listener));
    let relay = Relay {
        engine: name("engine"),
        recorder: Arc::clone(recorder),
        exchange: None,
    };
    let front = name("front");
    let listening = UnixListener::bind(&front).unwrap();
    let accepting = relay.clone();
    thread::spawn(move || accepting.accept(&listening));
    (front, relay)
}
