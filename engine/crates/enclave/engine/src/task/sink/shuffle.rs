//! The sink of an exchange: rows are gathered, packed by target, sealed, and leave at the end,
//! targets ascending.
//!
//! Three stages of the same rows: batches, each with its rows put in the order of targets; sealed
//! frames in memory; sealed frames in a scratch file. The first two count in the memory pool. When
//! it is full, batches are packed early and frames move to the file: as they are sealed already,
//! under the stream's own key, nothing else has to be done for them there.
//!
//! Where the exchange is read in this engine, what batches there are at the end stay as they are
//! ([`crate::exchange`]), if there is room for them.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::take_record_batch,
};
use coffer_plan::{
    codec::{Encoder, Packing, as_decoded},
    spill::{Extent, Scratch, SpillFolder},
};
use coffer_sealing::StreamSealer;
use datafusion_execution::memory_pool::MemoryReservation;

use crate::task::{
    out::Out,
    sink::{
        Finished, SinkError,
        frames::{StreamWriter, rows_per_frame, size_of},
        keeper::Keeper,
        padding::Padding,
    },
};

/// Rows are packed when so many bytes of them are held, also when the pool has more: frames are
/// large enough then.
const HELD_MOST: usize = 64 << 20;

pub(crate) struct ShuffleSink {
    out: Out,
    targets: Vec<Target>,
    encoder: Encoder,
    /// Not packed yet.
    held: Vec<ByTarget>,
    held_bytes: usize,
    sealed_bytes: usize,
    reservation: MemoryReservation,
    folder: Arc<SpillFolder>,
    scratch: Option<Scratch>,
    keeper: Option<Keeper>,
}

/// A batch whose rows lie target by target, each target's in the order in which they came. Sorting
/// one batch at a time keeps the scattered copying within the processor's caches; frames are then
/// put together from whole runs of rows.
pub(crate) struct ByTarget {
    rows: RecordBatch,
    /// Those of target `t` are `starts[t]..starts[t + 1]`.
    starts: Vec<usize>,
}

struct Target {
    stream: StreamWriter,
    spilled: Vec<Extent>,
    sealed: Vec<u8>,
}

impl ShuffleSink {
    pub(crate) fn new(
        out: Out,
        sealers: Vec<StreamSealer>,
        padding: Padding,
        packing: Packing,
        reservation: MemoryReservation,
        folder: Arc<SpillFolder>,
        keeper: Option<Keeper>,
    ) -> Self {
        let targets = sealers
            .into_iter()
            .map(|sealer| Target {
                stream: StreamWriter::new(sealer, padding),
                spilled: Vec::new(),
                sealed: Vec::new(),
            })
            .collect();
        Self {
            out,
            targets,
            encoder: Encoder::new(packing),
            held: Vec::new(),
            held_bytes: 0,
            sealed_bytes: 0,
            reservation,
            folder,
            scratch: None,
            keeper,
        }
    }

    /// Takes rows; `targets` has the target of each.
    pub(crate) fn push(&mut self, batch: RecordBatch, targets: Vec<u32>) -> Result<(), SinkError> {
        let held = ByTarget::sort(&batch, &targets, self.targets.len())?;
        drop((batch, targets));
        // Slices of one large batch share its buffers: each counts for its own rows.
        let bytes = size_of(&held.rows) + held.starts.len() * size_of_val(&0usize);
        if let Some(keeper) = &mut self.keeper
            && !keeper.claim(bytes)
        {
            self.keeper = None;
        }
        if self.keeper.is_none() && self.held_bytes + bytes > HELD_MOST {
            self.pack(false)?;
        }
        if self.reservation.try_grow(bytes).is_err() {
            // Others need the memory now.
            self.keeper = None;
            self.pack(false)?;
            self.spill()?;
            self.reservation.try_grow(bytes)?;
        }
        self.held_bytes += bytes;
        self.held.push(held);
        Ok(())
    }

    pub(crate) async fn finish(mut self) -> Result<Finished, SinkError> {
        let kept = self.keeper.is_some();
        match self.keeper.take() {
            Some(keeper) => self.keep(keeper)?,
            None => self.pack(true)?,
        }
        let mut counts = Vec::with_capacity(self.targets.len());
        for (number, target) in self.targets.iter_mut().enumerate() {
            let number = u32::try_from(number).map_err(|_| SinkError::Target)?;
            for extent in target.spilled.drain(..) {
                if let Some(scratch) = &mut self.scratch {
                    self.out.append(number, |out| scratch.read(extent, out))?;
                    self.out.relieve().await?;
                }
            }
            for piece in target.sealed.chunks(1 << 20) {
                self.out.append(number, |out| {
                    out.extend_from_slice(piece);
                    Ok::<_, SinkError>(())
                })?;
                self.out.relieve().await?;
            }
            target.sealed = Vec::new();
            counts.push(target.stream.count());
        }
        self.out.flush().await?;
        Ok(Finished {
            streams: counts,
            kept,
            written: None,
            spilled: self.scratch.as_ref().map_or(0, Scratch::len),
        })
    }

    /// Ends every stream, and keeps the held rows.
    fn keep(&mut self, keeper: Keeper) -> Result<(), SinkError> {
        let held = std::mem::take(&mut self.held);
        let mut targets = Vec::with_capacity(self.targets.len());
        for (number, target) in self.targets.iter_mut().enumerate() {
            let rows = held.iter().filter_map(|batch| batch.of(number));
            let rows = rows
                .map(|rows| as_decoded(&rows, keeper.schema()))
                .collect::<Result<Vec<_>, _>>()?;
            target.stream.seal_kept(&rows, &mut target.sealed)?;
            targets.push(rows);
        }
        drop(held);
        keeper.keep(targets, &mut self.reservation);
        Ok(())
    }

    /// Seals the held rows, target by target. `last` ends every stream.
    fn pack(&mut self, last: bool) -> Result<(), SinkError> {
        let held = std::mem::take(&mut self.held);
        let step = rows_of_a_frame(&held);
        for (number, target) in self.targets.iter_mut().enumerate() {
            let before = target.sealed.len();
            let mut frames = frames(&held, number, step).into_iter().peekable();
            if frames.peek().is_none() && last {
                target
                    .stream
                    .seal(&mut self.encoder, &[], true, &mut target.sealed)?;
            }
            while let Some(frame) = frames.next() {
                let ends = last && frames.peek().is_none();
                target
                    .stream
                    .seal(&mut self.encoder, &frame, ends, &mut target.sealed)?;
            }
            self.sealed_bytes += target.sealed.len() - before;
        }
        drop(held);
        self.held_bytes = 0;
        // Sealed frames are smaller than the rows they came from, all but always; where not, they
        // go to the file.
        self.reservation.shrink(self.reservation.size());
        if self.reservation.try_grow(self.sealed_bytes).is_err() {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<(), SinkError> {
        if self.sealed_bytes == 0 {
            return Ok(());
        }
        if self.scratch.is_none() {
            self.scratch = Some(Scratch::create(&self.folder)?);
        }
        let Some(scratch) = &mut self.scratch else {
            return Ok(());
        };
        for target in &mut self.targets {
            if !target.sealed.is_empty() {
                target.spilled.push(scratch.append(&target.sealed)?);
                target.sealed = Vec::new();
            }
        }
        self.sealed_bytes = 0;
        self.reservation.shrink(self.reservation.size());
        Ok(())
    }
}

impl ByTarget {
    /// `targets` has the target of each row, of `count` there are.
    pub(crate) fn sort(
        batch: &RecordBatch,
        targets: &[u32],
        count: usize,
    ) -> Result<Self, SinkError> {
        if targets.len() != batch.num_rows() {
            return Err(SinkError::Target);
        }
        let targets = || {
            targets
                .iter()
                .map(|target| usize::try_from(*target).unwrap_or(usize::MAX))
        };
        let mut sizes = vec![0usize; count];
        for target in targets() {
            *sizes.get_mut(target).ok_or(SinkError::Target)? += 1;
        }
        let mut end = 0;
        let mut starts = vec![0];
        starts.extend(sizes.iter().map(|size| {
            end += size;
            end
        }));
        // Rows without columns are all the same.
        if count <= 1 || batch.num_columns() == 0 {
            let rows = batch.clone();
            return Ok(Self { rows, starts });
        }
        let mut next = starts.clone();
        let mut order = vec![0u32; batch.num_rows()];
        for (row, target) in (0u32..).zip(targets()) {
            let position = next.get_mut(target).ok_or(SinkError::Target)?;
            *order.get_mut(*position).ok_or(SinkError::Target)? = row;
            *position += 1;
        }
        Ok(Self {
            rows: take_record_batch(batch, &UInt32Array::from(order))?,
            starts,
        })
    }

    pub(crate) fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    /// The rows of a target, if it has any here.
    pub(crate) fn of(&self, target: usize) -> Option<RecordBatch> {
        let (start, end) = (*self.starts.get(target)?, *self.starts.get(target + 1)?);
        (start < end).then(|| self.rows.slice(start, end - start))
    }
}

/// For [`frames`], of all targets.
pub(crate) fn rows_of_a_frame(held: &[ByTarget]) -> usize {
    let bytes = held.iter().map(|batch| size_of(&batch.rows)).sum();
    rows_per_frame(held.iter().map(|batch| batch.rows.num_rows()).sum(), bytes)
}

/// A target's rows in runs that make up frames of `step` rows each, but for the last.
pub(crate) fn frames(held: &[ByTarget], target: usize, step: usize) -> Vec<Vec<RecordBatch>> {
    let mut frames = Vec::new();
    let mut frame = Vec::new();
    let mut room = step.max(1);
    for batch in held {
        let Some(mut rows) = batch.of(target) else {
            continue;
        };
        while rows.num_rows() > room {
            frame.push(rows.slice(0, room));
            rows = rows.slice(room, rows.num_rows() - room);
            frames.push(std::mem::take(&mut frame));
            room = step.max(1);
        }
        room -= rows.num_rows();
        frame.push(rows);
        if room == 0 {
            frames.push(std::mem::take(&mut frame));
            room = step.max(1);
        }
    }
    if !frame.is_empty() {
        frames.push(frame);
    }
    frames
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{ArrayRef, AsArray, Int64Array, StringArray},
        datatypes::Int64Type,
    };

    use super::*;

    fn batch(values: std::ops::Range<i64>) -> RecordBatch {
        let texts: StringArray = values
            .clone()
            .map(|value| Some(format!("row {value}")))
            .collect();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
        RecordBatch::try_from_iter([("n", numbers), ("s", Arc::new(texts) as ArrayRef)]).unwrap()
    }

    #[test]
    fn each_target_gets_its_rows_in_order_and_in_frames_of_a_size() {
        let batches = [batch(0..10), batch(10..11), batch(11..40)];
        let held: Vec<ByTarget> = batches
            .iter()
            .map(|batch| {
                let numbers = batch.column(0).as_primitive::<Int64Type>();
                let targets: Vec<u32> = numbers
                    .values()
                    .iter()
                    .map(|n| u32::try_from(n % 3).unwrap())
                    .collect();
                ByTarget::sort(batch, &targets, 4).unwrap()
            })
            .collect();
        for target in 0..4 {
            let frames = frames(&held, target, 5);
            let sizes: Vec<usize> = frames
                .iter()
                .map(|frame| frame.iter().map(RecordBatch::num_rows).sum())
                .collect();
            let found: Vec<i64> = frames
                .iter()
                .flatten()
                .flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec())
                .collect();
            let want: Vec<i64> = (0..40)
                .filter(|n| n % 3 == i64::try_from(target).unwrap())
                .collect();
            assert_eq!(found, want);
            assert!(
                sizes.iter().rev().skip(1).all(|size| *size == 5),
                "{sizes:?}"
            );
        }
    }

    #[test]
    fn a_target_that_is_not_there_is_refused() {
        assert!(matches!(
            ByTarget::sort(&batch(0..2), &[0, 2], 2),
            Err(SinkError::Target)
        ));
        assert!(matches!(
            ByTarget::sort(&batch(0..2), &[0], 2),
            Err(SinkError::Target)
        ));
    }
}
