//! The sink of an exchange in a query that runs in this engine whole: all rows stay, and nothing
//! leaves. Where there is no room for them in memory, what a task writes goes to a scratch file,
//! sealed ([`crate::exchange`]).

use std::sync::Arc;

use arrow::array::RecordBatch;
use coffer_plan::{
    codec::{Packing, as_decoded},
    partitioner::Partitioner,
    spill::SpillFolder,
};
use coffer_protocol::wire::StreamCount;
use datafusion_common::utils::memory::RecordBatchMemoryCounter;
use datafusion_execution::memory_pool::MemoryReservation;

use crate::{
    exchange::{Rows, Spilling},
    task::{
        TaskError,
        sink::{
            Finished, SinkError,
            frames::size_of,
            keeper::Keeper,
            shuffle::{ByTarget, frames, rows_of_a_frame},
        },
    },
};

/// Rows are packed when so many bytes of them are held, also when the pool has more: frames are
/// large enough then.
const HELD_MOST: usize = 32 << 20;

pub(crate) struct StaySink {
    keeper: Keeper,
    /// None of a broadcast.
    partitioner: Option<Partitioner>,
    held: Vec<ByTarget>,
    held_bytes: usize,
    /// Batches may share buffers.
    counter: RecordBatchMemoryCounter,
    reservation: MemoryReservation,
    packing: Packing,
    folder: Arc<SpillFolder>,
    /// From when on there was no room.
    spilling: Option<Spilling>,
    /// Of what was spilled, by target.
    counts: Vec<StreamCount>,
}

impl StaySink {
    pub(crate) fn new(
        keeper: Keeper,
        partitioner: Option<Partitioner>,
        reservation: MemoryReservation,
        packing: Packing,
        folder: Arc<SpillFolder>,
    ) -> Self {
        let targets = partitioner.as_ref().map_or(1, Partitioner::targets);
        let targets = usize::try_from(targets).unwrap_or(usize::MAX);
        Self {
            keeper,
            partitioner,
            held: Vec::new(),
            held_bytes: 0,
            counter: RecordBatchMemoryCounter::new(),
            reservation,
            packing,
            folder,
            spilling: None,
            counts: vec![StreamCount::default(); targets],
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
        let held = ByTarget::sort(batch, targets, self.counts.len())?;
        let bytes = self.counter.count_batch(held.rows());
        let mut room = self.claims(bytes);
        if !room {
            self.spill()?;
            room = self.claims(bytes);
        }
        self.held_bytes += bytes;
        self.held.push(held);
        if !room {
            // It is here anyway.
            self.spill()?;
        }
        Ok(())
    }

    /// So many bytes more, if there is room for them.
    fn claims(&mut self, bytes: usize) -> bool {
        let room = match &self.spilling {
            // They are not to stay.
            Some(_) => self.held_bytes + bytes <= HELD_MOST,
            None => self.keeper.claim(bytes),
        };
        room && self.reservation.try_grow(bytes).is_ok()
    }

    /// Packs and seals the held rows, target by target.
    fn spill(&mut self) -> Result<(), SinkError> {
        let spilling = match &mut self.spilling {
            Some(spilling) => spilling,
            None => {
                let spilling = Spilling::new(&self.folder, self.counts.len(), self.packing)?;
                self.spilling.insert(spilling)
            }
        };
        let held = std::mem::take(&mut self.held);
        let step = rows_of_a_frame(&held);
        for (number, count) in self.counts.iter_mut().enumerate() {
            for frame in frames(&held, number, step) {
                for rows in &frame {
                    count.rows += rows.num_rows() as u64;
                    count.bytes += size_of(rows) as u64;
                }
                spilling.put(number, &frame)?;
            }
        }
        drop(held);
        self.held_bytes = 0;
        self.counter = RecordBatchMemoryCounter::new();
        self.reservation.free();
        self.keeper.release();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Finished, SinkError> {
        if self.spilling.is_none() {
            let targets = self.decoded()?;
            if let Some(targets) = targets {
                self.keeper.keep(targets, &mut self.reservation);
                return Ok(finished(self.counts, 0));
            }
        }
        self.spill()?;
        let mut bytes = 0;
        if let Some(spilling) = self.spilling {
            let spilled = spilling.finish()?;
            bytes = spilled.bytes();
            let rows = Rows::Spilled(Arc::new(spilled));
            self.keeper.enter(rows, &mut self.reservation);
        }
        Ok(finished(self.counts, bytes))
    }

    /// The held rows by target, as readers take them; none if there is no room for them, as
    /// without dictionaries they may take more.
    fn decoded(&mut self) -> Result<Option<Vec<Vec<RecordBatch>>>, SinkError> {
        let mut targets = Vec::with_capacity(self.counts.len());
        let mut counts = Vec::with_capacity(self.counts.len());
        let mut counter = RecordBatchMemoryCounter::new();
        let mut bytes = 0;
        for target in 0..self.counts.len() {
            let rows = self.held.iter().filter_map(|batch| batch.of(target));
            let rows = rows
                .map(|rows| as_decoded(&rows, self.keeper.schema()))
                .collect::<Result<Vec<_>, _>>()?;
            bytes += rows
                .iter()
                .map(|rows| counter.count_batch(rows))
                .sum::<usize>();
            counts.push(StreamCount {
                frames: 0,
                rows: rows.iter().map(|rows| rows.num_rows() as u64).sum(),
                bytes: rows.iter().map(|rows| size_of(rows) as u64).sum(),
            });
            targets.push(rows);
        }
        let more = bytes.saturating_sub(self.reservation.size());
        if !self.claims(more) {
            return Ok(None);
        }
        self.held = Vec::new();
        self.counts = counts;
        Ok(Some(targets))
    }
}

fn finished(streams: Vec<StreamCount>, spilled: u64) -> Finished {
    Finished {
        streams,
        // There is no stream that stands for rows: nobody outside is told of sizes.
        kept: false,
        written: None,
        spilled,
    }
}
