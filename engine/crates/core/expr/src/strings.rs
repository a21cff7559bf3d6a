//! Strings. Characters are Unicode code points, as in Spark; collation is UTF8_BINARY only.

mod case;
mod char_varchar;
mod like;
mod position;
mod search;
mod shape;

use std::{borrow::Cow, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, StringArray, StringBuilder},
    datatypes::{DataType, Int32Type},
};
use coffer_schemes::char_text::{fixed, limited};
use datafusion_common::{Result, internal_err};
use datafusion_expr::ColumnarValue;
use memchr::memmem::Finder;

use crate::{
    Unsupported,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    nested,
    vector::{argument, array},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("like", Fallible::Never, like::like),
    entry("rlike", Fallible::Never, like::rlike),
    entry("starts_with", Fallible::Never, |call| {
        test(call, |text, part| text.starts_with(part))
    }),
    entry("ends_with", Fallible::Never, |call| {
        test(call, |text, part| text.ends_with(part))
    }),
    entry("contains", Fallible::Never, contains),
    entry("upper", Fallible::Never, |call| map(call, case::upper)),
    entry("lower", Fallible::Never, |call| map(call, case::lower)),
    entry("init_cap", Fallible::Never, |call| {
        map(call, case::init_cap)
    }),
    entry("reverse", Fallible::Never, |call| match call.ret {
        DataType::List(_) => nested::reverse(call),
        _ => map(call, |text, out| out.extend(text.chars().rev())),
    }),
    entry("length", Fallible::Never, |call| {
        measure(call, |text| text.chars().count(), <[u8]>::len)
    }),
    entry("octet_length", Fallible::Never, |call| {
        measure(call, str::len, <[u8]>::len)
    }),
    entry("bit_length", Fallible::Never, |call| {
        measure(call, |text| text.len() * 8, |bytes| bytes.len() * 8)
    }),
    entry("ascii", Fallible::Never, |call| {
        measure(
            call,
            |text| text.chars().next().map_or(0, |c| u32::from(c) as usize),
            <[u8]>::len,
        )
    }),
    entry("chr", Fallible::Never, shape::chr),
    entry("substring", Fallible::Never, position::substring),
    entry("left", Fallible::Never, position::left),
    entry("right", Fallible::Never, position::right),
    entry(
        "substring_index",
        Fallible::Never,
        position::substring_index,
    ),
    entry("string_instr", Fallible::Never, position::instr),
    entry("string_locate", Fallible::Never, position::locate),
    entry("concat", Fallible::Never, |call| match call.ret {
        DataType::List(_) => nested::concat(call),
        _ => shape::concat(call),
    }),
    entry("concat_ws", Fallible::Never, shape::concat_ws),
    entry("string_trim", Fallible::Never, |call| {
        shape::trim(call, true, true)
    }),
    entry("string_trim_left", Fallible::Never, |call| {
        shape::trim(call, true, false)
    }),
    entry("string_trim_right", Fallible::Never, |call| {
        shape::trim(call, false, true)
    }),
    entry("string_l_pad", Fallible::Never, |call| {
        shape::pad(call, true)
    }),
    entry("string_lpad", Fallible::Never, |call| {
        shape::pad(call, true)
    }),
    entry("string_r_pad", Fallible::Never, |call| {
        shape::pad(call, false)
    }),
    entry("string_rpad", Fallible::Never, |call| {
        shape::pad(call, false)
    }),
    entry(
        "read_side_padding",
        Fallible::Never,
        char_varchar::read_side_padding,
    ),
    entry("char_type_write_side_check", Fallible::Always, |call| {
        char_varchar::write_side_check(call, fixed)
    }),
    entry("varchar_type_write_side_check", Fallible::Always, |call| {
        char_varchar::write_side_check(call, |text, limit| limited(text, limit).map(Cow::Borrowed))
    }),
    entry("string_replace", Fallible::Never, shape::replace),
    entry("string_repeat", Fallible::Never, shape::repeat),
    entry("string_space", Fallible::Never, shape::space),
    entry("string_translate", Fallible::Never, shape::translate),
];

type Built = Result<Kernel, Unsupported>;

/// A string argument: an array, or one value for all rows.
enum Texts {
    Array(StringArray),
    One(Option<String>),
}

impl Texts {
    fn new(value: &ColumnarValue) -> Result<Self> {
        let array = match value {
            ColumnarValue::Array(array) => Arc::clone(array),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        };
        let Some(texts) = array.as_string_opt::<i32>() else {
            return internal_err!("expected a string, got {}", array.data_type());
        };
        Ok(match value {
            ColumnarValue::Array(_) => Self::Array(texts.clone()),
            ColumnarValue::Scalar(_) => Self::One(texts.iter().next().flatten().map(str::to_owned)),
        })
    }

    fn get(&self, row: usize) -> Option<&str> {
        match self {
            Self::Array(array) if array.is_valid(row) => Some(array.value(row)),
            Self::Array(_) => None,
            Self::One(value) => value.as_deref(),
        }
    }
}

/// An integer argument as an array.
fn ints(args: &[ColumnarValue], index: usize, rows: usize) -> Result<Int32Array> {
    let values = array(argument(args, index)?, rows)?;
    match values.as_primitive_opt::<Int32Type>() {
        Some(values) => Ok(values.clone()),
        None => internal_err!("expected an int, got {}", values.data_type()),
    }
}

fn int(values: &Int32Array, row: usize) -> Option<i32> {
    values.is_valid(row).then(|| values.value(row))
}

fn texts(args: &[ColumnarValue], index: usize) -> Result<Texts> {
    Texts::new(argument(args, index)?)
}

fn strings_only(call: &CallInfo<'_>, arity: usize, ret: &DataType) -> Result<(), Unsupported> {
    let strings = call.types.len() == arity && call.types.iter().all(|t| *t == DataType::Utf8);
    if strings && call.ret == ret {
        Ok(())
    } else {
        Err(call.bad_types())
    }
}

/// string → string.
fn map(call: &CallInfo<'_>, f: fn(&str, &mut String)) -> Built {
    strings_only(call, 1, &DataType::Utf8)?;
    Ok(Arc::new(move |args, rows| {
        let texts = texts(args, 0)?;
        build(rows, |row, out| match texts.get(row) {
            Some(text) => {
                f(text, out);
                true
            }
            None => false,
        })
    }))
}

/// (string, string) → boolean.
fn test(call: &CallInfo<'_>, f: fn(&str, &str) -> bool) -> Built {
    if call.types == [DataType::Binary, DataType::Binary] && *call.ret == DataType::Boolean {
        return Err(call.unsupported("binary arguments"));
    }
    strings_only(call, 2, &DataType::Boolean)?;
    Ok(Arc::new(move |args, rows| {
        let (left, right) = (texts(args, 0)?, texts(args, 1)?);
        let truths: BooleanArray = (0..rows)
            .map(|row| Some(f(left.get(row)?, right.get(row)?)))
            .collect();
        Ok(Arc::new(truths) as ArrayRef)
    }))
}

fn contains(call: &CallInfo<'_>) -> Built {
    let each = test(call, |text, part| text.contains(part))?;
    Ok(Arc::new(move |args, rows| match texts(args, 1)? {
        Texts::One(Some(part)) if !part.is_empty() => {
            let found = search::holds(&texts(args, 0)?, rows, &Finder::new(&part), |_| true);
            Ok(Arc::new(found) as ArrayRef)
        }
        _ => each(args, rows),
    }))
}

/// string or binary → int.
fn measure(call: &CallInfo<'_>, text: fn(&str) -> usize, bytes: fn(&[u8]) -> usize) -> Built {
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    match (call.types, call.ret) {
        ([DataType::Utf8], DataType::Int32) => Ok(Arc::new(move |args, rows| {
            let values = texts(args, 0)?;
            let counts: Int32Array = (0..rows)
                .map(|row| values.get(row).map(text).map(count))
                .collect();
            Ok(Arc::new(counts) as ArrayRef)
        })),
        ([DataType::Binary], DataType::Int32) if call.name != "ascii" => {
            Ok(Arc::new(move |args, rows| {
                let values = array(argument(args, 0)?, rows)?;
                let counts: Int32Array = values
                    .as_binary::<i32>()
                    .iter()
                    .map(|v| v.map(bytes).map(count))
                    .collect();
                Ok(Arc::new(counts) as ArrayRef)
            }))
        }
        _ => Err(call.bad_types()),
    }
}

/// Builds a string column; `f` writes a row's text and says whether there is one.
fn build(rows: usize, mut f: impl FnMut(usize, &mut String) -> bool) -> Result<ArrayRef> {
    let mut out = StringBuilder::with_capacity(rows, rows * 16);
    let mut text = String::new();
    for row in 0..rows {
        text.clear();
        if f(row, &mut text) {
            out.append_value(&text);
        } else {
            out.append_null();
        }
    }
    Ok(Arc::new(out.finish()))
}

/// As [`build`], of parts of what is there.
fn parts<'a>(rows: usize, f: impl Fn(usize) -> Option<&'a str>) -> Result<ArrayRef> {
    let mut out = StringBuilder::with_capacity(rows, rows * 16);
    for row in 0..rows {
        out.append_option(f(row));
    }
    Ok(Arc::new(out.finish()))
}
