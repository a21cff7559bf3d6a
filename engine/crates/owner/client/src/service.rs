//! The client engine's state, and which request goes where.

use std::{sync::Arc, time::Duration};

use coffer_audit::{AuditLog, Who};
use coffer_custody::{ConfigDir, Keyring, Passphrase, Vault, verifiers::Verifiers};
use coffer_protocol::{
    EvidenceError,
    evidence::PROTOCOL,
    framing::{Message, put_message},
    padded,
    plan::Fragment,
    storage::{Remote, Storage},
    wire::{
        ClientMessage, DescribeFragment, EndSession, ErrorDetail, ErrorOpened, FragmentDescribed,
        Hello, MetricsOpened, NewSession, NodeMetrics, OpenError, OpenMetrics, OpenResult,
        OpenTable, RunAtClient, SealValue, SealedObject, SessionEnded, TaskMetrics, Value,
        ValueSealed, Welcome, sealed_object::Kind,
    },
};
use coffer_sealing::{
    ObjectKind, Partition, SessionId, SessionKey, StageId, identity, open_message, seal_object,
    sha256,
};
use parking_lot::Mutex;
use prost::Message as _;

use crate::{
    ClientError, access,
    admit::{Engines, Waiting},
    follow::{Followed, Revoked},
    literals::Guesses,
    result::ResultRows,
    rows::RowsStream,
    session::{self, Object, Session, Shared},
    sessions::Sessions,
    settings::Known,
    spills::Spills,
    storage::{self, Connections},
    tables::Tables,
    writes::Writes,
};

/// The client engine. One config directory, one application.
pub struct Service {
    pub(crate) config_dir: ConfigDir,
    /// Which the config directory reaches too.
    pub(crate) storage: Arc<Remote<Connections>>,
    pub(crate) vault: Arc<Vault>,
    /// Of TEEs' evidence.
    pub(crate) verifiers: Verifiers,
    /// The user of the policy that it works for; none: the owner.
    pub(crate) user: Option<String>,
    /// The account that this user is, in a key service.
    pub(crate) peer: Option<access::Peer>,
    pub(crate) read: Mutex<access::Read>,
    /// Secrets of Coffer's that no setting may hold.
    pub(crate) known: Arc<Mutex<Known>>,
    /// What the user had encrypted, in whatever application.
    pub(crate) guesses: Arc<Mutex<Guesses>>,
    /// The policy whose changes were last acted upon.
    pub(crate) followed: Mutex<Followed>,
    /// Whose process or connection it is.
    pub(crate) account: Who,
    pub(crate) spills: Arc<Spills>,
    pub(crate) audit: AuditLog,
    /// How long engines keep a session without a word from here.
    lease: Duration,
    pub(crate) application: Mutex<Application>,
    /// Challenges that wait for their evidence.
    pub(crate) challenges: Mutex<Waiting>,
    pub(crate) live: Mutex<Live>,
    pub(crate) tables: Mutex<Tables>,
    pub(crate) writes: Mutex<Writes>,
}

/// Engines and the sessions that they have keys of: what ends one ends the other's, at once.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) engines: Engines,
    pub(crate) sessions: Sessions,
}

impl Live {
    /// Ends a session; whether there was one.
    fn end(&mut self, id: SessionId) -> bool {
        let ended = self.sessions.end(id);
        if ended {
            self.engines.forget(id);
        }
        ended
    }

    /// Ends a session before its query has ended.
    pub(crate) fn revoke(&mut self, id: SessionId, why: Revoked) {
        if self.end(id) {
            self.sessions.note(id, why);
        }
    }
}

/// The application that is served, once it has said which.
#[derive(Default)]
pub(crate) struct Application {
    pub(crate) name: Option<String>,
    /// Engines are host engines: they get session keys, and nothing else.
    pub(crate) hosts: bool,
    /// The driver runs where the cluster does.
    pub(crate) cluster: bool,
    /// Executors are the driver's own process.
    pub(crate) local: bool,
    /// What Spark's processes say to each other is authenticated and encrypted.
    pub(crate) network_sealed: bool,
}

impl Application {
    /// The first greeting says which it is; later ones are of the same.
    fn greet(&mut self, hello: &Hello) -> Result<(), ClientError> {
        if self.name.is_none() {
            self.name = Some(hello.application.clone());
            self.hosts = hello.host_engines;
            (self.local, self.network_sealed) = (hello.local_master, hello.network_sealed);
        }
        self.cluster |= hello.cluster_deploy_mode;
        self.local &= hello.local_master;
        self.network_sealed &= hello.network_sealed;
        if self.name.as_ref() != Some(&hello.application) || self.hosts != hello.host_engines {
            return Err(ClientError::OtherApplication);
        }
        Ok(())
    }
}

/// What is known of a connection.
#[derive(Default)]
pub(crate) struct Talk {
    /// It has said HELLO.
    pub(crate) greeted: bool,
    /// The rows that come over it.
    pub(crate) rows: Option<RowsStream>,
}

/// What goes back.
pub(crate) enum Reply {
    /// One message, framed.
    Message(Vec<u8>),
    /// The rows of a result.
    Rows(ResultRows),
    /// Rows that stay here: of which session, and at most how many bytes.
    Keep(ResultRows, bytes::Bytes, u64),
}

impl Reply {
    fn of(rows: ResultRows, session: bytes::Bytes, keep_bytes: u64) -> Self {
        match keep_bytes {
            0 => Self::Rows(rows),
            most => Self::Keep(rows, session, most),
        }
    }
}

impl Service {
    /// Opens config directory, policy and keyring.
    pub fn open(config_dir: ConfigDir, passphrase: &Passphrase) -> Result<Self, ClientError> {
        let keyring = Keyring::open(&config_dir.keyring(), passphrase)?;
        let policy = access::signed(coffer_catalog::policy::open(&config_dir, &keyring))?;
        let audit = AuditLog::of(&config_dir, &keyring);
        let masters = coffer_kms::of(&policy);
        let mut known = Known::none()?;
        known.note("the keyring's passphrase", passphrase.expose());
        let storage = storage::new();
        let service = Self {
            config_dir: config_dir.reaching(Arc::clone(&storage) as Arc<dyn Storage>),
            storage,
            vault: Arc::new(Vault::new(keyring, masters)),
            followed: Mutex::new(Followed::of(&policy)),
            verifiers: Verifiers::beside_this_program(),
            user: None,
            peer: None,
            read: Mutex::default(),
            guesses: Arc::default(),
            account: Who::owner(),
            spills: Arc::default(),
            audit,
            lease: session::LEASE,
            known: Arc::new(Mutex::new(known)),
            application: Mutex::default(),
            challenges: Mutex::default(),
            live: Mutex::default(),
            tables: Mutex::default(),
            writes: Mutex::default(),
        };
        service.note_masters(&policy);
        Ok(service)
    }

    /// A state of its own for an application of a user, over the same keyring and masters.
    pub(crate) fn fork(
        &self,
        user: &str,
        peer: access::Peer,
        guesses: Arc<Mutex<Guesses>>,
    ) -> Result<Self, ClientError> {
        let storage = storage::new();
        let reached = Arc::clone(&storage) as Arc<dyn Storage>;
        Ok(Self {
            config_dir: self.config_dir.clone().reaching(reached),
            storage,
            vault: Arc::clone(&self.vault),
            followed: Mutex::new(Followed::of(&*self.policy_now()?)),
            user: Some(user.to_owned()),
            known: Arc::clone(&self.known),
            guesses,
            read: Mutex::default(),
            account: Who {
                uid: peer.uid,
                ..Who::owner()
            },
            peer: Some(peer),
            spills: Arc::clone(&self.spills),
            audit: AuditLog::of(&self.config_dir, self.vault.keyring()),
            verifiers: Verifiers::beside_this_program(),
            lease: self.lease,
            application: Mutex::default(),
            challenges: Mutex::default(),
            live: Mutex::default(),
            tables: Mutex::default(),
            writes: Mutex::default(),
        })
    }

    /// Has engines drop what they hear nothing of for so long, in place of an hour.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Removes what the work of this process left on the disk: it ends now, maybe in the middle of
    /// a query.
    pub fn end(&self) {
        self.spills.end();
    }

    /// Answers one request of a connection.
    pub(crate) fn handle(&self, message: &Message, talk: &mut Talk) -> Result<Reply, ClientError> {
        let kind = ClientMessage::try_from(i32::from(message.kind))
            .map_err(|_| ClientError::UnknownMessage(message.kind))?;
        let answer = self.answer(kind, message, talk);
        if let Err(error) = &answer
            && error.is_refusal()
            && !only_asked(kind, message, error)
        {
            self.audit_refusal(kind, message, error);
        }
        answer
    }

    fn answer(
        &self,
        kind: ClientMessage,
        message: &Message,
        talk: &mut Talk,
    ) -> Result<Reply, ClientError> {
        if talk.greeted || kind == ClientMessage::Hello {
            self.follow_for(kind)?;
        }
        if kind == ClientMessage::Hello {
            let welcome = self.hello(&decode(message, "HELLO")?)?;
            talk.greeted = true;
            return reply(ClientMessage::Welcome, &welcome);
        }
        if !talk.greeted {
            return Err(ClientError::NotGreeted);
        }
        match kind {
            ClientMessage::OpenTable => reply(
                ClientMessage::TableInfo,
                &self.open_table(&decode(message, "OPEN_TABLE")?)?,
            ),
            ClientMessage::NewSession => {
                let request: NewSession = decode(message, "NEW_SESSION")?;
                reply(ClientMessage::Session, &self.new_session(&request)?)
            }
            ClientMessage::NewChallenge => reply(ClientMessage::Challenge, &self.new_challenge()?),
            ClientMessage::AdmitEngine => reply(
                ClientMessage::Admitted,
                &self.admit(&decode(message, "ADMIT_ENGINE")?)?,
            ),
            ClientMessage::SealStage => reply(
                ClientMessage::SealedStage,
                &self.seal_stage(&decode(message, "SEAL_STAGE")?)?,
            ),
            ClientMessage::ReleaseKeys => reply(
                ClientMessage::KeysReleased,
                &self.release_keys(&decode(message, "RELEASE_KEYS")?)?,
            ),
            ClientMessage::AcceptCommits => reply(
                ClientMessage::CommitsAccepted,
                &self.accept_commits(&decode(message, "ACCEPT_COMMITS")?)?,
            ),
            ClientMessage::ReadCache => reply(
                ClientMessage::CommitsAccepted,
                &self.read_cache(&decode(message, "READ_CACHE")?)?,
            ),
            ClientMessage::OpenResult => {
                let request: OpenResult = decode(message, "OPEN_RESULT")?;
                Ok(Reply::of(
                    self.open_result(&request)?,
                    request.session,
                    request.keep_bytes,
                ))
            }
            ClientMessage::RunAtClient => {
                let request: RunAtClient = decode(message, "RUN_AT_CLIENT")?;
                Ok(Reply::of(
                    self.run_at_client(&request)?,
                    request.session,
                    request.keep_bytes,
                ))
            }
            ClientMessage::PickBounds => reply(
                ClientMessage::BoundsPicked,
                &self.pick_bounds(&decode(message, "PICK_BOUNDS")?)?,
            ),
            ClientMessage::SealValue => reply(
                ClientMessage::ValueSealed,
                &self.seal_value(decode(message, "SEAL_VALUE")?)?,
            ),
            ClientMessage::OpenError => reply(
                ClientMessage::ErrorOpened,
                &self.open_error(&decode(message, "OPEN_ERROR")?)?,
            ),
            ClientMessage::OpenMetrics => reply(
                ClientMessage::MetricsOpened,
                &self.open_metrics(&decode(message, "OPEN_METRICS")?)?,
            ),
            ClientMessage::EncryptLiterals => reply(
                ClientMessage::LiteralsEncrypted,
                &self.encrypt_literals(&decode(message, "ENCRYPT_LITERALS")?)?,
            ),
            ClientMessage::DescribeFragment => reply(
                ClientMessage::FragmentDescribed,
                &describe(&decode(message, "DESCRIBE_FRAGMENT")?)?,
            ),
            ClientMessage::BeginWrite => reply(
                ClientMessage::WriteBegun,
                &self.begin_write(&decode(message, "BEGIN_WRITE")?)?,
            ),
            ClientMessage::WriteRows => reply(
                ClientMessage::RowsTaken,
                &self.write_rows(&decode(message, "WRITE_ROWS")?, &mut talk.rows)?,
            ),
            ClientMessage::PublishWrite => reply(
                ClientMessage::WritePublished,
                &self.publish_write(&decode(message, "PUBLISH_WRITE")?)?,
            ),
            ClientMessage::AbortWrite => reply(
                ClientMessage::WriteAborted,
                &self.abort_write(&decode(message, "ABORT_WRITE")?)?,
            ),
            ClientMessage::DropTable => reply(
                ClientMessage::TableDropped,
                &self.drop_table(&decode(message, "DROP_TABLE")?)?,
            ),
            ClientMessage::RenameTable => reply(
                ClientMessage::TableRenamed,
                &self.rename_table(&decode(message, "RENAME_TABLE")?)?,
            ),
            ClientMessage::CheckPlain => reply(
                ClientMessage::PlainChecked,
                &self.check_plain(&decode(message, "CHECK_PLAIN")?)?,
            ),
            ClientMessage::CheckSources => reply(
                ClientMessage::SourcesChecked,
                &self.check_sources(&decode(message, "CHECK_SOURCES")?)?,
            ),
            ClientMessage::CheckRead => reply(
                ClientMessage::ReadChecked,
                &self.check_read(&decode(message, "CHECK_READ")?)?,
            ),
            ClientMessage::CheckSettings => reply(
                ClientMessage::SettingsChecked,
                &self.check_settings(&decode(message, "CHECK_SETTINGS")?)?,
            ),
            ClientMessage::EndSession => reply(
                ClientMessage::SessionEnded,
                &self.end_session(&decode(message, "END_SESSION")?)?,
            ),
            _ => Err(ClientError::UnknownMessage(message.kind)),
        }
    }

    fn hello(&self, hello: &Hello) -> Result<Welcome, ClientError> {
        if hello.protocol != PROTOCOL {
            return Err(ClientError::Version(hello.protocol));
        }
        let policy = self.policy_now()?;
        if hello.cluster_deploy_mode && !policy.trusts_cluster_deploy_mode() {
            return Err(ClientError::ClusterDeployMode);
        }
        if hello.host_engines && !policy.accepts_host_results() {
            return Err(ClientError::Evidence(EvidenceError::HostNotAccepted));
        }
        self.application.lock().greet(hello)?;
        Ok(Welcome {
            owner_key: self
                .vault
                .keyring()
                .owner_public()
                .as_bytes()
                .to_vec()
                .into(),
            engine_version: coffer_protocol::evidence::VERSION.to_owned(),
            evidence_kinds: policy
                .accepted_evidence()
                .iter()
                .map(ToString::to_string)
                .collect(),
            renew_evidence_after_seconds: policy.attestation().renew_evidence_after_seconds.get(),
        })
    }

    fn new_session(
        &self,
        request: &NewSession,
    ) -> Result<coffer_protocol::wire::Session, ClientError> {
        let id = self.live.lock().sessions.number()?;
        let made = self.made_session(id, request);
        self.live.lock().sessions.begin(id, made)?;
        Ok(coffer_protocol::wire::Session {
            session: id.as_bytes().to_vec().into(),
        })
    }

    fn made_session(&self, id: SessionId, request: &NewSession) -> Result<Session, ClientError> {
        let key = match request.caches {
            // What goes to host engines is as good as in clear; what is cached would stay so.
            true if self.hosts() => return Err(ClientError::ForHosts("cached rows")),
            true => self.live.lock().sessions.cache_key(id)?,
            false => SessionKey::generate()?,
        };
        let query = self.query(id, &request.query)?;
        Ok(Session::new(id, key, request.caches, query, self.lease))
    }

    /// What descriptors say of the sessions of this client engine: the number of the next one, and
    /// which of those before it live.
    pub(crate) fn horizon(&self) -> (u64, Vec<u64>) {
        self.live.lock().sessions.horizon()
    }

    pub(crate) fn session(&self, id: &[u8]) -> Result<Shared, ClientError> {
        let id = SessionId::from_slice(id).map_err(|_| ClientError::SessionUnknown)?;
        self.live.lock().sessions.get(id)
    }

    fn end_session(&self, request: &EndSession) -> Result<SessionEnded, ClientError> {
        let id =
            SessionId::from_slice(&request.session).map_err(|_| ClientError::SessionUnknown)?;
        let mut live = self.live.lock();
        // One that was ended from here is ended.
        if !live.end(id) && !live.sessions.was_revoked(id) {
            return Err(ClientError::SessionUnknown);
        }
        Ok(SessionEnded {})
    }

    /// Whether engines are host engines: what goes to them is as good as in clear.
    pub(crate) fn hosts(&self) -> bool {
        self.application.lock().hosts
    }

    fn seal_value(&self, request: SealValue) -> Result<ValueSealed, ClientError> {
        if self.hosts() {
            return Err(ClientError::ForHosts("the value of a subquery"));
        }
        let session = self.session(&request.session)?;
        let mut session = session.lock();
        let id = request.id;
        let plain = padded(&SealedObject {
            kind: Some(Kind::Value(Value {
                id,
                literal: request.literal,
            })),
        });
        let object = Object {
            origins: session.origins_here()?,
            digest: sha256(&plain),
            sealed: seal_object(&session.key, session.id, ObjectKind::Value, &plain)?,
        };
        session.set(id, object)?;
        Ok(ValueSealed {})
    }

    fn open_error(&self, request: &OpenError) -> Result<ErrorOpened, ClientError> {
        let session = self.session(&request.session)?;
        let session = session.lock();
        let identity = identity::error(
            session.id,
            StageId(request.stage),
            Partition(request.partition),
        );
        let plain = open_message(&session.key, &identity, &request.sealed_error)
            .map_err(ClientError::Opening)?;
        let detail =
            ErrorDetail::decode(plain.as_slice()).map_err(|_| ClientError::Malformed("error"))?;
        Ok(ErrorOpened {
            detail: Some(detail),
        })
    }

    fn open_metrics(&self, request: &OpenMetrics) -> Result<MetricsOpened, ClientError> {
        let session = self.session(&request.session)?;
        let session = session.lock();
        let mut sums: Vec<NodeMetrics> = Vec::new();
        for task in &request.tasks {
            let identity = identity::metrics(
                session.id,
                StageId(request.stage),
                Partition(task.partition),
            );
            let plain = open_message(&session.key, &identity, &task.sealed)
                .map_err(ClientError::Opening)?;
            let metrics = TaskMetrics::decode(plain.as_slice())
                .map_err(|_| ClientError::Malformed("metrics"))?;
            for node in metrics.nodes {
                match sums.iter_mut().find(|sum| sum.node == node.node) {
                    Some(sum) => {
                        sum.rows = sum.rows.saturating_add(node.rows);
                        sum.nanos = sum.nanos.saturating_add(node.nanos);
                        sum.spilled_bytes = sum.spilled_bytes.saturating_add(node.spilled_bytes);
                    }
                    None => sums.push(node),
                }
            }
        }
        Ok(MetricsOpened { nodes: sums })
    }
}

/// For EXPLAIN: the text holds the query's literals and goes to the driver alone, which has them
/// anyway.
fn describe(request: &DescribeFragment) -> Result<FragmentDescribed, ClientError> {
    let fragment = Fragment::decode(request.fragment.clone())
        .map_err(|_| ClientError::Malformed("fragment"))?;
    Ok(FragmentDescribed {
        text: coffer_plan::readable(&fragment),
    })
}

/// Whether a driver that has another way asked what the policy lists, and nobody was refused.
fn only_asked(kind: ClientMessage, message: &Message, error: &ClientError) -> bool {
    kind == ClientMessage::OpenTable
        && matches!(error, ClientError::Unlisted(_))
        && decode::<OpenTable>(message, "OPEN_TABLE").is_ok_and(|request| request.whether)
}

fn decode<M: prost::Message + Default>(
    message: &Message,
    name: &'static str,
) -> Result<M, ClientError> {
    message
        .decode(name)
        .map_err(|_| ClientError::Malformed(name))
}

fn reply<M: prost::Message>(kind: ClientMessage, message: &M) -> Result<Reply, ClientError> {
    let mut out = Vec::new();
    put_message(&mut out, kind_byte(kind), message).map_err(|_| ClientError::AnswerTooLong)?;
    Ok(Reply::Message(out))
}

/// A message type as it lies on the wire.
pub(crate) fn kind_byte(kind: ClientMessage) -> u8 {
    // All types are far below 256; 0 is refused by every receiver.
    u8::try_from(i32::from(kind)).unwrap_or(0)
}
