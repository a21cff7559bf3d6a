//! Union: children's partitions one above the other, or side by side.

use std::{fmt, sync::Arc};

use arrow::datatypes::SchemaRef;
use datafusion_common::{Result, internal_err, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::StreamExt;

use crate::{
    operator::{operator_basics, unordered},
    schema::counted,
};

/// Stacked: the partitions of the first child, then those of the second, … Aligned: partition i
/// holds the rows of partition i of every child, one child after the other.
#[derive(Debug)]
pub(crate) struct UnionExec {
    children: Vec<Arc<dyn ExecutionPlan>>,
    stacked: bool,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl UnionExec {
    /// Children must have the types of `schema`.
    pub(crate) fn new(
        children: Vec<Arc<dyn ExecutionPlan>>,
        schema: SchemaRef,
        stacked: bool,
    ) -> Self {
        let counts = children
            .iter()
            .map(|child| child.output_partitioning().partition_count());
        let partitions = if stacked {
            counts.sum()
        } else {
            counts.max().unwrap_or(0)
        };
        let properties = unordered(&schema, partitions);
        Self {
            children,
            stacked,
            schema,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for UnionExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "UnionExec: {}",
            if self.stacked { "stacked" } else { "aligned" }
        )
    }
}

impl ExecutionPlan for UnionExec {
    operator_basics!(any);

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(
            children,
            Arc::clone(&self.schema),
            self.stacked,
        )))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        if self.stacked {
            let mut own = partition;
            for child in &self.children {
                let count = child.output_partitioning().partition_count();
                if own < count {
                    return Ok(counted(
                        Arc::clone(&self.schema),
                        child.execute(own, context)?,
                        metrics,
                    ));
                }
                own -= count;
            }
            return internal_err!("partition {partition} of a union does not exist");
        }
        // Children start when their turn comes, so that they do not hold memory side by side.
        let children = futures::stream::iter(self.children.clone()).flat_map(move |child| {
            match child.execute(partition, Arc::clone(&context)) {
                Ok(stream) => stream,
                Err(error) => Box::pin(RecordBatchStreamAdapter::new(
                    child.schema(),
                    futures::stream::once(async move { Err(error) }),
                )),
            }
        });
        let all = Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            children,
        ));
        Ok(counted(Arc::clone(&self.schema), all, metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
