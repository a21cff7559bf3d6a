//! SKEWNESS and KURTOSIS. Buffer: `[n, Σx, Σx², Σx³]`, and for KURTOSIS `[…, Σx⁴]`, in the place of
//! Spark's `[n, avg, m2, m3, m4]` (CentralMomentAgg.scala): exact sums. Results are rounded from
//! exact central moments.

use coffer_protocol::plan::EvalMode;
use datafusion_common::Result;

use super::{
    exact::{Digits, ExactSum, Rounded},
    moments::scaled,
    sums::{GroupSums, Statistic, SumStates},
};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shape {
    Skewness,
    Kurtosis,
}

impl Shape {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "skewness" => Some(Self::Skewness),
            "kurtosis" => Some(Self::Kurtosis),
            _ => None,
        }
    }
}

pub(super) type Shapes = SumStates<Shape, 1, 4>;

impl Shapes {
    pub(super) fn new(of: Shape) -> Self {
        Self::of(of, EvalMode::Legacy)
    }
}

/// By the sums of the first four powers.
impl Statistic<1, 4> for Shape {
    fn sent(self) -> usize {
        match self {
            Self::Skewness => 3,
            Self::Kurtosis => 4,
        }
    }

    fn add(self, [value]: [f64; 1], sums: &mut [ExactSum; 4], more: &mut isize) {
        let [one, two, three, four] = sums;
        one.add(value, more);
        two.add_square(value, more);
        three.add_product_of(&[value, value, value], more);
        if self == Self::Kurtosis {
            four.add_product_of(&[value, value, value, value], more);
        }
    }

    fn result(self, of: &GroupSums<4>, _eval: EvalMode) -> Result<Option<f64>> {
        Ok(of.shape(self))
    }
}

impl GroupSums<4> {
    /// As Spark says it: NULL of no value, and of values that do not differ.
    fn shape(&self, of: Shape) -> Option<f64> {
        if self.n == 0 {
            return None;
        }
        let finite: Option<Vec<Digits>> = self
            .sums
            .iter()
            .take(of.sent())
            .map(ExactSum::finite)
            .collect();
        let Some(finite) = finite else {
            return Some(f64::NAN);
        };
        let n = self.n;
        let (one, two, three) = (finite.first()?, finite.get(1)?, finite.get(2)?);
        // n² times the variance, n³ times the third and n⁴ times the fourth central moment.
        let second = total([two.multiplied(n), minus(one.times(one))]);
        let Rounded { mantissa, exponent } = second.unbounded();
        if mantissa == 0.0 {
            return None;
        }
        let square = one.times(one);
        match of {
            Shape::Skewness => {
                let third = total([
                    three.multiplied(n).multiplied(n),
                    minus(one.times(two).multiplied(n).multiplied(3)),
                    square.times(one).multiplied(2),
                ]);
                let third = third.unbounded();
                // An even power of two has a root.
                let odd = exponent.rem_euclid(2);
                let (mantissa, half) = (scaled(mantissa, odd), (exponent - odd) / 2);
                let skewness = third.mantissa / (mantissa * mantissa.sqrt());
                Some(scaled(skewness, third.exponent - 3 * half))
            }
            Shape::Kurtosis => {
                let four = finite.get(3)?;
                let fourth = total([
                    four.multiplied(n).multiplied(n).multiplied(n),
                    minus(one.times(three).multiplied(n).multiplied(n).multiplied(4)),
                    square.times(two).multiplied(n).multiplied(6),
                    minus(square.times(&square).multiplied(3)),
                ]);
                let fourth = fourth.unbounded();
                let kurtosis = fourth.mantissa / (mantissa * mantissa);
                Some(scaled(kurtosis, fourth.exponent - 2 * exponent) - 3.0)
            }
        }
    }
}

fn minus(mut digits: Digits) -> Digits {
    digits.negate();
    digits
}

fn total<const N: usize>(parts: [Digits; N]) -> Digits {
    let mut total = Digits::default();
    for part in &parts {
        total.merge(part);
    }
    total
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

    fn filled(of: Shape, values: &[f64]) -> Shapes {
        let mut state = Shapes::new(of);
        state.resize(1);
        let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        state
            .update(&[column], &vec![0; values.len()], None)
            .unwrap();
        state
    }

    fn result(state: &mut Shapes) -> Option<f64> {
        let result = state.evaluate(EmitTo::All).unwrap();
        let result = result.as_primitive::<Float64Type>();
        result.is_valid(0).then(|| result.value(0))
    }

    /// In one step; it must be the same of two halves in either order.
    fn of(shape: Shape, values: &[f64]) -> Option<f64> {
        let whole = result(&mut filled(shape, values));
        let (left, right) = values.split_at(values.len() / 2);
        for halves in [[left, right], [right, left]] {
            let mut merged = Shapes::new(shape);
            merged.resize(1);
            for half in halves {
                let buffers = filled(shape, half).buffers(EmitTo::All).unwrap();
                merged.merge(&buffers, &[0], None).unwrap();
            }
            let merged = result(&mut merged).map(f64::to_bits);
            assert_eq!(merged, whole.map(f64::to_bits), "{shape:?}");
        }
        whole
    }

    fn near(found: Option<f64>, wanted: f64) {
        let found = found.unwrap();
        assert!(
            (found - wanted).abs() <= 1e-14 * wanted.abs(),
            "{found} for {wanted}"
        );
    }

    /// The examples of Spark's documentation of the two functions.
    #[test]
    fn examples() {
        let skewness = |values: &[f64]| of(Shape::Skewness, values);
        let kurtosis = |values: &[f64]| of(Shape::Kurtosis, values);
        near(
            skewness(&[-10.0, -20.0, 100.0, 1000.0]),
            1.113_565_746_902_201_2,
        );
        near(
            skewness(&[-1000.0, -100.0, 10.0, 20.0]),
            -1.113_565_746_902_201_2,
        );
        near(
            kurtosis(&[-10.0, -20.0, 100.0, 1000.0]),
            -0.701_436_804_752_962_7,
        );
        near(
            kurtosis(&[1.0, 10.0, 100.0, 10.0, 1.0]),
            0.194_323_231_916_990_75,
        );
        assert_eq!(skewness(&[]), None);
        assert_eq!(kurtosis(&[7.1, 7.1, 7.1]), None);
        assert!(kurtosis(&[f64::INFINITY, 1.0]).unwrap().is_nan());
    }

    #[test]
    fn nothing_is_lost_on_the_way() {
        // The same numbers far from zero, and of any size.
        let near_zero = [1.0, 2.0, 4.0, 8.0];
        let far = near_zero.map(|value| value + 1e15);
        let (huge, tiny) = (
            near_zero.map(|value| value * 2f64.powi(1000)),
            near_zero.map(|value| value * 2f64.powi(-1000)),
        );
        for shape in [Shape::Skewness, Shape::Kurtosis] {
            let wanted = of(shape, &near_zero);
            for values in [far, huge, tiny] {
                assert_eq!(of(shape, &values), wanted, "{shape:?} of {values:?}");
            }
        }
    }
}
