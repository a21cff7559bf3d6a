//! Runs a fragment here, as one partition: over rows that are at hand, and over tables that are
//! read here.

use std::{collections::HashMap, fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch},
    datatypes::SchemaRef,
};
use coffer_expr::CompileContext;
use coffer_plan::{
    BuildContext, Decryptor, ScanSource, TaskIo, boundary_schema, build, spill::SealedSpill,
    with_task_io,
};
use coffer_protocol::plan::{Fragment, Input, Node, Scan, decrypt::Opened as Opening, node::Op};
use datafusion_common::{DataFusionError, Result as DataResult, internal_datafusion_err};
use datafusion_execution::{
    SendableRecordBatchStream, TaskContext,
    disk_manager::DiskManagerBuilder,
    memory_pool::FairSpillPool,
    runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use parking_lot::Mutex;

use crate::{
    ClientError, origins::Origins, reads::Reads, result::ResultRows, session::Rows,
    spark_arrow::Given, spills::Spills, table::Opened,
};

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// The work on what came to the client may take so many times what one part may bring: a hash table
/// of it is about as large again.
const WORK: u64 = 2;

/// What work at the client may take.
pub(crate) struct Limits<'a> {
    /// That each of its parts may bring to the client; the work on them may take twice as much of
    /// memory.
    pub(crate) bytes: u64,
    /// For what needs more.
    pub(crate) spills: &'a Spills,
}

/// Runs a fragment as one partition.
pub(crate) fn run(
    fragment: &Fragment,
    inputs: HashMap<u32, Rows>,
    reads: Reads,
    decryptor: Option<Arc<dyn Decryptor>>,
    limits: Option<Limits<'_>>,
) -> Result<ResultRows, ClientError> {
    let output = fragment
        .output
        .as_ref()
        .ok_or(ClientError::Malformed("fragment"))?;
    let schema = boundary_schema(output)?;
    let plan = build(
        fragment,
        &BuildContext {
            partitions: 1,
            expressions: &CompileContext::default(),
            decryptor,
        },
    )?;
    let reads = Arc::new(reads);
    let side = ClientSide {
        inputs: Mutex::new(inputs),
        reads: Arc::clone(&reads),
    };
    let memory = limits
        .as_ref()
        .map(|limits| limits.bytes.saturating_mul(WORK));
    let mut config = coffer_plan::config(BATCH_ROWS);
    if let Some(memory) = memory {
        // What a sort keeps back for merging its spill files.
        let execution = &mut config.options_mut().execution;
        execution.sort_spill_reservation_bytes = execution
            .sort_spill_reservation_bytes
            .min(bytes(memory) / 64);
    }
    let context = TaskContext::new(
        None,
        "client".to_owned(),
        with_task_io(config, Arc::new(side)),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        runtime(limits.map(|limits| limits.spills).zip(memory))?,
    );
    Ok(ResultRows {
        rows: plan.execute(0, Arc::new(context))?,
        schema,
        given: Given::of(output),
        reads,
        memory,
        origins: Origins::default(),
        tally: None,
    })
}

/// Memory for joins, groups and sorts. The latter two spill, sealed, when they have no more; a join
/// ends with an error.
fn runtime(limits: Option<(&Spills, u64)>) -> Result<Arc<RuntimeEnv>, ClientError> {
    let Some((spills, memory)) = limits else {
        return Ok(RuntimeEnvBuilder::new().build_arc()?);
    };
    let folder = spills.folder().map_err(DataFusionError::IoError)?;
    let disk =
        DiskManagerBuilder::default().with_temp_file_factory(Arc::new(SealedSpill::new(folder)));
    Ok(RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(bytes(memory))))
        .with_disk_manager_builder(disk)
        .build_arc()?)
}

fn bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

pub(crate) fn nodes(fragment: &Fragment) -> Vec<&Node> {
    let mut all: Vec<&Node> = fragment.root.iter().collect();
    let mut next = 0;
    while let Some(node) = all.get(next) {
        let children = coffer_protocol::tree::children(node);
        all.extend(children);
        next += 1;
    }
    all
}

/// The fragment's inputs.
pub(crate) fn inputs(fragment: &Fragment) -> Vec<&Input> {
    let all = nodes(fragment).into_iter();
    all.filter_map(|node| match &node.op {
        Some(Op::Input(input)) => Some(input),
        _ => None,
    })
    .collect()
}

/// The fragment's scans.
pub(crate) fn scans(fragment: &Fragment) -> Vec<&Scan> {
    let all = nodes(fragment).into_iter();
    all.filter_map(|node| match &node.op {
        Some(Op::Scan(scan)) => Some(scan),
        _ => None,
    })
    .collect()
}

/// The one leaf of a fragment that has no other.
pub(crate) fn only_input(fragment: &Fragment) -> Option<&Input> {
    match inputs(fragment).as_slice() {
        [input] if scans(fragment).is_empty() => Some(*input),
        _ => None,
    }
}

/// The stored columns that a fragment opens. (What has no handle is opened without a key.)
pub(crate) fn decrypted(fragment: &Fragment) -> impl Iterator<Item = &Opening> {
    let opened = nodes(fragment)
        .into_iter()
        .filter_map(|node| match &node.op {
            Some(Op::Decrypt(decrypt)) => Some(&decrypt.columns),
            _ => None,
        });
    opened.flatten().filter(|column| column.handle != 0)
}

pub(crate) fn schema_of(input: &Input) -> Result<SchemaRef, ClientError> {
    let declared = input
        .schema
        .as_ref()
        .ok_or(ClientError::Malformed("fragment"))?;
    Ok(boundary_schema(declared)?)
}

/// Whether an input declares the types that its rows have.
pub(crate) fn fits(input: &Input, rows: &SchemaRef) -> Result<bool, ClientError> {
    let declared = schema_of(input)?;
    let types = |schema: &SchemaRef| -> Vec<_> {
        schema
            .fields()
            .iter()
            .map(|f| f.data_type().clone())
            .collect()
    };
    Ok(types(&declared) == types(rows))
}

/// The rows at hand, as the plan's inputs, each read once; and the tables that it reads.
struct ClientSide {
    inputs: Mutex<HashMap<u32, Rows>>,
    reads: Arc<Reads>,
}

impl ClientSide {
    fn take(&self, id: u32) -> DataResult<Rows> {
        let mut held = self.inputs.lock();
        held.remove(&id)
            .ok_or_else(|| internal_datafusion_err!("input {id} is read twice"))
    }
}

fn stream_of(
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = RecordBatch, IntoIter: Send + 'static>,
) -> SendableRecordBatchStream {
    let rows = stream::iter(batches.into_iter().map(Ok));
    Box::pin(RecordBatchStreamAdapter::new(
        Arc::clone(schema),
        coffer_plan::coalesced(Arc::clone(schema), rows),
    ))
}

impl TaskIo for ClientSide {
    fn partition(&self) -> u32 {
        0
    }

    fn input(&self, input_id: u32) -> DataResult<SendableRecordBatchStream> {
        let rows = self.take(input_id)?;
        Ok(stream_of(&rows.schema, rows.streams.into_iter().flatten()))
    }

    fn input_streams(&self, input_id: u32) -> DataResult<Vec<SendableRecordBatchStream>> {
        let rows = self.take(input_id)?;
        let streams = rows.streams.into_iter();
        Ok(streams
            .map(|batches| stream_of(&rows.schema, batches))
            .collect())
    }

    fn scan(&self, scan_id: u32) -> DataResult<Arc<dyn ScanSource>> {
        self.reads.files(scan_id)
    }
}

/// The keys of the tables whose columns a fragment opens.
pub(crate) struct Keys(pub(crate) HashMap<u32, Arc<Opened>>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("tables", &self.0.len())
            .finish()
    }
}

impl Keys {
    fn table(&self, handle: u32) -> DataResult<&Opened> {
        let table = self.0.get(&handle);
        Ok(table.ok_or_else(|| internal_datafusion_err!("no table {handle}"))?)
    }
}

fn refused(error: ClientError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl Decryptor for Keys {
    fn open(
        &self,
        handle: u32,
        stored: &str,
        column: &ArrayRef,
        position: Option<(&ArrayRef, &ArrayRef)>,
    ) -> DataResult<ArrayRef> {
        let (file, row) = position.unzip();
        self.table(handle)?
            .decrypt(stored, column, file, row)
            .map_err(refused)
    }

    fn open_sums(&self, handle: u32, stored: &str, states: &ArrayRef) -> DataResult<ArrayRef> {
        let states = states.as_binary_opt::<i32>();
        let states =
            states.ok_or_else(|| internal_datafusion_err!("sums of another type than BINARY"))?;
        self.table(handle)?
            .decrypt_sum(stored, states)
            .map_err(refused)
    }

    fn counts(&self, states: &ArrayRef) -> DataResult<ArrayRef> {
        coffer_plan::ashe_counts(states)
    }
}
