//! TIME: microseconds since midnight. Its fields, arithmetic, units, and what is made of or with
//! one. Casts are in [`crate::cast`].

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray},
    datatypes::{
        DataType, Decimal128Type, Int32Type, Int64Type, Time64MicrosecondType as OfDay, TimeUnit,
        TimestampMicrosecondType as Micros,
    },
};
use coffer_protocol::plan::EvalMode;
use datafusion_common::ScalarValue;

use crate::{
    SparkError, Unsupported,
    calendar::{MICROS_PER_DAY, MICROS_PER_SECOND},
    format,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    interval_text, java_time, parse,
    rows::{self, Given, Nulls},
    types::{Interval, MAX_TIME_DIGITS},
    vector::{try_binary, typed, unary},
    zone::Zone,
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("hour_of_time", Fallible::Never, |call| {
        field(call, 3_600, 24)
    }),
    entry("minute_of_time", Fallible::Never, |call| {
        field(call, 60, 60)
    }),
    entry("second_of_time", Fallible::Never, |call| field(call, 1, 60)),
    entry("second_of_time_with_fraction", Fallible::Never, seconds),
    entry("make_time", Fallible::Always, make_time),
    entry("time_trunc", Fallible::Always, time_trunc),
    entry("time_diff", Fallible::Always, time_diff),
    entry("time_add_interval", Fallible::Always, time_add_interval),
    entry("subtract_times", Fallible::Never, subtract_times),
    entry("to_time", Fallible::Always, to_time),
    entry("timestamp_of_date_and_time", Fallible::Always, timestamp),
];

type Built = Result<Kernel, Unsupported>;

const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);

fn field(call: &CallInfo<'_>, unit: i64, modulus: i64) -> Built {
    rows::takes(call, &[TIME], &DataType::Int32)?;
    Ok(Arc::new(move |args, rows| {
        unary::<OfDay, Int32Type>(args, rows, |v| {
            (v / MICROS_PER_SECOND / unit % modulus) as i32
        })
    }))
}

/// A whole number that a literal argument holds.
fn whole(call: &CallInfo<'_>, index: usize) -> Result<u32, Unsupported> {
    let found = match call.literal(index)? {
        ScalarValue::Int8(Some(value)) => u32::try_from(*value).ok(),
        ScalarValue::Int32(Some(value)) => u32::try_from(*value).ok(),
        _ => None,
    };
    found
        .filter(|value| *value <= MAX_TIME_DIGITS)
        .ok_or_else(|| call.unsupported("it must be a literal of 0 to 6"))
}

/// What is kept of so many digits of seconds.
fn cut(micros: i64, digits: u32) -> i64 {
    micros - micros % 10i64.pow(MAX_TIME_DIGITS.saturating_sub(digits))
}

/// Seconds and their first digits, as a decimal.
fn seconds(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[TIME, DataType::Int32], &DataType::Decimal128(8, 6))?;
    let (digits, ret) = (whole(call, 1)?, call.ret.clone());
    Ok(Arc::new(move |args, rows| {
        let out = unary::<OfDay, Decimal128Type>(args, rows, |v| {
            cut(v % (60 * MICROS_PER_SECOND), digits).into()
        })?;
        Ok(typed(out.as_primitive::<Decimal128Type>().clone(), &ret))
    }))
}

fn make_time(call: &CallInfo<'_>) -> Built {
    let types = [
        DataType::Int32,
        DataType::Int32,
        DataType::Decimal128(16, 6),
    ];
    rows::takes(call, &types, &TIME)?;
    let wrong = |what: &str, most: i64, found: i64| {
        SparkError::new(
            "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION",
            format!("Invalid value for {what} (valid values 0 - {most}): {found}."),
        )
    };
    Ok(rows::number::<OfDay>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let (Some(hour), Some(minute), Some(micros)) =
                (row.long(0), row.long(1), row.decimal(2))
            else {
                return Ok(None);
            };
            // At most 16 digits.
            let micros = i64::try_from(micros).unwrap_or(i64::MAX);
            let second = micros.div_euclid(MICROS_PER_SECOND);
            if !(0..=i64::from(i32::MAX)).contains(&second) {
                return Err(wrong("SecondOfMinute", 59, micros / MICROS_PER_SECOND));
            }
            for (what, most, found) in [
                ("HourOfDay", 23, hour),
                ("MinuteOfHour", 59, minute),
                ("SecondOfMinute", 59, second),
            ] {
                if !(0..=most).contains(&found) {
                    return Err(wrong(what, most, found));
                }
            }
            Ok(Some((hour * 60 + minute) * 60 * MICROS_PER_SECOND + micros))
        },
    ))
}

/// Microseconds of a unit.
fn unit(name: &str, function: &str) -> Result<i64, SparkError> {
    Ok(match name.to_uppercase().as_str() {
        "MICROSECOND" => 1,
        "MILLISECOND" => 1_000,
        "SECOND" => MICROS_PER_SECOND,
        "MINUTE" => 60 * MICROS_PER_SECOND,
        "HOUR" => 3_600 * MICROS_PER_SECOND,
        _ => {
            return Err(SparkError::new(
                "INVALID_PARAMETER_VALUE.TIME_UNIT",
                format!(
                    "The value of parameter(s) `unit` in `{function}` is invalid: expects one of \
                     the units 'HOUR', 'MINUTE', 'SECOND', 'MILLISECOND', 'MICROSECOND', but got \
                     ''{name}''."
                ),
            ));
        }
    })
}

fn time_trunc(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Utf8, TIME], &TIME)?;
    Ok(rows::number::<OfDay>(call.ret, Nulls::GiveNull, |row| {
        let Some((name, time)) = row.text(0).zip(row.long(1)) else {
            return Ok(None);
        };
        Ok(Some(time - time % unit(name, "time_trunc")?))
    }))
}

fn time_diff(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Utf8, TIME, TIME], &DataType::Int64)?;
    Ok(rows::number::<Int64Type>(
        call.ret,
        Nulls::GiveNull,
        |row| {
            let (Some(name), Some(start), Some(end)) = (row.text(0), row.long(1), row.long(2))
            else {
                return Ok(None);
            };
            Ok(Some((end - start) / unit(name, "time_diff")?))
        },
    ))
}

/// time, its digits, interval, the interval's last field, the result's digits.
fn time_add_interval(call: &CallInfo<'_>) -> Built {
    let types = [
        TIME,
        DataType::Int32,
        DataType::Int64,
        DataType::Int8,
        DataType::Int32,
    ];
    rows::takes(call, &types, &TIME)?;
    let (last, digits) = (whole(call, 3)?, whole(call, 4)?);
    let last = u8::try_from(last).ok().filter(|last| *last < 4);
    let last = last.ok_or_else(|| call.unsupported("an interval has four fields"))?;
    let of = Interval {
        months: false,
        first: last,
        last,
    };
    Ok(rows::number::<OfDay>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let Some((time, interval)) = row.long(0).zip(row.long(2)) else {
                return Ok(None);
            };
            // Spark adds nanoseconds, of which 64 bits hold fewer days.
            let nanos = interval.checked_mul(1_000);
            if nanos
                .and_then(|nanos| nanos.checked_add(time * 1_000))
                .is_none()
            {
                return Err(SparkError::long_overflow());
            }
            let sum = time + interval;
            if (0..MICROS_PER_DAY).contains(&sum) {
                return Ok(Some(cut(sum, digits)));
            }
            let mut what = "Datetime operation overflow: add ".to_owned();
            interval_text::write(interval, of, &mut what);
            what.push_str(" to the time value TIME '");
            format::time_of_day(time, &mut what);
            what.push_str("'.");
            Err(SparkError::new("DATETIME_OVERFLOW", what))
        },
    ))
}

fn subtract_times(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[TIME, TIME], &DataType::Int64)?;
    Ok(Arc::new(|args, rows| {
        let f = |end: i64, start: i64| Some(end.wrapping_sub(start));
        Ok(Arc::new(try_binary::<OfDay, OfDay, Int64Type>(args, rows, f, None)?) as ArrayRef)
    }))
}

/// A text by the casts' form, or by a pattern.
fn to_time(call: &CallInfo<'_>) -> Built {
    let pattern = match call.types {
        [DataType::Utf8] => None,
        [DataType::Utf8, DataType::Utf8] => Some(java_time::clock_reader(call)?),
        _ => return Err(call.bad_types()),
    };
    if *call.ret != TIME {
        return Err(call.bad_types());
    }
    let written = match call.types.len() {
        1 => "HH:mm:ss.SSSSSS".to_owned(),
        _ => match call.literal(1)? {
            ScalarValue::Utf8(Some(text)) => text.clone(),
            _ => return Err(call.unsupported("the pattern must be a literal")),
        },
    };
    let tries = call.mode == EvalMode::Try;
    Ok(rows::number::<OfDay>(
        call.ret,
        Nulls::GiveNull,
        move |row| -> Given<i64> {
            let Some(text) = row.text(0) else {
                return Ok(None);
            };
            let found = match &pattern {
                None => parse::time_of_day(text),
                Some(read) => read(text),
            };
            match found {
                None if !tries => Err(SparkError::new(
                    "CANNOT_PARSE_TIME",
                    format!(
                        "The input string '{text}' cannot be parsed to a TIME value because it \
                         does not match to the datetime format '{written}'."
                    ),
                )),
                found => Ok(found),
            }
        },
    ))
}

/// A date and a time of day, as a wall clock or as an instant of the call's zone.
fn timestamp(call: &CallInfo<'_>) -> Built {
    let ([DataType::Date32, DataType::Time64(_)], DataType::Timestamp(_, zone)) =
        (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    let zone = match zone {
        Some(_) => Zone::of(call.zone)?,
        None => Zone::UTC,
    };
    Ok(rows::number::<Micros>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let Some((days, time)) = row.long(0).zip(row.long(1)) else {
                return Ok(None);
            };
            let local = days
                .checked_mul(MICROS_PER_DAY)
                .and_then(|d| d.checked_add(time));
            let micros = local.and_then(|local| zone.to_instant(local));
            micros.map(Some).ok_or_else(SparkError::long_overflow)
        },
    ))
}
