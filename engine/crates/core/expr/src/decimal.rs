//! Decimal arithmetic: exact in 128 or 256 bits, then rounded half up to the scale that Catalyst
//! resolved, then checked against its precision. What 128 bits surely hold takes a loop without
//! checks.
//!
//! Spark truncates products and quotients to 39 digits before it rounds to at most 38; rounding
//! half up looks at the first dropped digit only, so rounding the exact value gives the same.

use std::sync::Arc;

use arrow::{
    array::ArrayRef,
    datatypes::{DataType, Decimal128Type, Int64Type, i256},
};
use coffer_protocol::plan::EvalMode;

use crate::{
    SparkError, Unsupported,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    vector::{binary, try_binary, try_unary, typed, unary},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("check_overflow", Fallible::Ansi, check_overflow),
    entry("make_decimal", Fallible::Ansi, make_decimal),
    entry("unscaled_value", Fallible::Never, unscaled_value),
    entry(
        "decimal_add_no_overflow_check",
        Fallible::Never,
        add_unchecked,
    ),
];

type Built = Result<Kernel, Unsupported>;

/// Powers of ten that an i128 holds: 10^0 … 10^38.
const POWERS: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut n = 1;
    while n < 39 {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// 10^n; 0 for an n that no decimal type leads to.
#[inline]
pub(crate) fn power(n: u32) -> i128 {
    usize::try_from(n)
        .ok()
        .and_then(|n| POWERS.get(n))
        .copied()
        .unwrap_or(0)
}

/// Whether the unscaled value has at most `precision` digits.
#[inline]
pub(crate) fn fits(unscaled: i128, precision: u8) -> bool {
    unscaled.unsigned_abs() < power(u32::from(precision)).unsigned_abs()
}

/// `value` × 10^(to − from), rounded half up; none if it leaves an i128.
#[inline]
pub(crate) fn rescale(value: i128, from: i32, to: i32) -> Option<i128> {
    match to - from {
        0 => Some(value),
        up @ 1..=38 => value.checked_mul(power(up.unsigned_abs())),
        up if up > 0 => (value == 0).then_some(0),
        down if down >= -38 => Some(divide_half_up(value, power(down.unsigned_abs()))),
        _ => Some(0),
    }
}

/// Rounds to the scale and checks the precision.
#[inline]
pub(crate) fn to_precision(value: i128, from: i32, precision: u8, scale: i8) -> Option<i128> {
    rescale(value, from, i32::from(scale)).filter(|v| fits(*v, precision))
}

#[inline]
fn divide_half_up(value: i128, divisor: i128) -> i128 {
    let (quotient, rest) = (value / divisor, value % divisor);
    // |rest| < divisor ≤ 10^38, so twice it may leave an i128 but not a u128.
    if rest.unsigned_abs() * 2 >= divisor.unsigned_abs() {
        quotient + value.signum()
    } else {
        quotient
    }
}

/// Digits of a decimal: as unscaled value with a scale.
pub(crate) fn plain(unscaled: i128, scale: i8) -> String {
    let digits = unscaled.unsigned_abs().to_string();
    let scale = usize::try_from(scale).unwrap_or(0);
    let sign = if unscaled < 0 { "-" } else { "" };
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// Spark's error for a value that its decimal type does not hold.
pub(crate) fn out_of_range(value: &str, precision: u8, scale: i8) -> SparkError {
    SparkError::new(
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
        format!(
            "The {value} cannot be represented as Decimal({precision}, {scale}). If necessary set \
             \"spark.sql.ansi.enabled\" to \"false\" to bypass this error, and return NULL instead."
        ),
    )
}

#[derive(Debug, Clone, Copy)]
struct Types {
    p1: u8,
    s1: i32,
    p2: u8,
    s2: i32,
    precision: u8,
    scale: i8,
}

impl Types {
    fn of(call: &CallInfo<'_>) -> Result<Self, Unsupported> {
        match (call.types, call.ret) {
            (
                [DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)],
                DataType::Decimal128(precision, scale),
            ) => Ok(Self {
                p1: *p1,
                s1: i32::from(*s1),
                p2: *p2,
                s2: i32::from(*s2),
                precision: *precision,
                scale: *scale,
            }),
            _ => Err(call.bad_types()),
        }
    }

    fn limit(&self) -> i128 {
        power(u32::from(self.precision))
    }
}

type Decimals = Decimal128Type;

fn total(data_type: &DataType, f: impl Fn(i128, i128) -> i128 + Send + Sync + 'static) -> Kernel {
    let data_type = data_type.clone();
    Arc::new(move |args, rows| {
        Ok(typed(
            binary::<Decimals, Decimals, Decimals>(args, rows, &f)?,
            &data_type,
        ))
    })
}

/// A kernel whose `f` gives `None` on overflow, and for a zero divisor if `by_zero` is given.
fn partial(
    call: &CallInfo<'_>,
    f: impl Fn(i128, i128) -> Option<i128> + Send + Sync + 'static,
    by_zero: Option<fn() -> SparkError>,
) -> Kernel {
    let (data_type, mode) = (call.ret.clone(), call.mode);
    Arc::new(move |args, rows| {
        let (precision, scale) = match &data_type {
            DataType::Decimal128(precision, scale) => (*precision, *scale),
            _ => (38, 0),
        };
        let failure = |_: i128, b: i128| match by_zero {
            Some(by_zero) if b == 0 => by_zero(),
            _ => out_of_range("result", precision, scale),
        };
        let failure: Option<&dyn Fn(i128, i128) -> SparkError> = if mode == EvalMode::Ansi {
            Some(&failure)
        } else {
            None
        };
        Ok(typed(
            try_binary::<Decimals, Decimals, Decimals>(args, rows, &f, failure)?,
            &data_type,
        ))
    })
}

pub(crate) fn add(call: &CallInfo<'_>) -> Built {
    sum(call, |a, b| a.wrapping_add(b), |a, b| a.wrapping_add(b))
}

/// The key at which the frame of a row ends. The sum may have more digits than its type; it is only
/// compared with values that fit the type, and then what an i128 does not hold is as good as its
/// ends, which lie beyond all of them.
fn add_unchecked(call: &CallInfo<'_>) -> Built {
    let t = Types::of(call)?;
    if t.s1 != t.s2 || t.s1 != i32::from(t.scale) {
        return Err(call.bad_types());
    }
    Ok(total(call.ret, i128::saturating_add))
}

pub(crate) fn subtract(call: &CallInfo<'_>) -> Built {
    sum(call, |a, b| a.wrapping_sub(b), |a, b| a.wrapping_sub(b))
}

fn sum(
    call: &CallInfo<'_>,
    narrow: impl Fn(i128, i128) -> i128 + Copy + Send + Sync + 'static,
    wide: impl Fn(i256, i256) -> i256 + Copy + Send + Sync + 'static,
) -> Built {
    let t = Types::of(call)?;
    let common = t.s1.max(t.s2);
    let (up1, up2) = (common - t.s1, common - t.s2);
    let (f1, f2) = (power(up1.unsigned_abs()), power(up2.unsigned_abs()));
    let digits = (i32::from(t.p1) + up1).max(i32::from(t.p2) + up2) + 1;
    let (scale, precision) = (i32::from(t.scale), i32::from(t.precision));
    if digits <= 38 && scale == common && digits <= precision {
        return Ok(match (up1, up2) {
            (0, 0) => total(call.ret, narrow),
            _ => total(call.ret, move |a, b| {
                narrow(a.wrapping_mul(f1), b.wrapping_mul(f2))
            }),
        });
    }
    if digits <= 38 {
        return Ok(partial(
            call,
            move |a, b| {
                to_precision(
                    narrow(a.wrapping_mul(f1), b.wrapping_mul(f2)),
                    common,
                    t.precision,
                    t.scale,
                )
            },
            None,
        ));
    }
    let (f1, f2) = (i256::from_i128(f1), i256::from_i128(f2));
    Ok(partial(
        call,
        move |a, b| {
            let exact = wide(
                i256::from_i128(a).wrapping_mul(f1),
                i256::from_i128(b).wrapping_mul(f2),
            );
            narrowed(exact, common, &t)
        },
        None,
    ))
}

pub(crate) fn multiply(call: &CallInfo<'_>) -> Built {
    let t = Types::of(call)?;
    let exact_scale = t.s1 + t.s2;
    let digits = t.p1 + t.p2;
    let limit = t.limit();
    if i32::from(t.scale) != exact_scale {
        return Ok(partial(
            call,
            move |a, b| match product(a, b) {
                Some(exact) => to_precision(exact, exact_scale, t.precision, t.scale),
                None => narrowed(
                    i256::from_i128(a).wrapping_mul(i256::from_i128(b)),
                    exact_scale,
                    &t,
                ),
            },
            None,
        ));
    }
    if digits <= 18 && digits <= t.precision {
        // Both sides and the product are longs.
        return Ok(total(call.ret, |a, b| {
            i128::from((a as i64).wrapping_mul(b as i64))
        }));
    }
    if digits <= 38 && digits <= t.precision {
        return Ok(total(call.ret, i128::wrapping_mul));
    }
    // Without rounding, what leaves an i128 is too large for any precision.
    Ok(partial(
        call,
        move |a, b| product(a, b).filter(|v| v.unsigned_abs() < limit.unsigned_abs()),
        None,
    ))
}

/// The product in 128 bits. Sides that are longs, as almost all are, take one machine
/// multiplication.
#[inline]
fn product(a: i128, b: i128) -> Option<i128> {
    match (i64::try_from(a), i64::try_from(b)) {
        (Ok(a), Ok(b)) => Some(i128::from(a) * i128::from(b)),
        _ => a.checked_mul(b),
    }
}

pub(crate) fn divide(call: &CallInfo<'_>) -> Built {
    let t = Types::of(call)?;
    // result = a / 10^s1 ÷ (b / 10^s2) × 10^scale
    let shift = i32::from(t.scale) - t.s1 + t.s2;
    Ok(partial(
        call,
        move |a, b| quotient(a, b, shift).filter(|v| fits(*v, t.precision)),
        Some(SparkError::divide_by_zero),
    ))
}

/// a × 10^shift ÷ b, rounded half up; none for b = 0 or a result above 38 digits.
fn quotient(a: i128, b: i128, shift: i32) -> Option<i128> {
    if b == 0 {
        return None;
    }
    if (0..=38).contains(&shift)
        && let Some(scaled) = a.checked_mul(power(shift.unsigned_abs()))
    {
        return Some(rounded(
            scaled / b,
            (scaled % b).unsigned_abs(),
            b.unsigned_abs(),
            (a < 0) != (b < 0),
        ));
    }
    let negative = (a < 0) != (b < 0);
    let (a, b) = (
        i256::from_i128(a).wrapping_abs(),
        i256::from_i128(b).wrapping_abs(),
    );
    let mut divisor = b;
    // At most 76: split, so that each step stays below 10^76.
    let first = shift.clamp(0, 38);
    let second = (shift - first).max(0);
    if shift < 0 {
        divisor = divisor.checked_mul(i256::from_i128(power(shift.unsigned_abs())))?;
    }
    let scaled = a.wrapping_mul(i256::from_i128(power(first.unsigned_abs())));
    let (mut whole, mut rest) = (scaled.checked_div(divisor)?, scaled.checked_rem(divisor)?);
    if second > 0 {
        let factor = i256::from_i128(power(second.unsigned_abs()));
        let scaled_rest = rest.wrapping_mul(factor);
        whole = whole
            .checked_mul(factor)?
            .checked_add(scaled_rest.checked_div(divisor)?)?;
        rest = scaled_rest.checked_rem(divisor)?;
    }
    if rest.checked_mul(i256::from_i128(2))? >= divisor {
        whole = whole.checked_add(i256::ONE)?;
    }
    whole.to_i128().map(|v| if negative { -v } else { v })
}

#[inline]
fn rounded(whole: i128, rest: u128, divisor: u128, negative: bool) -> i128 {
    if rest * 2 >= divisor {
        if negative { whole - 1 } else { whole + 1 }
    } else {
        whole
    }
}

pub(crate) fn integral_divide(call: &CallInfo<'_>) -> Built {
    let ([DataType::Decimal128(p1, s1), DataType::Decimal128(_, s2)], DataType::Int64) =
        (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    let (s1, s2) = (i32::from(*s1), i32::from(*s2));
    // The decimal(n, 0) of the quotient, before it becomes a long.
    let digits = (i32::from(*p1) - s1 + s2).clamp(1, 38);
    let precision = u8::try_from(digits).unwrap_or(38);
    let mode = call.mode;
    Ok(Arc::new(move |args, rows| {
        let f = |a: i128, b: i128| {
            let (a, b) = aligned(a, s1, b, s2);
            let whole = a.checked_div(b)?.to_i128()?;
            // Spark takes the low 64 bits of what its decimal holds.
            fits(whole, precision).then_some(whole as i64)
        };
        let failure = |_: i128, b: i128| match b {
            0 => SparkError::divide_by_zero(),
            _ => out_of_range("result", precision, 0),
        };
        let failure: Option<&dyn Fn(i128, i128) -> SparkError> = if mode == EvalMode::Ansi {
            Some(&failure)
        } else {
            None
        };
        Ok(Arc::new(try_binary::<Decimals, Decimals, Int64Type>(
            args, rows, f, failure,
        )?) as ArrayRef)
    }))
}

pub(crate) fn remainder(call: &CallInfo<'_>) -> Built {
    let t = Types::of(call)?;
    let common = t.s1.max(t.s2);
    Ok(partial(
        call,
        move |a, b| {
            let (a, b) = aligned(a, t.s1, b, t.s2);
            narrowed(a.checked_rem(b)?, common, &t)
        },
        Some(SparkError::remainder_by_zero),
    ))
}

pub(crate) fn pmod(call: &CallInfo<'_>) -> Built {
    let t = Types::of(call)?;
    let common = t.s1.max(t.s2);
    Ok(partial(
        call,
        move |a, b| {
            let (a, b) = aligned(a, t.s1, b, t.s2);
            let mut rest = a.checked_rem(b)?;
            if rest < i256::ZERO {
                rest = rest.wrapping_add(b).checked_rem(b)?;
            }
            narrowed(rest, common, &t)
        },
        Some(SparkError::remainder_by_zero),
    ))
}

/// Both at the larger scale; 10^38 × 10^38 is within 256 bits.
fn aligned(a: i128, s1: i32, b: i128, s2: i32) -> (i256, i256) {
    let common = s1.max(s2);
    let up = |v: i128, by: i32| {
        i256::from_i128(v).wrapping_mul(i256::from_i128(power(by.unsigned_abs())))
    };
    (up(a, common - s1), up(b, common - s2))
}

/// An exact value at a scale, as the result type has it.
fn narrowed(exact: i256, from: i32, t: &Types) -> Option<i128> {
    let to = i32::from(t.scale);
    let value = if to >= from {
        exact.checked_mul(i256::from_i128(power((to - from).unsigned_abs())))?
    } else {
        // A scale drops by at most 76: in two steps, the last of which rounds (the first truncates,
        // which rounding half up does not notice).
        let drop = from - to;
        let first = (drop - 38).max(0);
        let kept = exact.checked_div(i256::from_i128(power(first.unsigned_abs())))?;
        let divisor = i256::from_i128(power((drop - first).unsigned_abs()));
        let (whole, rest) = (kept.checked_div(divisor)?, kept.checked_rem(divisor)?);
        let up = rest.wrapping_abs().wrapping_mul(i256::from_i128(2)) >= divisor;
        match (up, kept < i256::ZERO) {
            (false, _) => whole,
            (true, false) => whole.wrapping_add(i256::ONE),
            (true, true) => whole.wrapping_sub(i256::ONE),
        }
    };
    value.to_i128().filter(|v| fits(*v, t.precision))
}

pub(crate) fn negate(call: &CallInfo<'_>) -> Built {
    map(call, negated)
}

pub(crate) fn abs(call: &CallInfo<'_>) -> Built {
    map(call, |v| if v < 0 { negated(v) } else { v })
}

/// Scala's `BigDecimal` rounds what it negates to 34 digits, half even; Spark inherits that.
fn negated(value: i128) -> i128 {
    if fits(value, 34) {
        return value.wrapping_neg();
    }
    let mut digits = 35;
    while !fits(value, digits) && digits < 39 {
        digits += 1;
    }
    let unit = power(u32::from(digits) - 34);
    let (whole, rest) = (value / unit, value % unit);
    let twice = rest.unsigned_abs() * 2;
    let up = twice > unit.unsigned_abs() || (twice == unit.unsigned_abs() && whole % 2 != 0);
    let rounded = if up { whole + value.signum() } else { whole };
    rounded.saturating_mul(unit).wrapping_neg()
}

/// A result that rounding made too long raises in every mode.
fn map(call: &CallInfo<'_>, f: fn(i128) -> i128) -> Built {
    let ([DataType::Decimal128(..)], DataType::Decimal128(precision, scale)) =
        (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    let (data_type, precision, scale) = (call.ret.clone(), *precision, *scale);
    Ok(Arc::new(move |args, rows| {
        let failure = |v: i128| {
            SparkError::new(
                "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION",
                format!(
                    "The {} rounded half up from {} cannot be represented as Decimal({precision}, \
                        {scale}).",
                    plain(f(v), scale),
                    plain(v, scale)
                ),
            )
        };
        let checked = |v: i128| Some(f(v)).filter(|v| fits(*v, precision));
        let array = try_unary::<Decimals, Decimals>(args, rows, checked, Some(&failure))?;
        Ok(typed(
            arrow::array::AsArray::as_primitive::<Decimals>(&array).clone(),
            &data_type,
        ))
    }))
}

fn check_overflow(call: &CallInfo<'_>) -> Built {
    let ([DataType::Decimal128(_, from)], DataType::Decimal128(precision, scale)) =
        (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    Ok(change(*from, *precision, *scale, call.ansi()))
}

/// Decimal to decimal: rounded, NULL or an error where it does not fit.
pub(crate) fn change(from: i8, precision: u8, scale: i8, ansi: bool) -> Kernel {
    let data_type = DataType::Decimal128(precision, scale);
    Arc::new(move |args, rows| {
        let failure = |v: i128| out_of_range(&plain(v, from), precision, scale);
        let f = |v: i128| to_precision(v, i32::from(from), precision, scale);
        let array = try_unary::<Decimals, Decimals>(
            args,
            rows,
            f,
            if ansi { Some(&failure) } else { None },
        )?;
        Ok(typed(
            arrow::array::AsArray::as_primitive::<Decimals>(&array).clone(),
            &data_type,
        ))
    })
}

/// The unscaled long as a decimal. Spark's own rewrite of sums puts it in.
fn make_decimal(call: &CallInfo<'_>) -> Built {
    let ([DataType::Int64], DataType::Decimal128(precision, scale)) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    let (data_type, precision, scale, ansi) = (call.ret.clone(), *precision, *scale, call.ansi());
    Ok(Arc::new(move |args, rows| {
        let failure = |v: i64| out_of_range(&plain(v.into(), scale), precision, scale);
        let f = |v: i64| Some(i128::from(v)).filter(|v| fits(*v, precision));
        let array = try_unary::<Int64Type, Decimals>(
            args,
            rows,
            f,
            if ansi { Some(&failure) } else { None },
        )?;
        Ok(typed(
            arrow::array::AsArray::as_primitive::<Decimals>(&array).clone(),
            &data_type,
        ))
    }))
}

/// The unscaled value as a long: the type has at most 18 digits.
fn unscaled_value(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([DataType::Decimal128(..=18, _)], DataType::Int64) => Ok(Arc::new(|args, rows| {
            unary::<Decimals, Int64Type>(args, rows, |v| v as i64)
        })),
        _ => Err(call.bad_types()),
    }
}
