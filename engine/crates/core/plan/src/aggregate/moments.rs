//! STDDEV and VARIANCE, of samples and of populations. Buffer: `[n, sum, squares]` in the place of
//! Spark's `[n, avg, m2]` (see CentralMomentAgg.scala): the exact sums of the values and of their
//! squares, as BINARY. The result is rounded from (n · Σx² − (Σx)²) / n, which is exact up to
//! there, so it depends on no order.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray, Float64Array},
    datatypes::{DataType, Float64Type},
};
use datafusion_common::Result;
use datafusion_expr::EmitTo;

use super::{
    exact::{ExactSum, Rounded},
    state::{GroupState, binary, column, each, fold, live},
    sum::{encoded, memory},
};

pub(super) struct Moments {
    /// n − 1 below the line rather than n.
    sample: bool,
    /// The root of the variance.
    deviation: bool,
    states: Vec<Moment>,
    /// Bytes of sums that two doubles do not hold.
    more: isize,
}

#[derive(Clone, Default)]
struct Moment {
    n: u64,
    sum: ExactSum,
    squares: ExactSum,
}

impl Moment {
    fn variance(&self, sample: bool) -> Option<f64> {
        // One value has no sample variance: NULL, as without spark.sql.legacy.statisticalAggregate.
        if self.n == 0 || (sample && self.n == 1) {
            return None;
        }
        let (Some(sum), Some(squares)) = (self.sum.finite(), self.squares.finite()) else {
            return Some(f64::NAN);
        };
        let mut difference = squares.multiplied(self.n);
        let mut square = sum.times(&sum);
        square.negate();
        difference.merge(&square);
        let Rounded { mantissa, exponent } = difference.unbounded();
        let below = if sample { self.n - 1 } else { self.n };
        Some(scaled(mantissa / self.n as f64 / below as f64, exponent))
    }
}

/// `value` · 2^`exponent`, in steps that are doubles.
pub(super) fn scaled(mut value: f64, mut exponent: i32) -> f64 {
    while exponent != 0 {
        let step = exponent.clamp(-1000, 1000);
        value *= 2f64.powi(step);
        exponent -= step;
    }
    value
}

impl Moments {
    pub(super) fn new(sample: bool, deviation: bool) -> Self {
        Self {
            sample,
            deviation,
            states: vec![],
            more: 0,
        }
    }

    fn emitted(&mut self, emit: EmitTo) -> Vec<Moment> {
        let states = emit.take_needed(&mut self.states);
        self.more -= memory(states.iter().flat_map(|state| [&state.sum, &state.squares]));
        states
    }
}

impl GroupState for Moments {
    fn resize(&mut self, groups: usize) {
        self.states.resize_with(groups, Moment::default);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = column(values, 0, &DataType::Float64)?;
        let more = &mut self.more;
        fold::<Float64Type, _>(&values, groups, filter, &mut self.states, |state, value| {
            state.n += 1;
            state.sum.add(value, more);
            state.squares.add_square(value, more);
            Ok(())
        })
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let (states, more) = (&mut self.states, &mut self.more);
        let counts = column(buffers, 0, &DataType::Float64)?;
        fold::<Float64Type, _>(&counts, groups, filter, states, |state, n| {
            // A whole number: it was one when it was sent.
            state.n = state.n.saturating_add(n as u64);
            Ok(())
        })?;
        let (sums, squares) = (binary(buffers, 1)?, binary(buffers, 2)?);
        let live = live(sums.nulls(), filter);
        each(live.as_ref(), groups, |row, group| {
            let state = &mut states[group];
            state.sum.merge_encoded(sums.value(row), more)?;
            state.squares.merge_encoded(squares.value(row), more)
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (sample, deviation) = (self.sample, self.deviation);
        let states = self.emitted(emit);
        let results = states.iter().map(|state| {
            let variance = state.variance(sample)?;
            Some(if deviation { variance.sqrt() } else { variance })
        });
        Ok(Arc::new(results.collect::<Float64Array>()))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.emitted(emit);
        let counts = states
            .iter()
            .map(|state| Some(state.n as f64))
            .collect::<Float64Array>();
        Ok(vec![
            Arc::new(counts),
            encoded(states.iter().map(|state| &state.sum)),
            encoded(states.iter().map(|state| &state.squares)),
        ])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<Moment>() + usize::try_from(self.more).unwrap_or(0)
    }
}
