//! Keys that leave a keyring for safe keeping: some masters or all of it, as a file under a
//! passphrase of its own; or all of it under a random key, for whoever splits that key into shares.
//!
//! ```text
//! kind u8 (1: masters, 2: whole keyring) ‖
//!   masters, or owner's private key 32 ‖ register's key 32 ‖ masters
//! snapshot: key-check value of the random key, 16 bytes ‖ blob of a whole keyring
//! ```

use std::{collections::BTreeMap, path::Path};

use coffer_sealing::{
    DerivationKey, Secret,
    fields::{Malformed, Reader, Writer},
    open_blob, seal_blob,
};
use zeroize::Zeroizing;

use crate::{
    Passphrase, durable,
    keyring::{
        FLOOR, Keyring, KeyringError, MasterInfo, MasterStatus,
        contents::{Contents, check_name, decode_masters, encode_masters, masters_capacity},
        file::{self, Header, Kind},
        find,
        master::Master,
    },
    table_key::check_value,
};

const MASTERS: u8 = 1;
const WHOLE: u8 = 2;
const CHECK_LEN: usize = 16;

/// Keys that were read from an export or a snapshot.
pub struct ExportedKeys(Payload);

enum Payload {
    Masters(BTreeMap<String, Master>),
    Whole(Box<Contents>),
}

/// What became of a master that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// As it is in the keyring now.
    pub master: MasterInfo,
    /// Whether the keyring lacked any of its keys.
    pub changed: bool,
}

impl ExportedKeys {
    /// Opens a file that [`Keyring::export`] made.
    pub fn open(path: &Path, passphrase: &Passphrase) -> Result<Self, KeyringError> {
        let bytes = file::read(Kind::Export, path)?;
        let (header, body) = Header::parse(Kind::Export, path, &bytes)?;
        let plain = header.unlock(passphrase)?.open(path, &header, body)?;
        Payload::decode(&plain)
            .map(Self)
            .map_err(|_| KeyringError::Damaged(path.to_path_buf()))
    }

    /// Opens what [`Keyring::snapshot`] made.
    pub fn from_snapshot(key: &Secret<32>, snapshot: &[u8]) -> Result<Self, KeyringError> {
        let root = DerivationKey::new("recovery", key);
        let (check, blob) = snapshot
            .split_first_chunk::<CHECK_LEN>()
            .ok_or(KeyringError::RecoveryKey)?;
        let want = check_value(&root, b"snapshot")?;
        if aws_lc_rs::constant_time::verify_slices_are_equal(&want, check).is_err() {
            return Err(KeyringError::RecoveryKey);
        }
        let plain = open_blob(&root, "snapshot", &[check], blob)
            .map_err(|_| KeyringError::SnapshotAltered)?;
        match Payload::decode(&Zeroizing::new(plain)) {
            Ok(payload @ Payload::Whole(_)) => Ok(Self(payload)),
            _ => Err(KeyringError::SnapshotAltered),
        }
    }

    /// Whether it is a whole keyring: owner's key and register's key too.
    pub fn is_whole(&self) -> bool {
        matches!(self.0, Payload::Whole(_))
    }

    /// The masters, in order of their names.
    pub fn masters(&self) -> Result<Vec<MasterInfo>, KeyringError> {
        self.held()
            .iter()
            .map(|(name, master)| master.info(name))
            .collect()
    }

    /// Makes the keyring that was exported whole, under a passphrase. An existing file is left
    /// alone and is an error.
    pub fn create_keyring(
        self,
        path: &Path,
        passphrase: &Passphrase,
    ) -> Result<Keyring, KeyringError> {
        match self.0 {
            Payload::Whole(contents) => Keyring::create_from(path, passphrase, FLOOR, *contents),
            Payload::Masters(_) => Err(KeyringError::NotWhole(path.to_path_buf())),
        }
    }

    fn held(&self) -> &BTreeMap<String, Master> {
        match &self.0 {
            Payload::Masters(masters) => masters,
            Payload::Whole(contents) => &contents.masters,
        }
    }
}

impl Payload {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        match bytes.split_first() {
            Some((&MASTERS, rest)) => {
                let mut reader = Reader::new(rest);
                let masters = decode_masters(&mut reader)?;
                reader.end()?;
                Ok(Self::Masters(masters))
            }
            Some((&WHOLE, rest)) => Ok(Self::Whole(Box::new(Contents::decode(rest)?))),
            _ => Err(Malformed),
        }
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Masters(masters) => {
                let mut writer = Writer::with_capacity(1 + masters_capacity(masters));
                writer.raw(&[MASTERS]);
                encode_masters(&mut writer, masters);
                writer.finish()
            }
            Self::Whole(contents) => {
                let contents = contents.encode();
                let mut writer = Writer::with_capacity(1 + contents.len());
                writer.raw(&[WHOLE]).raw(&contents);
                writer.finish()
            }
        }
    }
}

impl Keyring {
    /// Writes masters, or without names the whole keyring, to a new file under a passphrase of its
    /// own.
    pub fn export(
        &self,
        to: &Path,
        passphrase: &Passphrase,
        names: &[String],
    ) -> Result<Vec<MasterInfo>, KeyringError> {
        let contents = self.contents()?;
        let payload = match names {
            [] => Payload::Whole(Box::new((*contents).clone())),
            names => {
                let one = |name: &String| Ok((name.clone(), find(&contents, name)?.clone()));
                Payload::Masters(names.iter().map(one).collect::<Result<_, KeyringError>>()?)
            }
        };
        let sealed = Header::draw(Kind::Export, FLOOR)?
            .unlock(passphrase)?
            .seal(&payload.encode())?;
        durable::create(to, &sealed).map_err(|source| KeyringError::io(to, source))?;
        ExportedKeys(payload).masters()
    }

    /// Takes exported masters in. One that the keyring has already gets the versions that it lacks;
    /// a version of the same number with another key is an error, and then nothing is changed. A
    /// destroyed one comes back. `rename` is for an export of one master.
    pub fn import(
        &self,
        exported: &ExportedKeys,
        rename: Option<&str>,
    ) -> Result<Vec<Imported>, KeyringError> {
        let mut changes = Vec::new();
        self.update(|contents| {
            for (name, theirs) in exported.held() {
                let name = rename.unwrap_or(name);
                check_name(name)?;
                let merged = match contents.masters.get(name) {
                    None => theirs.clone(),
                    Some(own) => own.merged(name, theirs)?,
                };
                let before = contents.masters.insert(name.to_string(), merged.clone());
                let changed = before.is_none_or(|before| !before.same_keys(&merged));
                let master = merged.info(name)?;
                changes.push(Imported { master, changed });
            }
            Ok(())
        })?;
        Ok(changes)
    }

    /// Whether an export is all of this keyring, to the byte.
    pub fn is_whole_in(&self, exported: &ExportedKeys) -> Result<bool, KeyringError> {
        let own = Payload::Whole(Box::new((*self.contents()?).clone())).encode();
        Ok(aws_lc_rs::constant_time::verify_slices_are_equal(&own, &exported.0.encode()).is_ok())
    }

    /// All of the keyring, sealed under this key: what shares of the key give back.
    pub fn snapshot(&self, key: &Secret<32>) -> Result<Vec<u8>, KeyringError> {
        let payload = Payload::Whole(Box::new((*self.contents()?).clone()));
        let root = DerivationKey::new("recovery", key);
        let check = check_value(&root, b"snapshot")?;
        let mut bytes = check.to_vec();
        bytes.extend(seal_blob(&root, "snapshot", &[&check], &payload.encode())?);
        Ok(bytes)
    }
}

impl Master {
    /// The versions of both.
    fn merged(&self, name: &str, other: &Self) -> Result<Self, KeyringError> {
        let mut versions = self.versions().to_vec();
        for theirs in other.versions() {
            match versions.iter().find(|own| own.number == theirs.number) {
                Some(own) if own.secret().ct_eq(theirs.secret()) => (),
                Some(_) => {
                    return Err(KeyringError::OtherVersion {
                        master: name.to_string(),
                        version: theirs.number,
                    });
                }
                None => versions.push(theirs.clone()),
            }
        }
        versions.sort_by_key(|version| version.number);
        let state = match self.status() {
            MasterStatus::Destroyed => other.status(),
            state => state,
        };
        let next = self.next_version().max(other.next_version());
        Self::from_parts(self.created().min(other.created()), state, next, versions)
            .ok_or_else(|| KeyringError::Destroyed(name.to_string()))
    }
}
