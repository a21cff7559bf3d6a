//! Texts by a format: masks, numbers read by a picture, `java.util.Formatter`.

mod numbers;
mod printf;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;

use crate::{
    Unsupported,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    rows::{self, Nulls},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("mask", Fallible::Never, mask),
    entry("to_number", Fallible::Always, numbers::to_number),
    entry("format_string", Fallible::Never, printf::format_string),
];

type Built = Result<Kernel, Unsupported>;

const UTF8: DataType = DataType::Utf8;

/// The text of a literal, if it is not NULL.
fn literal_text<'a>(call: &'a CallInfo<'_>, index: usize) -> Result<Option<&'a str>, Unsupported> {
    match call.literal(index)? {
        ScalarValue::Utf8(text) => Ok(text.as_deref()),
        _ => Err(call.bad_types()),
    }
}

/// Of a text, the classes of characters that the driver's Java knows, and a character for each
/// class. The second argument has the first character of each run of one class, the third the
/// runs' classes: upper (`U`), lower (`L`), digit (`D`), or other. Java masks units of UTF-16: what
/// is outside of the first plane is two others.
fn mask(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8; 7], &UTF8)?;
    let (starts, classes) = (literal_text(call, 1)?, literal_text(call, 2)?);
    let (starts, classes) = starts
        .zip(classes)
        .ok_or_else(|| call.unsupported("no classes are given"))?;
    let runs: Vec<(char, char)> = starts.chars().zip(classes.chars()).collect();
    let mut by = [None; 4];
    for (index, by) in by.iter_mut().enumerate() {
        *by = literal_text(call, index + 3)?.and_then(|text| text.chars().next());
    }
    let [upper, lower, digit, other] = by;
    let class_of = move |c: char| {
        let behind = runs.partition_point(|(start, _)| *start <= c);
        let run = behind.checked_sub(1).and_then(|run| runs.get(run));
        run.map_or('O', |(_, class)| *class)
    };
    Ok(rows::text(Nulls::AreGiven, move |row, out| {
        let Some(text) = row.text(0) else {
            return Ok(None);
        };
        for c in text.chars() {
            let by = match class_of(c) {
                _ if c > '\u{ffff}' => {
                    out.extend(other);
                    other
                }
                'U' => upper,
                'L' => lower,
                'D' => digit,
                _ => other,
            };
            out.push(by.unwrap_or(c));
        }
        Ok(Some(()))
    }))
}
