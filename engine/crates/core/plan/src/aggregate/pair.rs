//! COVAR_POP, COVAR_SAMP, CORR and the regressions of two columns. Buffer: `[n, Σx, Σy, Σxy]`, and
//! for what needs them `[…, Σxx, Σyy]`, in the place of Spark's means and co-moments
//! (Covariance.scala, Corr.scala, linearRegression.scala): exact sums. Results are rounded from
//! n · Σxy − Σx · Σy and its like, which are exact.
//!
//! Of a regression the first argument is the dependent variable, here x, and the second the
//! independent one, here y.

use coffer_expr::SparkError;
use coffer_protocol::plan::EvalMode;
use datafusion_common::Result;

use super::{
    exact::{Digits, ExactSum, Rounded},
    moments::scaled,
    sums::{GroupSums, Statistic, SumStates},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pairs {
    Covariance {
        sample: bool,
    },
    Correlation,
    /// REGR_SXY: n times the covariance.
    Products,
    /// REGR_R2.
    Determination,
    Slope,
    Intercept,
}

impl Pairs {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "covar_pop" => Some(Self::Covariance { sample: false }),
            "covar_samp" => Some(Self::Covariance { sample: true }),
            "corr" => Some(Self::Correlation),
            "regr_sxy" => Some(Self::Products),
            "regr_r2" => Some(Self::Determination),
            "regr_slope" => Some(Self::Slope),
            "regr_intercept" => Some(Self::Intercept),
            _ => None,
        }
    }
}

pub(super) type PairState = SumStates<Pairs, 2, 5>;

impl PairState {
    pub(super) fn new(of: Pairs, eval: EvalMode) -> Self {
        Self::of(of, eval)
    }
}

/// By the sums of x, y, xy, xx, yy over the rows that have both.
impl Statistic<2, 5> for Pairs {
    fn sent(self) -> usize {
        match self {
            Self::Covariance { .. } | Self::Products => 3,
            Self::Correlation | Self::Determination | Self::Slope | Self::Intercept => 5,
        }
    }

    /// There Spark counts twice.
    fn spare(self) -> usize {
        match self {
            Self::Slope | Self::Intercept => 1,
            _ => 0,
        }
    }

    fn add(self, [x, y]: [f64; 2], sums: &mut [ExactSum; 5], more: &mut isize) {
        let (squares, all) = match self {
            Self::Covariance { .. } | Self::Products => (false, false),
            Self::Slope | Self::Intercept => (true, false),
            Self::Correlation | Self::Determination => (true, true),
        };
        let [of_x, of_y, of_xy, of_xx, of_yy] = sums;
        of_x.add(x, more);
        of_y.add(y, more);
        of_xy.add_product(x, y, more);
        if squares {
            of_yy.add_square(y, more);
        }
        if all {
            of_xx.add_square(x, more);
        }
    }

    fn result(self, of: &GroupSums<5>, eval: EvalMode) -> Result<Option<f64>> {
        match self {
            Self::Covariance { sample: false } => Ok(of.covariance(of.n)),
            Self::Covariance { sample: true } => Ok(of.covariance(of.n.saturating_sub(1))),
            Self::Products => Ok(of.covariance(1)),
            Self::Correlation => of.correlation(eval),
            Self::Determination | Self::Slope | Self::Intercept => Ok(of.regression(self)),
        }
    }
}

impl GroupSums<5> {
    fn sum(&self, index: usize) -> Option<Digits> {
        self.sums.get(index).and_then(ExactSum::finite)
    }

    /// n · Σab − Σa · Σb; none if a sum is not finite.
    fn exact(&self, product: usize, a: usize, b: usize) -> Option<Digits> {
        let product = self.sum(product)?.multiplied(self.n);
        Some(less(product, self.sum(a)?.times(&self.sum(b)?)))
    }

    fn moment(&self, product: usize, a: usize, b: usize) -> Option<Rounded> {
        Some(self.exact(product, a, b)?.unbounded())
    }

    /// `below`: what stands below the line; NULL of nothing, as without
    /// spark.sql.legacy.statisticalAggregate.
    fn covariance(&self, below: u64) -> Option<f64> {
        if self.n == 0 || below == 0 {
            return None;
        }
        let Some(Rounded { mantissa, exponent }) = self.moment(2, 0, 1) else {
            return Some(f64::NAN);
        };
        Some(scaled(mantissa / self.n as f64 / below as f64, exponent))
    }

    /// What a regression says; NULL where the independent variable does not differ.
    fn regression(&self, of: Pairs) -> Option<f64> {
        let independent = self.moment(4, 1, 1);
        if self.n == 0 || independent.is_some_and(|moment| moment.mantissa == 0.0) {
            return None;
        }
        Some(self.regressed(of, independent).unwrap_or(f64::NAN))
    }

    /// None of what is not finite.
    fn regressed(&self, of: Pairs, independent: Option<Rounded>) -> Option<f64> {
        let (yy, xy) = (independent?, self.moment(2, 0, 1)?);
        let ratio = |above: Rounded, below: Rounded, more: f64| {
            let mantissa = above.mantissa / below.mantissa / more;
            scaled(mantissa, above.exponent - below.exponent)
        };
        Some(match of {
            Pairs::Intercept => {
                // Σx / n − slope · Σy / n.
                let above = less(
                    self.sum(0)?.times(&self.exact(4, 1, 1)?),
                    self.exact(2, 0, 1)?.times(&self.sum(1)?),
                );
                ratio(above.unbounded(), yy, self.n as f64)
            }
            Pairs::Determination => {
                let xx = self.moment(3, 0, 0)?;
                if xx.mantissa == 0.0 {
                    return Some(1.0);
                }
                let mantissa = xy.mantissa / xx.mantissa * (xy.mantissa / yy.mantissa);
                scaled(mantissa, 2 * xy.exponent - xx.exponent - yy.exponent)
            }
            _ => ratio(xy, yy, 1.0),
        })
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

fn less(mut from: Digits, mut what: Digits) -> Digits {
    what.negate();
    from.merge(&what);
    from
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{Array, ArrayRef, AsArray, Float64Array},
        datatypes::Float64Type,
    };
    use datafusion_expr::EmitTo;

    use super::{super::state::GroupState, *};

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

    /// Spark's own examples, the dependent variable first.
    #[test]
    fn regressions() {
        let pairs = [(1.0, 2.0), (2.0, 2.0), (2.0, 3.0), (2.0, 4.0)];
        assert_eq!(of("regr_r2", &pairs), Some(3.0 / 11.0));
        assert_eq!(of("regr_sxy", &pairs), Some(0.75));
        let line = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)];
        assert_eq!(of("regr_slope", &line), Some(1.0));
        assert_eq!(of("regr_intercept", &line), Some(0.0));
        let steep = [(5.0, 1.0), (8.0, 2.0), (11.0, 3.0)];
        assert_eq!(of("regr_slope", &steep), Some(3.0));
        assert_eq!(of("regr_intercept", &steep), Some(2.0));
        // What does not differ.
        let (flat, steady) = ([(1.0, 1.0), (1.0, 2.0)], [(1.0, 1.0), (2.0, 1.0)]);
        assert_eq!(of("regr_r2", &flat), Some(1.0));
        assert_eq!(of("regr_slope", &flat), Some(0.0));
        for name in ["regr_r2", "regr_slope", "regr_intercept"] {
            assert_eq!(of(name, &steady), None, "{name}");
            assert_eq!(of(name, &[]), None, "{name}");
            assert_eq!(of(name, &[(f64::INFINITY, 1.0)]), None, "{name}");
            let infinite = [(f64::INFINITY, 1.0), (1.0, 2.0)];
            assert!(of(name, &infinite).unwrap().is_nan(), "{name}");
        }
        assert_eq!(of("regr_sxy", &[(1.0, 1.0)]), Some(0.0));
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
