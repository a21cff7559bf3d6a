//! Why the client engine says no, as the driver is told: a stable code, a sentence, and what to do.

use arrow::error::ArrowError;
use coffer_custody::{KeyringError, LocationError, PolicyError};
use coffer_plan::{Unsupported, codec::CodecError};
use coffer_protocol::{EvidenceError, ReleaseError, wire::Problem};
use datafusion_common::DataFusionError;
use thiserror::Error;

use crate::coverage::CoverageError;

/// A code with the check that refused at its end: one code for each.
macro_rules! by_check {
    ($code:literal, $error:expr) => {
        match $error.refused_by() {
            coffer_sealing::RefusedBy::Tag => concat!($code, "_tag"),
            coffer_sealing::RefusedBy::Length => concat!($code, "_length"),
            coffer_sealing::RefusedBy::Order => concat!($code, "_order"),
            coffer_sealing::RefusedBy::Format => concat!($code, "_format"),
            coffer_sealing::RefusedBy::Identity => concat!($code, "_identity"),
            coffer_sealing::RefusedBy::Nothing => "sealing",
        }
    };
}

mod revoked;
mod table;

pub use revoked::Revoked;

/// Every refusal. Codes are those of `docs/reference/errors.md`.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Not a message of the client protocol, or not at this point.
    #[error("message type {0} has no place here")]
    UnknownMessage(u8),
    /// The payload does not decode.
    #[error("the payload of a {0} message cannot be decoded")]
    Malformed(&'static str),
    /// Another request before HELLO.
    #[error("the connection has not said HELLO")]
    NotGreeted,
    /// The plugin is of another protocol version.
    #[error("the plugin speaks protocol {0}, this client engine speaks 1")]
    Version(u32),
    /// One client engine serves one application.
    #[error("this client engine serves another application")]
    OtherApplication,
    /// The driver runs on the host, and the policy does not trust it.
    #[error("the driver runs in cluster deploy mode, on a site that the policy does not trust")]
    ClusterDeployMode,
    /// The keyring does not open.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// The policy cannot be read, or does not allow it.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The same of the policy as a whole, as a user is told: its text and its place are the
    /// owner's.
    #[error("the owner's policy cannot be used as it is; the owner's audit log says why")]
    PolicyOfOwner(#[source] PolicyError),
    /// A table does not open.
    #[error(transparent)]
    Table(#[from] coffer_catalog::Error),
    /// A table or file at another storage, or at no path.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// A plain file that is not among the policy's `unverified_inputs`.
    #[error("{} is plain, and the policy does not list it among its unverified inputs",
        .0.display())]
    Unlisted(std::path::PathBuf),
    /// A scan of unverified inputs in a part of a plan that runs here.
    #[error("unverified inputs are read by engines, not by the client engine")]
    PlainAtClient,
    /// Something plain at a URL of which nobody here knows whether a local folder is behind it.
    #[error(
        "whether `{0}` leads into a zone of the policy is not known, so nothing plain is made there"
    )]
    PlainElsewhere(String),
    /// What a query uses is not allowed any more.
    #[error("the query's session was ended: {0}")]
    Revoked(crate::Revoked),
    /// An engine that showed fewer kinds of evidence than the policy wants for what a query uses.
    #[error(
        "table `{table}` is for engines that show {wanted} evidence together, and engine {engine} \
            showed {}", if shown.is_empty() { "none".to_owned() } else { shown.to_string() }
    )]
    MoreEvidence {
        /// The table, whole or by one of its columns.
        table: String,
        /// What is wanted.
        wanted: coffer_protocol::EvidenceKinds,
        /// The engine.
        engine: String,
        /// What it showed.
        shown: coffer_protocol::EvidenceKinds,
    },
    /// A user has had more literals encrypted for a key than the policy lets one.
    #[error(
        "user `{user}` has had {most} literals encrypted for `{column}`, as many as the policy \
            allows in a day"
    )]
    TooManyLiterals {
        /// The policy's name for the user.
        user: String,
        /// The column, as it is stored.
        column: String,
        /// How many.
        most: u32,
    },
    /// A setting holds a secret of Coffer's.
    #[error("{key} holds {what}, and Spark hands its settings to every executor")]
    SecretInSettings {
        /// The setting.
        key: String,
        /// Which secret.
        what: String,
    },
    /// A user would make a folder where no role of the user's may.
    #[error("user `{user}` may not make a table at {}", path.display())]
    DeniedFolder {
        /// The policy's name for the user.
        user: String,
        /// Where.
        path: std::path::PathBuf,
    },
    /// The challenge was handed out too long ago.
    #[error("the challenge has expired")]
    ChallengeExpired,
    /// Evidence was refused.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// Keys cannot be released.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// No engine of this id was admitted.
    #[error("no engine {0} has been admitted")]
    EngineUnknown(String),
    /// No table was opened under this handle.
    #[error("there is no open table {0}")]
    HandleUnknown(u32),
    /// The session never was, or has ended.
    #[error("the session is not open")]
    SessionUnknown,
    /// A stage whose rows no session of the application has cached.
    #[error("stage {0} of the session named has no cached rows")]
    CacheUnknown(u32),
    /// The fragment cannot be run exactly as Spark would.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The stage's parts do not fit together.
    #[error("stage {stage}: {what}")]
    Stage {
        /// The stage.
        stage: u32,
        /// What does not fit.
        what: &'static str,
    },
    /// The stage was sealed before, otherwise.
    #[error("stage {0} was sealed before with other tasks")]
    StageTaken(u32),
    /// No such stage was sealed.
    #[error("stage {0} was not sealed in this session and execution")]
    StageUnknown(u32),
    /// A broadcast's outputs were accepted before, and were others.
    #[error("other outputs of broadcast stage {0} were accepted before")]
    BroadcastTaken(u32),
    /// Tasks would read something twice, or not at all.
    #[error("stage {stage}: {source}")]
    Coverage {
        /// The stage.
        stage: u32,
        /// What is wrong.
        source: CoverageError,
    },
    /// A column of the fragment is not the table's.
    #[error("stage {stage}: column `{column}` is not of the table, or has another type there")]
    Column {
        /// The stage.
        stage: u32,
        /// The column.
        column: String,
    },
    /// A stage reads one whose commit records were not accepted.
    #[error("stage {stage} reads stage {producer}, whose outputs have not been accepted")]
    AttemptsMissing {
        /// The reading stage.
        stage: u32,
        /// The stage it reads.
        producer: u32,
    },
    /// A bounds or value object that was not made.
    #[error("stage {stage} names object {object}, which has not been made")]
    ObjectUnknown {
        /// The stage.
        stage: u32,
        /// The object.
        object: u32,
    },
    /// An object is set once.
    #[error("object {0} was set before to something else")]
    ObjectTaken(u32),
    /// Not one commit record for each map, or not those of this stage.
    #[error("stage {stage}: {got} commit records came for {want} tasks")]
    CommitCount {
        /// The stage.
        stage: u32,
        /// How many tasks it has.
        want: u32,
        /// How many came.
        got: usize,
    },
    /// A commit record does not open.
    #[error("stage {stage}, partition {partition}: the commit record does not open: {source}")]
    CommitOpening {
        /// The stage.
        stage: u32,
        /// The partition.
        partition: u32,
        /// Why.
        source: coffer_sealing::Error,
    },
    /// A commit record is of another task, or does not fit the stage.
    #[error("stage {stage}, partition {partition}: the commit record is not this task's")]
    CommitIdentity {
        /// The stage.
        stage: u32,
        /// The partition.
        partition: u32,
    },
    /// Two tasks with one attempt id.
    #[error("stage {stage}, partition {partition}: its attempt is another partition's")]
    CommitRepeated {
        /// The stage.
        stage: u32,
        /// The partition.
        partition: u32,
    },
    /// Tasks read two versions of an output that is not the same each time it is made.
    #[error(
        "stage {stage} was made from two versions of the rows of stage {producer}, which a \
            repeated task makes anew"
    )]
    Mixed {
        /// The reading stage.
        stage: u32,
        /// The stage whose rows were made again.
        producer: u32,
    },
    /// Not the partitions that must come.
    #[error("stage {stage}: partition {partition} is missing, foreign, or was taken before")]
    ResultPartition {
        /// The stage.
        stage: u32,
        /// The partition.
        partition: u32,
    },
    /// A stream of a result or sample does not open.
    #[error("stage {stage}, partition {partition}: the stream does not open: {source}")]
    Stream {
        /// The stage.
        stage: u32,
        /// The partition.
        partition: u32,
        /// Why.
        source: coffer_sealing::Error,
    },
    /// A stream holds other counts than its commit record says.
    #[error(
        "stage {stage}, partition {partition}: the stream is not the one that the commit record \
            counts"
    )]
    StreamCount {
        /// The stage.
        stage: u32,
        /// The partition.
        partition: u32,
    },
    /// An authentic frame holds no batch of the stage's schema.
    #[error(
        "stage {stage}, partition {partition}: a frame holds no batch of the stage's schema: \
            {source}"
    )]
    Payload {
        /// The stage.
        stage: u32,
        /// The partition.
        partition: u32,
        /// Why.
        source: CodecError,
    },
    /// The finish of a result failed.
    #[error("the result could not be finished: {0}")]
    Finish(#[from] DataFusionError),
    /// Spark's own error, met in the finish.
    #[error("{message}")]
    Spark {
        /// Spark's class.
        class: String,
        /// Spark's text.
        message: String,
    },
    /// Host engines would be given what only enclaves may have.
    #[error("engines are host engines, and may not have {0}")]
    ForHosts(&'static str),
    /// Rows that were to wait here are not here.
    #[error("there are no kept rows {0}: they were used, or the session never had them")]
    KeptUnknown(u32),
    /// More would come to the client than the query allows.
    #[error(
        "more than {0} bytes would come to the client for the part of the query that only this \
            site may do"
    )]
    TooMuchAtClient(u64),
    /// A table that is read here would give more than the query allows.
    #[error("reading `{columns}` of table `{table}` here takes more than {most} stored bytes")]
    TooMuchRead {
        /// The owner's name of it.
        table: String,
        /// Those that are read.
        columns: String,
        /// As `spark.coffer.client.maxBytes` says.
        most: u64,
    },
    /// The work here takes more memory than the query allows.
    #[error(
        "the part of the query that only this site may do takes more than {0} bytes of memory, \
            twice spark.coffer.client.maxBytes"
    )]
    ClientMemory(u64),
    /// A scan that runs here names a column that the table's files do not have.
    #[error("column `{0}` is not of the table, or has another type there")]
    ClientColumn(String),
    /// A sealed error or metrics blob does not open.
    #[error("what the engine sealed does not open: {0}")]
    Opening(coffer_sealing::Error),
    /// Sealing failed here.
    #[error("sealing failed: {0}")]
    Sealing(#[from] coffer_sealing::Error),
    /// No write of this number was begun, or it is over.
    #[error("there is no write {0}: it was published or given up")]
    WriteUnknown(u32),
    /// The driver's rows are no Arrow stream of the table's columns.
    #[error("the driver's rows are no Arrow stream of the table's columns: {0}")]
    Rows(#[source] ArrowError),
    /// Rows may be missing: a stream has not come to its end, or was not counted.
    #[error("{said} streams of rows were to be published, and {ended} came to their end")]
    RowStreams {
        /// As the request says.
        said: u32,
        /// As came to their end.
        ended: u32,
    },
    /// Executors of another site could have a part in reading plain data.
    #[error(
        "{0}: plain data is read to be sealed only where the executors are trusted, and they \
        are processes of another site"
    )]
    PlainSources(String),
    /// The policy trusts the executors, and what goes to them is in clear.
    #[error(
        "{0}: the policy trusts the executors' site with plain data, and Spark's network is \
        neither authenticated nor encrypted"
    )]
    ExecutorsInClear(String),
    /// A column of a new table has a type that no sealed table can hold.
    #[error("column `{0}` has a type that a sealed table cannot hold")]
    ColumnType(String),
    /// Engines write columns that are `tee` only: the keys of other protections stay here.
    #[error(
        "table `{0}` has columns that are stored under other protections than \"tee\", which \
            Spark does not write"
    )]
    HostReadable(String),
    /// The user may not use the keys of these columns of a table; `*`: of any.
    #[error("user `{user}` may not read {table}.{}", .columns.join(&format!(", {table}.")))]
    Denied {
        /// The policy's name for the user.
        user: String,
        /// The table.
        table: String,
        /// Its columns.
        columns: Vec<String>,
    },
    /// A key service for nobody.
    #[error("the policy names no users, so a key service has nobody to serve")]
    NoUsers,
    /// The connection does not say whose it is.
    #[error("the system does not say which account connects")]
    NoCredentials,
    /// An account that is no user's.
    #[error("account {0} is no user of the policy")]
    UnknownAccount(u32),
    /// A certificate that is no user's.
    #[error("no user of the policy has this certificate, with the names: {0}")]
    UnknownCertificate(String),
    /// A relay that does not say whom it brings.
    #[error("a connection of the relay did not begin with whom it is for")]
    NotIntroduced,
    /// More connections of one account than a key service takes.
    #[error("an account has {0} connections at most")]
    TooManyConnections(usize),
    /// More applications of one user than a key service takes.
    #[error("a user has {0} applications at most")]
    TooManyApplications(usize),
    /// The audit log cannot be written, so nothing is released.
    #[error(transparent)]
    Audit(#[from] coffer_audit::AuditError),
    /// The user may not write the table.
    #[error("user `{user}` may not write table `{table}`")]
    DeniedWrite {
        /// The policy's name for the user.
        user: String,
        /// The table.
        table: String,
    },
    /// A literal that cannot be compared with a stored column.
    #[error("a literal cannot be encrypted for `{stored}`: {reason}")]
    Literal {
        /// The stored column.
        stored: String,
        /// Why.
        reason: String,
    },
    /// At the path is another table than the one that was asked for.
    #[error("at {path} is the table {got}, not {want}")]
    OtherTable {
        /// As asked.
        path: String,
        /// The id or name that was asked for.
        want: String,
        /// The id that was opened.
        got: String,
    },
    /// What an engine says that it wrote cannot be so.
    #[error("a written file cannot be published: {0}")]
    WrittenFile(&'static str),
    /// A receipt of a session that asked for none when it began.
    #[error("the session asked for no receipt when it began")]
    NoReceipt,
    /// A receipt was not signed.
    #[error("the receipt was not made: {0}")]
    Receipt(#[from] coffer_statement::EnvelopeError),
    /// A result has no digest.
    #[error("the result cannot be in a receipt: {0}")]
    Digest(#[from] coffer_statement::ResultError),
    /// The answer would be over the protocol's limit.
    #[error("the answer is too long for one message")]
    AnswerTooLong,
    /// The request's handler panicked; it was contained.
    #[error("the client engine failed in an unforeseen way")]
    Panicked,
}

impl From<coffer_format::Error> for ClientError {
    fn from(error: coffer_format::Error) -> Self {
        Self::Table(error.into())
    }
}

impl ClientError {
    /// Whether who asks is no user of the policy, or no longer.
    pub(crate) fn is_stranger(&self) -> bool {
        matches!(self, Self::UnknownAccount(_) | Self::UnknownCertificate(_))
    }

    /// Whether somebody was refused what the owner, the policy or the table's state does not allow:
    /// the audit log has those.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Table(error) => !matches!(
                error,
                coffer_catalog::Error::Conflict { .. }
                    | coffer_catalog::Error::Format(coffer_format::Error::Io { .. })
            ),
            Self::Denied { .. }
            | Self::DeniedWrite { .. }
            | Self::DeniedFolder { .. }
            | Self::TooManyLiterals { .. }
            | Self::MoreEvidence { .. }
            | Self::Revoked(_)
            | Self::Policy(_)
            | Self::Evidence(_)
            | Self::Release(_)
            | Self::ChallengeExpired
            | Self::ClusterDeployMode
            | Self::PolicyOfOwner(_)
            | Self::UnknownAccount(_)
            | Self::UnknownCertificate(_)
            | Self::Unlisted(_)
            | Self::PlainAtClient
            | Self::PlainElsewhere(_)
            | Self::PlainSources(_)
            | Self::ExecutorsInClear(_)
            | Self::ForHosts(_)
            | Self::HostReadable(_)
            | Self::OtherApplication => true,
            _ => false,
        }
    }

    /// Whether the policy cannot be used as it is.
    pub(crate) fn is_of_policy(&self) -> bool {
        matches!(self, Self::Policy(_) | Self::PolicyOfOwner(_))
    }

    /// As a user is told what is wrong with the policy as a whole.
    pub(crate) fn without_policy(self) -> Self {
        match self {
            Self::Policy(error) => Self::PolicyOfOwner(error),
            other => other,
        }
    }

    /// As the owner's log has it.
    pub(crate) fn in_owners_log(&self) -> String {
        match self {
            Self::PolicyOfOwner(error) => error.to_string(),
            other => other.to_string(),
        }
    }

    /// As a message.
    pub fn problem(&self) -> Problem {
        Problem {
            code: self.code().to_owned(),
            message: self.to_string(),
            hint: self.hint().unwrap_or_default(),
        }
    }
}
