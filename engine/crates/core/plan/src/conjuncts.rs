//! A condition of several parts, looked at one after another.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, BooleanArray, RecordBatch},
    buffer::BooleanBuffer,
    compute::filter_record_batch,
};
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_physical_expr::split_conjunction;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

/// Where less than one row of so many is left, the others are dropped before the next part: it is
/// computed of what is left then, and its answers need not be spread over all rows again, which
/// DataFusion's AND does and which costs more than most comparisons.
const FEW: usize = 5;

/// Boolean conditions, of which all must be true. None of them fails.
#[derive(Debug, Clone)]
pub struct Conjuncts(Vec<Arc<dyn PhysicalExpr>>);

impl Conjuncts {
    /// The parts of a condition, in its order.
    pub fn of(condition: &Arc<dyn PhysicalExpr>) -> Self {
        let parts = split_conjunction(condition);
        Self(parts.into_iter().map(Arc::clone).collect())
    }

    /// The rows for which all are true.
    ///
    /// # Errors
    ///
    /// One of them is not boolean, or cannot be evaluated.
    pub fn keep(&self, mut batch: RecordBatch) -> Result<RecordBatch> {
        let mut passes: Option<BooleanBuffer> = None;
        for part in &self.0 {
            let rows = batch.num_rows();
            let found = is_true(part, &batch)?;
            let both = match passes.take() {
                Some(passes) => &passes & &found,
                None => found,
            };
            match both.count_set_bits() {
                0 => return Ok(batch.slice(0, 0)),
                left if left == rows => {}
                left if left < rows / FEW => batch = filtered(&batch, both)?,
                _ => passes = Some(both),
            }
        }
        match passes {
            Some(passes) => filtered(&batch, passes),
            None => Ok(batch),
        }
    }
}

fn filtered(batch: &RecordBatch, passes: BooleanBuffer) -> Result<RecordBatch> {
    Ok(filter_record_batch(
        batch,
        &BooleanArray::new(passes, None),
    )?)
}

/// For which rows it is true, and neither false nor NULL.
fn is_true(condition: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanBuffer> {
    let found = condition.evaluate(batch)?.into_array(batch.num_rows())?;
    let found = found
        .as_boolean_opt()
        .ok_or_else(|| internal_datafusion_err!("a pushed condition is not boolean"))?;
    Ok(match found.nulls() {
        Some(nulls) => found.values() & nulls.inner(),
        None => found.values().clone(),
    })
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::Int32Array,
        datatypes::{DataType, Field, Int32Type, Schema},
    };
    use datafusion_common::ScalarValue;
    use datafusion_expr::Operator;
    use datafusion_physical_expr::{
        conjunction,
        expressions::{BinaryExpr, col, lit},
    };

    use super::*;

    fn kept(values: Vec<Option<i32>>, parts: &[(Operator, i32)]) -> Vec<Option<i32>> {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
        let values = Arc::new(Int32Array::from(values));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values]).unwrap();
        let part = |(operator, value): &(Operator, i32)| {
            let left = col("n", &schema).unwrap();
            Arc::new(BinaryExpr::new(left, *operator, lit(*value))) as Arc<dyn PhysicalExpr>
        };
        let condition = conjunction(parts.iter().map(part));
        let rows = Conjuncts::of(&condition).keep(batch).unwrap();
        rows.column(0).as_primitive::<Int32Type>().iter().collect()
    }

    #[test]
    fn many_few_and_none_are_left() {
        use Operator::{Gt, Lt, NotEq};
        let values: Vec<Option<i32>> = (0..100).map(|n| (n % 7 != 3).then_some(n)).collect();
        for parts in [
            &[(Gt, 10)][..],
            &[(Gt, 10), (Lt, 90)],
            &[(Gt, 10), (Lt, 14), (NotEq, 11)],
            &[(Lt, 4), (NotEq, 1), (NotEq, 2)],
            &[(Gt, 40), (Lt, 30)],
            &[(Gt, -1)],
            &[(Gt, 200), (Lt, 300)],
        ] {
            let holds = |n: i32| {
                parts.iter().all(|(operator, value)| match operator {
                    Gt => n > *value,
                    Lt => n < *value,
                    _ => n != *value,
                })
            };
            let expected: Vec<_> = values
                .iter()
                .copied()
                .filter(|n| n.is_some_and(holds))
                .collect();
            assert_eq!(kept(values.clone(), parts), expected, "{parts:?}");
        }
    }

    #[test]
    fn nothing_passes_null() {
        let null: Arc<dyn PhysicalExpr> = lit(ScalarValue::Boolean(None));
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
        let column = Arc::new(Int32Array::from(vec![1, 2])) as Arc<dyn Array>;
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        assert_eq!(Conjuncts::of(&null).keep(batch).unwrap().num_rows(), 0);
    }
}
