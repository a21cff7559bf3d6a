//! How the columns of a new version lie in its files, and where these go: the policy's word on it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::datatypes::Schema;
use coffer_custody::{Policy, TableKey, TablePolicy, Vault};
use coffer_format::{
    Column, Error as FormatError, PartitionValue, StoredColumn, UnsupportedType, partition,
    writer::check_leaves,
};
use coffer_protocol::storage::{Reach, url};
use coffer_schemes::{Protection, Protections};
use coffer_sealing::KekSet;

use super::NewColumns;
use crate::{
    Error, LinkKeys, Manifest, Register, disk::Folder, manifest::check_names, spelling, stored,
};

/// How the columns of a version lie in its files.
pub(super) struct Layout {
    pub(super) stored: Vec<StoredColumn>,
    pub(super) last: u32,
    pub(super) links: Arc<LinkKeys>,
}

impl Layout {
    pub(super) fn of(
        rules: &TablePolicy,
        key: &TableKey,
        (columns, partitions): (&[Column], &[u32]),
        last: u32,
        (register, vault, policy): (&Register, &Vault, &Policy),
    ) -> Result<Self, Error> {
        let mut links = stored::Links {
            register,
            vault,
            policy,
            keys: LinkKeys::new(),
        };
        // Plain partition columns are no reason: their values lie in paths.
        let open = columns
            .iter()
            .filter(|column| !partitions.contains(&column.id));
        let (stored, last) = if stored::is_needed(rules, open.map(|column| column.name.as_str())) {
            if !partitions.is_empty() {
                return Err(Error::PartitionedStored);
            }
            stored::lay_out(rules, key, columns, last, &mut links)?
        } else {
            (Vec::new(), last)
        };
        Ok(Self {
            stored,
            last,
            links: Arc::new(links.keys),
        })
    }
}

pub(crate) fn rules(policy: &Policy, name: &str) -> TablePolicy {
    policy
        .table(name)
        .cloned()
        .unwrap_or_else(|_| policy.unnamed_table(name))
}

/// Columns with ids and protections, after the policy said yes to each. A column that was there
/// before keeps its id, and with it its KEK, if type and protection are the same; ids of others are
/// never used again.
pub(super) fn by_policy(
    rules: &TablePolicy,
    new: NewColumns,
    before: &[Column],
    last: u32,
) -> Result<(Vec<Column>, Vec<u32>), Error> {
    check_names(new.columns.iter().map(|(name, _, _)| name.as_str()))?;
    rules.check_columns(new.columns.iter().map(|(name, _, _)| name.as_str()))?;
    let mut last = last;
    let mut columns = Vec::with_capacity(new.columns.len());
    for (name, kind, nullable) in new.columns {
        let protection = if new.partitioned_by.contains(&name) {
            rules.partition_protection(&name)?.into()
        } else {
            Protections::new(rules.column(&name).protections())
        };
        let same = |column: &&Column| {
            column.name == name && column.kind == kind && column.protection == protection
        };
        if kind.is_nested() && protection.as_slice() != [Protection::Tee] {
            return Err(Error::NestedProtection {
                column: name,
                protection: protection.to_string(),
            });
        }
        if let Some(reason) = kind.unfit_names() {
            return Err(FormatError::from(UnsupportedType {
                column: name,
                found: kind.to_string(),
                reason,
            })
            .into());
        }
        let id = match before.iter().find(same) {
            Some(column) => column.id,
            None => {
                last = last
                    .checked_add(1)
                    .ok_or(FormatError::Limit("number of columns"))?;
                last
            }
        };
        columns.push(Column {
            id,
            name,
            kind,
            nullable,
            protection,
        });
    }
    check_leaves(&Schema::new(
        columns.iter().map(Column::field).collect::<Vec<_>>(),
    ))?;
    let mut partitions = Vec::with_capacity(new.partitioned_by.len());
    for name in &new.partitioned_by {
        let column = columns
            .iter()
            .find(|column| column.name == *name)
            .ok_or_else(|| FormatError::NoSuchColumn(name.clone()))?;
        if !partition::can_partition(&column.kind) {
            return Err(FormatError::PartitionType(name.clone()).into());
        }
        if partitions.contains(&column.id) {
            return Err(Error::DuplicateColumn(name.clone()));
        }
        partitions.push(column.id);
    }
    if !columns.is_empty() && partitions.len() == columns.len() {
        return Err(Error::OnlyPartitions);
    }
    Ok((columns, partitions))
}

pub(super) fn check_unchanged(rules: &TablePolicy, manifest: &Manifest) -> Result<(), Error> {
    rules.check_columns(manifest.columns.iter().map(|column| column.name.as_str()))?;
    for column in &manifest.columns {
        let wanted = rules.column(&column.name);
        if wanted.protections() != column.protection.as_slice() {
            return Err(Error::ProtectionChanged {
                column: column.name.clone(),
                stored: column.protection.to_string(),
                policy: wanted.text(),
            });
        }
    }
    Ok(())
}

pub(super) fn check_where(
    manifest: &Manifest,
    values: &[(String, PartitionValue)],
) -> Result<(), Error> {
    for (name, _) in values {
        let column = manifest
            .column(name)
            .ok_or_else(|| FormatError::NoSuchColumn(name.clone()))?;
        if !manifest.partition_columns.contains(&column.id) {
            return Err(Error::NotAPartition(name.clone()));
        }
    }
    Ok(())
}

pub(super) fn last_id(columns: &[Column]) -> u32 {
    columns.iter().map(|column| column.id).max().unwrap_or(0)
}

pub(crate) fn keks(
    key: &TableKey,
    columns: &[Column],
    stored: &[StoredColumn],
) -> Result<KekSet, Error> {
    let mut keks = KekSet::new();
    keks.insert(key.footer_kek()?);
    for column in columns {
        if stored.is_empty() || stored.iter().any(|stored| stored.id == column.id) {
            keks.insert(key.kek(column.id())?);
        }
    }
    Ok(keks)
}

/// A table's folder.
pub(super) struct Destination {
    pub(super) root: Folder,
    /// That mean it beside the one by which it was opened.
    pub(super) spellings: Vec<PathBuf>,
    /// It and those above it, as far as they were not there.
    pub(super) made: Vec<PathBuf>,
}

pub(super) fn empty_folder(
    reach: &Reach,
    written: &Path,
    by_owner: bool,
) -> Result<Destination, Error> {
    let folder = spelling::normal(written)?;
    if url(&folder).is_some() {
        let root = Folder::at(&folder, reach.as_ref())?;
        return match root.names(Path::new(""))?.is_empty() {
            true => Ok(Destination {
                root,
                spellings: Vec::new(),
                made: Vec::new(),
            }),
            false => Err(Error::FolderTaken(folder)),
        };
    }
    let above = folder
        .ancestors()
        .filter(|above| !above.as_os_str().is_empty());
    let made = above
        .take_while(|above| !above.exists())
        .map(Path::to_owned)
        .collect();
    fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    let root = Folder::open(&folder)?;
    if !root.names(Path::new(""))?.is_empty() {
        return Err(Error::FolderTaken(folder));
    }
    let spellings = match by_owner {
        true => spelling::of_owner(written)?,
        false => Vec::new(),
    };
    Ok(Destination {
        root,
        spellings,
        made,
    })
}
