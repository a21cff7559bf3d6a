//! Parts of strings by position. Positions count from 1; 0 and negative ones follow Spark's
//! `substringSQL`.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, BinaryArray, Int32Array},
    datatypes::DataType,
};

use super::{Built, build, int, ints, texts};
use crate::{
    function::CallInfo,
    vector::{argument, array},
};

/// Start (from 0) and end of the part, in characters, for a text of `length` characters.
fn range(position: i32, count: i32, length: i32) -> (i32, i32) {
    let start = match position {
        1.. => position - 1,
        0 => 0,
        _ => length.saturating_add(position),
    };
    let end = start.saturating_add(count);
    // A start before the text counts against the length.
    (start.max(0), end)
}

/// As [`range`] for bytes, with what Spark's 32 bit subtraction makes of positions far before the
/// start.
fn byte_range(position: i32, count: i32, length: i32) -> (i32, i32) {
    let start = match position {
        1.. => position - 1,
        0 => 0,
        _ => length.wrapping_add(position),
    };
    let end = if length.wrapping_sub(start) < count {
        length
    } else {
        start.saturating_add(count)
    };
    (start.max(0), end)
}

fn slice(text: &str, start: i32, end: i32) -> &str {
    if end <= start {
        return "";
    }
    let from = byte_of(text, start);
    let to = byte_of(text, end);
    text.get(from..to).unwrap_or_default()
}

/// The byte at which the n-th character starts; the text's length past its end.
fn byte_of(text: &str, n: i32) -> usize {
    let n = usize::try_from(n).unwrap_or(0);
    if text.is_ascii() {
        return n.min(text.len());
    }
    text.char_indices()
        .nth(n)
        .map_or(text.len(), |(byte, _)| byte)
}

fn chars(text: &str) -> i32 {
    i32::try_from(text.chars().count()).unwrap_or(i32::MAX)
}

pub(super) fn substring(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([DataType::Utf8, DataType::Int32, DataType::Int32], DataType::Utf8) => {
            Ok(Arc::new(|args, rows| {
                let (values, positions, counts) =
                    (texts(args, 0)?, ints(args, 1, rows)?, ints(args, 2, rows)?);
                build(rows, |row, out| {
                    match (values.get(row), int(&positions, row), int(&counts, row)) {
                        (Some(text), Some(position), Some(count)) => {
                            let length = if position < 0 { chars(text) } else { 0 };
                            let (start, end) = range(position, count, length);
                            out.push_str(slice(text, start, end));
                            true
                        }
                        _ => false,
                    }
                })
            }))
        }
        ([DataType::Binary, DataType::Int32, DataType::Int32], DataType::Binary) => {
            Ok(Arc::new(|args, rows| {
                let values = array(argument(args, 0)?, rows)?;
                let values = values.as_binary::<i32>();
                let (positions, counts) = (ints(args, 1, rows)?, ints(args, 2, rows)?);
                let parts: BinaryArray = (values.iter().enumerate())
                    .map(|(row, bytes)| {
                        let (bytes, position, count) =
                            (bytes?, int(&positions, row)?, int(&counts, row)?);
                        let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
                        let (start, end) = byte_range(position, count, length);
                        let (start, end) = (
                            usize::try_from(start).unwrap_or(0),
                            usize::try_from(end.min(length)).unwrap_or(0),
                        );
                        Some(bytes.get(start..end).unwrap_or_default())
                    })
                    .collect();
                Ok(Arc::new(parts) as ArrayRef)
            }))
        }
        _ => Err(call.bad_types()),
    }
}

pub(super) fn left(call: &CallInfo<'_>) -> Built {
    part(call, |text, count| slice(text, 0, count))
}

pub(super) fn right(call: &CallInfo<'_>) -> Built {
    part(call, |text, count| match count {
        ..=0 => "",
        _ => {
            let length = chars(text);
            slice(text, length.saturating_sub(count).max(0), length)
        }
    })
}

fn part(call: &CallInfo<'_>, f: fn(&str, i32) -> &str) -> Built {
    let ([DataType::Utf8, DataType::Int32], DataType::Utf8) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    Ok(Arc::new(move |args, rows| {
        let (values, counts) = (texts(args, 0)?, ints(args, 1, rows)?);
        build(rows, |row, out| {
            match (values.get(row), int(&counts, row)) {
                (Some(text), Some(count)) => {
                    out.push_str(f(text, count));
                    true
                }
                _ => false,
            }
        })
    }))
}

/// What stands before the n-th delimiter; with n < 0, after the n-th from the right.
pub(super) fn substring_index(call: &CallInfo<'_>) -> Built {
    let ([DataType::Utf8, DataType::Utf8, DataType::Int32], DataType::Utf8) =
        (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    Ok(Arc::new(|args, rows| {
        let (values, delimiters, counts) = (texts(args, 0)?, texts(args, 1)?, ints(args, 2, rows)?);
        build(rows, |row, out| {
            match (values.get(row), delimiters.get(row), int(&counts, row)) {
                (Some(text), Some(delimiter), Some(count)) => {
                    out.push_str(before_delimiter(text, delimiter, count));
                    true
                }
                _ => false,
            }
        })
    }))
}

/// Spark searches on from the byte after a match's start, so matches may overlap.
fn before_delimiter<'a>(text: &'a str, delimiter: &str, count: i32) -> &'a str {
    if delimiter.is_empty() || count == 0 {
        return "";
    }
    let (bytes, wanted) = (text.as_bytes(), delimiter.as_bytes());
    let mut starts =
        (0..bytes.len()).filter(|start| bytes.get(*start..).is_some_and(|b| b.starts_with(wanted)));
    let nth = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) - 1;
    if count > 0 {
        starts
            .nth(nth)
            .and_then(|start| text.get(..start))
            .unwrap_or(text)
    } else {
        starts
            .rev()
            .nth(nth)
            .and_then(|start| text.get(start + delimiter.len()..))
            .unwrap_or(text)
    }
}

/// The first position of the second argument in the first; 0 if there is none.
pub(super) fn instr(call: &CallInfo<'_>) -> Built {
    let ([DataType::Utf8, DataType::Utf8], DataType::Int32) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    Ok(Arc::new(|args, rows| {
        let (values, parts) = (texts(args, 0)?, texts(args, 1)?);
        let found: Int32Array = (0..rows)
            .map(|row| {
                let (text, part) = (values.get(row)?, parts.get(row)?);
                Some(
                    text.find(part)
                        .and_then(|at| text.get(..at))
                        .map_or(0, |before| chars(before) + 1),
                )
            })
            .collect();
        Ok(Arc::new(found) as ArrayRef)
    }))
}

/// locate(part, text, start): as [`instr`] from a position on. A NULL start gives 0, one below 1
/// too.
pub(super) fn locate(call: &CallInfo<'_>) -> Built {
    let ([DataType::Utf8, DataType::Utf8, DataType::Int32], DataType::Int32) =
        (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    Ok(Arc::new(|args, rows| {
        let (parts, values, starts) = (texts(args, 0)?, texts(args, 1)?, ints(args, 2, rows)?);
        let found: Int32Array = (0..rows)
            .map(|row| {
                let Some(start) = int(&starts, row) else {
                    return Some(0);
                };
                let (part, text) = (parts.get(row)?, values.get(row)?);
                if start < 1 {
                    return Some(0);
                }
                // Spark finds the empty text at once, wherever the search begins.
                if part.is_empty() {
                    return Some(1);
                }
                let skipped = byte_of(text, start - 1);
                let rest = text.get(skipped..).unwrap_or_default();
                Some(
                    rest.find(part)
                        .and_then(|at| rest.get(..at))
                        .map_or(0, |before| chars(before) + start),
                )
            })
            .collect();
        Ok(Arc::new(found) as ArrayRef)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spark_s_positions() {
        let part = |text: &'static str, position, count| {
            let (start, end) = range(position, count, chars(text));
            slice(text, start, end)
        };
        assert_eq!(part("Spark SQL", 5, i32::MAX), "k SQL");
        assert_eq!(part("Spark SQL", -3, 3), "SQL");
        assert_eq!(part("abc", 0, 2), "ab");
        assert_eq!(part("abc", -5, 3), "a");
        assert_eq!(part("abc", -5, 2), "");
        assert_eq!(part("héé", 2, 1), "é");
        assert_eq!(part("abc", 4, 1), "");
        assert_eq!(part("abc", 2, -1), "");
    }

    #[test]
    fn delimiters_from_either_side() {
        assert_eq!(before_delimiter("www.apache.org", ".", 2), "www.apache");
        assert_eq!(before_delimiter("www.apache.org", ".", -2), "apache.org");
        assert_eq!(before_delimiter("www.apache.org", ".", 5), "www.apache.org");
        assert_eq!(before_delimiter("aaa", "aa", 2), "a");
    }
}
