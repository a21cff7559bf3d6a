//! What a record says.

use std::{collections::BTreeMap, os::unix::fs::MetadataExt};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use coffer_custody::AuditKey;
use coffer_format::Digest;
use serde::{Deserialize, Serialize};

use crate::AuditError;

/// Bytes of a query's text that are kept; of a longer one the beginning.
const QUERY_BYTES: usize = 64 << 10;

/// Bytes of a refusal's reason that are kept.
const REASON_BYTES: usize = 4 << 10;
/// Bytes of each name in a refusal.
const NAME_BYTES: usize = 256;
/// Names of columns in a refusal; of more, their number.
const NAMES: usize = 100;

/// One record of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// From 1, without gaps.
    pub sequence: u64,
    /// SHA-256 of the record before, as it lies in the file; of the first, zeros.
    pub previous: Digest,
    /// When, by this site's clock: RFC 3339, in UTC.
    pub at: String,
    /// Who.
    pub who: Who,
    /// What.
    pub event: Event,
}

/// Who did something, as far as the client site knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Who {
    /// The policy's name for the user, or [`Who::OWNER`] or [`Who::NOBODY`], which no user is
    /// called.
    pub user: String,
    /// The account of the operating system; [`Who::ELSEWHERE`] for who came over the network.
    pub uid: u32,
    /// Of who came over the network: SHA-256 of the certificate, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub certificate: String,
    /// The Spark application; empty for a command.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub application: String,
}

impl Who {
    /// Who has the keyring's passphrase.
    pub const OWNER: &str = "(owner)";
    /// An account that is no user's.
    pub const NOBODY: &str = "(nobody)";

    /// No account of this machine.
    pub const ELSEWHERE: u32 = u32::MAX;

    /// The owner, in a command that this account runs.
    pub fn owner() -> Self {
        Self {
            user: Self::OWNER.to_owned(),
            uid: own_uid(),
            certificate: String::new(),
            application: String::new(),
        }
    }

    /// As it is written: what the driver says of itself may be of any length.
    pub(crate) fn bounded(&self) -> Self {
        Self {
            application: cut(self.application.clone(), NAME_BYTES),
            ..self.clone()
        }
    }
}

/// The account that this process runs as; one that is no account's where the system does not say.
fn own_uid() -> u32 {
    std::fs::metadata("/proc/self").map_or(u32::MAX, |found| found.uid())
}

/// The beginning of a text, with a mark where something is left out.
fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        text.push('…');
    }
    text
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was allowed; written before it is done.
    Granted,
    /// It was refused.
    Refused,
}

/// Something that was done or refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// `release`, `query`, `decrypt`, `keys rotate`, …
    pub action: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Why it was refused: a code of docs/reference/errors.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The same in words. Holds no value of data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The query it was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<Query>,
    /// The tables whose keys it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableUse>,
    /// The engines that keys went to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineUse>,
    /// SHA-256 of the policy that it was done or refused under, in hexadecimal; not in records from
    /// before policies were signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What else there is to say, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

impl Event {
    /// Something that is about to be done.
    pub fn granted(action: &str) -> Self {
        Self {
            action: action.to_owned(),
            outcome: Outcome::Granted,
            code: None,
            reason: None,
            query: None,
            tables: Vec::new(),
            engines: Vec::new(),
            policy: None,
            details: BTreeMap::new(),
        }
    }

    /// Something that was refused.
    pub fn refused(action: &str, code: &str, reason: String) -> Self {
        Self {
            outcome: Outcome::Refused,
            code: Some(code.to_owned()),
            reason: Some(reason),
            ..Self::granted(action)
        }
    }

    /// As it is written. A refusal quotes what was asked for, and who asks must not be able to make
    /// it too long to be recorded; what is granted is written whole, or not done.
    pub(crate) fn bounded(mut self) -> Self {
        if self.outcome == Outcome::Granted {
            return self;
        }
        self.reason = self.reason.map(|reason| cut(reason, REASON_BYTES));
        for table in &mut self.tables {
            for name in [
                &mut table.name,
                &mut table.id,
                &mut table.manifest,
                &mut table.master,
            ] {
                *name = cut(std::mem::take(name), NAME_BYTES);
            }
            for names in [&mut table.columns, &mut table.keys] {
                let more = names.len().saturating_sub(NAMES);
                names.truncate(NAMES);
                *names = names.drain(..).map(|name| cut(name, NAME_BYTES)).collect();
                if more > 0 {
                    names.push(format!("and {more} more"));
                }
            }
        }
        self.details = self
            .details
            .into_iter()
            .map(|(name, message)| (name, cut(message, REASON_BYTES)))
            .collect();
        self
    }

    /// With one detail more.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<String>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// With one table more.
    #[must_use]
    pub fn table(mut self, table: TableUse) -> Self {
        self.tables.push(table);
        self
    }
}

/// A query, whose text only the keyring opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Its session, in hexadecimal.
    pub session: String,
    /// Its text, sealed, in Base64. It is what the driver says: a driver that is not trusted may
    /// say anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
}

impl Query {
    /// Seals the text of a query.
    pub fn seal(key: &AuditKey, session: String, text: &str) -> Result<Self, AuditError> {
        let kept = text.floor_char_boundary(QUERY_BYTES);
        let sealed = match text.get(..kept).unwrap_or_default() {
            "" => None,
            text => Some(BASE64.encode(key.seal(text.as_bytes())?)),
        };
        Ok(Self { session, sealed })
    }

    /// The text; none if there was none.
    pub fn text(&self, key: &AuditKey) -> Result<Option<String>, AuditError> {
        let Some(sealed) = &self.sealed else {
            return Ok(None);
        };
        let sealed = BASE64.decode(sealed).map_err(|_| AuditError::Query)?;
        let text = key.open(&sealed).map_err(|_| AuditError::Query)?;
        String::from_utf8(text)
            .map(Some)
            .map_err(|_| AuditError::Query)
    }
}

/// A table of which keys were used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableUse {
    /// Its name.
    pub name: String,
    /// Its id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Of which version; 0: of none in particular.
    #[serde(default)]
    pub version: u64,
    /// SHA-256 of that version's manifest, in hexadecimal; not in records from before receipts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// Which columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Ids of the KEKs that went out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The master that wraps the table's key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub master: String,
    /// Whether it is written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub write: bool,
}

/// An engine, and what proved it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineUse {
    /// Its id.
    pub id: String,
    /// The kind of its evidence; `host` for an engine that proves nothing and gets no column's key.
    pub kind: String,
    /// What code it is, as its evidence says; empty for evidence that does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub measurement: String,
    /// SHA-256 of its evidence, in hexadecimal.
    pub evidence: String,
}
