//! From each row's first element on to its last.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, UInt32Array},
    compute::take,
    record_batch::RecordBatch,
};
use datafusion_common::Result;

use super::{
    super::{build::Gather, lists::Lists},
    Lambda,
    kinds::small,
};

/// Calls `step` with rows and where their first elements lie, then with their second ones, …; it
/// says which of the rows go on.
pub(super) fn by_position(
    lists: &Lists,
    rows: usize,
    mut step: impl FnMut(&UInt32Array, &UInt32Array) -> Result<Vec<bool>>,
) -> Result<()> {
    let ranges = (0..rows).filter_map(|row| Some((row, lists.range(row)?)));
    let mut going: Vec<_> = ranges.collect();
    loop {
        let (mut of, mut at) = (Vec::new(), Vec::new());
        going.retain_mut(|(_, range)| range.start < range.end);
        for (row, range) in &mut going {
            of.push(small(*row)?);
            at.push(small(range.start)?);
            range.start += 1;
        }
        if going.is_empty() {
            return Ok(());
        }
        let mut goes_on = step(&of.into(), &at.into())?.into_iter();
        going.retain(|_| goes_on.next() == Some(true));
    }
}

/// Merges the elements into `zero` one by one, and finishes what comes out.
pub(super) fn aggregate(
    lists: &Lists,
    zero: &ArrayRef,
    [merge, finish]: [&Lambda; 2],
    batch: &RecordBatch,
) -> Result<ArrayRef> {
    let rows = batch.num_rows();
    // The state of each row: in which step's results it lies, and where.
    let mut steps = vec![Arc::clone(zero)];
    let mut states: Vec<(usize, usize)> = (0..rows).map(|row| (0, row)).collect();
    by_position(lists, rows, |of, at| {
        let state = |row: &u32| states.get(*row as usize).map_or(0, |(_, at)| *at);
        let before: Vec<u32> = of
            .values()
            .iter()
            .map(|row| small(state(row)))
            .collect::<Result<_>>()?;
        let last = steps.last().unwrap_or(zero);
        let state = take(last, &UInt32Array::from(before), None)?;
        let element = take(lists.values(), at, None)?;
        let merged = merge.evaluate(batch, of, vec![state, element])?;
        for (at, row) in of.values().iter().enumerate() {
            if let Some(state) = states.get_mut(*row as usize) {
                *state = (steps.len(), at);
            }
        }
        steps.push(merged);
        Ok(vec![true; of.len()])
    })?;
    let mut last = Gather::new(zero.data_type(), steps);
    let mut given = Vec::new();
    for (row, (step, at)) in states.into_iter().enumerate() {
        if lists.range(row).is_some() {
            given.push(small(row)?);
            last.pick(step, at);
        }
    }
    let given = UInt32Array::from(given);
    let finished = finish.evaluate(batch, &given, vec![last.finish()?])?;
    let mut out = Gather::new(finished.data_type(), [Arc::clone(&finished)]);
    let mut next = 0;
    for row in 0..rows {
        match lists.range(row) {
            Some(_) => {
                out.pick(0, next);
                next += 1;
            }
            None => out.null(),
        }
    }
    out.finish()
}
