//! A new table, from its key to its published manifest.
//!
//! The order makes every interruption harmless: record (pending) → files → record (pending, with the manifest's hash) →
//! manifest, put in place if absent → record (committed). Without a manifest there is no table; a manifest that the
//! register does not expect is refused.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use coffer_keys::{Home, KekSet, Keyring, Policy, TableId, TableKey, TablePolicy};

use crate::{
    Column, Digest, Error, FilePin, MANIFEST_FOLDER, Manifest, Register, SparkType, TableRecord, TableWriter,
    VerifiedManifest, Version, WriteOptions, disk, manifest::check_names, manifest_name, verify,
};

/// A table that is being written and does not count yet.
pub struct NewTable {
    register: Register,
    record: TableRecord,
    key: Arc<TableKey>,
    keks: Arc<KekSet>,
    columns: Vec<Column>,
}

impl NewTable {
    /// Begins a table: checks its columns against the policy, makes the folder (which must be empty or absent) and its key,
    /// and enters it as pending. `columns`: name, type, nullable.
    pub fn begin(
        home: &Home,
        keyring: &Keyring,
        policy: &Policy,
        name: &str,
        folder: &Path,
        columns: Vec<(String, SparkType, bool)>,
    ) -> Result<Self, Error> {
        let rules = policy
            .table(name)
            .cloned()
            .unwrap_or_else(|_| policy.unnamed_table(name));
        let columns = by_policy(&rules, columns)?;
        let register = Register::of(home, keyring);
        if register.by_name(name)?.is_some() {
            return Err(Error::NameTaken(name.to_owned()));
        }
        // An id that the policy has already is that of a table elsewhere: it cannot be given to a new one.
        if let Some(id) = rules.id() {
            return Err(Error::PolicyHasId {
                name: name.to_owned(),
                id,
            });
        }
        let key = TableKey::generate(TableId::draw()?)?;
        let wrapped = keyring.wrap(rules.master(), &key)?;
        let path = empty_folder(folder)?;
        let keks = keks(&key, &columns)?;
        let record = TableRecord::begin(name.to_owned(), path, &wrapped);
        register.insert(record.clone())?;
        Ok(Self {
            register,
            record,
            key: Arc::new(key),
            keks: Arc::new(keks),
            columns,
        })
    }

    /// The table's columns, with ids and protections.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The table's folder, canonical.
    pub fn folder(&self) -> &Path {
        &self.record.path
    }

    /// Writes the table's files.
    pub fn writer(&self, options: WriteOptions) -> Result<TableWriter, Error> {
        TableWriter::new(
            self.record.path.clone(),
            self.record.id,
            self.columns.clone(),
            Arc::clone(&self.keks),
            options,
        )
    }

    /// Publishes the table as made of these files, in this order.
    pub fn publish(self, files: Vec<FilePin>) -> Result<VerifiedManifest, Error> {
        let folder = self.record.path.clone();
        disk::sync_folder(&folder)?;
        let manifest = Manifest {
            table: self.record.id,
            version: 1,
            parent: None,
            columns: self.columns,
            files,
        };
        let bytes = manifest.seal(&self.record.master, &self.key)?;
        let hash = Digest::of(&bytes);
        let version = Version {
            version: manifest.version,
            hash: Some(hash),
        };
        self.register
            .update(self.record.id, |record| record.pending = Some(version))?;
        let manifests = folder.join(MANIFEST_FOLDER);
        fs::create_dir_all(&manifests).map_err(Error::io("create", &manifests))?;
        disk::sync_folder(&folder)?;
        if !disk::put_if_absent(&manifests, &manifest_name(manifest.version), &bytes)? {
            return Err(Error::VersionTaken(manifest.version));
        }
        let mut record = self.record;
        record.committed = Some(version);
        record.pending = None;
        self.register.update(record.id, |record| {
            record.committed = Some(version);
            record.pending = None;
        })?;
        Ok(VerifiedManifest::new(manifest, folder, record, hash, self.key))
    }

    /// Gives the table up: removes what was written, and the record.
    pub fn abandon(self) -> Result<(), Error> {
        verify::clean_unfinished(&self.register, &self.record).map(|_| ())
    }
}

/// Columns with ids and protections, after the policy said yes to each.
fn by_policy(rules: &TablePolicy, columns: Vec<(String, SparkType, bool)>) -> Result<Vec<Column>, Error> {
    check_names(columns.iter().map(|(name, _, _)| name.as_str()))?;
    rules.check_columns(columns.iter().map(|(name, _, _)| name.as_str()))?;
    let mut checked = Vec::with_capacity(columns.len());
    for (index, (name, kind, nullable)) in columns.into_iter().enumerate() {
        let id = u32::try_from(index.saturating_add(1)).map_err(|_| Error::Limit("number of columns"))?;
        let protection = rules.protection(&name).to_string();
        checked.push(Column {
            id,
            name,
            kind,
            nullable,
            protection,
        });
    }
    Ok(checked)
}

fn keks(key: &TableKey, columns: &[Column]) -> Result<KekSet, Error> {
    let mut keks = KekSet::new();
    keks.insert(key.footer_kek()?);
    for column in columns {
        keks.insert(key.kek(column.id())?);
    }
    Ok(keks)
}

fn empty_folder(folder: &Path) -> Result<PathBuf, Error> {
    fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    let path = fs::canonicalize(folder).map_err(Error::io("open", folder))?;
    let mut entries = fs::read_dir(&path).map_err(Error::io("read", &path))?;
    if entries.next().is_some() {
        Err(Error::FolderTaken(path))
    } else {
        Ok(path)
    }
}
