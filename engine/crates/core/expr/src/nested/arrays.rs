//! Arrays: made, measured, cut, joined, turned.

use std::{fmt::Write, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, Int32Array, ListArray,
        PrimitiveArray, StringArray, StringBuilder, StructArray, UInt64Array, downcast_primitive,
        new_empty_array,
    },
    buffer::{BooleanBuffer, NullBuffer, OffsetBuffer},
    compute::{self, interleave, take},
    datatypes::{DataType, Int32Type},
};
use datafusion_common::{DataFusionError, Result, ScalarValue, internal_err};

use super::{
    build::{Ends, Gather, ListBuilder},
    element, gives,
    lists::{Items, Lists, Maps},
};
use crate::{
    SparkError, Unsupported,
    function::{CallInfo, Kernel},
    types::{element_field, list_of},
    vector::{argument, array},
};

type Built = Result<Kernel, Unsupported>;

/// Elements that one batch's result may have where a number in the data says how many.
const MOST: usize = 1 << 26;

/// Fails before more memory is taken than there is.
pub(super) fn within(elements: usize, more: usize) -> Result<()> {
    match elements.checked_add(more) {
        Some(all) if all <= MOST => Ok(()),
        _ => Err(DataFusionError::ResourcesExhausted(format!(
            "a batch makes arrays of more than {MOST} elements"
        ))),
    }
}

/// A literal argument that is true or false.
pub(super) fn flag(call: &CallInfo<'_>, index: usize) -> Result<bool, Unsupported> {
    match call.literal(index)? {
        ScalarValue::Boolean(Some(flag)) => Ok(*flag),
        _ => Err(call.bad_types()),
    }
}

/// An argument of INT.
pub(super) fn ints(items: &Items) -> Result<&Int32Array> {
    match items.array.as_primitive_opt::<Int32Type>() {
        Some(ints) => Ok(ints),
        None => internal_err!("expected an int, got {}", items.array.data_type()),
    }
}

pub(super) fn create(call: &CallInfo<'_>) -> Built {
    let of = element(call.ret).ok_or_else(|| call.bad_types())?.clone();
    if *call.ret != list_of(of.clone()) || call.types.iter().any(|t| *t != of) {
        return Err(call.bad_types());
    }
    Ok(Arc::new(move |args, rows| {
        let items = args.iter().map(Items::new).collect::<Result<Vec<_>>>()?;
        within(0, items.len().saturating_mul(rows))?;
        let values = match items.is_empty() {
            true => new_empty_array(&of),
            false => in_turn(&items, rows)?,
        };
        let ends = OffsetBuffer::from_repeated_length(items.len(), rows);
        let list = ListArray::try_new(element_field(of.clone()), ends, values, None)?;
        Ok(Arc::new(list) as ArrayRef)
    }))
}

/// The first row's value of each, the second row's, …; all are of one type, and one at least.
fn in_turn(items: &[Items], rows: usize) -> Result<ArrayRef> {
    fn numbers<T: ArrowPrimitiveType>(items: &[Items], rows: usize) -> Option<ArrayRef> {
        let each = items
            .iter()
            .map(|item| Some((item, item.array.as_primitive_opt::<T>()?)));
        let each = each.collect::<Option<Vec<_>>>()?;
        let of = each.first()?.1.data_type().clone();
        let mut values = vec![T::Native::default(); items.len() * rows];
        for (at, (item, array)) in each.iter().enumerate() {
            let mut places = values.iter_mut().skip(at).step_by(items.len());
            match item.is_one() {
                true => places.for_each(|place| *place = array.value(0)),
                false => array.values().iter().for_each(|value| {
                    if let Some(place) = places.next() {
                        *place = *value;
                    }
                }),
            }
        }
        let array = PrimitiveArray::<T>::new(values.into(), nulls_in_turn(items, rows));
        Some(Arc::new(array.with_data_type(of)))
    }
    macro_rules! turned {
        ($t:ty) => {
            numbers::<$t>(items, rows)
        };
    }
    let numbers = items.first().and_then(|item| {
        downcast_primitive! {
            item.array.data_type() => (turned),
            _ => None,
        }
    });
    if let Some(values) = numbers {
        return Ok(values);
    }
    if let Some(lists) = lists_in_turn(items, rows)? {
        return Ok(lists);
    }
    let sources: Vec<&dyn Array> = items.iter().map(|i| i.array.as_ref()).collect();
    let mut picks = Vec::with_capacity(items.len() * rows);
    for row in 0..rows {
        picks.extend(
            items
                .iter()
                .enumerate()
                .map(|(at, item)| (at, item.at(row))),
        );
    }
    Ok(interleave(&sources, &picks)?)
}

/// Which of the values that [`in_turn`] makes are NULL.
fn nulls_in_turn(items: &[Items], rows: usize) -> Option<NullBuffer> {
    let mut valid = None;
    for (at, item) in items.iter().enumerate() {
        let Some(nulls) = item.array.nulls().filter(|nulls| nulls.null_count() > 0) else {
            continue;
        };
        let valid = valid.get_or_insert_with(|| {
            let mut all = BooleanBufferBuilder::new(items.len() * rows);
            all.append_n(items.len() * rows, true);
            all
        });
        let mut null = |row: usize| valid.set_bit(row * items.len() + at, false);
        match item.is_one() {
            true => (0..rows).for_each(null),
            false => (!nulls.inner()).set_indices().for_each(&mut null),
        }
    }
    valid.map(|mut valid| NullBuffer::new(valid.finish()))
}

/// [`in_turn`] of arrays: their elements are taken once. Of other types none.
fn lists_in_turn(items: &[Items], rows: usize) -> Result<Option<ArrayRef>> {
    let lists = items.iter().map(|item| item.array.as_list_opt::<i32>());
    let Some(lists) = lists.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let Some(of) = lists.first().and_then(|list| element(list.data_type())) else {
        return Ok(None);
    };
    let elements: Vec<&dyn Array> = lists.iter().map(|list| list.values().as_ref()).collect();
    let elements = compute::concat(&elements)?;
    let mut starts = Vec::with_capacity(lists.len());
    let mut before = 0;
    for list in &lists {
        starts.push(before);
        before += list.values().len();
    }
    // An array that is the same for all rows can be long.
    let repeated = items.iter().zip(&lists).filter(|(item, _)| item.is_one());
    let repeated = repeated.map(|(_, list)| list.values().len().saturating_mul(rows));
    within(0, repeated.fold(0, usize::saturating_add))?;
    let mut places = Vec::<u64>::with_capacity(elements.len());
    let mut ends = Vec::with_capacity(items.len() * rows + 1);
    ends.push(0);
    for row in 0..rows {
        for ((item, list), start) in items.iter().zip(&lists).zip(&starts) {
            let at = item.at(row);
            if let (true, [from, to]) = (list.is_valid(at), &list.value_offsets()[at..at + 2]) {
                let (from, to) = (start + *from as usize, start + *to as usize);
                places.extend((from as u64)..(to as u64));
            }
            let Ok(end) = i32::try_from(places.len()) else {
                return internal_err!("a batch has more than 2^31 elements of arrays");
            };
            ends.push(end);
        }
    }
    let list = ListArray::try_new(
        element_field(of.clone()),
        OffsetBuffer::new(ends.into()),
        take(&elements, &UInt64Array::from(places), None)?,
        nulls_in_turn(items, rows),
    )?;
    Ok(Some(Arc::new(list)))
}

/// (array or map, whether the size of NULL is −1).
pub(super) fn size(call: &CallInfo<'_>) -> Built {
    let ([of, DataType::Boolean], DataType::Int32) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    let of_null = flag(call, 1)?.then_some(-1);
    let map = matches!(of, DataType::Map(..));
    if !map && element(of).is_none() {
        return Err(call.bad_types());
    }
    Ok(Arc::new(move |args, rows| {
        let lists = match map {
            true => Maps::new(argument(args, 0)?)?.keys,
            false => Lists::new(argument(args, 0)?)?,
        };
        let sizes: Int32Array = (0..rows)
            .map(|row| match lists.range(row) {
                Some(range) => i32::try_from(range.len()).ok(),
                None => of_null,
            })
            .collect();
        Ok(Arc::new(sizes) as ArrayRef)
    }))
}

/// (array, start from 1 or from the end, length).
pub(super) fn slice(call: &CallInfo<'_>) -> Built {
    let [list, DataType::Int32, DataType::Int32] = call.types else {
        return Err(call.bad_types());
    };
    let of = element(list).ok_or_else(|| call.bad_types())?.clone();
    gives(call, Some(list_of(of.clone())))?;
    Ok(Arc::new(move |args, rows| {
        let lists = Lists::new(argument(args, 0)?)?;
        let (starts, lengths) = (
            Items::new(argument(args, 1)?)?,
            Items::new(argument(args, 2)?)?,
        );
        let mut out = ListBuilder::new(&of, [Arc::clone(lists.values())], rows);
        for row in 0..rows {
            let range = match lists.range(row) {
                Some(range) if !starts.is_null(row) && !lengths.is_null(row) => range,
                _ => {
                    out.null_row()?;
                    continue;
                }
            };
            let start = ints(&starts)?.value(starts.at(row));
            let length = ints(&lengths)?.value(lengths.at(row));
            if start == 0 {
                return Err(parameter(
                    "START",
                    "start",
                    "slice",
                    "Expects a positive or a negative value for `start`, but got 0.",
                )
                .into());
            }
            let Ok(length) = usize::try_from(length) else {
                return Err(parameter(
                    "LENGTH",
                    "length",
                    "slice",
                    &format!("Expects `length` greater than or equal to 0, but got {length}."),
                )
                .into());
            };
            let back = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
            let first = match start > 0 {
                true => Some(back - 1),
                false => range.len().checked_sub(back),
            };
            if let Some(first) = first {
                range
                    .skip(first)
                    .take(length)
                    .for_each(|i| out.elements.pick(0, i));
            }
            out.row()?;
        }
        out.finish()
    }))
}

/// Spark's error of a parameter of a function.
pub(super) fn parameter(
    of: &'static str,
    parameter: &str,
    function: &str,
    why: &str,
) -> SparkError {
    let class = match of {
        "START" => "INVALID_PARAMETER_VALUE.START",
        _ => "INVALID_PARAMETER_VALUE.LENGTH",
    };
    SparkError::new(
        class,
        format!("The value of parameter(s) `{parameter}` in `{function}` is invalid: {why}"),
    )
}

/// NULL if an array in the array is.
pub(super) fn flatten(call: &CallInfo<'_>) -> Built {
    let [outer] = call.types else {
        return Err(call.bad_types());
    };
    let inner = element(outer).ok_or_else(|| call.bad_types())?;
    let of = element(inner).ok_or_else(|| call.bad_types())?.clone();
    gives(call, Some(list_of(of.clone())))?;
    Ok(Arc::new(move |args, rows| {
        let outer = array(argument(args, 0)?, rows)?;
        let outer = outer.as_list::<i32>();
        let Some(inner) = outer.values().as_list_opt::<i32>() else {
            return internal_err!("expected an array of arrays");
        };
        // The elements lie one behind the other as they are.
        let starts = inner.offsets();
        let ends: Vec<i32> = outer
            .offsets()
            .iter()
            .filter_map(|end| starts.get(usize::try_from(*end).ok()?).copied())
            .collect();
        let valid = BooleanBuffer::collect_bool(rows, |row| {
            let parts = outer.value_offsets().get(row..row + 2).unwrap_or_default();
            outer.is_valid(row)
                && match (inner.nulls(), parts) {
                    (Some(nulls), [from, to]) => {
                        (*from..*to).all(|i| usize::try_from(i).is_ok_and(|i| nulls.is_valid(i)))
                    }
                    _ => true,
                }
        });
        let list = ListArray::try_new(
            element_field(of.clone()),
            OffsetBuffer::new(ends.into()),
            Arc::clone(inner.values()),
            Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0),
        )?;
        Ok(Arc::new(list) as ArrayRef)
    }))
}

/// (value, how often).
pub(super) fn repeat(call: &CallInfo<'_>) -> Built {
    let [of, DataType::Int32] = call.types else {
        return Err(call.bad_types());
    };
    let of = of.clone();
    gives(call, Some(list_of(of.clone())))?;
    Ok(Arc::new(move |args, rows| {
        let (items, counts) = (
            Items::new(argument(args, 0)?)?,
            Items::new(argument(args, 1)?)?,
        );
        let mut out = ListBuilder::new(&of, [Arc::clone(&items.array)], rows);
        for row in 0..rows {
            if counts.is_null(row) {
                out.null_row()?;
                continue;
            }
            let count = ints(&counts)?.value(counts.at(row));
            let count = usize::try_from(count).unwrap_or(0);
            within(out.elements.len(), count)?;
            (0..count).for_each(|_| out.elements.pick(0, items.at(row)));
            out.row()?;
        }
        out.finish()
    }))
}

/// (array, position, value, whether −1 is before the last).
pub(super) fn insert(call: &CallInfo<'_>) -> Built {
    let [list, DataType::Int32, item, DataType::Boolean] = call.types else {
        return Err(call.bad_types());
    };
    let of = item.clone();
    if element(list) != Some(item) {
        return Err(call.bad_types());
    }
    gives(call, Some(list_of(of.clone())))?;
    let legacy = flag(call, 3)?;
    Ok(Arc::new(move |args, rows| {
        let lists = Lists::new(argument(args, 0)?)?;
        let (positions, items) = (
            Items::new(argument(args, 1)?)?,
            Items::new(argument(args, 2)?)?,
        );
        let sources = [Arc::clone(lists.values()), Arc::clone(&items.array)];
        let mut out = ListBuilder::new(&of, sources, rows);
        for row in 0..rows {
            let range = match lists.range(row) {
                Some(range) if !positions.is_null(row) => range,
                _ => {
                    out.null_row()?;
                    continue;
                }
            };
            let position = ints(&positions)?.value(positions.at(row));
            let back = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
            within(out.elements.len(), back)?;
            let item = items.at(row);
            if position == 0 {
                return Err(SparkError::index_of_zero().into());
            } else if position < 0 && back > range.len() {
                out.elements.pick(1, item);
                let between = back - range.len() - usize::from(!legacy);
                (0..between).for_each(|_| out.elements.null());
                range.for_each(|i| out.elements.pick(0, i));
            } else {
                let at = match position > 0 {
                    true => back - 1,
                    false => range.len() - back + usize::from(!legacy),
                };
                let len = range.len();
                range.clone().take(at).for_each(|i| out.elements.pick(0, i));
                (len..at).for_each(|_| out.elements.null());
                out.elements.pick(1, item);
                range.skip(at).for_each(|i| out.elements.pick(0, i));
            }
            out.row()?;
        }
        out.finish()
    }))
}

/// The structs of the arrays' first elements, their second ones, …; NULL where one has no more.
pub(super) fn zip(call: &CallInfo<'_>) -> Built {
    let Some(DataType::Struct(fields)) = element(call.ret) else {
        return Err(call.bad_types());
    };
    let types: Option<Vec<_>> = call.types.iter().map(element).collect();
    let types = types.ok_or_else(|| call.bad_types())?;
    let agree = fields.iter().map(|field| field.data_type()).eq(types);
    if !agree || call.types.is_empty() {
        return Err(call.bad_types());
    }
    let fields = fields.clone();
    Ok(Arc::new(move |args, rows| {
        let lists = args.iter().map(Lists::new).collect::<Result<Vec<_>>>()?;
        let mut columns: Vec<_> = lists
            .iter()
            .map(|list| Gather::new(list.values().data_type(), [Arc::clone(list.values())]))
            .collect();
        let (mut ends, mut end) = (Ends::with_capacity(rows), 0);
        for row in 0..rows {
            let ranges: Option<Vec<_>> = lists.iter().map(|list| list.range(row)).collect();
            let Some(ranges) = ranges else {
                ends.null(end)?;
                continue;
            };
            let most = ranges.iter().map(|range| range.len()).max().unwrap_or(0);
            end += most;
            for (column, range) in columns.iter_mut().zip(ranges) {
                let missing = most - range.len();
                range.for_each(|i| column.pick(0, i));
                (0..missing).for_each(|_| column.null());
            }
            ends.row(end)?;
        }
        let columns = columns
            .into_iter()
            .map(Gather::finish)
            .collect::<Result<Vec<_>>>()?;
        let values = StructArray::try_new_with_length(fields.clone(), columns, None, end)?;
        ends.list(Arc::new(values))
    }))
}

/// (strings, what is between, what stands for NULL if anything does).
pub(super) fn join(call: &CallInfo<'_>) -> Built {
    let (list, rest) = call.types.split_first().ok_or_else(|| call.bad_types())?;
    let texts = matches!(rest.len(), 1 | 2) && rest.iter().all(|t| *t == DataType::Utf8);
    if !texts || element(list) != Some(&DataType::Utf8) || *call.ret != DataType::Utf8 {
        return Err(call.bad_types());
    }
    Ok(Arc::new(move |args, rows| {
        let lists = Lists::new(argument(args, 0)?)?;
        let values = lists.values().as_string::<i32>();
        let between = Items::new(argument(args, 1)?)?;
        let for_null = args.get(2).map(Items::new).transpose()?;
        fn text(items: &Items, row: usize) -> Option<&str> {
            let texts: &StringArray = items.array.as_string::<i32>();
            items.valid(row).map(|at| texts.value(at))
        }
        let mut out = StringBuilder::with_capacity(rows, values.value_data().len());
        for row in 0..rows {
            let replaced = for_null.as_ref().map(|items| text(items, row));
            let (Some(range), Some(between)) = (lists.range(row), text(&between, row)) else {
                out.append_null();
                continue;
            };
            if replaced == Some(None) {
                out.append_null();
                continue;
            }
            let replaced = replaced.flatten();
            let parts = range.filter_map(|i| match values.is_valid(i) {
                true => Some(values.value(i)),
                false => replaced,
            });
            for (at, part) in parts.enumerate() {
                if at > 0 {
                    out.write_str(between)?;
                }
                out.write_str(part)?;
            }
            // What was written is the row's.
            out.append_value("");
        }
        Ok(Arc::new(out.finish()) as ArrayRef)
    }))
}

pub(crate) fn concat(call: &CallInfo<'_>) -> Built {
    let of = element(call.ret).ok_or_else(|| call.bad_types())?.clone();
    if call.types.is_empty() || call.types.iter().any(|t| t != call.ret) {
        return Err(call.bad_types());
    }
    Ok(Arc::new(move |args, rows| {
        let lists = args.iter().map(Lists::new).collect::<Result<Vec<_>>>()?;
        let sources = lists.iter().map(|list| Arc::clone(list.values()));
        let mut out = ListBuilder::new(&of, sources, rows);
        for row in 0..rows {
            let ranges: Option<Vec<_>> = lists.iter().map(|list| list.range(row)).collect();
            let Some(ranges) = ranges else {
                out.null_row()?;
                continue;
            };
            for (source, range) in ranges.into_iter().enumerate() {
                range.for_each(|i| out.elements.pick(source, i));
            }
            out.row()?;
        }
        out.finish()
    }))
}

pub(crate) fn reverse(call: &CallInfo<'_>) -> Built {
    let [list] = call.types else {
        return Err(call.bad_types());
    };
    let of = element(list).ok_or_else(|| call.bad_types())?.clone();
    gives(call, Some(list.clone()))?;
    Ok(Arc::new(move |args, rows| {
        let lists = Lists::new(argument(args, 0)?)?;
        let mut out = ListBuilder::new(&of, [Arc::clone(lists.values())], rows);
        for row in 0..rows {
            match lists.range(row) {
                Some(range) => {
                    range.rev().for_each(|i| out.elements.pick(0, i));
                    out.row()?;
                }
                None => out.null_row()?,
            }
        }
        out.finish()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_not_fit_is_refused() {
        assert!(within(0, MOST).is_ok());
        assert!(within(1, MOST).is_err());
        assert!(within(usize::MAX, 1).is_err());
    }
}
