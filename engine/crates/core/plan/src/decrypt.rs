//! Decrypt: ciphertexts that were brought to the client, opened. Only the client engine has the
//! keys; other engines refuse the node.

use std::{fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::SchemaRef,
};
use coffer_protocol::plan::decrypt::{Kind, Opened};
use datafusion_common::{Result, internal_datafusion_err, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::EquivalenceProperties;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::StreamExt;

use crate::{
    Unsupported,
    operator::{operator_basics, streamed},
};

/// Who holds the keys of stored columns.
pub trait Decryptor: fmt::Debug + Send + Sync {
    /// Values of a stored column of the table behind `handle`. `index`: of which file and row each
    /// is (std, ashe).
    fn open(
        &self,
        handle: u32,
        stored: &str,
        column: &ArrayRef,
        index: Option<(&ArrayRef, &ArrayRef)>,
    ) -> Result<ArrayRef>;

    /// Sums, from states of `ashe_sum` over a stored column; NULL where a state has no values.
    fn open_sums(&self, handle: u32, stored: &str, states: &ArrayRef) -> Result<ArrayRef>;

    /// How many values each state of `ashe_sum` has.
    fn counts(&self, states: &ArrayRef) -> Result<ArrayRef>;
}

/// Opens some columns of each batch.
#[derive(Debug)]
pub(crate) struct DecryptExec {
    child: Arc<dyn ExecutionPlan>,
    columns: Arc<[Opened]>,
    decryptor: Arc<dyn Decryptor>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DecryptExec {
    /// `schema` has the names and types of `columns`.
    pub(crate) fn try_new(
        node: u32,
        child: Arc<dyn ExecutionPlan>,
        columns: Arc<[Opened]>,
        decryptor: Arc<dyn Decryptor>,
        schema: SchemaRef,
    ) -> Result<Self, Unsupported> {
        let below = child.schema().fields().len();
        let within =
            |position: u32| usize::try_from(position).is_ok_and(|position| position < below);
        let known = |column: &Opened| {
            within(column.column)
                && within(column.file)
                && within(column.row)
                && Kind::try_from(column.kind).is_ok()
        };
        if !columns.iter().all(known) {
            return Err(Unsupported::Malformed {
                node,
                what: "a column to open that is not there",
            });
        }
        Ok(Self::of(child, columns, decryptor, schema))
    }

    fn of(
        child: Arc<dyn ExecutionPlan>,
        columns: Arc<[Opened]>,
        decryptor: Arc<dyn Decryptor>,
        schema: SchemaRef,
    ) -> Self {
        let properties = streamed(
            EquivalenceProperties::new(Arc::clone(&schema)),
            child.output_partitioning().clone(),
        );
        Self {
            child,
            columns,
            decryptor,
            schema,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for DecryptExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let opened = self
            .columns
            .iter()
            .filter(|column| column.kind() != Kind::AsIs);
        write!(f, "DecryptExec: columns={}", opened.count())
    }
}

impl ExecutionPlan for DecryptExec {
    operator_basics!(one child, |plan, child| Self::of(
                child,
                Arc::clone(&plan.columns),
                Arc::clone(&plan.decryptor),
                Arc::clone(&plan.schema),
            ), else "a decryption has one child");

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let input = self.child.execute(partition, context)?;
        let (columns, decryptor, schema) = (
            Arc::clone(&self.columns),
            Arc::clone(&self.decryptor),
            Arc::clone(&self.schema),
        );
        let opened = input.map(move |batch| {
            let batch = batch?;
            let _timer = metrics.elapsed_compute().timer();
            let opened = columns
                .iter()
                .map(|column| open(column, &batch, decryptor.as_ref()))
                .collect::<Result<Vec<_>>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), opened, &options)?;
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            opened,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

fn open(column: &Opened, batch: &RecordBatch, decryptor: &dyn Decryptor) -> Result<ArrayRef> {
    let at = |position: u32| {
        usize::try_from(position)
            .ok()
            .and_then(|position| batch.columns().get(position))
            .ok_or_else(|| internal_datafusion_err!("no column {position}"))
    };
    let stored = at(column.column)?;
    match column.kind() {
        Kind::AsIs => Ok(Arc::clone(stored)),
        Kind::Value => {
            let placed = column.file != column.row;
            let index = if placed {
                Some((at(column.file)?, at(column.row)?))
            } else {
                None
            };
            decryptor.open(column.handle, &column.stored, stored, index)
        }
        Kind::Sum => decryptor.open_sums(column.handle, &column.stored, stored),
        Kind::Count => decryptor.counts(stored),
    }
}
