//! What scans read from: files, and nothing else that a host may have put under a file's name.
//!
//! A pipe that nobody writes to would hold its reader for ever, on a thread that no cancel reaches;
//! a device has no end. A host that swaps one in after the look gains what it has anyway: it can
//! deny service.

use std::{fmt, io, ops::Range};

use async_trait::async_trait;
use bytes::Bytes;
use coffer_format::NotAFile;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    local::LocalFileSystem, path::Path,
};

/// The local file system, of which regular files are read. It does nothing but read.
#[derive(Debug, Default)]
pub struct FilesOnly(LocalFileSystem);

impl FilesOnly {
    fn look(&self, location: &Path) -> Result<()> {
        let path = self.0.path_to_filesystem(location)?;
        match std::fs::metadata(&path) {
            Ok(found) if found.is_file() => Ok(()),
            Ok(_) => Err(Error::Generic {
                store: "file system",
                source: Box::new(io::Error::new(io::ErrorKind::InvalidInput, NotAFile)),
            }),
            // Reading says it in the usual words.
            Err(_) => Ok(()),
        }
    }
}

impl fmt::Display for FilesOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for FilesOnly {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.look(location)?;
        self.0.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.look(location)?;
        self.0.get_ranges(location, ranges).await
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(only_reads("put"))
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(only_reads("put"))
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        stream::once(async { Err(only_reads("delete")) }).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::once(async { Err(only_reads("list")) }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(only_reads("list"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(only_reads("copy"))
    }
}

fn only_reads(operation: &str) -> Error {
    Error::NotImplemented {
        operation: operation.to_owned(),
        implementer: "an engine's store".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, time::Duration};

    use object_store::ObjectStoreExt;

    use super::*;

    #[tokio::test]
    async fn files_are_read_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Path::from_absolute_path(folder.path().join(name)).unwrap();
        let store = FilesOnly::default();
        std::fs::write(folder.path().join("file"), b"0123456789").unwrap();
        assert_eq!(store.get_range(&at("file"), 2..5).await.unwrap(), "234");
        let ranges = store.get_ranges(&at("file"), &[0..1, 9..10]).await.unwrap();
        assert_eq!(ranges, ["0", "9"]);
        assert!(matches!(
            store.get_range(&at("none"), 0..1).await,
            Err(Error::NotFound { .. })
        ));

        let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("device")).unwrap();
        let pipe = std::process::Command::new("mkfifo")
            .arg(folder.path().join("pipe"))
            .status();
        assert!(pipe.unwrap().success());
        for name in ["socket", "device", "pipe"] {
            let reading = async { store.get_range(&at(name), 0..1).await };
            let read = tokio::time::timeout(Duration::from_secs(20), reading)
                .await
                .unwrap();
            assert!(matches!(read, Err(Error::Generic { .. })), "{name}");
            assert!(
                matches!(
                    store
                        .get_ranges(&at(name), std::slice::from_ref(&(0..1)))
                        .await,
                    Err(Error::Generic { .. })
                ),
                "{name}"
            );
        }
    }
}
