//! Strings, less used: distance, sound, lists in texts, numbers as text.

use std::fmt::Write;

use arrow::datatypes::{DataType, Int32Type};
use coffer_protocol::plan::FloatText;

use crate::{
    SparkError, Unsupported, format,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    rows::{self, Nulls},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("sound_ex", Fallible::Never, sound_ex),
    entry("levenshtein", Fallible::Never, levenshtein),
    entry("find_in_set", Fallible::Never, find_in_set),
    entry("overlay", Fallible::Never, overlay),
    entry("elt", Fallible::Ansi, elt),
    entry("quote", Fallible::Never, quote),
    entry("luhn_check", Fallible::Always, luhn_check),
    entry("format_number", Fallible::Always, format_number),
    entry("split_part", Fallible::Always, split_part),
    entry("empty_to_null", Fallible::Never, empty_to_null),
    entry("raise_error", Fallible::Always, raise_error),
];

type Built = Result<Kernel, Unsupported>;

const UTF8: DataType = DataType::Utf8;

/// The digit of each letter; 7: as if it were not there.
const SOUNDS: &[u8; 26] = b"01230127022455012623017202";

fn sound_ex(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8], &UTF8)?;
    Ok(rows::text(Nulls::GiveNull, |row, out| {
        let Some(text) = row.text(0) else {
            return Ok(None);
        };
        let sound = |byte: u8| {
            let index = usize::from(byte.to_ascii_uppercase()).checked_sub(usize::from(b'A'));
            SOUNDS.get(index.unwrap_or(usize::MAX)).copied()
        };
        let first = text.bytes().next().filter(u8::is_ascii_alphabetic);
        let Some(mut last) = first.and_then(sound) else {
            out.push_str(text);
            return Ok(Some(()));
        };
        out.extend(first.map(|byte| char::from(byte.to_ascii_uppercase())));
        for byte in text.bytes().skip(1) {
            match sound(byte).filter(|_| byte.is_ascii_alphabetic()) {
                None => last = b'0',
                Some(b'7') => {}
                Some(code) => {
                    if code != b'0' && code != last {
                        out.push(code.into());
                        if out.len() > 3 {
                            break;
                        }
                    }
                    last = code;
                }
            }
        }
        while out.len() < 4 {
            out.push('0');
        }
        Ok(Some(()))
    }))
}

fn levenshtein(call: &CallInfo<'_>) -> Built {
    let bounded = match call.types {
        [DataType::Utf8, DataType::Utf8] => false,
        [DataType::Utf8, DataType::Utf8, DataType::Int32] => true,
        _ => return Err(call.bad_types()),
    };
    Ok(rows::number::<Int32Type>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let (Some(left), Some(right)) = (row.text(0), row.text(1)) else {
                return Ok(None);
            };
            let found = distance(left, right);
            let bound = if bounded { row.long(2) } else { None };
            Ok(Some(match bound {
                Some(bound) if i64::from(found) > bound => -1,
                _ => found,
            }))
        },
    ))
}

fn distance(left: &str, right: &str) -> i32 {
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<i32> = (0..).take(right.len() + 1).collect();
    let mut now = before.clone();
    for (row, a) in (1..).zip(left.chars()) {
        let mut diagonal = row - 1;
        let mut last = row;
        if let Some(first) = now.first_mut() {
            *first = row;
        }
        let cells = now
            .iter_mut()
            .skip(1)
            .zip(before.iter().skip(1))
            .zip(&right);
        for ((cell, above), b) in cells {
            let replaced = diagonal + i32::from(a != *b);
            *cell = replaced.min(above + 1).min(last + 1);
            (diagonal, last) = (*above, *cell);
        }
        std::mem::swap(&mut before, &mut now);
    }
    before.last().copied().unwrap_or(0)
}

fn find_in_set(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8, UTF8], &DataType::Int32)?;
    Ok(rows::number::<Int32Type>(
        call.ret,
        Nulls::GiveNull,
        |row| {
            let (Some(word), Some(set)) = (row.text(0), row.text(1)) else {
                return Ok(None);
            };
            if word.contains(',') {
                return Ok(Some(0));
            }
            let found = set.split(',').position(|item| item == word);
            Ok(Some(
                found.and_then(|at| i32::try_from(at + 1).ok()).unwrap_or(0),
            ))
        },
    ))
}

/// `substringSQL`: from a place that counts from 1, or from the end, so many.
fn bounds(count: usize, start: i64, length: i64) -> (usize, usize) {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let begin = match start {
        1.. => start - 1,
        0 => 0,
        _ => count + start,
    };
    let end = begin + length;
    let inside = |at: i64| usize::try_from(at.clamp(0, count)).unwrap_or(0);
    (inside(begin), inside(end).max(inside(begin)))
}

/// Positions are Java's ints, and wrap like those.
fn int(value: i64) -> i64 {
    i64::from(value as i32)
}

fn overlay(call: &CallInfo<'_>) -> Built {
    let [of, with, DataType::Int32, DataType::Int32] = call.types else {
        return Err(call.bad_types());
    };
    if of != with || of != call.ret {
        return Err(call.bad_types());
    }
    match of {
        DataType::Utf8 => Ok(rows::text(Nulls::GiveNull, |row, out| {
            let (Some(text), Some(with), Some(at), Some(length)) =
                (row.text(0), row.text(1), row.long(2), row.long(3))
            else {
                return Ok(None);
            };
            let count = text.chars().count();
            let replaced = i64::try_from(with.chars().count()).unwrap_or(i64::MAX);
            let length = if length >= 0 { length } else { replaced };
            let (begin, end) = bounds(count, 1, int(at - 1));
            out.extend(text.chars().skip(begin).take(end - begin));
            out.push_str(with);
            let (begin, end) = bounds(count, int(at + length), i64::from(i32::MAX));
            out.extend(text.chars().skip(begin).take(end - begin));
            Ok(Some(()))
        })),
        DataType::Binary => Ok(rows::bytes(Nulls::GiveNull, |row, out| {
            let (Some(bytes), Some(with), Some(at), Some(length)) =
                (row.bytes(0), row.bytes(1), row.long(2), row.long(3))
            else {
                return Ok(None);
            };
            let replaced = i64::try_from(with.len()).unwrap_or(i64::MAX);
            let length = if length >= 0 { length } else { replaced };
            let (begin, end) = bounds(bytes.len(), 1, int(at - 1));
            out.extend(bytes.get(begin..end).unwrap_or_default());
            out.extend(with);
            let (begin, _) = bounds(bytes.len(), int(at + length), i64::from(i32::MAX));
            out.extend(bytes.get(begin..).unwrap_or_default());
            Ok(Some(()))
        })),
        _ => Err(call.bad_types()),
    }
}

fn elt(call: &CallInfo<'_>) -> Built {
    let [DataType::Int32, rest @ ..] = call.types else {
        return Err(call.bad_types());
    };
    let of_ret = rest.iter().all(|t| t == call.ret);
    if rest.is_empty() || !of_ret {
        return Err(call.bad_types());
    }
    let ansi = call.ansi();
    let chosen = move |index: Option<i64>, count: usize| -> rows::Given<usize> {
        let Some(index) = index else {
            return Ok(None);
        };
        match usize::try_from(index)
            .ok()
            .filter(|at| (1..=count).contains(at))
        {
            Some(at) => Ok(Some(at)),
            None if ansi => {
                let index = i32::try_from(index).unwrap_or(0);
                Err(SparkError::array_index(index, count))
            }
            None => Ok(None),
        }
    };
    match call.ret {
        DataType::Utf8 => Ok(rows::text(Nulls::AreGiven, move |row, out| {
            let at = chosen(row.long(0), row.len() - 1)?;
            Ok(at
                .and_then(|at| row.text(at))
                .map(|text| out.push_str(text)))
        })),
        DataType::Binary => Ok(rows::bytes(Nulls::AreGiven, move |row, out| {
            let at = chosen(row.long(0), row.len() - 1)?;
            Ok(at
                .and_then(|at| row.bytes(at))
                .map(|bytes| out.extend(bytes)))
        })),
        _ => Err(call.bad_types()),
    }
}

fn quote(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8], &UTF8)?;
    Ok(rows::text(Nulls::GiveNull, |row, out| {
        Ok(row.text(0).map(|text| {
            out.push('\'');
            out.push_str(&text.replace('\'', "\\'"));
            out.push('\'');
        }))
    }))
}

fn luhn_check(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8], &DataType::Boolean)?;
    Ok(rows::truth(Nulls::GiveNull, |row| {
        let Some(text) = row.text(0) else {
            return Ok(None);
        };
        let mut sum = 0;
        for (place, c) in text.chars().rev().enumerate() {
            let Some(digit) = c.to_digit(10) else {
                // Java also reads the digits of other scripts, and we do not.
                return match !c.is_ascii() && c.is_numeric() {
                    true => Err(SparkError::new(
                        "UNSUPPORTED_DIGITS",
                        "luhn_check reads no digits but 0 to 9",
                    )),
                    false => Ok(Some(false)),
                };
            };
            let value = if place % 2 == 1 { digit * 2 } else { digit };
            sum += value / 10 + value % 10;
        }
        Ok(Some(!text.is_empty() && sum % 10 == 0))
    }))
}

const MOST_PLACES: usize = 340;

/// Java's DecimalFormat of `#,##0.00`: groups of three, so many digits after the point, half to
/// even.
fn format_number(call: &CallInfo<'_>) -> Built {
    let [from, DataType::Int32] = call.types else {
        return Err(call.bad_types());
    };
    if *call.ret != UTF8 {
        return Err(call.bad_types());
    }
    let from = from.clone();
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let Some(places) = row.long(1).and_then(|n| usize::try_from(n).ok()) else {
            return Ok(None);
        };
        // DecimalFormat writes no more digits than this after the point, but of a BigDecimal.
        if places > MOST_PLACES && matches!(from, DataType::Decimal128(..)) {
            return Err(SparkError::new(
                "UNSUPPORTED_DIGITS",
                "format_number of a DECIMAL writes no more than 340 digits after the point",
            ));
        }
        let places = places.min(MOST_PLACES);
        let (negative, digits) = match &from {
            DataType::Float32 | DataType::Float64 => {
                let Some(value) = row.double(0) else {
                    return Ok(None);
                };
                if value.is_nan() {
                    out.push_str("NaN");
                    return Ok(Some(()));
                }
                if value.is_infinite() {
                    out.push_str(if value < 0.0 { "-∞" } else { "∞" });
                    return Ok(Some(()));
                }
                (value.is_sign_negative(), fixed(value.abs(), places))
            }
            DataType::Decimal128(_, scale) => {
                let Some(value) = row.decimal(0) else {
                    return Ok(None);
                };
                let scale = usize::try_from(*scale).unwrap_or(0);
                (value < 0, rounded(value.unsigned_abs(), scale, places))
            }
            _ => {
                let Some(value) = row.long(0) else {
                    return Ok(None);
                };
                (value < 0, rounded(value.unsigned_abs().into(), 0, places))
            }
        };
        if negative {
            out.push('-');
        }
        let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
        for (place, digit) in whole.char_indices() {
            if place > 0 && (whole.len() - place) % 3 == 0 {
                out.push(',');
            }
            out.push(digit);
        }
        if places > 0 {
            out.push('.');
            out.push_str(fraction);
        }
        Ok(Some(()))
    }))
}

/// A double's digits as DecimalFormat has them, cut to so many places. It kept the digits that
/// JDK 19 changed elsewhere.
fn fixed(value: f64, places: usize) -> String {
    let mut text = format::scientific(value, FloatText::Jdk18);
    let exponent = text.find(['E', 'e']).map(|at| text.split_off(at));
    let exponent: i64 = exponent.and_then(|e| e.get(1..)?.parse().ok()).unwrap_or(0);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = if fraction == "0" { "" } else { fraction };
    let after = i64::try_from(fraction.len()).unwrap_or(0) - exponent;
    if after > i64::try_from(places).unwrap_or(i64::MAX) {
        return format!("{value:.places$}");
    }
    let digits = format!("{whole}{fraction}");
    let zeros = |n: i64| "0".repeat(usize::try_from(n).unwrap_or(0));
    let (before, behind) = match usize::try_from(after) {
        Ok(after) if after < digits.len() => {
            let (before, behind) = digits.split_at(digits.len() - after);
            (before.to_owned(), behind.to_owned())
        }
        Ok(after) => ("0".to_owned(), "0".repeat(after - digits.len()) + &digits),
        Err(_) => (digits + &zeros(-after), String::new()),
    };
    let before = before.trim_start_matches('0');
    let before = if before.is_empty() { "0" } else { before };
    format!("{before}.{behind:0<places$}")
}

fn rounded(unscaled: u128, scale: usize, places: usize) -> String {
    let mut value = unscaled;
    let mut scale_left = scale;
    if scale > places {
        let unit = 10u128.checked_pow(u32::try_from(scale - places).unwrap_or(u32::MAX));
        let unit = unit.unwrap_or(u128::MAX);
        let (whole, rest) = (value / unit, value % unit);
        let up = rest * 2 > unit || (rest * 2 == unit && whole % 2 == 1);
        value = whole + u128::from(up);
        scale_left = places;
    }
    let mut text = String::new();
    let _ = write!(text, "{value:0>width$}", width = scale_left + 1);
    let fraction = text.split_off(text.len() - scale_left);
    format!("{text}.{fraction:0<places$}")
}

fn split_part(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8, UTF8, DataType::Int32], &UTF8)?;
    Ok(rows::text(Nulls::GiveNull, |row, out| {
        let (Some(text), Some(between), Some(part)) = (row.text(0), row.text(1), row.long(2))
        else {
            return Ok(None);
        };
        if part == 0 {
            return Err(SparkError::index_of_zero());
        }
        let at = usize::try_from(part.unsigned_abs() - 1).unwrap_or(usize::MAX);
        let found = match (between.is_empty(), part > 0) {
            (true, _) => Some(text).filter(|_| at == 0),
            (false, true) => text.split(between).nth(at),
            (false, false) => {
                let parts: Vec<&str> = text.split(between).collect();
                parts.into_iter().rev().nth(at)
            }
        };
        out.push_str(found.unwrap_or(""));
        Ok(Some(()))
    }))
}

fn empty_to_null(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8], &UTF8)?;
    Ok(rows::text(Nulls::GiveNull, |row, out| {
        Ok(row
            .text(0)
            .filter(|text| !text.is_empty())
            .map(|text| out.push_str(text)))
    }))
}

/// The message of an error that the query raises by itself.
fn raise_error(call: &CallInfo<'_>) -> Built {
    let [DataType::Utf8] = call.types else {
        return Err(call.bad_types());
    };
    let ret = call.ret.clone();
    Ok(std::sync::Arc::new(
        move |args: &[datafusion_expr::ColumnarValue], rows| {
            let message = crate::vector::array(crate::vector::argument(args, 0)?, rows)?;
            let message = arrow::array::AsArray::as_string_opt::<i32>(&message)
                .and_then(|texts| texts.iter().next().flatten())
                .unwrap_or("null");
            match rows {
                0 => Ok(crate::vector::all_null(&ret, rows)),
                _ => Err(SparkError::new("USER_RAISED_EXCEPTION", message).into()),
            }
        },
    ))
}
