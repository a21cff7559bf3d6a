//! JSON texts, read as Jackson reads them for Spark.

mod generate;
mod path;
mod reader;
mod records;
mod writer;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, ListBuilder, StringBuilder, StructArray},
    datatypes::{DataType, Int32Type},
};
use coffer_protocol::plan::FloatText;
use datafusion_common::ScalarValue;

use self::{
    path::Step,
    reader::{Read, Reader, Stop, Token},
    writer::{Generator, Writer},
};
use crate::{
    SparkError, Unsupported,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    nested::Items,
    rows::{self, Given, Nulls},
    types::{element_field, list_of},
    vector::argument,
    zone::Zone,
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("get_json_object", Fallible::Always, get_json_object),
    entry("json_array_length", Fallible::Always, json_array_length),
    entry("json_object_keys", Fallible::Always, json_object_keys),
    entry("json_tuple", Fallible::Always, json_tuple),
    entry("to_json", Fallible::Never, to_json),
    entry("from_json", Fallible::Always, records::from_json),
];

type Built = Result<Kernel, Unsupported>;

const UTF8: DataType = DataType::Utf8;

/// Of what is no JSON: NULL.
fn given<T>(read: Read<Option<T>>) -> Given<T> {
    match read {
        Ok(value) => Ok(value),
        Err(Stop::Bad) => Ok(None),
        Err(Stop::Error(error)) => Err(error),
    }
}

fn get_json_object(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8, UTF8], &UTF8)?;
    let floats = call.float_text;
    // The path of all rows, where it is one that can be read at all.
    let fixed = match call.literal(1) {
        Ok(ScalarValue::Utf8(Some(path))) => path::parse(path).ok(),
        _ => None,
    };
    let find = move |json: &str, path: Option<&[Step]>| match path {
        Some(path) => given(path::found(json, path, floats)),
        None => Ok(None),
    };
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let (Some(json), Some(path)) = (row.text(0), row.text(1)) else {
            return Ok(None);
        };
        let found = match &fixed {
            Some(steps) => find(json, steps.as_deref())?,
            None => find(json, path::parse(path)?.as_deref())?,
        };
        Ok(found.map(|text| out.push_str(&text)))
    }))
}

fn json_array_length(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8], &DataType::Int32)?;
    let length = |json: &str| -> Read<Option<i32>> {
        let mut reader = Reader::new(json);
        if reader.next()? != Some(Token::StartArray) {
            return Ok(None);
        }
        let mut length = 0;
        while reader.next()? != Some(Token::EndArray) {
            length += 1;
            reader.skip_children()?;
        }
        Ok(Some(length))
    };
    Ok(rows::number::<Int32Type>(
        call.ret,
        Nulls::GiveNull,
        move |row| match row.text(0) {
            Some(json) => given(length(json)),
            None => Ok(None),
        },
    ))
}

fn json_object_keys(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8], &list_of(UTF8))?;
    let keys = |json: &str| -> Read<Option<Vec<String>>> {
        let mut reader = Reader::new(json);
        if reader.next()? != Some(Token::StartObject) {
            return Ok(None);
        }
        let mut keys = Vec::new();
        while reader.next()? != Some(Token::EndObject) {
            match reader.token() {
                Some(Token::Name) => keys.push(whole(&reader.name())?),
                _ => reader.skip_children()?,
            }
        }
        Ok(Some(keys))
    };
    Ok(Arc::new(move |args, rows| {
        let mut out = ListBuilder::new(StringBuilder::new()).with_field(element_field(UTF8));
        rows::each(args, rows, Nulls::GiveNull, |row| {
            let json = row.and_then(|row| row.text(0));
            match json.map(|json| given(keys(json))).transpose()?.flatten() {
                Some(keys) => out.append_value(keys.into_iter().map(Some)),
                None => out.append_null(),
            }
            Ok(())
        })?;
        Ok(Arc::new(out.finish()) as ArrayRef)
    }))
}

/// A text that Spark has as UTF-8. Java's encoder puts a question mark where a surrogate is alone.
fn whole(text: &[u8]) -> Read<String> {
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Ok(marked(text)),
    }
}

fn marked(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.first().copied() {
        let lone = first == 0xed && rest.get(1).is_some_and(|second| *second >= 0xa0);
        let used = if lone { 3 } else { 1 };
        bytes.push(if lone { b'?' } else { first });
        rest = rest.get(used..).unwrap_or_default();
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// The second argument says whether a struct's NULL fields are left out.
fn to_json(call: &CallInfo<'_>) -> Built {
    let leaves_out = match (call.types, call.literal(1)?) {
        ([of, DataType::Boolean], ScalarValue::Boolean(Some(leaves_out)))
            if generate::is_written(of) && call.ret == &UTF8 =>
        {
            *leaves_out
        }
        _ => return Err(call.bad_types()),
    };
    let style = generate::Style {
        zone: Zone::of(call.zone)?,
        floats: call.float_text,
        leaves_out,
    };
    Ok(Arc::new(move |args, rows| {
        let items = Items::new(argument(args, 0)?)?;
        let column = generate::Column::of(&items.array);
        let mut writer = Writer::new(Generator::OfChars, style.floats);
        let mut out = StringBuilder::with_capacity(rows, rows * 16);
        for row in 0..rows {
            let text = items
                .valid(row)
                .map(|at| given(generate::written(&column, at, &style, &mut writer).map(Some)));
            out.append_option(text.transpose()?.flatten());
        }
        Ok(Arc::new(out.finish()) as ArrayRef)
    }))
}

/// A struct of the fields that a list of names asks for; of what is no object, of NULLs.
fn json_tuple(call: &CallInfo<'_>) -> Built {
    let DataType::Struct(fields) = call.ret else {
        return Err(call.bad_types());
    };
    let texts = call.types.iter().all(|of| of == &UTF8);
    let same = fields.iter().all(|field| field.data_type() == &UTF8);
    if !texts || !same || fields.len() + 1 != call.types.len() {
        return Err(call.bad_types());
    }
    let (fields, floats) = (fields.clone(), call.float_text);
    Ok(Arc::new(move |args, rows| {
        let mut out: Vec<StringBuilder> = fields.iter().map(|_| StringBuilder::new()).collect();
        rows::each(args, rows, Nulls::AreGiven, |row| {
            let names: Vec<Option<&str>> = (1..=fields.len())
                .map(|index| row.and_then(|row| row.text(index)))
                .collect();
            let json = row.and_then(|row| row.text(0));
            let found = json.map(|json| given(tuple(json, &names, floats).map(Some)));
            match found.transpose()?.flatten() {
                Some(values) => {
                    for (out, value) in out.iter_mut().zip(values) {
                        out.append_option(value);
                    }
                }
                None => out.iter_mut().for_each(StringBuilder::append_null),
            }
            Ok(())
        })?;
        let columns = out
            .iter_mut()
            .map(|column| Arc::new(column.finish()) as ArrayRef);
        Ok(Arc::new(StructArray::try_new(
            fields.clone(),
            columns.collect(),
            None,
        )?) as ArrayRef)
    }))
}

fn tuple(json: &str, names: &[Option<&str>], floats: FloatText) -> Read<Vec<Option<String>>> {
    let mut reader = Reader::new(json);
    let mut values = vec![None; names.len()];
    if reader.next()? != Some(Token::StartObject) {
        return Ok(values);
    }
    while reader.next()? != Some(Token::EndObject) {
        if reader.token() == Some(Token::Name) {
            let name = reader.name();
            let asked = |wanted: &Option<&str>| wanted.is_some_and(|w| *w.as_bytes() == *name);
            if names.iter().any(asked) && reader.next()? != Some(Token::Null) {
                let mut writer = Writer::new(Generator::OfBytes, floats);
                match reader.token() {
                    Some(Token::String) => writer.raw(&reader.value()),
                    _ => writer.copy(&mut reader)?,
                }
                let text = writer.text()?;
                for (value, wanted) in values.iter_mut().zip(names) {
                    if asked(wanted) {
                        *value = Some(text.to_owned());
                    }
                }
            }
        }
        reader.skip_children()?;
    }
    Ok(values)
}

impl From<SparkError> for Stop {
    fn from(error: SparkError) -> Self {
        Self::Error(error)
    }
}
