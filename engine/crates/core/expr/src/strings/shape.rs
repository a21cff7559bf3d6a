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
    nested::Lists,
    types::list_of,
    vector::{argument, array},
};

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

/// Joins what is not NULL, of arrays their elements; NULL only if the separator is.
pub(super) fn concat_ws(call: &CallInfo<'_>) -> Built {
    let (first, rest) = call.types.split_first().ok_or_else(|| call.bad_types())?;
    let joined = |of: &DataType| *of == DataType::Utf8 || *of == list_of(DataType::Utf8);
    if *first != DataType::Utf8 || *call.ret != DataType::Utf8 || !rest.iter().all(joined) {
        return Err(call.bad_types());
    }
    let count = rest.len();
    Ok(Arc::new(move |args, rows| {
        let separator = texts(args, 0)?;
        let parts = (1..=count)
            .map(|index| match argument(args, index)?.data_type() {
                DataType::Utf8 => Ok(Part::One(texts(args, index)?)),
                _ => Ok(Part::Many(Lists::new(argument(args, index)?)?)),
            })
            .collect::<Result<Vec<_>>>()?;
        build(rows, |row, out| {
            let Some(separator) = separator.get(row) else {
                return false;
            };
            let mut first = true;
            let mut join = |text: &str| {
                if !std::mem::take(&mut first) {
                    out.push_str(separator);
                }
                out.push_str(text);
            };
            for part in &parts {
                match part {
                    Part::One(texts) => texts.get(row).into_iter().for_each(&mut join),
                    Part::Many(lists) => {
                        let texts = lists.values().as_string::<i32>();
                        let range = lists.range(row).unwrap_or_default();
                        range
                            .filter(|at| texts.is_valid(*at))
                            .for_each(|at| join(texts.value(at)));
                    }
                }
            }
            true
        })
    }))
}

/// What `concat_ws` joins.
enum Part {
    One(Texts),
    Many(Lists),
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
