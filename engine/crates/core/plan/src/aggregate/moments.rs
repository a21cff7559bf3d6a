//! STDDEV and VARIANCE, of samples and of populations, and REGR_SXX. Buffer: `[n, Σx, Σx²]` in the
//! place of Spark's `[n, avg, m2]` (see CentralMomentAgg.scala): exact sums. The result is rounded
//! from (n · Σx² − (Σx)²) / n, which is exact up to there.

use coffer_protocol::plan::EvalMode;
use datafusion_common::Result;

use super::{
    exact::{ExactSum, Rounded},
    sums::{GroupSums, Statistic, SumStates},
};

/// What is made of the squared distances from the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Spread {
    /// Their sum.
    Total,
    /// Their average, over n − 1 of a `sample`.
    Variance { sample: bool },
    /// The root of that.
    Deviation { sample: bool },
}

impl Spread {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "regr_sxx" => Self::Total,
            "var_pop" | "variance_pop" => Self::Variance { sample: false },
            "var_samp" | "variance_samp" => Self::Variance { sample: true },
            "stddev_pop" => Self::Deviation { sample: false },
            "stddev_samp" => Self::Deviation { sample: true },
            _ => return None,
        })
    }
}

pub(super) type Moments = SumStates<Spread, 1, 2>;

impl Moments {
    pub(super) fn new(of: Spread) -> Self {
        Self::of(of, EvalMode::Legacy)
    }
}

impl Statistic<1, 2> for Spread {
    fn add(self, [value]: [f64; 1], [sum, squares]: &mut [ExactSum; 2], more: &mut isize) {
        sum.add(value, more);
        squares.add_square(value, more);
    }

    fn result(self, of: &GroupSums<2>, _eval: EvalMode) -> Result<Option<f64>> {
        Ok(of.spread(self))
    }
}

impl GroupSums<2> {
    fn spread(&self, of: Spread) -> Option<f64> {
        let below = match of {
            Spread::Total => 1,
            // One value has no sample variance: NULL, as without
            // spark.sql.legacy.statisticalAggregate.
            Spread::Variance { sample: true } | Spread::Deviation { sample: true } => {
                self.n.saturating_sub(1)
            }
            Spread::Variance { .. } | Spread::Deviation { .. } => self.n,
        };
        if self.n == 0 || below == 0 {
            return None;
        }
        let [sum, squares] = &self.sums;
        let (Some(sum), Some(squares)) = (sum.finite(), squares.finite()) else {
            return Some(f64::NAN);
        };
        let mut difference = squares.multiplied(self.n);
        let mut square = sum.times(&sum);
        square.negate();
        difference.merge(&square);
        let Rounded { mantissa, exponent } = difference.unbounded();
        let spread = scaled(mantissa / self.n as f64 / below as f64, exponent);
        Some(match of {
            Spread::Deviation { .. } => spread.sqrt(),
            Spread::Total | Spread::Variance { .. } => spread,
        })
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
