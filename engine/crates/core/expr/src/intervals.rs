//! Year-month intervals, as months in INT's arrays, and day-time intervals, as microseconds in
//! BIGINT's: their own arithmetic, which never wraps, their fields, and the differences that are
//! intervals. Casts are in [`crate::cast`].

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray},
    datatypes::{
        ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Int8Type, Int32Type, Int64Type,
        TimestampMicrosecondType as Micros, i256,
    },
};
use coffer_protocol::plan::EvalMode;

use crate::{
    SparkError, Unsupported,
    arithmetic::overflow,
    calendar::MICROS_PER_DAY,
    cast::half_up,
    decimal::power,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    instants::moved,
    interval_text::{MONTHS_PER_YEAR, UNITS},
    rows::{self, Given, Nulls, Row},
    vector::{try_binary, try_unary, typed, unary},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("interval_add", Fallible::Always, |call| {
        exact(call, i32::checked_add, i64::checked_add, "try_add")
    }),
    entry("interval_subtract", Fallible::Always, |call| {
        exact(call, i32::checked_sub, i64::checked_sub, "try_subtract")
    }),
    entry("interval_negate", Fallible::Always, negate),
    entry("interval_multiply", Fallible::Always, |call| {
        scaled(call, false)
    }),
    entry("interval_divide", Fallible::Always, |call| {
        scaled(call, true)
    }),
    entry("interval_years", Fallible::Never, |call| {
        months_field::<Int32Type>(call, |months| months / MONTHS_PER_YEAR)
    }),
    entry("interval_months", Fallible::Never, |call| {
        months_field::<Int8Type>(call, |months| (months % MONTHS_PER_YEAR) as i8)
    }),
    entry("interval_days", Fallible::Never, |call| {
        micros_field::<Int32Type>(call, |micros| (micros / MICROS_PER_DAY) as i32)
    }),
    entry("interval_hours", Fallible::Never, |call| {
        micros_field::<Int8Type>(call, |micros| of(micros, 1))
    }),
    entry("interval_minutes", Fallible::Never, |call| {
        micros_field::<Int8Type>(call, |micros| of(micros, 2))
    }),
    entry("interval_seconds", Fallible::Never, seconds),
    entry("make_ym_interval", Fallible::Always, make_ym_interval),
    entry("make_dt_interval", Fallible::Always, make_dt_interval),
    entry(
        "timestamp_add_months",
        Fallible::Always,
        timestamp_add_months,
    ),
    entry(
        "timestamp_add_day_time",
        Fallible::Always,
        timestamp_add_day_time,
    ),
    entry("subtract_timestamps", Fallible::Always, subtract_timestamps),
    entry("subtract_dates", Fallible::Always, subtract_dates),
];

type Built = Result<Kernel, Unsupported>;
/// Of a row and its interval.
type Scaled = dyn Fn(&Row<'_>, i64) -> Given<i64> + Send + Sync;

/// Spark's error where another function gives NULL.
pub(crate) fn with_suggestion(instead: &str) -> SparkError {
    SparkError::new(
        "INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION",
        format!(
            "Integer overflow while operating with intervals. Use `{instead}` to tolerate \
             overflow and return NULL instead."
        ),
    )
}

fn without_suggestion() -> SparkError {
    SparkError::new(
        "INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION",
        "Integer overflow while operating with intervals. Try devising appropriate values for the \
         interval parameters.",
    )
}

/// Two intervals of one kind. Overflow is an error in every mode but TRY.
fn exact(
    call: &CallInfo<'_>,
    months: fn(i32, i32) -> Option<i32>,
    micros: fn(i64, i64) -> Option<i64>,
    instead: &'static str,
) -> Built {
    fn kernel<T: ArrowPrimitiveType>(
        f: fn(T::Native, T::Native) -> Option<T::Native>,
        raises: bool,
        instead: &'static str,
    ) -> Kernel {
        Arc::new(move |args, rows| {
            let failure = |_: T::Native, _: T::Native| with_suggestion(instead);
            let failure: Option<&dyn Fn(T::Native, T::Native) -> SparkError> = match raises {
                true => Some(&failure),
                false => None,
            };
            Ok(Arc::new(try_binary::<T, T, T>(args, rows, f, failure)?) as ArrayRef)
        })
    }
    let raises = call.mode != EvalMode::Try;
    match (call.types, call.ret) {
        ([DataType::Int32, DataType::Int32], DataType::Int32) => {
            Ok(kernel::<Int32Type>(months, raises, instead))
        }
        ([DataType::Int64, DataType::Int64], DataType::Int64) => {
            Ok(kernel::<Int64Type>(micros, raises, instead))
        }
        _ => Err(call.bad_types()),
    }
}

fn negate(call: &CallInfo<'_>) -> Built {
    Ok(match (call.types, call.ret) {
        ([DataType::Int32], DataType::Int32) => Arc::new(|args, rows| {
            let failure = |_: i32| without_suggestion();
            try_unary::<Int32Type, Int32Type>(args, rows, i32::checked_neg, Some(&failure))
        }),
        ([DataType::Int64], DataType::Int64) => Arc::new(|args, rows| {
            let failure = |_: i64| without_suggestion();
            try_unary::<Int64Type, Int64Type>(args, rows, i64::checked_neg, Some(&failure))
        }),
        _ => return Err(call.bad_types()),
    })
}

// ---- times and divided by numbers ---------------------------------------------------------------

/// An interval times or divided by a number; halves are rounded away from zero.
fn scaled(call: &CallInfo<'_>, divides: bool) -> Built {
    let [interval, number] = call.types else {
        return Err(call.bad_types());
    };
    if interval != call.ret {
        return Err(call.bad_types());
    }
    let months = match interval {
        DataType::Int32 => true,
        DataType::Int64 => false,
        _ => return Err(call.bad_types()),
    };
    let tries = call.mode == EvalMode::Try;
    let compute: Box<Scaled> = match number {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            Box::new(move |row: &Row<'_>, value: i64| {
                row.long(1)
                    .map(|number| by_integer(value, number, divides, months))
                    .transpose()
            })
        }
        DataType::Float32 | DataType::Float64 => Box::new(move |row: &Row<'_>, value: i64| {
            row.double(1)
                .map(|number| by_double(value, number, divides))
                .transpose()
        }),
        DataType::Decimal128(_, scale) => {
            let unit = i256::from_i128(power(scale.unsigned_abs().into()));
            Box::new(move |row: &Row<'_>, value: i64| {
                row.decimal(1)
                    .map(|unscaled| by_decimal(value, unscaled, unit, divides))
                    .transpose()
            })
        }
        _ => return Err(call.bad_types()),
    };
    let all = move |row: &Row<'_>| -> Given<i64> {
        let Some(value) = row.long(0) else {
            return Ok(None);
        };
        let fits = |found: i64| match months && i32::try_from(found).is_err() {
            true => Err(integer_overflow()),
            false => Ok(found),
        };
        match compute(row, value).and_then(|found| found.map(fits).transpose()) {
            Err(_) if tries => Ok(None),
            found => found,
        }
    };
    Ok(match months {
        false => rows::number::<Int64Type>(call.ret, Nulls::GiveNull, all),
        true => rows::number::<Int32Type>(call.ret, Nulls::GiveNull, move |row| {
            Ok(all(row)?.and_then(|months| i32::try_from(months).ok()))
        }),
    })
}

/// What Java's exact arithmetic of 32 bits raises.
fn integer_overflow() -> SparkError {
    SparkError::new("ARITHMETIC_OVERFLOW", "integer overflow")
}

fn by_zero() -> SparkError {
    SparkError::new(
        "INTERVAL_DIVIDED_BY_ZERO",
        "Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead.",
    )
}

fn by_integer(value: i64, number: i64, divides: bool, months: bool) -> Result<i64, SparkError> {
    if !divides {
        let product = value.checked_mul(number);
        return product.ok_or_else(SparkError::long_overflow);
    }
    let least = if months { i32::MIN.into() } else { i64::MIN };
    match number {
        0 => Err(by_zero()),
        -1 if value == least => Err(overflow("Overflow in integral divide", "try_divide")),
        _ => {
            let (wide, divisor) = (i128::from(value), i128::from(number));
            let (quotient, rest) = (wide / divisor, wide % divisor);
            let up = rest.unsigned_abs() * 2 >= divisor.unsigned_abs();
            let away = if up {
                wide.signum() * divisor.signum()
            } else {
                0
            };
            i64::try_from(quotient + away).map_err(|_| SparkError::long_overflow())
        }
    }
}

/// As Guava rounds: what is not finite or leaves the type raises.
fn by_double(value: i64, number: f64, divides: bool) -> Result<i64, SparkError> {
    if divides && number == 0.0 {
        return Err(by_zero());
    }
    let exact = match divides {
        true => value as f64 / number,
        false => value as f64 * number,
    };
    let even = exact.round_ties_even();
    let rounded = match (exact - even).abs() == 0.5 {
        true => exact + 0.5f64.copysign(exact),
        false => even,
    };
    // 2^63 itself is a double and no long.
    let bound = 9_223_372_036_854_775_808.0;
    match (-bound..bound).contains(&rounded) {
        true => Ok(rounded as i64),
        false => Err(SparkError::long_overflow()),
    }
}

fn by_decimal(value: i64, unscaled: i128, unit: i256, divides: bool) -> Result<i64, SparkError> {
    let (value, number) = (i256::from_i128(value.into()), i256::from_i128(unscaled));
    let found = match divides {
        true if unscaled == 0 => return Err(by_zero()),
        true => value.checked_mul(unit).and_then(|v| half_up(v, number)),
        false => value.checked_mul(number).and_then(|v| half_up(v, unit)),
    };
    found.ok_or_else(SparkError::long_overflow)
}

// ---- fields -------------------------------------------------------------------------------------

/// A field of the clock.
fn of(micros: i64, field: usize) -> i8 {
    let unit = |at: usize| UNITS.get(at).copied().unwrap_or(1);
    (micros % unit(field - 1) / unit(field)) as i8
}

fn months_field<R: ArrowPrimitiveType>(call: &CallInfo<'_>, f: fn(i32) -> R::Native) -> Built {
    rows::takes(call, &[DataType::Int32], &R::DATA_TYPE)?;
    Ok(Arc::new(move |args, rows| {
        unary::<Int32Type, R>(args, rows, f)
    }))
}

fn micros_field<R: ArrowPrimitiveType>(call: &CallInfo<'_>, f: fn(i64) -> R::Native) -> Built {
    rows::takes(call, &[DataType::Int64], &R::DATA_TYPE)?;
    Ok(Arc::new(move |args, rows| {
        unary::<Int64Type, R>(args, rows, f)
    }))
}

fn seconds(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Int64], &DataType::Decimal128(8, 6))?;
    let ret = call.ret.clone();
    let [_, _, minute, _] = UNITS;
    Ok(Arc::new(move |args, rows| {
        let out = unary::<Int64Type, Decimal128Type>(args, rows, |v| (v % minute).into())?;
        Ok(typed(out.as_primitive::<Decimal128Type>().clone(), &ret))
    }))
}

// ---- made ---------------------------------------------------------------------------------------

fn make_ym_interval(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Int32, DataType::Int32], &DataType::Int32)?;
    Ok(Arc::new(|args, rows| {
        let f = |years: i32, months: i32| years.checked_mul(MONTHS_PER_YEAR)?.checked_add(months);
        let failure = |_: i32, _: i32| without_suggestion();
        let made = try_binary::<Int32Type, Int32Type, Int32Type>(args, rows, f, Some(&failure))?;
        Ok(Arc::new(made) as ArrayRef)
    }))
}

/// Days, hours, minutes, and seconds as a decimal of six places.
fn make_dt_interval(call: &CallInfo<'_>) -> Built {
    let int = DataType::Int32;
    let types = [int.clone(), int.clone(), int, DataType::Decimal128(18, 6)];
    rows::takes(call, &types, &DataType::Int64)?;
    Ok(rows::number::<Int64Type>(
        call.ret,
        Nulls::GiveNull,
        |row| {
            let Some(seconds) = row.decimal(3) else {
                return Ok(None);
            };
            let mut sum = i64::try_from(seconds).ok();
            for (at, unit) in UNITS.iter().take(3).enumerate() {
                let part = row.long(at).and_then(|part| part.checked_mul(*unit));
                sum = sum.zip(part).and_then(|(sum, part)| sum.checked_add(part));
            }
            sum.map(Some).ok_or_else(without_suggestion)
        },
    ))
}

// ---- instants -----------------------------------------------------------------------------------

fn timestamp_add_months(call: &CallInfo<'_>) -> Built {
    let [from @ DataType::Timestamp(..), DataType::Int32] = call.types else {
        return Err(call.bad_types());
    };
    if from != call.ret {
        return Err(call.bad_types());
    }
    let zone = call.reading_zone(from)?;
    Ok(rows::number::<Micros>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let Some((micros, months)) = row.long(0).zip(row.long(1)) else {
                return Ok(None);
            };
            let sum = moved(zone, micros, months, 0);
            sum.map(Some).ok_or_else(SparkError::long_overflow)
        },
    ))
}

/// Whole days on the calendar, then the rest.
fn timestamp_add_day_time(call: &CallInfo<'_>) -> Built {
    let [from @ DataType::Timestamp(..), DataType::Int64] = call.types else {
        return Err(call.bad_types());
    };
    if from != call.ret {
        return Err(call.bad_types());
    }
    let zone = call.reading_zone(from)?;
    Ok(rows::number::<Micros>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let Some((micros, interval)) = row.long(0).zip(row.long(1)) else {
                return Ok(None);
            };
            let (days, rest) = (interval / MICROS_PER_DAY, interval % MICROS_PER_DAY);
            let sum = moved(zone, micros, 0, days).and_then(|sum| sum.checked_add(rest));
            sum.map(Some).ok_or_else(SparkError::long_overflow)
        },
    ))
}

/// Between the wall clocks of two instants.
fn subtract_timestamps(call: &CallInfo<'_>) -> Built {
    let ([from @ DataType::Timestamp(..), to], DataType::Int64) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    if from != to {
        return Err(call.bad_types());
    }
    let zone = call.reading_zone(from)?;
    Ok(Arc::new(move |args, rows| {
        let f = |end: i64, start: i64| zone.to_local(end).checked_sub(zone.to_local(start));
        let failure = |_: i64, _: i64| SparkError::long_overflow();
        let found = try_binary::<Micros, Micros, Int64Type>(args, rows, f, Some(&failure))?;
        Ok(Arc::new(found) as ArrayRef)
    }))
}

fn subtract_dates(call: &CallInfo<'_>) -> Built {
    rows::takes(
        call,
        &[DataType::Date32, DataType::Date32],
        &DataType::Int64,
    )?;
    Ok(Arc::new(|args, rows| {
        let f =
            |end: i32, start: i32| i64::from(end.checked_sub(start)?).checked_mul(MICROS_PER_DAY);
        let failure = |end: i32, start: i32| match end.checked_sub(start) {
            None => integer_overflow(),
            Some(_) => SparkError::long_overflow(),
        };
        let found = try_binary::<Date32Type, Date32Type, Int64Type>(args, rows, f, Some(&failure))?;
        Ok(Arc::new(found) as ArrayRef)
    }))
}
