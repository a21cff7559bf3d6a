//! Strings made from strings: case, padding, trimming, joining, replacing.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array},
    datatypes::{DataType, Int64Type},
};
use datafusion_common::Result;

use super::{Built, Texts, build, int, ints, parts, strings_only, texts};
use crate::{
    function::CallInfo,
    vector::{argument, array},
};

pub(super) fn upper(text: &str, out: &mut String) {
    if text.is_ascii() {
        out.push_str(text);
        out.make_ascii_uppercase();
    } else {
        out.push_str(&text.to_uppercase());
    }
}

pub(super) fn lower(text: &str, out: &mut String) {
    if text.is_ascii() {
        out.push_str(text);
        out.make_ascii_lowercase();
    } else {
        out.push_str(&text.to_lowercase());
    }
}

/// Words are what spaces separate: the first character in title case, the rest in lower case.
pub(super) fn init_cap(text: &str, out: &mut String) {
    let lowered = text.to_lowercase();
    let mut at_start = true;
    for c in lowered.chars() {
        if at_start {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
        at_start = c == ' ';
    }
}

/// The character of the low 8 bits; "" below 0.
pub(super) fn chr(call: &CallInfo<'_>) -> Built {
    let ([DataType::Int64], DataType::Utf8) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    Ok(Arc::new(|args, rows| {
        let values = array(argument(args, 0)?, rows)?;
        let values = values.as_primitive::<Int64Type>();
        build(rows, |row, out| {
            if values.is_null(row) {
                return false;
            }
            let value = values.value(row);
            if value >= 0 {
                out.push(char::from((value & 0xff) as u8));
            }
            true
        })
    }))
}

pub(super) fn concat(call: &CallInfo<'_>) -> Built {
    let count = call.types.len();
    if call.types.iter().all(|t| *t == DataType::Utf8) && *call.ret == DataType::Utf8 {
        return Ok(Arc::new(move |args, rows| {
            let parts = (0..count)
                .map(|index| texts(args, index))
                .collect::<Result<Vec<_>>>()?;
            build(rows, |row, out| {
                parts.iter().all(|part| match part.get(row) {
                    Some(text) => {
                        out.push_str(text);
                        true
                    }
                    None => false,
                })
            })
        }));
    }
    if call.types.iter().all(|t| *t == DataType::Binary) && *call.ret == DataType::Binary {
        return Ok(Arc::new(move |args, rows| {
            let parts = args
                .iter()
                .map(|arg| array(arg, rows))
                .collect::<Result<Vec<_>>>()?;
            let joined: BinaryArray = (0..rows)
                .map(|row| {
                    let mut bytes = Vec::new();
                    for part in &parts {
                        let part = part.as_binary::<i32>();
                        if part.is_null(row) {
                            return None;
                        }
                        bytes.extend_from_slice(part.value(row));
                    }
                    Some(bytes)
                })
                .collect();
            Ok(Arc::new(joined) as ArrayRef)
        }));
    }
    Err(call.bad_types())
}

/// Joins what is not NULL; NULL only if the separator is.
pub(super) fn concat_ws(call: &CallInfo<'_>) -> Built {
    let count = call.types.len();
    if count == 0 {
        return Err(call.bad_types());
    }
    strings_only(call, count, &DataType::Utf8)?;
    Ok(Arc::new(move |args, rows| {
        let separator = texts(args, 0)?;
        let parts = (1..count)
            .map(|index| texts(args, index))
            .collect::<Result<Vec<_>>>()?;
        build(rows, |row, out| {
            let Some(separator) = separator.get(row) else {
                return false;
            };
            for (index, part) in parts.iter().filter_map(|part| part.get(row)).enumerate() {
                if index > 0 {
                    out.push_str(separator);
                }
                out.push_str(part);
            }
            true
        })
    }))
}

/// Without a second argument spaces go, else every character that it holds.
pub(super) fn trim(call: &CallInfo<'_>, start: bool, end: bool) -> Built {
    let count = call.types.len();
    if !matches!(count, 1 | 2) {
        return Err(call.bad_types());
    }
    strings_only(call, count, &DataType::Utf8)?;
    Ok(Arc::new(move |args, rows| {
        let values = texts(args, 0)?;
        let removed = match count {
            2 => texts(args, 1)?,
            _ => Texts::One(Some(" ".into())),
        };
        let all_rows = match &removed {
            Texts::One(removed) => removed.as_deref().map(Removed::of),
            Texts::Array(_) => None,
        };
        parts(rows, |row| {
            let removed = match all_rows {
                Some(removed) => removed,
                None => Removed::of(removed.get(row)?),
            };
            Some(removed.from(values.get(row)?, start, end))
        })
    }))
}

/// Characters that go at the ends.
#[derive(Clone, Copy)]
enum Removed<'a> {
    /// A bit for each, as none is beyond ASCII.
    Ascii(u128),
    Any(&'a str),
}

impl<'a> Removed<'a> {
    fn of(characters: &'a str) -> Self {
        match characters.is_ascii() {
            true => Self::Ascii(characters.bytes().fold(0, |bits, b| bits | 1 << b)),
            false => Self::Any(characters),
        }
    }

    fn from(self, text: &str, start: bool, end: bool) -> &str {
        match self {
            // No byte of another character is one of ASCII's.
            Self::Ascii(bits) => {
                let stays = |b: &u8| !b.is_ascii() || bits >> b & 1 == 0;
                let bytes = text.as_bytes();
                let from = match start {
                    true => bytes.iter().position(stays).unwrap_or(bytes.len()),
                    false => 0,
                };
                let to = match end {
                    true => bytes.iter().rposition(stays).map_or(from, |at| at + 1),
                    false => bytes.len(),
                };
                text.get(from..to).unwrap_or_default()
            }
            Self::Any(characters) => {
                let goes = |c| characters.contains(c);
                let text = if start {
                    text.trim_start_matches(goes)
                } else {
                    text
                };
                if end {
                    text.trim_end_matches(goes)
                } else {
                    text
                }
            }
        }
    }
}

pub(super) fn pad(call: &CallInfo<'_>, left: bool) -> Built {
    let ([DataType::Utf8, DataType::Int32, DataType::Utf8], DataType::Utf8) =
        (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    Ok(Arc::new(move |args, rows| {
        let (values, lengths, fills) = (texts(args, 0)?, ints(args, 1, rows)?, texts(args, 2)?);
        build(rows, |row, out| {
            match (values.get(row), int(&lengths, row), fills.get(row)) {
                (Some(text), Some(length), Some(fill)) => {
                    let length = usize::try_from(length).unwrap_or(0);
                    let own = text.chars().count();
                    if own >= length || fill.is_empty() {
                        out.extend(text.chars().take(length));
                        return true;
                    }
                    let filling = fill.chars().cycle().take(length - own);
                    if left {
                        out.extend(filling);
                        out.push_str(text);
                    } else {
                        out.push_str(text);
                        out.extend(filling);
                    }
                    true
                }
                _ => false,
            }
        })
    }))
}

pub(super) fn replace(call: &CallInfo<'_>) -> Built {
    strings_only(call, 3, &DataType::Utf8)?;
    Ok(Arc::new(|args, rows| {
        let (values, searched, by) = (texts(args, 0)?, texts(args, 1)?, texts(args, 2)?);
        build(rows, |row, out| {
            match (values.get(row), searched.get(row), by.get(row)) {
                (Some(text), Some(""), Some(_)) => {
                    out.push_str(text);
                    true
                }
                (Some(text), Some(searched), Some(by)) => {
                    let mut last = 0;
                    for (at, _) in text.match_indices(searched) {
                        out.push_str(text.get(last..at).unwrap_or_default());
                        out.push_str(by);
                        last = at + searched.len();
                    }
                    out.push_str(text.get(last..).unwrap_or_default());
                    true
                }
                _ => false,
            }
        })
    }))
}

pub(super) fn repeat(call: &CallInfo<'_>) -> Built {
    let ([DataType::Utf8, DataType::Int32], DataType::Utf8) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    Ok(Arc::new(|args, rows| {
        let (values, counts) = (texts(args, 0)?, ints(args, 1, rows)?);
        build(rows, |row, out| {
            match (values.get(row), int(&counts, row)) {
                (Some(text), Some(count)) => {
                    (0..count.max(0)).for_each(|_| out.push_str(text));
                    true
                }
                _ => false,
            }
        })
    }))
}

pub(super) fn space(call: &CallInfo<'_>) -> Built {
    let ([DataType::Int32], DataType::Utf8) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    Ok(Arc::new(|args, rows| {
        let counts: Int32Array = ints(args, 0, rows)?;
        build(rows, |row, out| match int(&counts, row) {
            Some(count) => {
                (0..count.max(0)).for_each(|_| out.push(' '));
                true
            }
            None => false,
        })
    }))
}

/// Each character of the second argument becomes the one at its place in the third, or goes if
/// there is none.
pub(super) fn translate(call: &CallInfo<'_>) -> Built {
    strings_only(call, 3, &DataType::Utf8)?;
    Ok(Arc::new(|args, rows| {
        let (values, from, to) = (texts(args, 0)?, texts(args, 1)?, texts(args, 2)?);
        build(rows, |row, out| {
            match (values.get(row), from.get(row), to.get(row)) {
                (Some(text), Some(from), Some(to)) => {
                    for c in text.chars() {
                        match from.chars().position(|f| f == c) {
                            Some(position) => out.extend(to.chars().nth(position)),
                            None => out.push(c),
                        }
                    }
                    true
                }
                _ => false,
            }
        })
    }))
}
