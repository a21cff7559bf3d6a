//! Inputs: each (map, reduce) pair once, but for broadcasts and for inputs that are joined with
//! each other.

use std::{collections::BTreeMap, ops::Range};

use coffer_protocol::wire::{StageInput, TaskSpec};

use super::{CoverageError, Products, tiling};

/// An input of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) id: u32,
    pub(crate) maps: u32,
    pub(crate) reduces: u32,
    pub(crate) group: u32,
    pub(crate) side: u32,
    pub(crate) broadcast: bool,
}

impl Shape {
    pub(crate) fn of(input: &StageInput) -> Self {
        Self {
            id: input.input_id,
            maps: input.maps,
            reduces: input.reduces,
            group: input.group,
            side: input.side,
            broadcast: input.broadcast,
        }
    }
}

/// What a task reads of an input: maps and reduces.
type Read = (Range<u32>, Range<u32>);

/// Checks the rectangles of all tasks against the inputs.
pub(crate) fn check(
    shapes: &[Shape],
    products: &Products,
    tasks: &[TaskSpec],
) -> Result<(), CoverageError> {
    for rectangle in tasks.iter().flat_map(|task| &task.rectangles) {
        let id = rectangle.input_id;
        let shape = shapes
            .iter()
            .find(|shape| shape.id == id)
            .ok_or(CoverageError::Unknown(id))?;
        if rectangle.map_begin > rectangle.map_end
            || rectangle.map_end > shape.maps
            || rectangle.reduce_begin > rectangle.reduce_end
            || rectangle.reduce_end > shape.reduces
        {
            return Err(CoverageError::Outside(id));
        }
    }
    let mut groups: BTreeMap<u32, Vec<Shape>> = BTreeMap::new();
    for shape in shapes {
        match (shape.broadcast, shape.group) {
            (true, _) => everywhere(shape, tasks)?,
            (false, 0) => group(&[*shape], products)?,
            (false, number) => groups.entry(number).or_default().push(*shape),
        }
    }
    groups
        .values()
        .try_for_each(|shapes| group(shapes, products))
}

fn reads(task: &TaskSpec, id: u32) -> Vec<Read> {
    let own = task
        .rectangles
        .iter()
        .filter(|rectangle| rectangle.input_id == id);
    own.map(|of| (of.map_begin..of.map_end, of.reduce_begin..of.reduce_end))
        .collect()
}

fn everywhere(shape: &Shape, tasks: &[TaskSpec]) -> Result<(), CoverageError> {
    let id = shape.id;
    if shape.group != 0 || shape.side != 0 || shape.reduces != 1 {
        return Err(CoverageError::Group(id));
    }
    let whole = (0..shape.maps, 0..1);
    for task in tasks {
        match reads(task, id).as_slice() {
            [read] if *read == whole => {}
            [] | [_] => return Err(CoverageError::Gap { id, at: 0 }),
            _ => return Err(CoverageError::Overlap { id, at: 0 }),
        }
    }
    Ok(())
}

/// Inputs that are joined with each other; or one alone.
fn group(shapes: &[Shape], products: &Products) -> Result<(), CoverageError> {
    let Some(first) = shapes.first() else {
        return Ok(());
    };
    if let Some(other) = shapes
        .iter()
        .find(|shape| shape.reduces != first.reduces || shape.side != first.side)
    {
        return Err(CoverageError::Group(other.id));
    }
    // An input without maps has nothing to be read; beside it the others are read as ever.
    let shapes: Vec<Shape> = shapes
        .iter()
        .filter(|shape| shape.maps > 0)
        .copied()
        .collect();
    let sides: Vec<tiling::Side> = shapes.iter().map(|shape| (shape.id, shape.maps)).collect();
    let of = |task: &TaskSpec| {
        shapes
            .iter()
            .map(|shape| reads(task, shape.id))
            .collect::<Vec<_>>()
    };
    let Some(readers) = products.readers(first.id, first.side, of)? else {
        return Ok(());
    };
    let mut by_reduce: BTreeMap<u32, Vec<Vec<Range<u32>>>> = BTreeMap::new();
    for reader in readers {
        for (reduce, ranges) in of_reduces(&reader) {
            if let Some(empty) = ranges.iter().position(Vec::is_empty) {
                // Rows of the others would come out unmatched, and again where they do meet.
                let other = ranges
                    .iter()
                    .position(|ranges| !ranges.is_empty())
                    .unwrap_or(empty);
                let id = shapes.get(other).map_or(first.id, |shape| shape.id);
                return Err(CoverageError::Alone { id });
            }
            by_reduce
                .entry(reduce)
                .or_default()
                .extend(tiling::boxes(&ranges));
        }
    }
    for reduce in 0..first.reduces {
        let boxes = by_reduce.remove(&reduce).unwrap_or_default();
        let boxes: Vec<&[Range<u32>]> = boxes.iter().map(Vec::as_slice).collect();
        tiling::tiles(&sides, &boxes)?;
    }
    Ok(())
}

/// By reduce partition of which the task reads something: the maps that it reads, for each input.
fn of_reduces(reader: &[Vec<Read>]) -> BTreeMap<u32, Vec<Vec<Range<u32>>>> {
    let mut by_reduce: BTreeMap<u32, Vec<Vec<Range<u32>>>> = BTreeMap::new();
    for (input, reads) in reader.iter().enumerate() {
        for (maps, reduces) in reads.iter().filter(|(maps, _)| !maps.is_empty()) {
            for reduce in reduces.clone() {
                let ranges = by_reduce
                    .entry(reduce)
                    .or_insert_with(|| vec![vec![]; reader.len()]);
                if let Some(ranges) = ranges.get_mut(input) {
                    ranges.push(maps.clone());
                }
            }
        }
    }
    by_reduce
}

#[cfg(test)]
mod tests {
    use coffer_protocol::wire::{
        Product,
        product::Side,
        task_spec::{Position, Rectangle},
    };

    use super::*;

    const ALONE: Shape = Shape {
        id: 7,
        maps: 4,
        reduces: 3,
        group: 0,
        side: 0,
        broadcast: false,
    };
    const LEFT: Shape = Shape { group: 1, ..ALONE };
    const RIGHT: Shape = Shape {
        id: 8,
        maps: 2,
        ..LEFT
    };

    fn task(reads: &[(u32, Range<u32>, Range<u32>)]) -> TaskSpec {
        let rectangles = reads.iter().map(|(id, maps, reduces)| Rectangle {
            input_id: *id,
            map_begin: maps.start,
            map_end: maps.end,
            reduce_begin: reduces.start,
            reduce_end: reduces.end,
        });
        TaskSpec {
            rectangles: rectangles.collect(),
            ..TaskSpec::default()
        }
    }

    fn checked(shapes: &[Shape], tasks: &[TaskSpec]) -> Result<(), CoverageError> {
        check(shapes, &Products::read(&[], tasks).unwrap(), tasks)
    }

    fn alone(rectangles: &[(Range<u32>, Range<u32>)]) -> Result<(), CoverageError> {
        let tasks = rectangles
            .iter()
            .map(|(maps, reduces)| task(&[(7, maps.clone(), reduces.clone())]));
        checked(&[ALONE], &tasks.collect::<Vec<_>>())
    }

    fn joined(tasks: &[[(Range<u32>, Range<u32>); 2]]) -> Result<(), CoverageError> {
        let tasks = tasks.iter().map(|[left, right]| {
            task(&[
                (7, left.0.clone(), left.1.clone()),
                (8, right.0.clone(), right.1.clone()),
            ])
        });
        checked(&[LEFT, RIGHT], &tasks.collect::<Vec<_>>())
    }

    fn gap<T>(id: u32, at: u32) -> Result<T, CoverageError> {
        Err(CoverageError::Gap { id, at })
    }

    fn overlap<T>(id: u32, at: u32) -> Result<T, CoverageError> {
        Err(CoverageError::Overlap { id, at })
    }

    #[test]
    fn every_way_aqe_cuts_a_shuffle_passes() {
        alone(&[(0..4, 0..1), (0..4, 1..2), (0..4, 2..3)]).unwrap();
        alone(&[(0..4, 0..3)]).unwrap();
        alone(&[(0..2, 0..1), (2..4, 0..1), (0..4, 1..3)]).unwrap();
        alone(&[(0..1, 0..3), (1..4, 0..3)]).unwrap();
        alone(&[(0..0, 0..3), (0..4, 0..3), (1..1, 0..0)]).unwrap();
    }

    #[test]
    fn gaps_overlaps_and_strangers_are_refused() {
        assert_eq!(alone(&[(0..4, 0..2)]), gap(7, 0));
        assert_eq!(alone(&[(0..3, 0..1), (0..4, 1..3)]), gap(7, 3));
        assert_eq!(alone(&[(1..4, 0..1), (0..4, 1..3)]), gap(7, 0));
        assert_eq!(alone(&[(0..4, 0..3), (0..4, 0..1)]), overlap(7, 0));
        assert_eq!(alone(&[(0..3, 0..3), (2..4, 0..3)]), overlap(7, 2));
        assert_eq!(alone(&[(0..5, 0..3)]), Err(CoverageError::Outside(7)));
        assert_eq!(alone(&[(0..4, 0..4)]), Err(CoverageError::Outside(7)));
        assert_eq!(
            checked(&[ALONE], &[task(&[(9, 0..1, 0..1)])]),
            Err(CoverageError::Unknown(9))
        );
        // Without a group the second reading of a side is one too many, however it is cut.
        let split = [
            task(&[(7, 0..2, 0..3), (8, 0..2, 0..3)]),
            task(&[(7, 2..4, 0..3), (8, 0..2, 0..3)]),
        ];
        let ungrouped = Shape { group: 0, ..RIGHT };
        assert_eq!(checked(&[ALONE, ungrouped], &split), overlap(8, 0));
    }

    #[test]
    fn skew_splits_of_joined_inputs_pass() {
        joined(&[[(0..4, 0..3), (0..2, 0..3)]]).unwrap();
        // The left side of reduce 0 is cut, of reduce 1 both are.
        joined(&[
            [(0..1, 0..1), (0..2, 0..1)],
            [(1..4, 0..1), (0..2, 0..1)],
            [(0..3, 1..2), (0..1, 1..2)],
            [(0..3, 1..2), (1..2, 1..2)],
            [(3..4, 1..2), (0..1, 1..2)],
            [(3..4, 1..2), (1..2, 1..2)],
            [(0..4, 2..3), (0..2, 2..3)],
        ])
        .unwrap();
        // One side has no maps at all.
        let empty = Shape { maps: 0, ..RIGHT };
        checked(&[LEFT, empty], &[task(&[(7, 0..4, 0..3), (8, 0..0, 0..3)])]).unwrap();
        checked(&[LEFT, empty], &[task(&[(7, 0..4, 0..3)])]).unwrap();
    }

    #[test]
    fn joined_inputs_meet_once() {
        assert_eq!(
            joined(&[[(0..4, 0..2), (0..2, 0..2)]]),
            gap(7, 0),
            "a reduce partition is missing"
        );
        assert_eq!(
            joined(&[[(0..2, 0..3), (0..2, 0..3)], [(2..4, 0..3), (0..1, 0..3)]]),
            gap(8, 1),
            "half of one side never meets half of the other"
        );
        assert_eq!(
            joined(&[[(0..4, 0..3), (0..2, 0..3)], [(0..4, 0..3), (0..2, 0..3)]]),
            overlap(8, 0),
            "everything meets twice"
        );
        assert_eq!(
            joined(&[[(0..2, 0..3), (0..1, 0..3)], [(2..4, 0..3), (1..2, 0..3)]]),
            gap(8, 1),
            "each side is read once, but not against the other"
        );
        // Both are there, in tasks that do not meet.
        let apart = [task(&[(7, 0..4, 0..3)]), task(&[(8, 0..2, 0..3)])];
        assert_eq!(
            checked(&[LEFT, RIGHT], &apart),
            Err(CoverageError::Alone { id: 7 })
        );
        // Beside the whole join, one side once more: its rows would come out as unmatched.
        let twice = [
            task(&[(7, 0..4, 0..3), (8, 0..2, 0..3)]),
            task(&[(7, 0..4, 0..3)]),
        ];
        assert_eq!(
            checked(&[LEFT, RIGHT], &twice),
            Err(CoverageError::Alone { id: 7 })
        );
        let no_maps = [
            task(&[(7, 0..4, 0..3), (8, 0..2, 0..3)]),
            task(&[(7, 0..0, 0..3), (8, 0..1, 0..1)]),
        ];
        assert_eq!(
            checked(&[LEFT, RIGHT], &no_maps),
            Err(CoverageError::Alone { id: 8 })
        );
        let uneven = Shape {
            reduces: 2,
            ..RIGHT
        };
        assert_eq!(checked(&[LEFT, uneven], &[]), Err(CoverageError::Group(8)));
        let empty = Shape { maps: 0, ..RIGHT };
        assert_eq!(checked(&[LEFT, empty], &[]), gap(7, 0));
    }

    #[test]
    fn three_inputs_of_one_group_fill_a_space() {
        let third = Shape {
            id: 9,
            maps: 1,
            ..LEFT
        };
        let at = |left: Range<u32>, right: Range<u32>| {
            task(&[(7, left, 0..3), (8, right, 0..3), (9, 0..1, 0..3)])
        };
        let shapes = [LEFT, RIGHT, third];
        checked(&shapes, &[at(0..4, 0..2)]).unwrap();
        checked(&shapes, &[at(0..1, 0..2), at(1..4, 0..1), at(1..4, 1..2)]).unwrap();
        assert_eq!(
            checked(&shapes, &[at(0..1, 0..2), at(1..4, 0..1)]),
            gap(8, 1)
        );
    }

    #[test]
    fn a_broadcast_is_read_whole_by_every_task() {
        let shape = Shape {
            reduces: 1,
            broadcast: true,
            ..ALONE
        };
        let whole = task(&[(7, 0..4, 0..1)]);
        checked(&[shape], &[whole.clone(), whole.clone()]).unwrap();
        checked(&[shape], &[]).unwrap();
        assert_eq!(checked(&[shape], &[whole.clone(), task(&[])]), gap(7, 0));
        assert_eq!(
            checked(&[shape], &[whole.clone(), task(&[(7, 0..3, 0..1)])]),
            gap(7, 0)
        );
        let twice = task(&[(7, 0..4, 0..1), (7, 0..4, 0..1)]);
        assert_eq!(checked(&[shape], &[twice]), overlap(7, 0));
        let halves = task(&[(7, 0..2, 0..1), (7, 2..4, 0..1)]);
        assert_eq!(checked(&[shape], &[halves]), overlap(7, 0));
        let of_group = Shape { group: 1, ..shape };
        assert_eq!(checked(&[of_group], &[whole]), Err(CoverageError::Group(7)));
    }

    #[test]
    fn below_a_cartesian_product_each_position_reads_its_own() {
        let (left, right) = (
            Shape { side: 1, ..ALONE },
            Shape {
                side: 2,
                id: 8,
                ..ALONE
            },
        );
        let sides = [(1, 3), (2, 2)].map(|(side, partitions)| Side { side, partitions });
        let products = [Product {
            sides: sides.to_vec(),
        }];
        let at = |i: u32, j: u32, right: Range<u32>| {
            let mut task = task(&[(7, 0..4, i..i + 1), (8, 0..4, right)]);
            task.positions = [(1, i), (2, j)]
                .map(|(side, partition)| Position { side, partition })
                .to_vec();
            task
        };
        // The right side's second partition is of two reduce partitions.
        let halves = [0..1, 1..3];
        let cells = |halves: &[Range<u32>]| -> Vec<TaskSpec> {
            let js = (0..).zip(halves);
            (0..3)
                .flat_map(|i| js.clone().map(move |(j, half)| at(i, j, half.clone())))
                .collect()
        };
        let checked = |tasks: &[TaskSpec]| {
            check(
                &[left, right],
                &Products::read(&products, tasks).unwrap(),
                tasks,
            )
        };
        checked(&cells(&halves)).unwrap();
        assert_eq!(checked(&cells(&[0..1, 1..2])), gap(8, 0));
        assert_eq!(checked(&cells(&[0..2, 1..3])), overlap(8, 0));
        let mut mutated = cells(&halves);
        mutated[1].rectangles[1].reduce_end = 2;
        assert_eq!(checked(&mutated), Err(CoverageError::Position(8)));
    }
}
