//! Cartesian products: tasks are the cells of a grid, and what lies below a side is read anew in
//! each of its cells.

use std::collections::{BTreeMap, HashMap, HashSet};

use coffer_protocol::wire::{Product, TaskSpec};

use super::CoverageError;

/// The tasks of a stage, by their positions in its Cartesian products.
pub(crate) struct Products<'a> {
    tasks: &'a [TaskSpec],
    /// By side: the tasks of each position, and whether what lies below must be read: not when
    /// another side has no partition, but a side that says so of itself must show it.
    sides: HashMap<u32, (BTreeMap<u32, Vec<&'a TaskSpec>>, bool)>,
}

impl<'a> Products<'a> {
    /// Checks that the positions of tasks are the whole grid of each product, each cell once.
    pub(crate) fn read(products: &[Product], tasks: &'a [TaskSpec]) -> Result<Self, CoverageError> {
        let mut sides = HashMap::new();
        for product in products {
            let first = product.sides.first().map_or(0, |side| side.side);
            let cells = product.sides.iter().try_fold(1u64, |cells, side| {
                cells.checked_mul(u64::from(side.partitions))
            });
            let cells = cells.ok_or(CoverageError::Product(first))?;
            if product.sides.len() < 2 {
                return Err(CoverageError::Product(first));
            }
            for side in &product.sides {
                let positions: BTreeMap<u32, Vec<&TaskSpec>> = BTreeMap::new();
                let needed = cells > 0 || side.partitions == 0;
                if side.side == 0 || sides.insert(side.side, (positions, needed)).is_some() {
                    return Err(CoverageError::Product(side.side));
                }
            }
            let mut seen = HashSet::new();
            for task in tasks {
                let Some(cell) = cell(product, task)? else {
                    continue;
                };
                for (side, partition) in product.sides.iter().zip(&cell) {
                    if let Some((positions, _)) = sides.get_mut(&side.side) {
                        positions.entry(*partition).or_default().push(task);
                    }
                }
                if !seen.insert(cell) {
                    return Err(CoverageError::Product(first));
                }
            }
            if u64::try_from(seen.len()) != Ok(cells) {
                return Err(CoverageError::Product(first));
            }
        }
        let known = |task: &TaskSpec| {
            task.positions
                .iter()
                .find(|at| !sides.contains_key(&at.side))
                .map(|at| at.side)
        };
        match tasks.iter().find_map(known) {
            Some(side) => Err(CoverageError::Product(side)),
            None => Ok(Self { tasks, sides }),
        }
    }

    /// The tasks that read what lies below `side`, one for each of its positions; all tasks for
    /// side 0. `None` when another side is empty, so that nobody needs what lies there. `of` is
    /// what a task reads of leaf `id`: tasks of one position read the same.
    pub(crate) fn readers<T: PartialEq + Default>(
        &self,
        id: u32,
        side: u32,
        of: impl Fn(&TaskSpec) -> T,
    ) -> Result<Option<Vec<T>>, CoverageError> {
        if side == 0 {
            return Ok(Some(self.tasks.iter().map(of).collect()));
        }
        let (positions, needed) = self.sides.get(&side).ok_or(CoverageError::Product(side))?;
        let outside = |task: &&TaskSpec| task.positions.iter().all(|at| at.side != side);
        if self
            .tasks
            .iter()
            .filter(outside)
            .any(|task| of(task) != T::default())
        {
            return Err(CoverageError::Position(id));
        }
        let mut readers = Vec::with_capacity(positions.len());
        for tasks in positions.values() {
            let mut each = tasks.iter().map(|task| of(task));
            let first = each.next().unwrap_or_default();
            if each.any(|other| other != first) {
                return Err(CoverageError::Position(id));
            }
            readers.push(first);
        }
        Ok(needed.then_some(readers))
    }
}

/// A task's place in the grid; `None` if it has no part in the product.
fn cell(product: &Product, task: &TaskSpec) -> Result<Option<Vec<u32>>, CoverageError> {
    let mut cell = Vec::with_capacity(product.sides.len());
    for side in &product.sides {
        let mut own = task.positions.iter().filter(|at| at.side == side.side);
        match (own.next(), own.next()) {
            (Some(at), None) if at.partition < side.partitions => cell.push(at.partition),
            (None, None) => {}
            _ => return Err(CoverageError::Product(side.side)),
        }
    }
    match (cell.is_empty(), cell.len() == product.sides.len()) {
        (true, _) => Ok(None),
        (_, true) => Ok(Some(cell)),
        _ => Err(CoverageError::Product(
            product.sides.first().map_or(0, |side| side.side),
        )),
    }
}

#[cfg(test)]
mod tests {
    use coffer_protocol::wire::{product::Side, task_spec::Position};

    use super::*;

    fn product(sizes: &[(u32, u32)]) -> Product {
        let sides = sizes.iter().map(|(side, partitions)| Side {
            side: *side,
            partitions: *partitions,
        });
        Product {
            sides: sides.collect(),
        }
    }

    fn task(positions: &[(u32, u32)]) -> TaskSpec {
        let positions = positions.iter().map(|(side, partition)| Position {
            side: *side,
            partition: *partition,
        });
        TaskSpec {
            positions: positions.collect(),
            ..TaskSpec::default()
        }
    }

    fn grid(cells: &[(u32, u32)]) -> Vec<TaskSpec> {
        cells
            .iter()
            .map(|(i, j)| task(&[(1, *i), (2, *j)]))
            .collect()
    }

    fn refused(products: &[Product], tasks: &[TaskSpec]) -> bool {
        matches!(
            Products::read(products, tasks),
            Err(CoverageError::Product(_))
        )
    }

    #[test]
    fn cells_are_each_there_once() {
        let two_by_two = [product(&[(1, 2), (2, 2)])];
        let whole = [(0, 0), (0, 1), (1, 0), (1, 1)];
        Products::read(&two_by_two, &grid(&whole)).unwrap();
        assert!(
            refused(&two_by_two, &grid(&whole[..3])),
            "a cell is missing"
        );
        assert!(
            refused(&two_by_two, &grid(&[(0, 0), (0, 1), (1, 0), (1, 0)])),
            "a cell is there twice"
        );
        assert!(
            refused(&two_by_two, &grid(&[(0, 0), (0, 1), (1, 0), (1, 2)])),
            "a cell outside"
        );
        let mut half = grid(&whole);
        half[0].positions.pop();
        assert!(refused(&two_by_two, &half), "a position on one side only");
        let mut twice = grid(&whole);
        twice[0].positions.push(Position {
            side: 1,
            partition: 1,
        });
        assert!(refused(&two_by_two, &twice), "two positions on one side");
        assert!(refused(&[], &grid(&whole)), "sides of no product");
        assert!(
            refused(&[product(&[(1, 1)])], &[task(&[(1, 0)])]),
            "one side is no product"
        );
        assert!(
            refused(&[product(&[(1, 1), (1, 1)])], &[]),
            "a side named twice"
        );
        assert!(
            refused(&[product(&[(0, 0), (2, 1)])], &[]),
            "side 0 is none"
        );
        assert!(
            refused(&[product(&[(1, u32::MAX), (2, u32::MAX), (3, 2)])], &[]),
            "too many cells"
        );
    }

    #[test]
    fn one_task_reads_for_each_position() {
        let products = [product(&[(1, 2), (2, 2)])];
        let mut tasks = grid(&[(0, 0), (0, 1), (1, 0), (1, 1)]);
        tasks.push(task(&[]));
        let held = Products::read(&products, &tasks).unwrap();
        let of = |side: u32| {
            move |task: &TaskSpec| {
                let own = task.positions.iter().find(|at| at.side == side);
                own.map_or(0, |at| at.partition + 1)
            }
        };
        assert_eq!(held.readers(9, 1, of(1)), Ok(Some(vec![1, 2])));
        assert_eq!(
            held.readers(9, 0, |_| 0).map(|all| all.unwrap().len()),
            Ok(5)
        );
        assert_eq!(
            held.readers(9, 1, of(2)),
            Err(CoverageError::Position(9)),
            "what is read goes with the other side"
        );
        assert_eq!(
            held.readers(9, 1, |_| 1),
            Err(CoverageError::Position(9)),
            "a task without a part in the product reads of it"
        );
        assert_eq!(held.readers(9, 7, of(1)), Err(CoverageError::Product(7)));
    }

    #[test]
    fn a_product_with_nothing_reads_nothing() {
        let products = [product(&[(1, 0), (2, 3)])];
        let held = Products::read(&products, &[]).unwrap();
        assert_eq!(held.readers(9, 2, |_| 0), Ok(None));
        assert_eq!(
            held.readers(9, 1, |_| 0),
            Ok(Some(vec![])),
            "that it is empty must be seen"
        );
    }
}
