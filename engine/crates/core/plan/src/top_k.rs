//! Sort with a limit.

use std::{fmt, sync::Arc};

use datafusion_common::{Result, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::LexOrdering;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, metrics::MetricsSet,
    sorts::sort::SortExec,
};
use parking_lot::Mutex;

use crate::operator::operator_basics;

/// The first so many rows of each partition, in order.
///
/// DataFusion's top-k keeps one threshold for all partitions of a plan and drops rows by it. An
/// engine runs some partitions, and may run one twice, so that a second run would lose the very
/// rows the first one found. Hence every execution gets a sort of its own.
#[derive(Debug)]
pub(crate) struct TopKExec {
    child: Arc<dyn ExecutionPlan>,
    ordering: LexOrdering,
    fetch: usize,
    properties: Arc<PlanProperties>,
    /// Every sort that was started, for its metrics.
    sorts: Mutex<Vec<Arc<SortExec>>>,
}

impl TopKExec {
    pub(crate) fn new(ordering: LexOrdering, child: Arc<dyn ExecutionPlan>, fetch: usize) -> Self {
        let properties = Arc::clone(Self::sort(&ordering, &child, fetch).properties());
        Self {
            child,
            ordering,
            fetch,
            properties,
            sorts: Mutex::default(),
        }
    }

    fn sort(ordering: &LexOrdering, child: &Arc<dyn ExecutionPlan>, fetch: usize) -> SortExec {
        SortExec::new(ordering.clone(), Arc::clone(child))
            .with_preserve_partitioning(true)
            .with_fetch(Some(fetch))
    }
}

impl DisplayAs for TopKExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "TopKExec: fetch={}, order=[{}]",
            self.fetch, self.ordering
        )
    }
}

impl ExecutionPlan for TopKExec {
    operator_basics!(one child, |plan, child| Self::new(
                plan.ordering.clone(),
                child,
                plan.fetch,
            ), else "a sort has one child");

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let sort = Arc::new(Self::sort(&self.ordering, &self.child, self.fetch));
        self.sorts.lock().push(Arc::clone(&sort));
        sort.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut all = MetricsSet::new();
        for sort in self.sorts.lock().iter() {
            for metric in sort.metrics().iter().flat_map(MetricsSet::iter) {
                all.push(Arc::clone(metric));
            }
        }
        Some(all)
    }
}
