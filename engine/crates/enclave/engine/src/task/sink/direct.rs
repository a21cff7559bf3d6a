//! A sink with one target: results, samples, broadcasts, and exchanges to a single partition.
//! Frames leave as they are made; rows of an exchange that is read in this engine stay, as long as
//! there is room for them ([`crate::exchange`]).

use arrow::{array::RecordBatch, compute::BatchCoalescer, datatypes::SchemaRef};
use coffer_plan::codec::{Encoder, Packing, as_decoded};
use coffer_sealing::StreamSealer;
use datafusion_common::utils::memory::RecordBatchMemoryCounter;
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

/// Rows that small batches are put together to.
const ROWS: usize = 8192;

pub(crate) struct DirectSink {
    out: Out,
    stream: StreamWriter,
    encoder: Encoder,
    /// None for rows without columns.
    coalescer: Option<BatchCoalescer>,
    staying: Option<Staying>,
    /// As the executor is told.
    target: u32,
}

/// Rows that stay, so far.
pub(crate) struct Staying {
    keeper: Keeper,
    rows: Vec<RecordBatch>,
    /// Batches may share buffers.
    counter: RecordBatchMemoryCounter,
    reservation: MemoryReservation,
}

impl DirectSink {
    pub(crate) fn new(
        out: Out,
        sealer: StreamSealer,
        schema: SchemaRef,
        padding: Padding,
        packing: Packing,
        staying: Option<Staying>,
        target: u32,
    ) -> Self {
        let coalescer = (!schema.fields().is_empty()).then(|| {
            BatchCoalescer::new(schema, ROWS).with_biggest_coalesce_batch_size(Some(ROWS / 2))
        });
        Self {
            out,
            stream: StreamWriter::new(sealer, padding),
            encoder: Encoder::new(packing),
            coalescer,
            staying,
            target,
        }
    }

    pub(crate) async fn push(&mut self, batch: RecordBatch) -> Result<(), SinkError> {
        match &mut self.coalescer {
            Some(coalescer) => {
                coalescer.push_batch(batch)?;
                self.send_completed().await
            }
            None => self.send(&batch).await,
        }
    }

    pub(crate) async fn finish(mut self) -> Result<Finished, SinkError> {
        if let Some(coalescer) = &mut self.coalescer {
            coalescer.finish_buffered_batch()?;
            self.send_completed().await?;
        }
        let (stream, encoder) = (&mut self.stream, &mut self.encoder);
        let kept = self.staying.is_some();
        match self.staying {
            Some(staying) => {
                self.out
                    .append(self.target, |out| stream.seal_kept(&staying.rows, out))?;
                staying.keep();
            }
            None => self
                .out
                .append(self.target, |out| stream.seal(encoder, &[], true, out))?,
        }
        self.out.flush().await?;
        Ok(Finished {
            streams: vec![self.stream.count()],
            kept,
            written: None,
            spilled: 0,
        })
    }

    async fn send_completed(&mut self) -> Result<(), SinkError> {
        while let Some(batch) = self
            .coalescer
            .as_mut()
            .and_then(BatchCoalescer::next_completed_batch)
        {
            self.send(&batch).await?;
        }
        Ok(())
    }

    async fn send(&mut self, batch: &RecordBatch) -> Result<(), SinkError> {
        if let Some(staying) = &mut self.staying {
            if staying.take(batch)? {
                return Ok(());
            }
            let rows = self.staying.take().map(|staying| staying.rows);
            for batch in rows.iter().flatten() {
                self.seal(batch).await?;
            }
        }
        self.seal(batch).await
    }

    async fn seal(&mut self, batch: &RecordBatch) -> Result<(), SinkError> {
        let rows = batch.num_rows();
        let step = rows_per_frame(rows, size_of(batch));
        let mut start = 0;
        while start < rows {
            let piece = batch.slice(start, step.min(rows - start));
            let (stream, encoder) = (&mut self.stream, &mut self.encoder);
            self.out.append(self.target, |out| {
                stream.seal(encoder, &[piece], false, out)
            })?;
            self.out.relieve().await?;
            start += step;
        }
        Ok(())
    }
}

impl Staying {
    pub(crate) fn new(keeper: Keeper, reservation: MemoryReservation) -> Self {
        Self {
            keeper,
            rows: Vec::new(),
            counter: RecordBatchMemoryCounter::new(),
            reservation,
        }
    }

    /// Takes rows, if there is room for them.
    fn take(&mut self, batch: &RecordBatch) -> Result<bool, SinkError> {
        let rows = as_decoded(batch, self.keeper.schema())?;
        let bytes = self.counter.count_batch(&rows);
        let taken = self.keeper.claim(bytes) && self.reservation.try_grow(bytes).is_ok();
        if taken {
            self.rows.push(rows);
        }
        Ok(taken)
    }

    fn keep(mut self) {
        self.keeper.keep(vec![self.rows], &mut self.reservation);
    }
}
