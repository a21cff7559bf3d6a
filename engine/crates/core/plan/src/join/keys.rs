//! The keys of a join.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::joins::JoinOn;

use super::{Sides, Spec};
use crate::{Unsupported, expressions::Expressions};

/// Pairs of keys that must be equal, floats in canonical form.
pub(super) fn pairs(
    spec: &Spec,
    sides: &Sides,
    expressions: &Expressions,
) -> Result<JoinOn, Unsupported> {
    let (left, right) = (sides.left.schema(), sides.right.schema());
    let node = spec.node;
    let mut pairs = Vec::with_capacity(spec.left_keys.len());
    for (column, (left_key, right_key)) in spec.left_keys.iter().zip(spec.right_keys).enumerate() {
        let left_key = expressions.order_key(node, left_key, &left)?;
        let right_key = expressions.order_key(node, right_key, &right)?;
        let of = |key: &Arc<dyn PhysicalExpr>, schema| {
            key.data_type(schema)
                .map_err(|source| Unsupported::Operators { node, source })
        };
        let (found, declared) = (of(&left_key, &left)?, of(&right_key, &right)?);
        if found != declared || found == DataType::Null {
            return Err(Unsupported::Type {
                node,
                column,
                found: found.to_string(),
                declared: declared.to_string(),
            });
        }
        pairs.push((left_key, right_key));
    }
    Ok(pairs)
}
