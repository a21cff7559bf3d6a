//! One value out of an array or a map.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;

use super::{
    build::Gather,
    element, key_value,
    lists::{Items, Lists, Maps},
    order::{Ordered, is_orderable},
};
use crate::{
    SparkError, Unsupported,
    function::{CallInfo, Kernel},
    vector::argument,
};

type Built = Result<Kernel, Unsupported>;

/// `array[index]`, counted from 0.
pub(super) fn array_item(call: &CallInfo<'_>) -> Built {
    let [list, index] = call.types else {
        return Err(call.bad_types());
    };
    if element(list) != Some(call.ret) || !index.is_signed_integer() {
        return Err(call.bad_types());
    }
    let ansi = call.ansi();
    Ok(Arc::new(move |args, rows| {
        pick(args, rows, |index, len| {
            let found = usize::try_from(index).ok().filter(|index| *index < len);
            match found {
                None if ansi => Err(SparkError::array_index(index, len)),
                found => Ok(found),
            }
        })
    }))
}

/// `element_at`: of an array counted from 1, or from the end; of a map by key.
pub(super) fn element_at(call: &CallInfo<'_>) -> Built {
    let [of, index] = call.types else {
        return Err(call.bad_types());
    };
    if key_value(of).is_some() {
        return map_value(call);
    }
    if element(of) != Some(call.ret) || *index != DataType::Int32 {
        return Err(call.bad_types());
    }
    let ansi = call.ansi();
    Ok(Arc::new(move |args, rows| {
        pick(args, rows, |index, len| {
            let back = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
            match index {
                _ if back > len && ansi => Err(SparkError::element_at_index(index, len)),
                _ if back > len => Ok(None),
                0 => Err(SparkError::index_of_zero()),
                1.. => Ok(Some(back - 1)),
                _ => Ok(Some(len - back)),
            }
        })
    }))
}

/// `found` says which element an index means, given their number.
fn pick(
    args: &[ColumnarValue],
    rows: usize,
    found: impl Fn(i32, usize) -> Result<Option<usize>, SparkError>,
) -> Result<ArrayRef> {
    let (lists, indices) = (
        Lists::new(argument(args, 0)?)?,
        Items::new(argument(args, 1)?)?,
    );
    // As Java's `intValue`: the low 32 bits.
    let wide = cast(&indices.array, &DataType::Int64)?;
    let wide = wide.as_primitive::<Int64Type>();
    let mut out = Gather::new(lists.values().data_type(), [Arc::clone(lists.values())]);
    for row in 0..rows {
        let range = match lists.range(row) {
            Some(range) if !indices.is_null(row) => range,
            _ => {
                out.null();
                continue;
            }
        };
        let index = wide.value(indices.at(row)) as i32;
        match found(index, range.len())? {
            Some(index) => out.pick(0, range.start + index),
            None => out.null(),
        }
    }
    out.finish()
}

/// `map[key]`: NULL without it.
pub(super) fn map_value(call: &CallInfo<'_>) -> Built {
    let [map, wanted] = call.types else {
        return Err(call.bad_types());
    };
    let (key, value) = key_value(map).ok_or_else(|| call.bad_types())?;
    if key != wanted || value != call.ret || !is_orderable(key) {
        return Err(call.bad_types());
    }
    Ok(Arc::new(move |args, rows| {
        let (maps, wanted) = (
            Maps::new(argument(args, 0)?)?,
            Items::new(argument(args, 1)?)?,
        );
        let values = maps.values.values();
        let [keys, wanteds] = Ordered::of([maps.keys.values(), &wanted.array])?;
        let mut out = Gather::new(values.data_type(), [Arc::clone(values)]);
        for row in 0..rows {
            let found = match maps.range(row) {
                Some(mut range) if !wanted.is_null(row) => {
                    let wanted = wanteds.get(wanted.at(row));
                    range.find(|i| keys.get(*i) == wanted)
                }
                _ => None,
            };
            match found {
                Some(index) => out.pick(0, index),
                None => out.null(),
            }
        }
        out.finish()
    }))
}
