//! A table under a fresh key: the version after, with the same rows in files of their own.
//!
//! What a rewrapped key does not help against is somebody who kept the old master and an old
//! wrapped key: the table's key is the same then. Here it is another, and with it every key that is
//! derived from it: column and footer KEKs, the manifest's key, the keys of schemes. Only the keys
//! of links stay, since other tables' columns have them too.

use std::sync::Arc;

use coffer_custody::{ConfigDir, KeyContext, Policy, TableKey, Vault};
use coffer_format::{FilePin, WriteOptions};

use crate::{Change, Error, TableWrite, TableWriter, VerifiedManifest, clean, publish, write};

/// A version under a fresh key that is being written and does not count yet. Whoever opened the
/// version before reads that on.
pub struct Reencryption(TableWrite);

impl Reencryption {
    /// Begins the version after this one, under a fresh key that this master wraps.
    pub fn begin(
        config_dir: &ConfigDir,
        vault: &Vault,
        policy: &Policy,
        parent: &VerifiedManifest,
        master: &str,
    ) -> Result<Self, Error> {
        let mut write = TableWrite::next(config_dir, vault, policy, parent, Change::Overwrite)?;
        let key = TableKey::generate(write.table())?;
        write.new_key = Some(vault.wrap(master, &key)?);
        write.keks = Arc::new(write::keks(&key, &write.columns, &write.stored)?);
        write.key = Arc::new(key);
        let own = parent.manifest().files.iter().map(|file| file.path.clone());
        let beside = clean::beside(parent)?;
        let older = beside.superseded.iter().map(|(path, _)| path);
        // No version after this one knows that files were adopted.
        let older = older.chain(&beside.markers);
        write.retired = own
            .chain(older.filter_map(|path| path.to_str().map(str::to_owned)))
            .collect();
        Ok(Self(write))
    }

    /// Writes the version's files.
    pub fn writer(&self, options: WriteOptions) -> Result<TableWriter, Error> {
        self.0.writer(options)
    }

    /// Publishes the version with these files, in this order, and with it the key. Where that fails
    /// it is given up, as of [`TableWrite::publish`]. Of the rows of the version before none may be
    /// missing.
    pub fn publish(
        self,
        vault: &Vault,
        mut files: Vec<FilePin>,
    ) -> Result<VerifiedManifest, Error> {
        let write = self.0;
        if write.parent_is_host_chosen() {
            files.iter_mut().for_each(|file| file.host_chosen = true);
        }
        let rows = |files: &[FilePin]| files.iter().map(|file| file.rows).sum::<u64>();
        let want = write.parent_rows();
        if rows(&files) != want {
            let got = rows(&files);
            let _ = write.abandon();
            return Err(Error::RowsLost { want, got });
        }
        let context = KeyContext::Table(write.table());
        let check = || match &write.new_key {
            Some(key) => Ok(vault.check_by_keyring(&context, key)?),
            None => Ok(()),
        };
        let published = publish::publish_checked(&write, files, check);
        write.after(published)
    }

    /// Gives it up, and removes its files.
    pub fn abandon(self) -> Result<(), Error> {
        self.0.abandon()
    }
}
