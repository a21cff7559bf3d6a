//! Masters: what wraps table keys and link keys. One trait; the embedded keyring is one
//! implementation, and those that ask a KMS or an HSM live in a crate of their own, which enclaves
//! do not link.
//!
//! [`Vault`] joins the keyring of a config directory with the masters of its policy, and is what
//! the rest of the client site wraps and unwraps with.

mod envelope;
mod error;
mod uri;
mod vault;

use std::fmt;

use coffer_sealing::{LinkId, Secret, TableId};

use crate::{Keyring, MasterInfo, MasterStatus, ParquetKeyId, WrappedTableKey};

pub use envelope::{DataKey, DataKeys, Envelope, WrappedDataKey};
pub use error::MasterError;
pub use uri::{
    AwsKmsUri, HadoopKmsUri, Limits, MasterUri, OutsideUri, Pin, Pkcs11Uri, UriError, WrapMechanism,
};
pub use vault::{Master, Masters, Vault, WrappedKey};

/// Whose key a wrapped key is. It is authenticated with it, so that a wrapped key in another's
/// place is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyContext {
    /// A table's key.
    Table(TableId),
    /// A link's key.
    Link(LinkId),
    /// What seals keys of Parquet files that another program writes.
    Parquet(ParquetKeyId),
}

impl KeyContext {
    /// What the key is for: part of the context, and of formats.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Table(_) => "table key",
            Self::Link(_) => "link key",
            Self::Parquet(_) => "parquet key",
        }
    }

    /// The id.
    pub fn id(&self) -> &[u8; 16] {
        match self {
            Self::Table(table) => table.as_bytes(),
            Self::Link(link) => link.as_bytes(),
            Self::Parquet(id) => id.as_bytes(),
        }
    }
}

impl fmt::Display for KeyContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(table) => write!(f, "table {table}"),
            Self::Link(link) => write!(f, "link {link}"),
            Self::Parquet(id) => write!(f, "Parquet writer {id}"),
        }
    }
}

/// What a master says of itself when asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterState {
    /// The version that wraps today, as the master names it.
    pub version: String,
    /// Whether it wraps and unwraps now.
    pub enabled: bool,
    /// When it was made, in seconds since 1970, where that is known.
    pub created: Option<u64>,
}

/// Wraps and unwraps 32-byte secrets.
///
/// What it promises: a wrapped key opens under this master alone, and for the context that it was
/// wrapped for alone; altered bytes are an error. Every call may take as long as the master's
/// time-outs say, and ends then.
pub trait MasterKeys: Send + Sync {
    /// What and where it is, for people: never a secret.
    fn describe(&self) -> String;

    /// Wraps a secret, under the newest version of the master.
    fn wrap(&self, context: &KeyContext, secret: &Secret<32>) -> Result<Vec<u8>, MasterError>;

    /// The secret that [`MasterKeys::wrap`] wrapped, under whichever version.
    fn unwrap(&self, context: &KeyContext, wrapped: &[u8]) -> Result<Secret<32>, MasterError>;

    /// The same secret under the newest version. Masters that can do it without showing the secret
    /// do so.
    fn rewrap(&self, context: &KeyContext, wrapped: &[u8]) -> Result<Vec<u8>, MasterError> {
        self.wrap(context, &self.unwrap(context, wrapped)?)
    }

    /// The version of the master that a wrapped key needs, as the master names it. Asks nobody.
    fn version_of(&self, wrapped: &[u8]) -> Result<String, MasterError>;

    /// How the master is now. Asks it.
    fn state(&self) -> Result<MasterState, MasterError>;

    /// Makes the master where it does not exist yet.
    fn create(&self) -> Result<MasterState, MasterError> {
        Err(MasterError::Unsupported {
            what: "made",
            of: self.describe(),
        })
    }

    /// Gives the master a new version, which wraps from now on; older ones go on unwrapping.
    fn rotate(&self) -> Result<MasterState, MasterError> {
        Err(MasterError::Unsupported {
            what: "rotated",
            of: self.describe(),
        })
    }
}

/// One master of the embedded keyring.
pub struct KeyringMaster<'a> {
    keyring: &'a Keyring,
    name: String,
}

impl MasterKeys for KeyringMaster<'_> {
    fn describe(&self) -> String {
        format!("keyring:{}", self.name)
    }

    fn wrap(&self, context: &KeyContext, secret: &Secret<32>) -> Result<Vec<u8>, MasterError> {
        Ok(self.keyring.wrap_secret(&self.name, context, secret)?)
    }

    fn unwrap(&self, context: &KeyContext, wrapped: &[u8]) -> Result<Secret<32>, MasterError> {
        Ok(self.keyring.unwrap_secret(context, wrapped)?)
    }

    fn version_of(&self, wrapped: &[u8]) -> Result<String, MasterError> {
        Ok(WrappedTableKey::from_bytes(wrapped)?.version().to_string())
    }

    fn state(&self) -> Result<MasterState, MasterError> {
        Ok(self.keyring.master_info(&self.name)?.into())
    }

    fn create(&self) -> Result<MasterState, MasterError> {
        Ok(self.keyring.add_master(&self.name)?.into())
    }

    fn rotate(&self) -> Result<MasterState, MasterError> {
        Ok(self.keyring.rotate(&self.name)?.into())
    }
}

impl From<MasterInfo> for MasterState {
    fn from(info: MasterInfo) -> Self {
        Self {
            version: info
                .newest()
                .map_or_else(String::new, |newest| newest.number.to_string()),
            enabled: info.status == MasterStatus::Enabled,
            created: Some(info.created),
        }
    }
}
