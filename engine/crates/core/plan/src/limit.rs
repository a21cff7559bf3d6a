//! Limit: of each partition, skip so many rows and take so many.

use std::{fmt, sync::Arc};

use datafusion_common::{Result, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    limit::LimitStream,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
};

use crate::operator::operator_basics;

/// DataFusion's global limit wants a single partition, and its local one skips nothing.
#[derive(Debug)]
pub(crate) struct LimitExec {
    child: Arc<dyn ExecutionPlan>,
    skip: usize,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LimitExec {
    pub(crate) fn new(child: Arc<dyn ExecutionPlan>, skip: usize, fetch: Option<usize>) -> Self {
        let properties = Arc::clone(child.properties());
        Self {
            child,
            skip,
            fetch,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for LimitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "LimitExec: skip={}, fetch={:?}", self.skip, self.fetch)
    }
}

impl ExecutionPlan for LimitExec {
    operator_basics!(
        one child,
        |plan, child| Self::new(child, plan.skip, plan.fetch),
        else "a limit has one child"
    );

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.child.execute(partition, context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        Ok(Box::pin(LimitStream::new(
            input, self.skip, self.fetch, metrics,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
