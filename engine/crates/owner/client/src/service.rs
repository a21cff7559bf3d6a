//! The client engine's state, and which request goes where.

use std::{sync::Arc, time::Duration};

use coffer_audit::{AuditLog, Who};
use coffer_custody::{ConfigDir, Keyring, Passphrase, Vault, verifiers::Verifiers};
use coffer_process::log;
use coffer_protocol::{
    EvidenceError,
    evidence::PROTOCOL,
    framing::{Message, put_message},
    storage::{Remote, Storage},
    wire::{
        AcceptCommits, ClientMessage, EndSession, Hello, NewSession, OpenError, OpenMetrics,
        OpenResult, OpenTable, PickBounds, ReadCache, RunAtClient, SealValue, SessionEnded,
        SettingsChecked, Welcome,
    },
};
use coffer_sealing::{SessionId, SessionKey};
use parking_lot::Mutex;
use tracing::Span;

use crate::{
    ClientError, access,
    application::Application,
    bounds, cached, commits, diagnostics,
    draft::Draft,
    engines::Waiting,
    finish,
    follow::Following,
    guesses::Guesses,
    kinds::kind_byte,
    live::Live,
    receipts,
    result::ResultRows,
    rows::RowsStream,
    session::{self, Session, Shared},
    settings::Known,
    spills::Spills,
    storage::{self, Connections},
    tables::Tables,
    values,
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
    pub(crate) followed: Following,
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
        known.note_masters(&policy);
        Ok(Self {
            config_dir: config_dir.reaching(Arc::clone(&storage) as Arc<dyn Storage>),
            storage,
            vault: Arc::new(Vault::new(keyring, masters)),
            followed: Following::of(&policy),
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
        })
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
            followed: Following::of(&*self.policy_now()?),
            user: Some(user.to_owned()),
            known: Arc::clone(&self.known),
            guesses,
            read: Mutex::default(),
            account: peer.who(),
            peer: Some(peer),
            spills: Arc::clone(&self.spills),
            audit: AuditLog::of(&self.config_dir, self.vault.keyring()),
            verifiers: self.verifiers.clone(),
            lease: self.lease,
            application: Mutex::default(),
            challenges: Mutex::default(),
            live: Mutex::default(),
            tables: Mutex::default(),
            writes: Mutex::default(),
        })
    }

    /// Has evidence verified by others than the program beside this one.
    pub fn with_verifiers(self, verifiers: Verifiers) -> Self {
        Self { verifiers, ..self }
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
            ClientMessage::SealQuery => reply(
                ClientMessage::SealedQuery,
                &self.seal_query(&decode(message, "SEAL_QUERY")?)?,
            ),
            ClientMessage::ReleaseKeys => reply(
                ClientMessage::KeysReleased,
                &self.release_keys(&decode(message, "RELEASE_KEYS")?)?,
            ),
            ClientMessage::AcceptCommits => {
                let request: AcceptCommits = decode(message, "ACCEPT_COMMITS")?;
                let session = self.session(&request.session)?;
                let taken = commits::take(&mut session.lock(), &request)?;
                reply(ClientMessage::CommitsAccepted, &taken)
            }
            ClientMessage::ReadCache => {
                let request: ReadCache = decode(message, "READ_CACHE")?;
                if request.session == request.cache_session {
                    return Err(ClientError::CacheUnknown(request.cache_stage));
                }
                let cache = self.session(&request.cache_session)?;
                let session = self.session(&request.session)?;
                let read = cached::read(&cache, &session, &request)?;
                reply(ClientMessage::CommitsAccepted, &read)
            }
            ClientMessage::OpenResult => {
                let request: OpenResult = decode(message, "OPEN_RESULT")?;
                let session = self.session(&request.session)?;
                let mut rows = finish::open(&session, &request)?;
                if request.keep_bytes == 0 {
                    let part = (request.stage, request.execution);
                    rows = receipts::given_out(rows, &session, part);
                }
                Ok(Reply::of(rows, request.session, request.keep_bytes))
            }
            ClientMessage::RunAtClient => {
                let request: RunAtClient = decode(message, "RUN_AT_CLIENT")?;
                Ok(Reply::of(
                    self.run_at_client(&request)?,
                    request.session,
                    request.keep_bytes,
                ))
            }
            ClientMessage::PickBounds => {
                let request: PickBounds = decode(message, "PICK_BOUNDS")?;
                let session = self.session(&request.session)?;
                let picked = bounds::pick(&mut session.lock(), &request)?;
                reply(ClientMessage::BoundsPicked, &picked)
            }
            ClientMessage::SealValue => {
                let request: SealValue = decode(message, "SEAL_VALUE")?;
                if self.hosts() {
                    return Err(ClientError::ForHosts("the value of a subquery"));
                }
                let session = self.session(&request.session)?;
                let sealed = values::seal(&mut session.lock(), request)?;
                reply(ClientMessage::ValueSealed, &sealed)
            }
            ClientMessage::OpenError => {
                let request: OpenError = decode(message, "OPEN_ERROR")?;
                let session = self.session(&request.session)?;
                let opened = diagnostics::open_error(&session.lock(), &request)?;
                reply(ClientMessage::ErrorOpened, &opened)
            }
            ClientMessage::OpenMetrics => {
                let request: OpenMetrics = decode(message, "OPEN_METRICS")?;
                let session = self.session(&request.session)?;
                let opened = diagnostics::open_metrics(&session.lock(), &request)?;
                reply(ClientMessage::MetricsOpened, &opened)
            }
            ClientMessage::EncryptLiterals => reply(
                ClientMessage::LiteralsEncrypted,
                &self.encrypt_literals(&decode(message, "ENCRYPT_LITERALS")?)?,
            ),
            ClientMessage::DescribeFragment => reply(
                ClientMessage::FragmentDescribed,
                &diagnostics::describe(&decode(message, "DESCRIBE_FRAGMENT")?)?,
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
            ClientMessage::CheckSettings => {
                let request = decode(message, "CHECK_SETTINGS")?;
                let checked = match self.peer {
                    // The settings are another account's.
                    Some(_) => SettingsChecked {},
                    None => self.known.lock().check(&request)?,
                };
                reply(ClientMessage::SettingsChecked, &checked)
            }
            ClientMessage::MakeReceipt => reply(
                ClientMessage::ReceiptMade,
                &self.make_receipt(decode(message, "MAKE_RECEIPT")?)?,
            ),
            ClientMessage::EndSession => {
                let request: EndSession = decode(message, "END_SESSION")?;
                self.live.lock().ended(&request.session)?;
                tracing::info!(query = %log::query(&request.session), "a query ended");
                reply(ClientMessage::SessionEnded, &SessionEnded {})
            }
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
        tracing::info!(query = %log::query(id.as_bytes()), "a query began");
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
        let mut session = Session::new(id, key, request.caches, query, self.lease);
        if request.receipt {
            let draft = Draft::begin(&request.query, self.followed.digest());
            session.receipt = Some(Box::new(draft));
        }
        Ok(session)
    }

    pub(crate) fn session(&self, id: &[u8]) -> Result<Shared, ClientError> {
        Span::current().record("query", log::query(id).as_str());
        self.live.lock().session(id)
    }

    /// Whether engines are host engines: what goes to them is as good as in clear.
    pub(crate) fn hosts(&self) -> bool {
        self.application.lock().hosts
    }
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
