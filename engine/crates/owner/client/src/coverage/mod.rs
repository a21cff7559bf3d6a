//! Before a stage is sealed: what its tasks read together is what there is, each part as often as
//! the plan needs it.
//!
//! Spark made the tasks' specs from sizes that executors report. Whatever those were, they may
//! change how work is cut, never what is read. The rules are told in `wire/stages.proto` at
//! StageInput and Product; here is one file for each.

mod inputs;
mod products;
mod tiling;

use std::ops::Range;

use thiserror::Error;

pub(crate) use inputs::{Shape, check as check_inputs};
pub(crate) use products::Products;

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
    /// A task reads some inputs of a group without the others, so that rows would be joined with
    /// nothing.
    #[error("a task reads input {id} without the inputs that it is joined with")]
    Alone {
        /// The input that is read.
        id: u32,
    },
    /// Inputs of a group that cannot be joined with each other; or a broadcast in a group or
    /// product.
    #[error("input {0} does not fit its group")]
    Group(u32),
    /// A Cartesian product's sides, or the positions of tasks in it, are not a grid.
    #[error("the tasks are not a whole Cartesian product at side {0}")]
    Product(u32),
    /// Two tasks of the same position on a side of a Cartesian product read different parts of it.
    #[error(
        "tasks of one position of a Cartesian product read different parts of input or scan {0}"
    )]
    Position(u32),
}

/// The row groups of one file, as tasks read them.
pub(crate) fn row_groups(
    id: u32,
    count: u32,
    mut slices: Vec<Range<u32>>,
) -> Result<(), CoverageError> {
    if slices
        .iter()
        .any(|slice| slice.start > slice.end || slice.end > count)
    {
        return Err(CoverageError::Outside(id));
    }
    slices.retain(|slice| !slice.is_empty());
    tiling::once(id, count, &mut slices)
}

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "one slice or range is one of the cases"
)]
mod tests {
    use super::*;

    #[test]
    fn row_groups_are_read_once() {
        row_groups(1, 3, vec![1..3, 0..1, 2..2]).unwrap();
        row_groups(1, 0, vec![]).unwrap();
        assert_eq!(
            row_groups(1, 3, vec![0..2]),
            Err(CoverageError::Gap { id: 1, at: 2 })
        );
        assert_eq!(
            row_groups(1, 3, vec![0..2, 1..3]),
            Err(CoverageError::Overlap { id: 1, at: 1 })
        );
        assert_eq!(row_groups(1, 3, vec![0..4]), Err(CoverageError::Outside(1)));
    }
}
