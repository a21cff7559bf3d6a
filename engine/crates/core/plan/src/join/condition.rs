//! The residual condition: what must hold of a pair of rows beside equal keys.

use std::{collections::BTreeSet, sync::Arc};

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::JoinSide;
use datafusion_physical_plan::joins::utils::{ColumnIndex, JoinFilter};

use super::Spec;
use crate::{
    Unsupported,
    columns::{gather, narrowed},
    expressions::Expressions,
};

/// The condition over Spark's left and right side. It sees the columns that it reads and no others,
/// since these are put together for every pair of rows with equal keys, and it is evaluated on no
/// other pairs.
pub(super) fn filter(
    spec: &Spec,
    left: &SchemaRef,
    right: &SchemaRef,
    expressions: &Expressions,
) -> Result<Option<JoinFilter>, Unsupported> {
    let Some(condition) = spec.condition else {
        return Ok(None);
    };
    let mut used = BTreeSet::new();
    gather(condition, &mut used);
    if used.is_empty() {
        // A batch needs a column to have rows; which one plays no part.
        used.insert(0);
    }
    let columns: Vec<u32> = used.into_iter().collect();
    let mut indices = Vec::with_capacity(columns.len());
    let mut fields = Vec::with_capacity(columns.len());
    for column in &columns {
        let index = usize::try_from(*column).unwrap_or(usize::MAX);
        let (side, schema, index) = match index.checked_sub(left.fields().len()) {
            None => (JoinSide::Left, left, index),
            Some(index) => (JoinSide::Right, right, index),
        };
        let field = schema.fields().get(index).ok_or(Unsupported::Malformed {
            node: spec.node,
            what: "a condition on a column that the join does not have",
        })?;
        indices.push(ColumnIndex { index, side });
        fields.push(Field::new(field.name(), field.data_type().clone(), true));
    }
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let expr = expressions.boolean(spec.node, &narrowed(condition, &columns), &schema)?;
    Ok(Some(JoinFilter::new(expr, indices, schema)))
}
