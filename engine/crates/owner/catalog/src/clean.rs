//! What lies in a table's folder beside the files of its newest version, and clearing it away.
//!
//! Two kinds are removed: *leftovers*, in the form of names that writers give, which no version
//! names; and *superseded* files, which only older versions name. Never while someone may want
//! them: leftovers stay while the table is being written, superseded files while a running program
//! has it open (see [`Lease`]). Files in any other form are reported, and never touched; and so are
//! those in folders that are not of the table's making: another table, with files in the same form,
//! may lie in one.
//!
//! All of it happens in the folder in which the table's manifest was found, held open, and no link
//! below it is followed: so a host that puts a link in a folder's place has nothing of another
//! table removed.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use coffer_custody::ConfigDir;
use coffer_format::{Digest, Error as FormatError, WriteId, writer::name_parts};
use coffer_protocol::storage::url;
use coffer_sealing::TableId;

use crate::{
    Envelope, Error, Lease, MANIFEST_FOLDER, Register, TableRecord, Use, VerifiedManifest,
    disk::{self, Folder},
    journal,
    versions::{MANIFEST_LIMIT, newest_version, version_of},
};

/// Files in a table's folder that the newest version does not name. Paths are relative to it.
#[derive(Debug, Default)]
pub struct Beside {
    /// That no version names.
    pub extra: Vec<PathBuf>,
    /// That older versions name, with the newest version that does.
    pub superseded: Vec<(PathBuf, u64)>,
    /// What other writers left beside adopted files (`_SUCCESS`, `.part-….crc`).
    pub markers: Vec<PathBuf>,
}

/// What cleaning did.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Removed files.
    pub removed: Vec<PathBuf>,
    /// Leftovers stayed because the table is being written.
    pub writing: bool,
    /// Superseded files stayed because a running program has the table open.
    pub reading: bool,
}

/// Looks what there is. Of older versions only those are known whose manifests are kept and sound.
pub(crate) fn beside(table: &VerifiedManifest) -> Result<Beside, Error> {
    beside_in(table, &table.folder_now()?)
}

fn beside_in(table: &VerifiedManifest, folder: &Folder) -> Result<Beside, Error> {
    let known: HashSet<&str> = table
        .manifest()
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    // A broken chain is a finding of its own; what only it could explain counts as extra.
    let older = table.older().unwrap_or_default();
    let mut old: BTreeMap<&str, u64> = BTreeMap::new();
    for manifest in &older {
        for file in &manifest.files {
            old.entry(&file.path).or_insert(manifest.version);
        }
    }
    for manifest in older.iter().chain([table.manifest()]) {
        for path in &manifest.retired {
            old.entry(path)
                .or_insert(manifest.version.saturating_sub(1));
        }
    }
    let mut versions = older.iter().chain([table.manifest()]);
    let adopted = versions.any(|manifest| manifest.files.iter().any(|file| file.adopted.is_some()));
    let mut found = Beside::default();
    for path in folder.walk()? {
        let text = path.to_str();
        if let Some(version) = path
            .strip_prefix(MANIFEST_FOLDER)
            .ok()
            .map(|name| name.to_str().and_then(version_of))
        {
            if !version.is_some_and(|version| (1..=table.manifest().version).contains(&version)) {
                found.extra.push(path);
            }
        } else if text.is_some_and(|text| known.contains(text)) {
        } else if let Some(version) = text.and_then(|text| old.get(text)) {
            found.superseded.push((path, *version));
        } else if adopted && is_marker(&path) {
            found.markers.push(path);
        } else {
            found.extra.push(path);
        }
    }
    Ok(found)
}

/// Removes leftovers and superseded files, as far as nobody may want them.
pub fn clean(config_dir: &ConfigDir, table: &VerifiedManifest) -> Result<Cleaned, Error> {
    let id = table.manifest().table;
    let folder = table.root()?;
    let mut cleaned = Cleaned::default();
    // Looked at only under the lease: a write that was published just before named its files by
    // then.
    match Lease::alone(config_dir, id, Use::Writing)? {
        None => cleaned.writing = true,
        Some(_lease) => {
            let extra = beside_in(table, &folder)?.extra;
            cleaned.removed.extend(remove_leftovers(&folder, &extra)?);
            cleaned
                .removed
                .extend(remove_dropped(&folder, table.record(), &extra)?);
            journal::forget_at(config_dir.path(), id)?;
        }
    }
    match Lease::alone(config_dir, id, Use::Reading)? {
        None => cleaned.reading = !beside_in(table, &folder)?.superseded.is_empty(),
        Some(_lease) => {
            for (path, _) in beside_in(table, &folder)?.superseded {
                folder.remove(&path)?;
                cleaned.removed.push(path);
            }
        }
    }
    remove_empty_folders(&folder, &cleaned.removed);
    Ok(cleaned)
}

/// What a table that was never finished left in its folder, if that is there.
pub fn unfinished_files(register: &Register, record: &TableRecord) -> Result<Vec<PathBuf>, Error> {
    match unfinished_folder(register, record)? {
        Some(folder) => left_unfinished(&folder, record),
        None => Ok(Vec::new()),
    }
}

/// The folder of a table that was never finished. No manifest says whose it is: it must not be
/// another table's.
fn unfinished_folder(register: &Register, record: &TableRecord) -> Result<Option<Folder>, Error> {
    let folder = match Folder::at(&record.path, register.reach().as_ref()) {
        Ok(folder) => folder,
        Err(FormatError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let manifests = Path::new(MANIFEST_FOLDER);
    for (name, _) in folder.names(manifests)? {
        if name.to_str().and_then(version_of).is_none() {
            continue;
        }
        let bytes = folder
            .read(&manifests.join(&name), MANIFEST_LIMIT)?
            .unwrap_or_default();
        if let Ok((envelope, _)) = Envelope::parse(&bytes)
            && envelope.table != record.id
        {
            return Err(Error::ManifestForeign {
                want: record.id,
                got: envelope.table,
            });
        }
    }
    Ok(Some(folder))
}

/// The files of its one write, and half-made manifests. Records of before do not say which write:
/// then a folder that is reached by a link, which none was when it was recorded, is not looked
/// into.
fn left_unfinished(folder: &Folder, record: &TableRecord) -> Result<Vec<PathBuf>, Error> {
    if record.first().is_none()
        && fs::canonicalize(&record.path).ok().as_ref() != Some(&record.path)
    {
        return Err(Error::FolderChanged(record.path.clone()));
    }
    let mut files = folder.walk()?;
    files.retain(|file| {
        let of = file
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(name_parts);
        match (of, record.first()) {
            (Some(of), Some(first)) => of == first,
            _ => true,
        }
    });
    Ok(files)
}

/// Clears away a table that was never finished: its leftovers, its folder if then empty, and its
/// record. A table with a committed version is left alone, and so is one that is being written.
pub fn clean_unfinished(
    config_dir: &ConfigDir,
    register: &Register,
    record: &TableRecord,
) -> Result<Vec<PathBuf>, Error> {
    let Some(_lease) = Lease::alone(config_dir, record.id, Use::Writing)? else {
        return Err(Error::BeingWritten(record.name.clone()));
    };
    clear_away(register, record, &BTreeSet::new())
}

/// The same by the writer itself, which was told of files that were `made`. A store may answer that
/// one of them is not there, and have it all the same: then the record stays, by which the owner
/// clears it away later.
pub(crate) fn clear_away(
    register: &Register,
    record: &TableRecord,
    made: &BTreeSet<PathBuf>,
) -> Result<Vec<PathBuf>, Error> {
    let record = register
        .by_id(record.id)?
        .ok_or_else(|| Error::UnknownTable(record.name.clone()))?;
    if record.committed.is_some() {
        return Err(Error::NameTaken(record.name));
    }
    let mut removed = Vec::new();
    if let Some(folder) = unfinished_folder(register, &record)? {
        let files = left_unfinished(&folder, &record)?;
        removed = remove_leftovers(&folder, &files)?;
        removed.extend(remove_dropped(&folder, &record, &files)?);
        remove_empty_folders(&folder, &removed);
        // Not empty means that somebody else's files are there; they stay, and so does the folder.
        folder.remove_folder(Path::new(MANIFEST_FOLDER));
        match url(&record.path) {
            Some(_) => folder.remove_folder(Path::new("")),
            None => {
                let _ = disk::act(disk::Op::Remove, &record.path, || {
                    fs::remove_dir(&record.path)
                });
            }
        }
    }
    if url(&record.path).is_none() || made.iter().all(|file| removed.contains(file)) {
        register.remove_unfinished(record.id)?;
        journal::forget(register, record.id)?;
    }
    Ok(removed)
}

/// Forgets a table whose folder is gone or holds no manifest any more: its files can then never be
/// read again.
pub fn forget_dropped(register: &Register, id: TableId) -> Result<TableRecord, Error> {
    let record = register
        .by_id(id)?
        .ok_or_else(|| Error::UnknownTable(id.to_string()))?;
    if newest_version(register.reach(), &record.path.join(MANIFEST_FOLDER))?.is_some() {
        return Err(Error::StillThere(record.path));
    }
    register.remove(id)?;
    Ok(record)
}

/// Removes those of these files that one write made, but those to be kept.
pub(crate) fn remove_written(
    folder: &Folder,
    files: Vec<PathBuf>,
    write: WriteId,
    keep: &HashSet<&str>,
) -> Result<Vec<PathBuf>, Error> {
    let mut removed = Vec::new();
    for path in files {
        let ours = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(name_parts)
            .is_some_and(|id| id == write);
        if ours && !path.to_str().is_some_and(|text| keep.contains(text)) {
            folder.remove(&path)?;
            removed.push(path);
        }
    }
    remove_empty_folders(folder, &removed);
    Ok(removed)
}

fn remove_leftovers(folder: &Folder, files: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut removed = Vec::new();
    for file in files
        .iter()
        .filter(|file| is_leftover(file) && is_within(folder, file))
    {
        folder.remove(file)?;
        removed.push(file.clone());
    }
    Ok(removed)
}

/// Manifests of publications that failed.
fn remove_dropped(
    folder: &Folder,
    record: &TableRecord,
    files: &[PathBuf],
) -> Result<Vec<PathBuf>, Error> {
    let mut removed = Vec::new();
    for file in files {
        let name = file
            .strip_prefix(MANIFEST_FOLDER)
            .ok()
            .and_then(Path::to_str);
        let Some(version) = name.and_then(version_of) else {
            continue;
        };
        let hash = folder
            .read(file, MANIFEST_LIMIT)?
            .map(|bytes| Digest::of(&bytes));
        if hash.is_some_and(|hash| record.is_dropped(version, hash)) {
            folder.remove(file)?;
            removed.push(file.clone());
        }
    }
    Ok(removed)
}

/// Whether a file right in the folder is one that other writers leave there beside their data:
/// `_SUCCESS`, `.part-….crc`.
fn is_marker(path: &Path) -> bool {
    let name = path.to_str().filter(|name| !name.contains('/'));
    name.is_some_and(|name| name.starts_with(['.', '_'])) && !is_leftover(path)
}

/// Whether a file has the form of those that interrupted writers leave.
fn is_leftover(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let temporary = name.strip_prefix(disk::TEMPORARY);
    name_parts(name).is_some()
        || temporary.is_some_and(|rest| {
            rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

/// Whether a table itself has files where this one lies: right in its folder, among its manifests,
/// or in folders of partitions.
fn is_within(folder: &Folder, file: &Path) -> bool {
    let parent = file.parent().unwrap_or(Path::new(""));
    if parent == Path::new(MANIFEST_FOLDER) {
        return true;
    }
    let partition = |inner: &Path| {
        let name = inner.file_name().and_then(|name| name.to_str());
        let named = name.is_some_and(|name| name.find('=').is_some_and(|at| at > 0));
        // A table that somebody put under such a name has manifests of its own.
        named && !folder.has(&inner.join(MANIFEST_FOLDER))
    };
    let mut folders = parent
        .ancestors()
        .filter(|inner| !inner.as_os_str().is_empty());
    folders.all(partition)
}

/// Partition folders that held nothing else.
fn remove_empty_folders(folder: &Folder, removed: &[PathBuf]) {
    let mut folders = BTreeSet::new();
    for file in removed {
        folders.extend(
            file.ancestors()
                .skip(1)
                .filter(|inner| !inner.as_os_str().is_empty()),
        );
    }
    // The innermost first; one that is not empty stays.
    for inner in folders.into_iter().rev() {
        if inner != Path::new(MANIFEST_FOLDER) {
            folder.remove_folder(inner);
        }
    }
}
