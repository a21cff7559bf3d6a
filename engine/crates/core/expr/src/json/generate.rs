//! `to_json`: values as Spark's `JacksonGenerator` writes them.

use std::{fmt::Write, ops::Range};

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, TimestampMicrosecondType,
    },
};
use coffer_protocol::plan::FloatText;

use super::{reader::Read, writer::Writer};
use crate::{calendar, format, zone::Zone};

/// What the options and the session say.
pub(super) struct Style {
    pub(super) zone: Zone,
    pub(super) floats: FloatText,
    /// Whether a struct's NULL fields are left out.
    pub(super) leaves_out: bool,
}

/// Whether values of the type are written here. Keys of maps are texts, as Spark has them.
pub(super) fn is_written(of: &DataType) -> bool {
    match of {
        DataType::List(element) => is_written(element.data_type()),
        DataType::Struct(fields) => {
            let once = |(at, name): (usize, &String)| {
                fields.iter().take(at).all(|earlier| earlier.name() != name)
            };
            fields.iter().all(|field| is_written(field.data_type()))
                && fields
                    .iter()
                    .map(|field| field.name())
                    .enumerate()
                    .all(once)
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(sides) => match sides.as_ref() {
                [key, value] => {
                    let key = key.data_type();
                    let named =
                        key.is_integer() || matches!(key, DataType::Utf8 | DataType::Boolean);
                    named && is_written(value.data_type())
                }
                _ => false,
            },
            _ => false,
        },
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::Binary
        | DataType::Date32
        | DataType::Timestamp(..)
        | DataType::Decimal128(..) => true,
        _ => false,
    }
}

/// Values, with what lies in them.
pub(super) struct Column<'a> {
    values: &'a ArrayRef,
    inner: Inner<'a>,
}

enum Inner<'a> {
    Fields(Vec<(&'a str, Column<'a>)>),
    Items(&'a [i32], Box<Column<'a>>),
    Entries(&'a [i32], &'a ArrayRef, Box<Column<'a>>),
    Nothing,
}

impl<'a> Column<'a> {
    pub(super) fn of(values: &'a ArrayRef) -> Self {
        let inner = match values.data_type() {
            DataType::Struct(fields) => {
                let columns = values.as_struct().columns().iter().map(Self::of);
                let names = fields.iter().map(|field| field.name().as_str());
                Inner::Fields(names.zip(columns).collect())
            }
            DataType::List(_) => {
                let list = values.as_list::<i32>();
                Inner::Items(list.value_offsets(), Box::new(Self::of(list.values())))
            }
            DataType::Map(..) => {
                let map = values.as_map();
                let items = Box::new(Self::of(map.values()));
                Inner::Entries(map.value_offsets(), map.keys(), items)
            }
            _ => Inner::Nothing,
        };
        Self { values, inner }
    }

    fn is_null(&self, row: usize) -> bool {
        self.values.is_null(row) || self.values.data_type() == &DataType::Null
    }
}

/// Where a row's elements lie.
fn range(offsets: &[i32], row: usize) -> Range<usize> {
    let at = |row: usize| offsets.get(row).and_then(|end| usize::try_from(*end).ok());
    at(row).unwrap_or(0)..at(row + 1).unwrap_or(0)
}

/// A row's text, which takes the place of what was written before.
pub(super) fn written<'w>(
    column: &Column<'_>,
    row: usize,
    style: &Style,
    out: &'w mut Writer,
) -> Read<&'w str> {
    out.clear();
    value(column, row, style, &mut String::new(), out)?;
    out.text()
}

/// `text` holds one value's text at a time.
fn value(
    column: &Column<'_>,
    row: usize,
    style: &Style,
    text: &mut String,
    out: &mut Writer,
) -> Read<()> {
    if column.is_null(row) {
        out.raw_value(b"null");
        return Ok(());
    }
    match &column.inner {
        Inner::Fields(fields) => {
            out.start(true)?;
            for (name, field) in fields {
                if !(style.leaves_out && field.is_null(row)) {
                    out.name(name.as_bytes());
                    value(field, row, style, text, out)?;
                }
            }
            out.end();
        }
        Inner::Items(offsets, items) => {
            out.start(false)?;
            for item in range(offsets, row) {
                value(items, item, style, text, out)?;
            }
            out.end();
        }
        Inner::Entries(offsets, keys, items) => {
            out.start(true)?;
            for entry in range(offsets, row) {
                scalar(keys, entry, style, text);
                out.name(text.as_bytes());
                value(items, entry, style, text, out)?;
            }
            out.end();
        }
        Inner::Nothing => match scalar(column.values, row, style, text) {
            true => out.string(text.as_bytes()),
            false => out.raw_value(text.as_bytes()),
        },
    }
    Ok(())
}

/// Makes `text` a value's, and says whether quotes stand around it.
fn scalar(values: &ArrayRef, row: usize, style: &Style, text: &mut String) -> bool {
    text.clear();
    match values.data_type() {
        DataType::Boolean => {
            text.push_str(if values.as_boolean().value(row) {
                "true"
            } else {
                "false"
            });
            false
        }
        DataType::Int8 => plain(values.as_primitive::<Int8Type>().value(row), text),
        DataType::Int16 => plain(values.as_primitive::<Int16Type>().value(row), text),
        DataType::Int32 => plain(values.as_primitive::<Int32Type>().value(row), text),
        DataType::Int64 => plain(values.as_primitive::<Int64Type>().value(row), text),
        DataType::Float32 => {
            let value = values.as_primitive::<Float32Type>().value(row);
            format::float(value, style.floats, text);
            !value.is_finite()
        }
        DataType::Float64 => {
            let value = values.as_primitive::<Float64Type>().value(row);
            format::double(value, style.floats, text);
            !value.is_finite()
        }
        DataType::Decimal128(_, scale) => {
            let value = values.as_primitive::<Decimal128Type>().value(row);
            format::big_decimal(value, *scale, text);
            false
        }
        DataType::Date32 => {
            format::date(values.as_primitive::<Date32Type>().value(row).into(), text);
            true
        }
        DataType::Timestamp(_, zone) => {
            let micros = values.as_primitive::<TimestampMicrosecondType>().value(row);
            match zone {
                Some(_) => {
                    clock(style.zone.to_local(micros), text);
                    offset(style.zone.offset_at(micros), text);
                }
                None => clock(micros, text),
            }
            true
        }
        DataType::Binary => {
            crate::encodings::base64_text(values.as_binary::<i32>().value(row), text);
            true
        }
        _ => {
            text.push_str(values.as_string::<i32>().value(row));
            true
        }
    }
}

fn plain(number: impl std::fmt::Display, out: &mut String) -> bool {
    // Writing to a string does not fail.
    let _ = write!(out, "{number}");
    false
}

/// `yyyy-MM-dd'T'HH:mm:ss.SSS`.
fn clock(micros: i64, out: &mut String) {
    let (days, of_day) = calendar::split_micros(micros);
    format::date(days, out);
    let (seconds, millis) = (of_day / 1_000_000, of_day % 1_000_000 / 1_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let _ = write!(out, "T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}");
}

/// Hours, minutes, and seconds where there are some; `Z` where there is nothing.
fn offset(seconds: i64, out: &mut String) {
    if seconds == 0 {
        out.push('Z');
        return;
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let (minutes, seconds) = (seconds.abs() / 60, seconds.abs() % 60);
    out.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
    if seconds > 0 {
        out.push_str(&format!(":{seconds:02}"));
    }
}
