//! The embedded keyring: one file, one passphrase. Masters wrap table keys; the owner's key authenticates releases;
//! the register's key seals the register.
//!
//! The file is replaced as a whole, so a crash leaves the old one or the new one. Changes of two processes take turns,
//! and each starts from what the file holds then.

mod argon;
mod contents;
mod error;
mod file;
mod wrapped;

use std::path::{Path, PathBuf};

use coffer_sealing::{DerivationKey, Error as SealingError, Secret, open_blob, seal_blob};

use crate::{KeyContext, LinkKey, OwnerKey, OwnerPublicKey, Passphrase, TableId, TableKey, durable};
use contents::{Contents, Master};
use file::{Header, Unlocked};

pub use argon::{CEILING, FLOOR, Params};
pub(crate) use contents::check_name as check_master_name;
pub use error::KeyringError;
pub use wrapped::{WrappedLinkKey, WrappedTableKey};

/// The master that a new keyring has.
pub const FIRST_MASTER: &str = "main";

/// What may be shown of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterInfo {
    /// Its name, unique in the keyring.
    pub name: String,
    /// 16 hex digits that tell it from other keys of the same name.
    pub fingerprint: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
}

/// An open keyring.
pub struct Keyring {
    path: PathBuf,
    unlocked: Unlocked,
    contents: Contents,
}

impl Keyring {
    /// Makes the file, with an owner's key, a register's key, and the master [`FIRST_MASTER`]. An existing file is left
    /// alone and is an error.
    pub fn create(path: &Path, passphrase: &Passphrase) -> Result<Self, KeyringError> {
        Self::create_with(path, passphrase, FLOOR)
    }

    /// As [`Keyring::create`], at a higher price for whoever guesses (and for every opening).
    pub fn create_with(path: &Path, passphrase: &Passphrase, params: Params) -> Result<Self, KeyringError> {
        if path.try_exists().map_err(|source| KeyringError::io(path, source))? {
            return Err(KeyringError::Exists(path.to_path_buf()));
        }
        let unlocked = Header::draw(params)?.unlock(passphrase)?;
        let contents = Contents::generate(FIRST_MASTER)?;
        durable::create(path, &unlocked.encode(&contents)?).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => KeyringError::Exists(path.to_path_buf()),
            // "Not found" would be the folder here.
            _ => KeyringError::Io {
                path: path.to_path_buf(),
                source,
            },
        })?;
        Ok(Self {
            path: path.to_path_buf(),
            unlocked,
            contents,
        })
    }

    /// Opens the file. Takes a noticeable part of a second, by design.
    pub fn open(path: &Path, passphrase: &Passphrase) -> Result<Self, KeyringError> {
        let bytes = file::read(path)?;
        let (header, body) = Header::parse(path, &bytes)?;
        let unlocked = header.unlock(passphrase)?;
        let contents = unlocked.open(path, body)?;
        Ok(Self {
            path: path.to_path_buf(),
            unlocked,
            contents,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All masters, in order of their names.
    pub fn masters(&self) -> Result<Vec<MasterInfo>, KeyringError> {
        self.contents
            .masters
            .iter()
            .map(|(name, master)| master.info(name))
            .collect()
    }

    /// Whether a master of this name exists.
    pub fn has_master(&self, name: &str) -> bool {
        self.contents.masters.contains_key(name)
    }

    /// Draws a new master, and writes the file.
    pub fn add_master(&mut self, name: &str) -> Result<MasterInfo, KeyringError> {
        contents::check_name(name)?;
        let master = Master::generate()?;
        let info = master.info(name)?;
        self.update(|contents| {
            if contents.masters.contains_key(name) {
                return Err(KeyringError::MasterExists(name.to_string()));
            }
            contents.masters.insert(name.to_string(), master);
            Ok(())
        })?;
        Ok(info)
    }

    /// Puts the file under another passphrase. Whoever has a copy of the old file can still open that with the old one.
    pub fn change_passphrase(&mut self, new: &Passphrase) -> Result<(), KeyringError> {
        let _lock = durable::lock(&self.path).map_err(|source| KeyringError::io(&self.path, source))?;
        let contents = self.reread()?;
        let unlocked = Header::draw(self.unlocked.params())?.unlock(new)?;
        durable::replace(&self.path, &unlocked.encode(&contents)?)
            .map_err(|source| KeyringError::io(&self.path, source))?;
        self.unlocked = unlocked;
        self.contents = contents;
        Ok(())
    }

    /// The owner's key pair.
    pub fn owner_key(&self) -> &OwnerKey {
        &self.contents.owner
    }

    /// The owner's public key: may be shown and handed out.
    pub fn owner_public(&self) -> OwnerPublicKey {
        self.contents.owner.public()
    }

    /// The key that the register is sealed under.
    pub fn register_key(&self) -> RegisterKey {
        RegisterKey(DerivationKey::new("register", &self.contents.register))
    }

    /// Wraps a table's key by a master.
    pub fn wrap(&self, master: &str, key: &TableKey) -> Result<WrappedTableKey, KeyringError> {
        wrapped::wrap(master, self.master(master)?, key)
    }

    /// The table key that [`Keyring::wrap`] wrapped.
    pub fn unwrap(&self, wrapped: &WrappedTableKey) -> Result<TableKey, KeyringError> {
        wrapped::unwrap(self.master(wrapped.master())?, wrapped)
    }

    /// Wraps a link's key by a master.
    pub fn wrap_link(&self, master: &str, key: &LinkKey) -> Result<WrappedLinkKey, KeyringError> {
        wrapped::wrap_link(master, self.master(master)?, key)
    }

    /// The link key that [`Keyring::wrap_link`] wrapped.
    pub fn unwrap_link(&self, wrapped: &WrappedLinkKey) -> Result<LinkKey, KeyringError> {
        wrapped::unwrap_link(self.master(wrapped.master())?, wrapped)
    }

    /// Wraps a secret by a master, for a context; as bytes.
    pub(crate) fn wrap_secret(
        &self,
        master: &str,
        context: &KeyContext,
        secret: &Secret<32>,
    ) -> Result<Vec<u8>, KeyringError> {
        let id = TableId(*context.id());
        Ok(wrapped::seal(master, self.master(master)?, context.label(), id, secret)?.to_bytes())
    }

    /// The secret that [`Keyring::wrap_secret`] wrapped.
    pub(crate) fn unwrap_secret(&self, context: &KeyContext, bytes: &[u8]) -> Result<Secret<32>, KeyringError> {
        let wrapped = WrappedTableKey::from_bytes(bytes)?;
        if wrapped.table().as_bytes() != context.id() {
            return Err(KeyringError::AlteredWrappedKey(TableId(*context.id())));
        }
        wrapped::open(self.master(wrapped.master())?, context.label(), &wrapped)
    }

    /// The fingerprint of the master that wrapped.
    pub(crate) fn version_of(&self, bytes: &[u8]) -> Result<String, KeyringError> {
        let wrapped = WrappedTableKey::from_bytes(bytes)?;
        Ok(self.master_info(wrapped.master())?.fingerprint)
    }

    /// What may be shown of one master.
    pub fn master_info(&self, name: &str) -> Result<MasterInfo, KeyringError> {
        self.master(name)?.info(name)
    }

    fn master(&self, name: &str) -> Result<&Master, KeyringError> {
        self.contents.masters.get(name).ok_or_else(|| KeyringError::NoMaster {
            name: name.to_string(),
            known: self.contents.masters.keys().cloned().collect(),
        })
    }

    fn update(&mut self, change: impl FnOnce(&mut Contents) -> Result<(), KeyringError>) -> Result<(), KeyringError> {
        let _lock = durable::lock(&self.path).map_err(|source| KeyringError::io(&self.path, source))?;
        let mut contents = self.reread()?;
        change(&mut contents)?;
        durable::replace(&self.path, &self.unlocked.encode(&contents)?)
            .map_err(|source| KeyringError::io(&self.path, source))?;
        self.contents = contents;
        Ok(())
    }

    /// The file's contents now, which another process may have changed; its passphrase must be the same still.
    fn reread(&self) -> Result<Contents, KeyringError> {
        let bytes = file::read(&self.path)?;
        let (header, body) = Header::parse(&self.path, &bytes)?;
        if !self.unlocked.is_of(&header) {
            return Err(KeyringError::ChangedMeanwhile(self.path.clone()));
        }
        self.unlocked.open(&self.path, body)
    }
}

/// Seals the register of table versions.
#[derive(Clone)]
pub struct RegisterKey(DerivationKey);

impl RegisterKey {
    /// Seals the register's contents.
    pub fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, SealingError> {
        seal_blob(&self.0, "register", &[], plain)
    }

    /// Opens what [`RegisterKey::seal`] made.
    pub fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, SealingError> {
        open_blob(&self.0, "register", &[], sealed)
    }
}

#[cfg(test)]
mod tests;
