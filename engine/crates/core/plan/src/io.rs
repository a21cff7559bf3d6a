//! What a task hands to its plan: the streams and files that are its own.

use std::sync::Arc;

use datafusion_common::{Result, internal_datafusion_err};
use datafusion_execution::{SendableRecordBatchStream, TaskContext, config::SessionConfig};

use crate::{narrow::KeyBounds, scan_source::ScanSource};

/// The task's side of a shared plan. An engine makes one for each task and attaches it with
/// [`with_task_io`].
pub trait TaskIo: Send + Sync {
    /// The task's partition.
    fn partition(&self) -> u32;

    /// All rows of an input, its streams one after the other. The stream's schema is
    /// [`crate::boundary_schema`] of the Input node. An input is taken once.
    fn input(&self, input_id: u32) -> Result<SendableRecordBatchStream>;

    /// The same rows as one stream for each producer's stream, for inputs that are merged.
    fn input_streams(&self, input_id: u32) -> Result<Vec<SendableRecordBatchStream>>;

    /// What a scan reads.
    fn scan(&self, scan_id: u32) -> Result<Arc<dyn ScanSource>>;

    /// Columns of a scan, by position, of which only rows with these keys come to anything: what
    /// other stages of the same run know.
    fn narrowed(&self, scan_id: u32) -> Vec<(usize, Arc<KeyBounds>)> {
        let _ = scan_id;
        Vec::new()
    }
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
