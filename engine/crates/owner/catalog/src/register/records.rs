//! What a record of a table or a link says, and how it changes.

use std::path::{Path, PathBuf};

use coffer_custody::{LinkKey, TableKey, Vault, WrappedKey};
use coffer_format::{Digest, WriteId};
use coffer_sealing::TableId;

use super::{DROPPED, LinkRecord, PendingKey, TableRecord, Version};
use crate::Error;

impl TableRecord {
    /// Of a table whose first version is being written.
    pub(crate) fn begin(id: TableId, name: String, path: PathBuf, wrapped: WrappedKey) -> Self {
        Self {
            id,
            name,
            called: Vec::new(),
            path,
            spellings: Vec::new(),
            first: None,
            dropped: Vec::new(),
            master: wrapped.master,
            wrapped_key: wrapped.bytes,
            committed: None,
            pending: Some(Version {
                version: 1,
                hash: None,
            }),
            pending_key: None,
        }
    }

    /// The same, also found by these spellings, and with the write that makes its first version.
    pub(crate) fn known_as(mut self, spellings: Vec<PathBuf>, first: WriteId) -> Self {
        self.spellings = spellings;
        self.spellings.sort();
        self.spellings.dedup();
        self.spellings.retain(|spelling| *spelling != self.path);
        self.first = Some(first);
        self
    }

    /// All spellings of its path.
    pub fn spellings(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.path)
            .chain(&self.spellings)
            .map(PathBuf::as_path)
    }

    /// Whether a path, as [`normal`](crate::spelling::normal) gives it, is the table's.
    pub fn is_at(&self, path: &Path) -> bool {
        self.spellings().any(|spelling| spelling == path)
    }

    /// Whether a catalog's name is the table's: that of the register, or the one it was renamed to.
    /// Catalogs do not tell upper from lower case.
    pub fn is_called(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let mut own = std::iter::once(&self.name).chain(&self.called);
        own.any(|own| own.to_lowercase() == name)
    }

    /// The write that makes its first version.
    pub(crate) fn first(&self) -> Option<WriteId> {
        self.first
    }

    /// Whether a manifest of this version and digest is one of a publication that failed, or that
    /// is pending.
    pub(crate) fn is_dropped(&self, version: u64, hash: Digest) -> bool {
        let is = |known: &Version| known.version == version && known.hash == Some(hash);
        self.dropped.iter().any(is) || self.pending.as_ref().is_some_and(is)
    }

    /// What decides which manifests count.
    pub(crate) fn state(&self) -> (Option<Version>, Option<Version>, &[Version]) {
        (self.committed, self.pending, &self.dropped)
    }

    /// A version is being published; `key`: under a key of its own.
    pub(crate) fn pend(&mut self, version: Version, key: Option<&WrappedKey>) {
        self.pending = Some(version);
        self.pending_key = key.map(|key| PendingKey {
            master: key.master.clone(),
            wrapped_key: key.bytes.clone(),
        });
    }

    /// The pending version came about, with its key.
    pub(super) fn commit(&mut self) {
        self.committed = self.pending.take();
        if let Some(key) = self.pending_key.take() {
            self.master = key.master;
            self.wrapped_key = key.wrapped_key;
        }
        self.first = None;
        let newest = self.committed.map_or(0, |version| version.version);
        self.dropped.retain(|version| version.version > newest);
    }

    /// The pending version did not come about, and never will.
    pub(super) fn drop_pending(&mut self) {
        self.pending_key = None;
        if let Some(pending) = self.pending.take().filter(|pending| pending.hash.is_some()) {
            self.dropped.push(pending);
            let over = self.dropped.len().saturating_sub(DROPPED);
            self.dropped.drain(..over);
        }
    }

    /// The wrapped key of a version that is being published under a key of its own.
    pub(crate) fn pending_wrapped(&self) -> Option<WrappedKey> {
        self.pending_key.as_ref().map(|key| WrappedKey {
            master: key.master.clone(),
            bytes: key.wrapped_key.clone(),
        })
    }

    /// The table's key, wrapped.
    pub fn wrapped(&self) -> WrappedKey {
        WrappedKey {
            master: self.master.clone(),
            bytes: self.wrapped_key.clone(),
        }
    }

    /// The table's key. A master outside of the keyring is asked for it.
    pub(crate) fn unwrap_key(&self, vault: &Vault) -> Result<TableKey, Error> {
        let unwrapped = vault.unwrap(self.id, &self.wrapped());
        unwrapped.map_err(|error| Error::key_of(format!("`{}`", self.name), error))
    }
}

impl LinkRecord {
    /// The link's key, wrapped.
    pub fn wrapped(&self) -> WrappedKey {
        WrappedKey {
            master: self.master.clone(),
            bytes: self.wrapped_key.clone(),
        }
    }

    /// The link's key. A master outside of the keyring is asked for it.
    pub(crate) fn unwrap_key(&self, vault: &Vault) -> Result<LinkKey, Error> {
        let unwrapped = vault.unwrap_link(self.id, &self.wrapped());
        unwrapped.map_err(|error| Error::key_of(format!("the link `{}`", self.name), error))
    }
}
