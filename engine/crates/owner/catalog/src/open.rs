//! Opening a table: from a name or folder to a manifest that is authentic, of that table, and the
//! newest.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use coffer_custody::{ConfigDir, Policy, TableKey, TablePolicy, Vault};
use coffer_format::{Digest, Error as FormatError, FilePin, FooterPin};
use coffer_protocol::storage::Reach;
use coffer_sealing::{KekId, KekSet};

use crate::{
    Codec, Envelope, Error, LinkKeys, MANIFEST_FOLDER, Manifest, Register, TableRecord, Target,
    disk::{self, Folder},
    find::find,
    manifest_name,
    versions::{MANIFEST_LIMIT, newest_version, versions},
};

/// A manifest that is authentic and that the register knows as the table's newest. Only
/// [`open_table`] and [`TableWrite::publish`](crate::TableWrite::publish) make one. Holds the
/// table's key, so it never leaves the client site.
#[derive(Clone)]
pub struct VerifiedManifest {
    manifest: Arc<Manifest>,
    folder: PathBuf,
    record: Arc<TableRecord>,
    hash: Digest,
    key: Arc<TableKey>,
    links: Arc<LinkKeys>,
    codec: Arc<OnceLock<Codec>>,
    reach: Reach,
}

impl VerifiedManifest {
    pub(crate) fn new(
        manifest: Manifest,
        folder: PathBuf,
        record: TableRecord,
        hash: Digest,
        key: Arc<TableKey>,
        links: Arc<LinkKeys>,
        reach: Reach,
    ) -> Self {
        Self {
            manifest: Arc::new(manifest),
            folder,
            record: Arc::new(record),
            hash,
            key,
            links,
            codec: Arc::default(),
            reach,
        }
    }

    /// How its folder is reached, if that is a URL.
    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// The table's folder, whatever is found there.
    pub(crate) fn folder_now(&self) -> Result<Folder, Error> {
        Ok(Folder::at(&self.folder, self.reach.as_ref())?)
    }

    /// What it says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The table's folder, by the spelling that it was opened by.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same, held open: it must still be the folder in which the manifest was found. For who
    /// changes something there.
    pub(crate) fn root(&self) -> Result<Folder, Error> {
        let folder = self.folder_now()?;
        let position = Path::new(MANIFEST_FOLDER).join(manifest_name(self.manifest.version));
        match folder.read(&position, MANIFEST_LIMIT)? {
            Some(bytes) if Digest::of(&bytes) == self.hash => Ok(folder),
            _ => Err(Error::FolderChanged(self.folder.clone())),
        }
    }

    /// Whether its manifest is also what is found by another path.
    pub fn check_at(&self, path: &Path) -> Result<(), Error> {
        let folder = crate::spelling::normal(path)?;
        let position = folder
            .join(MANIFEST_FOLDER)
            .join(manifest_name(self.manifest.version));
        match disk::read_at(&self.reach, &position, MANIFEST_LIMIT)? {
            Some(bytes) if Digest::of(&bytes) == self.hash => Ok(()),
            Some(_) => Err(Error::VersionReplaced {
                version: self.manifest.version,
            }),
            None => Err(Error::NotATable(folder)),
        }
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// The master that wraps the table's key.
    pub fn master(&self) -> &str {
        &self.record.master
    }

    pub(crate) fn manifest_arc(&self) -> Arc<Manifest> {
        Arc::clone(&self.manifest)
    }

    pub(crate) fn key(&self) -> Arc<TableKey> {
        Arc::clone(&self.key)
    }

    pub(crate) fn links(&self) -> Arc<LinkKeys> {
        Arc::clone(&self.links)
    }

    /// Opens and makes values of the table's stored columns.
    pub fn codec(&self) -> Result<Codec, Error> {
        if let Some(codec) = self.codec.get() {
            return Ok(codec.clone());
        }
        let codec = Codec::new(
            &self.key,
            &self.links,
            &self.manifest.columns,
            &self.manifest.stored,
        )?;
        Ok(self.codec.get_or_init(|| codec).clone())
    }

    pub(crate) fn record(&self) -> &TableRecord {
        &self.record
    }

    /// SHA-256 of the manifest file.
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// Where a file is.
    pub fn file_path(&self, file: &FilePin) -> PathBuf {
        self.folder.join(&file.path)
    }

    /// What must be known to open a file's footer.
    pub fn footer_pin(&self, file: &FilePin) -> FooterPin {
        FooterPin::of(self.manifest.table, file, !self.manifest.stored.is_empty())
    }

    /// The KEK id of a column; none of one that Parquet does not encrypt.
    pub fn kek_id(&self, column: &str) -> Result<Option<KekId>, Error> {
        let column = self
            .manifest
            .column(column)
            .ok_or_else(|| FormatError::NoSuchColumn(column.to_owned()))?;
        let stored = &self.manifest.stored;
        let sealed = stored.is_empty() || stored.iter().any(|stored| stored.id == column.id);
        Ok(sealed.then(|| KekId::column(self.manifest.table, column.id())))
    }

    /// The KEKs that reading these columns of the files takes: theirs and the footer's. Those that
    /// lie unencrypted take none.
    pub fn stored_keks<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<KekSet, Error> {
        if self.manifest.stored.is_empty() {
            return self.keks(names);
        }
        let mut keks = KekSet::new();
        for name in names {
            let stored = self
                .manifest
                .stored_column(name)
                .ok_or_else(|| FormatError::NoSuchColumn(name.to_owned()))?;
            if !stored.encoding.is_clear() {
                keks.insert(self.key.kek(stored.id())?);
                keks.insert(self.key.footer_kek()?);
            }
        }
        Ok(keks)
    }

    /// The KEKs that reading these columns takes: theirs and the footer's. A column that is stored
    /// in other ways than encrypted by Parquet has none.
    pub fn keks<'a>(&self, columns: impl IntoIterator<Item = &'a str>) -> Result<KekSet, Error> {
        let mut keks = KekSet::new();
        keks.insert(self.key.footer_kek()?);
        for name in columns {
            let column = self
                .manifest
                .column(name)
                .ok_or_else(|| FormatError::NoSuchColumn(name.to_owned()))?;
            let stored = &self.manifest.stored;
            if stored.is_empty() || stored.iter().any(|stored| stored.id == column.id) {
                keks.insert(self.key.kek(column.id())?);
            }
        }
        Ok(keks)
    }

    /// The KEKs of all columns that have one, and the footer.
    pub fn all_keks(&self) -> Result<KekSet, Error> {
        self.keks(
            self.manifest
                .columns
                .iter()
                .map(|column| column.name.as_str()),
        )
    }

    /// Checks that each version follows from the one before, as far back as manifests are kept.
    /// Gives how many were checked.
    pub fn check_chain(&self) -> Result<u64, Error> {
        let older = u64::try_from(self.older()?.len()).unwrap_or(u64::MAX);
        Ok(older.saturating_add(1))
    }

    /// SHA-256 of the manifest of a version; none if that is not kept far enough back.
    pub fn hash_of(&self, version: u64) -> Result<Option<Digest>, Error> {
        if version == self.manifest.version {
            return Ok(Some(self.hash));
        }
        let older = self.older()?;
        let mut chain = std::iter::once(self.manifest()).chain(&older);
        let child = chain.find(|manifest| manifest.version.checked_sub(1) == Some(version));
        Ok(child.and_then(|manifest| manifest.parent))
    }

    /// The versions before this one, newest first, as far back as manifests are kept and have this
    /// version's key; each is the one that its child names.
    pub(crate) fn older(&self) -> Result<Vec<Manifest>, Error> {
        let mut older: Vec<Manifest> = Vec::new();
        loop {
            let child = older.last().unwrap_or(&self.manifest);
            let broken = |parent| Error::ChainBroken {
                version: child.version,
                parent,
            };
            if (child.version == 1) != child.parent.is_none() {
                return Err(broken(0));
            }
            let (Some(parent_hash), Some(parent)) = (child.parent, child.version.checked_sub(1))
            else {
                return Ok(older);
            };
            let path = self
                .folder
                .join(MANIFEST_FOLDER)
                .join(manifest_name(parent));
            let Some(bytes) = disk::read_at(&self.reach, &path, MANIFEST_LIMIT)? else {
                return Ok(older);
            };
            if Digest::of(&bytes) != parent_hash {
                return Err(broken(parent));
            }
            // It follows, and is under a key that is not at hand.
            if child.rekeyed {
                return Ok(older);
            }
            let manifest = Manifest::open(&bytes, &self.key)?;
            if manifest.table != child.table || manifest.version != parent {
                return Err(broken(parent));
            }
            older.push(manifest);
        }
    }
}

/// Opens a table's newest version. Which id, version and hash that must be, the register says; the
/// folder only serves the bytes, and whose it was is compared. A publication that was cut short is
/// settled here: it counts for nothing.
pub fn open_table(
    config_dir: &ConfigDir,
    vault: &Vault,
    policy: &Policy,
    target: &Target,
) -> Result<VerifiedManifest, Error> {
    let register = Register::of(config_dir, vault.keyring());
    loop {
        let (record, folder) = find(&register, policy, target)?;
        let before = record.clone();
        let opened = open_record(&register, vault, policy, record, folder);
        // A version that was published between two looks, or is just being, is no attack: what the
        // register says by now decides. The next look settles what is pending.
        let overtaken = matches!(opened, Err(Error::VersionUnknown { .. }))
            && register
                .by_id(before.id)?
                .is_some_and(|now| now.state() != before.state());
        if !overtaken {
            return opened;
        }
    }
}

fn open_record(
    register: &Register,
    vault: &Vault,
    policy: &Policy,
    record: TableRecord,
    folder: PathBuf,
) -> Result<VerifiedManifest, Error> {
    if let Some(want) = policy
        .table(&record.name)
        .ok()
        .and_then(TablePolicy::id)
        .filter(|want| *want != record.id)
    {
        return Err(Error::PolicyId {
            name: record.name,
            want,
            got: record.id,
        });
    }
    // First: a version that is being published may have a key of its own.
    let record = settled(register, record)?;
    let key = Arc::new(record.unwrap_key(vault)?);
    let Some((want, Some(hash))) = record
        .committed
        .map(|committed| (committed.version, committed.hash))
    else {
        return Err(Error::Unfinished(record.name));
    };
    let manifests = folder.join(MANIFEST_FOLDER);
    let reach = register.reach();
    let newest_path = manifests.join(manifest_name(want));
    let Some(bytes) = disk::read_at(reach, &newest_path, MANIFEST_LIMIT)? else {
        return Err(match newest_version(reach, &manifests)? {
            None => Error::NotATable(folder),
            newest => foreign(reach, &manifests, newest, &record)?
                .unwrap_or(Error::VersionMissing { want, newest }),
        });
    };
    let (envelope, _) = Envelope::parse(&bytes)?;
    check_owner(&envelope, &record)?;
    // Opened before it is compared, so that a changed byte is called that, and an older whole
    // manifest what it is.
    let manifest = Manifest::open(&bytes, &key)?;
    if manifest.version != want || Digest::of(&bytes) != hash {
        return Err(Error::VersionReplaced { version: want });
    }
    if manifest.table != record.id {
        return Err(Error::ManifestForeign {
            want: record.id,
            got: manifest.table,
        });
    }
    if let Some(got) = newer(reach, &manifests, want, &record)? {
        return Err(Error::VersionUnknown { want, got });
    }
    let links = register.link_keys(
        vault,
        manifest.stored.iter().filter_map(|stored| stored.link),
    )?;
    Ok(VerifiedManifest::new(
        manifest,
        folder,
        record,
        hash,
        key,
        Arc::new(links),
        reach.clone(),
    ))
}

/// What was opened is what was asked for, not what lies there.
fn check_owner(envelope: &Envelope, record: &TableRecord) -> Result<(), Error> {
    if envelope.table == record.id {
        return Ok(());
    }
    Err(Error::ManifestForeign {
        want: record.id,
        got: envelope.table,
    })
}

/// Where the version that is wanted is missing: whether another table lies there.
fn foreign(
    reach: &Reach,
    manifests: &Path,
    newest: Option<u64>,
    record: &TableRecord,
) -> Result<Option<Error>, Error> {
    let path = manifests.join(manifest_name(newest.unwrap_or_default()));
    let bytes = disk::read_at(reach, &path, MANIFEST_LIMIT)?.unwrap_or_default();
    let envelope = Envelope::parse(&bytes).ok();
    Ok(envelope.and_then(|(envelope, _)| check_owner(&envelope, record).err()))
}

/// A publication that was cut short is settled before anything else happens: what it left pending
/// counts for nothing. One that is under way is waited for.
fn settled(register: &Register, record: TableRecord) -> Result<TableRecord, Error> {
    if record.pending.and_then(|pending| pending.hash).is_none() {
        return Ok(record);
    }
    let mut locked = register.lock()?;
    locked.drop_pending(record.id)?;
    locked.record(record.id).cloned()
}

/// The newest version by name that is none of a publication that failed, if it is newer than this
/// one.
fn newer(
    reach: &Reach,
    manifests: &Path,
    want: u64,
    record: &TableRecord,
) -> Result<Option<u64>, Error> {
    for version in versions(reach, manifests)? {
        // Of each version there is one name, and few are known to have failed: so little is read.
        if version <= want {
            continue;
        }
        let path = manifests.join(manifest_name(version));
        let hash = match disk::read_at(reach, &path, MANIFEST_LIMIT) {
            Ok(bytes) => bytes.map(|bytes| Digest::of(&bytes)),
            Err(_) => return Ok(Some(version)),
        };
        // None: it is gone by now.
        if hash.is_some_and(|hash| !record.is_dropped(version, hash)) {
            return Ok(Some(version));
        }
    }
    Ok(None)
}
