//! Looking for values in arrays, and putting arrays in order.

use std::{cmp::Ordering, collections::HashSet, ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, BooleanArray, Int64Array},
    datatypes::DataType,
};
use datafusion_common::Result;

use super::{
    arrays::flag,
    build::{Gather, ListBuilder},
    element, gives,
    lists::{Items, Lists},
    order::{Ordered, Zeros, is_nested, is_orderable},
};
use crate::{
    Unsupported,
    function::{CallInfo, Kernel},
    vector::argument,
};

type Built = Result<Kernel, Unsupported>;

/// An array whose elements are compared with the second argument.
fn array_and_value(call: &CallInfo<'_>) -> Result<DataType, Unsupported> {
    let [list, value] = call.types else {
        return Err(call.bad_types());
    };
    match element(list) == Some(value) && is_orderable(value) {
        true => Ok(value.clone()),
        false => Err(call.bad_types()),
    }
}

/// True with an equal element; else NULL if one is NULL.
pub(super) fn contains(call: &CallInfo<'_>) -> Built {
    array_and_value(call)?;
    gives(call, Some(DataType::Boolean))?;
    Ok(Arc::new(move |args, rows| {
        let (lists, value) = (
            Lists::new(argument(args, 0)?)?,
            Items::new(argument(args, 1)?)?,
        );
        let [elements, values] = Ordered::of([lists.values(), &value.array])?;
        let null = |range: Range<usize>| range.into_iter().any(|i| elements.is_null(i));
        Ok(match elements.numbers(&values) {
            Some(is) => has(&lists, &value, rows, is, null),
            None => has(
                &lists,
                &value,
                rows,
                |i, j| elements.is(i, &values, j),
                null,
            ),
        })
    }))
}

fn has(
    lists: &Lists,
    value: &Items,
    rows: usize,
    is: impl Fn(usize, usize) -> bool,
    null: impl Fn(Range<usize>) -> bool,
) -> ArrayRef {
    let found = (0..rows).map(|row| {
        let range = lists.range(row)?;
        let wanted = value.valid(row)?;
        let found = range.clone().any(|i| is(i, wanted));
        (found || !null(range)).then_some(found)
    });
    Arc::new(found.collect::<BooleanArray>())
}

/// The position of the first equal element, from 1; 0 without one.
pub(super) fn position(call: &CallInfo<'_>) -> Built {
    array_and_value(call)?;
    gives(call, Some(DataType::Int64))?;
    Ok(Arc::new(move |args, rows| {
        let (lists, value) = (
            Lists::new(argument(args, 0)?)?,
            Items::new(argument(args, 1)?)?,
        );
        let [elements, values] = Ordered::of([lists.values(), &value.array])?;
        Ok(match elements.numbers(&values) {
            Some(is) => place(&lists, &value, rows, is),
            None => place(&lists, &value, rows, |i, j| elements.is(i, &values, j)),
        })
    }))
}

fn place(lists: &Lists, value: &Items, rows: usize, is: impl Fn(usize, usize) -> bool) -> ArrayRef {
    let found = (0..rows).map(|row| {
        let mut range = lists.range(row)?;
        let wanted = value.valid(row)?;
        let found = range.position(|i| is(i, wanted));
        found.map_or(Some(0), |at| i64::try_from(at + 1).ok())
    });
    Arc::new(found.collect::<Int64Array>())
}

/// The array without the elements that are equal to a value.
pub(super) fn remove(call: &CallInfo<'_>) -> Built {
    let of = array_and_value(call)?;
    gives(call, call.types.first().cloned())?;
    Ok(Arc::new(move |args, rows| {
        let (lists, value) = (
            Lists::new(argument(args, 0)?)?,
            Items::new(argument(args, 1)?)?,
        );
        let [elements, values] = Ordered::of([lists.values(), &value.array])?;
        let mut out = ListBuilder::new(&of, [Arc::clone(lists.values())], rows);
        for row in 0..rows {
            match lists.range(row) {
                Some(range) if !value.is_null(row) => {
                    let unwanted = value.at(row);
                    let kept = range.filter(|i| !elements.is(*i, &values, unwanted));
                    kept.for_each(|i| out.elements.pick(0, i));
                    out.row()?;
                }
                _ => out.null_row()?,
            }
        }
        out.finish()
    }))
}

/// An array of so many elements is searched as it is.
const FEW: usize = 8;

/// Whether two arrays have an element in common; NULL if they have none, but a NULL, and neither is
/// empty.
pub(super) fn overlap(call: &CallInfo<'_>) -> Built {
    let [left, right] = call.types else {
        return Err(call.bad_types());
    };
    let of = element(left).ok_or_else(|| call.bad_types())?;
    if left != right || !is_orderable(of) {
        return Err(call.bad_types());
    }
    gives(call, Some(DataType::Boolean))?;
    Ok(Arc::new(move |args, rows| {
        let (left, right) = (
            Lists::new(argument(args, 0)?)?,
            Lists::new(argument(args, 1)?)?,
        );
        let [lefts, rights] = Ordered::with(Zeros::Two, [left.values(), right.values()])?;
        let found: BooleanArray = (0..rows)
            .map(|row| {
                let (ours, theirs) = (left.range(row)?, right.range(row)?);
                if ours.is_empty() || theirs.is_empty() {
                    return Some(false);
                }
                let found = if ours.len() <= FEW || theirs.len() <= FEW {
                    let valid = |i: &usize| !rights.is_null(*i);
                    theirs
                        .clone()
                        .filter(valid)
                        .any(|j| ours.clone().any(|i| lefts.is(i, &rights, j)))
                } else {
                    let valid = |i: &usize| !lefts.is_null(*i);
                    let set: HashSet<_> =
                        ours.clone().filter(valid).map(|i| lefts.get(i)).collect();
                    let mut theirs = theirs.clone();
                    theirs.any(|i| !rights.is_null(i) && set.contains(&rights.get(i)))
                };
                if found {
                    return Some(true);
                }
                let null = ours.clone().any(|i| lefts.is_null(i))
                    || theirs.clone().any(|i| rights.is_null(i));
                (!null).then_some(false)
            })
            .collect();
        Ok(Arc::new(found) as ArrayRef)
    }))
}

/// The least or greatest element; NULLs do not count.
pub(super) fn extreme(call: &CallInfo<'_>, greatest: bool) -> Built {
    let [list] = call.types else {
        return Err(call.bad_types());
    };
    let of = element(list).filter(|of| is_orderable(of));
    gives(call, of.cloned())?;
    Ok(Arc::new(move |args, rows| {
        let lists = Lists::new(argument(args, 0)?)?;
        let [elements] = Ordered::of([lists.values()])?;
        let valid = |i: &usize| !elements.is_null(*i);
        let order = |one: &usize, other: &usize| elements.compare(*one, *other);
        let mut out = Gather::new(lists.values().data_type(), [Arc::clone(lists.values())]);
        for row in 0..rows {
            let range = lists.range(row).unwrap_or(0..0).filter(valid);
            // Of several that are equal the first.
            let best = match greatest {
                true => range.reduce(|best, i| if order(&i, &best).is_gt() { i } else { best }),
                false => range.min_by(order),
            };
            match best {
                Some(best) => out.pick(0, best),
                None => out.null(),
            }
        }
        out.finish()
    }))
}

/// (array, ascending, whether Java sorts numbers without boxes: −0.0 is then before 0.0). NULLs are
/// the least.
pub(super) fn sort_array(call: &CallInfo<'_>) -> Built {
    let [list, DataType::Boolean, DataType::Boolean] = call.types else {
        return Err(call.bad_types());
    };
    let (ascending, unboxed) = (flag(call, 1)?, flag(call, 2)?);
    let (zeros, direction) = match (ascending, unboxed) {
        (true, true) => (Zeros::Two, Direction::UpNullsFirst),
        (true, false) => (Zeros::One, Direction::UpNullsFirst),
        (false, _) => (Zeros::One, Direction::DownNullsLast),
    };
    sort(call, list, zeros, direction)
}

/// `array_sort` by its own order: NULLs come last.
pub(super) fn array_sort(call: &CallInfo<'_>) -> Built {
    let [list] = call.types else {
        return Err(call.bad_types());
    };
    sort(call, list, Zeros::One, Direction::UpNullsLast)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    UpNullsFirst,
    UpNullsLast,
    DownNullsLast,
}

impl Direction {
    fn of(self, ordering: Ordering) -> Ordering {
        match self {
            Self::DownNullsLast => ordering.reverse(),
            Self::UpNullsFirst | Self::UpNullsLast => ordering,
        }
    }
}

/// Those that are equal keep their order.
fn sort(call: &CallInfo<'_>, list: &DataType, zeros: Zeros, direction: Direction) -> Built {
    let of = element(list).ok_or_else(|| call.bad_types())?.clone();
    if !is_orderable(&of) {
        return Err(call.bad_types());
    }
    gives(call, Some(list.clone()))?;
    debug_assert!(zeros == Zeros::One || !is_nested(&of));
    Ok(Arc::new(move |args, rows| {
        let lists = Lists::new(argument(args, 0)?)?;
        let [elements] = Ordered::with(zeros, [lists.values()])?;
        let mut out = ListBuilder::new(&of, [Arc::clone(lists.values())], rows);
        let mut keyed = Vec::<(i64, usize)>::new();
        for row in 0..rows {
            let Some(range) = lists.range(row) else {
                out.null_row()?;
                continue;
            };
            let nulls = range.clone().filter(|i| elements.is_null(*i));
            let valid = range.filter(|i| !elements.is_null(*i));
            if direction == Direction::UpNullsFirst {
                nulls.clone().for_each(|i| out.elements.pick(0, i));
            }
            keyed.clear();
            keyed.extend(valid.map(|i| (elements.begins(i), i)));
            keyed.sort_by(|(first, one), (second, other)| {
                let begins = first.cmp(second);
                direction.of(begins.then_with(|| elements.compare(*one, *other)))
            });
            keyed.iter().for_each(|(_, i)| out.elements.pick(0, *i));
            if direction != Direction::UpNullsFirst {
                nulls.for_each(|i| out.elements.pick(0, i));
            }
            out.row()?;
        }
        out.finish()
    }))
}
