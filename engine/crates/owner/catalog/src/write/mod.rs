//! Writing a table: a new one from its key to its published manifest, or the next version of one.
//!
//! Until it is published, nothing of a write counts: its files are named by no manifest, and the
//! version before stays what readers get. See [`publish`] for the one step that changes that.

mod layout;

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use coffer_custody::{ConfigDir, Draft, Policy, TableKey, Vault, WrappedKey};
use coffer_format::{
    Column, Error as FormatError, FilePin, PartitionValue, SparkType, StoredColumn, WriteId,
    WriteOptions,
};
use coffer_sealing::{KekSet, TableId};

use self::layout::{
    Destination, Layout, by_policy, check_unchanged, check_where, empty_folder, last_id,
};
pub(crate) use self::layout::{keks, rules};
use crate::{
    Codec, Error, Lease, LinkKeys, Manifest, Register, TableRecord, TableWriter, Use,
    VerifiedManifest, Version, clean, disk::Folder, journal, publish, stored,
};

/// The columns of a new table: name, type, nullable. `partitioned_by` names some of them.
#[derive(Debug, Clone, Default)]
pub struct NewColumns {
    /// In order.
    pub columns: Vec<(String, SparkType, bool)>,
    /// In order; may be empty.
    pub partitioned_by: Vec<String>,
}

impl NewColumns {
    /// Whether the policy stores columns of a new table of this name under other protections than
    /// `tee`, the values of its partition columns aside.
    pub fn is_host_readable(&self, policy: &Policy, name: &str) -> bool {
        let names = self.columns.iter().map(|(name, _, _)| name.as_str());
        stored::is_needed(
            &rules(policy, name),
            names.filter(|name| {
                !self
                    .partitioned_by
                    .iter()
                    .any(|partition| partition == name)
            }),
        )
    }
}

/// How the next version of a table differs from the one before.
#[derive(Debug, Clone)]
pub enum Change {
    /// The new files come behind the old ones.
    Append,
    /// The new files alone.
    Overwrite,
    /// Files of the partitions that new files belong to are replaced.
    OverwritePartitions,
    /// Files with all of these values, by the name of their partition column, are replaced.
    OverwriteWhere(Vec<(String, PartitionValue)>),
    /// The new files alone, and other columns.
    Replace(NewColumns),
}

/// A version of a table that is being written and does not count yet.
pub struct TableWrite {
    pub(crate) register: Register,
    pub(crate) record: TableRecord,
    pub(crate) key: Arc<TableKey>,
    pub(crate) keks: Arc<KekSet>,
    /// The key, wrapped, where it is another than the parent's.
    pub(crate) new_key: Option<WrappedKey>,
    /// Files of versions under another key.
    pub(crate) retired: Vec<String>,
    pub(crate) columns: Vec<Column>,
    pub(crate) stored: Vec<StoredColumn>,
    pub(crate) links: Arc<LinkKeys>,
    pub(crate) partition_columns: Vec<u32>,
    pub(crate) last_column_id: u32,
    pub(crate) parent: Option<Parent>,
    /// The table's folder, held open: files and manifest are to lie in this very one.
    pub(crate) root: Folder,
    pub(crate) id: WriteId,
    /// Files that it is said to have made.
    made: Mutex<BTreeSet<PathBuf>>,
    _lease: Lease,
}

/// The version that a write follows.
pub(crate) struct Parent {
    pub(crate) version: Version,
    manifest: Arc<Manifest>,
    change: Change,
}

impl TableWrite {
    /// Begins a table: checks its columns against the policy, makes the folder (which must be empty
    /// or absent) and its key, and enters it as pending. From then on this spelling of the folder's
    /// path means the table, and no other does.
    pub fn create(
        config_dir: &ConfigDir,
        vault: &Vault,
        policy: &Policy,
        name: &str,
        folder: &Path,
        new: NewColumns,
    ) -> Result<Self, Error> {
        let master = policy.master_at(&rules(policy, name), folder)?;
        Self::begin(config_dir, vault, policy, (name, &master), new, || {
            empty_folder(config_dir.reach(), folder, false)
        })
    }

    /// The same for a command of the owner's, which says of links that they are meant: where the
    /// path leads now means the table too.
    pub fn create_by_owner(
        config_dir: &ConfigDir,
        vault: &Vault,
        policy: &Policy,
        name: &str,
        folder: &Path,
        new: NewColumns,
    ) -> Result<Self, Error> {
        let master = policy.master_at(&rules(policy, name), folder)?;
        Self::begin(config_dir, vault, policy, (name, &master), new, || {
            empty_folder(config_dir.reach(), folder, true)
        })
    }

    /// The same of files that are there, in this folder, under this master.
    pub(crate) fn adopt(
        config_dir: &ConfigDir,
        vault: &Vault,
        policy: &Policy,
        named: (&str, &str),
        folder: (Folder, Vec<PathBuf>),
        new: NewColumns,
    ) -> Result<Self, Error> {
        let (root, spellings) = folder;
        Self::begin(config_dir, vault, policy, named, new, || {
            Ok(Destination {
                root,
                spellings,
                made: Vec::new(),
            })
        })
    }

    fn begin(
        config_dir: &ConfigDir,
        vault: &Vault,
        policy: &Policy,
        (name, master): (&str, &str),
        new: NewColumns,
        folder: impl FnOnce() -> Result<Destination, Error>,
    ) -> Result<Self, Error> {
        Draft::check_name(name)?;
        let rules = rules(policy, name);
        let (columns, partition_columns) = by_policy(&rules, new, &[], 0)?;
        let register = Register::of(config_dir, vault.keyring());
        if let Some(known) = register.by_name(name)? {
            return Err(match known.committed {
                Some(_) => Error::NameTaken(name.to_owned()),
                None => Error::Unfinished(name.to_owned()),
            });
        }
        // An id that the policy has already is that of a table elsewhere: it cannot be given to a
        // new one.
        if let Some(id) = rules.id() {
            return Err(Error::PolicyHasId {
                name: name.to_owned(),
                id,
            });
        }
        let key = TableKey::generate(TableId::draw()?)?;
        let last = last_id(&columns);
        let layout = Layout::of(
            &rules,
            &key,
            (&columns, &partition_columns),
            last,
            (&register, vault, policy),
        )?;
        let wrapped = vault.wrap(master, &key)?;
        let lease = Lease::shared(config_dir, key.table(), Use::Writing)?;
        let keks = keks(&key, &columns, &layout.stored)?;
        let Destination {
            root,
            spellings,
            made,
        } = folder()?;
        let id = WriteId::draw()?;
        let path = root.path().to_owned();
        let record =
            TableRecord::begin(key.table(), name.to_owned(), path, wrapped).known_as(spellings, id);
        if let Err(error) = register.insert(vault, record.clone()) {
            // What was made here goes, innermost first; but not from under whoever took it
            // meanwhile.
            if !matches!(error, Error::FolderTaken(_)) {
                let _ = made.iter().try_for_each(fs::remove_dir);
            }
            return Err(error);
        }
        Ok(Self {
            register,
            record,
            key: Arc::new(key),
            keks: Arc::new(keks),
            new_key: None,
            retired: Vec::new(),
            last_column_id: layout.last,
            columns,
            stored: layout.stored,
            links: layout.links,
            partition_columns,
            parent: None,
            root,
            id,
            made: Mutex::default(),
            _lease: lease,
        })
    }

    /// A write of a table's first version that was begun before, if it would be the same now.
    pub(crate) fn first_again(
        config_dir: &ConfigDir,
        vault: &Vault,
        policy: &Policy,
        record: TableRecord,
        new: NewColumns,
        before: &journal::Head,
    ) -> Result<Option<Self>, Error> {
        let rules = rules(policy, &record.name);
        let (columns, partition_columns) = by_policy(&rules, new, &[], 0)?;
        let master = policy.master_at(&rules, &record.path)?;
        let Some(id) = record.first().filter(|_| master == record.master) else {
            return Ok(None);
        };
        let lease = Lease::shared(config_dir, record.id, Use::Writing)?;
        let register = Register::of(config_dir, vault.keyring());
        let key = record.unwrap_key(vault)?;
        let layout = Layout::of(
            &rules,
            &key,
            (&columns, &partition_columns),
            last_id(&columns),
            (&register, vault, policy),
        )?;
        if (&columns, &layout.stored, layout.last)
            != (&before.columns, &before.stored, before.last_column_id)
        {
            return Ok(None);
        }
        Ok(Some(Self {
            root: Folder::at(&record.path, config_dir.reach().as_ref())?,
            register,
            keks: Arc::new(keks(&key, &columns, &layout.stored)?),
            key: Arc::new(key),
            new_key: None,
            retired: Vec::new(),
            last_column_id: layout.last,
            columns,
            stored: layout.stored,
            links: layout.links,
            partition_columns,
            parent: None,
            id,
            made: Mutex::default(),
            _lease: lease,
            record,
        }))
    }

    /// Begins the version after this one. The policy must still say of every column what it said
    /// when the column was made.
    pub fn next(
        config_dir: &ConfigDir,
        vault: &Vault,
        policy: &Policy,
        parent: &VerifiedManifest,
        change: Change,
    ) -> Result<Self, Error> {
        let manifest = parent.manifest_arc();
        let rules = rules(policy, parent.name());
        let (columns, partition_columns) = match &change {
            Change::Replace(new) => by_policy(
                &rules,
                new.clone(),
                &manifest.columns,
                manifest.last_column_id(),
            )?,
            _ => {
                check_unchanged(&rules, &manifest)?;
                (manifest.columns.clone(), manifest.partition_columns.clone())
            }
        };
        if let Change::OverwriteWhere(values) = &change {
            check_where(&manifest, values)?;
        }
        let key = parent.key();
        let register = Register::of(config_dir, vault.keyring());
        let last = manifest.last_column_id().max(last_id(&columns));
        let layout = match &change {
            Change::Replace(_) => Layout::of(
                &rules,
                &key,
                (&columns, &partition_columns),
                last,
                (&register, vault, policy),
            )?,
            _ => Layout {
                stored: manifest.stored.clone(),
                last,
                links: parent.links(),
            },
        };
        let mut record = parent.record().clone();
        record.path = parent.folder().to_owned();
        Ok(Self {
            root: parent.root()?,
            register,
            keks: Arc::new(keks(&key, &columns, &layout.stored)?),
            new_key: None,
            retired: Vec::new(),
            last_column_id: layout.last,
            columns,
            stored: layout.stored,
            links: layout.links,
            partition_columns,
            parent: Some(Parent {
                version: Version {
                    version: manifest.version,
                    hash: Some(parent.hash()),
                },
                manifest,
                change,
            }),
            id: WriteId::draw()?,
            made: Mutex::default(),
            _lease: Lease::shared(config_dir, record.id, Use::Writing)?,
            record,
            key,
        })
    }

    /// The table.
    pub fn table(&self) -> TableId {
        self.record.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// The table's columns, with ids and protections.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How the columns lie in the files; empty: each as itself, encrypted. Engines write such
    /// tables only.
    pub fn stored(&self) -> &[StoredColumn] {
        &self.stored
    }

    /// Positions of the partition columns.
    pub fn partition_columns(&self) -> Vec<usize> {
        let position = |id: &u32| self.columns.iter().position(|column| column.id == *id);
        self.partition_columns.iter().filter_map(position).collect()
    }

    /// The table's folder, by the spelling that the write was begun with.
    pub fn folder(&self) -> &Path {
        &self.record.path
    }

    /// Where that folder is, without links: of the folder that is held open and written to,
    /// whatever its path leads to by now.
    pub fn real_folder(&self) -> Result<PathBuf, Error> {
        Ok(self.root.real()?)
    }

    /// The paths that mean the table, the one that was written first.
    pub fn spellings(&self) -> Vec<PathBuf> {
        self.record.spellings().map(Path::to_owned).collect()
    }

    /// Whether files of these lengths are in the table's folder: where readers will look, and in
    /// that very folder.
    pub fn has_files(&self, files: &[(&str, u64)]) -> Result<(), Error> {
        let paths: Vec<&Path> = files.iter().map(|(path, _)| Path::new(*path)).collect();
        self.note(paths.iter().copied());
        let lengths = self.root.lengths(&paths)?;
        for ((path, size), length) in files.iter().zip(lengths) {
            match length {
                Some(length) if length == *size => {}
                Some(length) => {
                    return Err(Error::FileSize {
                        file: (*path).to_owned(),
                        want: *size,
                        got: length,
                    });
                }
                None => return Err(FormatError::FileMissing((*path).to_owned()).into()),
            }
        }
        Ok(())
    }

    fn note<'a>(&self, made: impl Iterator<Item = &'a Path>) {
        let mut known = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(made.map(Path::to_owned));
    }

    /// The number that the version will have.
    pub fn version(&self) -> u64 {
        self.parent
            .as_ref()
            .map_or(1, |parent| parent.version.version.saturating_add(1))
    }

    /// What the names of its files begin with.
    pub fn id(&self) -> WriteId {
        self.id
    }

    /// The KEKs of all columns and the footer.
    pub fn keks(&self) -> &Arc<KekSet> {
        &self.keks
    }

    /// Writes the version's files, here.
    pub fn writer(&self, options: WriteOptions) -> Result<TableWriter, Error> {
        let writer = TableWriter::on(
            self.record.path.clone(),
            self.record.id,
            self.columns.clone(),
            self.partition_columns(),
            Arc::clone(&self.keks),
            self.id,
            options,
        )?
        .reaching(self.register.reach().clone());
        if self.stored.is_empty() {
            return Ok(writer);
        }
        let codec = Codec::new(&self.key, &self.links, &self.columns, &self.stored)?;
        Ok(writer.storing(Arc::new(codec)))
    }

    /// Publishes the version with these new files, in this order. Where that fails the write is
    /// given up: it does not count and never will, so that the same rows can be written again.
    /// [`Error::PublicationUnknown`] alone leaves open whether it counts.
    pub fn publish(self, files: Vec<FilePin>) -> Result<VerifiedManifest, Error> {
        self.note(files.iter().map(|file| Path::new(&file.path)));
        let published = publish::publish(&self, files);
        self.after(published)
    }

    /// A publication that failed is over, and its files go; but not where it may count.
    pub(crate) fn after(
        self,
        published: Result<VerifiedManifest, Error>,
    ) -> Result<VerifiedManifest, Error> {
        if matches!(&published, Err(error) if !matches!(error, Error::PublicationUnknown { .. })) {
            // What cannot be removed now, `verify --clean` removes.
            let _ = self.abandon();
        }
        published
    }

    /// Gives the write up: removes its files, and a table that was to be new.
    pub fn abandon(self) -> Result<(), Error> {
        if self.parent.is_none() {
            let made = self
                .made
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner);
            return clean::clear_away(&self.register, &self.record, &made).map(|_| ());
        }
        let files = self.root.walk()?;
        clean::remove_written(&self.root, files, self.id, &HashSet::new()).map(|_| ())
    }

    /// Removes files of this write that the published version does not name: of attempts that were
    /// not chosen.
    pub fn remove_strays(published: &VerifiedManifest, id: WriteId) -> Result<Vec<PathBuf>, Error> {
        let files = published.manifest().files.iter();
        let keep: HashSet<&str> = files.map(|file| file.path.as_str()).collect();
        let written = keep.iter().filter(|path| id.named(path));
        let folders: BTreeSet<&Path> = written
            .filter_map(|path| Path::new(*path).parent())
            .collect();
        let root = published.folder_now()?;
        let files = root.files_near(&folders.into_iter().collect::<Vec<_>>())?;
        clean::remove_written(&root, files, id, &keep)
    }

    /// Rows of the version that it follows.
    pub(crate) fn parent_rows(&self) -> u64 {
        self.parent
            .as_ref()
            .map_or(0, |parent| parent.manifest.rows())
    }

    /// Whether the host may have chosen rows of the version that it follows.
    pub(crate) fn parent_is_host_chosen(&self) -> bool {
        self.parent
            .as_ref()
            .is_some_and(|parent| parent.manifest.files.iter().any(|file| file.host_chosen))
    }

    /// All files of the version, given those that are new.
    pub(crate) fn files(&self, new: Vec<FilePin>) -> Vec<FilePin> {
        let Some(Parent {
            manifest, change, ..
        }) = &self.parent
        else {
            return new;
        };
        let written: HashSet<&[PartitionValue]> =
            new.iter().map(|file| file.partition.as_slice()).collect();
        let stays = |file: &&FilePin| match change {
            Change::Append => true,
            Change::Overwrite | Change::Replace(_) => false,
            // Of a table without partitions all rows are one partition; without new rows none is
            // overwritten.
            Change::OverwritePartitions => !written.contains(file.partition.as_slice()),
            Change::OverwriteWhere(values) => !self.matches(file, values),
        };
        let mut files: Vec<FilePin> = manifest.files.iter().filter(stays).cloned().collect();
        drop(written);
        files.extend(new);
        files
    }

    fn matches(&self, file: &FilePin, values: &[(String, PartitionValue)]) -> bool {
        let columns = self.partition_columns();
        values.iter().all(|(name, value)| {
            columns.iter().zip(&file.partition).any(|(at, held)| {
                self.columns
                    .get(*at)
                    .is_some_and(|column| column.name == *name)
                    && held == value
            })
        })
    }
}
