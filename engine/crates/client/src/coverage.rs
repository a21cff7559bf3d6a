//! Before a stage is sealed: its tasks together read each (map, reduce) pair, and each row group, exactly once.
//!
//! Spark made the tasks' specs from sizes that executors report. Whatever those were, they may change how work is cut, never
//! what is read.

use std::{collections::BTreeMap, ops::Range};

use thiserror::Error;

/// What tasks would miss or read twice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CoverageError {
    /// A rectangle or slice outside of what there is.
    #[error("a task reads outside of input or scan {0}")]
    Outside(u32),
    /// A pair or row group that no task reads.
    #[error("part of input or scan {id} is read by no task, from {at}")]
    Gap {
        /// The input or scan.
        id: u32,
        /// The first map or row group that is missing.
        at: u32,
    },
    /// A pair or row group that two tasks read.
    #[error("part of input or scan {id} is read twice, from {at}")]
    Overlap {
        /// The input or scan.
        id: u32,
        /// The first map or row group that comes again.
        at: u32,
    },
    /// A task names an input or scan that the stage does not have.
    #[error("a task names input or scan {0}, which the stage does not have")]
    Unknown(u32),
}

/// The (map, reduce) pairs of one input, as tasks read them.
pub(crate) struct Pairs {
    id: u32,
    maps: u32,
    reduces: u32,
    replicated: bool,
    /// By reduce partition: the maps that tasks read of it.
    read: BTreeMap<u32, Vec<Range<u32>>>,
}

impl Pairs {
    pub(crate) fn new(id: u32, maps: u32, reduces: u32, replicated: bool) -> Self {
        Self {
            id,
            maps,
            reduces,
            replicated,
            read: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, maps: Range<u32>, reduces: Range<u32>) -> Result<(), CoverageError> {
        if maps.start > maps.end || maps.end > self.maps || reduces.start > reduces.end || reduces.end > self.reduces {
            return Err(CoverageError::Outside(self.id));
        }
        if !maps.is_empty() {
            for reduce in reduces {
                self.read.entry(reduce).or_default().push(maps.clone());
            }
        }
        Ok(())
    }

    /// Exactly once; or, on the replicated side of a skewed join, each pair at least once and every map of a reduce
    /// partition equally often.
    pub(crate) fn check(mut self) -> Result<(), CoverageError> {
        if self.maps == 0 {
            return Ok(());
        }
        for reduce in 0..self.reduces {
            let mut ranges = self.read.remove(&reduce).unwrap_or_default();
            if self.replicated {
                evenly(self.id, self.maps, &ranges)?;
            } else {
                once(self.id, self.maps, &mut ranges)?;
            }
        }
        Ok(())
    }
}

/// The row groups of one file, as tasks read them.
pub(crate) fn row_groups(id: u32, count: u32, mut slices: Vec<Range<u32>>) -> Result<(), CoverageError> {
    if slices.iter().any(|slice| slice.start > slice.end || slice.end > count) {
        return Err(CoverageError::Outside(id));
    }
    slices.retain(|slice| !slice.is_empty());
    once(id, count, &mut slices)
}

fn once(id: u32, count: u32, ranges: &mut [Range<u32>]) -> Result<(), CoverageError> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut next = 0;
    for range in ranges.iter() {
        if range.start > next {
            return Err(CoverageError::Gap { id, at: next });
        }
        if range.start < next {
            return Err(CoverageError::Overlap { id, at: range.start });
        }
        next = range.end;
    }
    if next < count {
        return Err(CoverageError::Gap { id, at: next });
    }
    Ok(())
}

fn evenly(id: u32, count: u32, ranges: &[Range<u32>]) -> Result<(), CoverageError> {
    // How often a map is read changes only at the ends of ranges; it must not change between 0 and `count`.
    let mut changes: BTreeMap<u32, i64> = BTreeMap::new();
    for range in ranges {
        *changes.entry(range.start).or_default() += 1;
        *changes.entry(range.end).or_default() -= 1;
    }
    if changes.get(&0).copied().unwrap_or(0) <= 0 {
        return Err(CoverageError::Gap { id, at: 0 });
    }
    match changes
        .iter()
        .find(|(at, change)| **at != 0 && **at != count && **change != 0)
    {
        Some((at, change)) if *change < 0 => Err(CoverageError::Gap { id, at: *at }),
        Some((at, _)) => Err(CoverageError::Overlap { id, at: *at }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a task of one slice is one of the cases")]
mod tests {
    use super::*;

    fn pairs(replicated: bool, rectangles: &[(Range<u32>, Range<u32>)]) -> Result<(), CoverageError> {
        let mut pairs = Pairs::new(7, 4, 3, replicated);
        for (maps, reduces) in rectangles {
            pairs.add(maps.clone(), reduces.clone())?;
        }
        pairs.check()
    }

    #[test]
    fn every_way_aqe_cuts_a_shuffle_passes() {
        pairs(false, &[(0..4, 0..1), (0..4, 1..2), (0..4, 2..3)]).unwrap();
        pairs(false, &[(0..4, 0..3)]).unwrap();
        pairs(false, &[(0..2, 0..1), (2..4, 0..1), (0..4, 1..3)]).unwrap();
        pairs(false, &[(0..1, 0..3), (1..4, 0..3)]).unwrap();
        pairs(false, &[(0..0, 0..3), (0..4, 0..3), (1..1, 0..0)]).unwrap();
        pairs(true, &[(0..4, 0..1), (0..4, 0..1), (0..4, 1..3)]).unwrap();
    }

    #[test]
    fn gaps_overlaps_and_strangers_are_refused() {
        let gap = |at| Err(CoverageError::Gap { id: 7, at });
        let overlap = |at| Err(CoverageError::Overlap { id: 7, at });
        assert_eq!(pairs(false, &[(0..4, 0..2)]), gap(0));
        assert_eq!(pairs(false, &[(0..3, 0..1), (0..4, 1..3)]), gap(3));
        assert_eq!(pairs(false, &[(1..4, 0..1), (0..4, 1..3)]), gap(0));
        assert_eq!(pairs(false, &[(0..4, 0..3), (0..4, 0..1)]), overlap(0));
        assert_eq!(pairs(false, &[(0..3, 0..3), (2..4, 0..3)]), overlap(2));
        assert_eq!(pairs(false, &[(0..5, 0..3)]), Err(CoverageError::Outside(7)));
        assert_eq!(pairs(false, &[(0..4, 0..4)]), Err(CoverageError::Outside(7)));
        assert_eq!(pairs(true, &[(0..4, 0..2)]), gap(0));
        assert_eq!(pairs(true, &[(0..4, 0..3), (0..2, 0..1)]), gap(2));
        assert_eq!(pairs(true, &[(0..4, 0..3), (2..4, 0..1)]), overlap(2));
    }

    #[test]
    fn row_groups_are_read_once() {
        row_groups(1, 3, vec![1..3, 0..1, 2..2]).unwrap();
        row_groups(1, 0, vec![]).unwrap();
        assert_eq!(row_groups(1, 3, vec![0..2]), Err(CoverageError::Gap { id: 1, at: 2 }));
        assert_eq!(
            row_groups(1, 3, vec![0..2, 1..3]),
            Err(CoverageError::Overlap { id: 1, at: 1 })
        );
        assert_eq!(row_groups(1, 3, vec![0..4]), Err(CoverageError::Outside(1)));
    }
}
