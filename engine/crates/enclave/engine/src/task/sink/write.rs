//! The sink of a write: the rows become files of a sealed table, here, and leave in no other form.
//!
//! What a task made counts only once the client engine has its commit record and publishes it.
//! Until the record is sealed the files are held by guards: a task that fails, is cancelled or
//! panics takes them away again.

use std::sync::Arc;

use arrow::{
    array::{Array, RecordBatch, RecordBatchOptions},
    compute::partition,
    datatypes::{DataType, SchemaRef},
};
use coffer_expr::types;
use coffer_format::{Column, FileGuard, FileWriter, SparkType, TableWriter, WriteId, WriteOptions};
use coffer_plan::{boundary_schema, codec::Packing};
use coffer_protocol::{
    storage::Storage,
    wire::{WriteColumn, WriteTask, WrittenFile},
};
use coffer_sealing::TableId;
use datafusion_execution::memory_pool::MemoryReservation;

use crate::{
    session::Session,
    task::{
        Check, TaskError, descriptor::Assignment, link::Link, sink::SinkError, storage::Outbox,
    },
};

/// A row group is never held to less than this, however small the pool is.
const ROW_GROUP_LEAST: usize = 1 << 20;
/// Of the memory pool, what one task's row group may take.
const POOL_SHARE: usize = 8;

pub(crate) struct WriteSink {
    writer: TableWriter,
    /// For a folder that the executor reaches.
    outbox: Arc<Outbox>,
    link: Arc<Link>,
    partition_columns: Vec<usize>,
    file_bytes: usize,
    reservation: MemoryReservation,
    open: Option<FileWriter>,
    files: Vec<WrittenFile>,
    guards: Vec<FileGuard>,
}

/// Files that are complete and durable, and go again unless they are kept.
pub(crate) struct Written {
    pub(crate) files: Vec<WrittenFile>,
    guards: Vec<FileGuard>,
}

impl Written {
    /// The task's commit record names them now.
    pub(crate) fn keep(self) {
        self.guards.into_iter().for_each(FileGuard::keep);
    }
}

impl WriteSink {
    pub(crate) fn new(
        task: &Assignment,
        session: &Session,
        memory: usize,
        reservation: MemoryReservation,
        link: &Arc<Link>,
    ) -> Result<Self, TaskError> {
        let write = task.write.as_ref().ok_or(Check::Write("it is missing"))?;
        let columns = columns(task, write)?;
        let at = |at: &u32| usize::try_from(*at).map_err(|_| Check::Write("partition columns"));
        let partition_columns = write
            .partition_columns
            .iter()
            .map(at)
            .collect::<Result<Vec<_>, _>>()?;
        let bytes = usize::try_from(write.row_group_bytes).unwrap_or(usize::MAX);
        let options = WriteOptions {
            row_group_rows: usize::try_from(write.row_group_rows).map_or(1, |rows| rows.max(1)),
            row_group_bytes: bytes.min(memory / POOL_SHARE).max(ROW_GROUP_LEAST),
            shuffle_rows: false,
            packed: task.packing == Packing::Tight,
        };
        let table = TableId::from_slice(&write.table).map_err(|_| Check::Write("table id"))?;
        let id = WriteId::from_slice(&write.write).ok_or(Check::Write("write id"))?;
        let folder = std::path::PathBuf::from(&write.folder);
        let writer = TableWriter::new(
            folder,
            table,
            columns,
            partition_columns.clone(),
            session.keks(),
            id,
            options,
        )
        .map_err(SinkError::from)?;
        let outbox = Arc::new(Outbox::default());
        Ok(Self {
            writer: writer.reaching(Some(Arc::clone(&outbox) as Arc<dyn Storage>)),
            outbox,
            link: Arc::clone(link),
            partition_columns,
            file_bytes: usize::try_from(write.file_bytes).unwrap_or(usize::MAX),
            reservation,
            open: None,
            files: Vec::new(),
            guards: Vec::new(),
        })
    }

    /// Takes rows, which come sorted by the partition columns: so one file is open at a time.
    pub(crate) async fn push(&mut self, batch: &RecordBatch) -> Result<(), SinkError> {
        self.take(batch)?;
        self.send().await
    }

    async fn send(&mut self) -> Result<(), SinkError> {
        let sent = self.outbox.send(&self.link).await;
        // What waited is memory until it is sent.
        let open = self.open.as_ref().map_or(0, FileWriter::memory);
        self.reservation
            .shrink(self.reservation.size().saturating_sub(open));
        sent.map_err(|source| {
            SinkError::Table(coffer_format::Error::Io {
                doing: "write",
                path: self.writer.folder().to_owned(),
                source,
            })
        })
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<(), SinkError> {
        let batch = in_schema(self.writer.schema(), batch)?;
        if self.partition_columns.is_empty() {
            return self.write(&batch, 0);
        }
        let keys: Vec<_> = self
            .partition_columns
            .iter()
            .filter_map(|at| batch.columns().get(*at))
            .cloned()
            .collect();
        for range in partition(&keys)?.ranges() {
            let rows = batch.slice(range.start, range.end.saturating_sub(range.start));
            self.write(&rows, 0)?;
        }
        Ok(())
    }

    /// Writes rows of one partition, that of their row `first`.
    fn write(&mut self, rows: &RecordBatch, first: usize) -> Result<(), SinkError> {
        let values = self.writer.partition_of(rows, first)?;
        if self
            .open
            .as_ref()
            .is_some_and(|file| file.partition() != values || file.size() >= self.file_bytes)
        {
            self.close()?;
        }
        let file = match &mut self.open {
            Some(file) => file,
            None => self.open.insert(self.writer.file_of(values)?),
        };
        file.write(rows)?;
        let held = file.memory().saturating_add(self.outbox.waiting());
        if self.reservation.try_resize(held).is_err() {
            // A short row group costs less than a failed task.
            file.end_row_group()?;
            self.reservation.try_resize(file.memory())?;
            self.reservation.grow(self.outbox.waiting());
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        if let Some(file) = self.open.take() {
            let (written, guard) = file.finish_guarded()?;
            self.guards.push(guard);
            self.files.push(written.into());
            self.reservation.resize(self.outbox.waiting());
        }
        Ok(())
    }

    pub(crate) async fn finish(mut self) -> Result<Written, SinkError> {
        self.close()?;
        self.send().await?;
        Ok(Written {
            files: self.files,
            guards: self.guards,
        })
    }
}

/// The table's columns. They must be the fragment's output, position by position.
fn columns(task: &Assignment, write: &WriteTask) -> Result<Vec<Column>, TaskError> {
    let output = task
        .fragment
        .output
        .as_ref()
        .ok_or(Check::Malformed("fragment"))?;
    let schema = boundary_schema(output)?;
    if output.fields.len() != write.columns.len() {
        return Err(Check::Write("columns").into());
    }
    let mut columns = Vec::with_capacity(write.columns.len());
    for ((column, field), declared) in write
        .columns
        .iter()
        .zip(schema.fields())
        .zip(&output.fields)
    {
        // What is said of NULL inside of a nested type is not the table's.
        let values = |of: &Option<_>| types::to_arrow(of.as_ref()?).ok();
        let of_table = values(&column.r#type);
        if of_table.is_none() || of_table != values(&declared.r#type) {
            return Err(Check::Write("columns").into());
        }
        columns.push(Column {
            id: column.id,
            name: column.name.clone(),
            kind: kind(column, field.data_type()).ok_or(Check::Write("columns"))?,
            nullable: column.nullable,
            protection: column
                .protection
                .parse()
                .map_err(|_| Check::Write("columns"))?,
        });
    }
    Ok(columns)
}

/// A column's type: what its values are, or the CHAR or VARCHAR that it was declared as.
fn kind(column: &WriteColumn, values: &DataType) -> Option<SparkType> {
    let values = SparkType::from_arrow(&column.name, values).ok()?;
    if column.declared.is_empty() {
        return Some(values);
    }
    let declared = column.declared.parse::<SparkType>().ok()?;
    (declared.of_values() == values).then_some(declared)
}

/// The rows under the table's schema. NULL in a column that may have none is Spark's error.
fn in_schema(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch, SinkError> {
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if !field.is_nullable() && column.logical_null_count() > 0 {
            return Err(SinkError::NotNull(field.name().clone()));
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        schema.clone(),
        batch.columns().to_vec(),
        &options,
    )?)
}
