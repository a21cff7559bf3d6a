//! Spark's sort order as DataFusion's.

use arrow::{compute::SortOptions, datatypes::SchemaRef};
use coffer_protocol::plan::SortKey;
use datafusion_physical_expr::{LexOrdering, PhysicalSortExpr};

use crate::{Unsupported, expressions::Expressions};

/// Sort keys over canonical values: Arrow's total order then puts NaN above all numbers and holds
/// −0.0 equal to 0.0, as Spark does.
pub(crate) fn ordering(
    node: u32,
    keys: &[SortKey],
    schema: &SchemaRef,
    expressions: &Expressions,
) -> Result<LexOrdering, Unsupported> {
    let mut exprs = Vec::with_capacity(keys.len());
    for key in keys {
        let expr = key.expr.as_ref().ok_or(Unsupported::Malformed {
            node,
            what: "a sort key without expression",
        })?;
        exprs.push(PhysicalSortExpr {
            expr: expressions.order_key(node, expr, schema)?,
            options: options(key),
        });
    }
    LexOrdering::new(exprs).ok_or(Unsupported::Malformed {
        node,
        what: "no sort keys",
    })
}

pub(crate) fn options(key: &SortKey) -> SortOptions {
    SortOptions {
        descending: key.descending,
        nulls_first: key.nulls_first,
    }
}
