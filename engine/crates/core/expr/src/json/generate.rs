//! `to_json`: values as Spark's `JacksonGenerator` writes them.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, TimestampMicrosecondType,
    },
};
use coffer_protocol::plan::FloatText;

use super::{
    reader::Read,
    writer::{Generator, Writer},
};
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

pub(super) fn written(values: &ArrayRef, row: usize, style: &Style) -> Read<String> {
    let mut writer = Writer::new(Generator::OfChars, style.floats);
    value(values, row, style, &mut writer)?;
    writer.text().map(str::to_owned)
}

fn value(values: &ArrayRef, row: usize, style: &Style, out: &mut Writer) -> Read<()> {
    if values.is_null(row) || values.data_type() == &DataType::Null {
        out.raw_value(b"null");
        return Ok(());
    }
    match values.data_type() {
        DataType::Struct(fields) => {
            out.start(true)?;
            for (field, column) in fields.iter().zip(values.as_struct().columns()) {
                let null = column.is_null(row) || column.data_type() == &DataType::Null;
                if !(null && style.leaves_out) {
                    out.name(field.name().as_bytes());
                    value(column, row, style, out)?;
                }
            }
            out.end();
        }
        DataType::List(_) => {
            let items = values.as_list::<i32>().value(row);
            out.start(false)?;
            for item in 0..items.len() {
                value(&items, item, style, out)?;
            }
            out.end();
        }
        DataType::Map(..) => {
            let entries = values.as_map().value(row);
            let (keys, items) = (entries.column(0), entries.column(1));
            out.start(true)?;
            for entry in 0..entries.len() {
                out.name(scalar(keys, entry, style).1.as_bytes());
                value(items, entry, style, out)?;
            }
            out.end();
        }
        _ => match scalar(values, row, style) {
            (true, text) => out.string(text.as_bytes()),
            (false, text) => out.raw_value(text.as_bytes()),
        },
    }
    Ok(())
}

/// A value's text, and whether quotes stand around it.
fn scalar(values: &ArrayRef, row: usize, style: &Style) -> (bool, String) {
    let mut text = String::new();
    let quoted = match values.data_type() {
        DataType::Boolean => {
            text.push_str(if values.as_boolean().value(row) {
                "true"
            } else {
                "false"
            });
            false
        }
        DataType::Int8 => plain(values.as_primitive::<Int8Type>().value(row), &mut text),
        DataType::Int16 => plain(values.as_primitive::<Int16Type>().value(row), &mut text),
        DataType::Int32 => plain(values.as_primitive::<Int32Type>().value(row), &mut text),
        DataType::Int64 => plain(values.as_primitive::<Int64Type>().value(row), &mut text),
        DataType::Float32 => {
            let value = values.as_primitive::<Float32Type>().value(row);
            format::float(value, style.floats, &mut text);
            !value.is_finite()
        }
        DataType::Float64 => {
            let value = values.as_primitive::<Float64Type>().value(row);
            format::double(value, style.floats, &mut text);
            !value.is_finite()
        }
        DataType::Decimal128(_, scale) => {
            let value = values.as_primitive::<Decimal128Type>().value(row);
            format::big_decimal(value, *scale, &mut text);
            false
        }
        DataType::Date32 => {
            format::date(
                values.as_primitive::<Date32Type>().value(row).into(),
                &mut text,
            );
            true
        }
        DataType::Timestamp(_, zone) => {
            let micros = values.as_primitive::<TimestampMicrosecondType>().value(row);
            match zone {
                Some(_) => {
                    clock(style.zone.to_local(micros), &mut text);
                    offset(style.zone.offset_at(micros), &mut text);
                }
                None => clock(micros, &mut text),
            }
            true
        }
        DataType::Binary => {
            crate::encodings::base64_text(values.as_binary::<i32>().value(row), &mut text);
            true
        }
        _ => {
            text.push_str(values.as_string::<i32>().value(row));
            true
        }
    };
    (quoted, text)
}

fn plain(number: impl std::fmt::Display, out: &mut String) -> bool {
    out.push_str(&number.to_string());
    false
}

/// `yyyy-MM-dd'T'HH:mm:ss.SSS`.
fn clock(micros: i64, out: &mut String) {
    let (days, of_day) = calendar::split_micros(micros);
    format::date(days, out);
    let (seconds, millis) = (of_day / 1_000_000, of_day % 1_000_000 / 1_000);
    out.push_str(&format!(
        "T{:02}:{:02}:{:02}.{millis:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    ));
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
