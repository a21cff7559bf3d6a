//! The embedded keyring: one file, one passphrase. Masters wrap table keys; the owner's key
//! authenticates releases; the register's key seals the register.
//!
//! The file is replaced as a whole, so a crash leaves the old one or the new one. Changes of two
//! processes take turns, and each starts from what the file holds then.

mod argon;
mod audit;
mod contents;
mod error;
mod export;
mod file;
mod held;
mod master;
mod policy;
mod receipt;
mod wrapped;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use coffer_protocol::OwnerPublicKey;
use coffer_sealing::{DerivationKey, Error as SealingError, Secret, TableId, open_blob, seal_blob};
use contents::Contents;
use file::{Header, Kind, Unlocked};
use held::Held;
use master::Master;

use crate::{KeyContext, LinkKey, OwnerKey, Passphrase, Stamp, TableKey, durable};

pub(crate) use contents::check_name as check_master_name;

pub use argon::{CEILING, FLOOR, Params};
pub use audit::AuditKey;
pub use error::KeyringError;
pub use export::{ExportedKeys, Imported};
pub use master::{MasterInfo, MasterStatus, MasterVersionInfo};
pub use policy::PolicyKey;
pub use receipt::{ReceiptKey, SignError};
pub use wrapped::{WrappedLinkKey, WrappedTableKey};

/// The master that a new keyring has.
pub const FIRST_MASTER: &str = "main";

/// An open keyring. What another process changes in the file is seen at the next use, but for its
/// passphrase.
pub struct Keyring {
    path: PathBuf,
    unlocked: Unlocked,
    owner: OwnerKey,
    register: RegisterKey,
    audit: AuditKey,
    policy: PolicyKey,
    receipt: ReceiptKey,
    held: Held,
}

impl Keyring {
    /// Makes the file, with an owner's key, a register's key, and the master [`FIRST_MASTER`]. An
    /// existing file is left alone and is an error.
    pub fn create(path: &Path, passphrase: &Passphrase) -> Result<Self, KeyringError> {
        Self::create_with(path, passphrase, FLOOR)
    }

    /// As [`Keyring::create`], at a higher price for whoever guesses (and for every opening).
    pub fn create_with(
        path: &Path,
        passphrase: &Passphrase,
        params: Params,
    ) -> Result<Self, KeyringError> {
        params.check()?;
        Self::create_from(path, passphrase, params, Contents::generate(FIRST_MASTER)?)
    }

    fn create_from(
        path: &Path,
        passphrase: &Passphrase,
        params: Params,
        contents: Contents,
    ) -> Result<Self, KeyringError> {
        if path
            .try_exists()
            .map_err(|source| KeyringError::io(path, source))?
        {
            return Err(KeyringError::Exists(path.to_path_buf()));
        }
        let unlocked = Header::draw(Kind::Keyring, params)?.unlock(passphrase)?;
        let sealed = unlocked.seal(&contents.encode())?;
        // No other process changes the file before its first stamp is taken.
        let _lock = durable::lock(path).map_err(|source| KeyringError::Io {
            path: path.to_path_buf(),
            source,
        })?;
        durable::create(path, &sealed).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => KeyringError::Exists(path.to_path_buf()),
            // "Not found" would be the folder here.
            _ => KeyringError::Io {
                path: path.to_path_buf(),
                source,
            },
        })?;
        let stamp = held::stamp(path)?;
        Ok(Self::new(path, unlocked, stamp, contents))
    }

    /// Opens the file. Takes a noticeable part of a second, by design.
    pub fn open(path: &Path, passphrase: &Passphrase) -> Result<Self, KeyringError> {
        let stamp = held::stamp(path)?;
        let bytes = file::read(Kind::Keyring, path)?;
        let (header, body) = Header::parse(Kind::Keyring, path, &bytes)?;
        let unlocked = header.unlock(passphrase)?;
        let contents = held::open(path, &unlocked, &header, body)?;
        Ok(Self::new(path, unlocked, stamp, contents))
    }

    fn new(path: &Path, unlocked: Unlocked, stamp: Stamp, contents: Contents) -> Self {
        Self {
            path: path.to_path_buf(),
            unlocked,
            owner: contents.owner.clone(),
            register: RegisterKey(DerivationKey::new("register", &contents.register)),
            audit: AuditKey(DerivationKey::new("audit", &contents.register)),
            policy: PolicyKey(DerivationKey::new("policy", &contents.register)),
            receipt: ReceiptKey(DerivationKey::new("receipt", &contents.register)),
            held: Held::new(stamp, contents),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All masters, in order of their names.
    pub fn masters(&self) -> Result<Vec<MasterInfo>, KeyringError> {
        let contents = self.contents()?;
        contents
            .masters
            .iter()
            .map(|(name, master)| master.info(name))
            .collect()
    }

    /// What may be shown of one master.
    pub fn master_info(&self, name: &str) -> Result<MasterInfo, KeyringError> {
        find(&*self.contents()?, name)?.info(name)
    }

    /// Whether there is a master of this name, in whatever state.
    pub fn has_master(&self, name: &str) -> Result<bool, KeyringError> {
        Ok(self.contents()?.masters.contains_key(name))
    }

    /// Draws a new master, and writes the file.
    pub fn add_master(&self, name: &str) -> Result<MasterInfo, KeyringError> {
        contents::check_name(name)?;
        let master = Master::generate()?;
        let info = master.info(name)?;
        self.update(|contents| insert(contents, name, master))?;
        Ok(info)
    }

    /// Gives a master a new version, which wraps from now on; those before still unwrap.
    pub fn rotate(&self, name: &str) -> Result<MasterInfo, KeyringError> {
        self.update(|contents| find_mut(contents, name)?.rotate(name))?;
        self.master_info(name)
    }

    /// Lets a master be used, or not. Running programs notice at their next use of it.
    pub fn set_enabled(&self, name: &str, enabled: bool) -> Result<MasterInfo, KeyringError> {
        self.update(|contents| find_mut(contents, name)?.set_enabled(name, enabled))?;
        self.master_info(name)
    }

    /// Removes all keys of a master, for ever, or those of one version that is not its newest.
    /// Whether somebody needs them the caller knows.
    pub fn destroy(&self, name: &str, version: Option<u32>) -> Result<MasterInfo, KeyringError> {
        self.update(|contents| {
            let master = find_mut(contents, name)?;
            match version {
                Some(version) => master.destroy_version(name, version),
                None => {
                    master.destroy();
                    Ok(())
                }
            }
        })?;
        self.master_info(name)
    }

    /// Puts the file under another passphrase. Whoever has a copy of the old file can still open
    /// that with the old one.
    pub fn change_passphrase(&mut self, new: &Passphrase) -> Result<(), KeyringError> {
        let _lock =
            durable::lock(&self.path).map_err(|source| KeyringError::io(&self.path, source))?;
        let contents = held::reread(&self.path, &self.unlocked)?;
        let unlocked = Header::draw(Kind::Keyring, self.unlocked.params())?.unlock(new)?;
        self.write(&unlocked, &contents)?;
        self.unlocked = unlocked;
        self.held.replace(&self.path, contents)
    }

    /// The owner's key pair.
    pub fn owner_key(&self) -> &OwnerKey {
        &self.owner
    }

    /// The owner's public key: may be shown and handed out.
    pub fn owner_public(&self) -> OwnerPublicKey {
        self.owner.public()
    }

    /// The key that the register is sealed under.
    pub fn register_key(&self) -> RegisterKey {
        self.register.clone()
    }

    /// The key that the audit log's records are authenticated with.
    pub fn audit_key(&self) -> AuditKey {
        self.audit.clone()
    }

    /// The key that the policy is authenticated with.
    pub fn policy_key(&self) -> PolicyKey {
        self.policy.clone()
    }

    /// The key that receipts are signed with.
    pub fn receipt_key(&self) -> ReceiptKey {
        self.receipt.clone()
    }

    /// Wraps a table's key by the newest version of a master.
    pub fn wrap(&self, master: &str, key: &TableKey) -> Result<WrappedTableKey, KeyringError> {
        wrapped::wrap(
            master,
            find(&*self.contents()?, master)?.newest(master)?,
            key,
        )
    }

    /// The table key that [`Keyring::wrap`] wrapped.
    pub fn unwrap(&self, wrapped: &WrappedTableKey) -> Result<TableKey, KeyringError> {
        let (name, version) = (wrapped.master(), wrapped.version());
        wrapped::unwrap(
            find(&*self.contents()?, name)?.version(name, version)?,
            wrapped,
        )
    }

    /// Wraps a link's key by the newest version of a master.
    pub fn wrap_link(&self, master: &str, key: &LinkKey) -> Result<WrappedLinkKey, KeyringError> {
        wrapped::wrap_link(
            master,
            find(&*self.contents()?, master)?.newest(master)?,
            key,
        )
    }

    /// The link key that [`Keyring::wrap_link`] wrapped.
    pub fn unwrap_link(&self, wrapped: &WrappedLinkKey) -> Result<LinkKey, KeyringError> {
        let (name, version) = (wrapped.master(), wrapped.version());
        wrapped::unwrap_link(
            find(&*self.contents()?, name)?.version(name, version)?,
            wrapped,
        )
    }

    /// Wraps a secret by the newest version of a master, for a context; as bytes.
    pub(crate) fn wrap_secret(
        &self,
        master: &str,
        context: &KeyContext,
        secret: &Secret<32>,
    ) -> Result<Vec<u8>, KeyringError> {
        let id = TableId(*context.id());
        let contents = self.contents()?;
        let newest = find(&contents, master)?.newest(master)?;
        Ok(wrapped::seal(master, newest, context.label(), id, secret)?.to_bytes())
    }

    /// The secret that [`Keyring::wrap_secret`] wrapped.
    pub(crate) fn unwrap_secret(
        &self,
        context: &KeyContext,
        bytes: &[u8],
    ) -> Result<Secret<32>, KeyringError> {
        let wrapped = WrappedTableKey::from_bytes(bytes)?;
        if wrapped.table().as_bytes() != context.id() {
            return Err(KeyringError::AlteredWrappedKey(TableId(*context.id())));
        }
        let (name, version) = (wrapped.master(), wrapped.version());
        let contents = self.contents()?;
        wrapped::open(
            find(&contents, name)?.version(name, version)?,
            context.label(),
            &wrapped,
        )
    }

    fn contents(&self) -> Result<Arc<Contents>, KeyringError> {
        self.held.current(&self.path, &self.unlocked)
    }

    fn update(
        &self,
        change: impl FnOnce(&mut Contents) -> Result<(), KeyringError>,
    ) -> Result<(), KeyringError> {
        let _lock =
            durable::lock(&self.path).map_err(|source| KeyringError::io(&self.path, source))?;
        let mut contents = held::reread(&self.path, &self.unlocked)?;
        change(&mut contents)?;
        self.write(&self.unlocked, &contents)?;
        self.held.replace(&self.path, contents)
    }

    fn write(&self, unlocked: &Unlocked, contents: &Contents) -> Result<(), KeyringError> {
        durable::replace(&self.path, &unlocked.seal(&contents.encode())?)
            .map_err(|source| KeyringError::io(&self.path, source))
    }
}

fn find<'a>(contents: &'a Contents, name: &str) -> Result<&'a Master, KeyringError> {
    contents
        .masters
        .get(name)
        .ok_or_else(|| unknown(contents, name))
}

fn find_mut<'a>(contents: &'a mut Contents, name: &str) -> Result<&'a mut Master, KeyringError> {
    let missing = unknown(contents, name);
    contents.masters.get_mut(name).ok_or(missing)
}

fn unknown(contents: &Contents, name: &str) -> KeyringError {
    KeyringError::NoMaster {
        name: name.to_string(),
        known: contents.masters.keys().cloned().collect(),
    }
}

fn insert(contents: &mut Contents, name: &str, master: Master) -> Result<(), KeyringError> {
    if contents.masters.contains_key(name) {
        return Err(KeyringError::MasterExists(name.to_string()));
    }
    contents.masters.insert(name.to_string(), master);
    Ok(())
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

    /// Seals an entry of a write's journal, for its position there.
    pub fn seal_entry(&self, position: &[&[u8]], plain: &[u8]) -> Result<Vec<u8>, SealingError> {
        seal_blob(&self.0, "write journal", position, plain)
    }

    /// Opens what [`RegisterKey::seal_entry`] made.
    pub fn open_entry(&self, position: &[&[u8]], sealed: &[u8]) -> Result<Vec<u8>, SealingError> {
        open_blob(&self.0, "write journal", position, sealed)
    }
}

#[cfg(test)]
mod tests;
