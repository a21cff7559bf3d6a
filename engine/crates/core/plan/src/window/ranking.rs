//! Functions of a row's place among the rows of its window partition.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, Int32Array},
    datatypes::DataType,
};
use coffer_protocol::plan::window::{self, Rank};
use datafusion_common::Result;

use super::{chunk::Chunk, int, running};
use crate::Unsupported;

/// The function, and of NTILE how many buckets there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranking {
    rank: Rank,
    buckets: usize,
}

impl Ranking {
    pub(super) fn read(node: u32, ranking: window::Ranking) -> Result<Self, Unsupported> {
        let malformed = |what| Unsupported::Malformed { node, what };
        let rank = Rank::try_from(ranking.rank)
            .map_err(|_| malformed("a ranking that this engine does not know"))?;
        let buckets = usize::try_from(ranking.buckets)
            .ok()
            .filter(|buckets| *buckets > 0 || rank != Rank::Ntile)
            .ok_or(malformed("no buckets"))?;
        Ok(Self { rank, buckets })
    }

    /// The rank, if it is known as soon as a row comes.
    pub(super) fn running(self) -> Option<running::SoFar> {
        running::SoFar::of_rows_so_far(self.rank)
    }

    pub(super) fn rank(self) -> Rank {
        self.rank
    }

    pub(super) fn buckets(self) -> usize {
        self.buckets
    }

    pub(super) fn data_type(self) -> DataType {
        match self.rank {
            Rank::PercentRank | Rank::CumeDist => DataType::Float64,
            Rank::RowNumber | Rank::Rank | Rank::DenseRank | Rank::Ntile => DataType::Int32,
        }
    }

    pub(super) fn column(self, chunk: &Chunk) -> Result<ArrayRef> {
        Ok(match self.rank {
            Rank::RowNumber => ints(chunk, |partition, _, out| {
                (1..=partition).try_for_each(|number| {
                    out.push(int(number)?);
                    Ok(())
                })
            })?,
            Rank::Ntile => ints(chunk, |partition, _, out| {
                let (size, padded) = (partition / self.buckets, partition % self.buckets);
                for bucket in 0..self.buckets.min(partition) {
                    let rows = size + usize::from(bucket < padded);
                    let bucket = int(bucket + 1)?;
                    out.extend(std::iter::repeat_n(bucket, rows));
                }
                Ok(())
            })?,
            Rank::Rank => ints(chunk, |_, groups, out| {
                let mut before = 0;
                for group in groups {
                    let rank = int(before + 1)?;
                    out.extend(std::iter::repeat_n(rank, *group));
                    before += group;
                }
                Ok(())
            })?,
            Rank::DenseRank => ints(chunk, |_, groups, out| {
                for (index, group) in groups.iter().enumerate() {
                    let rank = int(index + 1)?;
                    out.extend(std::iter::repeat_n(rank, *group));
                }
                Ok(())
            })?,
            Rank::PercentRank => doubles(chunk, |rows, before, _| match rows {
                1 => 0.0,
                rows => before as f64 / (rows - 1) as f64,
            }),
            Rank::CumeDist => doubles(chunk, |rows, before, group| {
                (before + group) as f64 / rows as f64
            }),
        })
    }
}

/// `of(rows, rows of each group of peers, out)` for each window partition.
fn ints(
    chunk: &Chunk,
    of: impl Fn(usize, &[usize], &mut Vec<i32>) -> Result<()>,
) -> Result<ArrayRef> {
    let mut out = Vec::with_capacity(chunk.rows());
    for partition in &chunk.partitions {
        let groups: Vec<usize> = chunk.peers_in(partition).map(|group| group.len()).collect();
        of(partition.len(), &groups, &mut out)?;
    }
    Ok(Arc::new(Int32Array::from(out)))
}

/// `of(rows, rows before the group, rows of the group)` for each group of peers.
fn doubles(chunk: &Chunk, of: impl Fn(usize, usize, usize) -> f64) -> ArrayRef {
    let mut out = Vec::with_capacity(chunk.rows());
    for partition in &chunk.partitions {
        for group in chunk.peers_in(partition) {
            let value = of(partition.len(), group.start - partition.start, group.len());
            out.extend(std::iter::repeat_n(value, group.len()));
        }
    }
    Arc::new(Float64Array::from(out))
}
