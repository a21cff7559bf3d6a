//! STDDEV and VARIANCE, of samples and of populations. Buffer: `[n, avg, m2]`, all DOUBLE (see CentralMomentAgg.scala).

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, BooleanArray, Float64Array},
    datatypes::{DataType, Float64Type},
};
use datafusion_common::Result;
use datafusion_expr::EmitTo;

use super::state::{GroupState, column, each, fold, live};

pub(super) struct Moments {
    /// n − 1 below the line rather than n.
    sample: bool,
    /// The root of the variance.
    deviation: bool,
    states: Vec<Moment>,
}

#[derive(Clone, Copy, Default)]
struct Moment {
    n: f64,
    avg: f64,
    m2: f64,
}

impl Moments {
    pub(super) fn new(sample: bool, deviation: bool) -> Self {
        Self {
            sample,
            deviation,
            states: vec![],
        }
    }
}

impl GroupState for Moments {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, Moment::default());
    }

    fn update(&mut self, values: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        let values = column(values, 0, &DataType::Float64)?;
        fold::<Float64Type, _>(&values, groups, filter, &mut self.states, |state, value| {
            let n = state.n + 1.0;
            let delta = value - state.avg;
            let delta_n = delta / n;
            *state = Moment {
                n,
                avg: state.avg + delta_n,
                m2: state.m2 + delta * (delta - delta_n),
            };
            Ok(())
        })
    }

    fn merge(&mut self, buffers: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        let columns = [0, 1, 2]
            .map(|index| column(buffers, index, &DataType::Float64))
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        let [n, avg, m2] = [0, 1, 2].map(|index| columns[index].as_primitive::<Float64Type>());
        let live = live(None, filter);
        let states = &mut self.states;
        each(live.as_ref(), groups, |row, group| {
            let left = states[group];
            let right = Moment {
                n: n.value(row),
                avg: avg.value(row),
                m2: m2.value(row),
            };
            let count = left.n + right.n;
            let delta = right.avg - left.avg;
            let delta_n = if count == 0.0 { 0.0 } else { delta / count };
            states[group] = Moment {
                n: count,
                avg: left.avg + delta_n * right.n,
                m2: left.m2 + right.m2 + delta * delta_n * left.n * right.n,
            };
            Ok(())
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (sample, deviation) = (self.sample, self.deviation);
        let results = emit
            .take_needed(&mut self.states)
            .into_iter()
            .map(|Moment { n, m2, .. }| {
                // One value has no sample variance: NULL, as without spark.sql.legacy.statisticalAggregate.
                if n == 0.0 || (sample && n == 1.0) {
                    return None;
                }
                let variance = m2 / if sample { n - 1.0 } else { n };
                Some(if deviation { variance.sqrt() } else { variance })
            });
        Ok(Arc::new(results.collect::<Float64Array>()))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = emit.take_needed(&mut self.states);
        let column =
            |part: fn(&Moment) -> f64| Arc::new(states.iter().map(|s| Some(part(s))).collect::<Float64Array>());
        Ok(vec![column(|s| s.n), column(|s| s.avg), column(|s| s.m2)])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<Moment>()
    }
}
