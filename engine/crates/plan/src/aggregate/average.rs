//! AVG. Buffer: `[sum, count]`; the sum of decimals is NULL after an overflow (see Average.scala).

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array},
    datatypes::{DataType, Decimal128Type, Float64Type, Int64Type},
};
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
                    .and_then(|sum| divide(sum, scale, count, result_scale))
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

/// `sum` of scale `scale` ÷ `count` at scale `to`, rounded as Spark does: half up at 39 digits after the point, then half
/// up again at `to`. `None` if it does not fit 38 digits.
fn divide(sum: i128, scale: i8, count: i64, to: i8) -> Option<i128> {
    let count_wide = u128::from(count.unsigned_abs());
    let magnitude = sum.unsigned_abs();
    let (mut quotient, mut rest) = (magnitude / count_wide, magnitude % count_wide);
    // Long division: rest < count < 2^63, so ten times it fits.
    for _ in scale..to {
        rest *= 10;
        quotient = quotient.checked_mul(10)?.checked_add(rest / count_wide)?;
        rest %= count_wide;
    }
    // The first rounding can lift the rest to a half only if it is within half a unit of the 39th digit of it.
    let missing = count_wide.saturating_sub(rest * 2);
    let digits = u32::try_from(39 - i32::from(to)).ok()?;
    let within = |power: u128| missing.checked_mul(power).is_some_and(|missing| missing <= count_wide);
    let lifted = missing == 0 || 10u128.checked_pow(digits).is_some_and(within);
    if lifted {
        quotient = quotient.checked_add(1)?;
    }
    let quotient = i128::try_from(quotient).ok()?;
    Some(if sum < 0 { -quotient } else { quotient })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_round_half_up_away_from_zero() {
        assert_eq!(divide(10, 0, 3, 4), Some(33333));
        assert_eq!(divide(20, 0, 3, 4), Some(66667));
        assert_eq!(divide(-20, 0, 3, 4), Some(-66667));
        assert_eq!(divide(1, 0, 2, 0), Some(1));
        assert_eq!(divide(-1, 0, 2, 0), Some(-1));
        assert_eq!(divide(1, 0, 32, 4), Some(313)); // 0.03125
        assert_eq!(divide(0, 2, 7, 6), Some(0));
    }

    #[test]
    fn the_rounding_at_39_digits_lifts_what_is_just_below_a_half() {
        // 0.4999…95 with 38 nines after the 4 rounds to 0.5 at 39 digits and so to 1 at scale 38's last digit.
        // At scale 38: one unit of the 39th digit below the half, divided by a count that puts it half a unit nearer.
        let count = 2_000_000_000_000_000_001i64;
        // rest·2 = count − 1, digits = 1: missing = 1, 10 ≤ count.
        assert_eq!(divide(1_000_000_000_000_000_000, 38, count, 38), Some(1));
        // Further away it stays below.
        assert_eq!(divide(900_000_000_000_000_000, 38, count, 38), Some(0));
    }

    #[test]
    fn a_quotient_of_too_many_digits_is_none() {
        assert_eq!(divide(i128::MAX, 0, 1, 4), None);
    }
}
