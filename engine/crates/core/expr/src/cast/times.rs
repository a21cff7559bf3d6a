//! Casts from and to dates and timestamps (strings aside).

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, BooleanArray, PrimitiveArray},
    datatypes::{
        ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type,
        Int8Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType as OfDay,
        TimestampMicrosecondType as Micros,
    },
};

use coffer_protocol::plan;

use super::{CastInfo, null_kernel, overflow, overflow_between};
use crate::{
    SparkError, Unsupported,
    calendar::{MICROS_PER_DAY, MICROS_PER_SECOND},
    decimal::{out_of_range, plain, power, to_precision},
    format,
    function::Kernel,
    types::{MAX_TIME_DIGITS, sql_name},
    vector::{argument, array, try_unary, typed, unary},
    zone::Zone,
};

type Built = Result<Kernel, Unsupported>;

pub(crate) fn cast(info: &CastInfo<'_>) -> Built {
    match (info.from, info.to) {
        (DataType::Date32, DataType::Timestamp(_, None)) => {
            Ok(instant::<Date32Type>(info, midnight(Zone::UTC)))
        }
        (DataType::Date32, DataType::Timestamp(_, Some(_))) => {
            Ok(instant::<Date32Type>(info, midnight(info.zone()?)))
        }
        (DataType::Timestamp(_, None), DataType::Date32) => Ok(day(Zone::UTC)),
        (DataType::Timestamp(_, Some(_)), DataType::Date32) => Ok(day(info.zone()?)),
        (DataType::Timestamp(_, None), DataType::Timestamp(_, Some(_))) => {
            let zone = info.zone()?;
            Ok(instant::<Micros>(info, move |local| zone.to_instant(local)))
        }
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, None)) => {
            let zone = info.zone()?;
            Ok(instant::<Micros>(info, move |micros| {
                Some(zone.to_local(micros))
            }))
        }
        // What Hive did: a date is no number.
        (
            DataType::Date32,
            DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Decimal128(..),
        ) if !info.strict() => null_kernel(info.to),
        (DataType::Timestamp(_, Some(_)), _) => from_timestamp(info),
        (_, DataType::Timestamp(_, Some(_))) => to_timestamp(info),
        _ => Err(info.unsupported()),
    }
}

/// From a time of day.
pub(crate) fn of_day(info: &CastInfo<'_>) -> Built {
    let digits = |of: Option<&plan::DataType>| of.map_or(MAX_TIME_DIGITS, |of| of.precision);
    macro_rules! integer {
        ($to:ty, $native:ty) => {{
            let (digits, to) = (digits(info.logical.0), sql_name(info.to));
            let raises = info.raises();
            Arc::new(move |args, rows| {
                let failure = |v: i64| {
                    let mut value = String::new();
                    format::time_of_day(v, &mut value);
                    overflow_between(&format!("TIME '{value}'"), &format!("TIME({digits})"), &to)
                };
                let f = |v: i64| <$native>::try_from(v.div_euclid(MICROS_PER_SECOND)).ok();
                let failure: Option<&dyn Fn(i64) -> SparkError> = match raises {
                    true => Some(&failure),
                    false => None,
                };
                try_unary::<OfDay, $to>(args, rows, f, failure)
            })
        }};
    }
    Ok(match info.to {
        DataType::Time64(_) => {
            let cut = 10i64.pow(MAX_TIME_DIGITS.saturating_sub(digits(info.logical.1)));
            Arc::new(move |args, rows| unary::<OfDay, OfDay>(args, rows, |v| v - v % cut))
        }
        DataType::Int8 => integer!(Int8Type, i8),
        DataType::Int16 => integer!(Int16Type, i16),
        DataType::Int32 => integer!(Int32Type, i32),
        DataType::Int64 => integer!(Int64Type, i64),
        DataType::Decimal128(precision, scale) => {
            let (precision, scale, to, raises) =
                (*precision, *scale, info.to.clone(), info.raises());
            Arc::new(move |args, rows| {
                // Spark counts in nanoseconds, which its message shows.
                let nanos = |v: i64| i128::from(v).saturating_mul(1_000);
                let failure = |v: i64| out_of_range(&plain(nanos(v), 9), precision, scale);
                let f = |v: i64| to_precision(nanos(v), 9, precision, scale);
                let failure: Option<&dyn Fn(i64) -> SparkError> = match raises {
                    true => Some(&failure),
                    false => None,
                };
                let out = try_unary::<OfDay, Decimal128Type>(args, rows, f, failure)?;
                Ok(typed(out.as_primitive::<Decimal128Type>().clone(), &to))
            })
        }
        _ => return Err(info.unsupported()),
    })
}

fn midnight(zone: Zone) -> impl Fn(i32) -> Option<i64> {
    move |days| zone.to_instant(i64::from(days).checked_mul(MICROS_PER_DAY)?)
}

fn day(zone: Zone) -> Kernel {
    Arc::new(move |args, rows| {
        unary::<Micros, Date32Type>(args, rows, |micros| {
            zone.to_local(micros).div_euclid(MICROS_PER_DAY) as i32
        })
    })
}

fn from_timestamp(info: &CastInfo<'_>) -> Built {
    macro_rules! integer {
        ($to:ty, $native:ty) => {{
            let (from, to, raises) = (info.from.clone(), info.to.clone(), info.raises());
            Arc::new(move |args, rows| {
                let failure = |v: i64| overflow(&format!("{v}L"), &from, &to);
                let f =
                    |micros: i64| <$native>::try_from(micros.div_euclid(MICROS_PER_SECOND)).ok();
                try_unary::<Micros, $to>(args, rows, f, if raises { Some(&failure) } else { None })
            })
        }};
    }
    Ok(match info.to {
        DataType::Boolean if !info.strict() => Arc::new(|args, rows| {
            let values = array(argument(args, 0)?, rows)?;
            Ok(Arc::new(BooleanArray::from_unary(
                values.as_primitive::<Micros>(),
                |v| v != 0,
            )) as ArrayRef)
        }),
        DataType::Int8 => integer!(Int8Type, i8),
        DataType::Int16 => integer!(Int16Type, i16),
        DataType::Int32 => integer!(Int32Type, i32),
        DataType::Int64 => integer!(Int64Type, i64),
        DataType::Float32 => Arc::new(|args, rows| {
            unary::<Micros, Float32Type>(args, rows, |v| {
                (v as f64 / MICROS_PER_SECOND as f64) as f32
            })
        }),
        DataType::Float64 => Arc::new(|args, rows| {
            unary::<Micros, Float64Type>(args, rows, |v| v as f64 / MICROS_PER_SECOND as f64)
        }),
        DataType::Decimal128(precision, scale) => {
            let (precision, scale, to, raises) =
                (*precision, *scale, info.to.clone(), info.raises());
            Arc::new(move |args, rows| {
                let failure = |v: i64| out_of_range(&plain(v.into(), 6), precision, scale);
                let f = |v: i64| to_precision(v.into(), 6, precision, scale);
                let out = try_unary::<Micros, Decimal128Type>(
                    args,
                    rows,
                    f,
                    if raises { Some(&failure) } else { None },
                )?;
                Ok(typed(out.as_primitive::<Decimal128Type>().clone(), &to))
            })
        }
        _ => return Err(info.unsupported()),
    })
}

fn to_timestamp(info: &CastInfo<'_>) -> Built {
    Ok(match info.from {
        DataType::Boolean if !info.strict() => {
            let to = info.to.clone();
            Arc::new(move |args, rows| {
                let values = array(argument(args, 0)?, rows)?;
                let micros: PrimitiveArray<Micros> = values
                    .as_boolean()
                    .iter()
                    .map(|v| v.map(i64::from))
                    .collect();
                Ok(typed(micros, &to))
            })
        }
        DataType::Int8 => instant::<Int8Type>(info, |v| {
            Some(i64::from(v).saturating_mul(MICROS_PER_SECOND))
        }),
        DataType::Int16 => instant::<Int16Type>(info, |v| {
            Some(i64::from(v).saturating_mul(MICROS_PER_SECOND))
        }),
        DataType::Int32 => instant::<Int32Type>(info, |v| {
            Some(i64::from(v).saturating_mul(MICROS_PER_SECOND))
        }),
        DataType::Int64 => {
            instant::<Int64Type>(info, |v| Some(v.saturating_mul(MICROS_PER_SECOND)))
        }
        DataType::Float32 => seconds::<Float32Type>(info),
        DataType::Float64 => seconds::<Float64Type>(info),
        DataType::Decimal128(_, scale) => {
            let unit = power(scale.unsigned_abs().into());
            let scale = *scale;
            // The low 64 bits of the whole microseconds, as Java's longValue.
            instant::<Decimal128Type>(info, move |v| {
                let whole = (v / unit).wrapping_mul(1_000_000);
                let rest = match i32::from(scale) - 6 {
                    less @ ..0 => (v % unit) * power(less.unsigned_abs()),
                    more => (v % unit) / power(more.unsigned_abs()),
                };
                Some(whole.wrapping_add(rest) as i64)
            })
        }
        _ => return Err(info.unsupported()),
    })
}

/// Seconds and their fraction. LEGACY cuts at the ends of 64 bits, ANSI raises.
fn seconds<T: ArrowPrimitiveType<Native: Into<f64>>>(info: &CastInfo<'_>) -> Kernel {
    let (from, to, strict, raises) = (
        info.from.clone(),
        info.to.clone(),
        info.strict(),
        info.raises(),
    );
    Arc::new(move |args, rows| {
        let f = |v: T::Native| {
            let micros = v.into() * MICROS_PER_SECOND as f64;
            let within = micros.floor() <= i64::MAX as f64 && micros.ceil() >= i64::MIN as f64;
            (Into::<f64>::into(v).is_finite() && (within || !strict)).then_some(micros as i64)
        };
        let failure = |v: T::Native| {
            let v: f64 = v.into();
            if v.is_finite() {
                return overflow(&v.to_string(), &from, &to);
            }
            SparkError::new(
                "CAST_INVALID_INPUT",
                format!("The value {v} cannot be cast to \"TIMESTAMP\"."),
            )
        };
        let out =
            try_unary::<T, Micros>(args, rows, f, if raises { Some(&failure) } else { None })?;
        Ok(typed(out.as_primitive::<Micros>().clone(), &to))
    })
}

/// To a timestamp; `f` gives `None` where there is none.
fn instant<T: ArrowPrimitiveType>(
    info: &CastInfo<'_>,
    f: impl Fn(T::Native) -> Option<i64> + Send + Sync + 'static,
) -> Kernel {
    let to = info.to.clone();
    Arc::new(move |args, rows| {
        // Outside 64 bits of microseconds Java's own arithmetic raises, in every mode.
        let failure = |_: T::Native| SparkError::long_overflow();
        let out = try_unary::<T, Micros>(args, rows, &f, Some(&failure))?;
        Ok(typed(out.as_primitive::<Micros>().clone(), &to))
    })
}
