//! Whether rows lie in the order of a column: stored so, the order itself is published.

use std::cmp::Ordering;

use arrow::{
    array::{ArrayRef, RecordBatch, make_comparator},
    compute::SortOptions,
    datatypes::{FieldRef, Schema},
};

use crate::Error;

/// How a column's values lie in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnOrder {
    /// In ascending order, with at least two different values.
    Ascending,
    /// In descending order, with at least two different values.
    Descending,
}

/// Watches batches go by. A column that is out of order both ways costs nothing from then on.
pub(crate) struct OrderWatch {
    columns: Vec<State>,
}

#[derive(Clone, Default)]
struct State {
    up: bool,
    down: bool,
    last: Option<ArrayRef>,
}

impl OrderWatch {
    /// Nested values are in no order.
    pub(crate) fn new(schema: &Schema) -> Self {
        let state = |field: &FieldRef| {
            let nested = field.data_type().is_nested();
            State {
                up: nested,
                down: nested,
                last: None,
            }
        };
        Self {
            columns: schema.fields().iter().map(state).collect(),
        }
    }

    pub(crate) fn see(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        for (state, array) in self.columns.iter_mut().zip(batch.columns()) {
            state.see(array)?;
        }
        Ok(())
    }

    /// The order of each column, if it has one.
    pub(crate) fn finish(&self) -> Vec<Option<ColumnOrder>> {
        let order = |state: &State| match (state.up, state.down) {
            (true, false) => Some(ColumnOrder::Ascending),
            (false, true) => Some(ColumnOrder::Descending),
            _ => None,
        };
        self.columns.iter().map(order).collect()
    }
}

impl State {
    /// `up` and `down`: such a step was seen. Both: no order.
    fn see(&mut self, array: &ArrayRef) -> Result<(), Error> {
        if self.up && self.down {
            return Ok(());
        }
        if let Some(last) = &self.last {
            let compare = make_comparator(last, array, SortOptions::default())?;
            self.step(compare(0, 0));
        }
        let compare = make_comparator(array, array, SortOptions::default())?;
        for row in 1..array.len() {
            self.step(compare(row.saturating_sub(1), row));
            if self.up && self.down {
                self.last = None;
                return Ok(());
            }
        }
        self.last = Some(array.slice(array.len().saturating_sub(1), 1));
        Ok(())
    }

    fn step(&mut self, ordering: Ordering) {
        self.up |= ordering == Ordering::Less;
        self.down |= ordering == Ordering::Greater;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::{
        array::Int32Array,
        datatypes::{DataType, Field},
    };
    use std::sync::Arc;

    fn order(batches: &[&[i32]]) -> Option<ColumnOrder> {
        let schema = Schema::new(vec![Field::new("a", DataType::Int32, true)]);
        let mut watch = OrderWatch::new(&schema);
        for batch in batches {
            let array: ArrayRef = Arc::new(Int32Array::from(batch.to_vec()));
            watch
                .see(&RecordBatch::try_from_iter([("a", array)]).unwrap())
                .unwrap();
        }
        watch.finish()[0]
    }

    #[test]
    fn seen_across_batches() {
        assert_eq!(order(&[&[1, 1, 2], &[2, 9]]), Some(ColumnOrder::Ascending));
        assert_eq!(order(&[&[1, 1, 2], &[1, 9]]), None);
        assert_eq!(order(&[&[3], &[2], &[2]]), Some(ColumnOrder::Descending));
        assert_eq!(order(&[&[3, 3], &[3]]), None);
    }
}
