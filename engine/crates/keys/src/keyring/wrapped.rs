//! A table key or a link key under a master.
//!
//! ```text
//! magic "CFWK" ‖ master's name (length u32 LE, bytes) ‖ table id 16 ‖ key-check value of the master 16 ‖ blob
//! ```
//! A link's is the same with its own id, under a label of its own.
//!
//! The data files never name the master, so rotating it rewraps table keys and touches no file.

use coffer_sealing::{Secret, open_blob, seal_blob};
use zeroize::Zeroizing;

use super::{
    KeyringError,
    contents::{Master, check_name},
};
use crate::{
    LinkId, LinkKey, TableId, TableKey,
    codec::{Malformed, Reader, Writer},
    table_key::check_value,
};

const MAGIC: &[u8; 4] = b"CFWK";
const LABEL: &str = "table key";
const LINK_LABEL: &str = "link key";

/// A wrapped table key: not secret, kept in the register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedTableKey {
    master: String,
    table: TableId,
    check: [u8; 16],
    sealed: Vec<u8>,
}

impl WrappedTableKey {
    /// The master's name.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// Whose key it is.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(64 + self.master.len() + self.sealed.len());
        writer
            .raw(MAGIC)
            .string(self.master.as_bytes())
            .raw(self.table.as_bytes())
            .raw(&self.check)
            .raw(&self.sealed);
        writer.finish().to_vec()
    }

    /// From its bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyringError> {
        let parsed = Self::parse(bytes).map_err(|_| KeyringError::MalformedWrappedKey)?;
        check_name(&parsed.master)?;
        Ok(parsed)
    }

    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.raw(MAGIC.len())? != MAGIC {
            return Err(Malformed);
        }
        Ok(Self {
            master: reader.text()?.to_string(),
            table: TableId(reader.array()?),
            check: reader.array()?,
            sealed: reader.rest().to_vec(),
        })
    }
}

/// A wrapped link key: not secret, kept in the register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedLinkKey(WrappedTableKey);

impl WrappedLinkKey {
    /// The master's name.
    pub fn master(&self) -> &str {
        self.0.master()
    }

    /// Whose key it is.
    pub fn link(&self) -> LinkId {
        LinkId(*self.0.table.as_bytes())
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    /// From its bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyringError> {
        WrappedTableKey::from_bytes(bytes).map(Self)
    }
}

pub(super) fn wrap_link(name: &str, master: &Master, key: &LinkKey) -> Result<WrappedLinkKey, KeyringError> {
    let id = TableId(*key.link().as_bytes());
    seal(name, master, LINK_LABEL, id, key.secret()).map(WrappedLinkKey)
}

pub(super) fn unwrap_link(master: &Master, wrapped: &WrappedLinkKey) -> Result<LinkKey, KeyringError> {
    open(master, LINK_LABEL, &wrapped.0).map(|secret| LinkKey::from_secret(wrapped.link(), secret))
}

pub(super) fn wrap(name: &str, master: &Master, key: &TableKey) -> Result<WrappedTableKey, KeyringError> {
    seal(name, master, LABEL, key.table(), key.secret())
}

pub(super) fn unwrap(master: &Master, wrapped: &WrappedTableKey) -> Result<TableKey, KeyringError> {
    open(master, LABEL, wrapped).map(|secret| TableKey::from_secret(wrapped.table, secret))
}

pub(super) fn seal(
    name: &str,
    master: &Master,
    label: &str,
    table: TableId,
    secret: &Secret<32>,
) -> Result<WrappedTableKey, KeyringError> {
    let root = master.root();
    Ok(WrappedTableKey {
        master: name.to_string(),
        table,
        check: check_value(&root, table.as_bytes())?,
        sealed: seal_blob(&root, label, &[table.as_bytes()], secret.expose())?,
    })
}

pub(super) fn open(master: &Master, label: &str, wrapped: &WrappedTableKey) -> Result<Secret<32>, KeyringError> {
    let (root, table) = (master.root(), wrapped.table);
    let check = check_value(&root, table.as_bytes())?;
    if aws_lc_rs::constant_time::verify_slices_are_equal(&check, &wrapped.check).is_err() {
        return Err(KeyringError::OtherMaster {
            table,
            master: wrapped.master.clone(),
        });
    }
    let altered = |_| KeyringError::AlteredWrappedKey(table);
    let plain = Zeroizing::new(open_blob(&root, label, &[table.as_bytes()], &wrapped.sealed).map_err(altered)?);
    Secret::from_slice(&plain).map_err(altered)
}
