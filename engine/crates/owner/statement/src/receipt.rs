//! What a receipt says.

use std::collections::BTreeSet;

use coffer_audit::EngineUse;
use serde::{Deserialize, Serialize};

use crate::EnvelopeError;

/// The type of what is signed.
pub const RECEIPT_TYPE: &str = "application/vnd.coffer.receipt+json";

/// Of one query's session. Shapes of the file: docs/reference/receipts.md.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// 1.
    pub format: u32,
    /// Whose query.
    pub query: Query,
    /// When the session began and when this was made: RFC 3339, in UTC, by the client site's clock.
    pub began: String,
    /// See `began`.
    pub made: String,
    /// SHA-256 of each policy that was followed meanwhile, in hexadecimal.
    pub policies: BTreeSet<String>,
    /// What ran in engines.
    pub plan: Plan,
    /// The engines that had keys of it, and what proved them.
    pub engines: Vec<EngineUse>,
    /// What was read.
    pub inputs: Vec<Input>,
    /// What was written.
    pub written: Vec<Written>,
    /// What ran at the client site.
    pub at_client: AtClient,
    /// What the client engine gave out.
    pub results: Vec<ResultPart>,
}

/// Whose query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The session, in hexadecimal: the audit log's records have it.
    pub session: String,
    /// As in the audit log.
    pub user: String,
    /// The Spark application.
    pub application: String,
    /// SHA-256 of the text, in hexadecimal; the audit log has the text.
    pub text_sha256: String,
}

/// The fragments that were sealed for engines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How many times one was sealed.
    pub stages: u64,
    /// SHA-256 over them in the order of sealing, each as stage (u32 LE), length (u64 LE), bytes;
    /// in hexadecimal.
    pub sha256: String,
}

/// A table that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its id; of an unverified input the digest of its pinned files.
    pub id: String,
    /// From 1; 0 for an unverified input.
    pub version: u64,
    /// SHA-256 of the version's manifest, in hexadecimal; empty for an unverified input.
    pub manifest: String,
    /// The columns whose keys were used.
    pub columns: Vec<String>,
}

/// A table that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// The version that was prepared; the audit log says whether it was published.
    pub version: u64,
}

/// What ran at the client site.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtClient {
    /// Fragments that the client engine ran.
    pub fragments: u64,
    /// SHA-256 over them, each as length (u64 LE), bytes; in hexadecimal.
    pub sha256: String,
    /// Spark's own operators over results, in the driver: by the driver's word.
    pub driver: Vec<String>,
}

/// Rows that the client engine gave out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultPart {
    /// The stage whose rows they are; 0: of a fragment that ran at the client.
    pub stage: u32,
    /// Which run of it.
    pub execution: u64,
    /// How many rows.
    pub rows: u64,
    /// [`crate::ResultDigest`] of them, in hexadecimal.
    pub digest: String,
    /// Whether all partitions of the stage are in it.
    pub whole: bool,
}

/// Why a receipt cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// It is not signed as it must be.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// It is signed, and another thing.
    #[error("it is no receipt that this version reads: {0}")]
    Contents(serde_json::Error),
    /// A newer format.
    #[error("it has format {0}; this version reads 1")]
    Format(u32),
}

impl Receipt {
    /// What an envelope holds that this key signed.
    pub fn open(envelope: &crate::Envelope, public: &[u8; 32]) -> Result<Self, ReceiptError> {
        let payload = envelope.open(RECEIPT_TYPE, public)?;
        let receipt: Self = serde_json::from_slice(&payload).map_err(ReceiptError::Contents)?;
        match receipt.format {
            1 => Ok(receipt),
            other => Err(ReceiptError::Format(other)),
        }
    }
}
