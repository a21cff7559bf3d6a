//! Writing to the policy file without disturbing what people wrote there.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, value};

use super::{PolicyError, TEMPLATE, file};
use crate::{TableId, durable};

pub(super) fn create(path: &Path) -> Result<(), PolicyError> {
    durable::create(path, TEMPLATE.as_bytes()).map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => PolicyError::Exists(path.to_path_buf()),
        _ => PolicyError::Io {
            path: path.to_path_buf(),
            source,
        },
    })
}

pub(super) fn record_table(
    path: &Path,
    name: &str,
    id: TableId,
    location: &Path,
    master: &str,
) -> Result<(), PolicyError> {
    file::check_name(name)?;
    let failed = |source| PolicyError::Io {
        path: path.to_path_buf(),
        source,
    };
    let invalid = |reason: String| PolicyError::Syntax {
        path: path.to_path_buf(),
        reason,
    };
    let _lock = durable::lock(path).map_err(failed)?;
    let text = std::fs::read_to_string(path).map_err(|source| PolicyError::read(path, source))?;
    let policy = file::parse(&text, path)?;
    let conflict = |what| {
        Err(PolicyError::Conflict {
            table: name.to_string(),
            what,
        })
    };
    if let Ok(known) = policy.table(name) {
        if known.id().is_some_and(|known| known != id) {
            return conflict("id");
        }
        if known.path().is_some_and(|known| known != location) {
            return conflict("path");
        }
        if known.master() != master {
            return conflict("master");
        }
    }
    let location = location
        .to_str()
        .ok_or_else(|| invalid(format!("{} is not UTF-8", location.display())))?;

    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| invalid(error.to_string()))?;
    let not_tables = || invalid("[tables] is not a table".to_string());
    let implicit = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    let tables = document
        .entry("tables")
        .or_insert_with(implicit)
        .as_table_like_mut()
        .ok_or_else(not_tables)?;
    let entry = tables.entry(name).or_insert_with(|| Item::Table(Table::new()));
    let entry = entry.as_table_like_mut().ok_or_else(not_tables)?;
    entry.insert("id", value(id.to_string()));
    entry.insert("path", value(location));
    entry.insert("master", value(master));
    let edited = document.to_string();
    file::parse(&edited, path)?;
    durable::replace(path, edited.as_bytes()).map_err(failed)
}

pub(super) fn forget_table(path: &Path, name: &str, id: TableId) -> Result<(), PolicyError> {
    let failed = |source| PolicyError::Io {
        path: path.to_path_buf(),
        source,
    };
    let invalid = |reason: String| PolicyError::Syntax {
        path: path.to_path_buf(),
        reason,
    };
    let _lock = durable::lock(path).map_err(failed)?;
    let text = std::fs::read_to_string(path).map_err(|source| PolicyError::read(path, source))?;
    let policy = file::parse(&text, path)?;
    if policy.table(name).ok().and_then(super::TablePolicy::id) != Some(id) {
        return Ok(());
    }
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| invalid(error.to_string()))?;
    let tables = document.get_mut("tables").and_then(Item::as_table_like_mut);
    let Some(tables) = tables else {
        return Ok(());
    };
    let empty = match tables.get_mut(name).and_then(Item::as_table_like_mut) {
        Some(entry) => {
            for key in ["id", "path", "master"] {
                entry.remove(key);
            }
            entry.is_empty()
        }
        None => false,
    };
    if empty {
        tables.remove(name);
    }
    let edited = document.to_string();
    file::parse(&edited, path)?;
    durable::replace(path, edited.as_bytes()).map_err(failed)
}
