//! Tables, as Spark's planner sees them. Every open pins one version under a handle.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use coffer_catalog::{
    Error as TableError, Lease, Manifest, PlainTable, Register, Target, Use, VerifiedManifest,
    is_absent, is_unknown, open_table,
};
use coffer_custody::{
    Policy,
    location::{self, Location},
};
use coffer_format::Error as FormatError;
use coffer_format::RowGroupPin;
use coffer_protocol::{
    plan::{Field, Schema},
    storage::url,
    wire::{
        OpenTable, StoredColumn, TableInfo,
        table_info::{ColumnInfo, FileInfo, file_info::RowGroup},
    },
};
use coffer_schemes::Protection;
use coffer_sealing::TableId;

use crate::{
    ClientError, Service, protections,
    table::Opened,
    types::{data_type, field},
};

/// What an application has opened.
#[derive(Default)]
pub(crate) struct Tables {
    opened: Vec<Arc<Opened>>,
    /// While this process lives, files of the versions it opened are not cleaned away.
    leases: HashMap<TableId, Lease>,
}

impl Tables {
    fn get(&self, handle: u32) -> Result<Arc<Opened>, ClientError> {
        usize::try_from(handle)
            .ok()
            .and_then(|handle| handle.checked_sub(1))
            .and_then(|position| self.opened.get(position).map(Arc::clone))
            .ok_or(ClientError::HandleUnknown(handle))
    }

    /// Its handle; of what is there already, the one that it has.
    fn keep(&mut self, table: Opened) -> u32 {
        let there = self.opened.iter().position(|opened| opened.is(&table));
        let position = there.unwrap_or_else(|| {
            self.opened.push(Arc::new(table));
            self.opened.len() - 1
        });
        u32::try_from(position + 1).unwrap_or(u32::MAX)
    }
}

impl Service {
    pub(crate) fn open_table(&self, request: &OpenTable) -> Result<TableInfo, ClientError> {
        // The tables' part of the policy may grow while an application runs.
        let policy = self.policy_now()?;
        if !request.plain_files.is_empty() {
            return self.open_plain(&policy, &request.plain_files);
        }
        let target = match request.path.is_empty() {
            false => Target::Path(location::path(&request.path)?),
            true => Target::Name(request.name.clone()),
        };
        if let (true, Target::Path(folder)) = (request.if_there, &target)
            && self.is_absent(&policy, folder)?
        {
            return Ok(TableInfo::default());
        }
        let table = open_table(&self.config_dir, &self.vault, &policy, &target);
        let table = table.map_err(|error| self.of_stranger(error, &target))?;
        self.asked_for(request, &table)?;
        self.lease(table.manifest().table)?;
        let mut info = describe(&table)?;
        let table = Opened::Sealed(Box::new(table));
        info.denied = self.denied(&table)?;
        info.handle = self.keep(table);
        Ok(info)
    }

    /// Whether there is no table at a folder. This process may look where the account that asks may
    /// not, so a user is told of this config directory's own tables only.
    pub(crate) fn is_absent(&self, policy: &Policy, folder: &Path) -> Result<bool, ClientError> {
        match &self.user {
            None => Ok(is_absent(
                &self.config_dir,
                self.vault.keyring(),
                policy,
                folder,
            )?),
            Some(_) => Ok(is_unknown(
                &self.config_dir,
                self.vault.keyring(),
                policy,
                folder,
            )?),
        }
    }

    /// Why a table does not open. What lies at a path that is none of this config directory's
    /// tables, and whether anything does, a user is not told.
    fn of_stranger(&self, error: TableError, target: &Target) -> ClientError {
        let of_path = matches!(
            error,
            TableError::Format(FormatError::Io { .. })
                | TableError::NotATable(_)
                | TableError::ForeignTable { .. }
                | TableError::PathNotRecorded { .. }
        );
        if self.user.is_none() || !of_path {
            return error.into();
        }
        tracing::info!(%error, "a user's table was not opened");
        match target {
            Target::Path(path) => TableError::NotATable(path.clone()).into(),
            Target::Name(name) | Target::Typed(name) => {
                TableError::UnknownTable(name.clone()).into()
            }
        }
    }

    /// Where the asker says which table it must be at a path, that it is.
    fn asked_for(&self, request: &OpenTable, table: &VerifiedManifest) -> Result<(), ClientError> {
        let id = table.manifest().table;
        if !request.table_id.is_empty() && request.table_id != id.to_string() {
            return Err(ClientError::OtherTable {
                path: request.path.clone(),
                want: request.table_id.clone(),
                got: id.to_string(),
            });
        }
        if request.path.is_empty() || request.name.is_empty() {
            return Ok(());
        }
        self.called(&request.name, &request.path, id)
    }

    /// A catalog's name for a path may be any but another table's.
    pub(crate) fn called(&self, name: &str, path: &str, id: TableId) -> Result<(), ClientError> {
        let tables = Register::of(&self.config_dir, self.vault.keyring()).tables()?;
        match tables
            .iter()
            .find(|other| other.id != id && other.is_called(name))
        {
            Some(_) => Err(ClientError::OtherTable {
                path: path.to_owned(),
                want: format!("`{name}`"),
                got: id.to_string(),
            }),
            None => Ok(()),
        }
    }

    fn lease(&self, table: TableId) -> Result<(), ClientError> {
        if !self.tables.lock().leases.contains_key(&table) {
            // Waits only for a cleaning that is under way.
            let lease = Lease::shared(&self.config_dir, table, Use::Reading)?;
            self.tables.lock().leases.insert(table, lease);
        }
        Ok(())
    }

    /// Each file must lie where the policy says: a local one by its canonical path, so that a link
    /// out of a listed folder leads nowhere; one of other storage by its name, where nothing is
    /// followed.
    fn open_plain(&self, policy: &Policy, files: &[String]) -> Result<TableInfo, ClientError> {
        let mut paths: Vec<PathBuf> = Vec::with_capacity(files.len());
        for file in files {
            paths.push(match location::of(file)? {
                Location::Local(file) => self.listed(policy, file)?,
                Location::Remote(url) => {
                    if !policy.allows_unverified(Path::new(&url)) {
                        return Err(ClientError::Unlisted(url.into()));
                    }
                    url.into()
                }
            });
        }
        let table = PlainTable::open(&paths, self.config_dir.reach())?;
        let mut info = describe_plain(&table);
        info.handle = self.keep(Opened::Plain(table));
        Ok(info)
    }

    /// The canonical path of a local file.
    fn listed(&self, policy: &Policy, file: &str) -> Result<PathBuf, ClientError> {
        let path = match (std::fs::canonicalize(file), &self.user) {
            (Ok(path), _) => path,
            (Err(_), Some(_)) => return Err(ClientError::Unlisted(file.into())),
            (Err(source), None) => {
                return Err(FormatError::Io {
                    doing: "read",
                    path: file.into(),
                    source,
                }
                .into());
            }
        };
        let local = policy.unverified_inputs().iter();
        let mut local = local.filter(|allowed| url(allowed).is_none());
        let listed = local.any(|allowed| {
            let allowed = std::fs::canonicalize(allowed).unwrap_or_else(|_| allowed.clone());
            path.starts_with(allowed)
        });
        match listed {
            true => Ok(path),
            // As it was given: where its links lead is no user's business.
            false => Err(ClientError::Unlisted(file.into())),
        }
    }

    pub(crate) fn table(&self, handle: u32) -> Result<Arc<Opened>, ClientError> {
        self.tables.lock().get(handle)
    }

    fn keep(&self, table: Opened) -> u32 {
        self.tables.lock().keep(table)
    }
}

fn describe(table: &VerifiedManifest) -> Result<TableInfo, ClientError> {
    let manifest = table.manifest();
    let columns = manifest
        .columns
        .iter()
        .zip(manifest.column_bytes())
        .map(|(column, bytes)| {
            Ok(ColumnInfo {
                protection: column.protection.to_string(),
                kek_id: table
                    .kek_id(&column.name)?
                    .map_or_else(String::new, |id| id.to_string()),
                bytes,
            })
        })
        .collect::<Result<_, ClientError>>()?;
    let files = manifest
        .files
        .iter()
        .map(|file| file_info(&file.row_groups))
        .collect();
    Ok(TableInfo {
        handle: 0,
        table_id: manifest.table.to_string(),
        version: manifest.version,
        schema: Some(Schema {
            fields: manifest.columns.iter().map(field).collect(),
        }),
        columns,
        rows: manifest.rows(),
        bytes: manifest.bytes(),
        files,
        name: table.name().to_owned(),
        path: table.folder().display().to_string(),
        partition_columns: manifest
            .partitioned_by()
            .map(|column| column.name.clone())
            .collect(),
        unverified: false,
        stored: stored(manifest)?,
        denied: Vec::new(),
        protections: protections::table(),
    })
}

fn stored(manifest: &Manifest) -> Result<Vec<StoredColumn>, ClientError> {
    let bytes = manifest.file_column_bytes();
    let describe = |(stored, bytes): (&coffer_format::StoredColumn, u64)| {
        let column = manifest
            .columns
            .iter()
            .position(|column| column.id == stored.column);
        let described = protections::stored(manifest, stored);
        Ok(StoredColumn {
            name: stored.name(),
            column: u32::try_from(column.unwrap_or_default())
                .map_err(|_| ClientError::AnswerTooLong)?,
            protection: stored.encoding.name().to_owned(),
            r#type: Some(data_type(&stored.kind)),
            nullable: stored.nullable,
            bytes,
            link: stored.group(manifest.table),
            prefix: stored.prefix.is_some(),
            encoding: protections::encoding(stored.encoding).into(),
            shows: described.shows,
            allows: described.allows,
            opened_by: described.opened_by,
            placed: stored.encoding.needs_position(),
        })
    };
    manifest.stored.iter().zip(bytes).map(describe).collect()
}

fn describe_plain(table: &PlainTable) -> TableInfo {
    let column = |bytes: &u64| ColumnInfo {
        protection: Protection::Plain.to_string(),
        kek_id: String::new(),
        bytes: *bytes,
    };
    let fields = table.columns.iter().map(|(name, kind, nullable)| Field {
        name: name.clone(),
        r#type: Some(data_type(kind)),
        nullable: *nullable,
        ..Field::default()
    });
    TableInfo {
        table_id: format!("{:?}", table.digest()),
        schema: Some(Schema {
            fields: fields.collect(),
        }),
        columns: table.column_bytes.iter().map(column).collect(),
        rows: table.rows(),
        bytes: table.column_bytes.iter().sum(),
        files: table
            .files
            .iter()
            .map(|file| file_info(&file.row_groups))
            .collect(),
        unverified: true,
        ..TableInfo::default()
    }
}

fn file_info(groups: &[RowGroupPin]) -> FileInfo {
    let group = |group: &RowGroupPin| RowGroup {
        rows: group.rows,
        bytes: group.bytes,
    };
    FileInfo {
        row_groups: groups.iter().map(group).collect(),
    }
}
