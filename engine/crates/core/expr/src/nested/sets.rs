//! Arrays as sets: each value once, in the order in which it came first. As Spark has it, −0.0 and
//! 0.0 are two values, but in nested ones.

use std::{collections::HashSet, ops::Range, sync::Arc};

use arrow::datatypes::DataType;
use datafusion_common::Result;

use super::{
    build::ListBuilder,
    element, gives,
    lists::Lists,
    order::{Ordered, Zeros, is_orderable},
};
use crate::{
    Unsupported,
    function::{CallInfo, Kernel},
    vector::argument,
};

type Built = Result<Kernel, Unsupported>;

fn element_type(call: &CallInfo<'_>, arity: usize) -> Result<DataType, Unsupported> {
    let list = call.types.first().ok_or_else(|| call.bad_types())?;
    let of = element(list).filter(|of| is_orderable(of));
    let of = of.ok_or_else(|| call.bad_types())?;
    if call.types.len() != arity || call.types.iter().any(|t| t != list) {
        return Err(call.bad_types());
    }
    gives(call, Some(list.clone()))?;
    Ok(of.clone())
}

pub(super) fn distinct(call: &CallInfo<'_>) -> Built {
    let of = element_type(call, 1)?;
    Ok(Arc::new(move |args, rows| {
        let lists = Lists::new(argument(args, 0)?)?;
        let [elements] = Ordered::with(Zeros::Two, [lists.values()])?;
        let mut out = ListBuilder::new(&of, [Arc::clone(lists.values())], rows);
        for row in 0..rows {
            let Some(range) = lists.range(row) else {
                out.null_row()?;
                continue;
            };
            let mut seen = HashSet::with_capacity(range.len());
            for i in range {
                if seen.insert(elements.get(i)) {
                    out.elements.pick(0, i);
                }
            }
            out.row()?;
        }
        out.finish()
    }))
}

pub(super) fn union(call: &CallInfo<'_>) -> Built {
    two(call, |left, right, (ours, theirs), out| {
        let mut seen = HashSet::with_capacity(left.len());
        for i in left {
            if seen.insert(ours.get(i)) {
                out.elements.pick(0, i);
            }
        }
        for i in right {
            if seen.insert(theirs.get(i)) {
                out.elements.pick(1, i);
            }
        }
    })
}

pub(super) fn intersect(call: &CallInfo<'_>) -> Built {
    two(call, |left, right, (ours, theirs), out| {
        let mut common: HashSet<_> = right.map(|i| theirs.get(i)).collect();
        for i in left {
            if common.remove(&ours.get(i)) {
                out.elements.pick(0, i);
            }
        }
    })
}

pub(super) fn except(call: &CallInfo<'_>) -> Built {
    two(call, |left, right, (ours, theirs), out| {
        let mut seen: HashSet<_> = right.map(|i| theirs.get(i)).collect();
        for i in left {
            if seen.insert(ours.get(i)) {
                out.elements.pick(0, i);
            }
        }
    })
}

/// Makes one array of two rows' elements.
type OfTwo = fn(Range<usize>, Range<usize>, (&Ordered, &Ordered), &mut ListBuilder);

fn two(call: &CallInfo<'_>, each: OfTwo) -> Built {
    let of = element_type(call, 2)?;
    Ok(Arc::new(move |args, rows| {
        let (left, right) = (
            Lists::new(argument(args, 0)?)?,
            Lists::new(argument(args, 1)?)?,
        );
        let [lefts, rights] = Ordered::with(Zeros::Two, [left.values(), right.values()])?;
        let sources = [Arc::clone(left.values()), Arc::clone(right.values())];
        let mut out = ListBuilder::new(&of, sources, rows);
        for row in 0..rows {
            let (Some(ours), Some(theirs)) = (left.range(row), right.range(row)) else {
                out.null_row()?;
                continue;
            };
            each(ours, theirs, (&lefts, &rights), &mut out);
            out.row()?;
        }
        out.finish()
    }))
}
