//! `from_json`: a struct of plain fields from an object, as Spark's `JacksonParser` reads one in
//! its permissive mode. What is no JSON gives NULL fields, a value of another type one of them.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BooleanBuilder, NullBufferBuilder, PrimitiveBuilder, StringBuilder, StructArray,
    },
    datatypes::{
        DataType, Fields, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    },
};
use coffer_protocol::plan::FloatText;

use super::{
    Built, UTF8, given, marked,
    reader::{Dialect, Failure, Read, Reader, Stop, Token},
    writer::{Generator, Writer, float},
};
use crate::{
    SparkError,
    function::CallInfo,
    rows::{self, Nulls},
};

#[derive(Debug, Clone)]
enum Value {
    Truth(bool),
    Int(i64),
    Float(f32),
    Double(f64),
    Text(String),
}

/// What an object gives: all fields; none of them, where it is no JSON; nothing, of an empty text.
enum Record {
    Fields(Vec<Option<Value>>),
    Broken,
    Nothing,
}

enum Column {
    Truth(BooleanBuilder),
    Byte(PrimitiveBuilder<Int8Type>),
    Short(PrimitiveBuilder<Int16Type>),
    Int(PrimitiveBuilder<Int32Type>),
    Long(PrimitiveBuilder<Int64Type>),
    Float(PrimitiveBuilder<Float32Type>),
    Double(PrimitiveBuilder<Float64Type>),
    Text(StringBuilder),
}

impl Column {
    fn new(of: &DataType) -> Option<Self> {
        Some(match of {
            DataType::Boolean => Self::Truth(BooleanBuilder::new()),
            DataType::Int8 => Self::Byte(PrimitiveBuilder::new()),
            DataType::Int16 => Self::Short(PrimitiveBuilder::new()),
            DataType::Int32 => Self::Int(PrimitiveBuilder::new()),
            DataType::Int64 => Self::Long(PrimitiveBuilder::new()),
            DataType::Float32 => Self::Float(PrimitiveBuilder::new()),
            DataType::Float64 => Self::Double(PrimitiveBuilder::new()),
            &UTF8 => Self::Text(StringBuilder::new()),
            _ => return None,
        })
    }

    fn append(&mut self, value: Option<Value>) {
        let long = match value {
            Some(Value::Int(value)) => Some(value),
            _ => None,
        };
        match self {
            Self::Truth(out) => out.append_option(match value {
                Some(Value::Truth(truth)) => Some(truth),
                _ => None,
            }),
            // Jackson takes bytes without a sign too.
            Self::Byte(out) => out.append_option(long.map(|value| value as i8)),
            Self::Short(out) => out.append_option(long.and_then(|value| value.try_into().ok())),
            Self::Int(out) => out.append_option(long.and_then(|value| value.try_into().ok())),
            Self::Long(out) => out.append_option(long),
            Self::Float(out) => out.append_option(match value {
                Some(Value::Float(value)) => Some(value),
                _ => None,
            }),
            Self::Double(out) => out.append_option(match value {
                Some(Value::Double(value)) => Some(value),
                _ => None,
            }),
            Self::Text(out) => out.append_option(match value {
                Some(Value::Text(text)) => Some(text),
                _ => None,
            }),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Truth(mut out) => Arc::new(out.finish()),
            Self::Byte(mut out) => Arc::new(out.finish()),
            Self::Short(mut out) => Arc::new(out.finish()),
            Self::Int(mut out) => Arc::new(out.finish()),
            Self::Long(mut out) => Arc::new(out.finish()),
            Self::Float(mut out) => Arc::new(out.finish()),
            Self::Double(mut out) => Arc::new(out.finish()),
            Self::Text(mut out) => Arc::new(out.finish()),
        }
    }
}

pub(super) fn from_json(call: &CallInfo<'_>) -> Built {
    let ([UTF8], DataType::Struct(fields)) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    if fields
        .iter()
        .any(|field| Column::new(field.data_type()).is_none())
    {
        return Err(call.bad_types());
    }
    let (fields, floats) = (fields.clone(), call.float_text);
    Ok(Arc::new(move |args, rows| {
        let mut columns: Vec<Column> = fields
            .iter()
            .filter_map(|field| Column::new(field.data_type()))
            .collect();
        let mut nulls = NullBufferBuilder::new(rows);
        rows::each(args, rows, Nulls::GiveNull, |row| {
            let json = row.and_then(|row| row.text(0));
            let read = json.map(|json| given(record(json, &fields, floats).map(Some)));
            let values = match read.transpose()?.flatten() {
                Some(Record::Fields(values)) => values,
                Some(Record::Broken) => vec![None; fields.len()],
                Some(Record::Nothing) | None => {
                    nulls.append_null();
                    columns.iter_mut().for_each(|column| column.append(None));
                    return Ok(());
                }
            };
            nulls.append_non_null();
            for (column, value) in columns.iter_mut().zip(values) {
                column.append(value);
            }
            Ok(())
        })?;
        let columns = columns.into_iter().map(Column::finish).collect();
        Ok(Arc::new(StructArray::try_new(
            fields.clone(),
            columns,
            nulls.finish(),
        )?) as ArrayRef)
    }))
}

/// Jackson's reader goes on behind an error, to where we do not follow it.
fn lost() -> Stop {
    Stop::Error(SparkError::new(
        "UNSUPPORTED_MALFORMED_JSON",
        "a field's value is no JSON in a way of which Spark may read on behind it",
    ))
}

fn record(json: &str, fields: &Fields, floats: FloatText) -> Read<Record> {
    let mut reader = Reader::of(json, Dialect::OfRecords);
    match reader.next() {
        Ok(None) => return Ok(Record::Nothing),
        Ok(Some(Token::StartObject)) => {}
        Ok(Some(_)) | Err(Stop::Bad) => return Ok(Record::Broken),
        Err(error) => return Err(error),
    }
    let mut values = vec![None; fields.len()];
    match object(&mut reader, fields, floats, &mut values) {
        Ok(()) => Ok(Record::Fields(values)),
        Err(Stop::Bad) => Ok(Record::Broken),
        Err(error) => Err(error),
    }
}

fn object(
    reader: &mut Reader<'_>,
    fields: &Fields,
    floats: FloatText,
    values: &mut [Option<Value>],
) -> Read<()> {
    loop {
        let token = match reader.next() {
            // A string is read where its field asks for it: such a field is passed over.
            Err(Stop::Bad)
                if reader.failure() == Failure::InString
                    && position(fields, &reader.name()).is_some() =>
            {
                continue;
            }
            token => token?,
        };
        if token == Some(Token::EndObject) {
            return Ok(());
        }
        if token != Some(Token::Name) {
            reader.skip_children()?;
            continue;
        }
        let asked = position(fields, &reader.name());
        let Some((field, slot)) = asked.and_then(|at| fields.get(at).zip(values.get_mut(at)))
        else {
            continue;
        };
        let token = reader.next()?;
        *slot = match (field.data_type(), token) {
            (_, None | Some(Token::Null)) => None,
            (&UTF8, Some(Token::String)) => Some(Value::Text(text(&reader.value()))),
            (&UTF8, Some(_)) => {
                let mut writer = Writer::new(Generator::OfBytes, floats);
                match writer.copy(reader) {
                    Ok(()) => Some(Value::Text(text(&writer.out))),
                    Err(Stop::Error(error)) => return Err(Stop::Error(error)),
                    Err(Stop::Bad) => match reader.failure() {
                        // The reader has nothing more, and Spark takes the object for read.
                        Failure::Named => return Ok(()),
                        Failure::InString => continue,
                        Failure::AtSign => {
                            reader.skip_children()?;
                            continue;
                        }
                        Failure::Elsewhere if reader.is_at_end() => return Err(Stop::Bad),
                        Failure::Elsewhere => return Err(lost()),
                    },
                }
            }
            (of, Some(token)) => {
                let found = scalar(of, token, reader);
                // Of another type: a field keeps what an earlier one of its name gave.
                match found {
                    Some(value) => Some(value),
                    None => {
                        reader.skip_children()?;
                        slot.take()
                    }
                }
            }
        };
    }
}

fn position(fields: &Fields, name: &[u8]) -> Option<usize> {
    fields
        .iter()
        .position(|field| field.name().as_bytes() == name)
}

fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => marked(bytes),
    }
}

/// The value as one of the type, if it is one.
fn scalar(of: &DataType, token: Token, reader: &Reader<'_>) -> Option<Value> {
    let long = || reader.number_text().parse::<i64>().ok();
    match (of, token) {
        (DataType::Boolean, Token::True) => Some(Value::Truth(true)),
        (DataType::Boolean, Token::False) => Some(Value::Truth(false)),
        (of, Token::Int) if of.is_integer() => {
            let bounds = match of {
                DataType::Int8 => -128..=255,
                DataType::Int16 => i16::MIN.into()..=i16::MAX.into(),
                DataType::Int32 => i32::MIN.into()..=i32::MAX.into(),
                _ => i64::MIN..=i64::MAX,
            };
            long()
                .filter(|value| bounds.contains(value))
                .map(Value::Int)
        }
        (DataType::Float32, Token::Int) => Some(Value::Float(match long() {
            Some(value) => value as f32,
            None => float(reader.number_text())? as f32,
        })),
        (DataType::Float32, Token::Float) => {
            let text = reader.number_text();
            let named = || float(text).map(|value| value as f32);
            Some(Value::Float(
                text.parse()
                    .ok()
                    .filter(|_| !is_word(text))
                    .or_else(named)?,
            ))
        }
        (DataType::Float64, Token::Int) => match long() {
            Some(value) => Some(Value::Double(value as f64)),
            None => float(reader.number_text()).map(Value::Double),
        },
        (DataType::Float64, Token::Float) => float(reader.number_text()).map(Value::Double),
        (of, Token::String) if of.is_floating() => {
            let value = reader.value();
            let text = std::str::from_utf8(&value)
                .ok()
                .filter(|text| is_word(text))?;
            let value = float(text)?;
            Some(match of {
                DataType::Float32 => Value::Float(value as f32),
                _ => Value::Double(value),
            })
        }
        _ => None,
    }
}

/// `NaN` and the infinities, by their names.
fn is_word(text: &str) -> bool {
    matches!(
        text,
        "NaN" | "Infinity" | "+INF" | "+Infinity" | "-INF" | "-Infinity"
    )
}
