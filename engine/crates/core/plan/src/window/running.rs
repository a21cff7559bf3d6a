//! Ranks that are known as soon as a row comes: nothing is held but the last row's keys.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int32Array},
    datatypes::SchemaRef,
    record_batch::RecordBatch,
    row::OwnedRow,
};
use coffer_protocol::plan::window;
use datafusion_common::Result;

use super::{KeyRows, Keys, int};

/// By what rows are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SoFar {
    RowNumber,
    Rank,
    DenseRank,
}

impl SoFar {
    /// None if it takes more than the rows so far.
    pub(super) fn of_rows_so_far(rank: window::Rank) -> Option<Self> {
        match rank {
            window::Rank::RowNumber => Some(Self::RowNumber),
            window::Rank::Rank => Some(Self::Rank),
            window::Rank::DenseRank => Some(Self::DenseRank),
            window::Rank::PercentRank | window::Rank::CumeDist | window::Rank::Ntile => None,
        }
    }

    pub(super) fn of(self, place: Place) -> usize {
        match self {
            Self::RowNumber => place.rows,
            Self::Rank => place.before + 1,
            Self::DenseRank => place.groups,
        }
    }
}

/// Where a row is in its window partition.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// Rows so far, itself among them.
    rows: usize,
    /// Groups of peers so far, its own among them.
    groups: usize,
    /// Rows before its group of peers.
    before: usize,
}

impl Place {
    pub(super) fn groups(self) -> usize {
        self.groups
    }

    pub(super) fn before(self) -> usize {
        self.before
    }
}

/// Rows that come sorted by the keys.
pub(super) struct Running {
    partition: Option<KeyRows>,
    order: Option<KeyRows>,
    /// The keys of the last row.
    last: Option<(Option<OwnedRow>, Option<OwnedRow>)>,
    place: Place,
}

impl Running {
    pub(super) fn new(keys: &Keys, schema: &SchemaRef) -> Result<Self> {
        Ok(Self {
            partition: KeyRows::some(&keys.partition, schema)?,
            order: KeyRows::some(&keys.order, schema)?,
            last: None,
            place: Place::default(),
        })
    }

    pub(super) fn each(
        &mut self,
        batch: &RecordBatch,
        mut f: impl FnMut(Place) -> Result<()>,
    ) -> Result<()> {
        let keys = |keys: &Option<KeyRows>| keys.as_ref().map(|keys| keys.of(batch)).transpose();
        let (partition, order) = (keys(&self.partition)?, keys(&self.order)?);
        let last = self.last.take();
        let mut before = last.as_ref().map(|(partition, order)| {
            (
                partition.as_ref().map(OwnedRow::row),
                order.as_ref().map(OwnedRow::row),
            )
        });
        let place = &mut self.place;
        for row in 0..batch.num_rows() {
            let key = (
                partition.as_ref().map(|keys| keys.row(row)),
                order.as_ref().map(|keys| keys.row(row)),
            );
            match before {
                Some((partition, order)) if partition == key.0 => {
                    if order != key.1 {
                        (place.groups, place.before) = (place.groups + 1, place.rows);
                    }
                    place.rows += 1;
                }
                _ => {
                    *place = Place {
                        rows: 1,
                        groups: 1,
                        before: 0,
                    };
                }
            }
            f(*place)?;
            before = Some(key);
        }
        self.last = before.map(|(partition, order)| {
            (
                partition.map(|row| row.owned()),
                order.map(|row| row.owned()),
            )
        });
        Ok(())
    }

    /// A column for each of the ranks.
    pub(super) fn columns(
        &mut self,
        batch: &RecordBatch,
        ranks: &[SoFar],
    ) -> Result<Vec<ArrayRef>> {
        let mut columns = vec![Vec::with_capacity(batch.num_rows()); ranks.len()];
        self.each(batch, |place| {
            for (column, rank) in columns.iter_mut().zip(ranks) {
                column.push(int(rank.of(place))?);
            }
            Ok(())
        })?;
        let columns = columns.into_iter();
        Ok(columns
            .map(|column| Arc::new(Int32Array::from(column)) as ArrayRef)
            .collect())
    }
}
