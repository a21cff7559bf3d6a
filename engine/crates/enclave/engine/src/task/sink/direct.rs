//! A sink with one target: results, samples, and exchanges to a single partition. Frames leave as
//! they are made.

use arrow::{array::RecordBatch, compute::BatchCoalescer, datatypes::SchemaRef};
use coffer_plan::codec::{Encoder, Packing};
use coffer_protocol::wire::StreamCount;
use coffer_sealing::StreamSealer;

use crate::task::{
    out::Out,
    sink::{
        SinkError,
        frames::{StreamWriter, rows_per_frame, size_of},
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
}

impl DirectSink {
    pub(crate) fn new(
        out: Out,
        sealer: StreamSealer,
        schema: SchemaRef,
        padding: Padding,
        packing: Packing,
    ) -> Self {
        let coalescer = (!schema.fields().is_empty()).then(|| {
            BatchCoalescer::new(schema, ROWS).with_biggest_coalesce_batch_size(Some(ROWS / 2))
        });
        Self {
            out,
            stream: StreamWriter::new(sealer, padding),
            encoder: Encoder::new(packing),
            coalescer,
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

    pub(crate) async fn finish(mut self) -> Result<Vec<StreamCount>, SinkError> {
        if let Some(coalescer) = &mut self.coalescer {
            coalescer.finish_buffered_batch()?;
            self.send_completed().await?;
        }
        let (stream, encoder) = (&mut self.stream, &mut self.encoder);
        self.out
            .append(0, |out| stream.seal(encoder, &[], true, out))?;
        self.out.flush().await?;
        Ok(vec![self.stream.count()])
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
        let rows = batch.num_rows();
        let step = rows_per_frame(rows, size_of(batch));
        let mut start = 0;
        while start < rows {
            let piece = batch.slice(start, step.min(rows - start));
            let (stream, encoder) = (&mut self.stream, &mut self.encoder);
            self.out
                .append(0, |out| stream.seal(encoder, &[piece], false, out))?;
            self.out.relieve().await?;
            start += step;
        }
        Ok(())
    }
}
