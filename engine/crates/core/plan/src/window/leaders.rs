//! Rows that are not among the first of their group, told before rows are sorted.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashMap},
};

use arrow::{
    datatypes::SchemaRef,
    record_batch::RecordBatch,
    row::{OwnedRow, Row},
};
use datafusion_common::Result;
use datafusion_execution::memory_pool::MemoryReservation;

use super::{KeyRows, Keys, running::SoFar};

/// After so many rows it is asked whether leaving some out was worth the looking.
const TRIAL: usize = 1 << 16;

/// So many keys are kept of a group at most: no rows are left out for a higher limit.
const MOST_KEPT: usize = 1 << 10;

/// The least keys of each group so far. A row that has `limit` rows before it in its group, in
/// whatever order they came, has them at last, too.
pub(super) struct Leaders {
    partition: Option<KeyRows>,
    order: KeyRows,
    rank: SoFar,
    limit: usize,
    groups: HashMap<Box<[u8]>, BinaryHeap<OwnedRow>>,
    held: MemoryReservation,
    seen: usize,
    kept: usize,
}

impl Leaders {
    /// Whether rows can be told apart before they are sorted, by few keys of each group.
    pub(super) fn can(keys: &Keys, limit: usize) -> bool {
        !keys.order.is_empty() && limit <= MOST_KEPT
    }

    /// `held`: what keys may take of memory; without room no row is left out.
    pub(super) fn new(
        keys: &Keys,
        rank: SoFar,
        limit: usize,
        schema: &SchemaRef,
        held: MemoryReservation,
    ) -> Result<Self> {
        Ok(Self {
            partition: KeyRows::some(&keys.partition, schema)?,
            order: KeyRows::new(&keys.order, schema)?,
            rank,
            limit,
            groups: HashMap::default(),
            held,
            seen: 0,
            kept: 0,
        })
    }

    /// Whether rows stay, by their place in the batch.
    pub(super) fn keep(&mut self, batch: &RecordBatch) -> Result<Vec<bool>> {
        let partition = self.partition.as_ref().map(|keys| keys.of(batch));
        let (partition, order) = (partition.transpose()?, self.order.of(batch)?);
        let mut kept = Vec::with_capacity(batch.num_rows());
        for (index, key) in order.iter().enumerate() {
            let group = partition.as_ref().map(|rows| rows.row(index));
            kept.push(self.leads(group.as_ref().map_or(&[], AsRef::as_ref), key));
        }
        self.seen = self.seen.saturating_add(kept.len());
        self.kept = self
            .kept
            .saturating_add(kept.iter().filter(|kept| **kept).count());
        Ok(kept)
    }

    /// Whether a row is among the first of its group so far. Peers of the last of them are, too.
    fn leads(&mut self, group: &[u8], key: Row<'_>) -> bool {
        let Some(least) = self.groups.get_mut(group) else {
            // A group for which there is no room has all of its rows.
            let bytes = group
                .len()
                .saturating_add(key.as_ref().len())
                .saturating_add(128);
            if self.held.try_grow(bytes).is_ok() {
                let least = BinaryHeap::from([key.owned()]);
                self.groups.insert(group.into(), least);
            }
            return true;
        };
        let full = least.len() >= self.limit;
        match least.peek().map(|last| key.cmp(&last.row())) {
            Some(Ordering::Greater) if full => return false,
            Some(Ordering::Equal) if full => return true,
            _ => {}
        }
        // Ranks without gaps count peers once.
        if self.rank == SoFar::DenseRank && least.iter().any(|known| known.row() == key) {
            return true;
        }
        if full {
            least.pop();
        } else if self
            .held
            .try_grow(key.as_ref().len().saturating_add(48))
            .is_err()
        {
            // The keys that are known are then too few for any row to be left out.
            return true;
        }
        least.push(key.owned());
        true
    }

    /// Whether rows were left out that repay the looking.
    pub(super) fn goes_on(&self) -> bool {
        self.seen < TRIAL || self.kept < self.seen - self.seen / 4
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::Int64Array,
        datatypes::{DataType, Field, Schema},
    };
    use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
    use datafusion_physical_expr::{PhysicalSortExpr, expressions::Column};

    use super::*;

    /// Rows of 10 groups, the least keys first, under a pool of so many bytes: how many stay.
    fn kept(bytes: usize) -> usize {
        let fields = ["g", "v"].map(|name| Field::new(name, DataType::Int64, false));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let by = |name: &str, at| -> Arc<[PhysicalSortExpr]> {
            [PhysicalSortExpr::new_default(Arc::new(Column::new(
                name, at,
            )))]
            .into()
        };
        let keys = Keys {
            partition: by("g", 0),
            order: by("v", 1),
        };
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let held = MemoryConsumer::new("test").register(&pool);
        let mut leaders = Leaders::new(&keys, SoFar::Rank, 3, &schema, held).unwrap();
        let groups: Int64Array = (0..1000).map(|row| row % 10).collect();
        let values: Int64Array = (0..1000).collect();
        let batch = RecordBatch::try_new(schema, vec![Arc::new(groups), Arc::new(values)]);
        let kept = leaders.keep(&batch.unwrap()).unwrap();
        kept.into_iter().filter(|kept| *kept).count()
    }

    #[test]
    fn without_room_no_row_is_left_out() {
        assert_eq!(kept(1 << 20), 30);
        assert_eq!(kept(0), 1000);
        // Room for some groups, and for some of their keys.
        let some = kept(2200);
        assert!((31..1000).contains(&some), "{some}");
    }
}
