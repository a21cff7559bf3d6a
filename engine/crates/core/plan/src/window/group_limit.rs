//! The first rows of each window partition, before a window ranks them: row by row, nothing is
//! held.

use std::{fmt, sync::Arc};

use arrow::{array::BooleanArray, compute::filter_record_batch};
use datafusion_common::{Result, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::StreamExt;

use super::{
    Keys,
    running::{Running, SoFar},
};
use crate::operator::operator_basics;

/// Of the child's rows, which come sorted by the keys, those whose rank is at most `limit`.
#[derive(Debug)]
pub(super) struct GroupLimitExec {
    child: Arc<dyn ExecutionPlan>,
    keys: Keys,
    rank: SoFar,
    limit: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GroupLimitExec {
    pub(super) fn new(
        child: Arc<dyn ExecutionPlan>,
        keys: Keys,
        rank: SoFar,
        limit: usize,
    ) -> Self {
        let properties = Arc::clone(child.properties());
        Self {
            child,
            keys,
            rank,
            limit,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for GroupLimitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "GroupLimitExec: {:?} <= {}", self.rank, self.limit)
    }
}

impl ExecutionPlan for GroupLimitExec {
    operator_basics!(one child, |plan, child| Self::new(
                child,
                plan.keys.clone(),
                plan.rank,
                plan.limit,
            ), else "a limit of groups has one child");

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.child.schema();
        let mut running = Running::new(&self.keys, &schema)?;
        let (rank, limit) = (self.rank, self.limit);
        let input = self.child.execute(partition, context)?;
        let rows = input.map(move |batch| {
            let batch = batch?;
            let _timer = metrics.elapsed_compute().timer();
            let mut kept = Vec::with_capacity(batch.num_rows());
            running.each(&batch, |place| {
                kept.push(rank.of(place) <= limit);
                Ok(())
            })?;
            let batch = filter_record_batch(&batch, &BooleanArray::from(kept))?;
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
