//! Changing what a policy says without disturbing what people wrote there.
//!
//! From a signed policy to the text of the next one: who writes that signs it, and so no change
//! that the owner did not sign comes along with one that a command makes.

use std::path::Path;

use coffer_sealing::{LinkId, TableId};
use toml_edit::{DocumentMut, Item, Table, TableLike, value};

use crate::policy::{Policy, PolicyError, file};

/// Adds a table's entry, or the id and path to an entry that lacks them; comments stay as they are.
/// An entry that says otherwise is an error.
pub fn record_table(
    policy: &Policy,
    name: &str,
    id: TableId,
    location: &Path,
    master: &str,
) -> Result<String, PolicyError> {
    file::check_name(name)?;
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
        .ok_or_else(|| invalid(policy, format!("{} is not UTF-8", location.display())))?;
    edited(policy, |document| {
        let entry = entry(document, "tables", name).ok_or("[tables] is not a table")?;
        entry.insert("id", value(id.to_string()));
        entry.insert("path", value(location));
        entry.insert("master", value(master));
        Ok(())
    })
}

/// Adds a link's entry, or the id to an entry that lacks it. An entry that says otherwise is an
/// error.
pub fn record_link(
    policy: &Policy,
    name: &str,
    id: LinkId,
    master: &str,
) -> Result<String, PolicyError> {
    file::check_name(name)?;
    let link = policy.link(name);
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
    edited(policy, |document| {
        let entry = entry(document, "links", name).ok_or("[links] is not a table")?;
        entry.insert("id", value(id.to_string()));
        entry.insert("master", value(master));
        Ok(())
    })
}

/// Gives the entries of these tables and links another master. One without an entry of its id is
/// left alone.
pub fn change_masters(
    policy: &Policy,
    tables: &[(String, TableId)],
    links: &[(String, LinkId)],
    master: &str,
) -> Result<String, PolicyError> {
    let is_table = |(name, id): &&(String, TableId)| {
        policy
            .table(name)
            .is_ok_and(|table| table.id() == Some(*id))
    };
    let is_link = |(name, id): &&(String, LinkId)| policy.link(name).id() == Some(*id);
    let tables = tables
        .iter()
        .filter(is_table)
        .map(|(name, _)| ("tables", name));
    let links = links
        .iter()
        .filter(is_link)
        .map(|(name, _)| ("links", name));
    edited(policy, |document| {
        for (group, name) in tables.chain(links) {
            let entry =
                entry(document, group, name).ok_or_else(|| format!("[{group}] is not a table"))?;
            entry.insert("master", value(master));
        }
        Ok(())
    })
}

/// Takes a table's id, path and master away; what is said of its columns stays, for a new table of
/// that name. An entry with another id, and a table without an entry, is left alone.
pub fn forget_table(policy: &Policy, name: &str, id: TableId) -> Result<String, PolicyError> {
    if policy
        .table(name)
        .ok()
        .and_then(crate::policy::TablePolicy::id)
        != Some(id)
    {
        return Ok(policy.text().to_owned());
    }
    edited(policy, |document| {
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
        Ok(())
    })
}

fn edited(
    policy: &Policy,
    edit: impl FnOnce(&mut DocumentMut) -> Result<(), EditError>,
) -> Result<String, PolicyError> {
    let parsed: Result<DocumentMut, _> = policy.text().parse();
    let mut document = parsed.map_err(|error| invalid(policy, error.to_string()))?;
    edit(&mut document).map_err(|EditError(reason)| invalid(policy, reason))?;
    let text = document.to_string();
    file::parse(&text, policy.origin())?;
    Ok(text)
}

/// What the file has in the place of what was looked for.
struct EditError(String);

impl<S: Into<String>> From<S> for EditError {
    fn from(reason: S) -> Self {
        Self(reason.into())
    }
}

/// The table `[group.name]`, made where there is none; none if something else is there.
fn entry<'a>(
    document: &'a mut DocumentMut,
    group: &str,
    name: &str,
) -> Option<&'a mut dyn TableLike> {
    let implicit = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    let group = document
        .entry(group)
        .or_insert_with(implicit)
        .as_table_like_mut()?;
    let entry = group
        .entry(name)
        .or_insert_with(|| Item::Table(Table::new()));
    entry.as_table_like_mut()
}

fn invalid(policy: &Policy, reason: String) -> PolicyError {
    PolicyError::Syntax {
        path: policy.origin().to_path_buf(),
        reason,
    }
}
