//! A table key under a master.
//!
//! ```text
//! magic "CFWK" ‖ master's name (length u32 LE, bytes) ‖ table id 16 ‖ key-check value of the master 16 ‖ blob
//! ```
//! The data files never name the master, so rotating it rewraps table keys and touches no file.

use coffer_sealing::{Secret, open_blob, seal_blob};
use zeroize::Zeroizing;

use super::{
    KeyringError,
    contents::{Master, check_name},
};
use crate::{
    TableId, TableKey,
    codec::{Malformed, Reader, Writer},
    table_key::check_value,
};

const MAGIC: &[u8; 4] = b"CFWK";
const LABEL: &str = "table key";

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

pub(super) fn wrap(name: &str, master: &Master, key: &TableKey) -> Result<WrappedTableKey, KeyringError> {
    let (root, table) = (master.root(), key.table());
    Ok(WrappedTableKey {
        master: name.to_string(),
        table,
        check: check_value(&root, table.as_bytes())?,
        sealed: seal_blob(&root, LABEL, &[table.as_bytes()], key.secret().expose())?,
    })
}

pub(super) fn unwrap(master: &Master, wrapped: &WrappedTableKey) -> Result<TableKey, KeyringError> {
    let (root, table) = (master.root(), wrapped.table);
    let check = check_value(&root, table.as_bytes())?;
    if aws_lc_rs::constant_time::verify_slices_are_equal(&check, &wrapped.check).is_err() {
        return Err(KeyringError::OtherMaster {
            table,
            master: wrapped.master.clone(),
        });
    }
    let altered = |_| KeyringError::AlteredWrappedKey(table);
    let plain = Zeroizing::new(open_blob(&root, LABEL, &[table.as_bytes()], &wrapped.sealed).map_err(altered)?);
    Ok(TableKey::from_secret(
        table,
        Secret::from_slice(&plain).map_err(altered)?,
    ))
}
