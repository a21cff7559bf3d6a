//! Strings taken apart at a text: `split` and `str_to_map` with patterns that are no more than
//! their characters. The translation refuses others.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListBuilder, StringArray, StringBuilder},
    datatypes::DataType,
};
use datafusion_common::{Result, ScalarValue};

use super::{
    arrays::{flag, ints},
    gives,
    lists::Items,
    maps::MapBuilder,
    order::Ordered,
};
use crate::{
    Unsupported,
    function::{CallInfo, Kernel},
    types::{element_field, list_of, map_of},
    vector::{argument, array},
};

type Built = Result<Kernel, Unsupported>;

/// A literal argument that is a text of at least one character.
fn delimiter(call: &CallInfo<'_>, index: usize) -> Result<String, Unsupported> {
    match call.literal(index)? {
        ScalarValue::Utf8(Some(text)) if !text.is_empty() => Ok(text.clone()),
        _ => Err(call.unsupported("an empty pattern, or none")),
    }
}

/// (string, text, at most how many parts; all if not positive).
pub(super) fn split(call: &CallInfo<'_>) -> Built {
    let [DataType::Utf8, DataType::Utf8, DataType::Int32] = call.types else {
        return Err(call.bad_types());
    };
    gives(call, Some(list_of(DataType::Utf8)))?;
    let at = delimiter(call, 1)?;
    Ok(Arc::new(move |args, rows| {
        let texts = array(argument(args, 0)?, rows)?;
        let texts = texts.as_string::<i32>();
        let limits = Items::new(argument(args, 2)?)?;
        let mut out =
            ListBuilder::new(StringBuilder::new()).with_field(element_field(DataType::Utf8));
        for row in 0..rows {
            if texts.is_null(row) || limits.is_null(row) {
                out.append(false);
                continue;
            }
            let text = texts.value(row);
            let limit = usize::try_from(ints(&limits)?.value(limits.at(row))).unwrap_or(0);
            match limit {
                0 => text
                    .split(&at)
                    .for_each(|part| out.values().append_value(part)),
                most => text
                    .splitn(most, &at)
                    .for_each(|part| out.values().append_value(part)),
            }
            out.append(true);
        }
        Ok(Arc::new(out.finish()) as ArrayRef)
    }))
}

/// (whether the last value wins, string, what ends an entry, what ends a key).
pub(super) fn to_map(call: &CallInfo<'_>) -> Built {
    let [
        DataType::Boolean,
        DataType::Utf8,
        DataType::Utf8,
        DataType::Utf8,
    ] = call.types
    else {
        return Err(call.bad_types());
    };
    gives(call, Some(map_of(DataType::Utf8, DataType::Utf8)))?;
    let last_wins = flag(call, 0)?;
    let (between, after_key) = (delimiter(call, 2)?, delimiter(call, 3)?);
    Ok(Arc::new(move |args, rows| {
        let texts = array(argument(args, 1)?, rows)?;
        let texts = texts.as_string::<i32>();
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let mut ends = Vec::with_capacity(rows);
        for text in texts {
            for entry in text.into_iter().flat_map(|text| text.split(&between)) {
                let (key, value) = match entry.split_once(&after_key) {
                    Some((key, value)) => (key, Some(value)),
                    None => (entry, None),
                };
                keys.push(key);
                values.push(value);
            }
            ends.push(keys.len());
        }
        let keys = Arc::new(StringArray::from(keys)) as ArrayRef;
        let values = Arc::new(StringArray::from(values)) as ArrayRef;
        let comparable = Ordered::of([&keys])?;
        let types = (&DataType::Utf8, &DataType::Utf8);
        let mut out = MapBuilder::new(vec![keys], vec![values], types, rows, last_wins);
        let mut start = 0;
        for (row, end) in ends.into_iter().enumerate() {
            if texts.is_null(row) {
                out.null_row()?;
            } else {
                out.row((start..end).map(|i| [(0, i), (0, i)]), &comparable, false)?;
            }
            start = end;
        }
        out.finish()
    }))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_text_is_cut_as_java_cuts_it() {
        let cut = |text: &str, n| text.splitn(n, ",").map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(cut("a,,b,", 9), ["a", "", "b", ""]);
        assert_eq!(cut("a,,b,", 2), ["a", ",b,"]);
        assert_eq!(cut("", 9), [""]);
    }
}
