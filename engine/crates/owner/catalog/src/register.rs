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
    ConfigDir, KeyContext, Keyring, PolicyDigest, PolicyHead, PolicyHeads, RegisterKey, Vault,
    WrappedKey,
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

mod locked;
mod records;

pub(crate) use locked::Locked;

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

#[cfg(test)]
mod tests;
