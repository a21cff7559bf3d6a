//! What scans read from: files, and nothing else that a host may have put under a file's name.
//!
//! A pipe that nobody writes to would hold its reader for ever, on a thread that no cancel reaches;
//! a device has no end. A host that swaps one in after the look gains what it has anyway: it can
//! deny service.

use std::{io, ops::Range, path::Path as FilePath, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use coffer_format::NotAFile;
use coffer_protocol::storage::{Entry, Storage, url};
use object_store::{Error, ObjectStore, ObjectStoreExt, local::LocalFileSystem, path::Path};

/// Files of tables: those of local disks, read in place; and those of URLs, by whatever storage is
/// reached from here. It does nothing but read.
#[derive(Debug, Default)]
pub struct TableFiles {
    local: LocalFileSystem,
    remote: Option<Arc<dyn Storage>>,
}

impl TableFiles {
    /// Also those that this storage has.
    pub fn reaching(remote: Option<Arc<dyn Storage>>) -> Self {
        Self {
            remote,
            ..Self::default()
        }
    }

    fn remote(&self, path: &str) -> io::Result<Option<&dyn Storage>> {
        match (url(FilePath::new(path)), &self.remote) {
            (None, _) => Ok(None),
            (Some(url), _) if url.starts_with("file:") => Ok(None),
            (Some(_), Some(remote)) => Ok(Some(remote.as_ref())),
            (Some(_), None) => Err(unsupported("this engine reaches local files only")),
        }
    }

    /// The size of a regular file; none of one that cannot be looked at. `object_store` opens what
    /// it is asked about, and a pipe opens only once somebody writes to it.
    fn look(&self, location: &Path) -> io::Result<Option<u64>> {
        let path = self.local.path_to_filesystem(location).map_err(io_error)?;
        match std::fs::metadata(&path) {
            Ok(found) if found.is_file() => Ok(Some(found.len())),
            Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, NotAFile)),
            // Reading says it in the usual words.
            Err(_) => Ok(None),
        }
    }
}

#[async_trait]
impl Storage for TableFiles {
    async fn size(&self, path: &str) -> io::Result<Option<u64>> {
        if let Some(remote) = self.remote(path)? {
            return remote.size(path).await;
        }
        let location = location(path)?;
        if let Some(size) = self.look(&location)? {
            return Ok(Some(size));
        }
        match self.local.head(&location).await {
            Ok(found) => Ok(Some(found.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(io_error(error)),
        }
    }

    async fn ranges(&self, path: &str, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        if let Some(remote) = self.remote(path)? {
            return remote.ranges(path, ranges).await;
        }
        let location = location(path)?;
        self.look(&location)?;
        let read = self.local.get_ranges(&location, ranges).await;
        let read = read.map_err(io_error)?;
        let exact = read.len() == ranges.len()
            && read.iter().zip(ranges).all(|(bytes, range)| {
                u64::try_from(bytes.len()) == Ok(range.end.saturating_sub(range.start))
            });
        match exact {
            true => Ok(read),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    async fn ranges_of(
        &self,
        path: &str,
        size: u64,
        ranges: &[Range<u64>],
    ) -> io::Result<Vec<Bytes>> {
        match self.remote(path)? {
            Some(remote) => remote.ranges_of(path, size, ranges).await,
            None => self.ranges(path, ranges).await,
        }
    }

    fn is_far(&self, path: &str) -> bool {
        self.remote(path)
            .is_ok_and(|remote| remote.is_some_and(|remote| remote.is_far(path)))
    }

    async fn put(&self, _: &str, _: u64, _: Bytes, _: bool) -> io::Result<()> {
        Err(unsupported("scans do nothing but read"))
    }

    async fn put_if_absent(&self, _: &str, _: Bytes) -> io::Result<bool> {
        Err(unsupported("scans do nothing but read"))
    }

    async fn list(&self, _: &str) -> io::Result<Vec<Entry>> {
        Err(unsupported("scans do nothing but read"))
    }

    async fn delete(&self, _: &str, _: bool) -> io::Result<()> {
        Err(unsupported("scans do nothing but read"))
    }
}

/// A local path, or a `file:` URL, for an object store whose root is the file system's.
fn location(path: &str) -> io::Result<Path> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    if path.starts_with('/') {
        return Path::from_absolute_path(path).map_err(invalid);
    }
    if let Some(url_path) = path
        .strip_prefix("file://")
        .filter(|rest| rest.starts_with('/'))
    {
        return Path::from_url_path(url_path).map_err(invalid);
    }
    if let Some(plain) = path
        .strip_prefix("file:")
        .filter(|rest| rest.starts_with('/') && !rest.starts_with("//"))
    {
        return Path::from_absolute_path(plain).map_err(invalid);
    }
    Err(unsupported("a path that names no storage"))
}

fn unsupported(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what)
}

/// The file system's own error, if one lies below.
fn io_error(error: Error) -> io::Error {
    let missing = matches!(error, Error::NotFound { .. });
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(cause) = at {
        if let Some(code) = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return io::Error::from_raw_os_error(code);
        }
        at = cause.source();
    }
    match missing {
        true => io::Error::new(io::ErrorKind::NotFound, error),
        false => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, time::Duration};

    use super::*;

    #[tokio::test]
    async fn files_are_read_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let store = TableFiles::default();
        std::fs::write(folder.path().join("file"), b"0123456789").unwrap();
        let one = std::slice::from_ref(&(2..5));
        assert_eq!(store.ranges(&at("file"), one).await.unwrap(), ["234"]);
        let ranges = store.ranges(&at("file"), &[0..1, 9..10]).await.unwrap();
        assert_eq!(ranges, ["0", "9"]);
        assert_eq!(store.size(&at("file")).await.unwrap(), Some(10));
        assert_eq!(store.size(&at("none")).await.unwrap(), None);
        let none = store.ranges(&at("none"), one).await.unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        assert!(store.ranges(&at("file"), &[0..1, 9..11]).await.is_err());

        let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("device")).unwrap();
        let pipe = std::process::Command::new("mkfifo")
            .arg(folder.path().join("pipe"))
            .status();
        assert!(pipe.unwrap().success());
        for name in ["socket", "device", "pipe"] {
            let path = at(name);
            let size = tokio::time::timeout(Duration::from_secs(20), store.size(&path)).await;
            let error = size.unwrap().unwrap_err();
            assert!(
                error.get_ref().is_some_and(|inner| inner.is::<NotAFile>()),
                "{name}"
            );
            for ranges in [std::slice::from_ref(&(0..1)), &[0..1, 2..3]] {
                let reading = store.ranges(&path, ranges);
                let read = tokio::time::timeout(Duration::from_secs(20), reading)
                    .await
                    .unwrap();
                let error = read.unwrap_err();
                assert!(
                    error.get_ref().is_some_and(|inner| inner.is::<NotAFile>()),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn paths_and_file_urls_name_the_same_file() {
        let plain = location("/a/b c/part-1.parquet").unwrap();
        assert_eq!(location("file:///a/b%20c/part-1.parquet").unwrap(), plain);
        assert_eq!(location("file:/a/b c/part-1.parquet").unwrap(), plain);
    }

    #[tokio::test]
    async fn what_is_not_reached_is_refused() {
        let store = TableFiles::default();
        for path in [
            "s3://bucket/x",
            "relative/x",
            "file://host/x",
            "hdfs:/x",
            "",
        ] {
            let error = store.size(path).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{path}");
        }
    }
}
