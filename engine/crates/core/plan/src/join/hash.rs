//! Hash joins: of one partition of each side, or of a broadcast that is built once for all tasks of
//! the plan.

use std::sync::Arc;

use datafusion_common::NullEquality;
use datafusion_physical_plan::{
    ExecutionPlan,
    joins::{HashJoinExec, PartitionMode, utils::JoinFilter},
};

use super::{Output, Side, Sides, Spec, bounds, keys};
use crate::{Unsupported, expressions::Expressions};

pub(super) fn plan(
    spec: &Spec,
    sides: Sides,
    filter: Option<JoinFilter>,
    output: &Output,
    expressions: &Expressions,
) -> Result<Vec<Arc<dyn ExecutionPlan>>, Unsupported> {
    Ok(vec![Arc::new(operator(
        spec,
        sides,
        filter,
        output,
        expressions,
    )?)])
}

pub(super) fn operator(
    spec: &Spec,
    sides: Sides,
    filter: Option<JoinFilter>,
    output: &Output,
    expressions: &Expressions,
) -> Result<HashJoinExec, Unsupported> {
    let on = keys::pairs(spec, &sides, expressions)?;
    let (build, probe, on, filter) = match spec.build {
        Side::Left => (sides.left, sides.right, on, filter),
        Side::Right => {
            let on = on.into_iter().map(|(left, right)| (right, left)).collect();
            (
                sides.right,
                sides.left,
                on,
                filter.as_ref().map(JoinFilter::swap),
            )
        }
    };
    // In a shuffled join every partition builds its own side and shares nothing; a broadcast is
    // built by the first task that comes, and the others wait for it.
    let mode = match spec.broadcast {
        true => PartitionMode::CollectLeft,
        false => PartitionMode::Partitioned,
    };
    let build = match spec.broadcast {
        true => bounds::noted(build, &probe, &on, spec.built_type()),
        false => build,
    };
    HashJoinExec::try_new(
        build,
        probe,
        on,
        filter,
        &spec.built_type(),
        output.projection(spec.build),
        mode,
        NullEquality::NullEqualsNothing,
        false,
    )
    .map_err(|source| Unsupported::Operators {
        node: spec.node,
        source,
    })
}
