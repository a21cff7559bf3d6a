//! Expand: every row once for each projection (several DISTINCTs, GROUPING SETS).

use std::{fmt, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::SchemaRef,
};
use datafusion_common::{Result, internal_err, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    coop::make_cooperative,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt, stream};

use crate::operator::{operator_basics, unordered};

type Projections = Arc<[Vec<Arc<dyn PhysicalExpr>>]>;

/// Emits, for each batch, one batch of every projection.
#[derive(Debug)]
pub(crate) struct ExpandExec {
    child: Arc<dyn ExecutionPlan>,
    projections: Projections,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ExpandExec {
    /// Every projection must have the types of `schema`.
    pub(crate) fn new(
        child: Arc<dyn ExecutionPlan>,
        projections: Vec<Vec<Arc<dyn PhysicalExpr>>>,
        schema: SchemaRef,
    ) -> Self {
        Self::of(child, projections.into(), schema)
    }

    fn of(child: Arc<dyn ExecutionPlan>, projections: Projections, schema: SchemaRef) -> Self {
        let properties = unordered(&schema, child.output_partitioning().partition_count());
        Self {
            child,
            projections,
            schema,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for ExpandExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ExpandExec: projections={}", self.projections.len())
    }
}

impl ExecutionPlan for ExpandExec {
    operator_basics!(one child, |plan, child| Self::of(
                child,
                Arc::clone(&plan.projections),
                Arc::clone(&plan.schema),
            ), else "an expand has one child");

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let input = self.child.execute(partition, context)?;
        let (projections, schema) = (Arc::clone(&self.projections), Arc::clone(&self.schema));
        let count = projections.len();
        let expanded = input
            .flat_map(move |batch| {
                let projections = Arc::clone(&projections);
                let projected: Vec<_> = match batch {
                    Ok(batch) => (0..count).map(|index| Ok((batch.clone(), index))).collect(),
                    Err(error) => vec![Err(error)],
                };
                stream::iter(
                    projected
                        .into_iter()
                        .map(move |item| item.map(|item| (item, Arc::clone(&projections)))),
                )
            })
            .map(move |item| {
                let ((batch, index), projections) = item?;
                let _timer = metrics.elapsed_compute().timer();
                let Some(projection) = projections.get(index) else {
                    return internal_err!("no such projection");
                };
                let columns = projection
                    .iter()
                    .map(|expr| expr.evaluate(&batch)?.into_array(batch.num_rows()))
                    .collect::<Result<Vec<_>>>()?;
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let batch =
                    RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
                metrics.record_output(batch.num_rows());
                Ok(batch)
            });
        // One batch of input makes many: without a pause among them a task could not be cancelled.
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            expanded,
        ))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
