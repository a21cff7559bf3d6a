//! Joins: the IR's types and strategies as DataFusion's operators.
//!
//! DataFusion always builds its left side, and names what comes out by that: a join that builds
//! Spark's right side is planned with the sides swapped, its type turned around and its columns put
//! back in order. How the partitions of a shared plan meet is said by the strategy: a shuffled join
//! reads partition i of both sides in task i and shares nothing; of a broadcast join, one build
//! serves all tasks of the plan.

mod bounds;
mod condition;
mod hash;
mod keys;
mod nested_loop;
mod not_in;
mod ordered;
mod pinned;
mod single;
mod sort_merge;
mod spec;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::JoinType;
use datafusion_physical_plan::{ExecutionPlan, joins::utils::JoinFilter};

use crate::{Unsupported, expressions::Expressions};
pub(crate) use spec::{Side, Spec, Strategy};

/// The two sides of a join, as planned.
pub(crate) struct Sides {
    pub(crate) left: Arc<dyn ExecutionPlan>,
    pub(crate) right: Arc<dyn ExecutionPlan>,
}

/// The operators of a join, the top one first. With `needed`, only these columns of its output come
/// out, in that order.
pub(crate) fn plan(
    spec: &Spec,
    sides: Sides,
    needed: Option<&[u32]>,
    expressions: &Expressions,
) -> Result<Vec<Arc<dyn ExecutionPlan>>, Unsupported> {
    let schemas = (sides.left.schema(), sides.right.schema());
    let filter = condition::filter(spec, &schemas.0, &schemas.1, expressions)?;
    let output = Output::of(spec, &schemas.0, &schemas.1, needed)?;
    match spec.single {
        true => single::plan(spec, sides, filter, &output, expressions),
        false => of_strategy(spec, sides, filter, &output, expressions),
    }
}

fn of_strategy(
    spec: &Spec,
    sides: Sides,
    filter: Option<JoinFilter>,
    output: &Output,
    expressions: &Expressions,
) -> Result<Vec<Arc<dyn ExecutionPlan>>, Unsupported> {
    match spec.strategy {
        Strategy::Hash if spec.null_aware => not_in::plan(spec, sides, output, expressions),
        Strategy::Hash => hash::plan(spec, sides, filter, output, expressions),
        Strategy::SortMerge => sort_merge::plan(spec, sides, filter, output, expressions),
        Strategy::NestedLoop => nested_loop::plan(spec, sides, filter, output),
    }
}

/// The columns that come out.
struct Output {
    /// Columns of left and right side, if rows of both come out.
    both: Option<(usize, usize)>,
    /// Positions in the IR's order.
    columns: Vec<usize>,
    /// Whether these are all columns, in order.
    whole: bool,
}

impl Output {
    fn of(
        spec: &Spec,
        left: &SchemaRef,
        right: &SchemaRef,
        needed: Option<&[u32]>,
    ) -> Result<Self, Unsupported> {
        let (left, right) = (left.fields().len(), right.fields().len());
        let (both, width) = match spec.operator_type() {
            JoinType::LeftSemi | JoinType::LeftAnti => (None, left),
            JoinType::LeftMark => (None, left + 1),
            _ => (Some((left, right)), left + right),
        };
        let columns: Vec<usize> = match needed {
            Some(needed) => needed
                .iter()
                .map(|column| usize::try_from(*column).unwrap_or(usize::MAX))
                .collect(),
            None => (0..width).collect(),
        };
        if columns.iter().any(|column| *column >= width) {
            return Err(Unsupported::Malformed {
                node: spec.node,
                what: "a column that the join does not have",
            });
        }
        Ok(Self {
            both,
            whole: columns.iter().copied().eq(0..width),
            columns,
        })
    }

    /// The projection of an operator whose left side is `build`; `None` when it gives what is
    /// wanted.
    fn projection(&self, build: Side) -> Option<Vec<usize>> {
        match (build, self.both) {
            (Side::Right, Some((left, right))) => {
                let turned = |column: &usize| match column.checked_sub(left) {
                    Some(of_right) => of_right,
                    None => column + right,
                };
                Some(self.columns.iter().map(turned).collect())
            }
            _ if self.whole => None,
            _ => Some(self.columns.clone()),
        }
    }
}
