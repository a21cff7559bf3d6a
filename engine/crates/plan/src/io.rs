//! What a task hands to its plan: the streams and files that are its own.

use std::sync::{Arc, atomic::AtomicU64};

use coffer_keys::KekSet;
use coffer_proto::wire::FileSlice;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_execution::{SendableRecordBatchStream, TaskContext, config::SessionConfig};
use object_store::ObjectStore;

use crate::scan::{BytesSeen, FooterCache};

/// The task's side of a shared plan. An engine makes one for each task and attaches it with [`with_task_io`].
pub trait TaskIo: Send + Sync {
    /// The task's partition.
    fn partition(&self) -> u32;

    /// All rows of an input, its streams one after the other. The stream's schema is
    /// [`crate::boundary_schema`] of the Input node. An input is taken once.
    fn input(&self, input_id: u32) -> Result<SendableRecordBatchStream>;

    /// The same rows as one stream for each producer's stream, for inputs that are merged.
    fn input_streams(&self, input_id: u32) -> Result<Vec<SendableRecordBatchStream>>;

    /// The files of a scan, and the keys to read them.
    fn scan(&self, scan_id: u32) -> Result<ScanFiles>;
}

/// One task's share of a scan.
#[derive(Clone)]
pub struct ScanFiles {
    /// Slices of pinned files, as the sealed descriptor lists them.
    pub slices: Vec<FileSlice>,
    /// Column and footer keys that were released to the session.
    pub keys: Arc<KekSet>,
    /// Opened footers of the same session, shared by its tasks.
    pub footers: Arc<FooterCache>,
    /// Where paths without a scheme, and `file://` URLs, are read from.
    pub store: Arc<dyn ObjectStore>,
    /// Counts the bytes that were read of storage.
    pub bytes_read: Arc<AtomicU64>,
    /// Reading must not depend on data: nothing is pruned, and this knows what was read, for [`crate::read_rest`].
    pub whole: Option<Arc<BytesSeen>>,
}

/// A sized holder, since session extensions are keyed by concrete type.
struct Attached(Arc<dyn TaskIo>);

/// Attaches a task's I/O to the configuration of its task context.
pub fn with_task_io(config: SessionConfig, io: Arc<dyn TaskIo>) -> SessionConfig {
    config.with_extension(Arc::new(Attached(io)))
}

pub(crate) fn task_io(context: &TaskContext) -> Result<Arc<dyn TaskIo>> {
    context
        .session_config()
        .get_extension::<Attached>()
        .map(|attached| Arc::clone(&attached.0))
        .ok_or_else(|| internal_datafusion_err!("the task context carries no TaskIo"))
}
