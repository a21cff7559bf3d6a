//! Writing to the policy file without disturbing what people wrote there.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, TableLike, value};

use super::{PolicyError, TEMPLATE, file};
use crate::{LinkId, TableId, durable};

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
    let failed = |source| io(path, source);
    let invalid = |reason| invalid(path, reason);
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
        if known.own_master().is_some_and(|own| own != master) {
            return conflict("master");
        }
    }
    let location = location
        .to_str()
        .ok_or_else(|| invalid(format!("{} is not UTF-8", location.display())))?;

    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| invalid(error.to_string()))?;
    let entry = entry(&mut document, "tables", name).ok_or_else(|| invalid("[tables] is not a table".to_string()))?;
    entry.insert("id", value(id.to_string()));
    entry.insert("path", value(location));
    entry.insert("master", value(master));
    let edited = document.to_string();
    file::parse(&edited, path)?;
    durable::replace(path, edited.as_bytes()).map_err(failed)
}

pub(super) fn record_link(path: &Path, name: &str, id: LinkId, master: &str) -> Result<(), PolicyError> {
    file::check_name(name)?;
    let _lock = durable::lock(path).map_err(|source| io(path, source))?;
    let text = std::fs::read_to_string(path).map_err(|source| PolicyError::read(path, source))?;
    let link = file::parse(&text, path)?.link(name);
    let conflict = |what| {
        Err(PolicyError::LinkConflict {
            link: name.to_string(),
            what,
        })
    };
    if link.id().is_some_and(|known| known != id) {
        return conflict("id");
    }
    if link.id().is_some() && link.master() != master {
        return conflict("master");
    }
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| invalid(path, error.to_string()))?;
    let entry =
        entry(&mut document, "links", name).ok_or_else(|| invalid(path, "[links] is not a table".to_string()))?;
    entry.insert("id", value(id.to_string()));
    entry.insert("master", value(master));
    let edited = document.to_string();
    file::parse(&edited, path)?;
    durable::replace(path, edited.as_bytes()).map_err(|source| io(path, source))
}

pub(super) fn change_masters(
    path: &Path,
    tables: &[(String, TableId)],
    links: &[(String, LinkId)],
    master: &str,
) -> Result<(), PolicyError> {
    let _lock = durable::lock(path).map_err(|source| io(path, source))?;
    let text = std::fs::read_to_string(path).map_err(|source| PolicyError::read(path, source))?;
    let policy = file::parse(&text, path)?;
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| invalid(path, error.to_string()))?;
    let is_table = |(name, id): &&(String, TableId)| policy.table(name).is_ok_and(|table| table.id() == Some(*id));
    let is_link = |(name, id): &&(String, LinkId)| policy.link(name).id() == Some(*id);
    let tables = tables.iter().filter(is_table).map(|(name, _)| ("tables", name));
    let links = links.iter().filter(is_link).map(|(name, _)| ("links", name));
    for (group, name) in tables.chain(links) {
        let entry =
            entry(&mut document, group, name).ok_or_else(|| invalid(path, format!("[{group}] is not a table")))?;
        entry.insert("master", value(master));
    }
    let edited = document.to_string();
    if edited == text {
        return Ok(());
    }
    file::parse(&edited, path)?;
    durable::replace(path, edited.as_bytes()).map_err(|source| io(path, source))
}

/// The table `[group.name]`, made where there is none; none if something else is there.
fn entry<'a>(document: &'a mut DocumentMut, group: &str, name: &str) -> Option<&'a mut dyn TableLike> {
    let implicit = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    let group = document.entry(group).or_insert_with(implicit).as_table_like_mut()?;
    let entry = group.entry(name).or_insert_with(|| Item::Table(Table::new()));
    entry.as_table_like_mut()
}

fn io(path: &Path, source: std::io::Error) -> PolicyError {
    PolicyError::Io {
        path: path.to_path_buf(),
        source,
    }
}

fn invalid(path: &Path, reason: String) -> PolicyError {
    PolicyError::Syntax {
        path: path.to_path_buf(),
        reason,
    }
}

pub(super) fn forget_table(path: &Path, name: &str, id: TableId) -> Result<(), PolicyError> {
    let failed = |source| io(path, source);
    let invalid = |reason| invalid(path, reason);
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
