//! Elementary functions as Java has them. What is `StrictMath`'s there (fdlibm) is here to the bit:
//! `libm` where it has the same algorithm, else fdlibm's own. Sine, cosine and tangent are no part
//! of this: Java computes those with the processor's own code.

use arrow::datatypes::{DataType, Float32Type, Float64Type, Int32Type, Int64Type};

use crate::{
    SparkError, Unsupported, fdlibm,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    rows::{self, Nulls},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("acos", Fallible::Never, |call| {
        one(call, |x| Some(libm::acos(x)))
    }),
    entry("asin", Fallible::Never, |call| {
        one(call, |x| Some(libm::asin(x)))
    }),
    entry("atan", Fallible::Never, |call| {
        one(call, |x| Some(libm::atan(x)))
    }),
    entry("sinh", Fallible::Never, |call| {
        one(call, |x| Some(fdlibm::sinh(x)))
    }),
    entry("cosh", Fallible::Never, |call| {
        one(call, |x| Some(fdlibm::cosh(x)))
    }),
    entry("tanh", Fallible::Never, |call| {
        one(call, |x| Some(fdlibm::tanh(x)))
    }),
    entry("acosh", Fallible::Never, |call| {
        one(call, |x| {
            Some(match x {
                x if x >= f64::MAX.sqrt() => fdlibm::log(2.0) + fdlibm::log(x),
                x if x < 1.0 => f64::NAN,
                x => fdlibm::log(x + (x * x - 1.0).sqrt()),
            })
        })
    }),
    entry("asinh", Fallible::Never, |call| {
        one(call, |x| {
            Some(match x.abs() >= f64::MAX.sqrt() - 1.0 {
                true => x.signum() * (fdlibm::log(2.0) + fdlibm::log(x.abs())),
                false => fdlibm::log(x + (x * x + 1.0).sqrt()),
            })
        })
    }),
    entry("atanh", Fallible::Never, |call| {
        one(call, |x| Some(0.5 * (fdlibm::log1p(x) - fdlibm::log1p(-x))))
    }),
    entry("cbrt", Fallible::Never, |call| {
        one(call, |x| Some(fdlibm::cbrt(x)))
    }),
    entry("expm1", Fallible::Never, |call| {
        one(call, |x| Some(libm::expm1(x)))
    }),
    entry("log1p", Fallible::Never, |call| {
        one(call, |x| (x > -1.0 || x.is_nan()).then(|| fdlibm::log1p(x)))
    }),
    entry("log2", Fallible::Never, |call| {
        one(call, |x| {
            (x > 0.0 || x.is_nan()).then(|| fdlibm::log(x) / fdlibm::log(2.0))
        })
    }),
    entry("rint", Fallible::Never, |call| {
        one(call, |x| Some(x.round_ties_even()))
    }),
    entry("to_degrees", Fallible::Never, |call| {
        one(call, |x| Some(x * 57.295_779_513_082_32))
    }),
    entry("to_radians", Fallible::Never, |call| {
        one(call, |x| Some(x * 0.017_453_292_519_943_295))
    }),
    // Spark adds 0.0 to both: −0.0 counts as 0.0.
    entry("atan2", Fallible::Never, |call| {
        two(call, |y, x| fdlibm::atan2(y + 0.0, x + 0.0))
    }),
    entry("hypot", Fallible::Never, |call| two(call, fdlibm::hypot)),
    entry("na_nvl", Fallible::Never, na_nvl),
    entry("factorial", Fallible::Never, factorial),
    entry("width_bucket", Fallible::Never, width_bucket),
    entry("bitwise_count", Fallible::Never, bitwise_count),
    entry("bitwise_get", Fallible::Always, bitwise_get),
    entry("bitmap_bucket_number", Fallible::Never, |call| {
        of_long(call, |v| {
            if v > 0 {
                1 + (v - 1) / BITMAP
            } else {
                v / BITMAP
            }
        })
    }),
    entry("bitmap_bit_position", Fallible::Never, |call| {
        of_long(call, |v| {
            if v > 0 {
                (v - 1) % BITMAP
            } else {
                v.wrapping_neg() % BITMAP
            }
        })
    }),
    entry("bitmap_count", Fallible::Never, bitmap_count),
];

type Built = Result<Kernel, Unsupported>;

fn one(call: &CallInfo<'_>, f: fn(f64) -> Option<f64>) -> Built {
    rows::takes(call, &[DataType::Float64], &DataType::Float64)?;
    Ok(rows::number::<Float64Type>(
        call.ret,
        Nulls::GiveNull,
        move |row| Ok(row.double(0).and_then(f)),
    ))
}

fn two(call: &CallInfo<'_>, f: fn(f64, f64) -> f64) -> Built {
    rows::takes(
        call,
        &[DataType::Float64, DataType::Float64],
        &DataType::Float64,
    )?;
    Ok(rows::number::<Float64Type>(
        call.ret,
        Nulls::GiveNull,
        move |row| Ok(row.double(0).zip(row.double(1)).map(|(a, b)| f(a, b))),
    ))
}

fn na_nvl(call: &CallInfo<'_>) -> Built {
    fn chosen(row: &rows::Row<'_>) -> Option<f64> {
        match row.double(0) {
            Some(value) if value.is_nan() => row.double(1),
            value => value,
        }
    }
    match (call.types, call.ret) {
        ([DataType::Float64, DataType::Float64], DataType::Float64) => {
            Ok(rows::number::<Float64Type>(
                call.ret,
                Nulls::AreGiven,
                |row| Ok(chosen(row)),
            ))
        }
        ([DataType::Float32, DataType::Float32], DataType::Float32) => {
            Ok(rows::number::<Float32Type>(
                call.ret,
                Nulls::AreGiven,
                |row| Ok(chosen(row).map(|value| value as f32)),
            ))
        }
        _ => Err(call.bad_types()),
    }
}

fn factorial(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Int32], &DataType::Int64)?;
    Ok(rows::number::<Int64Type>(
        call.ret,
        Nulls::GiveNull,
        |row| {
            let n = row.long(0).filter(|n| (0..=20).contains(n));
            Ok(n.map(|n| (1..=n).product()))
        },
    ))
}

fn width_bucket(call: &CallInfo<'_>) -> Built {
    let double = DataType::Float64;
    let types = [double.clone(), double.clone(), double, DataType::Int64];
    rows::takes(call, &types, &DataType::Int64)?;
    Ok(rows::number::<Int64Type>(
        call.ret,
        Nulls::GiveNull,
        |row| {
            let (Some(value), Some(min), Some(max), Some(count)) =
                (row.double(0), row.double(1), row.double(2), row.long(3))
            else {
                return Ok(None);
            };
            let bounds = min.is_finite() && max.is_finite() && min != max;
            if count <= 0 || count == i64::MAX || value.is_nan() || !bounds {
                return Ok(None);
            }
            let (before, after, from) = match min < max {
                true => (value < min, value >= max, value - min),
                false => (value > min, value <= max, min - value),
            };
            let buckets = count as f64;
            Ok(Some(if before {
                0
            } else if after {
                count + 1
            } else {
                ((buckets * from / (max.max(min) - max.min(min))) as i64).wrapping_add(1)
            }))
        },
    ))
}

fn bitwise_count(call: &CallInfo<'_>) -> Built {
    if *call.ret != DataType::Int32 {
        return Err(call.bad_types());
    }
    match call.types {
        [DataType::Boolean] => Ok(rows::number::<Int32Type>(
            call.ret,
            Nulls::GiveNull,
            |row| Ok(row.truth(0).map(i32::from)),
        )),
        [DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64] => Ok(
            rows::number::<Int32Type>(call.ret, Nulls::GiveNull, |row| {
                Ok(row.long(0).map(|value| value.count_ones().cast_signed()))
            }),
        ),
        _ => Err(call.bad_types()),
    }
}

/// Bits of one of Spark's bitmaps.
const BITMAP: i64 = 32_768;

fn of_long(call: &CallInfo<'_>, f: fn(i64) -> i64) -> Built {
    rows::takes(call, &[DataType::Int64], &DataType::Int64)?;
    Ok(rows::number::<Int64Type>(
        call.ret,
        Nulls::GiveNull,
        move |row| Ok(row.long(0).map(f)),
    ))
}

fn bitmap_count(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Binary], &DataType::Int64)?;
    Ok(rows::number::<Int64Type>(
        call.ret,
        Nulls::GiveNull,
        |row| {
            let ones = |bytes: &[u8]| bytes.iter().map(|b| i64::from(b.count_ones())).sum();
            Ok(row.bytes(0).map(ones))
        },
    ))
}

fn bitwise_get(call: &CallInfo<'_>) -> Built {
    let bits = match call.types {
        [DataType::Int8, DataType::Int32] => 8,
        [DataType::Int16, DataType::Int32] => 16,
        [DataType::Int32, DataType::Int32] => 32,
        [DataType::Int64, DataType::Int32] => 64,
        _ => return Err(call.bad_types()),
    };
    if *call.ret != DataType::Int8 {
        return Err(call.bad_types());
    }
    Ok(rows::number::<arrow::datatypes::Int8Type>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let (Some(value), Some(at)) = (row.long(0), row.long(1)) else {
                return Ok(None);
            };
            if !(0..bits).contains(&at) {
                return Err(SparkError::new(
                    "INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE",
                    format!("The bit position {at} is not in [0, {bits})."),
                ));
            }
            Ok(Some((value >> at & 1) as i8))
        },
    ))
}
