//! Functions that give a value of another row: lead, lag, nth_value.

use std::ops::Range;

use arrow::{
    array::{Array, ArrayRef},
    compute::interleave,
};
use datafusion_common::Result;

use super::chunk::Chunk;
use crate::aggregate::taken;

/// Of each frame the `nth` row, from 1; of those with a value, if NULLs are ignored.
pub(super) fn nth_value(
    values: &ArrayRef,
    frames: &[Range<usize>],
    nth: usize,
    ignore_nulls: bool,
) -> Result<ArrayRef> {
    let skipped = nth.saturating_sub(1);
    let nulls = values.logical_nulls().filter(|_| ignore_nulls);
    let Some(nulls) = nulls else {
        return taken(
            values,
            frames.iter().map(|frame| {
                let row = frame.start.saturating_add(skipped);
                (row < frame.end).then_some(row)
            }),
        );
    };
    let valid: Vec<usize> = nulls.valid_indices().collect();
    taken(
        values,
        frames.iter().map(|frame| {
            let first = valid.partition_point(|row| *row < frame.start);
            valid
                .get(first.saturating_add(skipped))
                .copied()
                .filter(|row| *row < frame.end)
        }),
    )
}

/// The value so many rows away in the window partition; where there is no such row, the row's own
/// of `otherwise`, or NULL.
pub(super) fn shift(
    chunk: &Chunk,
    values: &ArrayRef,
    offset: i64,
    otherwise: Option<&ArrayRef>,
    ignore_nulls: bool,
) -> Result<ArrayRef> {
    let mut from: Vec<Option<usize>> = Vec::with_capacity(chunk.rows());
    let nulls = values.logical_nulls();
    for partition in &chunk.partitions {
        // Spark does not ask for NULLs where it does not move.
        if ignore_nulls && offset != 0 {
            let counts = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            skipping(partition, offset, counts, &mut from);
        } else {
            from.extend(partition.clone().map(|row| {
                let row = i64::try_from(row).ok()?.checked_add(offset)?;
                let row = usize::try_from(row).ok()?;
                partition.contains(&row).then_some(row)
            }));
        }
    }
    let Some(otherwise) = otherwise else {
        return taken(values, from.into_iter());
    };
    let indices: Vec<(usize, usize)> = from
        .into_iter()
        .enumerate()
        .map(|(row, from)| from.map_or((1, row), |from| (0, from)))
        .collect();
    Ok(interleave(
        &[values.as_ref(), otherwise.as_ref()],
        &indices,
    )?)
}

/// Of each row, the row that is `offset` rows that count away from it.
fn skipping(
    partition: &Range<usize>,
    offset: i64,
    counts: impl Fn(usize) -> bool,
    from: &mut Vec<Option<usize>>,
) {
    let distance = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let valid: Vec<usize> = partition.clone().filter(|row| counts(*row)).collect();
    // How many of them are before the row, and then also the row itself.
    let mut before = 0;
    for row in partition.clone() {
        let itself = usize::from(valid.get(before) == Some(&row));
        let found = match offset < 0 {
            true => before.checked_sub(distance),
            false => Some((before + itself).saturating_add(distance - 1)),
        };
        from.push(found.and_then(|found| valid.get(found)).copied());
        before += itself;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_do_not_count_are_skipped_as_in_sparks_own_comments() {
        // null, x, null, null, y, null, z, v, null (WindowFunctionFrame.scala).
        let valid = [1, 4, 6, 7];
        let run = |offset| {
            let mut from = vec![];
            skipping(&(0..9), offset, |row| valid.contains(&row), &mut from);
            from
        };
        let (x, y, z, v) = (Some(1), Some(4), Some(6), Some(7));
        assert_eq!(run(2), [y, z, z, z, v, v, None, None, None]);
        assert_eq!(run(-1), [None, None, x, x, x, y, y, z, v]);
        assert_eq!(run(10), [None; 9]);
        assert_eq!(run(-2), [None, None, None, None, None, x, x, y, z]);
    }
}
