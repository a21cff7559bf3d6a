//! A table key or a link key under a master.
//!
//! ```text
//! magic "CFW2" ‖ master's name (length u32 LE, bytes) ‖ its version u32 LE ‖ table id 16 ‖
//! key-check value of that version 16 ‖ blob
//! ```
//! A link's is the same with its own id, under a label of its own. Keys that were wrapped before
//! masters had versions begin with "CFWK" and lack the version: it is 1.
//!
//! The data files never name the master, so rotating it rewraps table keys and touches no file.

use coffer_sealing::{
    LinkId, Secret, TableId,
    fields::{Malformed, Reader, Writer},
    open_blob, seal_blob,
};
use zeroize::Zeroizing;

use crate::{
    LinkKey, TableKey,
    keyring::{KeyringError, contents::check_name, master::MasterVersion},
    table_key::check_value,
};

const MAGIC: &[u8; 4] = b"CFW2";
const FIRST_MAGIC: &[u8; 4] = b"CFWK";
const LABEL: &str = "table key";
const LINK_LABEL: &str = "link key";

/// A wrapped table key: not secret, kept in the register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedTableKey {
    master: String,
    version: u32,
    table: TableId,
    check: [u8; 16],
    sealed: Vec<u8>,
}

impl WrappedTableKey {
    /// The master's name.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// Which version of the master wrapped it.
    pub fn version(&self) -> u32 {
        self.version
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
            .u32(self.version)
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
        let magic = reader.raw(MAGIC.len())?;
        if magic != MAGIC && magic != FIRST_MAGIC {
            return Err(Malformed);
        }
        Ok(Self {
            master: reader.text()?.to_string(),
            version: if magic == MAGIC { reader.u32()? } else { 1 },
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

    /// Which version of the master wrapped it.
    pub fn version(&self) -> u32 {
        self.0.version()
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

pub(super) fn wrap_link(
    name: &str,
    master: &MasterVersion,
    key: &LinkKey,
) -> Result<WrappedLinkKey, KeyringError> {
    let id = TableId(*key.link().as_bytes());
    seal(name, master, LINK_LABEL, id, key.secret()).map(WrappedLinkKey)
}

pub(super) fn unwrap_link(
    master: &MasterVersion,
    wrapped: &WrappedLinkKey,
) -> Result<LinkKey, KeyringError> {
    open(master, LINK_LABEL, &wrapped.0).map(|secret| LinkKey::from_secret(wrapped.link(), secret))
}

pub(super) fn wrap(
    name: &str,
    master: &MasterVersion,
    key: &TableKey,
) -> Result<WrappedTableKey, KeyringError> {
    seal(name, master, LABEL, key.table(), key.secret())
}

pub(super) fn unwrap(
    master: &MasterVersion,
    wrapped: &WrappedTableKey,
) -> Result<TableKey, KeyringError> {
    open(master, LABEL, wrapped).map(|secret| TableKey::from_secret(wrapped.table, secret))
}

pub(super) fn seal(
    name: &str,
    master: &MasterVersion,
    label: &str,
    table: TableId,
    secret: &Secret<32>,
) -> Result<WrappedTableKey, KeyringError> {
    let root = master.root();
    Ok(WrappedTableKey {
        master: name.to_string(),
        version: master.number,
        table,
        check: check_value(&root, table.as_bytes())?,
        sealed: seal_blob(&root, label, &[table.as_bytes()], secret.expose())?,
    })
}

pub(super) fn open(
    master: &MasterVersion,
    label: &str,
    wrapped: &WrappedTableKey,
) -> Result<Secret<32>, KeyringError> {
    let (root, table) = (master.root(), wrapped.table);
    let check = check_value(&root, table.as_bytes())?;
    if aws_lc_rs::constant_time::verify_slices_are_equal(&check, &wrapped.check).is_err() {
        return Err(KeyringError::OtherMaster {
            table,
            master: wrapped.master.clone(),
        });
    }
    let altered = |_| KeyringError::AlteredWrappedKey(table);
    let plain = Zeroizing::new(
        open_blob(&root, label, &[table.as_bytes()], &wrapped.sealed).map_err(altered)?,
    );
    Secret::from_slice(&plain).map_err(altered)
}
