//! CHAR(n) and VARCHAR(n), which are strings but where they are read and written.

use std::{borrow::Cow, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, StringArray, StringBuilder},
    datatypes::DataType,
};
use coffer_schemes::char_text::padded;
use datafusion_common::Result;

use super::{Built, int, ints};
use crate::{
    SparkError,
    function::CallInfo,
    vector::{argument, array},
};

/// A CHAR(n) as it is read: padded. The text, then n.
pub(super) fn read_side_padding(call: &CallInfo<'_>) -> Built {
    each(call, |text, length| Ok(padded(text, length)))
}

/// What is stored of a text, or Spark's error if it is too long. The text, then n.
pub(super) fn write_side_check(
    call: &CallInfo<'_>,
    stored: fn(&str, usize) -> Option<Cow<'_, str>>,
) -> Built {
    each(call, move |text, limit| {
        stored(text, limit).ok_or_else(|| {
            SparkError::new(
                "EXCEED_LIMIT_LENGTH",
                format!("Exceeds char/varchar type length limitation: {limit}."),
            )
        })
    })
}

fn each(
    call: &CallInfo<'_>,
    f: impl for<'t> Fn(&'t str, usize) -> Result<Cow<'t, str>, SparkError> + Send + Sync + 'static,
) -> Built {
    let ([DataType::Utf8, DataType::Int32], DataType::Utf8) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    Ok(Arc::new(move |args, rows| {
        let values = array(argument(args, 0)?, rows)?;
        let lengths = ints(args, 1, rows)?;
        let texts: &StringArray = values.as_string();
        // Most often nothing changes: then the column is passed on as it is.
        let mut changed: Option<StringBuilder> = None;
        for row in 0..rows {
            let text = texts.is_valid(row).then(|| texts.value(row));
            let length = int(&lengths, row).map(|length| usize::try_from(length).unwrap_or(0));
            let made = match (text, length) {
                (Some(text), Some(length)) => Some(f(text, length)?),
                _ => None,
            };
            if changed.is_none() && made.as_deref() == text {
                continue;
            }
            let out = changed.get_or_insert_with(|| before(texts, row));
            out.append_option(made);
        }
        Ok(match changed {
            Some(mut out) => Arc::new(out.finish()) as ArrayRef,
            None => values,
        })
    }))
}

/// The rows before one, which stay.
fn before(texts: &StringArray, row: usize) -> StringBuilder {
    let mut out = StringBuilder::with_capacity(texts.len(), texts.value_data().len());
    for kept in 0..row {
        out.append_option(texts.is_valid(kept).then(|| texts.value(kept)));
    }
    out
}
