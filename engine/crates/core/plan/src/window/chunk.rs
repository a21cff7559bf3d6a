//! Rows of whole window partitions.

use std::ops::Range;

use arrow::{record_batch::RecordBatch, row::Rows};
use datafusion_common::Result;

use super::KeyRows;

/// Some window partitions, one after the other.
pub(super) struct Chunk {
    pub(super) batch: RecordBatch,
    /// The window partitions' rows: they cover the batch, and none is empty.
    pub(super) partitions: Vec<Range<usize>>,
    /// Of each row, the number of its group of peers, counted over the chunk: rows that the order
    /// holds equal, in one window partition.
    pub(super) peers: Vec<usize>,
    /// The keys of the order; none if there are no keys.
    pub(super) order: Option<Rows>,
}

impl Chunk {
    /// `starts`: where window partitions begin, the first row among them.
    pub(super) fn new(
        batch: RecordBatch,
        starts: &[usize],
        order: Option<&KeyRows>,
    ) -> Result<Self> {
        let rows = batch.num_rows();
        let ends = starts.iter().copied().skip(1).chain([rows]);
        let partitions: Vec<Range<usize>> = starts
            .iter()
            .zip(ends)
            .map(|(start, end)| *start..end)
            .collect();
        let order = order.map(|keys| keys.of(&batch)).transpose()?;
        let mut peers = Vec::with_capacity(rows);
        let mut group = 0;
        for partition in &partitions {
            for row in partition.clone() {
                let new = match &order {
                    _ if row == partition.start => row > 0,
                    Some(order) => order.row(row) != order.row(row - 1),
                    None => false,
                };
                group += usize::from(new);
                peers.push(group);
            }
        }
        Ok(Self {
            batch,
            partitions,
            peers,
            order,
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// The groups of peers in some rows, in order.
    pub(super) fn peers_in(&self, rows: &Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let start = rows.start;
        self.peers
            .get(rows.clone())
            .unwrap_or_default()
            .chunk_by(|left, right| left == right)
            .scan(start, |next, group| {
                let from = *next;
                *next += group.len();
                Some(from..*next)
            })
    }
}
