//! Small batches put together.

use arrow::{array::RecordBatch, compute::BatchCoalescer, datatypes::SchemaRef};
use datafusion_common::Result;
use futures::{Stream, StreamExt, TryStreamExt, stream, stream::BoxStream};

/// Rows that small batches are put together to.
const BATCH_ROWS: usize = 8192;

/// Puts small batches together, in order.
pub fn coalesced(
    schema: SchemaRef,
    rows: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
) -> BoxStream<'static, Result<RecordBatch>> {
    if schema.fields().is_empty() {
        // Rows without columns cost nothing as they are.
        return rows.boxed();
    }
    let coalescer = BatchCoalescer::new(schema, BATCH_ROWS)
        .with_biggest_coalesce_batch_size(Some(BATCH_ROWS / 2));
    let state = (Box::pin(rows), Some(coalescer));
    stream::try_unfold(state, |(mut rows, coalescer)| async move {
        let Some(mut coalescer) = coalescer else {
            return Ok(None);
        };
        loop {
            if let Some(batch) = coalescer.next_completed_batch() {
                return Ok(Some((batch, (rows, Some(coalescer)))));
            }
            match rows.try_next().await? {
                Some(batch) => coalescer.push_batch(batch)?,
                None => {
                    coalescer.finish_buffered_batch()?;
                    let Some(batch) = coalescer.next_completed_batch() else {
                        return Ok(None);
                    };
                    return Ok(Some((batch, (rows, Some(coalescer)))));
                }
            }
        }
    })
    .boxed()
}
