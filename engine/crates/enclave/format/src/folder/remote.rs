//! A table's folder on storage that is reached through a port. There are no links to follow, and
//! folders need not be made: a file's name says where it lies.

use std::{
    ffi::OsString,
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use coffer_protocol::storage::Storage;
use futures::{
    executor::block_on,
    stream::{self, StreamExt, TryStreamExt},
};

/// Questions of one call that are under way at the same time.
const AT_ONCE: usize = 4;

/// A folder by its URL. Every call waits for the answer.
#[derive(Debug, Clone)]
pub(super) struct RemoteFolder {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) url: String,
}

impl RemoteFolder {
    /// The URL of what lies below it.
    pub(super) fn at(&self, inner: &Path) -> io::Result<String> {
        let mut url = self.url.clone();
        for part in inner.components() {
            let Component::Normal(name) = part else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            url.push('/');
            url.push_str(name.to_str().ok_or(io::ErrorKind::InvalidInput)?);
        }
        Ok(url)
    }

    /// A whole file, if it is no longer than `limit`; else its first bytes.
    pub(super) fn read(&self, file: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let path = self.at(file)?;
        block_on(async {
            let size = self.storage.size(&path).await?;
            let size = size.ok_or(io::ErrorKind::NotFound)?;
            let first = 0..size.min(limit.saturating_add(1));
            let read = self
                .storage
                .ranges(&path, std::slice::from_ref(&first))
                .await?;
            Ok(read.concat())
        })
    }

    pub(super) fn length(&self, file: &Path) -> io::Result<Option<u64>> {
        block_on(self.storage.size(&self.at(file)?))
    }

    /// The same of several files, in order.
    pub(super) fn lengths(&self, files: &[&Path]) -> io::Result<Vec<Option<u64>>> {
        let urls: Vec<_> = files
            .iter()
            .map(|file| self.at(file))
            .collect::<io::Result<_>>()?;
        let asking = stream::iter(&urls).map(|url| self.storage.size(url));
        block_on(asking.buffered(AT_ONCE).try_collect())
    }

    /// The files right in these folders, relative to this one.
    pub(super) fn files_in(&self, folders: &[&Path]) -> io::Result<Vec<PathBuf>> {
        let urls: Vec<_> = folders
            .iter()
            .map(|folder| self.at(folder))
            .collect::<io::Result<_>>()?;
        let asking = stream::iter(&urls).map(|url| self.storage.list(url));
        let listed: Vec<_> = block_on(asking.buffered(AT_ONCE).try_collect())?;
        let files = folders.iter().zip(listed).flat_map(|(folder, entries)| {
            let files = entries.into_iter().filter(|entry| !entry.folder);
            files.map(|entry| folder.join(entry.name))
        });
        Ok(files.collect())
    }

    pub(super) fn has(&self, path: &Path) -> io::Result<bool> {
        let url = self.at(path)?;
        block_on(async {
            Ok(self.storage.size(&url).await?.is_some()
                || !self.storage.list(&url).await?.is_empty())
        })
    }

    pub(super) fn remove(&self, path: &Path, folder: bool) -> io::Result<()> {
        block_on(self.storage.delete(&self.at(path)?, folder))
    }

    /// Whether the file is there now, with these bytes; false where there was one.
    pub(super) fn put_if_absent(&self, file: &Path, bytes: &[u8]) -> io::Result<bool> {
        let bytes = Bytes::copy_from_slice(bytes);
        block_on(self.storage.put_if_absent(&self.at(file)?, bytes))
    }

    pub(super) fn names(&self, path: &Path) -> io::Result<Vec<(OsString, bool)>> {
        let entries = block_on(self.storage.list(&self.at(path)?))?;
        let names = entries.into_iter();
        Ok(names
            .map(|entry| (entry.name.into(), entry.folder))
            .collect())
    }
}
