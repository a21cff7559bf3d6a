//! NOT IN over a broadcast, with SQL's meaning of NULL: over no rows everything qualifies, NULL
//! too; a NULL among the rows disqualifies everything; else what is NULL does not qualify, nor does
//! what is found.
//!
//! DataFusion's null-aware join builds the side whose rows come out. Here that side is streamed: an
//! ordinary anti join over the broadcast finds what has no match, and this operator does the rest.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use arrow::{
    array::{Array, RecordBatch},
    compute::{filter_record_batch, is_not_null},
    datatypes::SchemaRef,
};
use datafusion_common::{Result, internal_err, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    projection::ProjectionExec,
    stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::{Output, Side, Sides, Spec, hash, keys};
use crate::{Unsupported, expressions::Expressions, operator::operator_basics};

pub(super) fn plan(
    spec: &Spec,
    sides: Sides,
    output: &Output,
    expressions: &Expressions,
) -> Result<Vec<Arc<dyn ExecutionPlan>>, Unsupported> {
    let operators = |source| Unsupported::Operators {
        node: spec.node,
        source,
    };
    let (left_key, right_key) =
        keys::pairs(spec, &sides, expressions)?
            .pop()
            .ok_or(Unsupported::Malformed {
                node: spec.node,
                what: "a join by keys without keys",
            })?;
    let values = Arc::clone(&sides.right);
    let schema = sides.left.schema();
    // The key is looked at once more above the join, so every column has to come through it.
    let all = Output {
        both: None,
        columns: (0..schema.fields().len()).collect(),
        whole: true,
    };
    let unmatched: Arc<dyn ExecutionPlan> =
        Arc::new(hash::operator(spec, sides, None, &all, expressions)?);
    let not_in: Arc<dyn ExecutionPlan> = Arc::new(NotInExec::new(
        Arc::clone(&unmatched),
        values,
        left_key,
        right_key,
    ));
    let mut made = vec![];
    if let Some(projection) = output.projection(Side::Left) {
        let columns = projection.into_iter().map(|index| {
            let column = datafusion_physical_expr::expressions::Column::new(
                schema.field(index).name(),
                index,
            );
            (
                Arc::new(column) as Arc<dyn PhysicalExpr>,
                schema.field(index).name().clone(),
            )
        });
        let projected = ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::clone(&not_in))
            .map_err(operators)?;
        made.push(Arc::new(projected) as Arc<dyn ExecutionPlan>);
    }
    made.extend([not_in, unmatched]);
    Ok(made)
}

/// What counts of the values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Facts {
    any: bool,
    null: bool,
}

#[derive(Debug)]
struct NotInExec {
    /// Rows of the left side without a match, those with a NULL key among them.
    unmatched: Arc<dyn ExecutionPlan>,
    /// The broadcast.
    values: Arc<dyn ExecutionPlan>,
    left_key: Arc<dyn PhysicalExpr>,
    right_key: Arc<dyn PhysicalExpr>,
    /// The same for all tasks of the plan. Two may find it out at once; only success is kept.
    facts: Arc<OnceLock<Facts>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl NotInExec {
    fn new(
        unmatched: Arc<dyn ExecutionPlan>,
        values: Arc<dyn ExecutionPlan>,
        left_key: Arc<dyn PhysicalExpr>,
        right_key: Arc<dyn PhysicalExpr>,
    ) -> Self {
        let properties = Arc::clone(unmatched.properties());
        Self {
            unmatched,
            values,
            left_key,
            right_key,
            facts: Arc::new(OnceLock::new()),
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

async fn facts_of(
    mut values: SendableRecordBatchStream,
    key: Arc<dyn PhysicalExpr>,
) -> Result<Facts> {
    let mut facts = Facts::default();
    while let Some(batch) = values.try_next().await? {
        let keys = key.evaluate(&batch)?.into_array(batch.num_rows())?;
        facts.any |= batch.num_rows() > 0;
        facts.null |= keys.null_count() > 0;
        if facts.null {
            break;
        }
    }
    Ok(facts)
}

impl DisplayAs for NotInExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "NotInExec: {} not in {}", self.left_key, self.right_key)
    }
}

impl ExecutionPlan for NotInExec {
    operator_basics!(any);

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.unmatched, &self.values]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop(), children.is_empty()) {
            (Some(values), Some(unmatched), true) => Ok(Arc::new(Self::new(
                unmatched,
                values,
                Arc::clone(&self.left_key),
                Arc::clone(&self.right_key),
            ))),
            _ => internal_err!("NOT IN has two children"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema: SchemaRef = self.unmatched.schema();
        let values = self.values.execute(0, Arc::clone(&context))?;
        let unmatched = self.unmatched.execute(partition, context)?;
        let (left_key, right_key) = (Arc::clone(&self.left_key), Arc::clone(&self.right_key));
        let cell = Arc::clone(&self.facts);
        let rows = stream::once(async move {
            let facts = match cell.get() {
                Some(facts) => *facts,
                None => {
                    let facts = facts_of(values, right_key).await?;
                    *cell.get_or_init(|| facts)
                }
            };
            let unmatched = match facts.null {
                true => stream::empty().boxed(),
                false => unmatched.boxed(),
            };
            Ok::<_, datafusion_common::DataFusionError>(unmatched.map(move |batch| {
                let batch = batch?;
                let _timer = metrics.elapsed_compute().timer();
                let batch = match facts.any {
                    true => with_key(&batch, &left_key)?,
                    false => batch,
                };
                metrics.record_output(batch.num_rows());
                Ok(batch)
            }))
        })
        .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The rows whose key is not NULL.
fn with_key(batch: &RecordBatch, key: &Arc<dyn PhysicalExpr>) -> Result<RecordBatch> {
    let keys = key.evaluate(batch)?.into_array(batch.num_rows())?;
    if keys.null_count() == 0 {
        return Ok(batch.clone());
    }
    Ok(filter_record_batch(batch, &is_not_null(&keys)?)?)
}
