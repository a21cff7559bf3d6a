//! The sink of an exchange: rows are gathered, packed by target, sealed, and leave at the end, targets ascending.
//!
//! Three stages of the same rows: batches as they came, with each row's target; sealed frames in memory; sealed frames in
//! a scratch file. The first two count in the memory pool. When it is full, batches are packed early and frames move to
//! the file: as they are sealed already, under the stream's own key, nothing else has to be done for them there.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    compute::interleave_record_batch,
    error::ArrowError,
};
use coffer_plan::codec::Encoder;
use coffer_proto::wire::StreamCount;
use coffer_sealing::StreamSealer;
use datafusion_execution::memory_pool::MemoryReservation;

use super::{
    SinkError,
    frames::{StreamWriter, rows_per_frame, size_of},
};
use crate::{
    spill::{Extent, Scratch, SpillFolder},
    task::out::Out,
};

/// Rows are packed when so many bytes of them are held, also when the pool has more: frames are large enough then.
const HELD_MOST: usize = 64 << 20;

pub(crate) struct ShuffleSink {
    out: Out,
    targets: Vec<Target>,
    encoder: Encoder,
    /// Batches not packed yet, and the target of each of their rows.
    held: Vec<(RecordBatch, Vec<u32>)>,
    held_bytes: usize,
    sealed_bytes: usize,
    reservation: MemoryReservation,
    folder: Arc<SpillFolder>,
    scratch: Option<Scratch>,
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
        reservation: MemoryReservation,
        folder: Arc<SpillFolder>,
    ) -> Self {
        let targets = sealers
            .into_iter()
            .map(|sealer| Target {
                stream: StreamWriter::new(sealer),
                spilled: Vec::new(),
                sealed: Vec::new(),
            })
            .collect();
        Self {
            out,
            targets,
            encoder: Encoder::default(),
            held: Vec::new(),
            held_bytes: 0,
            sealed_bytes: 0,
            reservation,
            folder,
            scratch: None,
        }
    }

    /// Takes rows; `targets` has the target of each.
    pub(crate) fn push(&mut self, batch: RecordBatch, targets: Vec<u32>) -> Result<(), SinkError> {
        if targets.len() != batch.num_rows()
            || targets
                .iter()
                .any(|target| usize::try_from(*target).map_or(true, |t| t >= self.targets.len()))
        {
            return Err(SinkError::Target);
        }
        // Slices of one large batch share its buffers: each counts for its own rows.
        let bytes = size_of(&batch) + targets.len() * size_of_val(&0u32);
        if self.held_bytes + bytes > HELD_MOST {
            self.pack(false)?;
        }
        if self.reservation.try_grow(bytes).is_err() {
            self.pack(false)?;
            self.spill()?;
            self.reservation.try_grow(bytes)?;
        }
        self.held_bytes += bytes;
        self.held.push((batch, targets));
        Ok(())
    }

    pub(crate) async fn finish(mut self) -> Result<Vec<StreamCount>, SinkError> {
        self.pack(true)?;
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
        Ok(counts)
    }

    /// Seals the held rows, target by target. `last` ends every stream.
    fn pack(&mut self, last: bool) -> Result<(), SinkError> {
        let held = std::mem::take(&mut self.held);
        let batches: Vec<&RecordBatch> = held.iter().map(|(batch, _)| batch).collect();
        let bytes: usize = batches.iter().map(|batch| size_of(batch)).sum();
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        let step = rows_per_frame(rows, bytes);

        let mut places: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.targets.len()];
        for (batch, (_, targets)) in held.iter().enumerate() {
            for (row, target) in targets.iter().enumerate() {
                let list = usize::try_from(*target)
                    .ok()
                    .and_then(|target| places.get_mut(target))
                    .ok_or(SinkError::Target)?;
                list.push((batch, row));
            }
        }
        for (target, places) in self.targets.iter_mut().zip(places) {
            let before = target.sealed.len();
            let mut pieces = places.chunks(step).peekable();
            if pieces.peek().is_none() && last {
                target.stream.seal(&mut self.encoder, None, true, &mut target.sealed)?;
            }
            while let Some(piece) = pieces.next() {
                let rows = gather(&batches, piece)?;
                let ends = last && pieces.peek().is_none();
                target
                    .stream
                    .seal(&mut self.encoder, Some(&rows), ends, &mut target.sealed)?;
            }
            self.sealed_bytes += target.sealed.len() - before;
        }
        drop(batches);
        drop(held);
        self.held_bytes = 0;
        // Sealed frames are smaller than the rows they came from, all but always; where not, they go to the file.
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

fn gather(batches: &[&RecordBatch], places: &[(usize, usize)]) -> Result<RecordBatch, ArrowError> {
    match batches.first() {
        // Rows without columns are only counted.
        Some(batch) if batch.num_columns() == 0 => {
            let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
            RecordBatch::try_new_with_options(batch.schema(), vec![], &options)
        }
        _ => interleave_record_batch(batches, places),
    }
}
