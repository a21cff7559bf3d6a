//! SUM and AVG of intervals. Buffer: `[sum]`, NULL of no rows, and `[sum, count]`, with `sum` as
//! BINARY: whether it fits is asked of the result alone, which then does not depend on the order of
//! the rows. One that does not fit is an error in every mode.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryBuilder, BooleanArray, Int32Array, Int64Array},
    datatypes::{DataType, Int64Type},
};
use coffer_expr::SparkError;
use datafusion_common::{DataFusionError, Result};
use datafusion_expr::EmitTo;

use super::{
    state::{GroupState, binary, column, each, fold, live},
    whole::Whole,
};

/// Sums of intervals, and of how many.
pub(super) struct Intervals {
    /// Of months: 32 bits; else of microseconds.
    months: bool,
    average: bool,
    states: Vec<(Whole, i64)>,
}

impl Intervals {
    pub(super) fn new(months: bool, average: bool) -> Self {
        Self {
            months,
            average,
            states: vec![],
        }
    }

    /// The result of a group; none of no rows.
    fn result(&self, (sum, count): (Whole, i64)) -> Result<Option<i64>> {
        if count == 0 {
            return Ok(None);
        }
        let fits = |sum: &i64| !self.months || i32::try_from(*sum).is_ok();
        let sum = sum.narrow().and_then(|sum| i64::try_from(sum).ok());
        let Some(sum) = sum.filter(fits) else {
            return Err(DataFusionError::External(Box::new(
                SparkError::interval_overflow(),
            )));
        };
        Ok(Some(match self.average {
            false => sum,
            // Half away from zero. No rows are so many that twice a rest leaves 128 bits.
            true => {
                let (sum, count) = (i128::from(sum), i128::from(count));
                let (quotient, rest) = (sum / count, sum % count);
                let up = rest.abs() * 2 >= count.abs();
                let away = if up { sum.signum() * count.signum() } else { 0 };
                i64::try_from(quotient + away).unwrap_or(i64::MAX)
            }
        }))
    }
}

impl GroupState for Intervals {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, (Whole::default(), 0));
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = column(values, 0, &DataType::Int64)?;
        fold::<Int64Type, _>(
            &values,
            groups,
            filter,
            &mut self.states,
            |(sum, count), value| {
                sum.add(value.into());
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
        let counts = match self.average {
            true => Some(column(buffers, 1, &DataType::Int64)?),
            false => None,
        };
        let counts = counts
            .as_ref()
            .map(|counts| counts.as_primitive::<Int64Type>());
        let live = live(sums.nulls(), filter);
        let states = &mut self.states;
        each(live.as_ref(), groups, |row, group| {
            let (sum, count) = &mut states[group];
            sum.merge(Whole::decode(sums.value(row))?);
            *count = count.wrapping_add(counts.map_or(1, |counts| counts.value(row)));
            Ok(())
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let taken = emit.take_needed(&mut self.states);
        let results = taken.into_iter().map(|state| self.result(state));
        let results = results.collect::<Result<Vec<_>>>()?.into_iter();
        Ok(match self.months {
            // `result` gives months of 32 bits.
            true => Arc::new(
                results
                    .map(|months| months.and_then(|months| i32::try_from(months).ok()))
                    .collect::<Int32Array>(),
            ),
            false => Arc::new(results.collect::<Int64Array>()),
        })
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let taken = emit.take_needed(&mut self.states);
        let mut sums = BinaryBuilder::new();
        let mut bytes = Vec::new();
        for (sum, count) in &taken {
            if *count == 0 && !self.average {
                sums.append_null();
                continue;
            }
            sum.encode(&mut bytes);
            sums.append_value(&bytes);
        }
        let mut buffers: Vec<ArrayRef> = vec![Arc::new(sums.finish())];
        if self.average {
            let counts = taken.iter().map(|(_, count)| *count);
            buffers.push(Arc::new(Int64Array::from_iter_values(counts)));
        }
        Ok(buffers)
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<(Whole, i64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(months: bool, average: bool, parts: [&[i64]; 2]) -> Result<Option<i64>> {
        let mut whole = Intervals::new(months, average);
        whole.resize(1);
        for part in parts {
            let mut state = Intervals::new(months, average);
            state.resize(1);
            let values: ArrayRef = Arc::new(Int64Array::from(part.to_vec()));
            state.update(&[values], &vec![0; part.len()], None)?;
            whole.merge(&state.buffers(EmitTo::All)?, &[0], None)?;
        }
        let found = whole.evaluate(EmitTo::All)?;
        let found = column(&[found], 0, &DataType::Int64)?;
        Ok(found.as_primitive::<Int64Type>().iter().next().flatten())
    }

    #[test]
    fn sums_may_leave_the_type_on_the_way() {
        let parts: [&[i64]; 2] = [&[i64::MAX, i64::MAX], &[i64::MIN, -5]];
        assert_eq!(result(false, false, parts).unwrap(), Some(i64::MAX - 6));
        assert_eq!(result(false, false, [&[], &[]]).unwrap(), None);
        assert_eq!(result(false, true, [&[], &[]]).unwrap(), None);
        let error = result(true, false, [&[i32::MAX.into()], &[1]]).unwrap_err();
        assert!(error.to_string().contains("INTERVAL_ARITHMETIC_OVERFLOW"));
    }

    #[test]
    fn averages_are_rounded_away_from_zero() {
        assert_eq!(result(true, true, [&[-1], &[-2]]).unwrap(), Some(-2));
        assert_eq!(result(false, true, [&[1, 0], &[0]]).unwrap(), Some(0));
    }
}
