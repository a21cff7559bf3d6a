//! Numbers: equally spaced ones, cut among partitions as Spark's `range` cuts them.

use std::{fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::{DataType, SchemaRef},
};
use coffer_protocol::plan::Numbers;
use datafusion_common::{Result, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::stream;

use crate::{
    Unsupported,
    operator::{operator_basics, unordered},
    schema::{counted, schema_of},
};

/// A leaf of one LONG column.
#[derive(Debug)]
pub(crate) struct NumbersExec {
    start: i64,
    step: i64,
    count: i128,
    partitions: usize,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl NumbersExec {
    pub(crate) fn new(
        node: u32,
        numbers: &Numbers,
        partitions: usize,
    ) -> Result<Self, Unsupported> {
        let malformed = |what| Unsupported::Malformed { node, what };
        let schema = numbers.schema.as_ref();
        let schema = schema_of(schema.ok_or(malformed("numbers without schema"))?, node)?;
        match schema.fields().as_ref() {
            [field] if *field.data_type() == DataType::Int64 => {}
            _ => return Err(malformed("numbers that are no column of LONG")),
        }
        if usize::try_from(numbers.partitions) != Ok(partitions) {
            return Err(malformed("numbers for another count of partitions"));
        }
        let (start, end) = (i128::from(numbers.start), i128::from(numbers.end));
        let span = match numbers.step {
            0 => return Err(malformed("numbers without a step")),
            1.. => end - start,
            _ => start - end,
        };
        let step = i128::from(numbers.step.unsigned_abs());
        let properties = unordered(&schema, partitions);
        Ok(Self {
            start: numbers.start,
            step: numbers.step,
            count: (span.max(0) + step - 1) / step,
            partitions,
            schema,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// How many numbers come before a partition's.
    fn before(&self, partition: usize) -> i128 {
        let (partition, partitions) = (i128::try_from(partition), i128::try_from(self.partitions));
        // At most 2^64 numbers and 2^31 partitions.
        partition.unwrap_or(0) * self.count / partitions.unwrap_or(1).max(1)
    }
}

impl DisplayAs for NumbersExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "NumbersExec: {} numbers", self.count)
    }
}

impl ExecutionPlan for NumbersExec {
    operator_basics!(leaf);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let most = i128::try_from(context.session_config().batch_size().max(1)).unwrap_or(1);
        let (first, end) = (self.before(partition), self.before(partition + 1));
        let (start, step) = (i128::from(self.start), i128::from(self.step));
        let schema = Arc::clone(&self.schema);
        let batches = std::iter::successors(Some(first), move |at| Some(at + most))
            .take_while(move |at| *at < end)
            .map(move |at| {
                let numbers = (at..end.min(at + most)).map(|nth| start + nth * step);
                // All lie between the bounds, which are LONGs.
                let numbers = numbers.map(|number| i64::try_from(number).unwrap_or_default());
                let numbers: ArrayRef = Arc::new(numbers.collect::<Int64Array>());
                Ok(RecordBatch::try_new(Arc::clone(&schema), vec![numbers])?)
            });
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let stream = RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::iter(batches));
        Ok(counted(Arc::clone(&self.schema), Box::pin(stream), metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
