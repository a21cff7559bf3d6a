//! Publishing a version: the one step by which written files come to count.
//!
//! The order makes every interruption harmless: files → record (pending, with the manifest's hash)
//! → manifest, put in place if absent → record (committed). All of it happens under the register's
//! lock, so of two writers that began from the same version one publishes, and the other finds that
//! its parent is no longer the newest.
//!
//! The last step alone makes the version count. Where it is not reached, because something failed
//! or the process died, nobody else takes it: what is pending is dropped under the lock, by the
//! publisher or by whoever comes next, and its manifest is remembered as one that counts for
//! nothing. So storage has no say in whether a publication that failed comes about after all, and
//! who was told that it failed can write the same rows again.

use std::{collections::BTreeSet, path::Path};

use coffer_format::{Digest, FilePin, StoredColumn, folder::Put};

use crate::{
    Error, MANIFEST_FOLDER, Manifest, TableWrite, VerifiedManifest, Version, disk::Folder,
    manifest_name, register::Locked,
};

pub(crate) fn publish(write: &TableWrite, files: Vec<FilePin>) -> Result<VerifiedManifest, Error> {
    publish_checked(write, files, || Ok(()))
}

/// The same, after `check` said under the register's lock that the write's new key opens.
pub(crate) fn publish_checked(
    write: &TableWrite,
    new: Vec<FilePin>,
    check: impl FnOnce() -> Result<(), Error>,
) -> Result<VerifiedManifest, Error> {
    sync(&write.root, &new)?;
    let manifest = Manifest {
        table: write.table(),
        version: write.version(),
        parent: write.parent.as_ref().and_then(|parent| parent.version.hash),
        columns: write.columns.clone(),
        stored: write.stored.clone(),
        partition_columns: write.partition_columns.clone(),
        last_column_id: write.last_column_id,
        files: write.files(new),
        rekeyed: write.new_key.is_some(),
        retired: write.retired.clone(),
    }
    .check()?;
    check_sums(&manifest)?;
    let master = write
        .new_key
        .as_ref()
        .map_or(&write.record.master, |key| &key.master);
    let bytes = manifest.seal(master, &write.key)?;
    let hash = Digest::of(&bytes);
    let version = Version {
        version: manifest.version,
        hash: Some(hash),
    };

    let mut register = write.register.lock()?;
    register.drop_pending(write.table())?;
    check_parent(&register, write)?;
    check()?;
    let committed = register
        .change(write.table(), |record| {
            record.pend(version, write.new_key.as_ref())
        })
        .and_then(|_| put(&register, write, &manifest, &bytes))
        .and_then(|()| register.commit(write.table()));
    let record = match committed {
        Ok(record) => record,
        Err(unknown @ Error::PublicationUnknown { .. }) => return Err(unknown),
        Err(error) => {
            // Whether that can be stored now or not: nobody completes what is pending.
            let _ = register.drop_version(write.table(), version);
            take_back(&write.root, manifest.version, hash);
            return Err(error);
        }
    };
    Ok(VerifiedManifest::new(
        manifest,
        write.folder().to_owned(),
        record,
        hash,
        write.key.clone(),
        write.links.clone(),
        write.register.reach().clone(),
    ))
}

/// Puts the manifest in its place. One of a publication that failed may lie there, or have come
/// back there.
fn put(
    register: &Locked<'_>,
    write: &TableWrite,
    manifest: &Manifest,
    bytes: &[u8],
) -> Result<(), Error> {
    let folder = &write.root;
    let manifests = Path::new(MANIFEST_FOLDER);
    folder.make_folders(manifests)?;
    folder.sync(Path::new(""))?;
    let position = manifests.join(manifest_name(manifest.version));
    let taken = || Error::VersionTaken(manifest.version);
    // Where the answer to a put is lost, whoever serves it asks again, and finds its own.
    let put = || -> Result<Put, Error> {
        match folder.put_if_absent(&position, bytes, crate::versions::MANIFEST_LIMIT)? {
            Put::Taken(Some(there)) if there == Digest::of(bytes) => {
                folder.sync(manifests)?;
                Ok(Put::Done)
            }
            put => Ok(put),
        }
    };
    match put()? {
        Put::Done => Ok(()),
        Put::Taken(there) => {
            let record = register.record(write.table())?;
            let is_left = |there: &Digest| record.is_dropped(manifest.version, *there);
            there.filter(is_left).ok_or_else(taken)?;
            folder.remove(&position)?;
            match put()? {
                Put::Done => Ok(()),
                Put::Taken(_) => Err(taken()),
            }
        }
    }
}

/// Takes the manifest away again, as far as that can be done: it counts for nothing wherever it
/// lies.
fn take_back(folder: &Folder, version: u64, hash: Digest) {
    let position = Path::new(MANIFEST_FOLDER).join(manifest_name(version));
    let there = folder
        .read(&position, crate::versions::MANIFEST_LIMIT)
        .ok()
        .flatten();
    if there.is_some_and(|bytes| Digest::of(&bytes) == hash) {
        let _ = folder.remove(&position);
    }
}

/// Of no column whose sums are taken unopened the table has more rows than its sums can hold.
fn check_sums(manifest: &Manifest) -> Result<(), Error> {
    let rows = manifest.rows();
    let over = |stored: &&StoredColumn| stored.rows.is_some_and(|most| rows > most);
    match manifest.stored.iter().find(over) {
        None => Ok(()),
        Some(stored) => Err(Error::SumRows {
            column: manifest
                .columns
                .iter()
                .find(|column| column.id == stored.column)
                .map_or_else(|| stored.name(), |column| column.name.clone()),
            rows,
            most: stored.rows.unwrap_or_default(),
        }),
    }
}

/// Under the lock: the parent must be the newest version.
fn check_parent(register: &Locked<'_>, write: &TableWrite) -> Result<(), Error> {
    let committed = register.record(write.table())?.committed;
    let parent = write.parent.as_ref().map(|parent| parent.version);
    if committed == parent {
        return Ok(());
    }
    Err(Error::Conflict {
        table: write.name().to_owned(),
        base: parent.map_or(0, |version| version.version),
        newest: committed.map_or(0, |version| version.version),
    })
}

/// New names must be durable before a manifest names them. (The files themselves are, by their
/// writers.)
fn sync(folder: &Folder, files: &[FilePin]) -> Result<(), Error> {
    let mut folders = BTreeSet::from([Path::new("")]);
    for file in files {
        folders.extend(Path::new(&file.path).ancestors().skip(1));
    }
    Ok(folders.iter().try_for_each(|inner| folder.sync(inner))?)
}

#[cfg(test)]
mod model;
