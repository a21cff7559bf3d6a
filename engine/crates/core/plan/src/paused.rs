//! Pauses in which a task can be cancelled.
//!
//! Whoever cancels a task is heard when its stream says that it is not ready. DataFusion's joins
//! and aggregates say so only where an input of theirs does: a join that makes a million rows of
//! each row it reads would go on for as long as it has rows to make, for nobody.

use std::{
    fmt,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use datafusion_common::{Result, Statistics, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    execution_plan::CardinalityEffect,
    statistics::{ChildStats, StatisticsArgs},
    stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt, stream};

use crate::operator::operator_basics;

/// How long a task may go on without one.
const MOST: Duration = Duration::from_millis(20);

/// Passes the rows of an operator on, with pauses.
#[derive(Debug)]
pub(crate) struct PausedExec {
    child: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl PausedExec {
    pub(crate) fn new(child: Arc<dyn ExecutionPlan>) -> Self {
        let properties = Arc::clone(child.properties());
        Self { child, properties }
    }

    /// The operator whose rows these are.
    pub(crate) fn child(&self) -> &Arc<dyn ExecutionPlan> {
        &self.child
    }
}

impl DisplayAs for PausedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("PausedExec")
    }
}

impl ExecutionPlan for PausedExec {
    operator_basics!(one child, |_plan, child| Self::new(child), else "pauses are of one operator");

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [of_child] => Ok(Arc::clone(of_child)),
            _ => datafusion_common::internal_err!("pauses are of one operator"),
        }
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut rows = self.child.execute(partition, context)?;
        let schema = rows.schema();
        let mut since = Instant::now();
        let paused = stream::poll_fn(move |context| {
            if since.elapsed() > MOST {
                since = Instant::now();
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let polled = rows.poll_next_unpin(context);
            if polled.is_pending() {
                since = Instant::now();
            }
            polled
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, paused)))
    }
}
