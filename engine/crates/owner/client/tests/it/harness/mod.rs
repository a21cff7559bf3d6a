//! A whole Coffer in one process: client engine, enclaves, and a small executor that carries their
//! bytes.

#![allow(unreachable_pub, dead_code)] // each test binary uses its part

pub mod ir;
pub mod query;

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    ipc::reader::StreamReader,
};
use bytes::Bytes;
use coffer_catalog::{NewColumns, TableWrite};
use coffer_client::Service;
use coffer_custody::{ConfigDir, Keyring, Passphrase, Vault};
use coffer_engine::{
    connection,
    enclave::{Enclave, Settings},
    task::kind_byte,
};
use coffer_format::{WriteOptions, parse_ddl};
use coffer_process::{
    address::Address,
    listen::{Listener, ReadHalf, WriteHalf, connect},
};
use coffer_protocol::{
    framing::{Message, put_message, put_raw, read_message},
    wire::{
        AdmitEngine, Admitted, Attest, Challenge, ClientMessage, Done, EngineEvidence, Failed,
        Hello, KeysReleased, Need, NeedKeys, NewChallenge, OpenTable, Problem, QueryDone, Refused,
        Release, ReleaseKeys, RunQuery, Start, TableInfo, TaskMessage, Welcome,
    },
};
use coffer_release::{Issuer, Simulated};
use prost::Message as _;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

pub const APPLICATION: &str = "application_1";
pub const POLICY: &str = "[attestation]\naccept = [\"simulated\"]\n";

/// A client site, in a folder that goes with it.
pub struct Site {
    pub folder: TempDir,
    pub config_dir: ConfigDir,
    pub address: Address,
}

impl Site {
    pub async fn open() -> Self {
        Self::with_policy(POLICY).await
    }

    pub async fn with_policy(policy: &str) -> Self {
        Self::acting(policy, None).await
    }

    /// A client engine whose engines keep what they hear nothing of for no longer than this.
    pub async fn leasing(lease: Duration) -> Self {
        Self::serving(POLICY, |service| service.with_lease(lease)).await
    }

    /// A client engine that works for a user of the policy.
    pub async fn acting(policy: &str, user: Option<&str>) -> Self {
        Self::serving(policy, |service| match user {
            Some(user) => service.on_behalf_of(user).unwrap(),
            None => service,
        })
        .await
    }

    pub async fn serving(policy: &str, set_up: impl FnOnce(Service) -> Service) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config_dir = ConfigDir::at(folder.path().join("config"));
        config_dir.create().unwrap();
        let keyring = Keyring::create(&config_dir.keyring(), &passphrase()).unwrap();
        coffer_catalog::policy::replace(&config_dir, &keyring, policy).unwrap();
        let service = Arc::new(set_up(
            Service::open(config_dir.clone(), &passphrase()).unwrap(),
        ));
        let listener = Listener::bind(&Address::Unix(folder.path().join("client"))).unwrap();
        let address = listener.address().clone();
        tokio::spawn(coffer_client::connection::accept(service, listener));
        Self {
            folder,
            config_dir,
            address,
        }
    }

    /// An engine of this site's folder, and a connection to it.
    pub async fn engine(&self, name: &str, memory: usize) -> Engine {
        self.engine_of(name, memory, vec![Box::new(Simulated)])
            .await
    }

    /// One for which these vouch.
    pub async fn engine_of(
        &self,
        name: &str,
        memory: usize,
        issuers: Vec<Box<dyn Issuer>>,
    ) -> Engine {
        let settings = Settings {
            memory,
            spill_folder: self.folder.path().join(format!("{name}-spill")),
            executors_files: false,
        };
        let enclave = Enclave::start_as(&settings, issuers).unwrap();
        let listener = Listener::bind(&Address::Unix(self.folder.path().join(name))).unwrap();
        let address = listener.address().clone();
        tokio::spawn(connection::accept(Arc::clone(&enclave), listener));
        let (read, write) = connect(&address).await.unwrap();
        Engine {
            enclave,
            address,
            read,
            write,
            id: String::new(),
        }
    }

    /// Makes this the policy, as its owner does.
    pub fn sign(&self, policy: &str) {
        let keyring = Keyring::open(&self.config_dir.keyring(), &passphrase()).unwrap();
        coffer_catalog::policy::replace(&self.config_dir, &keyring, policy).unwrap();
    }

    /// The same config directory under another client engine: a driver that was started again.
    pub async fn restarted(self) -> Self {
        let service = Arc::new(Service::open(self.config_dir.clone(), &passphrase()).unwrap());
        let listener =
            Listener::bind(&Address::Unix(self.folder.path().join("client-again"))).unwrap();
        let address = listener.address().clone();
        tokio::spawn(coffer_client::connection::accept(service, listener));
        Self { address, ..self }
    }

    /// A sealed table of this DDL in the site's folder, a file for each of `files`, with row groups
    /// of 50 rows.
    pub fn table(&self, name: &str, ddl: &str, files: Vec<Vec<ArrayRef>>) -> PathBuf {
        let vault = Vault::from(Keyring::open(&self.config_dir.keyring(), &passphrase()).unwrap());
        let policy = coffer_catalog::policy::open(&self.config_dir, vault.keyring()).unwrap();
        let folder = self.folder.path().join(name);
        let new = NewColumns {
            columns: parse_ddl(ddl).unwrap(),
            ..NewColumns::default()
        };
        let write =
            TableWrite::create(&self.config_dir, &vault, &policy, name, &folder, new).unwrap();
        let options = WriteOptions {
            row_group_rows: 50,
            ..WriteOptions::default()
        };
        let writer = write.writer(options).unwrap();
        let pins = files.into_iter().map(|columns| {
            let mut file = writer.file().unwrap();
            file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), columns).unwrap())
                .unwrap();
            file.finish().unwrap().pin
        });
        write.publish(pins.collect()).unwrap();
        folder
    }

    pub async fn client(&self) -> Client {
        let mut client = self.stranger().await;
        client.hello(false).await.unwrap();
        client
    }

    /// A connection that has not said HELLO.
    pub async fn stranger(&self) -> Client {
        let (read, write) = connect(&self.address).await.unwrap();
        Client { read, write }
    }
}

pub fn passphrase() -> Passphrase {
    Passphrase::new("correct horse battery staple").unwrap()
}

/// A driver's connection to the client engine.
pub struct Client {
    read: ReadHalf,
    write: WriteHalf,
}

impl Client {
    pub async fn hello(&mut self, cluster_deploy_mode: bool) -> Result<Welcome, Problem> {
        let hello = Hello {
            protocol: 1,
            application: APPLICATION.to_owned(),
            cluster_deploy_mode,
            local_master: true,
            host_engines: false,
            network_sealed: false,
        };
        self.ask(ClientMessage::Hello, &hello).await
    }

    pub async fn send<Q: prost::Message>(&mut self, kind: ClientMessage, request: &Q) {
        let mut out = Vec::new();
        put_message(&mut out, u8::try_from(i32::from(kind)).unwrap(), request).unwrap();
        self.write.write_all(&out).await.unwrap();
    }

    pub async fn receive(&mut self) -> Result<Message, Problem> {
        let message = read_message(&mut self.read).await.unwrap().unwrap();
        match i32::from(message.kind) == i32::from(ClientMessage::Problem) {
            true => Err(Problem::decode(message.payload).unwrap()),
            false => Ok(message),
        }
    }

    /// The answer to a request, which is one message.
    pub async fn ask<Q: prost::Message, A: prost::Message + Default>(
        &mut self,
        kind: ClientMessage,
        request: &Q,
    ) -> Result<A, Problem> {
        self.send(kind, request).await;
        let answer = self.receive().await?;
        Ok(A::decode(answer.payload).unwrap())
    }

    /// The table in a folder.
    pub async fn open(&mut self, folder: &Path) -> Result<TableInfo, Problem> {
        let open = OpenTable {
            path: folder.display().to_string(),
            ..OpenTable::default()
        };
        self.ask(ClientMessage::OpenTable, &open).await
    }

    /// The rows of an OPEN_RESULT.
    pub async fn rows<Q: prost::Message>(
        &mut self,
        request: &Q,
    ) -> Result<Vec<RecordBatch>, Problem> {
        self.rows_of(ClientMessage::OpenResult, request).await
    }

    /// The rows of an OPEN_RESULT or a RUN_AT_CLIENT.
    pub async fn rows_of<Q: prost::Message>(
        &mut self,
        kind: ClientMessage,
        request: &Q,
    ) -> Result<Vec<RecordBatch>, Problem> {
        self.send(kind, request).await;
        let mut stream = Vec::new();
        loop {
            let message = self.receive().await?;
            if i32::from(message.kind) == i32::from(ClientMessage::ResultEnd) {
                break;
            }
            stream.extend_from_slice(&message.payload);
        }
        let reader = StreamReader::try_new(stream.as_slice(), None).unwrap();
        Ok(reader.map(Result::unwrap).collect())
    }
}

/// An engine, and an executor's connection to it.
pub struct Engine {
    pub enclave: Arc<Enclave>,
    pub address: Address,
    read: ReadHalf,
    write: WriteHalf,
    pub id: String,
}

/// How a task ended.
pub enum Ended {
    Done(Output),
    Failed(Failed),
}

/// What a task wrote: whole sealed streams by target, and DONE.
#[derive(Clone)]
pub struct Output {
    pub streams: BTreeMap<u32, Bytes>,
    pub done: Done,
}

impl Ended {
    pub fn done(self) -> Output {
        match self {
            Self::Done(output) => output,
            Self::Failed(failed) => panic!("the task failed: {}", failed.code),
        }
    }

    pub fn failed(self) -> Failed {
        match self {
            Self::Failed(failed) => failed,
            Self::Done(_) => panic!("the task was done"),
        }
    }
}

impl Engine {
    /// Another connection to the same engine.
    pub async fn again(&self) -> Engine {
        let (read, write) = connect(&self.address).await.unwrap();
        Engine {
            enclave: Arc::clone(&self.enclave),
            address: self.address.clone(),
            read,
            write,
            id: self.id.clone(),
        }
    }

    pub async fn send<M: prost::Message>(&mut self, kind: TaskMessage, message: &M) {
        let mut out = Vec::new();
        put_message(&mut out, kind_byte(kind), message).unwrap();
        self.write.write_all(&out).await.unwrap();
    }

    /// Bytes as they are, whole messages or not. That nobody reads them any more is the reader's to
    /// say.
    pub async fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.write.write_all(bytes).await;
    }

    pub async fn answer_input(&mut self, input: u32, bytes: Option<&[u8]>) {
        self.try_answer_input(input, bytes).await.unwrap();
    }

    /// The same, of an engine that may have hung up.
    pub async fn try_answer_input(
        &mut self,
        input: u32,
        bytes: Option<&[u8]>,
    ) -> std::io::Result<()> {
        let mut out = Vec::new();
        let kind = if bytes.is_some() {
            TaskMessage::In
        } else {
            TaskMessage::InEnd
        };
        put_raw(
            &mut out,
            kind_byte(kind),
            &[&input.to_le_bytes(), bytes.unwrap_or_default()],
        )
        .unwrap();
        self.write.write_all(&out).await
    }

    pub async fn receive(&mut self) -> Option<(TaskMessage, Bytes)> {
        let message = read_message(&mut self.read).await.unwrap()?;
        let kind = TaskMessage::try_from(i32::from(message.kind)).unwrap();
        Some((kind, message.payload))
    }

    pub async fn attest(&mut self, attest: &Attest) -> Result<Bytes, Refused> {
        self.send(TaskMessage::Attest, attest).await;
        match self.receive().await.unwrap() {
            (TaskMessage::Evidence, evidence) => Ok(evidence),
            (TaskMessage::Refused, refused) => Err(Refused::decode(refused).unwrap()),
            (kind, _) => panic!("{kind:?} came"),
        }
    }

    /// The whole handshake.
    pub async fn admit(&mut self, client: &mut Client) -> Result<Admitted, Problem> {
        self.admit_altered(client, |_| ()).await
    }

    /// With a host between that alters the evidence.
    pub async fn admit_altered(
        &mut self,
        client: &mut Client,
        alter: impl FnOnce(&mut EngineEvidence),
    ) -> Result<Admitted, Problem> {
        let welcome = client.hello(false).await?;
        let challenge: Challenge = client
            .ask(ClientMessage::NewChallenge, &NewChallenge {})
            .await?;
        let evidence = self
            .attest(&Attest {
                protocol: 1,
                owner_key: welcome.owner_key,
                challenge: challenge.challenge.clone(),
                application: APPLICATION.to_owned(),
            })
            .await
            .unwrap();
        let mut evidence = EngineEvidence::decode(evidence).unwrap();
        self.id.clone_from(&evidence.engine_id);
        alter(&mut evidence);
        client
            .ask(
                ClientMessage::AdmitEngine,
                &AdmitEngine {
                    evidence: evidence.encode_to_vec().into(),
                    challenge: challenge.challenge,
                },
            )
            .await
    }

    /// Runs a task as an executor does: answers NEED from `inputs`, by input id, and NEED_KEYS
    /// through the client engine.
    pub async fn run(
        &mut self,
        client: &mut Client,
        start: &Start,
        inputs: &HashMap<u32, Vec<u8>>,
    ) -> Ended {
        self.send(TaskMessage::Start, start).await;
        let (streams, order, end) = self.conversation(client, inputs).await;
        assert!(order.is_sorted(), "targets leave in ascending order");
        match end {
            (TaskMessage::Done, payload) => Ended::Done(Output {
                streams,
                done: Done::decode(payload).unwrap(),
            }),
            (_, payload) => Ended::Failed(Failed::decode(payload).unwrap()),
        }
    }

    /// Runs a query whole: the streams of its last stage by partition, and what its tasks said.
    pub async fn run_query(
        &mut self,
        client: &mut Client,
        query: &RunQuery,
    ) -> Result<(BTreeMap<u32, Bytes>, QueryDone), Failed> {
        self.send(TaskMessage::RunQuery, query).await;
        let (streams, _, end) = self.conversation(client, &HashMap::new()).await;
        match end {
            (TaskMessage::QueryDone, payload) => Ok((streams, QueryDone::decode(payload).unwrap())),
            (_, payload) => Err(Failed::decode(payload).unwrap()),
        }
    }

    /// Answers until the engine has done what it was asked, or failed: what came out by target, the
    /// targets as they came, and the last message.
    async fn conversation(
        &mut self,
        client: &mut Client,
        inputs: &HashMap<u32, Vec<u8>>,
    ) -> (BTreeMap<u32, Bytes>, Vec<u32>, (TaskMessage, Bytes)) {
        let mut order = Vec::new();
        let mut left: HashMap<u32, &[u8]> = inputs
            .iter()
            .map(|(id, bytes)| (*id, bytes.as_slice()))
            .collect();
        let mut streams: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        loop {
            match self
                .receive()
                .await
                .expect("the engine closed the connection")
            {
                (TaskMessage::NeedKeys, payload) => {
                    let session = NeedKeys::decode(payload).unwrap().session;
                    let engine_id = self.id.clone();
                    let keys: Result<KeysReleased, Problem> = client
                        .ask(
                            ClientMessage::ReleaseKeys,
                            &ReleaseKeys { session, engine_id },
                        )
                        .await;
                    // An executor that gets no keys says so with a release that does not open.
                    let release = keys.map_or_else(
                        |_| Release {
                            encapsulated: vec![9; 32].into(),
                            ..Release::default()
                        },
                        |keys| keys.release.unwrap(),
                    );
                    self.send(TaskMessage::Release, &release).await;
                }
                (TaskMessage::Need, payload) => {
                    let id = Need::decode(payload).unwrap().input_id;
                    let bytes = left
                        .get_mut(&id)
                        .expect("an input that the task does not have");
                    // An odd size, so that preambles and headers are cut.
                    let (now, rest) = bytes.split_at(bytes.len().min(4999));
                    *bytes = rest;
                    self.answer_input(id, (!now.is_empty()).then_some(now))
                        .await;
                }
                (TaskMessage::Out, payload) => {
                    let (target, bytes) = payload.split_first_chunk::<4>().unwrap();
                    let target = u32::from_le_bytes(*target);
                    order.push(target);
                    streams.entry(target).or_default().extend_from_slice(bytes);
                }
                (
                    kind @ (TaskMessage::Done | TaskMessage::QueryDone | TaskMessage::Failed),
                    payload,
                ) => {
                    let streams = streams.into_iter();
                    let whole = streams.map(|(target, bytes)| (target, bytes.into()));
                    return (whole.collect(), order, (kind, payload));
                }
                (kind, _) => panic!("{kind:?} came"),
            }
        }
    }
}
