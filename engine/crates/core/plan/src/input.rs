//! Input: rows of other tasks' streams, as the task's [`crate::TaskIo`] opens them.

use std::{fmt, sync::Arc};

use arrow::datatypes::SchemaRef;
use datafusion_common::{Result, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext, memory_pool::MemoryConsumer};
use datafusion_physical_expr::{EquivalenceProperties, LexOrdering, Partitioning};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    sorts::streaming_merge::StreamingMergeBuilder,
};

use crate::{
    io::task_io,
    operator::{operator_basics, streamed},
    schema,
};

/// Leaf that yields a task's input. With an ordering, the input's streams are merged by it.
#[derive(Debug)]
pub(crate) struct InputExec {
    input_id: u32,
    schema: SchemaRef,
    merge: Option<LexOrdering>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl InputExec {
    pub(crate) fn new(
        input_id: u32,
        schema: SchemaRef,
        merge: Option<LexOrdering>,
        partitions: usize,
    ) -> Self {
        let mut equivalence = EquivalenceProperties::new(Arc::clone(&schema));
        if let Some(ordering) = &merge {
            equivalence.add_ordering(ordering.iter().cloned());
        }
        let properties = streamed(equivalence, Partitioning::UnknownPartitioning(partitions));
        Self {
            input_id,
            schema,
            merge,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for InputExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "InputExec: input={}", self.input_id)?;
        match &self.merge {
            Some(ordering) => write!(f, ", merge=[{ordering}]"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for InputExec {
    operator_basics!(leaf);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let io = task_io(&context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let Some(ordering) = &self.merge else {
            let stream = io.input(self.input_id)?;
            return Ok(schema::counted(Arc::clone(&self.schema), stream, metrics));
        };
        let mut streams = io.input_streams(self.input_id)?;
        match streams.len() {
            0 => Ok(schema::empty(&self.schema)),
            1 => Ok(schema::counted(
                Arc::clone(&self.schema),
                streams.remove(0),
                metrics,
            )),
            _ => StreamingMergeBuilder::new()
                .with_streams(streams)
                .with_schema(Arc::clone(&self.schema))
                .with_expressions(ordering)
                .with_metrics(metrics)
                .with_batch_size(context.session_config().batch_size())
                .with_reservation(
                    MemoryConsumer::new(format!("InputExec[{partition}]"))
                        .register(context.memory_pool()),
                )
                // Ties go to the lower stream, so that a repeated task gives the same rows in the
                // same order.
                .with_round_robin_tie_breaker(false)
                .build(),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
