//! Dates and times: fields, arithmetic, truncation. What depends on a time zone takes the call's.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Int32Array, PrimitiveArray},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type, TimestampMicrosecondType as Micros,
    },
};
use datafusion_common::{Result, ScalarValue};

use crate::{
    SparkError, Unsupported,
    calendar::{self, MICROS_PER_DAY, MICROS_PER_SECOND},
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    vector::{all_null, argument, array, binary, try_binary, try_unary, typed, unary},
    zone::Zone,
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("year", Fallible::Never, |call| {
        field(call, |days| calendar::civil(days).0)
    }),
    entry("quarter", Fallible::Never, |call| {
        field(call, |days| i64::from(calendar::civil(days).1.div_ceil(3)))
    }),
    entry("month", Fallible::Never, |call| {
        field(call, |days| calendar::civil(days).1.into())
    }),
    entry("day_of_month", Fallible::Never, |call| {
        field(call, |days| calendar::civil(days).2.into())
    }),
    entry("day_of_year", Fallible::Never, |call| {
        field(call, day_of_year)
    }),
    entry("day_of_week", Fallible::Never, |call| {
        field(call, |days| calendar::iso_weekday(days) % 7 + 1)
    }),
    entry("week_day", Fallible::Never, |call| {
        field(call, |days| calendar::iso_weekday(days) - 1)
    }),
    entry("week_of_year", Fallible::Never, |call| {
        field(call, |days| calendar::iso_week(days).1)
    }),
    entry("year_of_week", Fallible::Never, |call| {
        field(call, |days| calendar::iso_week(days).0)
    }),
    entry("hour", Fallible::Never, |call| clock(call, 3_600, 24)),
    entry("minute", Fallible::Never, |call| clock(call, 60, 60)),
    entry("second", Fallible::Never, |call| clock(call, 1, 60)),
    entry("seconds_of_time", Fallible::Never, |call| {
        clock(call, 1, 60)
    }),
    entry(
        "second_with_fraction",
        Fallible::Never,
        second_with_fraction,
    ),
    entry("date_add", Fallible::Never, |call| shift_days(call, 1)),
    entry("date_sub", Fallible::Never, |call| shift_days(call, -1)),
    entry("date_diff", Fallible::Never, date_diff),
    entry("add_months", Fallible::Always, add_months),
    entry("date_add_ym_interval", Fallible::Always, add_months),
    entry("months_between", Fallible::Never, months_between),
    entry("last_day", Fallible::Never, last_day),
    entry("trunc_date", Fallible::Never, trunc_date),
    entry("trunc_timestamp", Fallible::Always, trunc_timestamp),
    entry("make_date", Fallible::Always, make_date),
    entry("date_from_unix_date", Fallible::Never, date_from_unix_date),
    entry("unix_date", Fallible::Never, unix_date),
    entry("unix_seconds", Fallible::Never, |call| {
        unix(call, MICROS_PER_SECOND)
    }),
    entry("unix_millis", Fallible::Never, |call| unix(call, 1_000)),
    entry("unix_micros", Fallible::Never, |call| unix(call, 1)),
    entry("millis_to_timestamp", Fallible::Always, |call| {
        from_unix(call, 1_000)
    }),
    entry("micros_to_timestamp", Fallible::Always, |call| {
        from_unix(call, 1)
    }),
];

type Built = Result<Kernel, Unsupported>;

/// The zone in which a timestamp is read: UTC for one without time zone.
fn narrow(value: i64) -> i32 {
    value as i32
}

fn day_of_year(days: i64) -> i64 {
    let (year, ..) = calendar::civil(days);
    days - calendar::days_from_civil(year, 1, 1) + 1
}

/// A field of a date as an int.
fn field(call: &CallInfo<'_>, f: fn(i64) -> i64) -> Built {
    match (call.types, call.ret) {
        ([DataType::Date32], DataType::Int32) => Ok(Arc::new(move |args, rows| {
            unary::<Date32Type, Int32Type>(args, rows, |days| narrow(f(days.into())))
        })),
        _ => Err(call.bad_types()),
    }
}

/// A field of a wall-clock time: seconds ÷ `unit` modulo `modulus`.
fn clock(call: &CallInfo<'_>, unit: i64, modulus: i64) -> Built {
    match (call.types, call.ret) {
        ([from @ DataType::Timestamp(..)], DataType::Int32) => {
            let zone = call.reading_zone(from)?;
            Ok(Arc::new(move |args, rows| {
                unary::<Micros, Int32Type>(args, rows, |micros| {
                    let seconds = zone.to_local(micros).div_euclid(MICROS_PER_SECOND);
                    narrow(seconds.div_euclid(unit).rem_euclid(modulus))
                })
            }))
        }
        _ => Err(call.bad_types()),
    }
}

fn second_with_fraction(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([from @ DataType::Timestamp(..)], DataType::Decimal128(8, 6)) => {
            let (zone, ret) = (call.reading_zone(from)?, call.ret.clone());
            Ok(Arc::new(move |args, rows| {
                let out = unary::<Micros, Decimal128Type>(args, rows, |micros| {
                    zone.to_local(micros)
                        .rem_euclid(60 * MICROS_PER_SECOND)
                        .into()
                })?;
                Ok(typed(out.as_primitive::<Decimal128Type>().clone(), &ret))
            }))
        }
        _ => Err(call.bad_types()),
    }
}

/// Spark wraps here: `startDate + days` of two ints.
fn shift_days(call: &CallInfo<'_>, sign: i32) -> Built {
    fn shifted<T>(sign: i32) -> Kernel
    where
        T: arrow::datatypes::ArrowPrimitiveType,
        T::Native: Into<i32>,
    {
        Arc::new(move |args, rows| {
            let f = |date: i32, days: T::Native| {
                date.wrapping_add(Into::<i32>::into(days).wrapping_mul(sign))
            };
            Ok(Arc::new(binary::<Date32Type, T, Date32Type>(args, rows, f)?) as ArrayRef)
        })
    }
    match (call.types, call.ret) {
        ([DataType::Date32, DataType::Int32], DataType::Date32) => Ok(shifted::<Int32Type>(sign)),
        ([DataType::Date32, DataType::Int16], DataType::Date32) => Ok(shifted::<Int16Type>(sign)),
        ([DataType::Date32, DataType::Int8], DataType::Date32) => Ok(shifted::<Int8Type>(sign)),
        _ => Err(call.bad_types()),
    }
}

fn date_diff(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([DataType::Date32, DataType::Date32], DataType::Int32) => Ok(Arc::new(|args, rows| {
            Ok(Arc::new(binary::<Date32Type, Date32Type, Int32Type>(
                args,
                rows,
                i32::wrapping_sub,
            )?) as ArrayRef)
        })),
        _ => Err(call.bad_types()),
    }
}

fn date_overflow() -> SparkError {
    SparkError::new("ARITHMETIC_OVERFLOW", "integer overflow")
}

fn add_months(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([DataType::Date32, DataType::Int32], DataType::Date32) => Ok(Arc::new(|args, rows| {
            let f = |days: i32, months: i32| {
                i32::try_from(calendar::plus_months(days.into(), months.into())).ok()
            };
            let failure = |_: i32, _: i32| date_overflow();
            Ok(Arc::new(try_binary::<Date32Type, Int32Type, Date32Type>(
                args,
                rows,
                f,
                Some(&failure),
            )?) as ArrayRef)
        })),
        _ => Err(call.bad_types()),
    }
}

/// months_between(a, b, round): whole months, and 31sts of one by seconds.
fn months_between(call: &CallInfo<'_>) -> Built {
    let (
        [
            from @ DataType::Timestamp(_, Some(_)),
            DataType::Timestamp(_, Some(_)),
            DataType::Boolean,
        ],
        DataType::Float64,
    ) = (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    let zone = call.reading_zone(from)?;
    let round = match call.literal(2)? {
        ScalarValue::Boolean(Some(round)) => *round,
        _ => return Err(call.unsupported("rounding off must be a literal")),
    };
    Ok(Arc::new(move |args, rows| {
        let f = |a: i64, b: i64| Some(between(a, b, round, zone));
        Ok(Arc::new(try_binary::<Micros, Micros, Float64Type>(
            args, rows, f, None,
        )?) as ArrayRef)
    }))
}

fn between(a: i64, b: i64, round: bool, zone: Zone) -> f64 {
    let split = |micros: i64| {
        let days = zone.to_local(micros).div_euclid(MICROS_PER_DAY);
        let (year, month, day) = calendar::civil(days);
        let midnight = zone
            .to_instant(days.saturating_mul(MICROS_PER_DAY))
            .unwrap_or(micros);
        // Truncated, as Java's unit conversion.
        let seconds = (micros - midnight) / MICROS_PER_SECOND;
        (
            year * 12 + i64::from(month),
            i64::from(day),
            day == calendar::month_length(year, month),
            seconds,
        )
    };
    let ((months1, day1, last1, seconds1), (months2, day2, last2, seconds2)) = (split(a), split(b));
    let months = (months1 - months2) as f64;
    if day1 == day2 || (last1 && last2) {
        return months;
    }
    let seconds = (day1 - day2) * 86_400 + seconds1 - seconds2;
    let exact = months + seconds as f64 / (31 * 86_400) as f64;
    // Java's Math.round: half goes up, also below zero.
    if round {
        (exact * 1e8 + 0.5).floor() / 1e8
    } else {
        exact
    }
}

fn last_day(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([DataType::Date32], DataType::Date32) => Ok(Arc::new(|args, rows| {
            unary::<Date32Type, Date32Type>(args, rows, |days| {
                let (year, month, day) = calendar::civil(days.into());
                days.wrapping_add((calendar::month_length(year, month) - day).cast_signed())
            })
        })),
        _ => Err(call.bad_types()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Micros(i64),
    /// Within a wall clock's day.
    Clock(i64),
    Week,
    Month,
    Quarter,
    Year,
}

fn level(name: &str) -> Option<Level> {
    Some(match name.to_uppercase().as_str() {
        "MICROSECOND" => Level::Micros(1),
        "MILLISECOND" => Level::Micros(1_000),
        "SECOND" => Level::Micros(MICROS_PER_SECOND),
        "MINUTE" => Level::Clock(60 * MICROS_PER_SECOND),
        "HOUR" => Level::Clock(3_600 * MICROS_PER_SECOND),
        "DAY" | "DD" => Level::Clock(MICROS_PER_DAY),
        "WEEK" => Level::Week,
        "MON" | "MONTH" | "MM" => Level::Month,
        "QUARTER" => Level::Quarter,
        "YEAR" | "YYYY" | "YY" => Level::Year,
        _ => return None,
    })
}

fn truncate_days(days: i64, level: Level) -> i64 {
    let (year, month, _) = calendar::civil(days);
    match level {
        Level::Week => days - (calendar::iso_weekday(days) - 1),
        Level::Month => calendar::days_from_civil(year, month, 1),
        Level::Quarter => calendar::days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        Level::Year => calendar::days_from_civil(year, 1, 1),
        Level::Micros(_) | Level::Clock(_) => days,
    }
}

/// The level that a literal argument names; none: NULL for every row.
fn literal_level(call: &CallInfo<'_>, index: usize) -> Result<Option<Level>, Unsupported> {
    Ok(match call.literal(index)? {
        ScalarValue::Utf8(Some(name)) => level(name),
        _ => None,
    })
}

fn null_kernel(ret: &DataType) -> Kernel {
    let ret = ret.clone();
    Arc::new(move |_, rows| Ok(all_null(&ret, rows)))
}

fn trunc_date(call: &CallInfo<'_>) -> Built {
    let ([DataType::Date32, DataType::Utf8], DataType::Date32) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    Ok(match literal_level(call, 1)? {
        None | Some(Level::Micros(_) | Level::Clock(_)) => null_kernel(call.ret),
        Some(level) => Arc::new(move |args, rows| {
            unary::<Date32Type, Date32Type>(args, rows, |days| {
                narrow(truncate_days(days.into(), level))
            })
        }),
    })
}

fn trunc_timestamp(call: &CallInfo<'_>) -> Built {
    let DataType::Timestamp(_, Some(_)) = call.ret else {
        return Err(call.bad_types());
    };
    let [DataType::Utf8, from @ DataType::Timestamp(_, Some(_))] = call.types else {
        return Err(call.bad_types());
    };
    let Some(level) = literal_level(call, 0)? else {
        return Ok(null_kernel(call.ret));
    };
    let (zone, ret) = (call.reading_zone(from)?, call.ret.clone());
    Ok(Arc::new(move |args, rows| {
        let f = |micros: i64| match level {
            Level::Micros(unit) => Some(micros - micros.rem_euclid(unit)),
            Level::Clock(unit) if unit < MICROS_PER_DAY => {
                // The offset of the instant is kept where the truncated wall clock allows it, as
                // ZonedDateTime does.
                let local = zone.to_local(micros);
                let truncated = local - local.rem_euclid(unit);
                let same = truncated - zone.offset_at(micros) * MICROS_PER_SECOND;
                if zone.to_local(same) == truncated {
                    Some(same)
                } else {
                    zone.to_instant(truncated)
                }
            }
            _ => {
                let days = zone.to_local(micros).div_euclid(MICROS_PER_DAY);
                zone.to_instant(truncate_days(days, level).checked_mul(MICROS_PER_DAY)?)
            }
        };
        let failure = |_: i64| SparkError::long_overflow();
        let out = try_unary::<Micros, Micros>(
            args.get(1..).unwrap_or_default(),
            rows,
            f,
            Some(&failure),
        )?;
        Ok(typed(out.as_primitive::<Micros>().clone(), &ret))
    }))
}

fn make_date(call: &CallInfo<'_>) -> Built {
    let ([DataType::Int32, DataType::Int32, DataType::Int32], DataType::Date32) =
        (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    let ansi = call.ansi();
    Ok(Arc::new(move |args, rows| {
        let part = |index| -> Result<Int32Array> {
            Ok(array(argument(args, index)?, rows)?
                .as_primitive::<Int32Type>()
                .clone())
        };
        let (years, months, days) = (part(0)?, part(1)?, part(2)?);
        let mut out = Vec::with_capacity(rows);
        for ((year, month), day) in years.iter().zip(&months).zip(&days) {
            let (Some(year), Some(month), Some(day)) = (year, month, day) else {
                out.push(None);
                continue;
            };
            // Java's LocalDate ends at ±999 999 999 years; what is a date but not a day of 32 bits
            // raises in every mode.
            let date = Some(i64::from(year))
                .filter(|year| year.abs() <= 999_999_999)
                .and_then(|year| calendar::checked_date(year, month.into(), day.into()));
            let date = date
                .map(|days| i32::try_from(days).map_err(|_| date_overflow()))
                .transpose()?;
            if date.is_none() && ansi {
                return Err(SparkError::new(
                    "DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION",
                    format!("Invalid date: year {year}, month {month}, day {day}."),
                )
                .into());
            }
            out.push(date);
        }
        Ok(Arc::new(out.into_iter().collect::<PrimitiveArray<Date32Type>>()) as ArrayRef)
    }))
}

fn date_from_unix_date(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([DataType::Int32], DataType::Date32) => Ok(Arc::new(|args, rows| {
            unary::<Int32Type, Date32Type>(args, rows, |v| v)
        })),
        _ => Err(call.bad_types()),
    }
}

fn unix_date(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([DataType::Date32], DataType::Int32) => Ok(Arc::new(|args, rows| {
            unary::<Date32Type, Int32Type>(args, rows, |v| v)
        })),
        _ => Err(call.bad_types()),
    }
}

fn unix(call: &CallInfo<'_>, unit: i64) -> Built {
    match (call.types, call.ret) {
        ([DataType::Timestamp(_, Some(_))], DataType::Int64) => Ok(Arc::new(move |args, rows| {
            unary::<Micros, Int64Type>(args, rows, |v| v.div_euclid(unit))
        })),
        _ => Err(call.bad_types()),
    }
}

fn from_unix(call: &CallInfo<'_>, unit: i64) -> Built {
    match (call.types, call.ret) {
        ([of], DataType::Timestamp(_, Some(_))) if of.is_signed_integer() => {
            let ret = call.ret.clone();
            Ok(Arc::new(move |args, rows| {
                let failure = |_: i64| SparkError::long_overflow();
                let wide = argument(args, 0)?.cast_to(&DataType::Int64, None)?;
                let out = try_unary::<Int64Type, Micros>(
                    &[wide],
                    rows,
                    |v| v.checked_mul(unit),
                    Some(&failure),
                )?;
                Ok(typed(out.as_primitive::<Micros>().clone(), &ret))
            }))
        }
        _ => Err(call.bad_types()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation() {
        let day = |y, m, d| calendar::days_from_civil(y, m, d);
        assert_eq!(
            truncate_days(day(2026, 11, 21), Level::Quarter),
            day(2026, 10, 1)
        );
        assert_eq!(
            truncate_days(day(2026, 11, 22), Level::Week),
            day(2026, 11, 16)
        );
        assert_eq!(truncate_days(day(1969, 2, 3), Level::Year), day(1969, 1, 1));
    }
}
