//! Changes of the register, under its lock.

use std::fs::File;

use coffer_custody::{KeyContext, WrappedKey};
use coffer_sealing::TableId;

use super::{Content, FORMAT, HeldKey, MAGIC, Register, TableRecord, Version};
use crate::{Error, disk};

/// The register while it is locked. Each change is stored at once.
pub(crate) struct Locked<'a> {
    pub(super) register: &'a Register,
    pub(super) content: Content,
    pub(super) _lock: File,
}

impl Locked<'_> {
    pub(crate) fn record(&self, id: TableId) -> Result<&TableRecord, Error> {
        let key = id.to_string();
        self.content
            .tables
            .get(&key)
            .ok_or(Error::UnknownTable(key))
    }

    /// Changes a table's record, and gives it as it is then.
    pub(crate) fn change(
        &mut self,
        id: TableId,
        change: impl FnOnce(&mut TableRecord),
    ) -> Result<TableRecord, Error> {
        let key = id.to_string();
        let record = self
            .content
            .tables
            .get_mut(&key)
            .ok_or_else(|| Error::UnknownTable(key.clone()))?;
        let before = record.clone();
        change(record);
        let record = record.clone();
        match self.store() {
            Ok(()) => Ok(record),
            Err(error) => {
                self.content.tables.insert(key, before);
                Err(error)
            }
        }
    }

    /// The version that is pending counts from now on. Where it is an error other than
    /// [`Error::PublicationUnknown`], it does not, and never will: who is told so may write the
    /// same again.
    pub(crate) fn commit(&mut self, id: TableId) -> Result<TableRecord, Error> {
        let pending = self.record(id)?.pending;
        let Err(error) = self.change(id, TableRecord::commit) else {
            return self.record(id).cloned();
        };
        // The new register may be in place without being durable: then this makes it so.
        if let Ok(record) = self.change(id, TableRecord::commit) {
            return Ok(record);
        }
        let now = self.register.by_id(id);
        if let Ok(Some(record)) = &now
            && record.committed != pending
        {
            return Err(error);
        }
        let record = self.record(id)?;
        Err(Error::PublicationUnknown {
            table: record.name.clone(),
            version: pending.map_or(0, |version| version.version),
            source: Box::new(error),
        })
    }

    /// A publication failed, of which the stored record may say that it is pending, whatever is
    /// known of it here.
    pub(crate) fn drop_version(&mut self, id: TableId, version: Version) -> Result<(), Error> {
        self.change(id, |record| {
            record.pending = Some(version);
            record.drop_pending();
        })
        .map(|_| ())
    }

    /// What is pending is of a publication that failed, or of a process that died: whoever else
    /// publishes has the lock. It counts for nothing, whatever comes to lie in the folder.
    pub(crate) fn drop_pending(&mut self, id: TableId) -> Result<(), Error> {
        if self
            .record(id)?
            .pending
            .is_none_or(|pending| pending.hash.is_none())
        {
            return Ok(());
        }
        self.change(id, TableRecord::drop_pending).map(|_| ())
    }

    /// The wrapped keys of all tables and links.
    pub(crate) fn held_keys(&self) -> Vec<HeldKey> {
        self.content.held_keys()
    }

    /// Whether a master of the keyring, or that version of it, wrapped keys of Parquet files for
    /// other programs.
    pub(crate) fn is_needed_by_files(&self, master: &str, version: Option<u32>) -> bool {
        let is = |(name, number): &(String, u32)| {
            name == master && version.is_none_or(|version| version == *number)
        };
        self.content.file_masters.iter().any(is)
    }

    /// Puts a wrapped key in the place of another, if that is still the one that is there. Stored
    /// with the next [`Locked::store`].
    pub(crate) fn swap_key(
        &mut self,
        context: &KeyContext,
        old: &WrappedKey,
        new: &WrappedKey,
    ) -> bool {
        let position = match context {
            KeyContext::Table(id) => {
                let record = self.content.tables.get_mut(&id.to_string());
                record.map(|record| (&mut record.master, &mut record.wrapped_key))
            }
            KeyContext::Link(id) => {
                let record = self.content.links.get_mut(&id.to_string());
                record.map(|record| (&mut record.master, &mut record.wrapped_key))
            }
            // Such keys lie in the files that they open.
            KeyContext::Parquet(_) => None,
        };
        let Some((master, bytes)) =
            position.filter(|(master, bytes)| **master == old.master && **bytes == old.bytes)
        else {
            return false;
        };
        master.clone_from(&new.master);
        bytes.clone_from(&new.bytes);
        true
    }

    pub(crate) fn store(&mut self) -> Result<(), Error> {
        let text = serde_json::to_vec(&self.content)
            .map_err(|error| Error::RegisterContent(error.to_string()))?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.register.key.seal(&text)?);
        disk::replace(&self.register.path, &bytes)
    }
}
