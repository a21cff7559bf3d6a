//! Casts of arrays, structs and maps: to others by the casts of what they hold, and to the text
//! that Spark prints.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, ListArray, MapArray, StringArray, StructArray, UInt32Array,
        new_empty_array,
    },
    compute::take,
    datatypes::DataType,
};
use coffer_protocol::plan;
use datafusion_common::{Result, internal_err};
use datafusion_expr::ColumnarValue;

use super::{
    CastInfo, kernel, null_kernel,
    text::{Style, text_kernel, write},
};
use crate::{
    Unsupported,
    function::Kernel,
    nested::field_of,
    types::{element_field, is_open_in_arrow, map_entries},
    vector::{argument, array},
};

type Built = Result<Kernel, Unsupported>;

pub(super) fn cast(info: &CastInfo<'_>) -> Built {
    Ok(match (info.from, info.to) {
        (DataType::List(from), DataType::List(to)) => {
            let of = inner(info, 0, from.data_type(), to.data_type())?;
            Arc::new(move |args, rows| {
                let list = given(&array(argument(args, 0)?, rows)?)?;
                let list = list.as_list::<i32>();
                let values = of.apply(list.values())?;
                Ok(Arc::new(ListArray::try_new(
                    element_field(of.to.clone()),
                    list.offsets().clone(),
                    values,
                    list.nulls().cloned(),
                )?) as ArrayRef)
            })
        }
        (DataType::Struct(from), DataType::Struct(to)) if from.len() == to.len() => {
            let fields = to.clone();
            let of = from
                .iter()
                .zip(to.iter())
                .enumerate()
                .map(|(at, (from, to))| inner(info, at, from.data_type(), to.data_type()))
                .collect::<Result<Vec<_>, _>>()?;
            Arc::new(move |args, rows| {
                let row = array(argument(args, 0)?, rows)?;
                let row = row.as_struct();
                let columns = of.iter().enumerate();
                let columns = columns.map(|(i, of)| of.apply(&field_of(row, i)?));
                let columns = columns.collect::<Result<Vec<_>>>()?;
                let nulls = row.nulls().cloned();
                let row = StructArray::try_new_with_length(fields.clone(), columns, nulls, rows)?;
                Ok(Arc::new(row) as ArrayRef)
            })
        }
        (DataType::Map(from, _), DataType::Map(to, _)) => {
            let (DataType::Struct(from), DataType::Struct(to)) = (from.data_type(), to.data_type())
            else {
                return Err(info.unsupported());
            };
            let sides = from.iter().zip(to.iter());
            let sides = sides
                .enumerate()
                .map(|(at, (from, to))| inner(info, at, from.data_type(), to.data_type()))
                .collect::<Result<Vec<_>, _>>()?;
            let [key, value] = <[Inner; 2]>::try_from(sides).map_err(|_| info.unsupported())?;
            Arc::new(move |args, rows| {
                let map = given(&array(argument(args, 0)?, rows)?)?;
                let map = map.as_map();
                let (entries, fields) = map_entries(key.to.clone(), value.to.clone());
                let sides = vec![key.apply(map.keys())?, value.apply(map.values())?];
                let pairs = StructArray::try_new(fields, sides, None)?;
                let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
                let map = MapArray::try_new(entries, offsets, pairs, nulls, false)?;
                Ok(Arc::new(map) as ArrayRef)
            })
        }
        _ => return Err(info.unsupported()),
    })
}

/// The cast of what lies inside.
struct Inner {
    to: DataType,
    /// None: it has the type already.
    kernel: Option<Kernel>,
}

impl Inner {
    fn apply(&self, values: &ArrayRef) -> Result<ArrayRef> {
        match &self.kernel {
            None => Ok(Arc::clone(values)),
            Some(_) if values.is_empty() => Ok(new_empty_array(&self.to)),
            Some(kernel) => kernel(&[ColumnarValue::Array(Arc::clone(values))], values.len()),
        }
    }
}

/// Of the part at a place.
fn inner(
    info: &CastInfo<'_>,
    at: usize,
    from: &DataType,
    to: &DataType,
) -> Result<Inner, Unsupported> {
    fn part(of: &plan::DataType, at: usize) -> Option<&plan::DataType> {
        of.children.get(at).and_then(|field| field.r#type.as_ref())
    }
    let logical = (
        info.logical.0.and_then(|of| part(of, at)),
        info.logical.1.and_then(|of| part(of, at)),
    );
    let has = |of: Option<&plan::DataType>| of.is_some_and(is_open_in_arrow);
    let info = CastInfo {
        from,
        to,
        mode: info.mode,
        float_text: info.float_text,
        zone: info.zone,
        logical: match has(logical.0) || has(logical.1) {
            true => logical,
            false => (None, None),
        },
    };
    let kernel = match from {
        _ if info.is_same() => None,
        DataType::Null => Some(null_kernel(to)?),
        _ => Some(kernel(&info)?),
    };
    Ok(Inner {
        to: to.clone(),
        kernel,
    })
}

/// The same rows over none but their own values: those under NULL could fail.
fn given(array: &ArrayRef) -> Result<ArrayRef> {
    let (offsets, values) = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (list.offsets(), list.values().len())
        }
        DataType::Map(..) => (array.as_map().offsets(), array.as_map().entries().len()),
        other => return internal_err!("{other} has no elements"),
    };
    let ends = (
        offsets.first(),
        offsets.last().and_then(|end| usize::try_from(*end).ok()),
    );
    if array.null_count() == 0 && ends == (Some(&0), Some(values)) {
        return Ok(Arc::clone(array));
    }
    let rows = u32::try_from(array.len()).unwrap_or(u32::MAX);
    Ok(take(array, &UInt32Array::from_iter_values(0..rows), None)?)
}

/// The text of values, or of what lies inside of them.
pub(super) fn to_text(from: &DataType, zone: &str, style: Style) -> Option<Built> {
    let inside = |of: &DataType| -> Option<Built> {
        match of {
            // As it is.
            DataType::Utf8 => Some(Ok(Arc::new(move |args: &[ColumnarValue], rows| {
                array(argument(args, 0)?, rows)
            }))),
            of => text_kernel(of, zone, style),
        }
    };
    let all = |types: Vec<&DataType>| -> Option<Result<Vec<Kernel>, Unsupported>> {
        types.into_iter().map(inside).collect()
    };
    let kernels = match from {
        DataType::List(element) => all(vec![element.data_type()])?,
        DataType::Struct(fields) => all(fields.iter().map(|f| f.data_type()).collect())?,
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => all(fields.iter().map(|f| f.data_type()).collect())?,
            _ => return None,
        },
        _ => return None,
    };
    let kernels = match kernels {
        Ok(kernels) => kernels,
        Err(why) => return Some(Err(why)),
    };
    Some(Ok(Arc::new(move |args, rows| {
        let values = array(argument(args, 0)?, rows)?;
        match values.data_type() {
            DataType::Struct(_) => structs(values.as_struct(), &kernels, style),
            _ => repeated(&given(&values)?, &kernels, style),
        }
    })))
}

/// The texts of an array's values.
fn texts(kernel: &Kernel, values: &ArrayRef) -> Result<ArrayRef> {
    match values.is_empty() {
        true => Ok(new_empty_array(&DataType::Utf8)),
        false => kernel(&[ColumnarValue::Array(Arc::clone(values))], values.len()),
    }
}

/// A value's text inside of another's.
fn push(texts: &StringArray, index: usize, style: Style, out: &mut String) {
    match texts.is_valid(index) {
        true => out.push_str(texts.value(index)),
        false => out.push_str(if style.pretty { "NULL" } else { "null" }),
    }
}

fn structs(row: &StructArray, kernels: &[Kernel], style: Style) -> Result<ArrayRef> {
    let fields = kernels.iter().enumerate();
    let fields = fields.map(|(i, kernel)| texts(kernel, &field_of(row, i)?));
    let fields = fields.collect::<Result<Vec<_>>>()?;
    let rows = (0..row.len()).map(|i| row.is_valid(i).then_some(i));
    write(rows, style, |i, out| {
        out.push('{');
        for (at, field) in fields.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { ", " });
            push(field.as_string::<i32>(), i, style, out);
        }
        out.push('}');
        Ok(())
    })
}

fn repeated(values: &ArrayRef, kernels: &[Kernel], style: Style) -> Result<ArrayRef> {
    let (offsets, sides) = match values.data_type() {
        DataType::List(_) => {
            let list = values.as_list::<i32>();
            (list.offsets(), vec![list.values()])
        }
        _ => {
            let map = values.as_map();
            (map.offsets(), vec![map.keys(), map.values()])
        }
    };
    let (open, close) = if sides.len() == 1 {
        ('[', ']')
    } else {
        ('{', '}')
    };
    let sides = kernels
        .iter()
        .zip(sides)
        .map(|(kernel, values)| texts(kernel, values));
    let sides = sides.collect::<Result<Vec<_>>>()?;
    let ranges = offsets.windows(2).enumerate();
    let rows = ranges.map(|(i, ends)| values.is_valid(i).then_some(ends));
    write(rows, style, |ends, out| {
        let (Some(start), Some(end)) = (ends.first(), ends.last()) else {
            return Ok(());
        };
        out.push(open);
        for i in *start..*end {
            out.push_str(if i == *start { "" } else { ", " });
            for (at, side) in sides.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { " -> " });
                push(
                    side.as_string::<i32>(),
                    usize::try_from(i).unwrap_or(0),
                    style,
                    out,
                );
            }
        }
        out.push(close);
        Ok(())
    })
}
