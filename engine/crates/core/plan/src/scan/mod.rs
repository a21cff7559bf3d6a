//! Scan: a sealed table's columns, read and opened inside the engine.
//!
//! Which files, which row groups and what their footers must be comes from the task's sealed
//! descriptor; storage is believed nothing. A footer is parsed only after length and digest matched
//! (`coffer_format::footer`); DataFusion's Parquet source then gets the opened metadata and reads
//! pages by it, pruning row groups and pages by the pushed conjuncts and decoding the other columns
//! late.

mod ahead;
mod files;
mod footers;
mod reader;
mod recent;
mod storage;
mod whole;

use std::{fmt, sync::Arc};

use ahead::Ahead;
use arrow::{
    array::{AsArray, RecordBatch},
    compute::filter_record_batch,
    datatypes::SchemaRef,
};
use datafusion_common::{
    DataFusionError, Result, config::TableParquetOptions, internal_datafusion_err,
    tree_node::TreeNodeRecursion,
};
use datafusion_datasource::{
    file_groups::FileGroup, file_scan_config::FileScanConfigBuilder, source::DataSourceExec,
};
use datafusion_datasource_parquet::source::ParquetSource;
use datafusion_execution::{
    SendableRecordBatchStream, TaskContext, memory_pool::MemoryConsumer,
    object_store::ObjectStoreUrl,
};
use datafusion_physical_expr::{
    EquivalenceProperties, Partitioning, conjunction_opt, expressions::Column,
    utils::collect_columns,
};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    coop::make_cooperative,
    execution_plan::{Boundedness, EmissionType},
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use files::external;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use thiserror::Error;

use crate::{
    io::{ScanFiles, task_io},
    join::KeyBounds,
    operator::operator_basics,
    schema::{empty, timed, with_schema},
};
pub use footers::{FooterCache, RawFooters};
use reader::SealedReaders;
pub use storage::TableFiles;
pub use whole::{BytesSeen, read_rest};

/// Pushed conjuncts, several in one: they cannot fail, so DataFusion's AND will do.
#[derive(Debug, Clone)]
struct Pushed {
    all: Option<Arc<dyn PhysicalExpr>>,
    /// Those that the Parquet reader may prune by: of flat columns alone.
    flat: Option<Arc<dyn PhysicalExpr>>,
}

/// What joins above a scan leave to be read of it.
struct Narrowed {
    schema: SchemaRef,
    bounds: Vec<(usize, Arc<KeyBounds>)>,
}

impl Narrowed {
    /// The conditions that are known by now.
    fn conditions(&self) -> impl Iterator<Item = Arc<dyn PhysicalExpr>> {
        self.bounds.iter().filter_map(|(at, bounds)| {
            let field = self.schema.fields().get(*at)?;
            bounds.condition(&Column::new(field.name(), *at))
        })
    }
}

/// Leaf that reads a task's file slices.
#[derive(Debug)]
pub(crate) struct ScanExec {
    scan_id: u32,
    schema: SchemaRef,
    pushed: Pushed,
    /// What joins above leave to be read, by column.
    bounds: Mutex<Vec<(usize, Arc<KeyBounds>)>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    /// Only rows whose value of a column lies within the bounds come to anything: where they are
    /// known by the time that files are opened, they prune row groups and pages, and rows.
    pub(crate) fn narrow(&self, column: usize, bounds: Arc<KeyBounds>) {
        self.bounds.lock().push((column, bounds));
    }

    fn narrowed(&self) -> Narrowed {
        let bounds = self.bounds.lock().clone();
        Narrowed {
            schema: Arc::clone(&self.schema),
            bounds,
        }
    }

    /// `pushed` are boolean and infallible over `schema`.
    pub(crate) fn new(
        scan_id: u32,
        schema: SchemaRef,
        pushed: Vec<Arc<dyn PhysicalExpr>>,
        partitions: usize,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let is_flat = |conjunct: &&Arc<dyn PhysicalExpr>| {
            let columns = collect_columns(conjunct);
            let mut fields = columns
                .iter()
                .map(|column| schema.fields().get(column.index()));
            fields.all(|field| field.is_some_and(|field| !field.data_type().is_nested()))
        };
        let pushed = Pushed {
            flat: conjunction_opt(pushed.iter().filter(is_flat).map(Arc::clone)),
            all: conjunction_opt(pushed),
        };
        Self {
            scan_id,
            schema,
            pushed,
            bounds: Mutex::default(),
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ScanExec: scan={}", self.scan_id)?;
        match &self.pushed.all {
            Some(pushed) => write!(f, ", pushed={pushed}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ScanExec {
    operator_basics!(leaf);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let files = task_io(&context)?.scan(self.scan_id)?;
        if files.slices.is_empty() {
            return Ok(empty(&self.schema));
        }
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let opening = open(
            files,
            Arc::clone(&self.schema),
            self.pushed.clone(),
            self.narrowed(),
            context,
        );
        let opened = Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            stream::once(opening).try_flatten(),
        ));
        Ok(make_cooperative(timed(opened, metrics)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Opens all footers of a task, then starts reading.
async fn open(
    files: ScanFiles,
    schema: SchemaRef,
    pushed: Pushed,
    narrowed: Narrowed,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let opened = files::open(&files, &schema).await.map_err(of_file)?;
    let mut options = TableParquetOptions::default();
    // Where reading must not depend on data, the conditions are looked at only when the rows are
    // here.
    let prunes = files.whole.is_none();
    // Asked for only now, when the first row is: what joins build is built by then.
    let flat = conjunction_opt(
        pushed
            .flat
            .iter()
            .map(Arc::clone)
            .chain(narrowed.conditions()),
    );
    options.global.pushdown_filters = prunes;
    options.global.reorder_filters = false;
    options.global.bloom_filter_on_read = false;
    // Only files of other programs have INT96: instants, which Spark holds in microseconds.
    options.global.coerce_int96 = Some("us".to_owned());
    options.global.coerce_int96_tz = Some("UTC".to_owned());
    // The index of a column is sealed with the column's key, and the reader loads all columns' or
    // none. Where columns lie unencrypted their chunks are read whole.
    options.global.enable_page_index = prunes && flat.is_some() && opened.all_keys && !opened.clear;
    let flat = flat.filter(|_| prunes);
    let memory = MemoryConsumer::new("reading ahead").register(context.memory_pool());
    let ahead = Ahead::of(&files, &opened, &schema, flat.as_ref(), memory);
    let mut source = ParquetSource::new(Arc::clone(&schema)).with_table_parquet_options(options);
    if let Some(flat) = flat {
        source = source.with_predicate(flat);
    }
    let source =
        source.with_parquet_file_reader_factory(Arc::new(SealedReaders::new(&files, ahead)));
    // The URL is only a key of DataFusion's registry; bytes come through our readers.
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
        .with_file_group(FileGroup::new(opened.files))
        .with_preserve_order(true)
        .build();
    let read = DataSourceExec::from_data_source(config).execute(0, context)?;
    let target = Arc::clone(&schema);
    let checked = read.map(move |batch| {
        let batch = with_schema(&target, batch.map_err(of_file)?)?;
        match &pushed.all {
            Some(pushed) => keep(batch, pushed),
            None => Ok(batch),
        }
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, checked)))
}

/// A file whose pages do not open, or do not hold what they must, is to be told from an operator
/// that failed. What is pushed into the reader cannot fail, so nothing else comes in these kinds.
fn of_file(error: DataFusionError) -> DataFusionError {
    if is_changed(&error) {
        return external(coffer_format::Error::PlainChanged);
    }
    match error.find_root() {
        DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => {
            external(Unread(error.strip_backtrace()))
        }
        _ => error,
    }
}

/// Whether an unverified input was found to be another than when the query first read it: of that
/// one can be told more than of damage.
fn is_changed(error: &DataFusionError) -> bool {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = at {
        if let Some(coffer_format::Error::PlainChanged) = error.downcast_ref() {
            return true;
        }
        at = error.source();
    }
    false
}

/// Why a file could not be read to its end.
#[derive(Debug, Error)]
#[error("a file of a table cannot be read: {0}")]
struct Unread(String);

/// Rows for which the condition is true.
///
/// The Parquet reader has filtered already, if it may prune, but drops a filter that it cannot
/// build with no more than a debug message. Looking again costs little, as most rows that come here
/// pass.
fn keep(batch: RecordBatch, condition: &Arc<dyn PhysicalExpr>) -> Result<RecordBatch> {
    let passes = condition.evaluate(&batch)?.into_array(batch.num_rows())?;
    let passes = passes
        .as_boolean_opt()
        .ok_or_else(|| internal_datafusion_err!("a pushed condition is not boolean"))?;
    if passes.true_count() == batch.num_rows() {
        return Ok(batch);
    }
    Ok(filter_record_batch(&batch, passes)?)
}
