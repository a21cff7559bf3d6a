//! The sink of an exchange in a query that runs in this engine whole: all rows stay, and nothing
//! leaves. Where there is no room for them the query fails, and is run stage by stage instead.

use arrow::array::RecordBatch;
use coffer_plan::{codec::as_decoded, partitioner::Partitioner};
use coffer_protocol::wire::StreamCount;
use datafusion_common::{DataFusionError, utils::memory::RecordBatchMemoryCounter};
use datafusion_execution::memory_pool::MemoryReservation;

use crate::task::{
    TaskError,
    sink::{Finished, SinkError, frames::size_of, keeper::Keeper, shuffle::ByTarget},
};

pub(crate) struct StaySink {
    keeper: Keeper,
    /// None of a broadcast.
    partitioner: Option<Partitioner>,
    targets: usize,
    held: Vec<ByTarget>,
    /// Batches may share buffers.
    counter: RecordBatchMemoryCounter,
    reservation: MemoryReservation,
}

impl StaySink {
    pub(crate) fn new(
        keeper: Keeper,
        partitioner: Option<Partitioner>,
        reservation: MemoryReservation,
    ) -> Self {
        let targets = partitioner.as_ref().map_or(1, Partitioner::targets);
        Self {
            keeper,
            partitioner,
            targets: usize::try_from(targets).unwrap_or(usize::MAX),
            held: Vec::new(),
            counter: RecordBatchMemoryCounter::new(),
            reservation,
        }
    }

    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<(), TaskError> {
        let one;
        let targets = match &mut self.partitioner {
            Some(partitioner) => partitioner.targets_of(batch)?,
            None => {
                one = vec![0; batch.num_rows()];
                &one
            }
        };
        let held = ByTarget::sort(batch, targets, self.targets)?;
        let bytes = self.counter.count_batch(held.rows());
        self.claim(bytes)?;
        self.held.push(held);
        Ok(())
    }

    fn claim(&mut self, bytes: usize) -> Result<(), DataFusionError> {
        if !self.keeper.claim(bytes) {
            let full = "the rows of the query's exchanges take more than their part of the memory";
            return Err(DataFusionError::ResourcesExhausted(full.to_owned()));
        }
        self.reservation.try_grow(bytes)
    }

    pub(crate) fn finish(mut self) -> Result<Finished, SinkError> {
        let held = std::mem::take(&mut self.held);
        let mut targets = Vec::with_capacity(self.targets);
        let mut streams = Vec::with_capacity(self.targets);
        let mut counter = RecordBatchMemoryCounter::new();
        let mut bytes = 0;
        for target in 0..self.targets {
            let rows = held.iter().filter_map(|batch| batch.of(target));
            let rows = rows
                .map(|rows| as_decoded(&rows, self.keeper.schema()))
                .collect::<Result<Vec<_>, _>>()?;
            bytes += rows
                .iter()
                .map(|rows| counter.count_batch(rows))
                .sum::<usize>();
            streams.push(StreamCount {
                frames: 0,
                rows: rows.iter().map(|rows| rows.num_rows() as u64).sum(),
                bytes: rows.iter().map(|rows| size_of(rows) as u64).sum(),
            });
            targets.push(rows);
        }
        drop(held);
        // Without dictionaries they may take more.
        self.claim(bytes.saturating_sub(self.reservation.size()))?;
        self.keeper.keep(targets, &mut self.reservation);
        Ok(Finished {
            streams,
            // There is no stream that stands for rows: nobody outside is told of sizes.
            kept: false,
            written: None,
        })
    }
}
