//! What a broadcast side's keys leave to be read of the other side.
//!
//! A broadcast is built whole before the first row of the other side is asked for. Its keys are
//! then known, and no row of the other side with another key can match: they become a condition of
//! the scan that the other side's key is a column of, if it is one. The least and the greatest
//! prune its row groups and pages, and of numbers also those between them that are no key leave out
//! rows before the other columns are decoded. Nothing waits for this: a scan that opens before the
//! keys are there reads all.

use std::{
    cmp::Ordering,
    fmt,
    sync::{Arc, OnceLock},
};

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::{SortOptions, sort_to_indices},
    datatypes::{DataType, SchemaRef},
};
use datafusion_common::{JoinType, Result, ScalarValue, tree_node::TreeNodeRecursion};
use datafusion_execution::{
    SendableRecordBatchStream, TaskContext,
    memory_pool::{MemoryConsumer, MemoryPool},
};
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, Literal, lit};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    filter::FilterExec,
    joins::{HashJoinExec, JoinOn},
    projection::ProjectionExec,
    stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt, stream};

use super::members::{AmongKeys, Keys, Members};
use crate::{operator::operator_basics, scan::ScanExec};

/// The least and the greatest key of a build side; none of a side without any.
type Range = Option<(ScalarValue, ScalarValue)>;

/// What is known of a build side's keys, once it is.
#[derive(Debug, Default)]
pub struct KeyBounds(OnceLock<(Range, Option<Arc<Members>>)>);

impl KeyBounds {
    /// Of a column of rows that are all here; none where they are too many, or of a type, to be
    /// of use.
    pub fn of<'a>(
        rows: impl IntoIterator<Item = &'a RecordBatch>,
        column: usize,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<Option<Self>> {
        let mut seen = Seen::of(memory);
        for batch in rows {
            let Some(values) = batch.columns().get(column) else {
                return Ok(None);
            };
            if !has_bounds(values.data_type()) {
                return Ok(None);
            }
            seen.note(values)?;
        }
        let known = OnceLock::from((seen.range, seen.keys.members().map(Arc::new)));
        Ok(Some(Self(known)))
    }

    /// That a column of such a type may be one of them, and about which share of its rows is, if it
    /// is known.
    pub(crate) fn condition(
        &self,
        column: &Column,
        kind: &DataType,
    ) -> Option<(Arc<dyn PhysicalExpr>, f64)> {
        let (range, members) = self.0.get()?;
        let Some((least, greatest)) = range else {
            return Some((lit(false), 0.0));
        };
        if least.data_type() != *kind {
            return None;
        }
        let literal = |value: &ScalarValue| -> Arc<dyn PhysicalExpr> {
            Arc::new(Literal::new(value.clone()))
        };
        let (least, greatest) = (literal(least), literal(greatest));
        let value: Arc<dyn PhysicalExpr> = Arc::new(column.clone());
        Some(match members {
            None => (within(&value, &least, &greatest), 1.0),
            Some(members) => {
                let among = AmongKeys {
                    value,
                    bounds: (least, greatest),
                    members: Arc::clone(members),
                };
                (Arc::new(among), members.share())
            }
        })
    }
}

/// That a value lies between two others, or is one of them.
pub(super) fn within(
    value: &Arc<dyn PhysicalExpr>,
    least: &Arc<dyn PhysicalExpr>,
    greatest: &Arc<dyn PhysicalExpr>,
) -> Arc<dyn PhysicalExpr> {
    let compared = |operator, end: &Arc<dyn PhysicalExpr>| -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(
            Arc::clone(value),
            operator,
            Arc::clone(end),
        ))
    };
    Arc::new(BinaryExpr::new(
        compared(Operator::GtEq, least),
        Operator::And,
        compared(Operator::LtEq, greatest),
    ))
}

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

/// Types whose order is that of Parquet's statistics, and in which equal values are the same one.
fn has_bounds(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Decimal128(..)
            | DataType::Timestamp(..)
            | DataType::Time64(..)
            | DataType::Utf8
    )
}

/// The scan that a column comes from as it is, where each row of the scan that is left out leaves
/// out those rows only that have its value.
fn scan_of(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(&ScanExec, usize)> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Some((scan, column));
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
        let schema: SchemaRef = rows.schema();
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
                        let members = seen.keys.members().map(Arc::new);
                        let _ = bounds.0.set((seen.range, members));
                    }
                    Ok(None)
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, noted)))
    }
}

/// What was seen of a key so far.
struct Seen {
    range: Range,
    keys: Keys,
}

impl Seen {
    fn of(memory: &Arc<dyn MemoryPool>) -> Self {
        Self {
            range: None,
            keys: Keys::new(MemoryConsumer::new("keys of a join").register(memory)),
        }
    }

    fn note(&mut self, values: &ArrayRef) -> Result<()> {
        self.keys.push(values)?;
        if let (Some(least), Some(greatest)) = (end(values, false)?, end(values, true)?) {
            self.range = Some(match self.range.take() {
                None => (least, greatest),
                Some((before, after)) => (
                    if less(&least, &before) { least } else { before },
                    if less(&after, &greatest) {
                        greatest
                    } else {
                        after
                    },
                ),
            });
        }
        Ok(())
    }
}

/// The value that comes first; none of NULLs alone, which match nothing.
fn end(values: &ArrayRef, descending: bool) -> Result<Option<ScalarValue>> {
    let order = SortOptions {
        descending,
        nulls_first: false,
    };
    let first = sort_to_indices(values, Some(order), Some(1))?;
    let at = first
        .values()
        .first()
        .and_then(|at| usize::try_from(*at).ok());
    match at.filter(|at| values.is_valid(*at)) {
        Some(at) => ScalarValue::try_from_array(values, at).map(Some),
        None => Ok(None),
    }
}

fn less(a: &ScalarValue, b: &ScalarValue) -> bool {
    a.partial_cmp(b) == Some(Ordering::Less)
}
