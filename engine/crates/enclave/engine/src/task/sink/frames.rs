//! How rows become frames, and what the commit record says of them.

use arrow::array::{Array, RecordBatch};
use coffer_plan::codec::{CodecError, Encoder, pad, put_kept};
use coffer_protocol::wire::StreamCount;
use coffer_sealing::{StreamSealer, frame::OVERHEAD};
use thiserror::Error;

use crate::task::sink::padding::Padding;

/// Unpacked bytes that a frame aims at.
const FRAME_BYTES: usize = 1 << 20;
/// Rows that a frame has at least, if there are so many and they are not huge.
const FRAME_ROWS: usize = 4096;
/// Unpacked bytes above which even few rows are split; the format's own limit is 64 MiB sealed.
const FRAME_BYTES_MOST: usize = 16 << 20;

/// Why rows cannot be sealed. Ours, or the machine's.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The codec refused the batch.
    #[error("a batch cannot be encoded: {0}")]
    Codec(#[from] CodecError),
    /// The frame could not be sealed.
    #[error("a frame cannot be sealed: {0}")]
    Sealing(#[from] coffer_sealing::Error),
}

/// Seals one stream and counts what it seals.
pub(crate) struct StreamWriter {
    sealer: StreamSealer,
    padding: Padding,
    rows: u64,
    bytes: u64,
    begun: bool,
    /// Of its frames so far.
    length: usize,
    longest: usize,
}

impl StreamWriter {
    pub(crate) fn new(sealer: StreamSealer, padding: Padding) -> Self {
        Self {
            sealer,
            padding,
            rows: 0,
            bytes: 0,
            begun: false,
            length: 0,
            longest: 0,
        }
    }

    /// Appends a frame with the rows of all batches, the preamble before the first; one without
    /// rows if there is no batch. `last` ends the stream.
    pub(crate) fn seal(
        &mut self,
        encoder: &mut Encoder,
        batches: &[RecordBatch],
        last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        if !self.begun {
            self.sealer.preamble(out);
            self.begun = true;
        }
        for batch in batches {
            self.rows += batch.num_rows() as u64;
            self.bytes += size_of(batch) as u64;
        }
        let fills = self.padding == Padding::PowersOfTwo;
        if !batches.is_empty() || !fills {
            self.frame(last && !fills, 0, out, |out| {
                if batches.is_empty() {
                    return Ok(());
                }
                encoder.encode(batches, out)
            })?;
        }
        if last && fills {
            let mut fillers = self.padding.fillers(self.length, self.longest).peekable();
            while let Some(filler) = fillers.next() {
                self.frame(fillers.peek().is_none(), filler, out, |_| Ok(()))?;
            }
        }
        Ok(())
    }

    /// Appends the last frame of a stream whose further rows stay in the engine.
    pub(crate) fn seal_kept(
        &mut self,
        batches: &[RecordBatch],
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        if !self.begun {
            self.sealer.preamble(out);
            self.begun = true;
        }
        let mut rows = 0;
        for batch in batches {
            rows += batch.num_rows();
            self.bytes += size_of(batch) as u64;
        }
        self.rows += rows as u64;
        self.frame(true, 0, out, |out| put_kept(rows, out))
    }

    fn frame(
        &mut self,
        last: bool,
        least: usize,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), CodecError>,
    ) -> Result<(), FrameError> {
        let before = out.len();
        let (padding, longest) = (self.padding, self.longest);
        self.sealer.seal_with(last, out, |out| {
            let start = out.len();
            fill(out)?;
            if padding != Padding::None {
                let length = padding.frame((out.len() - start + OVERHEAD).max(least), longest);
                pad(out, start, length.saturating_sub(OVERHEAD));
            }
            Ok::<_, FrameError>(())
        })?;
        let length = out.len() - before;
        self.length += length;
        self.longest = self.longest.max(length);
        Ok(())
    }

    pub(crate) fn count(&self) -> StreamCount {
        StreamCount {
            frames: self.sealer.frames(),
            rows: self.rows,
            bytes: self.bytes,
        }
    }
}

/// Unpacked bytes of a batch: of its rows alone, not of the buffers that it may share.
pub(crate) fn size_of(batch: &RecordBatch) -> usize {
    batch
        .columns()
        .iter()
        .map(|column| {
            column
                .to_data()
                .get_slice_memory_size()
                .unwrap_or_else(|_| column.get_array_memory_size())
        })
        .sum()
}

/// How many rows go into one frame, of rows that take `bytes` in all.
pub(crate) fn rows_per_frame(rows: usize, bytes: usize) -> usize {
    let fitting = |limit: usize| match bytes {
        0 => rows,
        _ => rows.saturating_mul(limit) / bytes,
    };
    fitting(FRAME_BYTES)
        .max(FRAME_ROWS)
        .min(fitting(FRAME_BYTES_MOST))
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_hold_about_a_megabyte_and_not_too_few_rows() {
        // Narrow rows: a megabyte of them.
        assert_eq!(rows_per_frame(1 << 20, 8 << 20), 1 << 17);
        // Rows of a kilobyte: the least number of rows.
        assert_eq!(rows_per_frame(10_000, 10_000 << 10), FRAME_ROWS);
        // Rows of a megabyte: no more than fit.
        assert_eq!(rows_per_frame(100, 100 << 20), 16);
        // Rows larger than a frame should be: one by one.
        assert_eq!(rows_per_frame(2, 80 << 20), 1);
        assert_eq!(rows_per_frame(0, 0), 1);
    }
}
