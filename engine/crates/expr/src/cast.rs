//! Casts among the flat types.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use coffer_proto::plan::{self, EvalMode};
use datafusion_physical_expr::PhysicalExpr;

use crate::{Unsupported, compile::type_of, function::Entry, types::sql_name};

pub(crate) const FUNCTIONS: &[Entry] = &[];

/// Casts `child`; the same expression if it has the type already.
pub(crate) fn compile(
    child: Arc<dyn PhysicalExpr>,
    to: &DataType,
    mode: EvalMode,
    zone: &str,
    schema: &SchemaRef,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    let from = type_of(&child, schema)?;
    if from == *to {
        return Ok(child);
    }
    let _ = (mode, zone);
    Err(Unsupported::new("cast", format!("from {} to {}", sql_name(&from), sql_name(to))))
}

/// Whether the cast may raise an error.
pub(crate) fn is_fallible(cast: &plan::Cast) -> bool {
    cast.mode == i32::from(EvalMode::Ansi)
}
