//! AVG. Buffer: `[sum, count]` (see Average.scala), with `sum` as BINARY where a sum of Spark's
//! type depends on the order of the rows.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array},
    datatypes::{DataType, Decimal128Type, Float64Type, Int64Type},
};
use coffer_expr::average;
use coffer_protocol::plan::EvalMode;
use datafusion_common::Result;
use datafusion_expr::EmitTo;

use super::{
    exact::ExactSum,
    state::{GroupState, binary, column, each, fold, live, overflow},
    sum::{encoded, memory, merge_whole, narrow, wide},
    whole::Whole,
};

/// Average of numbers that are not decimals, in DOUBLE.
#[derive(Default)]
pub(super) struct AverageDouble {
    states: Vec<(ExactSum, i64)>,
    /// Bytes of sums that two doubles do not hold.
    more: isize,
}

impl AverageDouble {
    fn emitted(&mut self, emit: EmitTo) -> Vec<(ExactSum, i64)> {
        let states = emit.take_needed(&mut self.states);
        self.more -= memory(states.iter().map(|(sum, _)| sum));
        states
    }
}

impl GroupState for AverageDouble {
    fn resize(&mut self, groups: usize) {
        self.states.resize_with(groups, Default::default);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = column(values, 0, &DataType::Float64)?;
        let more = &mut self.more;
        fold::<Float64Type, _>(
            &values,
            groups,
            filter,
            &mut self.states,
            |(sum, count), value| {
                sum.add(value, more);
                *count += 1;
                Ok(())
            },
        )
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let sums = binary(buffers, 0)?;
        let live = live(sums.nulls(), filter);
        let (states, more) = (&mut self.states, &mut self.more);
        each(live.as_ref(), groups, |row, group| {
            states[group].0.merge_encoded(sums.value(row), more)
        })?;
        let counts = column(buffers, 1, &DataType::Int64)?;
        fold::<Int64Type, _>(
            &counts,
            groups,
            filter,
            &mut self.states,
            |(_, count), more| {
                *count = count.wrapping_add(more);
                Ok(())
            },
        )
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let states = self.emitted(emit);
        let averages = states.iter().map(|(sum, count)| {
            // Spark divides in LEGACY mode: by zero is NULL.
            (*count != 0).then(|| sum.rounded() / *count as f64)
        });
        Ok(Arc::new(averages.collect::<Float64Array>()))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.emitted(emit);
        let counts = states
            .iter()
            .map(|(_, count)| Some(*count))
            .collect::<Int64Array>();
        Ok(vec![
            encoded(states.iter().map(|(sum, _)| sum)),
            Arc::new(counts),
        ])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<(ExactSum, i64)>()
            + usize::try_from(self.more).unwrap_or(0)
    }
}

/// Average of decimals.
pub(super) struct AverageDecimal {
    sum: (u8, i8),
    /// As of `SumTracked`.
    wide: bool,
    result: (u8, i8),
    ansi: bool,
    states: Vec<(Whole, i64)>,
}

impl AverageDecimal {
    pub(super) fn new(sum: (u8, i8), wide: bool, result: (u8, i8), eval: EvalMode) -> Self {
        Self {
            sum,
            wide,
            result,
            ansi: eval == EvalMode::Ansi,
            states: vec![],
        }
    }
}

fn largest(precision: u8) -> i128 {
    10i128.pow(u32::from(precision.min(38))) - 1
}

fn fits(value: i128, precision: u8) -> bool {
    value.unsigned_abs() <= largest(precision).unsigned_abs()
}

impl GroupState for AverageDecimal {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, (Whole::default(), 0));
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let Some(values) = values.first() else {
            return Ok(());
        };
        fold::<Decimal128Type, _>(
            values,
            groups,
            filter,
            &mut self.states,
            |(sum, count), value| {
                sum.add(value);
                *count += 1;
                Ok(())
            },
        )
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let counts = column(buffers, 1, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let states = &mut self.states;
        merge_whole(buffers, self.wide, groups, filter, |row, group, more| {
            let (sum, count) = &mut states[group];
            sum.merge(more);
            *count = count.wrapping_add(counts.value(row));
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let ((sum_precision, scale), (precision, result_scale)) = (self.sum, self.result);
        let averages = emit
            .take_needed(&mut self.states)
            .into_iter()
            .map(|(sum, count)| {
                if count == 0 {
                    return Ok(None);
                }
                let quotient = sum
                    .narrow()
                    .filter(|sum| fits(*sum, sum_precision))
                    .and_then(|sum| average(sum, scale, count, result_scale))
                    .filter(|quotient| fits(*quotient, precision));
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
        let (sums, counts): (Vec<Whole>, Vec<i64>) =
            emit.take_needed(&mut self.states).into_iter().unzip();
        let sums = match self.wide {
            true => wide(sums.into_iter()),
            false => narrow(sums.into_iter(), self.sum.0, self.sum.1)?,
        };
        Ok(vec![sums, Arc::new(Int64Array::from(counts))])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<(Whole, i64)>()
    }
}
