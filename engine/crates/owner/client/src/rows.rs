//! Rows that the driver has in the clear, and streams here to have them sealed: what engines cannot
//! compute, and what was not sealed yet.
//!
//! This process makes the files, of bounded row groups and in bounded memory, as `coffer encrypt`
//! does; it names them in the manifest itself, so no name that a host made enters one. Files of a
//! stream that does not come to its end are removed: by a failure, or because the driver closed the
//! connection.

use std::{io::Cursor, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions},
    compute::{SortColumn, lexsort_to_indices, partition, take_record_batch},
    datatypes::Field,
    ipc::reader::StreamReader,
};
use coffer_catalog::{FileWriter, Judged, TableWriter, convert::to_type};
use coffer_format::{FileGuard, PartitionValue, SparkType, WriteOptions};
use coffer_protocol::wire::{CheckSources, RowsTaken, SourcesChecked, WriteRows, WrittenFile};

use crate::{
    ClientError, Service,
    made::{FILE_BYTES, ROW_GROUP_ROWS},
};

/// Bytes that the row groups of one stream may take before they are written, over all its open
/// files.
const STREAM_BYTES: usize = 64 << 20;
/// Partitions of one stream whose files are open at the same time.
const OPEN_FILES: usize = 64;

/// One stream of rows, over one connection.
pub(crate) struct RowsStream {
    write: u32,
    writer: TableWriter,
    partition_columns: Vec<usize>,
    host_chosen: bool,
    /// By when they were last written to.
    open: Vec<FileWriter>,
    done: Vec<(WrittenFile, FileGuard<Judged>)>,
    rows: u64,
}

impl RowsStream {
    fn begin(service: &Service, request: &WriteRows) -> Result<Self, ClientError> {
        // Held meanwhile: nobody may find the write in use here who wants to end it.
        let writes = service.writes.lock();
        let write = writes.begun(request.write)?;
        service.may_write(
            write.name(),
            write.columns().iter().map(|column| column.name.as_str()),
        )?;
        let options = WriteOptions {
            row_group_rows: usize::try_from(ROW_GROUP_ROWS).unwrap_or(usize::MAX),
            row_group_bytes: STREAM_BYTES,
            shuffle_rows: false,
            packed: !request.host_chosen,
        };
        Ok(Self {
            write: request.write,
            writer: write.writer(options)?,
            partition_columns: write.partition_columns(),
            host_chosen: request.host_chosen,
            open: Vec::new(),
            done: Vec::new(),
            rows: 0,
        })
    }

    fn take(&mut self, arrow: &[u8]) -> Result<(), ClientError> {
        let reader = StreamReader::try_new(Cursor::new(arrow), None).map_err(ClientError::Rows)?;
        for batch in reader {
            let batch = self.in_schema(&batch.map_err(ClientError::Rows)?)?;
            self.rows = self
                .rows
                .saturating_add(u64::try_from(batch.num_rows()).unwrap_or(u64::MAX));
            if self.partition_columns.is_empty() {
                self.write(Vec::new(), &batch)?;
            } else {
                self.write_partitioned(&batch)?;
            }
        }
        Ok(())
    }

    /// The rows under the table's schema. NULL in a column that may have none is Spark's error.
    fn in_schema(&self, batch: &RecordBatch) -> Result<RecordBatch, ClientError> {
        let schema = self.writer.schema();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            if !field.is_nullable() && column.logical_null_count() > 0 {
                return Err(ClientError::Spark {
                    class: "NOT_NULL_ASSERT_VIOLATION".to_owned(),
                    message: format!(
                        "NULL value appeared in non-nullable field: {}",
                        field.name()
                    ),
                });
            }
        }
        let pairs = batch.columns().iter().zip(schema.fields());
        let columns = pairs
            .map(|(column, field)| ours(column, field))
            .collect::<Result<_, ClientError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(schema.clone(), columns, &options)
            .map_err(ClientError::Rows)
    }

    /// Rows come in any order: they are brought together by their partition's values.
    fn write_partitioned(&mut self, batch: &RecordBatch) -> Result<(), ClientError> {
        let keys = |batch: &RecordBatch| -> Vec<_> {
            let columns = self.partition_columns.iter();
            columns
                .filter_map(|at| batch.columns().get(*at).cloned())
                .collect()
        };
        let by: Vec<_> = keys(batch)
            .into_iter()
            .map(|values| SortColumn {
                values,
                options: None,
            })
            .collect();
        let order = lexsort_to_indices(&by, None).map_err(ClientError::Rows)?;
        let sorted = take_record_batch(batch, &order).map_err(ClientError::Rows)?;
        let ranges = partition(&keys(&sorted))
            .map_err(ClientError::Rows)?
            .ranges();
        for range in ranges {
            let rows = sorted.slice(range.start, range.end.saturating_sub(range.start));
            let values = self.writer.partition_of(&rows, 0)?;
            self.write(values, &rows)?;
        }
        Ok(())
    }

    /// Writes rows of one partition.
    fn write(
        &mut self,
        values: Vec<PartitionValue>,
        rows: &RecordBatch,
    ) -> Result<(), ClientError> {
        let at = self.open.iter().position(|file| file.partition() == values);
        let mut file = match at {
            Some(at) => self.open.remove(at),
            None => {
                if self.open.len() >= OPEN_FILES {
                    let oldest = self.open.remove(0);
                    self.close(oldest)?;
                }
                self.writer.file_of(values)?
            }
        };
        file.write(rows)?;
        let full = u64::try_from(file.size()).unwrap_or(u64::MAX) >= FILE_BYTES;
        match full {
            true => self.close(file)?,
            false => self.open.push(file),
        }
        let held = |open: &[FileWriter]| -> usize { open.iter().map(FileWriter::memory).sum() };
        while held(&self.open) > STREAM_BYTES {
            let Some(largest) = self.open.iter_mut().max_by_key(|file| file.memory()) else {
                break;
            };
            largest.end_row_group()?;
        }
        Ok(())
    }

    fn close(&mut self, file: FileWriter) -> Result<(), ClientError> {
        let (written, guard) = file.finish_guarded()?;
        self.done.push((written.into(), guard));
        Ok(())
    }

    /// Completes its files, which are the write's from now on.
    fn end(mut self, service: &Service) -> Result<(), ClientError> {
        for file in std::mem::take(&mut self.open) {
            self.close(file)?;
        }
        let (files, guards): (Vec<_>, Vec<_>) = self.done.into_iter().unzip();
        // Where the write is over meanwhile, the guards take the files away.
        service
            .writes
            .lock()
            .made(self.write)?
            .add(files.into_iter(), self.host_chosen);
        guards.into_iter().for_each(FileGuard::keep);
        Ok(())
    }
}

/// A column in the table's Arrow type where Spark has another one for the same values: intervals
/// and times.
fn ours(column: &ArrayRef, field: &Field) -> Result<ArrayRef, ClientError> {
    let spark = SparkType::from_arrow(field.name(), column.data_type());
    match spark {
        Ok(kind) if kind.to_arrow() == *field.data_type() => {
            Ok(to_type(column, field.data_type(), field.name())?)
        }
        _ => Ok(Arc::clone(column)),
    }
}

impl Service {
    /// The next rows of a connection's stream. A failure ends it, and removes its files.
    pub(crate) fn write_rows(
        &self,
        request: &WriteRows,
        stream: &mut Option<RowsStream>,
    ) -> Result<RowsTaken, ClientError> {
        let mut rows = match stream.take() {
            Some(begun) if begun.write == request.write => begun,
            Some(_) => return Err(ClientError::Malformed("WRITE_ROWS")),
            None => RowsStream::begin(self, request)?,
        };
        if !request.arrow.is_empty() {
            rows.take(&request.arrow)?;
        }
        let taken = RowsTaken { rows: rows.rows };
        match request.last {
            true => rows.end(self)?,
            false => *stream = Some(rows),
        }
        Ok(taken)
    }

    /// Plain rows may come into the driver's hands only where no executor of another site could
    /// have a part in reading them.
    pub(crate) fn check_sources(
        &self,
        request: &CheckSources,
    ) -> Result<SourcesChecked, ClientError> {
        let trusted = self.policy_now()?.trusts_executors();
        let (local, sealed) = {
            let application = self.application.lock();
            (application.local, application.network_sealed)
        };
        let names = request.names.join(", ");
        match (local, trusted, sealed) {
            (true, _, _) | (false, true, true) => Ok(SourcesChecked {}),
            (false, true, false) => Err(ClientError::ExecutorsInClear(names)),
            (false, false, _) => Err(ClientError::PlainSources(names)),
        }
    }
}
