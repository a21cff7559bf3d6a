//! What a task hands to the shared plan: its own streams and files.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use coffer_plan::{KeyBounds, ScanSource, TaskIo, coalesced};
use coffer_protocol::{storage::Storage, wire::FileSlice};
use coffer_scan::{BytesSeen, FooterCache, ScanFiles};
use coffer_sealing::KekSet;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::SendableRecordBatchStream;
use datafusion_physical_plan::stream::{EmptyRecordBatchStream, RecordBatchStreamAdapter};
use futures::stream;
use parking_lot::Mutex;

use crate::{
    broadcast::Loaded,
    exchange::KeptRows,
    task::input::{Demux, all_rows, each_stream},
};

/// An input of the fragment, in this task.
pub(crate) enum TaskInput {
    /// It has streams here.
    Streams(Box<Demux>),
    /// Its streams are rows of this engine, in map order, then by target.
    Here(SchemaRef, Vec<KeptRows>),
    /// It has none: no rows, and nothing is asked for.
    Nothing(SchemaRef),
}

/// The inputs of a task.
#[derive(Default)]
pub(crate) struct TaskInputs {
    /// Taken by the plan's leaves, each once.
    pub(crate) own: HashMap<u32, TaskInput>,
    /// Whole, in memory: read as often as the plan likes.
    pub(crate) broadcasts: HashMap<u32, Arc<Loaded>>,
}

pub(crate) struct TaskFiles {
    pub(crate) slices: HashMap<u32, Vec<FileSlice>>,
    pub(crate) keys: Arc<KekSet>,
    pub(crate) footers: Arc<FooterCache>,
    pub(crate) store: Arc<dyn Storage>,
    pub(crate) bytes_read: Arc<AtomicU64>,
    /// By scan, if reading must not depend on data.
    pub(crate) whole: Option<HashMap<u32, Arc<BytesSeen>>>,
}

pub(crate) struct TaskSide {
    pub(crate) partition: u32,
    /// By scan.
    pub(crate) narrowed: HashMap<u32, Vec<(usize, Arc<KeyBounds>)>>,
    pub(crate) inputs: Mutex<TaskInputs>,
    pub(crate) files: TaskFiles,
}

impl TaskSide {
    fn take(&self, id: u32) -> Result<TaskInput> {
        self.inputs.lock().own.remove(&id).ok_or_else(|| {
            DataFusionError::Internal(format!(
                "input {id} is not of this task, or was taken before"
            ))
        })
    }
}

/// Rows that are here, small batches put together.
pub(crate) fn rows_of(
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = Result<RecordBatch>, IntoIter: Send + 'static>,
) -> SendableRecordBatchStream {
    let rows = stream::iter(batches);
    let rows = coalesced(Arc::clone(schema), rows);
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), rows))
}

impl TaskIo for TaskSide {
    fn partition(&self) -> u32 {
        self.partition
    }

    fn input(&self, input_id: u32) -> Result<SendableRecordBatchStream> {
        if let Some(loaded) = self.inputs.lock().broadcasts.get(&input_id) {
            return Ok(loaded.stream());
        }
        Ok(match self.take(input_id)? {
            TaskInput::Streams(demux) => all_rows(*demux),
            TaskInput::Here(schema, streams) => rows_of(&schema, streams.into_iter().flatten()),
            TaskInput::Nothing(schema) => Box::pin(EmptyRecordBatchStream::new(schema)),
        })
    }

    fn input_streams(&self, input_id: u32) -> Result<Vec<SendableRecordBatchStream>> {
        Ok(match self.take(input_id)? {
            TaskInput::Streams(demux) => each_stream(*demux),
            TaskInput::Here(schema, streams) => streams
                .into_iter()
                .map(|stream| rows_of(&schema, stream))
                .collect(),
            TaskInput::Nothing(_) => Vec::new(),
        })
    }

    fn scan(&self, scan_id: u32) -> Result<Arc<dyn ScanSource>> {
        Ok(Arc::new(self.scan_files(scan_id)?))
    }

    fn narrowed(&self, scan_id: u32) -> Vec<(usize, Arc<KeyBounds>)> {
        self.narrowed.get(&scan_id).cloned().unwrap_or_default()
    }
}

impl TaskSide {
    /// The files of a scan, and the keys to read them.
    pub(crate) fn scan_files(&self, scan_id: u32) -> Result<ScanFiles> {
        let slices = self.files.slices.get(&scan_id).cloned().ok_or_else(|| {
            DataFusionError::Internal(format!("scan {scan_id} is not of this task"))
        })?;
        Ok(ScanFiles {
            slices,
            keys: Arc::clone(&self.files.keys),
            footers: Arc::clone(&self.files.footers),
            store: Arc::clone(&self.files.store),
            bytes_read: Arc::clone(&self.files.bytes_read),
            whole: self
                .files
                .whole
                .as_ref()
                .map(|scans| scans.get(&scan_id).map(Arc::clone).unwrap_or_default()),
            limit: None,
        })
    }
}
