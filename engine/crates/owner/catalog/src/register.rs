//! The register: what the client site knows of its tables, whatever storage says. Each table's
//! name, folder, wrapped key, and the version and hash that are the newest, *pending* while being
//! published, then *committed*.
//!
//! Which table a path means is decided here, by how paths are written: each table has the spellings
//! that its owner's commands recorded. And a version counts when its table's record says
//! *committed*, and not before: what is pending counts for nobody, and a publication that died is
//! never completed by another.
//!
//! One file in the config directory, `magic "CFRG" ‖ format u16 LE ‖ sealed blob (JSON)`, under a
//! key of the keyring. Changed under a file lock, by replacing it whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    path::{Path, PathBuf},
};

use coffer_custody::{
    ConfigDir, KeyContext, Keyring, LinkKey, PolicyDigest, PolicyHead, PolicyHeads, RegisterKey,
    TableKey, Vault, WrappedKey,
};
use coffer_format::{Digest, WriteId, hex_bytes};
use coffer_protocol::storage::Reach;
use coffer_sealing::{LinkId, TableId};
use serde::{Deserialize, Serialize};

use crate::{
    Error, LinkKeys,
    disk::{self, Op, act},
    manifest::table_id,
};

const MAGIC: &[u8] = b"CFRG";
/// Written. Format 1 knew no spellings of paths and nothing of publications that failed; it is read
/// as one that has none.
const FORMAT: u16 = 2;
const LIMIT: u64 = 64 << 20;
/// Publications that failed are remembered so far back; of others a manifest that turns up is one
/// that nobody knows.
const DROPPED: usize = 64;

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
    /// What a catalog calls it since it was renamed there: one name, two while that is being done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    called: Vec<String>,
    /// Where it is, as its owner wrote it: absolute, without `.` and `..`. Of format 1: where that
    /// led.
    pub path: PathBuf,
    /// The master that wraps the table's key.
    pub master: String,
    #[serde(with = "hex_bytes")]
    wrapped_key: Vec<u8>,
    /// Other spellings of its path that its owner's commands recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    spellings: Vec<PathBuf>,
    /// What the files of its first version are named by, until there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<WriteId>,
    /// Versions whose publication failed: manifests of theirs may still lie in the folder, or come
    /// back there, and count for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<Version>,
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
    fn commit(&mut self) {
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
    fn drop_pending(&mut self) {
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
    /// What all its columns have in common, by the form they are stored in: else equal values would
    /// have unlike ciphertexts.
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

/// A version of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyVersion {
    version: u64,
    #[serde(with = "policy_digest")]
    digest: PolicyDigest,
}

impl From<PolicyHead> for PolicyVersion {
    fn from(PolicyHead { version, digest }: PolicyHead) -> Self {
        Self { version, digest }
    }
}

impl From<PolicyVersion> for PolicyHead {
    fn from(PolicyVersion { version, digest }: PolicyVersion) -> Self {
        Self { version, digest }
    }
}

/// Which policy counts, and which is being written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyVersions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    committed: Option<PolicyVersion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<PolicyVersion>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    tables: BTreeMap<String, TableRecord>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    links: BTreeMap<String, LinkRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audit: Option<AuditHead>,
    /// Masters of the keyring, by version, that wrapped keys of Parquet files for other programs.
    /// The files are wherever those put them, so an entry stays.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    file_masters: BTreeSet<(String, u32)>,
    #[serde(default, skip_serializing_if = "is_default")]
    policy: PolicyVersions,
}

fn is_default(versions: &PolicyVersions) -> bool {
    *versions == PolicyVersions::default()
}

/// A wrapped key of the register, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldKey {
    /// The table or link.
    pub context: KeyContext,
    /// Its name.
    pub name: String,
    /// Of a table: all spellings of where it is.
    pub paths: Vec<PathBuf>,
    /// The key.
    pub wrapped: WrappedKey,
    /// It is that of a version that is being published.
    pub pending: bool,
}

impl Content {
    /// That no table, but the one given, is called so.
    fn check_free(&self, name: &str, but: Option<TableId>) -> Result<(), Error> {
        let mut others = self.tables.values().filter(|table| Some(table.id) != but);
        match others.any(|other| other.is_called(name)) {
            true => Err(Error::NameTaken(name.to_owned())),
            false => Ok(()),
        }
    }

    fn held_keys(&self) -> Vec<HeldKey> {
        let held = |context, name: &String, paths: Vec<PathBuf>, wrapped, pending| HeldKey {
            context,
            name: name.clone(),
            paths,
            wrapped,
            pending,
        };
        let mut keys = Vec::new();
        for table in self.tables.values() {
            let context = KeyContext::Table(table.id);
            let paths = || table.spellings().map(Path::to_owned).collect();
            keys.push(held(context, &table.name, paths(), table.wrapped(), false));
            let pending = table.pending_wrapped();
            keys.extend(pending.map(|wrapped| held(context, &table.name, paths(), wrapped, true)));
        }
        for link in self.links.values() {
            keys.push(held(
                KeyContext::Link(link.id),
                &link.name,
                Vec::new(),
                link.wrapped(),
                false,
            ));
        }
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        keys
    }
}

/// A link's id as hex text.
mod link_id {
    use coffer_sealing::LinkId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(id: &LinkId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<LinkId, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

/// A policy's digest as hex text.
mod policy_digest {
    use coffer_custody::PolicyDigest;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        digest: &PolicyDigest,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(digest)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PolicyDigest, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

/// The register of one config directory.
pub struct Register {
    path: PathBuf,
    key: RegisterKey,
    reach: Reach,
}

impl Register {
    /// Of this config directory, under a key of this keyring. Nothing is read yet.
    pub fn of(config_dir: &ConfigDir, keyring: &Keyring) -> Self {
        Self {
            path: config_dir.register(),
            key: keyring.register_key(),
            reach: config_dir.reach().clone(),
        }
    }

    /// How tables' folders are reached that are URLs.
    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
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
        Ok(self
            .load()?
            .tables
            .into_values()
            .find(|table| table.name == name))
    }

    /// The table that a path means, as [`normal`](crate::spelling::normal) gives it. Where it leads
    /// plays no part.
    pub fn by_path(&self, path: &Path) -> Result<Option<TableRecord>, Error> {
        Ok(self
            .load()?
            .tables
            .into_values()
            .find(|table| table.is_at(path)))
    }

    /// From now on a path means this table too. For the owner's commands: who says so must know it
    /// of the owner, not of storage.
    pub fn record_spelling(&self, id: TableId, path: &Path) -> Result<TableRecord, Error> {
        let path = crate::spelling::normal(path)?;
        let mut locked = self.lock()?;
        if let Some(other) = locked
            .content
            .tables
            .values()
            .find(|table| table.is_at(&path))
        {
            return match other.id == id {
                true => Ok(other.clone()),
                false => Err(Error::PathTaken {
                    path,
                    table: other.name.clone(),
                }),
            };
        }
        locked.change(id, |record| record.spellings.push(path))
    }

    /// From now on a catalog calls the table so, beside its own name. For the owner's commands.
    pub fn record_names(&self, id: TableId, mut names: Vec<String>) -> Result<TableRecord, Error> {
        let mut locked = self.lock()?;
        names
            .iter()
            .try_for_each(|name| locked.content.check_free(name, Some(id)))?;
        locked.change(id, |record| {
            names.retain(|name| *name != record.name);
            record.called = names;
        })
    }

    /// That no table is called so. For the owner's commands.
    pub fn check_free(&self, name: &str) -> Result<(), Error> {
        self.load()?.check_free(name, None)
    }

    /// Enters a new table; its name must be free. Its master may have been destroyed since it
    /// wrapped the key: that is looked at here, where nobody else can.
    pub(crate) fn insert(&self, vault: &Vault, record: TableRecord) -> Result<(), Error> {
        let mut locked = self.lock()?;
        vault.check_by_keyring(&KeyContext::Table(record.id), &record.wrapped())?;
        locked.content.check_free(&record.name, None)?;
        let tables = &mut locked.content.tables;
        let taken = |path: &&Path| tables.values().any(|table| table.is_at(path));
        if let Some(path) = record.spellings().find(taken) {
            return Err(Error::FolderTaken(path.to_owned()));
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

    /// The link of a name for columns of this shape under this form; `fresh` is entered where there
    /// is none. Its key was wrapped before, since a KMS may be slow, and the register is locked
    /// here.
    pub(crate) fn link(
        &self,
        vault: &Vault,
        (name, encoding, shape): (&str, &str, &str),
        fresh: Option<(LinkId, WrappedKey)>,
    ) -> Result<LinkRecord, Error> {
        let mut locked = self.lock()?;
        let links = &mut locked.content.links;
        let known = links
            .values()
            .find(|link| link.name == name)
            .map(|link| link.id);
        let id = match known {
            Some(id) => id,
            None => {
                let (id, wrapped) = fresh
                    .ok_or_else(|| Error::RegisterContent(format!("the link {name} is gone")))?;
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
        let record = links
            .get_mut(&id.to_string())
            .ok_or(Error::LinkUnknown(id))?;
        let held = record
            .shapes
            .entry(encoding.to_owned())
            .or_insert_with(|| shape.to_owned());
        if held != shape {
            return Err(Error::LinkShape {
                link: name.to_owned(),
                encoding: encoding.to_owned(),
                want: held.clone(),
                got: shape.to_owned(),
            });
        }
        let record = record.clone();
        locked.store()?;
        Ok(record)
    }

    /// The keys of these links.
    pub(crate) fn link_keys(
        &self,
        vault: &Vault,
        ids: impl Iterator<Item = LinkId>,
    ) -> Result<LinkKeys, Error> {
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

    /// The audit log ends elsewhere now. For the log's only writer, which holds the log's lock:
    /// never the other way round.
    pub fn set_audit_head(&self, head: AuditHead) -> Result<(), Error> {
        let mut locked = self.lock()?;
        locked.content.audit = Some(head);
        locked.store()
    }

    /// Which policy counts, and which is being written.
    pub(crate) fn policy_heads(&self) -> Result<PolicyHeads, Error> {
        let policy = self.load()?.policy;
        Ok(PolicyHeads {
            committed: policy.committed.map(PolicyHead::from),
            pending: policy.pending.map(PolicyHead::from),
        })
    }

    /// The digest of the policy that counts; none before its owner signed one.
    pub fn policy_digest(&self) -> Result<Option<PolicyDigest>, Error> {
        Ok(self.policy_heads()?.committed.map(|head| head.digest))
    }

    /// A policy is being written.
    pub(crate) fn pend_policy(&self, head: PolicyHead) -> Result<(), Error> {
        let mut locked = self.lock()?;
        locked.content.policy.pending = Some(head.into());
        locked.store()
    }

    /// The pending policy is written. Nothing else becomes the one that counts.
    pub(crate) fn commit_policy(&self, head: PolicyHead) -> Result<(), Error> {
        let mut locked = self.lock()?;
        let policy = &mut locked.content.policy;
        if policy.pending.map(PolicyHead::from) == Some(head) {
            policy.committed = policy.pending.take();
            locked.store()?;
        }
        Ok(())
    }

    /// Before a key goes out into files of another program that this wrapped key's master is needed
    /// for. A master outside of the keyring is not ours to destroy.
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

    /// Forgets a table that never had a version.
    pub(crate) fn remove_unfinished(&self, id: TableId) -> Result<(), Error> {
        let mut locked = self.lock()?;
        if let Some(record) = locked.content.tables.remove(&id.to_string())
            && record.committed.is_some()
        {
            return Err(Error::NameTaken(record.name));
        }
        locked.store()
    }

    /// The register, for one who reads, decides and changes while nobody else does.
    pub(crate) fn lock(&self) -> Result<Locked<'_>, Error> {
        let path = self.path.with_extension("lock");
        let lock =
            act(Op::Create, &path, || File::create(&path)).map_err(Error::io("create", &path))?;
        act(Op::Lock, &path, || lock.lock()).map_err(Error::io("lock", &path))?;
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
        let (format, blob) = blob.split_first_chunk::<2>().ok_or_else(altered)?;
        let format = u16::from_le_bytes(*format);
        if !(1..=FORMAT).contains(&format) {
            return Err(Error::RegisterFormat(format));
        }
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

#[cfg(test)]
mod tests {
    use coffer_custody::Passphrase;

    use super::*;
    use crate::{NewColumns, TableWrite, Target, open_table};
    use coffer_format::SparkType;

    #[test]
    fn a_register_of_before_opens_and_of_later_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        let config_dir = ConfigDir::at(root.join("home"));
        config_dir.create().unwrap();
        let vault = Vault::from(
            Keyring::create(
                &config_dir.keyring(),
                &Passphrase::new("correct horse").unwrap(),
            )
            .unwrap(),
        );
        let policy = crate::policy::replace(&config_dir, vault.keyring(), "").unwrap();
        std::fs::create_dir(root.join("disk")).unwrap();
        std::os::unix::fs::symlink(root.join("disk"), root.join("data")).unwrap();
        let new = NewColumns {
            columns: vec![("a".into(), SparkType::Long, true)],
            ..NewColumns::default()
        };
        let write =
            TableWrite::create(&config_dir, &vault, &policy, "t", &root.join("disk/t"), new)
                .unwrap();
        write.publish(Vec::new()).unwrap();
        let register = Register::of(&config_dir, vault.keyring());
        // As format 1 had it: the path that the folder led to, and nothing of the fields of now.
        let content = register.load().unwrap();
        let text = serde_json::to_string(&content).unwrap();
        for field in ["called", "spellings", "first", "dropped"] {
            assert!(!text.contains(&format!("\"{field}\"")), "{text}");
        }
        let write = |format: u16| {
            let sealed = register.key.seal(text.as_bytes()).unwrap();
            let bytes = [MAGIC, &format.to_le_bytes(), &sealed].concat();
            std::fs::write(register.path(), bytes).unwrap();
        };
        let open = |path: &str| {
            open_table(&config_dir, &vault, &policy, &Target::Path(root.join(path)))
                .map(|table| table.manifest().table)
        };
        write(1);
        let id = open("disk/t").unwrap();
        // By a link it opened before; now the link must be the owner's word.
        assert!(
            matches!(open("data/t"), Err(Error::PathNotRecorded { table, .. }) if table == "t")
        );
        register.record_spelling(id, &root.join("data/t")).unwrap();
        assert_eq!((open("data/t").unwrap(), open("disk/t").unwrap()), (id, id));
        for format in [0, FORMAT + 1, u16::MAX] {
            write(format);
            assert!(matches!(register.tables(), Err(Error::RegisterFormat(got)) if got == format));
        }
    }
}
