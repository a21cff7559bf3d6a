//! Casts from and to intervals: texts, other fields, whole numbers and decimals. What does not fit
//! raises in LEGACY mode too.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, StringArray},
    datatypes::{
        ArrowPrimitiveType, DataType, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type,
        i256,
    },
};
use coffer_protocol::plan::EvalMode;

use super::{CastInfo, overflow_between};
use crate::{
    SparkError, Unsupported,
    decimal::{out_of_range, plain, power, to_precision},
    function::Kernel,
    interval_text::{self, MONTHS_PER_YEAR, unit},
    rows::{self, Given, Nulls, Row},
    types::{Interval, sql_name},
    vector::{argument, array},
};

type Built = Result<Kernel, Unsupported>;

pub(super) fn cast(info: &CastInfo<'_>) -> Built {
    match (info.intervals(), info.from, info.to) {
        ((Some(from), None), _, DataType::Utf8) => Ok(Arc::new(move |args, rows| {
            let values = array(argument(args, 0)?, rows)?;
            let text = |value: Option<i64>| {
                value.map(|value| {
                    let mut out = String::new();
                    interval_text::write(value, from, &mut out);
                    out
                })
            };
            let texts: StringArray = match from.months {
                true => {
                    let months = values.as_primitive::<Int32Type>().iter();
                    months.map(|v| text(v.map(i64::from))).collect()
                }
                false => values
                    .as_primitive::<Int64Type>()
                    .iter()
                    .map(text)
                    .collect(),
            };
            Ok(Arc::new(texts) as ArrayRef)
        })),
        ((Some(from), None), ..) => to_number(info, from),
        ((None, Some(to)), DataType::Utf8, _) => Ok(interval(info, to, move |row| {
            row.text(0)
                .map(|text| interval_text::read(text, to))
                .transpose()
        })),
        ((None, Some(to)), ..) => of_number(info, to),
        ((Some(from), Some(to)), ..) if from.months == to.months => {
            // Other fields hold it as it is, but for what is less than the last one; seconds have
            // fractions.
            let unit = if (to.months, to.last) == (false, 3) {
                1
            } else {
                whole(to)
            };
            Ok(interval(info, to, move |row| {
                Ok(row.long(0).map(|v| v - v % unit))
            }))
        }
        _ => Err(info.unsupported()),
    }
}

/// How much one of the last field counts, in months or microseconds.
fn whole(of: Interval) -> i64 {
    match (of.months, of.last) {
        (true, 0) => MONTHS_PER_YEAR.into(),
        (true, _) => 1,
        (false, field) => unit(field),
    }
}

/// To an interval of months or of microseconds, row by row.
fn interval(
    info: &CastInfo<'_>,
    to: Interval,
    f: impl Fn(&Row<'_>) -> Given<i64> + Send + Sync + 'static,
) -> Kernel {
    let tries = info.mode == EvalMode::Try;
    match to.months {
        false => rows::number::<Int64Type>(&DataType::Int64, Nulls::GiveNull, move |row| {
            settled(f(row), tries)
        }),
        true => rows::number::<Int32Type>(&DataType::Int32, Nulls::GiveNull, move |row| {
            // `f` gives months of 32 bits.
            Ok(settled(f(row), tries)?.and_then(|months| i32::try_from(months).ok()))
        }),
    }
}

/// TRY has NULL for what raises in the other modes.
fn settled<T>(found: Given<T>, tries: bool) -> Given<T> {
    match found {
        Err(_) if tries => Ok(None),
        found => found,
    }
}

fn sql(of: Interval) -> String {
    format!("INTERVAL {}", of.fields())
}

fn of_number(info: &CastInfo<'_>, to: Interval) -> Built {
    let target = sql(to);
    match info.from {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            // Spark widens to INT, and has BIGINT for itself.
            let long = *info.from == DataType::Int64;
            Ok(interval(info, to, move |row| {
                let Some(value) = row.long(0) else {
                    return Ok(None);
                };
                let made = value.checked_mul(whole(to));
                let made = made.filter(|v| !to.months || i32::try_from(*v).is_ok());
                // Of months it asks first whether the number is an INT.
                let narrowed = to.months && i32::try_from(value).is_ok();
                made.map(Some).ok_or_else(|| match long && !narrowed {
                    true => overflow_between(&format!("{value}L"), "BIGINT", &target),
                    false => overflow_between(&value.to_string(), "INT", &target),
                })
            }))
        }
        DataType::Decimal128(_, scale) => {
            let (scale, from) = (*scale, sql_name(info.from));
            Ok(interval(info, to, move |row| {
                let Some(unscaled) = row.decimal(0) else {
                    return Ok(None);
                };
                let divisor = i256::from_i128(power(scale.unsigned_abs().into()));
                let product =
                    i256::from_i128(unscaled).checked_mul(i256::from_i128(whole(to).into()));
                let made = product.and_then(|product| half_up(product, divisor));
                let made = made.filter(|v| !to.months || i32::try_from(*v).is_ok());
                made.map(Some)
                    .ok_or_else(|| overflow_between(&plain(unscaled, scale), &from, &target))
            }))
        }
        _ => Err(info.unsupported()),
    }
}

/// The quotient, rounded away from zero where it lies between; none where it leaves 64 bits.
pub(crate) fn half_up(value: i256, divisor: i256) -> Option<i64> {
    if divisor == i256::ZERO {
        return None;
    }
    let (quotient, rest) = (value.checked_div(divisor)?, value.checked_rem(divisor)?);
    let twice = rest.checked_mul(i256::from_i128(2))?.checked_abs()?;
    let up = match twice >= divisor.checked_abs()? {
        true if value.is_negative() == divisor.is_negative() => i256::ONE,
        true => i256::MINUS_ONE,
        false => i256::ZERO,
    };
    i64::try_from(quotient.checked_add(up)?.to_i128()?).ok()
}

fn to_number(info: &CastInfo<'_>, from: Interval) -> Built {
    let times = whole(from);
    macro_rules! integer {
        ($to:ty) => {
            integer::<$to>(info, from, times)
        };
    }
    Ok(match info.to {
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::Decimal128(precision, scale) => {
            let (precision, scale, raises) = (*precision, *scale, info.mode != EvalMode::Try);
            // Seconds have six places.
            let places = if !from.months && from.last == 3 { 6 } else { 0 };
            let times = if places == 6 { 1 } else { times };
            rows::number::<Decimal128Type>(info.to, Nulls::GiveNull, move |row| {
                let Some(value) = row.long(0).map(|value| i128::from(value / times)) else {
                    return Ok(None);
                };
                match to_precision(value, places, precision, scale) {
                    None if raises => {
                        let places = i8::try_from(places).unwrap_or(0);
                        Err(out_of_range(&plain(value, places), precision, scale))
                    }
                    found => Ok(found),
                }
            })
        }
        _ => return Err(info.unsupported()),
    })
}

fn integer<T>(info: &CastInfo<'_>, from: Interval, times: i64) -> Kernel
where
    T: ArrowPrimitiveType<Native: TryFrom<i64>>,
{
    let to = sql_name(info.to);
    let kernel = move |row: &Row<'_>| -> Given<T::Native> {
        let Some(value) = row.long(0) else {
            return Ok(None);
        };
        let fits = T::Native::try_from(value / times).ok();
        fits.map(Some).ok_or_else(|| -> SparkError {
            let mut text = String::new();
            interval_text::write(value, from, &mut text);
            overflow_between(&text, &sql(from), &to)
        })
    };
    let tries = info.mode == EvalMode::Try;
    rows::number::<T>(info.to, Nulls::GiveNull, move |row| {
        settled(kernel(row), tries)
    })
}
