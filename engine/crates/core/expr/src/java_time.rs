//! Java's patterns of dates and times, with the letters that need no locale but English names and
//! no zone: written and read.

use std::fmt::Write;

use arrow::datatypes::{DataType, Int64Type, TimestampMicrosecondType as Micros};
use datafusion_common::ScalarValue;

use crate::{
    SparkError, Unsupported,
    calendar::{self, MICROS_PER_DAY, MICROS_PER_SECOND},
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    instants::{DAYS, MONTHS},
    rows::{self, Given, Nulls},
    zone::Zone,
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("date_format_class", Fallible::Never, format_timestamp),
    entry("date_format", Fallible::Never, format_timestamp),
    entry("from_unix_time", Fallible::Never, from_unix_time),
    entry("get_timestamp", Fallible::Ansi, get_timestamp),
    entry("to_unix_timestamp", Fallible::Always, to_unix_timestamp),
];

type Built = Result<Kernel, Unsupported>;

/// A letter and how often it stands, or text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(char, usize),
}

fn pieces(pattern: &str) -> Option<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    let text = |pieces: &mut Vec<Piece>, c: char| match pieces.last_mut() {
        Some(Piece::Text(text)) => text.push(c),
        _ => pieces.push(Piece::Text(c.into())),
    };
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => match chars.next()? {
                '\'' => text(&mut pieces, '\''),
                first => {
                    let mut inside = Some(first);
                    while let Some(c) = inside {
                        match c {
                            '\'' if chars.next_if_eq(&'\'').is_some() => text(&mut pieces, '\''),
                            '\'' => break,
                            c => text(&mut pieces, c),
                        }
                        inside = Some(chars.next()?);
                    }
                }
            },
            'a'..='z' | 'A'..='Z' => {
                let mut count = 1;
                while chars.next_if_eq(&c).is_some() {
                    count += 1;
                }
                let known = match c {
                    'y' => count <= 6,
                    'M' | 'L' | 'E' => count <= 4,
                    'd' | 'H' | 'h' | 'K' | 'k' | 'm' | 's' => count <= 2,
                    'Q' => count <= 2,
                    'D' => count <= 3,
                    'S' => count <= 9,
                    'a' => count == 1,
                    _ => false,
                };
                if !known {
                    return None;
                }
                pieces.push(Piece::Field(c, count));
            }
            '[' | ']' | '{' | '}' | '#' => return None,
            c => text(&mut pieces, c),
        }
    }
    Some(pieces)
}

fn pattern(call: &CallInfo<'_>, reading: bool) -> Result<Option<Vec<Piece>>, Unsupported> {
    let text = match call.literal(1)? {
        ScalarValue::Utf8(Some(text)) => text,
        _ => return Ok(None),
    };
    let known = pieces(text).filter(|pieces| {
        !reading
            || pieces.iter().all(|piece| match piece {
                Piece::Field('y', count) => *count == 4,
                Piece::Field(letter, _) => "MdHhmsSa".contains(*letter),
                Piece::Text(_) => true,
            })
    });
    known
        .map(Some)
        .ok_or_else(|| call.unsupported(format!("the pattern {text:?}")))
}

fn write(pieces: &[Piece], local: i64, out: &mut String) {
    let (days, of_day) = calendar::split_micros(local);
    let (year, month, day) = calendar::civil(days);
    let seconds = of_day / MICROS_PER_SECOND;
    let hour = seconds / 3_600;
    for piece in pieces {
        let (letter, width) = match piece {
            Piece::Text(text) => {
                out.push_str(text);
                continue;
            }
            Piece::Field(letter, width) => (*letter, *width),
        };
        let month_name = MONTHS.get(month as usize - 1).copied().unwrap_or("");
        let day_name = DAYS
            .get(calendar::iso_weekday(days) as usize - 1)
            .copied()
            .unwrap_or("");
        let number = match (letter, width) {
            ('y', 2) => year.abs() % 100,
            ('y', _) => {
                // Java's `SignStyle.EXCEEDS_PAD` from four letters on, before them `NORMAL`.
                let beyond = 10i64.pow(u32::try_from(width).unwrap_or_default());
                let sign = match year {
                    ..0 => "-",
                    _ if width >= 4 && year >= beyond => "+",
                    _ => "",
                };
                let _ = write!(out, "{sign}{:0width$}", year.abs());
                continue;
            }
            ('M' | 'L', 1 | 2) => month.into(),
            ('M' | 'L', 3) => {
                out.push_str(month_name.get(..3).unwrap_or(month_name));
                continue;
            }
            ('M' | 'L', _) => {
                out.push_str(month_name);
                continue;
            }
            ('E', 4) => {
                out.push_str(day_name);
                continue;
            }
            ('E', _) => {
                out.push_str(day_name.get(..3).unwrap_or(day_name));
                continue;
            }
            ('a', _) => {
                out.push_str(if hour < 12 { "AM" } else { "PM" });
                continue;
            }
            ('S', _) => {
                let digits = format!("{:06}000", of_day % MICROS_PER_SECOND);
                out.push_str(digits.get(..width).unwrap_or(&digits));
                continue;
            }
            ('d', _) => day.into(),
            ('D', _) => days - calendar::days_from_civil(year, 1, 1) + 1,
            ('Q', _) => i64::from(month.div_ceil(3)),
            ('H', _) => hour,
            ('k', _) => (hour + 23) % 24 + 1,
            ('K', _) => hour % 12,
            ('h', _) => (hour + 11) % 12 + 1,
            ('m', _) => seconds / 60 % 60,
            _ => seconds % 60,
        };
        let _ = write!(out, "{number:0width$}");
    }
}

/// (timestamp, pattern).
fn format_timestamp(call: &CallInfo<'_>) -> Built {
    let ([from @ DataType::Timestamp(..), DataType::Utf8], DataType::Utf8) = (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    let (zone, pieces) = (call.reading_zone(from)?, pattern(call, false)?);
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let known = row.long(0).zip(pieces.as_ref());
        Ok(known.map(|(micros, pieces)| write(pieces, zone.to_local(micros), out)))
    }))
}

/// (seconds, pattern).
fn from_unix_time(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Int64, DataType::Utf8], &DataType::Utf8)?;
    let (zone, pieces) = (Zone::of(call.zone)?, pattern(call, false)?);
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let known = row.long(0).zip(pieces.as_ref());
        Ok(known.map(|(seconds, pieces)| {
            let micros = seconds.wrapping_mul(MICROS_PER_SECOND);
            write(pieces, zone.to_local(micros), out);
        }))
    }))
}

/// The digits of a number: at least and at most so many, and so many left for what follows.
fn digits(text: &str, min: usize, max: usize, after: usize) -> Option<(i64, &str, usize)> {
    let there = text
        .bytes()
        .take(max + after)
        .take_while(u8::is_ascii_digit)
        .count();
    let length = there.saturating_sub(after).max(min).min(there);
    let (number, rest) = text.split_at_checked(length)?;
    (length >= min && length > 0).then_some(())?;
    Some((number.parse().ok()?, rest, length))
}

/// `text` without `prefix`, whatever the case of ASCII's letters.
fn without<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// A wall clock's microseconds, of a text that the whole pattern matches and that is a date.
fn read(pieces: &[Piece], text: &str) -> Option<i64> {
    let mut rest = text;
    let (mut year, mut month, mut day) = (1970, 1, 1);
    let (mut hour, mut half, mut clock) = (None, None, None);
    let (mut minute, mut second, mut micros) = (0, 0, 0);
    for (index, piece) in pieces.iter().enumerate() {
        let (letter, width) = match piece {
            Piece::Text(text) => {
                rest = without(rest, text)?;
                continue;
            }
            Piece::Field(letter, width) => (*letter, *width),
        };
        // What comes next without anything between, of fixed width; of several digits of a fraction
        // some may be missing.
        let after: usize = pieces
            .iter()
            .skip(index + 1)
            .map_while(|piece| match piece {
                Piece::Field('M' | 'd' | 'H' | 'h' | 'm' | 's', 2) => Some(2),
                Piece::Field('S', 1) => Some(1),
                _ => None,
            })
            .sum();
        let fixed = |rest| match width {
            2 => digits(rest, 2, 2, 0),
            _ => digits(rest, 1, 19, after),
        };
        match (letter, width) {
            ('y', _) => {
                let negative = rest.strip_prefix('-');
                let positive = rest.strip_prefix('+');
                let unsigned = negative.or(positive).unwrap_or(rest);
                let (value, tail, length) = digits(unsigned, 4, 19, after)?;
                let right = match (negative.is_some(), positive.is_some()) {
                    (true, _) => value != 0,
                    (_, true) => length > 4,
                    _ => length == 4,
                };
                if !right || value > 999_999_999 {
                    return None;
                }
                year = if negative.is_some() { -value } else { value };
                rest = tail;
            }
            ('M', 3 | 4) => {
                let named = |name: &&str| {
                    let name = if width == 3 { name.get(..3)? } else { name };
                    without(rest, name)
                };
                let found = MONTHS.iter().enumerate();
                let (index, tail) = found
                    .filter_map(|(index, name)| Some((index, named(name)?)))
                    .next()?;
                (month, rest) = (i64::try_from(index).ok()? + 1, tail);
            }
            ('a', _) => {
                let (afternoon, tail) = match without(rest, "AM") {
                    Some(tail) => (0, tail),
                    None => (12, without(rest, "PM")?),
                };
                (half, rest) = (Some(afternoon), tail);
            }
            ('S', _) => {
                let (value, tail, length) = digits(rest, 1, width, 0)?;
                let nanos = value * 10i64.pow(9u32.checked_sub(u32::try_from(length).ok()?)?);
                (micros, rest) = (nanos / 1_000, tail);
            }
            _ => {
                let (value, tail, _) = fixed(rest)?;
                rest = tail;
                match letter {
                    'M' => month = value,
                    'd' => day = value,
                    'H' => hour = Some(value),
                    'h' => clock = Some(value),
                    'm' => minute = value,
                    _ => second = value,
                }
            }
        }
    }
    let hour = match (hour, clock) {
        (Some(hour), _) => hour,
        (None, Some(clock)) => {
            (1..=12).contains(&clock).then_some(())?;
            clock % 12 + half.unwrap_or(0)
        }
        (None, None) => half.unwrap_or(0),
    };
    let right = rest.is_empty()
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second);
    right.then_some(())?;
    let days = calendar::checked_date(year, month, day)?;
    let of_day = ((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND + micros;
    days.checked_mul(MICROS_PER_DAY)?.checked_add(of_day)
}

/// A reader of texts as instants, in microseconds.
fn reader(
    call: &CallInfo<'_>,
    zone: Zone,
) -> Result<impl Fn(&str) -> Given<i64> + Send + Sync + 'static, Unsupported> {
    let (pieces, ansi) = (pattern(call, true)?, call.ansi());
    Ok(move |text: &str| {
        let Some(pieces) = &pieces else {
            return Ok(None);
        };
        match read(pieces, text).and_then(|local| zone.to_instant(local)) {
            Some(micros) => Ok(Some(micros)),
            None if ansi => Err(SparkError::new(
                "CANNOT_PARSE_TIMESTAMP",
                "The text could not be parsed as a timestamp. Use `try_to_timestamp` to tolerate \
                 invalid input string and return NULL instead.",
            )),
            None => Ok(None),
        }
    })
}

/// A reader of texts as times of day, by a pattern, the call's second argument, that has nothing
/// but such in it.
pub(crate) fn clock_reader(
    call: &CallInfo<'_>,
) -> Result<impl Fn(&str) -> Option<i64> + Send + Sync + 'static, Unsupported> {
    let pieces = pattern(call, true)?.unwrap_or_default();
    let clock = |piece: &Piece| match piece {
        Piece::Text(_) => true,
        Piece::Field('S', width) => *width <= 6,
        Piece::Field(letter, _) => "Hhmsa".contains(*letter),
    };
    match pieces.iter().all(clock) {
        // Of a pattern without a date the day is the epoch's.
        true => Ok(move |text: &str| read(&pieces, text)),
        false => Err(call.unsupported("a pattern of more than a time of day")),
    }
}

/// (text, pattern) to a timestamp.
fn get_timestamp(call: &CallInfo<'_>) -> Built {
    let ([DataType::Utf8, DataType::Utf8], DataType::Timestamp(..)) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    let read = reader(call, call.reading_zone(call.ret)?)?;
    Ok(rows::number::<Micros>(
        call.ret,
        Nulls::GiveNull,
        move |row| row.text(0).map_or(Ok(None), &read),
    ))
}

/// (text, date or timestamp; pattern) to seconds.
fn to_unix_timestamp(call: &CallInfo<'_>) -> Built {
    let ([from, DataType::Utf8], DataType::Int64) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    match from {
        DataType::Utf8 => {
            let read = reader(call, Zone::of(call.zone)?)?;
            Ok(rows::number::<Int64Type>(
                call.ret,
                Nulls::GiveNull,
                move |row| {
                    let micros = row.text(0).map_or(Ok(None), &read)?;
                    Ok(micros.map(|micros| micros / MICROS_PER_SECOND))
                },
            ))
        }
        DataType::Timestamp(..) => Ok(rows::number::<Int64Type>(
            call.ret,
            Nulls::AreGiven,
            |row| Ok(row.long(0).map(|micros| micros / MICROS_PER_SECOND)),
        )),
        DataType::Date32 => {
            let zone = Zone::of(call.zone)?;
            Ok(rows::number::<Int64Type>(
                call.ret,
                Nulls::AreGiven,
                move |row| {
                    let Some(days) = row.long(0) else {
                        return Ok(None);
                    };
                    let micros = zone.to_instant(days * MICROS_PER_DAY);
                    let micros = micros.ok_or_else(SparkError::long_overflow)?;
                    Ok(Some(micros / MICROS_PER_SECOND))
                },
            ))
        }
        _ => Err(call.bad_types()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written() {
        let text = |pattern, micros| {
            let mut out = String::new();
            write(&pieces(pattern).unwrap(), micros, &mut out);
            out
        };
        assert_eq!(
            text("yyyy-MM-dd HH:mm:ss.SSS", -1_000),
            "1969-12-31 23:59:59.999"
        );
        assert_eq!(text("d/M/yyyy 'o''clock' h a", 0), "1/1/1970 o'clock 12 AM");
        let beyond = calendar::days_from_civil(12_345, 1, 1) * MICROS_PER_DAY;
        let years = "y yyy yyyy yyyyy yyyyyy";
        assert_eq!(text(years, 0), "1970 1970 1970 01970 001970");
        assert_eq!(text(years, beyond), "12345 12345 +12345 12345 012345");
        for pattern in ["G", "yyyyyyy", "'open", "[yyyy]", "VV", "xxx"] {
            assert!(pieces(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn read_strictly() {
        let read = |pattern, text| read(&pieces(pattern).unwrap(), text);
        assert_eq!(
            read("yyyyMMddHHmmss", "19700102000001"),
            Some(86_401_000_000)
        );
        assert_eq!(read("hh:mm a", "12:30 am"), Some(30 * 60_000_000));
        for text in [
            "1970-1-01",
            "1970-02-29",
            "11970-01-01",
            "1970-01-01 ",
            "1970-01-0",
        ] {
            assert_eq!(read("yyyy-MM-dd", text), None, "{text}");
        }
    }
}
