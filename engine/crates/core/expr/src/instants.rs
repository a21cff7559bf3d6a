//! Instants and wall clocks: made of parts, moved by units and intervals, read in another zone.

use arrow::datatypes::{DataType, Date32Type, Int64Type, TimestampMicrosecondType as Micros};
use datafusion_common::ScalarValue;

use crate::{
    SparkError, Unsupported,
    calendar::{self, MICROS_PER_DAY, MICROS_PER_SECOND},
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    rows::{self, Given, Nulls, Row},
    zone::Zone,
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("next_day", Fallible::Ansi, next_day),
    entry("month_name", Fallible::Never, |call| {
        name(call, |days| {
            MONTHS.get(calendar::civil(days).1 as usize - 1)
        })
    }),
    entry("day_name", Fallible::Never, |call| {
        name(call, |days| {
            DAYS.get(calendar::iso_weekday(days) as usize - 1)
        })
    }),
    entry("from_utc_timestamp", Fallible::Always, |call| {
        shifted(call, |zone, micros| Some(zone.to_local(micros)))
    }),
    entry("to_utc_timestamp", Fallible::Always, |call| {
        shifted(call, |zone, micros| zone.to_instant(micros))
    }),
    entry("convert_timezone", Fallible::Always, convert_timezone),
    entry("make_timestamp", Fallible::Always, make_timestamp),
    entry("timestamp_add", Fallible::Always, timestamp_add),
    entry("timestamp_diff", Fallible::Always, timestamp_diff),
    entry("timestamp_add_interval", Fallible::Always, add_interval),
    entry("date_add_interval", Fallible::Always, date_add_interval),
    entry("precise_timestamp_conversion", Fallible::Never, precise),
    entry(
        "seconds_to_timestamp",
        Fallible::Always,
        seconds_to_timestamp,
    ),
];

type Built = Result<Kernel, Unsupported>;

pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(crate) const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

fn overflow() -> SparkError {
    SparkError::new("DATETIME_OVERFLOW", "Datetime operation overflow.")
}

/// Days from Monday to the one that is called so, by two letters, three, or all.
fn weekday(name: &str) -> Option<usize> {
    DAYS.iter().position(|day| {
        let whole = matches!(name.len(), 2 | 3) || name.len() == day.len();
        let start = day.get(..name.len()).filter(|_| whole);
        start.is_some_and(|start| start.eq_ignore_ascii_case(name))
    })
}

fn next_day(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Date32, DataType::Utf8], &DataType::Date32)?;
    let ansi = call.ansi();
    Ok(rows::number::<Date32Type>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let (Some(start), Some(name)) = (row.long(0), row.text(1)) else {
                return Ok(None);
            };
            let found = match name.is_ascii() {
                true => weekday(name),
                false => weekday(&name.to_uppercase()),
            };
            let Some(day) = found else {
                return match ansi {
                    true => Err(SparkError::new(
                        "ILLEGAL_DAY_OF_WEEK",
                        format!("Illegal input for day of week: {name}."),
                    )),
                    false => Ok(None),
                };
            };
            // Days of the week from Thursday, as the epoch's day is one.
            let day = i32::try_from((day + 4) % 7).unwrap_or(0);
            let start = start as i32;
            let ahead = ((day - 1).wrapping_sub(start) % 7 + 7) % 7;
            Ok(Some(start.wrapping_add(1).wrapping_add(ahead)))
        },
    ))
}

fn name(call: &CallInfo<'_>, f: fn(i64) -> Option<&'static &'static str>) -> Built {
    rows::takes(call, &[DataType::Date32], &DataType::Utf8)?;
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let name = row.long(0).and_then(f).and_then(|name| name.get(..3));
        Ok(name.map(|name| out.push_str(name)))
    }))
}

/// The zone that an argument names; a literal's is looked up once.
fn zone_of(call: &CallInfo<'_>, index: usize) -> Option<Zone> {
    match call.literal(index) {
        Ok(ScalarValue::Utf8(Some(id))) => Zone::parse(id),
        _ => None,
    }
}

fn given_zone(known: Option<Zone>, row: &Row<'_>, index: usize) -> Given<Zone> {
    let Some(id) = row.text(index) else {
        return Ok(None);
    };
    match known.or_else(|| Zone::parse(id)) {
        Some(zone) => Ok(Some(zone)),
        None => Err(SparkError::new(
            "INVALID_TIMEZONE",
            format!("The timezone: {id} is invalid."),
        )),
    }
}

fn shifted(call: &CallInfo<'_>, f: fn(Zone, i64) -> Option<i64>) -> Built {
    let ([DataType::Timestamp(..), DataType::Utf8], DataType::Timestamp(..)) =
        (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    let known = zone_of(call, 1);
    Ok(rows::number::<Micros>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let zone = given_zone(known, row, 1)?;
            let Some((zone, micros)) = zone.zip(row.long(0)) else {
                return Ok(None);
            };
            f(zone, micros).map(Some).ok_or_else(overflow)
        },
    ))
}

fn convert_timezone(call: &CallInfo<'_>) -> Built {
    let types = [DataType::Utf8, DataType::Utf8, rows::timestamp_ntz()];
    rows::takes(call, &types, &rows::timestamp_ntz())?;
    let (source, target) = (zone_of(call, 0), zone_of(call, 1));
    Ok(rows::number::<Micros>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let zones = given_zone(source, row, 0)?.zip(given_zone(target, row, 1)?);
            let Some(((source, target), micros)) = zones.zip(row.long(2)) else {
                return Ok(None);
            };
            let instant = source.to_instant(micros).ok_or_else(overflow)?;
            Ok(Some(target.to_local(instant)))
        },
    ))
}

/// Year, month, day, hour, minute, seconds as a decimal of six places, and perhaps a zone.
fn make_timestamp(call: &CallInfo<'_>) -> Built {
    let int = DataType::Int32;
    let zoned = match call.types {
        [a, b, c, d, e, DataType::Decimal128(16, 6), rest @ ..]
            if [a, b, c, d, e].iter().all(|t| **t == int) =>
        {
            match rest {
                [] => false,
                [DataType::Utf8] => true,
                _ => return Err(call.bad_types()),
            }
        }
        _ => return Err(call.bad_types()),
    };
    let instant = match call.ret {
        DataType::Timestamp(_, zone) => zone.is_some(),
        _ => return Err(call.bad_types()),
    };
    let own = if instant && !zoned {
        Zone::of(call.zone)?
    } else {
        Zone::UTC
    };
    let known = if zoned { zone_of(call, 6) } else { None };
    let ansi = call.ansi();
    Ok(rows::number::<Micros>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let part = |index| row.long(index);
            let (Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(micros)) =
                (part(0), part(1), part(2), part(3), part(4), row.decimal(5))
            else {
                return Ok(None);
            };
            // As Spark's generated code has it: `floor` and `toInt`, which wraps.
            let unit = i128::from(MICROS_PER_SECOND);
            let seconds = i64::from(micros.div_euclid(unit) as i32);
            let fraction = micros.rem_euclid(unit) as i64;
            if seconds == 60 && fraction != 0 {
                return match ansi {
                    true => Err(SparkError::new(
                        "INVALID_FRACTION_OF_SECOND",
                        "Valid range for seconds is [0, 60] (inclusive).",
                    )),
                    false => Ok(None),
                };
            }
            let date = Some(year).filter(|year| year.abs() <= 999_999_999);
            let date = date.and_then(|year| calendar::checked_date(year, month, day));
            let clock =
                (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&seconds);
            let Some(days) = date.filter(|_| clock) else {
                return match ansi {
                    true => Err(SparkError::new(
                        "DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION",
                        "A field of the date or time is out of bounds.",
                    )),
                    false => Ok(None),
                };
            };
            let of_day = ((hour * 60 + minute) * 60 + seconds) * MICROS_PER_SECOND + fraction;
            let local = days
                .checked_mul(MICROS_PER_DAY)
                .and_then(|d| d.checked_add(of_day));
            if !instant {
                return local.map(Some).ok_or_else(SparkError::long_overflow);
            }
            let zone = match zoned {
                true => match given_zone(known, row, 6) {
                    Err(_) if !ansi => Ok(None),
                    zone => zone,
                }?,
                false => Some(own),
            };
            let Some(zone) = zone else {
                return Ok(None);
            };
            let micros = local.and_then(|local| zone.to_instant(local));
            micros.map(Some).ok_or_else(SparkError::long_overflow)
        },
    ))
}

/// A unit of TIMESTAMPADD and TIMESTAMPDIFF.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Micros(i64),
    Days(i64),
    Months(i64),
}

fn unit(call: &CallInfo<'_>) -> Result<Unit, Unsupported> {
    let name = match call.literal(0)? {
        ScalarValue::Utf8(Some(name)) => name.to_uppercase(),
        _ => return Err(call.unsupported("the unit must be a literal")),
    };
    Ok(match name.as_str() {
        "MICROSECOND" => Unit::Micros(1),
        "MILLISECOND" => Unit::Micros(1_000),
        "SECOND" => Unit::Micros(MICROS_PER_SECOND),
        "MINUTE" => Unit::Micros(60 * MICROS_PER_SECOND),
        "HOUR" => Unit::Micros(3_600 * MICROS_PER_SECOND),
        "DAY" => Unit::Days(1),
        // Spark counts no days of the year.
        "DAYOFYEAR" if call.name == "timestamp_add" => Unit::Days(1),
        "WEEK" => Unit::Days(7),
        "MONTH" => Unit::Months(1),
        "QUARTER" => Unit::Months(3),
        "YEAR" => Unit::Months(12),
        other => return Err(call.unsupported(format!("the unit {other:?}"))),
    })
}

/// A zoned clock moved by days and months, as ZonedDateTime does: where it can, the wall clock
/// keeps the offset that it had.
pub(crate) fn moved(zone: Zone, micros: i64, months: i64, days: i64) -> Option<i64> {
    if months == 0 && days == 0 {
        return Some(micros);
    }
    let step = |micros: i64, f: &dyn Fn(i64) -> i64| {
        let local = zone.to_local(micros);
        let (day, of_day) = calendar::split_micros(local);
        let wall = f(day).checked_mul(MICROS_PER_DAY)?.checked_add(of_day)?;
        let same = wall.checked_sub(zone.offset_at(micros) * MICROS_PER_SECOND)?;
        match zone.to_local(same) == wall {
            true => Some(same),
            false => zone.to_instant(wall),
        }
    };
    let micros = match months {
        0 => micros,
        months => step(micros, &|day| calendar::plus_months(day, months))?,
    };
    match days {
        0 => Some(micros),
        days => step(micros, &|day| day + days),
    }
}

fn timestamp_add(call: &CallInfo<'_>) -> Built {
    let [
        DataType::Utf8,
        DataType::Int64,
        from @ DataType::Timestamp(..),
    ] = call.types
    else {
        return Err(call.bad_types());
    };
    if from != call.ret {
        return Err(call.bad_types());
    }
    let (unit, zone) = (unit(call)?, call.reading_zone(from)?);
    Ok(rows::number::<Micros>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let (Some(count), Some(micros)) = (row.long(1), row.long(2)) else {
                return Ok(None);
            };
            let small = |times: i64| {
                let count = i32::try_from(count).ok()?;
                count.checked_mul(i32::try_from(times).ok()?).map(i64::from)
            };
            let sum = match unit {
                Unit::Micros(times) => count.checked_mul(times).and_then(|n| micros.checked_add(n)),
                Unit::Days(times) => small(times).and_then(|days| moved(zone, micros, 0, days)),
                Unit::Months(times) => {
                    small(times).and_then(|months| moved(zone, micros, months, 0))
                }
            };
            sum.map(Some).ok_or_else(overflow)
        },
    ))
}

fn timestamp_diff(call: &CallInfo<'_>) -> Built {
    let [DataType::Utf8, from @ DataType::Timestamp(..), to] = call.types else {
        return Err(call.bad_types());
    };
    if from != to || *call.ret != DataType::Int64 {
        return Err(call.bad_types());
    }
    let (unit, zone) = (unit(call)?, call.reading_zone(from)?);
    Ok(rows::number::<Int64Type>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let (Some(start), Some(end)) = (row.long(1), row.long(2)) else {
                return Ok(None);
            };
            let (start, end) = (zone.to_local(start), zone.to_local(end));
            let micros = end
                .checked_sub(start)
                .ok_or_else(SparkError::long_overflow)?;
            Ok(Some(match unit {
                Unit::Micros(of) => micros / of,
                Unit::Days(of) => micros / MICROS_PER_DAY / of,
                Unit::Months(of) => months_between(start, end) / of,
            }))
        },
    ))
}

/// Whole months from one wall clock to another, as Java's `LocalDateTime.until` counts them: the
/// later date is moved by a day for the time of day, then days of the month are compared.
fn months_between(start: i64, end: i64) -> i64 {
    let ((from, early), (to, late)) = (calendar::split_micros(start), calendar::split_micros(end));
    let to = if to > from && late < early {
        to - 1
    } else if to < from && late > early {
        to + 1
    } else {
        to
    };
    let packed = |days: i64| {
        let (year, month, day) = calendar::civil(days);
        (year * 12 + i64::from(month)) * 32 + i64::from(day)
    };
    (packed(to) - packed(from)) / 32
}

/// A whole number that a literal argument holds.
fn whole(call: &CallInfo<'_>, index: usize) -> Result<i64, Unsupported> {
    match call.literal(index)? {
        ScalarValue::Int32(Some(value)) => Ok((*value).into()),
        ScalarValue::Int64(Some(value)) => Ok(*value),
        _ => Err(call.unsupported("an interval must be a literal")),
    }
}

/// timestamp + months, days, microseconds: three literals.
fn add_interval(call: &CallInfo<'_>) -> Built {
    let [
        from @ DataType::Timestamp(..),
        DataType::Int32,
        DataType::Int32,
        DataType::Int64,
    ] = call.types
    else {
        return Err(call.bad_types());
    };
    if from != call.ret {
        return Err(call.bad_types());
    }
    let (months, days, rest) = (whole(call, 1)?, whole(call, 2)?, whole(call, 3)?);
    let zone = call.reading_zone(from)?;
    Ok(rows::number::<Micros>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let Some(micros) = row.long(0) else {
                return Ok(None);
            };
            let sum = moved(zone, micros, months, days).and_then(|m| m.checked_add(rest));
            sum.map(Some).ok_or_else(SparkError::long_overflow)
        },
    ))
}

/// date + months and days: two literals.
fn date_add_interval(call: &CallInfo<'_>) -> Built {
    let types = [DataType::Date32, DataType::Int32, DataType::Int32];
    rows::takes(call, &types, &DataType::Date32)?;
    let (months, days) = (whole(call, 1)?, whole(call, 2)?);
    Ok(rows::number::<Date32Type>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let Some(date) = row.long(0) else {
                return Ok(None);
            };
            let sum = calendar::plus_months(date, months) + days;
            match i32::try_from(sum) {
                Ok(date) => Ok(Some(date)),
                Err(_) => Err(SparkError::new("ARITHMETIC_OVERFLOW", "integer overflow")),
            }
        },
    ))
}

/// A timestamp as its microseconds, and back.
fn precise(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([DataType::Timestamp(..)], DataType::Int64) => Ok(rows::number::<Int64Type>(
            call.ret,
            Nulls::GiveNull,
            |row| Ok(row.long(0)),
        )),
        ([DataType::Int64], DataType::Timestamp(..)) => {
            Ok(rows::number::<Micros>(call.ret, Nulls::GiveNull, |row| {
                Ok(row.long(0))
            }))
        }
        _ => Err(call.bad_types()),
    }
}

/// Seconds as a decimal or a double.
fn seconds_to_timestamp(call: &CallInfo<'_>) -> Built {
    if !matches!(call.ret, DataType::Timestamp(_, Some(_))) {
        return Err(call.bad_types());
    }
    match call.types {
        [DataType::Float32 | DataType::Float64] => {
            Ok(rows::number::<Micros>(call.ret, Nulls::GiveNull, |row| {
                let seconds = row.double(0).filter(|seconds| seconds.is_finite());
                Ok(seconds.map(|seconds| (seconds * 1_000_000.0) as i64))
            }))
        }
        [DataType::Decimal128(_, scale)] => {
            let scale = u32::try_from(*scale).unwrap_or(0);
            Ok(rows::number::<Micros>(
                call.ret,
                Nulls::GiveNull,
                move |row| {
                    let Some(unscaled) = row.decimal(0) else {
                        return Ok(None);
                    };
                    let micros = match scale {
                        0..=6 => unscaled.checked_mul(10i128.pow(6 - scale)),
                        _ => {
                            let unit = 10i128.pow((scale - 6).min(38));
                            (unscaled % unit == 0).then(|| unscaled / unit)
                        }
                    };
                    let micros = micros.and_then(|micros| i64::try_from(micros).ok());
                    micros.map(Some).ok_or_else(SparkError::long_overflow)
                },
            ))
        }
        [DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64] => {
            Ok(rows::number::<Micros>(call.ret, Nulls::GiveNull, |row| {
                let Some(seconds) = row.long(0) else {
                    return Ok(None);
                };
                let micros = seconds.checked_mul(MICROS_PER_SECOND);
                micros.map(Some).ok_or_else(SparkError::long_overflow)
            }))
        }
        _ => Err(call.bad_types()),
    }
}
