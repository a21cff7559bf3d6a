//! AVG. Buffer: `[sum, count]`; the sum of decimals is NULL after an overflow (see Average.scala).

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array},
    datatypes::{DataType, Decimal128Type, Float64Type, Int64Type},
};
use coffer_expr::average;
use coffer_proto::plan::EvalMode;
use datafusion_common::Result;
use datafusion_expr::EmitTo;

use super::state::{GroupState, column, each, fold, live, overflow};

/// Average of numbers that are not decimals, in DOUBLE.
#[derive(Default)]
pub(super) struct AverageDouble {
    states: Vec<(f64, i64)>,
}

impl GroupState for AverageDouble {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, (0.0, 0));
    }

    fn update(&mut self, values: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        let values = column(values, 0, &DataType::Float64)?;
        fold::<Float64Type, _>(&values, groups, filter, &mut self.states, |(sum, count), value| {
            *sum += value;
            *count += 1;
            Ok(())
        })
    }

    fn merge(&mut self, buffers: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        let sums = column(buffers, 0, &DataType::Float64)?;
        fold::<Float64Type, _>(&sums, groups, filter, &mut self.states, |(sum, _), more| {
            *sum += more;
            Ok(())
        })?;
        let counts = column(buffers, 1, &DataType::Int64)?;
        fold::<Int64Type, _>(&counts, groups, filter, &mut self.states, |(_, count), more| {
            *count = count.wrapping_add(more);
            Ok(())
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let averages = emit.take_needed(&mut self.states).into_iter().map(|(sum, count)| {
            // Spark divides in LEGACY mode: by zero is NULL.
            (count != 0).then(|| sum / count as f64)
        });
        Ok(Arc::new(averages.collect::<Float64Array>()))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts): (Vec<f64>, Vec<i64>) = emit.take_needed(&mut self.states).into_iter().unzip();
        Ok(vec![
            Arc::new(Float64Array::from(sums)),
            Arc::new(Int64Array::from(counts)),
        ])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<(f64, i64)>()
    }
}

/// Average of decimals.
pub(super) struct AverageDecimal {
    sum: (u8, i8),
    result: (u8, i8),
    ansi: bool,
    states: Vec<(Option<i128>, i64)>,
}

impl AverageDecimal {
    pub(super) fn new(sum: (u8, i8), result: (u8, i8), eval: EvalMode) -> Self {
        Self {
            sum,
            result,
            ansi: eval == EvalMode::Ansi,
            states: vec![],
        }
    }

    fn add(limit: i128, sum: Option<i128>, value: i128) -> Option<i128> {
        sum?.checked_add(value).filter(|sum| (-limit..=limit).contains(sum))
    }
}

fn largest(precision: u8) -> i128 {
    10i128.pow(u32::from(precision.min(38))) - 1
}

impl GroupState for AverageDecimal {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, (Some(0), 0));
    }

    fn update(&mut self, values: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        let limit = largest(self.sum.0);
        fold::<Decimal128Type, _>(values, groups, filter, &mut self.states, |(sum, count), value| {
            *sum = Self::add(limit, *sum, value);
            *count += 1;
            Ok(())
        })
    }

    fn merge(&mut self, buffers: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        let more = column(buffers, 0, &DataType::Decimal128(self.sum.0, self.sum.1))?;
        let more = more.as_primitive::<Decimal128Type>();
        let counts = column(buffers, 1, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let (limit, states) = (largest(self.sum.0), &mut self.states);
        let live = live(None, filter);
        each(live.as_ref(), groups, |row, group| {
            let (sum, count) = &mut states[group];
            *sum = if more.is_valid(row) {
                Self::add(limit, *sum, more.value(row))
            } else {
                None
            };
            *count = count.wrapping_add(counts.value(row));
            Ok(())
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (scale, (precision, result_scale)) = (self.sum.1, self.result);
        let averages = emit
            .take_needed(&mut self.states)
            .into_iter()
            .map(|(sum, count)| {
                if count == 0 {
                    return Ok(None);
                }
                let quotient = sum
                    .and_then(|sum| average(sum, scale, count, result_scale))
                    .filter(|q| q.unsigned_abs() <= largest(precision).unsigned_abs());
                match quotient {
                    None if self.ansi => Err(overflow("Overflow in sum of decimals", "try_avg")),
                    quotient => Ok(quotient),
                }
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(
            Decimal128Array::from(averages).with_precision_and_scale(precision, result_scale)?,
        ))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts): (Vec<Option<i128>>, Vec<i64>) = emit.take_needed(&mut self.states).into_iter().unzip();
        let sums = Decimal128Array::from(sums).with_precision_and_scale(self.sum.0, self.sum.1)?;
        Ok(vec![Arc::new(sums), Arc::new(Int64Array::from(counts))])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<(Option<i128>, i64)>()
    }
}
