//! COVAR_POP, COVAR_SAMP and CORR. Buffer: `[n, x, y, xy]`, and for CORR `[…, xx, yy]`, in the
//! place of Spark's means and co-moments (Covariance.scala, Corr.scala): the exact sums of the
//! values and of their products, as BINARY. Results are rounded from n · Σxy − Σx · Σy and its
//! like, which are exact, so they depend on no order.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array},
    buffer::NullBuffer,
    datatypes::{DataType, Float64Type},
};
use coffer_expr::SparkError;
use coffer_protocol::plan::EvalMode;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::{
    exact::{ExactSum, Rounded},
    moments::scaled,
    state::{GroupState, binary, column, each, fold, live},
    sum::{encoded, memory},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pairs {
    Covariance { sample: bool },
    Correlation,
}

impl Pairs {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "covar_pop" => Some(Self::Covariance { sample: false }),
            "covar_samp" => Some(Self::Covariance { sample: true }),
            "corr" => Some(Self::Correlation),
            _ => None,
        }
    }

    /// The sums that its buffer has.
    fn sums(self) -> usize {
        match self {
            Self::Covariance { .. } => 3,
            Self::Correlation => 5,
        }
    }

    pub(super) fn buffer(self) -> Vec<DataType> {
        let sums = std::iter::repeat_n(DataType::Binary, self.sums());
        std::iter::once(DataType::Float64).chain(sums).collect()
    }
}

pub(super) struct PairState {
    of: Pairs,
    eval: EvalMode,
    states: Vec<Pair>,
    /// Bytes of sums that two doubles do not hold.
    more: isize,
}

/// Sums of x, y, xy, xx, yy over the rows that have both.
#[derive(Clone, Default)]
struct Pair {
    n: u64,
    sums: [ExactSum; 5],
}

impl Pair {
    /// n · Σab − Σa · Σb; none if a sum is not finite.
    fn moment(&self, product: usize, a: usize, b: usize) -> Option<Rounded> {
        let [product, a, b] = [product, a, b].map(|i| self.sums.get(i).and_then(ExactSum::finite));
        let mut moment = product?.multiplied(self.n);
        let mut less = a?.times(&b?);
        less.negate();
        moment.merge(&less);
        Some(moment.unbounded())
    }

    fn covariance(&self, sample: bool) -> Option<f64> {
        // One pair has no sample covariance: NULL, as without spark.sql.legacy.statisticalAggregate.
        if self.n == 0 || (sample && self.n == 1) {
            return None;
        }
        let Some(Rounded { mantissa, exponent }) = self.moment(2, 0, 1) else {
            return Some(f64::NAN);
        };
        let below = if sample { self.n - 1 } else { self.n };
        Some(scaled(mantissa / self.n as f64 / below as f64, exponent))
    }

    /// `eval`: of the division in the end, which has nothing below the line where the values of one
    /// side do not differ.
    fn correlation(&self, eval: EvalMode) -> Result<Option<f64>> {
        if self.n < 2 {
            return Ok(None);
        }
        let moments = (
            self.moment(2, 0, 1),
            self.moment(3, 0, 0),
            self.moment(4, 1, 1),
        );
        let (Some(xy), Some(xx), Some(yy)) = moments else {
            return Ok(Some(f64::NAN));
        };
        if xx.mantissa == 0.0 || yy.mantissa == 0.0 {
            return match eval {
                EvalMode::Ansi => Err(SparkError::divide_by_zero().into()),
                _ => Ok(None),
            };
        }
        // Each power of two is taken apart from its number: nothing overflows on the way.
        let (mut product, mut exponent) = (
            xx.mantissa * yy.mantissa,
            i64::from(xx.exponent) + i64::from(yy.exponent),
        );
        if exponent % 2 != 0 {
            product *= 2.0;
            exponent -= 1;
        }
        let exponent = i64::from(xy.exponent) - exponent / 2;
        let exponent = i32::try_from(exponent).unwrap_or(i32::MAX);
        Ok(Some(scaled(xy.mantissa / product.sqrt(), exponent)))
    }
}

impl PairState {
    pub(super) fn new(of: Pairs, eval: EvalMode) -> Self {
        Self {
            of,
            eval,
            states: vec![],
            more: 0,
        }
    }

    fn emitted(&mut self, emit: EmitTo) -> Vec<Pair> {
        let states = emit.take_needed(&mut self.states);
        self.more -= memory(states.iter().flat_map(|state| &state.sums));
        states
    }
}

impl GroupState for PairState {
    fn resize(&mut self, groups: usize) {
        self.states.resize_with(groups, Pair::default);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let [x, y] = [
            column(values, 0, &DataType::Float64)?,
            column(values, 1, &DataType::Float64)?,
        ];
        let both = NullBuffer::union(x.nulls(), y.nulls());
        let live = live(both.as_ref(), filter);
        let doubles = |column: &ArrayRef| {
            let found = column.as_primitive_opt::<Float64Type>();
            found
                .map(|column| column.values().clone())
                .ok_or_else(|| internal_datafusion_err!("a column of doubles is none"))
        };
        let (x, y) = (doubles(&x)?, doubles(&y)?);
        let (states, more) = (&mut self.states, &mut self.more);
        let squares = self.of == Pairs::Correlation;
        each(live.as_ref(), groups, |row, group| {
            let Pair { n, sums } = &mut states[group];
            let [of_x, of_y, of_xy, of_xx, of_yy] = sums;
            let (x, y) = (x[row], y[row]);
            *n += 1;
            of_x.add(x, more);
            of_y.add(y, more);
            of_xy.add_product(x, y, more);
            if squares {
                of_xx.add_square(x, more);
                of_yy.add_square(y, more);
            }
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
        for sum in 0..self.of.sums() {
            let encoded = binary(buffers, sum + 1)?;
            let live = live(encoded.nulls(), filter);
            each(live.as_ref(), groups, |row, group| {
                states[group].sums[sum].merge_encoded(encoded.value(row), more)
            })?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (of, eval) = (self.of, self.eval);
        let states = self.emitted(emit);
        let results = states.iter().map(|state| match of {
            Pairs::Covariance { sample } => Ok(state.covariance(sample)),
            Pairs::Correlation => state.correlation(eval),
        });
        Ok(Arc::new(results.collect::<Result<Float64Array>>()?))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.emitted(emit);
        let counts = states.iter().map(|state| Some(state.n as f64));
        let counts: ArrayRef = Arc::new(counts.collect::<Float64Array>());
        let sums = (0..self.of.sums()).map(|sum| {
            let sums: Vec<&ExactSum> = states.iter().map(|state| &state.sums[sum]).collect();
            encoded(sums.into_iter())
        });
        Ok(std::iter::once(counts).chain(sums).collect())
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<Pair>() + usize::try_from(self.more).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(pairs: &[(f64, f64)]) -> Vec<ArrayRef> {
        let column = |of: fn(&(f64, f64)) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(pairs.iter().map(of)))
        };
        vec![column(|pair| pair.0), column(|pair| pair.1)]
    }

    fn filled(name: &str, pairs: &[(f64, f64)]) -> PairState {
        let mut state = PairState::new(Pairs::named(name).unwrap(), EvalMode::Legacy);
        state.resize(1);
        let groups = vec![0; pairs.len()];
        state.update(&columns(pairs), &groups, None).unwrap();
        state
    }

    fn result(state: &mut PairState) -> Option<f64> {
        let result = state.evaluate(EmitTo::All).unwrap();
        let result = result.as_primitive::<Float64Type>();
        result.is_valid(0).then(|| result.value(0))
    }

    /// In one step; it must be the same of two halves in either order.
    fn of(name: &str, pairs: &[(f64, f64)]) -> Option<f64> {
        let whole = result(&mut filled(name, pairs));
        let (left, right) = pairs.split_at(pairs.len() / 2);
        for halves in [[left, right], [right, left]] {
            let mut merged = PairState::new(Pairs::named(name).unwrap(), EvalMode::Legacy);
            merged.resize(1);
            for half in halves {
                let buffers = filled(name, half).buffers(EmitTo::All).unwrap();
                merged.merge(&buffers, &[0], None).unwrap();
            }
            let merged = result(&mut merged).map(f64::to_bits);
            assert_eq!(merged, whole.map(f64::to_bits), "{name}");
        }
        whole
    }

    #[test]
    fn covariances_and_correlations() {
        let pairs = [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0), (4.0, 8.0)];
        assert_eq!(of("covar_pop", &pairs), Some(2.5));
        assert_eq!(of("covar_samp", &pairs), Some(10.0 / 3.0));
        assert_eq!(of("corr", &pairs), Some(1.0));
        assert_eq!(
            of("corr", &[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]),
            Some(-1.0)
        );
        assert_eq!(of("covar_pop", &pairs[..1]), Some(0.0));
        assert_eq!(of("covar_samp", &pairs[..1]), None);
        assert_eq!(of("corr", &pairs[..1]), None);
        assert_eq!(of("covar_pop", &[]), None);
        assert_eq!(of("corr", &[(1.0, 2.0), (1.0, 3.0)]), None);
        let mut ansi = filled("corr", &[(1.0, 2.0), (1.0, 3.0)]);
        ansi.eval = EvalMode::Ansi;
        let error = ansi.evaluate(EmitTo::All).unwrap_err();
        assert_eq!(SparkError::find(&error).unwrap().class, "DIVIDE_BY_ZERO");
        assert!(
            of("covar_pop", &[(f64::INFINITY, 1.0), (1.0, 1.0)])
                .unwrap()
                .is_nan()
        );
    }

    #[test]
    fn nothing_is_lost_on_the_way() {
        // 0.1 · 0.1 takes more than a double; 1e300 · 1e300 is none.
        let far = [
            (1e16 + 2.0, 0.1),
            (1e16, 0.1),
            (1e16 - 2.0, 0.3),
            (0.1, 0.2),
        ];
        assert!(of("covar_pop", &far).unwrap().is_finite());
        let huge = [(1e300, 1e300), (-1e300, -1e300), (2e300, 2e300)];
        assert_eq!(of("corr", &huge), Some(1.0));
        let tiny = [(1e-300, 1e-300), (2e-300, 2e-300), (3e-300, 3e-300)];
        assert_eq!(of("corr", &tiny), Some(1.0));
    }
}
