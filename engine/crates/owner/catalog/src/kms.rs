//! What a KMS client of PyArrow or parquet-java asks for, answered at the client site: keys of
//! files that those write, wrapped by the owner's masters; and data keys of our own files, whose
//! key metadata names a column KEK as the master.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use coffer_custody::{ConfigDir, FileKeys, KeyContext, TableKey, Vault, WrappedKey};
use coffer_sealing::{KekId, TableId};
use zeroize::Zeroizing;

use crate::{Error, Register};

/// For the life of one program that reads or writes Parquet files.
pub struct Kms {
    register: Register,
    vault: Arc<Vault>,
    masters: FileKeys,
    /// Keys of tables, and as what they were opened.
    tables: Mutex<HashMap<TableId, (WrappedKey, Arc<TableKey>)>>,
}

impl Kms {
    /// Over the masters and the tables of this config directory.
    pub fn new(config_dir: &ConfigDir, vault: Arc<Vault>) -> Self {
        Self {
            register: Register::of(config_dir, vault.keyring()),
            masters: FileKeys::new(Arc::clone(&vault)),
            tables: Mutex::default(),
            vault,
        }
    }

    /// Wraps a key of 16, 24 or 32 bytes by a master, after the register knows that files need it.
    /// Nobody but a table's writer wraps by a column KEK.
    pub fn wrap(&self, master: &str, key: &[u8]) -> Result<String, Error> {
        self.masters.wrap(master, key, |context, wrapped| {
            self.register
                .enter_file_master(&self.vault, context, wrapped)
        })
    }

    /// The key that a master wrapped, or, where the name is that of a column KEK, a table's writer.
    pub fn unwrap(&self, master: &str, wrapped: &str) -> Result<Zeroizing<Vec<u8>>, Error> {
        match master.parse::<KekId>() {
            Ok(id) => {
                let key = self.table_key(id.table())?;
                let kek = match id.column_id() {
                    Some(column) => key.kek(column)?,
                    None => key.footer_kek()?,
                };
                Ok(kek.unwrap(wrapped)?)
            }
            Err(_) => Ok(self.masters.unwrap(master, wrapped)?),
        }
    }

    fn table_key(&self, table: TableId) -> Result<Arc<TableKey>, Error> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((wrapped, key)) = tables.get(&table) {
            // Else it may have been rewrapped since: the register knows.
            if self
                .vault
                .check_by_keyring(&KeyContext::Table(table), wrapped)
                .is_ok()
            {
                return Ok(Arc::clone(key));
            }
            tables.remove(&table);
        }
        let record = self
            .register
            .by_id(table)?
            .ok_or_else(|| Error::UnknownTable(table.to_string()))?;
        let key = Arc::new(record.unwrap_key(&self.vault)?);
        tables.insert(table, (record.wrapped(), Arc::clone(&key)));
        Ok(key)
    }
}
