//! The register: what the trusted site knows of its tables, whatever storage says. Each table's name, folder, wrapped key,
//! and the version and hash that are the newest, *pending* while being published, then *committed*.
//!
//! One file at home, `magic "CFRG" ‖ format u16 LE ‖ sealed blob (JSON)`, under a key of the keyring. Changed under a file
//! lock, by replacing it whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    path::{Path, PathBuf},
};

use coffer_keys::{Home, KeyContext, Keyring, LinkId, LinkKey, RegisterKey, TableId, TableKey, Vault, WrappedKey};
use serde::{Deserialize, Serialize};

use crate::{
    Digest, Error, LinkKeys, MANIFEST_FOLDER, disk,
    manifest::{hex_bytes, manifest_name, table_id},
    open::MANIFEST_LIMIT,
};

const MAGIC: &[u8] = b"CFRG\x01\x00";
const LIMIT: u64 = 64 << 20;

/// One version of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// From 1.
    pub version: u64,
    /// SHA-256 of the manifest file; none while its files are still being written.
    pub hash: Option<Digest>,
}

/// What is known of one table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRecord {
    #[serde(with = "table_id")]
    /// Which table.
    pub id: TableId,
    /// Unique in the register.
    pub name: String,
    /// Canonical.
    pub path: PathBuf,
    /// The master that wraps the table's key.
    pub master: String,
    #[serde(with = "hex_bytes")]
    wrapped_key: Vec<u8>,
    /// The newest version that counts.
    pub committed: Option<Version>,
    /// A version that is being written or published.
    pub pending: Option<Version>,
    /// The key of the pending version, where that is another than the table's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending_key: Option<PendingKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PendingKey {
    master: String,
    #[serde(with = "hex_bytes")]
    wrapped_key: Vec<u8>,
}

impl TableRecord {
    /// Of a table whose first version is being written.
    pub(crate) fn begin(id: TableId, name: String, path: PathBuf, wrapped: WrappedKey) -> Self {
        Self {
            id,
            name,
            path,
            master: wrapped.master,
            wrapped_key: wrapped.bytes,
            committed: None,
            pending: Some(Version { version: 1, hash: None }),
            pending_key: None,
        }
    }

    /// A version is being published; `key`: under a key of its own.
    pub(crate) fn pend(&mut self, version: Version, key: Option<&WrappedKey>) {
        self.pending = Some(version);
        self.pending_key = key.map(|key| PendingKey {
            master: key.master.clone(),
            wrapped_key: key.bytes.clone(),
        });
    }

    /// The pending version came about, with its key; or it did not.
    pub(crate) fn settle(&mut self, published: bool) {
        let (version, key) = (self.pending.take(), self.pending_key.take());
        if !published {
            return;
        }
        self.committed = version;
        if let Some(key) = key {
            self.master = key.master;
            self.wrapped_key = key.wrapped_key;
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

/// What is known of one link: a group of columns, of whatever tables, with comparable ciphertexts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkRecord {
    /// Which link.
    #[serde(with = "link_id")]
    pub id: LinkId,
    /// Unique in the register.
    pub name: String,
    /// The master that wraps the link's key.
    pub master: String,
    #[serde(with = "hex_bytes")]
    wrapped_key: Vec<u8>,
    /// What all its columns have in common, by the form they are stored in: else equal values would have unlike ciphertexts.
    shapes: BTreeMap<String, String>,
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

/// Where the audit log ends: without it a cut tail would go unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditHead {
    /// Of the last record, from 1.
    pub sequence: u64,
    /// SHA-256 of the last record.
    pub hash: Digest,
    /// Where the last record begins in the log's file, in bytes.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    tables: BTreeMap<String, TableRecord>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    links: BTreeMap<String, LinkRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audit: Option<AuditHead>,
    /// Masters of the keyring, by version, that wrapped keys of Parquet files for other programs. The files are wherever those put them, so
    /// an entry stays.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    file_masters: BTreeSet<(String, u32)>,
}

/// A wrapped key of the register, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldKey {
    /// The table or link.
    pub context: KeyContext,
    /// Its name.
    pub name: String,
    /// Of a table: where it is.
    pub path: Option<PathBuf>,
    /// The key.
    pub wrapped: WrappedKey,
    /// It is that of a version that is being published.
    pub pending: bool,
}

impl Content {
    fn held_keys(&self) -> Vec<HeldKey> {
        let held = |context, name: &String, path: Option<&PathBuf>, wrapped, pending| HeldKey {
            context,
            name: name.clone(),
            path: path.cloned(),
            wrapped,
            pending,
        };
        let mut keys = Vec::new();
        for table in self.tables.values() {
            let context = KeyContext::Table(table.id);
            keys.push(held(context, &table.name, Some(&table.path), table.wrapped(), false));
            let pending = table.pending_wrapped();
            keys.extend(pending.map(|wrapped| held(context, &table.name, Some(&table.path), wrapped, true)));
        }
        for link in self.links.values() {
            keys.push(held(KeyContext::Link(link.id), &link.name, None, link.wrapped(), false));
        }
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        keys
    }
}

/// A link's id as hex text.
mod link_id {
    use coffer_keys::LinkId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(id: &LinkId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<LinkId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The register of one home.
pub struct Register {
    path: PathBuf,
    key: RegisterKey,
}

impl Register {
    /// Of this home, under a key of this keyring. Nothing is read yet.
    pub fn of(home: &Home, keyring: &Keyring) -> Self {
        Self {
            path: home.register(),
            key: keyring.register_key(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All tables, by name.
    pub fn tables(&self) -> Result<Vec<TableRecord>, Error> {
        let mut tables: Vec<_> = self.load()?.tables.into_values().collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tables)
    }

    /// The table of an id.
    pub fn by_id(&self, id: TableId) -> Result<Option<TableRecord>, Error> {
        Ok(self.load()?.tables.remove(&id.to_string()))
    }

    /// The table of a name.
    pub fn by_name(&self, name: &str) -> Result<Option<TableRecord>, Error> {
        Ok(self.load()?.tables.into_values().find(|table| table.name == name))
    }

    /// The table of a canonical folder.
    pub fn by_path(&self, path: &Path) -> Result<Option<TableRecord>, Error> {
        Ok(self.load()?.tables.into_values().find(|table| table.path == path))
    }

    /// Enters a new table; its name must be free. Its master may have been destroyed since it wrapped the key: that is looked at
    /// here, where nobody else can.
    pub(crate) fn insert(&self, vault: &Vault, record: TableRecord) -> Result<(), Error> {
        let mut locked = self.lock()?;
        vault.check_by_keyring(&KeyContext::Table(record.id), &record.wrapped())?;
        let tables = &mut locked.content.tables;
        if tables.values().any(|table| table.name == record.name) {
            return Err(Error::NameTaken(record.name));
        }
        if tables.values().any(|table| table.path == record.path) {
            return Err(Error::FolderTaken(record.path));
        }
        tables.insert(record.id.to_string(), record);
        locked.store()
    }

    /// All links, by name.
    pub fn links(&self) -> Result<Vec<LinkRecord>, Error> {
        let mut links: Vec<_> = self.load()?.links.into_values().collect();
        links.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(links)
    }

    /// Whether there is a link of this name. Links are never removed.
    pub(crate) fn has_link(&self, name: &str) -> Result<bool, Error> {
        Ok(self.load()?.links.values().any(|link| link.name == name))
    }

    /// The link of a name for columns of this shape under this form; `fresh` is entered where there is none. Its key was wrapped
    /// before, since a KMS may be slow, and the register is locked here.
    pub(crate) fn link(
        &self,
        vault: &Vault,
        (name, form, shape): (&str, &str, &str),
        fresh: Option<(LinkId, WrappedKey)>,
    ) -> Result<LinkRecord, Error> {
        let mut locked = self.lock()?;
        let links = &mut locked.content.links;
        let known = links.values().find(|link| link.name == name).map(|link| link.id);
        let id = match known {
            Some(id) => id,
            None => {
                let (id, wrapped) = fresh.ok_or_else(|| Error::RegisterContent(format!("the link {name} is gone")))?;
                vault.check_by_keyring(&KeyContext::Link(id), &wrapped)?;
                let record = LinkRecord {
                    id,
                    name: name.to_owned(),
                    master: wrapped.master,
                    wrapped_key: wrapped.bytes,
                    shapes: BTreeMap::new(),
                };
                links.insert(id.to_string(), record);
                id
            }
        };
        let record = links.get_mut(&id.to_string()).ok_or(Error::LinkUnknown(id))?;
        let held = record.shapes.entry(form.to_owned()).or_insert_with(|| shape.to_owned());
        if held != shape {
            return Err(Error::LinkShape {
                link: name.to_owned(),
                form: form.to_owned(),
                want: held.clone(),
                got: shape.to_owned(),
            });
        }
        let record = record.clone();
        locked.store()?;
        Ok(record)
    }

    /// The keys of these links.
    pub(crate) fn link_keys(&self, vault: &Vault, ids: impl Iterator<Item = LinkId>) -> Result<LinkKeys, Error> {
        let mut keys = LinkKeys::new();
        let mut ids = ids.peekable();
        if ids.peek().is_none() {
            return Ok(keys);
        }
        let links = self.load()?.links;
        for id in ids {
            let record = links.get(&id.to_string()).ok_or(Error::LinkUnknown(id))?;
            keys.insert(id, record.unwrap_key(vault)?);
        }
        Ok(keys)
    }

    /// The wrapped keys of all tables and links, by name.
    pub fn held_keys(&self) -> Result<Vec<HeldKey>, Error> {
        Ok(self.load()?.held_keys())
    }

    /// Where the audit log ends; none before its first record.
    pub fn audit_head(&self) -> Result<Option<AuditHead>, Error> {
        Ok(self.load()?.audit)
    }

    /// The audit log ends elsewhere now. For the log's only writer, which holds the log's lock: never the other way round.
    pub fn set_audit_head(&self, head: AuditHead) -> Result<(), Error> {
        let mut locked = self.lock()?;
        locked.content.audit = Some(head);
        locked.store()
    }

    /// Before a key goes out into files of another program that this wrapped key's master is needed for. A master outside of the keyring is
    /// not ours to destroy.
    pub(crate) fn enter_file_master(
        &self,
        vault: &Vault,
        context: &KeyContext,
        wrapped: &WrappedKey,
    ) -> Result<(), Error> {
        let Some(version) = vault.keyring_version(wrapped)? else {
            return Ok(());
        };
        let mut locked = self.lock()?;
        // It may have been destroyed since it wrapped; under the lock nobody destroys one.
        vault.check_by_keyring(context, wrapped)?;
        if locked.content.file_masters.insert(version) {
            locked.store()?;
        }
        Ok(())
    }

    /// Forgets a table, and with it the key that opens its files.
    pub fn remove(&self, id: TableId) -> Result<(), Error> {
        let mut locked = self.lock()?;
        locked.content.tables.remove(&id.to_string());
        locked.store()
    }

    /// The register, for one who reads, decides and changes while nobody else does.
    pub(crate) fn lock(&self) -> Result<Locked<'_>, Error> {
        let path = self.path.with_extension("lock");
        let lock = File::create(&path).map_err(Error::io("create", &path))?;
        lock.lock().map_err(Error::io("lock", &path))?;
        Ok(Locked {
            content: self.load()?,
            register: self,
            _lock: lock,
        })
    }

    fn load(&self) -> Result<Content, Error> {
        let Some(bytes) = disk::read(&self.path, LIMIT)? else {
            return Ok(Content::default());
        };
        let altered = || Error::RegisterAltered(self.path.clone());
        let blob = bytes.strip_prefix(MAGIC).ok_or_else(altered)?;
        let text = self.key.open(blob).map_err(|_| altered())?;
        serde_json::from_slice(&text).map_err(|error| Error::RegisterContent(error.to_string()))
    }
}

/// The register while it is locked. Each change is stored at once.
pub(crate) struct Locked<'a> {
    register: &'a Register,
    content: Content,
    _lock: File,
}

impl Locked<'_> {
    pub(crate) fn record(&self, id: TableId) -> Result<&TableRecord, Error> {
        let key = id.to_string();
        self.content.tables.get(&key).ok_or(Error::UnknownTable(key))
    }

    /// Changes a table's record, and gives it as it is then.
    pub(crate) fn change(&mut self, id: TableId, change: impl FnOnce(&mut TableRecord)) -> Result<TableRecord, Error> {
        let key = id.to_string();
        let record = self.content.tables.get_mut(&key).ok_or(Error::UnknownTable(key))?;
        change(record);
        let record = record.clone();
        self.store()?;
        Ok(record)
    }

    /// A manifest that was put in place but not committed counts, if it is the very one: all before it was done. Else what
    /// was pending died with its process, which alone could have put it there.
    pub(crate) fn roll_forward(&mut self, id: TableId, folder: &Path) -> Result<(), Error> {
        let pending = self.record(id)?.pending;
        let Some((pending, hash)) = pending.and_then(|pending| Some((pending, pending.hash?))) else {
            return Ok(());
        };
        let path = folder.join(MANIFEST_FOLDER).join(manifest_name(pending.version));
        let published = disk::read(&path, MANIFEST_LIMIT)?.is_some_and(|bytes| Digest::of(&bytes) == hash);
        self.change(id, |record| record.settle(published)).map(|_| ())
    }

    /// The wrapped keys of all tables and links.
    pub(crate) fn held_keys(&self) -> Vec<HeldKey> {
        self.content.held_keys()
    }

    /// Whether a master of the keyring, or that version of it, wrapped keys of Parquet files for other programs.
    pub(crate) fn is_needed_by_files(&self, master: &str, version: Option<u32>) -> bool {
        let is = |(name, number): &(String, u32)| name == master && version.is_none_or(|version| version == *number);
        self.content.file_masters.iter().any(is)
    }

    /// Puts a wrapped key in the place of another, if that is still the one that is there. Stored with the next
    /// [`Locked::store`].
    pub(crate) fn swap_key(&mut self, context: &KeyContext, old: &WrappedKey, new: &WrappedKey) -> bool {
        let place = match context {
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
        let Some((master, bytes)) = place.filter(|(master, bytes)| **master == old.master && **bytes == old.bytes)
        else {
            return false;
        };
        master.clone_from(&new.master);
        bytes.clone_from(&new.bytes);
        true
    }

    pub(crate) fn store(&mut self) -> Result<(), Error> {
        let text = serde_json::to_vec(&self.content).map_err(|error| Error::RegisterContent(error.to_string()))?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.register.key.seal(&text)?);
        disk::replace(&self.register.path, &bytes)
    }
}
