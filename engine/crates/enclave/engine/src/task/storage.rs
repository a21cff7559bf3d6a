//! Files that the executor reaches and this engine does not: asked for within the task's own
//! conversation.

use std::{collections::VecDeque, io, ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use coffer_protocol::{
    port::{StorageAnswer, StorageRequest},
    storage::{Entry, Port, Remote, Storage},
};
use coffer_scan::TableFiles;
use parking_lot::Mutex;

use crate::task::{descriptor::Assignment, link::Link};

/// What makes a URL of a local path, of which nothing is escaped.
const LOCAL: &str = "file://";

/// The executor's storage, as the task's link carries it.
struct TaskPort(Arc<Link>);

#[async_trait]
impl Port for TaskPort {
    async fn ask(&self, request: StorageRequest) -> io::Result<StorageAnswer> {
        self.0.storage(request).await.map_err(io::Error::other)
    }
}

/// Has a task ask for what lies at local paths, as for what lies at URLs: they are paths of the
/// executor's machine.
pub(crate) fn by_executor(task: &mut Assignment) {
    let slices = task.scans.values_mut().flatten();
    let paths = slices.map(|slice| &mut slice.path);
    for path in paths.chain(task.write.as_mut().map(|write| &mut write.folder)) {
        if path.starts_with('/') {
            path.insert_str(0, LOCAL);
        }
    }
}

/// Where a task reads its files: those at local paths by itself, if they are its own.
pub(crate) fn files(link: &Arc<Link>, own: bool) -> Arc<dyn Storage> {
    match own {
        true => Arc::new(TableFiles::reaching(Some(remote(link)))),
        false => remote(link),
    }
}

fn remote(link: &Arc<Link>) -> Arc<dyn Storage> {
    Arc::new(Remote::new(TaskPort(Arc::clone(link))))
}

/// What a file's writer has for storage. The writer does not wait, so its parts do, for
/// [`Outbox::send`].
#[derive(Debug, Default)]
pub(crate) struct Outbox(Mutex<VecDeque<Waiting>>);

#[derive(Debug)]
enum Waiting {
    Put(String, u64, Bytes, bool),
    Delete(String),
}

impl Outbox {
    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        let parts = self.0.lock();
        let bytes = parts.iter().map(|part| match part {
            Waiting::Put(_, _, bytes, _) => bytes.len(),
            Waiting::Delete(_) => 0,
        });
        bytes.sum()
    }

    /// Sends all that waits, in order.
    pub(crate) async fn send(&self, link: &Arc<Link>) -> io::Result<()> {
        let remote = remote(link);
        loop {
            let next = self.0.lock().pop_front();
            match next {
                Some(Waiting::Put(path, offset, bytes, last)) => {
                    remote.put(&path, offset, bytes, last).await?;
                }
                Some(Waiting::Delete(path)) => remote.delete(&path, false).await?,
                None => return Ok(()),
            }
        }
    }
}

#[async_trait]
impl Storage for Outbox {
    async fn put(&self, path: &str, offset: u64, bytes: Bytes, last: bool) -> io::Result<()> {
        let put = Waiting::Put(path.to_owned(), offset, bytes, last);
        self.0.lock().push_back(put);
        Ok(())
    }

    async fn delete(&self, path: &str, _: bool) -> io::Result<()> {
        self.0.lock().push_back(Waiting::Delete(path.to_owned()));
        Ok(())
    }

    async fn size(&self, _: &str) -> io::Result<Option<u64>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn ranges(&self, _: &str, _: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn put_if_absent(&self, _: &str, _: Bytes) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn list(&self, _: &str) -> io::Result<Vec<Entry>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
