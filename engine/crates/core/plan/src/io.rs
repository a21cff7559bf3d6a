//! What a task hands to its plan: the streams and files that are its own.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use coffer_protocol::{storage::Storage, wire::FileSlice};
use coffer_sealing::KekSet;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_execution::{SendableRecordBatchStream, TaskContext, config::SessionConfig};

use crate::scan::{BytesSeen, FooterCache};

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
    /// Where the slices' files are read from.
    pub store: Arc<dyn Storage>,
    /// Counts the bytes that were read of storage.
    pub bytes_read: Arc<AtomicU64>,
    /// Reading must not depend on data: nothing is pruned, and this knows what was read, for
    /// [`crate::read_rest`].
    pub whole: Option<Arc<BytesSeen>>,
    /// At most so much is read of the files' pages.
    pub limit: Option<Arc<ReadLimit>>,
}

/// How many stored bytes a scan may read; it remembers whether more were wanted.
#[derive(Debug)]
pub struct ReadLimit {
    left: AtomicU64,
    passed: AtomicBool,
}

impl ReadLimit {
    /// At most so many bytes.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Self {
            left: AtomicU64::new(most),
            passed: AtomicBool::new(false),
        }
    }

    /// Whether a read was refused.
    #[must_use]
    pub fn was_passed(&self) -> bool {
        self.passed.load(Ordering::Acquire)
    }

    /// What may still be read.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// Whether these may be read too; asked before they are.
    pub(crate) fn allows(&self, ranges: &[Range<u64>]) -> bool {
        let wanted = ranges
            .iter()
            .map(|range| range.end.saturating_sub(range.start));
        let wanted = wanted.fold(0, u64::saturating_add);
        let taken = self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                left.checked_sub(wanted)
            });
        if taken.is_err() {
            self.passed.store(true, Ordering::Release);
        }
        taken.is_ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init)] // they are ranges of bytes
    fn what_would_pass_a_limit_is_not_read_and_is_remembered() {
        let limit = ReadLimit::new(10);
        assert!(limit.allows(&[0..4, 100..103]));
        assert!(!limit.was_passed());
        assert!(!limit.allows(&[0..4]));
        assert!(limit.was_passed());
        assert!(limit.allows(&[7..10]), "what still fits is not refused");
        assert!(!limit.allows(&[0..u64::MAX, 0..u64::MAX]));
    }
}
