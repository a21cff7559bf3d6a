//! Rounding, elementary functions, greatest and least.
//!
//! Spark computes `exp`, `log` and `pow` with Java's `StrictMath` (fdlibm). `libm` is a port of the
//! same algorithms, so the results agree bit for bit where the platform's own library may differ in
//! the last place.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, downcast_primitive_array},
    buffer::{BooleanBuffer, NullBuffer},
    compute::kernels::{cmp, zip::zip},
    datatypes::{
        ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type,
        Int16Type, Int32Type, Int64Type,
    },
};
use coffer_protocol::plan::FloatText;
use datafusion_common::{Result, ScalarValue};

use crate::{
    SparkError, Unsupported,
    decimal::{fits, power},
    fdlibm, format,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    nested::{Ordered, is_nested, is_orderable},
    predicate::{order_f32, order_f64},
    vector::{all_null, argument, array, binary, try_binary, try_unary, typed, unary},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("round", Fallible::Ansi, |call| round(call, Mode::HalfUp)),
    entry("b_round", Fallible::Ansi, |call| {
        round(call, Mode::HalfEven)
    }),
    entry("bround", Fallible::Ansi, |call| round(call, Mode::HalfEven)),
    entry("floor", Fallible::Never, |call| {
        whole(call, f64::floor, Mode::Floor)
    }),
    entry("ceil", Fallible::Never, |call| {
        whole(call, f64::ceil, Mode::Ceiling)
    }),
    entry("sqrt", Fallible::Never, |call| double(call, f64::sqrt)),
    entry("exp", Fallible::Never, |call| double(call, libm::exp)),
    entry("signum", Fallible::Never, |call| double(call, signum)),
    entry("log", Fallible::Never, |call| logarithm(call, fdlibm::log)),
    entry("log10", Fallible::Never, |call| logarithm(call, log10)),
    entry("logarithm", Fallible::Never, logarithm_of_base),
    entry("pow", Fallible::Never, pow),
    entry("greatest", Fallible::Never, |call| extreme(call, true)),
    entry("least", Fallible::Never, |call| extreme(call, false)),
];

type Built = Result<Kernel, Unsupported>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    HalfUp,
    HalfEven,
    Floor,
    Ceiling,
}

/// `value` ÷ 10^drop, rounded.
fn divide(value: i128, drop: u32, mode: Mode) -> i128 {
    if drop > 38 {
        return match mode {
            Mode::Floor if value < 0 => -1,
            Mode::Ceiling if value > 0 => 1,
            _ => 0,
        };
    }
    let unit = power(drop);
    let (whole, rest) = (value / unit, value % unit);
    let twice = rest.unsigned_abs() * 2;
    let away = match mode {
        Mode::HalfUp => twice >= unit.unsigned_abs(),
        Mode::HalfEven => {
            twice > unit.unsigned_abs() || (twice == unit.unsigned_abs() && whole % 2 != 0)
        }
        Mode::Floor => rest < 0,
        Mode::Ceiling => rest > 0,
    };
    if away {
        whole + if rest < 0 { -1 } else { 1 }
    } else {
        whole
    }
}

fn round(call: &CallInfo<'_>, mode: Mode) -> Built {
    let scale = match call.literal(1)? {
        ScalarValue::Int32(Some(scale)) => *scale,
        ScalarValue::Int32(None) => {
            let ret = call.ret.clone();
            return Ok(Arc::new(move |_, rows| Ok(all_null(&ret, rows))));
        }
        _ => return Err(call.unsupported("the scale must be an int")),
    };
    let style = call.float_text;
    match (call.types, call.ret) {
        ([DataType::Decimal128(_, from), _], DataType::Decimal128(..)) => {
            round_decimal(call, *from, scale, mode)
        }
        ([DataType::Float32, _], DataType::Float32) => Ok(Arc::new(move |args, rows| {
            unary::<Float32Type, Float32Type>(args, rows, |v| {
                if v.is_finite() {
                    round_text(v.into(), style, scale, mode)
                        .parse()
                        .unwrap_or(v)
                } else {
                    v
                }
            })
        })),
        ([DataType::Float64, _], DataType::Float64) => Ok(Arc::new(move |args, rows| {
            unary::<Float64Type, Float64Type>(args, rows, |v| {
                if v.is_finite() {
                    round_text(v, style, scale, mode).parse().unwrap_or(v)
                } else {
                    v
                }
            })
        })),
        ([DataType::Int8, _], DataType::Int8) => {
            Ok(integer::<Int8Type>(call, scale, mode, |v| v as i8))
        }
        ([DataType::Int16, _], DataType::Int16) => {
            Ok(integer::<Int16Type>(call, scale, mode, |v| v as i16))
        }
        ([DataType::Int32, _], DataType::Int32) => {
            Ok(integer::<Int32Type>(call, scale, mode, |v| v as i32))
        }
        ([DataType::Int64, _], DataType::Int64) => {
            Ok(integer::<Int64Type>(call, scale, mode, |v| v as i64))
        }
        _ => Err(call.bad_types()),
    }
}

/// Rounds the decimal text of the double, as `BigDecimal(value).setScale` does; gives the result's
/// text.
fn round_text(value: f64, style: FloatText, scale: i32, mode: Mode) -> String {
    let scientific = format::scientific(value.abs(), style);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let own_scale = i32::try_from(digits.len()).unwrap_or(0) - 1 - exponent;
    let unscaled: i128 = digits.parse().unwrap_or(0);
    let sign = if value < 0.0 { -1 } else { 1 };
    if scale >= own_scale {
        return format!("{}e{}", sign * unscaled, -own_scale);
    }
    let drop = u32::try_from(i64::from(own_scale) - i64::from(scale)).unwrap_or(u32::MAX);
    format!(
        "{}e{}",
        divide(sign * unscaled, drop, mode),
        -i64::from(scale)
    )
}

fn round_decimal(call: &CallInfo<'_>, from: i8, scale: i32, mode: Mode) -> Built {
    let DataType::Decimal128(precision, to) = call.ret else {
        return Err(call.bad_types());
    };
    let (precision, to, ret) = (*precision, i32::from(*to), call.ret.clone());
    let from = i32::from(from);
    let f = move |v: i128| {
        let result = if scale >= 0 {
            if to >= from {
                v.checked_mul(power((to - from).unsigned_abs()))?
            } else {
                divide(v, (from - to).unsigned_abs(), mode)
            }
        } else {
            // Digits before the point go too; the result has scale 0.
            let rounded = divide(
                v,
                from.unsigned_abs().saturating_add(scale.unsigned_abs()),
                mode,
            );
            if rounded == 0 {
                0
            } else {
                rounded.checked_mul(Some(power(scale.unsigned_abs())).filter(|p| *p != 0)?)?
            }
        };
        Some(result).filter(|v| fits(*v, precision))
    };
    // With a negative scale Spark raises in every mode.
    let raises = scale < 0;
    Ok(Arc::new(move |args, rows| {
        let failure = |_: i128| {
            SparkError::new(
                "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION",
                "A rounded value exceeds 38 digits.",
            )
        };
        let out = try_unary::<Decimal128Type, Decimal128Type>(
            args,
            rows,
            f,
            if raises { Some(&failure) } else { None },
        )?;
        Ok(typed(out.as_primitive::<Decimal128Type>().clone(), &ret))
    }))
}

fn integer<T>(call: &CallInfo<'_>, scale: i32, mode: Mode, wrap: fn(i128) -> T::Native) -> Kernel
where
    T: ArrowPrimitiveType,
    T::Native: Into<i64> + TryFrom<i128>,
{
    let ansi = call.ansi();
    Arc::new(move |args, rows| {
        let failure =
            |_: T::Native| SparkError::new("ARITHMETIC_OVERFLOW", "Overflow in rounding.");
        let f = |v: T::Native| {
            if scale >= 0 {
                return Some(v);
            }
            let value: i64 = v.into();
            let drop = scale.unsigned_abs();
            let rounded = divide(value.into(), drop, mode).wrapping_mul(power(drop));
            if ansi {
                T::Native::try_from(rounded).ok()
            } else {
                Some(wrap(rounded))
            }
        };
        try_unary::<T, T>(args, rows, f, if ansi { Some(&failure) } else { None })
    })
}

fn whole(call: &CallInfo<'_>, f: fn(f64) -> f64, mode: Mode) -> Built {
    match (call.types, call.ret) {
        ([DataType::Int64], DataType::Int64) => Ok(Arc::new(|args, rows| {
            unary::<Int64Type, Int64Type>(args, rows, |v| v)
        })),
        ([DataType::Float64], DataType::Int64) => Ok(Arc::new(move |args, rows| {
            unary::<Float64Type, Int64Type>(args, rows, |v| f(v) as i64)
        })),
        ([DataType::Decimal128(_, scale)], DataType::Decimal128(_, 0)) => {
            let (drop, ret) = (u32::from(scale.unsigned_abs()), call.ret.clone());
            Ok(Arc::new(move |args, rows| {
                let out =
                    unary::<Decimal128Type, Decimal128Type>(args, rows, |v| divide(v, drop, mode))?;
                Ok(typed(out.as_primitive::<Decimal128Type>().clone(), &ret))
            }))
        }
        _ => Err(call.bad_types()),
    }
}

fn double(call: &CallInfo<'_>, f: fn(f64) -> f64) -> Built {
    match (call.types, call.ret) {
        ([DataType::Float64], DataType::Float64) => Ok(Arc::new(move |args, rows| {
            unary::<Float64Type, Float64Type>(args, rows, f)
        })),
        _ => Err(call.bad_types()),
    }
}

/// Java's: zeros and NaN stay themselves.
fn signum(value: f64) -> f64 {
    if value == 0.0 || value.is_nan() {
        value
    } else {
        value.signum()
    }
}

/// NULL for what is not above 0.
fn logarithm(call: &CallInfo<'_>, f: fn(f64) -> f64) -> Built {
    match (call.types, call.ret) {
        ([DataType::Float64], DataType::Float64) => Ok(Arc::new(move |args, rows| {
            try_unary::<Float64Type, Float64Type>(
                args,
                rows,
                |v| if v <= 0.0 { None } else { Some(f(v)) },
                None,
            )
        })),
        _ => Err(call.bad_types()),
    }
}

fn logarithm_of_base(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([DataType::Float64, DataType::Float64], DataType::Float64) => {
            Ok(Arc::new(|args, rows| {
                let f = |base: f64, value: f64| {
                    if base <= 0.0 || value <= 0.0 {
                        None
                    } else {
                        Some(fdlibm::log(value) / fdlibm::log(base))
                    }
                };
                Ok(
                    Arc::new(try_binary::<Float64Type, Float64Type, Float64Type>(
                        args, rows, f, None,
                    )?) as ArrayRef,
                )
            }))
        }
        _ => Err(call.bad_types()),
    }
}

fn pow(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([DataType::Float64, DataType::Float64], DataType::Float64) => {
            Ok(Arc::new(|args, rows| {
                // C says 1 where Java says NaN.
                let f = |a: f64, b: f64| {
                    if b != 0.0 && (b.is_nan() || (a.abs() == 1.0 && b.is_infinite())) {
                        f64::NAN
                    } else {
                        libm::pow(a, b)
                    }
                };
                Ok(Arc::new(binary::<Float64Type, Float64Type, Float64Type>(
                    args, rows, f,
                )?) as ArrayRef)
            }))
        }
        _ => Err(call.bad_types()),
    }
}

/// fdlibm's `__ieee754_log10`, which later libraries replaced.
fn log10(value: f64) -> f64 {
    const LOG10_2HI: f64 = 3.010_299_956_636_117_7e-1;
    const LOG10_2LO: f64 = 3.694_239_077_158_931e-13;
    if !value.is_finite() {
        return value;
    }
    let (value, shift) = if value < f64::MIN_POSITIVE {
        (value * 18_014_398_509_481_984.0, -54)
    } else {
        (value, 0)
    };
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i64 - 1_023 + shift;
    let negative = i64::from(exponent < 0);
    let scaled =
        f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | (((0x3ff - negative) as u64) << 52));
    let y = (exponent + negative) as f64;
    let z = y * LOG10_2LO + std::f64::consts::LOG10_E * fdlibm::log(scaled);
    z + y * LOG10_2HI
}

/// The greatest or least argument; NULLs do not count.
fn extreme(call: &CallInfo<'_>, greatest: bool) -> Built {
    let agree = call.types.iter().all(|t| t == call.ret) && is_orderable(call.ret);
    if call.types.len() < 2 || !agree {
        return Err(call.bad_types());
    }
    Ok(Arc::new(move |args, rows| {
        let mut best = array(argument(args, 0)?, rows)?;
        for arg in args.iter().skip(1) {
            let next = array(arg, rows)?;
            // What lies under NULLs does not count.
            let mut takes = match next.data_type() {
                DataType::Float32 => {
                    let (a, b) = (
                        next.as_primitive::<Float32Type>(),
                        best.as_primitive::<Float32Type>(),
                    );
                    BooleanBuffer::collect_bool(rows, |i| {
                        wins(order_f32(a.value(i), b.value(i)), greatest)
                    })
                }
                DataType::Float64 => {
                    let (a, b) = (
                        next.as_primitive::<Float64Type>(),
                        best.as_primitive::<Float64Type>(),
                    );
                    BooleanBuffer::collect_bool(rows, |i| {
                        wins(order_f64(a.value(i), b.value(i)), greatest)
                    })
                }
                of if is_nested(of) => {
                    let [a, b] = Ordered::of([&next, &best])?;
                    BooleanBuffer::collect_bool(rows, |i| wins(a.get(i).cmp(&b.get(i)), greatest))
                }
                _ if greatest => cmp::gt(&next, &best)?.values().clone(),
                _ => cmp::lt(&next, &best)?.values().clone(),
            };
            if let Some(valid) = best.nulls() {
                takes = &takes | &!valid.inner();
            }
            if let Some(valid) = next.nulls() {
                takes = &takes & valid.inner();
            }
            best = either(takes, &next, &best)?;
        }
        Ok(best)
    }))
}

/// The rows of one array where they are taken, which are not NULL there; else those of the other.
fn either(takes: BooleanBuffer, next: &ArrayRef, best: &ArrayRef) -> Result<ArrayRef> {
    fn values<T: ArrowPrimitiveType>(
        takes: &BooleanBuffer,
        next: &PrimitiveArray<T>,
        best: &PrimitiveArray<T>,
    ) -> ArrayRef {
        let pairs = next.values().iter().zip(best.values());
        let values = takes
            .iter()
            .zip(pairs)
            .map(|(take, (next, best))| if take { *next } else { *best });
        let nulls = match (next.nulls(), best.nulls()) {
            (Some(next), Some(best)) => Some(NullBuffer::new(next.inner() | best.inner())),
            _ => None,
        };
        let chosen = PrimitiveArray::<T>::new(values.collect(), nulls);
        Arc::new(chosen.with_data_type(best.data_type().clone()))
    }
    let (a, b): (&dyn Array, &dyn Array) = (next, best);
    downcast_primitive_array!(
        (a, b) => Ok(values(&takes, a, b)),
        _ => Ok(zip(&BooleanArray::from(takes), next, best)?)
    )
}

fn wins(order: std::cmp::Ordering, greatest: bool) -> bool {
    if greatest {
        order.is_gt()
    } else {
        order.is_lt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_round_by_their_decimal_text() {
        let round = |v, scale, mode| {
            round_text(v, FloatText::Shortest, scale, mode)
                .parse::<f64>()
                .unwrap()
        };
        assert_eq!(round(2.5, 0, Mode::HalfUp), 3.0);
        assert_eq!(round(2.5, 0, Mode::HalfEven), 2.0);
        assert_eq!(round(-2.5, 0, Mode::HalfUp), -3.0);
        assert_eq!(round(1.005, 2, Mode::HalfUp), 1.01);
        assert_eq!(round(125.0, -1, Mode::HalfUp), 130.0);
        assert_eq!(round(1e300, 2, Mode::HalfUp), 1e300);
        assert_eq!(round(1e-300, 2, Mode::HalfUp), 0.0);
        assert_eq!(round(55.0, -400, Mode::HalfUp), 0.0);
    }

    #[test]
    fn integer_division_modes() {
        assert_eq!(divide(-25, 1, Mode::HalfUp), -3);
        assert_eq!(divide(-25, 1, Mode::HalfEven), -2);
        assert_eq!(divide(-21, 1, Mode::Floor), -3);
        assert_eq!(divide(21, 1, Mode::Ceiling), 3);
        assert_eq!(divide(5, 99, Mode::HalfUp), 0);
    }

    #[test]
    fn powers_of_ten_have_whole_logarithms() {
        for n in [0, 1, 2, 3, 10, 22] {
            assert_eq!(log10(10f64.powi(n)), f64::from(n));
        }
    }
}
