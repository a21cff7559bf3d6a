//! One file: rows in, a pinned file out.

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::{concat_batches, take_record_batch},
};

use super::{
    FileGuard, FileWriter, SCHEME_ROWS, WrittenFile, column_bytes, count, failed, row_groups,
};
use crate::{
    Digest, Error, FilePin, PartitionValue,
    digests::digest_chunks,
    files::{Disk, Op},
};

impl<D: Disk> FileWriter<D> {
    /// Adds rows. The batch must have the table's schema; the owner's side has what converts
    /// others.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
            if field.data_type() != column.data_type() {
                return Err(Error::BatchSchema(field.name().clone()));
            }
        }
        if !self.options.shuffle_rows && self.encoder.is_none() {
            return self.encode(batch);
        }
        self.waiting_rows = self.waiting_rows.saturating_add(batch.num_rows());
        self.waiting_bytes = self
            .waiting_bytes
            .saturating_add(batch.get_array_memory_size());
        self.waiting.push(batch.clone());
        // Schemes work best on many values at once; rows are mixed within a whole row group.
        let many = if self.options.shuffle_rows {
            self.options.row_group_rows
        } else {
            SCHEME_ROWS
        };
        if self.waiting_rows >= many || self.waiting_bytes >= self.options.row_group_bytes {
            self.encode_waiting()?;
        }
        Ok(())
    }

    /// Ends the row group here.
    pub fn end_row_group(&mut self) -> Result<(), Error> {
        self.encode_waiting()?;
        self.writer.flush().map_err(failed(&self.path))
    }

    /// Bytes that the unwritten row group takes in memory.
    pub fn memory(&self) -> usize {
        self.writer.memory_size().saturating_add(self.waiting_bytes)
    }

    /// About as many bytes as the file would have if it ended now.
    pub fn size(&self) -> usize {
        self.writer
            .bytes_written()
            .saturating_add(self.writer.in_progress_size())
    }

    /// The values of the partition columns in all its rows.
    pub fn partition(&self) -> &[PartitionValue] {
        &self.partition
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        let flushed: i64 = self
            .writer
            .flushed_row_groups()
            .iter()
            .map(|group| group.num_rows())
            .sum();
        let flushed = usize::try_from(flushed).unwrap_or(usize::MAX);
        flushed
            .saturating_add(self.writer.in_progress_rows())
            .saturating_add(self.waiting_rows)
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.watch.see(batch)?;
        match &self.encoder {
            None => self.writer.write(batch),
            Some(encoder) => {
                self.writer
                    .write(&encoder.encode(batch, self.aad_prefix, self.rows)?)
            }
        }
        .map_err(failed(&self.path))?;
        self.rows = self
            .rows
            .saturating_add(u64::try_from(batch.num_rows()).unwrap_or(u64::MAX));
        if self.writer.memory_size() > self.options.row_group_bytes {
            self.writer.flush().map_err(failed(&self.path))?;
        }
        Ok(())
    }

    fn encode_waiting(&mut self) -> Result<(), Error> {
        let waiting = std::mem::take(&mut self.waiting);
        (self.waiting_rows, self.waiting_bytes) = (0, 0);
        if waiting.is_empty() {
            return Ok(());
        }
        let rows = concat_batches(&self.schema, &waiting)?;
        drop(waiting);
        if !self.options.shuffle_rows {
            return self.encode(&rows);
        }
        let mixed = take_record_batch(&rows, &permutation(rows.num_rows())?)?;
        self.encode(&mixed)
    }

    /// Completes the file and makes it durable.
    pub fn finish(self) -> Result<WrittenFile, Error> {
        let (written, guard) = self.finish_guarded()?;
        guard.keep();
        Ok(written)
    }

    /// The same for one who may give it up yet.
    pub fn finish_guarded(mut self) -> Result<(WrittenFile, FileGuard<D>), Error> {
        self.encode_waiting()?;
        self.writer.flush().map_err(failed(&self.path))?;
        self.writer.inner_mut().keep();
        let metadata = self.writer.finish().map_err(failed(&self.path))?;
        let own = self.writer.inner_mut();
        let whole = own.digest();
        let (size, footer) = own.footer()?;
        let footer_length = u64::try_from(footer.len()).unwrap_or(u64::MAX);
        let footer_sha256 = Digest::of(footer);
        let buffer = own.inner_mut();
        std::io::Write::flush(buffer).map_err(Error::io("write", &self.path))?;
        let file = buffer.get_mut();
        D::act(Op::Sync, &self.path, || file.complete()).map_err(Error::io("write", &self.path))?;
        let chunks = match (&self.encoder, whole) {
            (Some(encoder), Some(whole)) => {
                let mut file = file.read_back().map_err(Error::io("read", &self.path))?;
                digest_chunks(&mut file, &self.path, whole, &metadata, encoder.stored())?
            }
            _ => Vec::new(),
        };
        let pin = FilePin {
            path: self.name,
            size,
            rows: count(metadata.file_metadata().num_rows()),
            aad_prefix: self.aad_prefix.to_vec(),
            footer_length,
            footer_sha256,
            row_groups: row_groups(&metadata),
            column_bytes: column_bytes(
                &metadata,
                self.encoder
                    .as_ref()
                    .map_or(&self.schema, |encoder| encoder.schema())
                    .fields()
                    .len(),
            ),
            chunks,
            adopted: None,
            partition: self.partition,
            host_chosen: false,
        };
        let written = WrittenFile {
            pin,
            order: self.watch.finish(),
        };
        Ok((written, self.guard))
    }
}

/// Uniformly random, from the system's source: which row was where must not be guessable.
fn permutation(rows: usize) -> Result<UInt32Array, Error> {
    let rows = u32::try_from(rows).map_err(|_| Error::Limit("row group"))?;
    let mut order: Vec<u32> = (0..rows).collect();
    let mut random = vec![0_u8; order.len().saturating_mul(8)];
    coffer_sealing::fill_random(&mut random)?;
    for (last, draw) in (1..order.len()).rev().zip(random.chunks_exact(8)) {
        let draw = u64::from_le_bytes(draw.try_into().unwrap_or_default());
        // 64 bits against at most 32: the bias is below 2^-32.
        let bound = u64::try_from(last).unwrap_or(u64::MAX).saturating_add(1);
        let other = usize::try_from(draw.checked_rem(bound).unwrap_or(0)).unwrap_or(0);
        order.swap(last, other);
    }
    Ok(UInt32Array::from(order))
}
