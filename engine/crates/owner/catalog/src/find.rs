//! Which table is meant: by its name, or by a path as it is written.
//!
//! Register and policy decide, and neither looks at storage: a path means the table whose recorded
//! spelling it is, whatever a link in its place leads to. (What is opened there must then be that
//! table's newest manifest.) Storage is looked at for one thing only, to say why a table is not
//! found.

use std::{
    fs,
    path::{Path, PathBuf},
};

use coffer_custody::{ConfigDir, Keyring, Policy, TablePolicy};
use coffer_format::Error as FormatError;
use coffer_protocol::storage::url;

use crate::{
    Envelope, Error, MANIFEST_FOLDER, Register, TableRecord, disk, manifest_name,
    spelling::{self, normal},
    versions::{MANIFEST_LIMIT, newest_version},
};

/// How a caller names a table.
#[derive(Debug, Clone)]
pub enum Target {
    /// By its name in register and policy.
    Name(String),
    /// By its folder, which register or policy must know by this spelling.
    Path(PathBuf),
    /// By either, as people type it: a word without a slash.
    Typed(String),
}

impl Target {
    /// A folder as Spark may write it: a path or a URL.
    pub fn path(text: &str) -> Self {
        Self::Path(PathBuf::from(spelling::of_text(text)))
    }

    /// A table as it is typed: what has a slash is a path. What else it is, the register says: a
    /// folder of that name would be the host's word.
    pub fn typed(text: &str) -> Self {
        match text.contains('/') {
            true => Self::path(text),
            false => Self::Typed(text.to_owned()),
        }
    }
}

/// The table's record, and the folder to look into.
pub(crate) fn find(
    register: &Register,
    policy: &Policy,
    target: &Target,
) -> Result<(TableRecord, PathBuf), Error> {
    match target {
        Target::Name(name) => match register.by_name(name)? {
            Some(record) => by_name(policy, record),
            None => Err(Error::UnknownTable(name.clone())),
        },
        Target::Path(path) => {
            let path = normal(path)?;
            match by_path(register, policy, &path)? {
                Some(record) => Ok((record, path)),
                None => Err(stranger(register, path)?),
            }
        }
        Target::Typed(text) => {
            let path = normal(Path::new(text))?;
            match (register.by_name(text)?, by_path(register, policy, &path)?) {
                (Some(named), Some(there)) if named.id != there.id => Err(Error::PathOrName {
                    text: text.clone(),
                    there: there.name,
                }),
                (Some(named), _) => by_name(policy, named),
                (None, Some(there)) => Ok((there, path)),
                (None, None) if path.exists() => Err(stranger(register, path)?),
                (None, None) => Err(Error::UnknownTable(text.clone())),
            }
        }
    }
}

fn by_name(policy: &Policy, record: TableRecord) -> Result<(TableRecord, PathBuf), Error> {
    let folder = match policy.table(&record.name).ok().and_then(TablePolicy::path) {
        Some(path) => normal(path)?,
        None => record.path.clone(),
    };
    Ok((record, folder))
}

/// The table that a path means, the policy before the register.
fn by_path(
    register: &Register,
    policy: &Policy,
    path: &Path,
) -> Result<Option<TableRecord>, Error> {
    let mut named = None;
    for table in policy.tables() {
        if let Some(by_policy) = table.path()
            && normal(by_policy)? == path
            && let Some(first) = named.replace(table.name())
        {
            return Err(Error::PathTwice {
                path: path.to_owned(),
                tables: [first, table.name()].map(str::to_owned),
            });
        }
    }
    match named {
        Some(name) => register.by_name(name),
        None => register.by_path(path),
    }
}

/// The table at a path of which one was never finished: its folder need not be there.
pub fn unfinished_at(register: &Register, target: &Target) -> Result<Option<TableRecord>, Error> {
    let found = match target {
        Target::Name(name) => register.by_name(name)?,
        Target::Path(path) => register.by_path(&normal(path)?)?,
        Target::Typed(text) => match register.by_name(text)? {
            Some(record) => Some(record),
            None => register.by_path(&normal(Path::new(text))?)?,
        },
    };
    Ok(found.filter(|record| record.committed.is_none()))
}

/// Whether there is no table at a folder: neither register nor policy knows one there, and there is
/// no manifest in it.
pub fn is_absent(
    config_dir: &ConfigDir,
    keyring: &Keyring,
    policy: &Policy,
    folder: &Path,
) -> Result<bool, Error> {
    let folder = normal(folder)?;
    Ok(is_none_of(config_dir, keyring, policy, &folder)?
        && newest_version(config_dir.reach(), &folder.join(MANIFEST_FOLDER))?.is_none())
}

/// As [`is_absent`], by this config directory alone: what lies in the folder is not looked at.
pub fn is_unknown(
    config_dir: &ConfigDir,
    keyring: &Keyring,
    policy: &Policy,
    folder: &Path,
) -> Result<bool, Error> {
    is_none_of(config_dir, keyring, policy, &normal(folder)?)
}

fn is_none_of(
    config_dir: &ConfigDir,
    keyring: &Keyring,
    policy: &Policy,
    folder: &Path,
) -> Result<bool, Error> {
    for table in policy.tables().filter(|table| table.id().is_some()) {
        if let Some(path) = table.path()
            && normal(path)? == folder
        {
            return Ok(false);
        }
    }
    Ok(Register::of(config_dir, keyring).by_path(folder)?.is_none())
}

/// Why a path means none of this config directory's tables.
fn stranger(register: &Register, path: PathBuf) -> Result<Error, Error> {
    let reach = register.reach();
    let leads = match url(&path) {
        Some(_) => Some(path.clone()),
        None => fs::canonicalize(&path).ok(),
    };
    for record in register.tables()? {
        let here = |spelling: &Path| leads.is_some() && fs::canonicalize(spelling).ok() == leads;
        if leads.as_deref().is_some_and(|leads| record.is_at(leads)) || record.spellings().any(here)
        {
            return Ok(Error::PathNotRecorded {
                path,
                table: record.name,
            });
        }
    }
    let manifests = path.join(MANIFEST_FOLDER);
    let envelope = newest_version(reach, &manifests)
        .ok()
        .flatten()
        .and_then(|version| {
            disk::read_at(
                reach,
                &manifests.join(manifest_name(version)),
                MANIFEST_LIMIT,
            )
            .ok()
            .flatten()
        })
        .and_then(|bytes| Envelope::parse(&bytes).ok().map(|(envelope, _)| envelope));
    Ok(match (envelope, leads) {
        (Some(envelope), _) => Error::ForeignTable {
            id: envelope.table,
            path,
        },
        (None, Some(_)) => Error::NotATable(path),
        (None, None) => Error::from(FormatError::Io {
            doing: "open",
            source: fs::metadata(&path)
                .err()
                .unwrap_or_else(|| std::io::ErrorKind::NotFound.into()),
            path,
        }),
    })
}
