//! Whether boxes fill a space, without a gap and without an overlap.

use std::{collections::BTreeSet, ops::Range};

use super::CoverageError;

/// One side of the space: the input it stands for, and its length.
pub(super) type Side = (u32, u32);

/// Whether `ranges` are 0..count, each number once.
pub(super) fn once(id: u32, count: u32, ranges: &mut [Range<u32>]) -> Result<(), CoverageError> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut next = 0;
    for range in ranges.iter() {
        if range.start > next {
            return Err(CoverageError::Gap { id, at: next });
        }
        if range.start < next {
            return Err(CoverageError::Overlap {
                id,
                at: range.start,
            });
        }
        next = range.end;
    }
    if next < count {
        return Err(CoverageError::Gap { id, at: next });
    }
    Ok(())
}

/// Whether `boxes`, which have a range for each of `sides`, fill the space exactly once. Cuts the
/// space along its first side wherever a box begins or ends; between two cuts the same boxes are
/// there, and must fill what the other sides span.
pub(super) fn tiles(sides: &[Side], boxes: &[&[Range<u32>]]) -> Result<(), CoverageError> {
    let Some(((id, count), others)) = sides.split_first() else {
        return Ok(());
    };
    let firsts = || boxes.iter().filter_map(|of| of.split_first());
    if others.is_empty() {
        let mut ranges: Vec<Range<u32>> = firsts().map(|(range, _)| range.clone()).collect();
        return once(*id, *count, &mut ranges);
    }
    let mut cuts: BTreeSet<u32> = firsts()
        .flat_map(|(range, _)| [range.start, range.end])
        .collect();
    cuts.extend([0, *count]);
    let cuts: Vec<u32> = cuts.into_iter().collect();
    for (start, end) in cuts.iter().zip(cuts.iter().skip(1)) {
        let there: Vec<&[Range<u32>]> = firsts()
            .filter(|(range, _)| range.start <= *start && *end <= range.end)
            .map(|(_, rest)| rest)
            .collect();
        if there.is_empty() {
            return Err(CoverageError::Gap {
                id: *id,
                at: *start,
            });
        }
        tiles(others, &there)?;
    }
    Ok(())
}

/// The boxes that are the product of some ranges of each side.
pub(super) fn boxes(ranges: &[Vec<Range<u32>>]) -> Vec<Vec<Range<u32>>> {
    ranges.iter().fold(vec![vec![]], |boxes, side| {
        let longer = boxes.iter().flat_map(|of| {
            side.iter().map(|range| {
                let mut of = of.clone();
                of.push(range.clone());
                of
            })
        });
        longer.collect()
    })
}

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "one slice or range is one of the cases"
)]
mod tests {
    use super::*;

    fn fill(counts: [u32; 2], boxes: &[[Range<u32>; 2]]) -> Result<(), CoverageError> {
        let sides = [(1, counts[0]), (2, counts[1])];
        let boxes: Vec<&[Range<u32>]> = boxes.iter().map(|of| of.as_slice()).collect();
        tiles(&sides, &boxes)
    }

    #[test]
    fn skew_splits_fill_the_plane() {
        fill([4, 3], &[[0..4, 0..3]]).unwrap();
        fill([4, 3], &[[0..1, 0..3], [1..4, 0..3]]).unwrap();
        fill(
            [4, 3],
            &[[0..2, 0..1], [0..2, 1..3], [2..4, 0..1], [2..4, 1..3]],
        )
        .unwrap();
        fill([4, 3], &[[0..2, 0..1], [0..2, 1..3], [2..4, 0..3]]).unwrap();
    }

    #[test]
    fn what_is_missing_or_twice_is_named() {
        let gap = |id, at| Err(CoverageError::Gap { id, at });
        let overlap = |id, at| Err(CoverageError::Overlap { id, at });
        assert_eq!(fill([4, 3], &[]), gap(1, 0));
        assert_eq!(fill([4, 3], &[[0..3, 0..3]]), gap(1, 3));
        assert_eq!(fill([4, 3], &[[0..2, 0..3], [2..4, 0..2]]), gap(2, 2));
        // The volume is right, the place is not.
        assert_eq!(
            fill([4, 3], &[[0..2, 0..3], [2..4, 0..2], [0..2, 2..3]]),
            overlap(2, 2)
        );
        assert_eq!(fill([4, 3], &[[0..4, 0..3], [1..2, 0..1]]), overlap(2, 0));
        assert_eq!(fill([4, 3], &[[0..3, 0..3], [2..4, 0..3]]), overlap(2, 0));
    }

    #[test]
    fn several_ranges_are_as_many_boxes() {
        assert_eq!(
            boxes(&[vec![0..1, 2..3], vec![5..6]]),
            [[0..1, 5..6], [2..3, 5..6]]
        );
        assert!(boxes(&[vec![0..1], vec![]]).is_empty());
    }
}
