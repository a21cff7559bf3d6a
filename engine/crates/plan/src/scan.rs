//! Scan: a sealed table's columns, read and opened inside the engine.

use std::{fmt, sync::Arc};

use arrow::datatypes::SchemaRef;
use datafusion_common::{Result, not_impl_err, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, Partitioning};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    execution_plan::{Boundedness, EmissionType},
    metrics::{ExecutionPlanMetricsSet, MetricsSet},
};

use crate::operator::operator_basics;

/// Opened footers of one session.
#[derive(Default)]
pub struct FooterCache {}

/// Leaf that reads a task's file slices.
#[derive(Debug)]
pub(crate) struct ScanExec {
    scan_id: u32,
    #[allow(dead_code)]
    pushed: Vec<Arc<dyn PhysicalExpr>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    pub(crate) fn new(
        scan_id: u32,
        schema: SchemaRef,
        pushed: Vec<Arc<dyn PhysicalExpr>>,
        partitions: usize,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { scan_id, pushed, properties, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ScanExec: scan={}", self.scan_id)
    }
}

impl ExecutionPlan for ScanExec {
    operator_basics!(leaf);

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        not_impl_err!("scans of sealed tables")
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
