//! The division that ends an average of decimals.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Decimal128Array},
    datatypes::{DataType, Decimal128Type},
};
use datafusion_common::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;

use crate::{
    SparkError, Unsupported,
    decimal::fits,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
};

pub(crate) const FUNCTIONS: &[Entry] = &[entry(
    "decimal_divide_with_overflow_check",
    Fallible::Ansi,
    checked_division,
)];

/// A sum ÷ a count, which is a DECIMAL(20,0): what Spark's average does with its two buffers. NULL
/// for a count of 0.
fn checked_division(call: &CallInfo<'_>) -> Result<Kernel, Unsupported> {
    let (
        [DataType::Decimal128(_, scale), DataType::Decimal128(20, 0)],
        DataType::Decimal128(precision, to),
    ) = (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    let (scale, precision, to, ansi) = (*scale, *precision, *to, call.ansi());
    Ok(Arc::new(move |args: &[ColumnarValue], rows| {
        let [sums, counts] = args else {
            return Err(DataFusionError::Internal("a division of two".to_owned()));
        };
        let (sums, counts) = (sums.to_array(rows)?, counts.to_array(rows)?);
        let (sums, counts) = (
            sums.as_primitive::<Decimal128Type>(),
            counts.as_primitive::<Decimal128Type>(),
        );
        let quotients = sums
            .iter()
            .zip(counts)
            .map(|(sum, count)| {
                let count = count
                    .and_then(|count| i64::try_from(count).ok())
                    .filter(|count| *count > 0);
                let (Some(sum), Some(count)) = (sum, count) else {
                    return Ok(None);
                };
                let quotient =
                    average(sum, scale, count, to).filter(|quotient| fits(*quotient, precision));
                match quotient {
                    None if ansi => Err(overflow()),
                    quotient => Ok(quotient),
                }
            })
            .collect::<Result<Vec<_>>>()?;
        let array: ArrayRef =
            Arc::new(Decimal128Array::from(quotients).with_precision_and_scale(precision, to)?);
        Ok(array)
    }))
}

fn overflow() -> DataFusionError {
    DataFusionError::External(Box::new(SparkError {
        class: "ARITHMETIC_OVERFLOW",
        message: "Overflow in sum of decimals. Use `try_avg` to tolerate overflow and return NULL \
            instead. If necessary set \"spark.sql.ansi.enabled\" to \"false\" to bypass this \
            error."
            .to_owned(),
    }))
}

/// `sum` of scale `scale` ÷ `count` at scale `to`, rounded as Spark does: half up at 39 digits
/// after the point, then half up again at `to`. `None` if it does not fit 38 digits.
pub fn average(sum: i128, scale: i8, count: i64, to: i8) -> Option<i128> {
    let count_wide = u128::from(count.unsigned_abs());
    let magnitude = sum.unsigned_abs();
    let (mut quotient, mut rest) = (magnitude / count_wide, magnitude % count_wide);
    // Long division: rest < count < 2^63, so ten times it fits.
    for _ in scale..to {
        rest *= 10;
        quotient = quotient.checked_mul(10)?.checked_add(rest / count_wide)?;
        rest %= count_wide;
    }
    // The first rounding can lift the rest to a half only if it is within half a unit of the 39th
    // digit of it.
    let missing = count_wide.saturating_sub(rest * 2);
    let digits = u32::try_from(39 - i32::from(to)).ok()?;
    let within = |power: u128| {
        missing
            .checked_mul(power)
            .is_some_and(|missing| missing <= count_wide)
    };
    let lifted = missing == 0 || 10u128.checked_pow(digits).is_some_and(within);
    if lifted {
        quotient = quotient.checked_add(1)?;
    }
    let quotient = i128::try_from(quotient).ok()?;
    Some(if sum < 0 { -quotient } else { quotient })
}

#[cfg(test)]
mod tests {
    use super::average as divide;

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
        // 0.4999…95 with 38 nines after the 4 rounds to 0.5 at 39 digits and so to 1 at scale 38's
        // last digit. At scale 38: one unit of the 39th digit below the half, divided by a count
        // that puts it half a unit nearer.
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
