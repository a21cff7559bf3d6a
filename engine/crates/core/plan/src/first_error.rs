//! Which error an operator reports where several of its expressions can fail: Spark computes row by
//! row, and in a row from left to right; an engine column by column. So what failed is computed
//! again, over one row after the other, and the first error is the one that counts.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Schema},
};
use coffer_expr::{SparkError, is_fallible};
use coffer_protocol::plan::Expr;
use datafusion_common::{DataFusionError, Result, internal_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

/// The same expressions, each of which, where it fails, gives the error that Spark meets first in
/// all of them. `said` are they as the plan has them.
pub(crate) fn in_rows<'a>(
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    said: impl Iterator<Item = Option<&'a Expr>>,
) -> Vec<Arc<dyn PhysicalExpr>> {
    let fallible: Vec<bool> = said.map(|expr| expr.is_none_or(is_fallible)).collect();
    let fails = |at: usize| fallible.get(at).copied().unwrap_or(true);
    let all = exprs.iter().enumerate().filter(|(at, _)| fails(*at));
    let all: Arc<[_]> = all.map(|(_, expr)| Arc::clone(expr)).collect();
    let exprs = exprs.into_iter().enumerate();
    exprs
        .map(|(at, expr)| match fails(at) {
            true => Arc::new(InRows {
                expr,
                all: Arc::clone(&all),
            }),
            false => expr,
        })
        .collect()
}

/// The same of the only expression of an operator.
pub(crate) fn one_in_rows(expr: Arc<dyn PhysicalExpr>, said: &Expr) -> Arc<dyn PhysicalExpr> {
    match is_fallible(said) {
        true => Arc::new(InRows {
            all: Arc::new([Arc::clone(&expr)]),
            expr,
        }),
        false => expr,
    }
}

#[derive(Debug)]
struct InRows {
    expr: Arc<dyn PhysicalExpr>,
    /// Those of its operator that can fail, in order.
    all: Arc<[Arc<dyn PhysicalExpr>]>,
}

impl InRows {
    /// The first error of a batch of which one is known.
    fn first(&self, batch: &RecordBatch, known: DataFusionError) -> DataFusionError {
        if SparkError::find(&known).is_none() {
            return known;
        }
        for row in 0..batch.num_rows() {
            let row = batch.slice(row, 1);
            let mut failures = self.all.iter().map(|expr| expr.evaluate(&row));
            if let Some(Err(error)) = failures.find(Result::is_err) {
                return error;
            }
        }
        known
    }
}

impl PhysicalExpr for InRows {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.expr.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.expr.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.expr
            .evaluate(batch)
            .map_err(|error| self.first(batch, error))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.expr]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match <[_; 1]>::try_from(children) {
            // The others are over other columns now.
            Ok([expr]) => Ok(Arc::new(Self {
                all: Arc::new([Arc::clone(&expr)]),
                expr,
            })),
            Err(_) => internal_err!("an expression in rows has one child"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt_sql(f)
    }
}

impl fmt::Display for InRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

impl PartialEq for InRows {
    fn eq(&self, other: &Self) -> bool {
        self.expr.eq(&other.expr)
    }
}

impl Eq for InRows {}

impl Hash for InRows {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.expr.hash(state);
    }
}
