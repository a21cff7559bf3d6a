//! The first rows of each window partition, before a window ranks them: of sorted rows row by row,
//! nothing is held; of others, before they are sorted, [as far as a few keys
//! tell](mod@super::leaders).

use std::{fmt, sync::Arc};

use arrow::{array::BooleanArray, compute::filter_record_batch};
use datafusion_common::{Result, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext, memory_pool::MemoryConsumer};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::StreamExt;

use super::{
    Keys,
    leaders::Leaders,
    running::{Running, SoFar},
};
use crate::operator::operator_basics;

/// How the child's rows come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Come {
    /// By the keys: those whose rank is at most `limit` go on.
    Sorted,
    /// In any order: all of those go on, and some more. The same over sorted rows follows.
    Unsorted,
}

/// Of the child's rows those whose rank is at most `limit`, as far as it can be told.
#[derive(Debug)]
pub(super) struct GroupLimitExec {
    child: Arc<dyn ExecutionPlan>,
    come: Come,
    keys: Keys,
    rank: SoFar,
    limit: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GroupLimitExec {
    pub(super) fn new(
        child: Arc<dyn ExecutionPlan>,
        come: Come,
        keys: Keys,
        rank: SoFar,
        limit: usize,
    ) -> Self {
        let properties = Arc::clone(child.properties());
        Self {
            child,
            come,
            keys,
            rank,
            limit,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// Which rows go on.
enum Keeping {
    Ranked(Running),
    Leading(Leaders),
    All,
}

impl DisplayAs for GroupLimitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let (come, rank, limit) = (self.come, self.rank, self.limit);
        write!(f, "GroupLimitExec: {rank:?} <= {limit}, {come:?}")
    }
}

impl ExecutionPlan for GroupLimitExec {
    operator_basics!(one child, |plan, child| Self::new(
                child,
                plan.come,
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
        let (rank, limit) = (self.rank, self.limit);
        let mut keeping = match self.come {
            Come::Sorted => Keeping::Ranked(Running::new(&self.keys, &schema)?),
            Come::Unsorted => {
                let held = MemoryConsumer::new(format!("GroupLimitExec[{partition}]"));
                let held = held.register(context.memory_pool());
                Keeping::Leading(Leaders::new(&self.keys, rank, limit, &schema, held)?)
            }
        };
        let input = self.child.execute(partition, context)?;
        let rows = input.map(move |batch| {
            let batch = batch?;
            let _timer = metrics.elapsed_compute().timer();
            let kept = match &mut keeping {
                Keeping::Ranked(running) => {
                    let mut kept = Vec::with_capacity(batch.num_rows());
                    running.each(&batch, |place| {
                        kept.push(rank.of(place) <= limit);
                        Ok(())
                    })?;
                    kept
                }
                Keeping::Leading(leaders) => {
                    let kept = leaders.keep(&batch)?;
                    if !leaders.goes_on() {
                        keeping = Keeping::All;
                    }
                    kept
                }
                Keeping::All => {
                    metrics.record_output(batch.num_rows());
                    return Ok(batch);
                }
            };
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
