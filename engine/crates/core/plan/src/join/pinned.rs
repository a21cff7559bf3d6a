//! One partition of a plan of many, as a plan of its own.

use std::{fmt, sync::Arc};

use datafusion_common::{Result, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::operator::{operator_basics, unordered};

/// Runs one partition of its child, with the task's own context whatever context it is run with.
#[derive(Debug)]
pub(super) struct PinnedExec {
    child: Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
    properties: Arc<PlanProperties>,
}

impl PinnedExec {
    pub(super) fn new(
        child: Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Self {
        let properties = unordered(&child.schema(), 1);
        Self {
            child,
            partition,
            context,
            properties,
        }
    }
}

impl DisplayAs for PinnedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PinnedExec: partition={}", self.partition)
    }
}

impl ExecutionPlan for PinnedExec {
    operator_basics!(one child, |plan, child| Self::new(
                child,
                plan.partition,
                Arc::clone(&plan.context),
            ), else "a pinned partition is of one plan");

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.child
            .execute(self.partition, Arc::clone(&self.context))
    }
}
