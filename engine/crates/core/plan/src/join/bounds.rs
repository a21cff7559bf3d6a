//! What a broadcast side's keys leave to be read of the other side.
//!
//! A broadcast is built whole before the first row of the other side is asked for. Its keys are
//! then known, and no row of the other side with another key can match: they become a condition of
//! the scan that the other side's key is a column of, if it is one. The least and the greatest
//! prune its row groups and pages, and of numbers also those between them that are no key leave out
//! rows before the other columns are decoded. Nothing waits for this: a scan that opens before the
//! keys are there reads all.

use std::{fmt, sync::Arc};

use datafusion_common::{JoinType, Result, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    filter::FilterExec,
    joins::{HashJoinExec, JoinOn},
    projection::ProjectionExec,
    stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt, stream};

use crate::{
    narrow::{KeyBounds, Seen, has_bounds},
    operator::operator_basics,
    paused::PausedExec,
    scan::ScanExec,
};

/// The build side, with its keys noted where the other side can make use of it.
pub(super) fn noted(
    build: Arc<dyn ExecutionPlan>,
    probe: &Arc<dyn ExecutionPlan>,
    on: &JoinOn,
    kind: JoinType,
) -> Arc<dyn ExecutionPlan> {
    // Of these joins no row comes out that a row of the other side without match had a part in.
    if !matches!(kind, JoinType::Inner | JoinType::RightSemi) {
        return build;
    }
    let mut keys = Vec::new();
    for (of_build, of_probe) in on {
        let Some(column) = of_probe.downcast_ref::<Column>() else {
            continue;
        };
        if let Some((scan, at)) = scan_of(probe, column.index())
            && scan
                .schema()
                .fields()
                .get(at)
                .is_some_and(|field| has_bounds(field.data_type()))
        {
            let bounds = Arc::new(KeyBounds::default());
            scan.narrow(at, Arc::clone(&bounds));
            keys.push((Arc::clone(of_build), bounds));
        }
    }
    match keys.is_empty() {
        true => build,
        false => Arc::new(NotedExec::new(build, keys.into())),
    }
}

/// The scan that a column comes from as it is, where each row of the scan that is left out leaves
/// out those rows only that have its value.
fn scan_of(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(&ScanExec, usize)> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Some((scan, column));
    }
    if let Some(paused) = plan.downcast_ref::<PausedExec>() {
        return scan_of(paused.child(), column);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return match filter.projection() {
            None => scan_of(filter.input(), column),
            Some(_) => None,
        };
    }
    if let Some(project) = plan.downcast_ref::<ProjectionExec>() {
        let of = project.expr().get(column)?.expr.downcast_ref::<Column>()?;
        return scan_of(project.input(), of.index());
    }
    let join = plan.downcast_ref::<HashJoinExec>()?;
    let column = match &join.projection {
        Some(projection) => *projection.get(column)?,
        None => column,
    };
    let column = match join.join_type() {
        JoinType::Inner | JoinType::Right => {
            column.checked_sub(join.left().schema().fields().len())?
        }
        JoinType::RightSemi | JoinType::RightAnti => column,
        _ => return None,
    };
    scan_of(join.right(), column)
}

/// Passes the rows of a build side on, and notes the bounds of its keys.
#[derive(Debug)]
struct NotedExec {
    child: Arc<dyn ExecutionPlan>,
    keys: Arc<[Key]>,
    properties: Arc<PlanProperties>,
}

type Key = (Arc<dyn PhysicalExpr>, Arc<KeyBounds>);

impl NotedExec {
    fn new(child: Arc<dyn ExecutionPlan>, keys: Arc<[Key]>) -> Self {
        let properties = Arc::clone(child.properties());
        Self {
            child,
            keys,
            properties,
        }
    }
}

impl DisplayAs for NotedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "NotedExec: {} keys", self.keys.len())
    }
}

impl ExecutionPlan for NotedExec {
    operator_basics!(one child, |plan, child| Self::new(child, Arc::clone(&plan.keys)),
        else "a build side is one");

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = context.memory_pool();
        let seen: Vec<Seen> = self.keys.iter().map(|_| Seen::of(memory)).collect();
        let rows = self.child.execute(partition, context)?;
        let schema = rows.schema();
        let state = (rows, Arc::clone(&self.keys), seen);
        let noted = stream::try_unfold(state, |(mut rows, keys, mut seen)| async move {
            match rows.next().await {
                Some(batch) => {
                    let batch = batch?;
                    for ((key, _), seen) in keys.iter().zip(&mut seen) {
                        seen.note(&key.evaluate(&batch)?.into_array(batch.num_rows())?)?;
                    }
                    Ok(Some((batch, (rows, keys, seen))))
                }
                None => {
                    for ((_, bounds), seen) in keys.iter().zip(seen) {
                        // Built again for another task, they are the same.
                        bounds.settle(seen);
                    }
                    Ok(None)
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, noted)))
    }
}
