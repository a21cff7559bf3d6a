//! Expressions of a fragment, compiled on behalf of its nodes.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use coffer_expr::CompileContext;
use coffer_protocol::plan::Expr;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

use crate::Unsupported;

/// Compiles expressions on behalf of nodes.
pub(crate) struct Expressions<'a>(pub(crate) &'a CompileContext);

impl Expressions<'_> {
    pub(crate) fn compile(
        &self,
        node: u32,
        expr: &Expr,
        schema: &SchemaRef,
    ) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
        coffer_expr::compile(expr, schema, self.0)
            .map_err(|source| Unsupported::Expression { node, source })
    }

    /// An expression that rows are grouped by: −0.0 and NaN in canonical form. (Of nested values
    /// Spark's plans make them so.)
    pub(crate) fn key(
        &self,
        node: u32,
        expr: &Expr,
        schema: &SchemaRef,
    ) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
        let compiled = self.compile(node, expr, schema)?;
        coffer_expr::normalize_key(compiled, schema)
            .map_err(|source| Unsupported::Expression { node, source })
    }

    /// An expression that rows are sorted, partitioned or joined by: as [`Self::key`], and nested
    /// values as bytes that have their order.
    pub(crate) fn order_key(
        &self,
        node: u32,
        expr: &Expr,
        schema: &SchemaRef,
    ) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
        let compiled = self.compile(node, expr, schema)?;
        coffer_expr::order_key(compiled, schema)
            .map_err(|source| Unsupported::Expression { node, source })
    }

    pub(crate) fn boolean(
        &self,
        node: u32,
        expr: &Expr,
        schema: &SchemaRef,
    ) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
        let compiled = self.compile(node, expr, schema)?;
        let data_type = compiled
            .data_type(schema)
            .map_err(|source| Unsupported::Operators { node, source })?;
        if data_type == DataType::Boolean {
            Ok(compiled)
        } else {
            Err(Unsupported::Malformed {
                node,
                what: "a condition that is not boolean",
            })
        }
    }
}
