//! Arrays as sets: each value once, in the order in which it came first. As Spark has it, −0.0 and
//! 0.0 are two values, but in nested ones.

use std::{ops::Range, sync::Arc};

use arrow::datatypes::DataType;
use datafusion_common::Result;

use super::{
    build::ListBuilder,
    element, gives,
    lists::Lists,
    order::{Ordered, Zeros, is_orderable},
    places::Places,
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
        let mut met = Places::default();
        for row in 0..rows {
            let Some(range) = lists.range(row) else {
                out.null_row()?;
                continue;
            };
            met.clear();
            for i in range {
                if met.meet(elements.get(i)).1 {
                    out.elements.pick(0, i);
                }
            }
            out.row()?;
        }
        out.finish()
    }))
}

pub(super) fn union(call: &CallInfo<'_>) -> Built {
    two(call, |left, right, (ours, theirs), met, out| {
        for i in left {
            if met.meet(ours.get(i)).1 {
                out.elements.pick(0, i);
            }
        }
        for i in right {
            if met.meet(theirs.get(i)).1 {
                out.elements.pick(1, i);
            }
        }
    })
}

pub(super) fn intersect(call: &CallInfo<'_>) -> Built {
    two(call, |left, right, (ours, theirs), met, out| {
        let mut taken = Vec::new();
        for i in right {
            if met.meet(theirs.get(i)).1 {
                taken.push(false);
            }
        }
        for i in left {
            let at = met.find(&ours.get(i));
            let taken = at.and_then(|at| taken.get_mut(at));
            if taken.is_some_and(|taken| !std::mem::replace(taken, true)) {
                out.elements.pick(0, i);
            }
        }
    })
}

pub(super) fn except(call: &CallInfo<'_>) -> Built {
    two(call, |left, right, (ours, theirs), met, out| {
        for i in right {
            met.meet(theirs.get(i));
        }
        for i in left {
            if met.meet(ours.get(i)).1 {
                out.elements.pick(0, i);
            }
        }
    })
}

/// Makes one array of two rows' elements, of which none is met yet.
type OfTwo = for<'a> fn(
    Range<usize>,
    Range<usize>,
    (&'a Ordered, &'a Ordered),
    &mut Places<'a>,
    &mut ListBuilder,
);

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
        let mut met = Places::default();
        for row in 0..rows {
            let (Some(ours), Some(theirs)) = (left.range(row), right.range(row)) else {
                out.null_row()?;
                continue;
            };
            met.clear();
            each(ours, theirs, (&lefts, &rights), &mut met, &mut out);
            out.row()?;
        }
        out.finish()
    }))
}
