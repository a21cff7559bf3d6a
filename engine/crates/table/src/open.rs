//! Opening a table: from a name or folder to a manifest that is authentic, of that table, and the newest.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use coffer_keys::{Home, KekId, KekSet, Keyring, Policy, TableKey, TablePolicy, Vault};

use crate::{
    Codec, Digest, Envelope, Error, FilePin, FooterPin, LinkKeys, MANIFEST_FOLDER, Manifest, Register, TableRecord,
    disk, manifest_name,
};

pub(crate) const MANIFEST_LIMIT: u64 = 64 << 20;

/// How a caller names a table.
#[derive(Debug, Clone)]
pub enum Target {
    /// By its name in register and policy.
    Name(String),
    /// By its folder, which register or policy must know.
    Path(PathBuf),
}

impl Target {
    /// A folder as Spark may write it: a path or a `file:` URL.
    pub fn path(text: &str) -> Self {
        let path = text
            .strip_prefix("file://")
            .or_else(|| text.strip_prefix("file:"))
            .unwrap_or(text);
        Self::Path(PathBuf::from(path))
    }
}

/// A manifest that is authentic and that the register knows as the table's newest. Only [`open_table`] and
/// [`TableWrite::publish`](crate::TableWrite::publish) make one. Holds the table's key, so it never leaves the trusted site.
#[derive(Clone)]
pub struct VerifiedManifest {
    manifest: Arc<Manifest>,
    folder: PathBuf,
    record: Arc<TableRecord>,
    hash: Digest,
    key: Arc<TableKey>,
    links: Arc<LinkKeys>,
    codec: Arc<OnceLock<Codec>>,
}

impl VerifiedManifest {
    pub(crate) fn new(
        manifest: Manifest,
        folder: PathBuf,
        record: TableRecord,
        hash: Digest,
        key: Arc<TableKey>,
        links: Arc<LinkKeys>,
    ) -> Self {
        Self {
            manifest: Arc::new(manifest),
            folder,
            record: Arc::new(record),
            hash,
            key,
            links,
            codec: Arc::default(),
        }
    }

    /// What it says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The table's folder, canonical.
    pub fn folder(&self) -> &Path {
        &self.folder
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
        let codec = Codec::new(&self.key, &self.links, &self.manifest.columns, &self.manifest.stored)?;
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
            .ok_or_else(|| Error::NoSuchColumn(column.to_owned()))?;
        let stored = &self.manifest.stored;
        let sealed = stored.is_empty() || stored.iter().any(|stored| stored.id == column.id);
        Ok(sealed.then(|| KekId::column(self.manifest.table, column.id())))
    }

    /// The KEKs that reading these columns of the files takes: theirs and the footer's. Those that lie unencrypted take none.
    pub fn stored_keks<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<KekSet, Error> {
        if self.manifest.stored.is_empty() {
            return self.keks(names);
        }
        let mut keks = KekSet::new();
        for name in names {
            let stored = self
                .manifest
                .stored_column(name)
                .ok_or_else(|| Error::NoSuchColumn(name.to_owned()))?;
            if !stored.form.is_clear() {
                keks.insert(self.key.kek(stored.id())?);
                keks.insert(self.key.footer_kek()?);
            }
        }
        Ok(keks)
    }

    /// The KEKs that reading these columns takes: theirs and the footer's. A column that is stored in other ways than
    /// encrypted by Parquet has none.
    pub fn keks<'a>(&self, columns: impl IntoIterator<Item = &'a str>) -> Result<KekSet, Error> {
        let mut keks = KekSet::new();
        keks.insert(self.key.footer_kek()?);
        for name in columns {
            let column = self
                .manifest
                .column(name)
                .ok_or_else(|| Error::NoSuchColumn(name.to_owned()))?;
            let stored = &self.manifest.stored;
            if stored.is_empty() || stored.iter().any(|stored| stored.id == column.id) {
                keks.insert(self.key.kek(column.id())?);
            }
        }
        Ok(keks)
    }

    /// The KEKs of all columns that have one, and the footer.
    pub fn all_keks(&self) -> Result<KekSet, Error> {
        self.keks(self.manifest.columns.iter().map(|column| column.name.as_str()))
    }

    /// Checks that each version follows from the one before, as far back as manifests are kept. Gives how many were
    /// checked.
    pub fn check_chain(&self) -> Result<u64, Error> {
        let older = u64::try_from(self.older()?.len()).unwrap_or(u64::MAX);
        Ok(older.saturating_add(1))
    }

    /// The versions before this one, newest first, as far back as manifests are kept and have this version's key; each is the one that its child names.
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
            let (Some(parent_hash), Some(parent)) = (child.parent, child.version.checked_sub(1)) else {
                return Ok(older);
            };
            let path = self.folder.join(MANIFEST_FOLDER).join(manifest_name(parent));
            let Some(bytes) = disk::read(&path, MANIFEST_LIMIT)? else {
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

/// Opens a table's newest version. Which id, version and hash that must be, the register says; the folder only serves
/// the bytes. A publication that was cut short after its manifest appeared is completed here.
pub fn open_table(home: &Home, vault: &Vault, policy: &Policy, target: &Target) -> Result<VerifiedManifest, Error> {
    let register = Register::of(home, vault.keyring());
    loop {
        let (record, folder) = find(&register, policy, target)?;
        let (id, committed) = (record.id, record.committed);
        let opened = open_record(&register, vault, policy, record, folder);
        // A version that was published between two looks, or is just being, is no attack: what the register says by now
        // decides. The next look settles what is pending.
        let overtaken = matches!(opened, Err(Error::VersionUnknown { .. }))
            && register.by_id(id)?.is_some_and(|now| {
                now.committed != committed || now.pending.is_some_and(|pending| pending.hash.is_some())
            });
        if !overtaken {
            return opened;
        }
    }
}

/// Whether there is no table at a folder: neither register nor policy knows one there, and there is no manifest in it.
pub fn is_absent(home: &Home, keyring: &Keyring, policy: &Policy, folder: &Path) -> Result<bool, Error> {
    let folder = to_be(folder)?;
    Ok(is_none_of(home, keyring, policy, &folder)? && newest_version(&folder.join(MANIFEST_FOLDER))?.is_none())
}

/// As [`is_absent`], by this home alone: what lies in the folder is not looked at.
pub fn is_unknown(home: &Home, keyring: &Keyring, policy: &Policy, folder: &Path) -> Result<bool, Error> {
    is_none_of(home, keyring, policy, &to_be(folder)?)
}

/// The canonical path of a folder that need not be there yet.
fn to_be(folder: &Path) -> Result<PathBuf, Error> {
    Ok(match fs::canonicalize(folder) {
        Ok(folder) => folder,
        Err(_) => match (folder.parent().map(fs::canonicalize), folder.file_name()) {
            (Some(Ok(parent)), Some(name)) => parent.join(name),
            _ => std::path::absolute(folder).map_err(Error::io("open", folder))?,
        },
    })
}

fn is_none_of(home: &Home, keyring: &Keyring, policy: &Policy, folder: &Path) -> Result<bool, Error> {
    let named = policy
        .tables()
        .any(|table| table.path() == Some(folder) && table.id().is_some());
    Ok(!named && Register::of(home, keyring).by_path(folder)?.is_none())
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
    let record = roll_forward(register, record, &folder)?;
    let key = Arc::new(record.unwrap_key(vault)?);
    let Some((want, Some(hash))) = record.committed.map(|committed| (committed.version, committed.hash)) else {
        return Err(Error::Unfinished(record.name));
    };
    let manifests = folder.join(MANIFEST_FOLDER);
    let newest = newest_version(&manifests)?;
    let Some(bytes) = disk::read(&manifests.join(manifest_name(want)), MANIFEST_LIMIT)? else {
        return Err(match newest {
            None => Error::NotATable(folder),
            newest => Error::VersionMissing { want, newest },
        });
    };
    let (envelope, _) = Envelope::parse(&bytes)?;
    if envelope.table != record.id {
        return Err(Error::ManifestForeign {
            want: record.id,
            got: envelope.table,
        });
    }
    // Opened before it is compared, so that a changed byte is called that, and an older whole manifest what it is.
    let manifest = Manifest::open(&bytes, &key)?;
    if manifest.version != want || Digest::of(&bytes) != hash {
        return Err(Error::VersionReplaced { version: want });
    }
    if let Some(got) = newest.filter(|newest| *newest > want) {
        return Err(Error::VersionUnknown { want, got });
    }
    let links = register.link_keys(vault, manifest.stored.iter().filter_map(|stored| stored.link))?;
    Ok(VerifiedManifest::new(
        manifest,
        folder,
        record,
        hash,
        key,
        Arc::new(links),
    ))
}

/// The table's record and folder. The folder's own claims play no part, but for telling why it is not found.
fn find(register: &Register, policy: &Policy, target: &Target) -> Result<(TableRecord, PathBuf), Error> {
    match target {
        Target::Name(name) => {
            let record = register
                .by_name(name)?
                .ok_or_else(|| Error::UnknownTable(name.clone()))?;
            let folder = match policy.table(name).ok().and_then(TablePolicy::path) {
                Some(path) => canonical(path)?,
                None => record.path.clone(),
            };
            Ok((record, folder))
        }
        Target::Path(path) => {
            let folder = canonical(path)?;
            let by_policy = policy.tables().find(|table| {
                table
                    .path()
                    .and_then(|path| fs::canonicalize(path).ok())
                    .is_some_and(|path| path == folder)
            });
            let record = match by_policy {
                Some(table) => register.by_name(table.name())?,
                None => register.by_path(&folder)?,
            };
            match record {
                Some(record) => Ok((record, folder)),
                None => Err(stranger(folder)),
            }
        }
    }
}

fn canonical(path: &Path) -> Result<PathBuf, Error> {
    fs::canonicalize(path).map_err(Error::io("open", path))
}

/// Why a folder is none of this home's tables.
fn stranger(folder: PathBuf) -> Error {
    let manifests = folder.join(MANIFEST_FOLDER);
    let envelope = newest_version(&manifests)
        .ok()
        .flatten()
        .and_then(|version| {
            disk::read(&manifests.join(manifest_name(version)), MANIFEST_LIMIT)
                .ok()
                .flatten()
        })
        .and_then(|bytes| Envelope::parse(&bytes).ok().map(|(envelope, _)| envelope));
    match envelope {
        Some(envelope) => Error::ForeignTable {
            id: envelope.table,
            path: folder,
        },
        None => Error::NotATable(folder),
    }
}

/// The newest version of which there is a manifest by name.
pub(crate) fn newest_version(manifests: &Path) -> Result<Option<u64>, Error> {
    let entries = match fs::read_dir(manifests) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", manifests)(error)),
    };
    let mut newest = None;
    for entry in entries {
        let name = entry.map_err(Error::io("read", manifests))?.file_name();
        newest = newest.max(name.to_str().and_then(version_of));
    }
    Ok(newest)
}

/// The version that a manifest's file name says, if it is one.
pub(crate) fn version_of(name: &str) -> Option<u64> {
    let version = name.strip_prefix("manifest-")?.parse().ok()?;
    (manifest_name(version) == name).then_some(version)
}

/// Completes a publication that was cut short after its manifest appeared. One that is under way is waited for.
fn roll_forward(register: &Register, record: TableRecord, folder: &Path) -> Result<TableRecord, Error> {
    if record.pending.and_then(|pending| pending.hash).is_none() {
        return Ok(record);
    }
    let mut locked = register.lock()?;
    locked.roll_forward(record.id, folder)?;
    locked.record(record.id).cloned()
}
