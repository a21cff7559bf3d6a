//! Scan: the rows of a table's files, as whoever can open them gives them.
//!
//! Files, keys and formats are the affair of a [`crate::ScanSource`].

use std::{fmt, sync::Arc};

use arrow::datatypes::SchemaRef;
use datafusion_common::{Result, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{conjunction_opt, utils::collect_columns};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    coop::make_cooperative,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::StreamExt;
use parking_lot::Mutex;

use crate::{
    conjuncts::Conjuncts,
    io::task_io,
    narrow::KeyBounds,
    operator::{operator_basics, unordered},
    scan_source::Wanted,
    schema::{empty, timed, with_schema},
};

/// Pushed conjuncts, several in one: they cannot fail, so DataFusion's AND will do.
#[derive(Debug, Clone)]
struct Pushed {
    all: Option<Arc<dyn PhysicalExpr>>,
    /// Those that the Parquet reader may prune by: of flat columns alone.
    flat: Option<Arc<dyn PhysicalExpr>>,
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

    /// `narrowed`: what this run knows beside what joins of the plan do.
    fn wanted(&self, narrowed: Vec<(usize, Arc<KeyBounds>)>) -> Wanted {
        let mut bounds = self.bounds.lock().clone();
        bounds.extend(narrowed);
        Wanted::new(Arc::clone(&self.schema), self.pushed.flat.clone(), bounds)
    }

    /// `pushed` are boolean and infallible over `schema`.
    pub(crate) fn new(
        scan_id: u32,
        schema: SchemaRef,
        pushed: Vec<Arc<dyn PhysicalExpr>>,
        partitions: usize,
    ) -> Self {
        let properties = unordered(&schema, partitions);
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
        let io = task_io(&context)?;
        let source = io.scan(self.scan_id)?;
        if source.is_empty() {
            return Ok(empty(&self.schema));
        }
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let wanted = self.wanted(io.narrowed(self.scan_id));
        let read = source.read(wanted, context)?;
        let schema = Arc::clone(&self.schema);
        let pushed = self.pushed.all.as_ref().map(Conjuncts::of);
        let checked = read.map(move |batch| {
            let batch = with_schema(&schema, batch?)?;
            // The source has filtered already where it can, but need not have (the Parquet reader
            // drops a filter that it cannot build with no more than a debug message). Looking again
            // costs little, as most rows that come here pass.
            match &pushed {
                Some(pushed) => pushed.keep(batch),
                None => Ok(batch),
            }
        });
        let schema = Arc::clone(&self.schema);
        let opened = Box::pin(RecordBatchStreamAdapter::new(schema, checked));
        Ok(make_cooperative(timed(opened, metrics)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
