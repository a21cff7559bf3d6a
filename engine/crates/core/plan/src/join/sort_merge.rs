//! Merge joins: both sides are sorted by the keys, spilling where they must, and met in that order.
//! For joins whose build side would not fit in memory.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion_common::NullEquality;
use datafusion_physical_expr::{LexOrdering, PhysicalSortExpr, expressions::Column};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    ExecutionPlan,
    joins::{SortMergeJoinExec, utils::JoinFilter},
    projection::ProjectionExec,
    sorts::sort::SortExec,
};

use super::{Output, Side, Sides, Spec, keys, ordered::ordered};
use crate::{Unsupported, expressions::Expressions};

pub(super) fn plan(
    spec: &Spec,
    sides: Sides,
    filter: Option<JoinFilter>,
    output: &Output,
    expressions: &Expressions,
) -> Result<Vec<Arc<dyn ExecutionPlan>>, Unsupported> {
    let operators = |source| Unsupported::Operators {
        node: spec.node,
        source,
    };
    let (left_schema, right_schema) = (sides.left.schema(), sides.right.schema());
    let on = keys::pairs(spec, &sides, expressions)?
        .into_iter()
        .map(|(left, right)| Ok((ordered(left, &left_schema)?, ordered(right, &right_schema)?)))
        .collect::<Result<Vec<_>, _>>()
        .map_err(operators)?;
    let options = SortOptions {
        descending: false,
        nulls_first: true,
    };
    let sorted =
        |plan, keys: Vec<Arc<dyn PhysicalExpr>>| -> Result<Arc<dyn ExecutionPlan>, Unsupported> {
            let ordering = keys
                .into_iter()
                .map(|expr| PhysicalSortExpr { expr, options });
            let ordering = LexOrdering::new(ordering).ok_or(Unsupported::Malformed {
                node: spec.node,
                what: "a join by keys without keys",
            })?;
            Ok(Arc::new(
                SortExec::new(ordering, plan).with_preserve_partitioning(true),
            ))
        };
    let left = sorted(
        sides.left,
        on.iter().map(|(left, _)| Arc::clone(left)).collect(),
    )?;
    let right = sorted(
        sides.right,
        on.iter().map(|(_, right)| Arc::clone(right)).collect(),
    )?;
    let options = vec![options; on.len()];
    let join = SortMergeJoinExec::try_new(
        Arc::clone(&left),
        Arc::clone(&right),
        on,
        filter,
        spec.operator_type(),
        options,
        NullEquality::NullEqualsNothing,
    );
    let join: Arc<dyn ExecutionPlan> = Arc::new(join.map_err(operators)?);
    let mut made = vec![];
    if let Some(projection) = output.projection(Side::Left) {
        let schema = join.schema();
        let columns = projection.into_iter().map(|index| {
            let column: Arc<dyn PhysicalExpr> =
                Arc::new(Column::new(schema.field(index).name(), index));
            (column, schema.field(index).name().clone())
        });
        let projected = ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::clone(&join))
            .map_err(operators)?;
        made.push(Arc::new(projected) as Arc<dyn ExecutionPlan>);
    }
    made.extend([join, left, right]);
    Ok(made)
}
