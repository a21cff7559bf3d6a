//! Scans of tables: their columns, read and opened as rows for a plan.
//!
//! Which files, which row groups and what their footers must be comes from the task's sealed
//! descriptor; storage is believed nothing. A footer is parsed only after length and digest matched
//! (`coffer_format::footer`); DataFusion's Parquet source then gets the opened metadata and reads
//! pages by it, pruning row groups and pages by what the plan wants, and decoding the other columns
//! late where few rows are left or they cost more than the condition's.
//!
//! What it is not: it writes nothing, has no master and knows no policy; and what is done with the
//! rows is `coffer-plan`'s affair, of which this is a [`ScanSource`].
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::as_conversions
    )
)]

mod ahead;
mod files;
mod footers;
mod limit;
mod reader;
mod recent;
mod storage;
mod whole;

use std::sync::{Arc, atomic::AtomicU64};

use ahead::Ahead;
use arrow::datatypes::{DataType, SchemaRef};
use coffer_plan::{Conjuncts, ScanSource, Wanted, coalesced};
use coffer_protocol::{storage::Storage, wire::FileSlice};
use coffer_sealing::KekSet;
use datafusion_common::{DataFusionError, Result, config::TableParquetOptions};
use datafusion_datasource::{
    file_groups::FileGroup, file_scan_config::FileScanConfigBuilder, source::DataSourceExec,
};
use datafusion_datasource_parquet::source::ParquetSource;
use datafusion_execution::{
    SendableRecordBatchStream, TaskContext, memory_pool::MemoryConsumer,
    object_store::ObjectStoreUrl,
};
use datafusion_physical_expr::utils::collect_columns;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{ExecutionPlan, stream::RecordBatchStreamAdapter};
use files::external;
use futures::{StreamExt, TryStreamExt, stream};
use thiserror::Error;

pub use footers::{FooterCache, RawFooters};
pub use limit::ReadLimit;
use reader::SealedReaders;
pub use storage::TableFiles;
pub use whole::{BytesSeen, read_rest};

/// One task's share of a scan.
#[derive(Clone)]
pub struct ScanFiles {
    /// Slices of pinned files, as the sealed descriptor lists them.
    pub slices: Vec<FileSlice>,
    /// Column and footer keys that were released to the session.
    pub keys: Arc<KekSet>,
    /// Opened footers of the same session, shared by its tasks.
    pub footers: Arc<FooterCache>,
    /// Where the slices' files are read from.
    pub store: Arc<dyn Storage>,
    /// Counts the bytes that were read of storage.
    pub bytes_read: Arc<AtomicU64>,
    /// Reading must not depend on data: nothing is pruned, and this knows what was read, for
    /// [`crate::read_rest`].
    pub whole: Option<Arc<BytesSeen>>,
    /// At most so much is read of the files' pages.
    pub limit: Option<Arc<ReadLimit>>,
}

impl ScanSource for ScanFiles {
    fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    fn read(&self, wanted: Wanted, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(wanted.schema());
        let opening = open(self.clone(), wanted, context);
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            stream::once(opening).try_flatten(),
        )))
    }
}

/// Opens all footers of a task, then starts reading.
async fn open(
    files: ScanFiles,
    wanted: Wanted,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = Arc::clone(wanted.schema());
    let opened = files::open(&files, &schema).await.map_err(of_file)?;
    let mut options = TableParquetOptions::default();
    // Where reading must not depend on data, the conditions are looked at only when the rows are
    // here.
    let prunes = files.whole.is_none();
    let flat = wanted.condition();
    let is_far = files
        .slices
        .iter()
        .any(|slice| files.store.is_far(&slice.path));
    let late = is_far || files.limit.is_some() || wanted.keeps_few();
    let decodes_all = |condition: &Arc<dyn PhysicalExpr>| !late && is_cheap(&schema, condition);
    let kept = flat.clone().filter(|flat| prunes && decodes_all(flat));
    options.global.pushdown_filters = prunes && kept.is_none();
    options.global.reorder_filters = false;
    options.global.bloom_filter_on_read = false;
    // Only files of other programs have INT96: instants, which Spark holds in microseconds.
    options.global.coerce_int96 = Some("us".to_owned());
    options.global.coerce_int96_tz = Some("UTC".to_owned());
    // The index of a column is sealed with the column's key, and the reader loads all columns' or
    // none. Where columns lie unencrypted their chunks are read whole.
    options.global.enable_page_index = prunes && flat.is_some() && opened.all_keys && !opened.clear;
    let flat = flat.filter(|_| prunes);
    let memory = MemoryConsumer::new("reading ahead").register(context.memory_pool());
    let ahead = Ahead::of(&files, &opened, &schema, flat.as_ref(), memory);
    let mut source = ParquetSource::new(Arc::clone(&schema)).with_table_parquet_options(options);
    if let Some(flat) = flat {
        source = source.with_predicate(flat);
    }
    let source =
        source.with_parquet_file_reader_factory(Arc::new(SealedReaders::new(&files, ahead)));
    // The URL is only a key of DataFusion's registry; bytes come through our readers.
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
        .with_file_group(FileGroup::new(opened.files))
        .with_preserve_order(true)
        .build();
    let read = DataSourceExec::from_data_source(config).execute(0, context)?;
    let read = read.map(|batch| batch.map_err(of_file));
    let read = match kept {
        None => read.boxed(),
        Some(condition) => {
            let parts = Conjuncts::of(&condition);
            let kept = read.map(move |batch| parts.keep(batch?));
            coalesced(Arc::clone(&schema), kept)
        }
    };
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, read)))
}

/// Whether all columns of all rows are sooner decoded than those of a condition first, one by one,
/// and then the others of what it leaves: where the others are few beside them.
fn is_cheap(schema: &SchemaRef, condition: &Arc<dyn PhysicalExpr>) -> bool {
    let looked_at = collect_columns(condition);
    let is_looked_at = |at: usize| looked_at.iter().any(|column| column.index() == at);
    let (mut of_condition, mut others) = (0u32, 0u32);
    for (at, field) in schema.fields().iter().enumerate() {
        let cost = match field.data_type() {
            kind if kind.is_nested() => 8,
            kind if kind.is_primitive() || *kind == DataType::Boolean => 1,
            _ => 2,
        };
        match is_looked_at(at) {
            true => of_condition += cost,
            false => others += cost,
        }
    }
    others <= 2 * of_condition + 2
}

/// A file whose pages do not open, or do not hold what they must, is to be told from an operator
/// that failed. What is pushed into the reader cannot fail, so nothing else comes in these kinds.
fn of_file(error: DataFusionError) -> DataFusionError {
    if is_changed(&error) {
        return external(coffer_format::Error::PlainChanged);
    }
    match error.find_root() {
        DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => {
            external(Unread(error.strip_backtrace()))
        }
        _ => error,
    }
}

/// Whether an unverified input was found to be another than when the query first read it: of that
/// one can be told more than of damage.
fn is_changed(error: &DataFusionError) -> bool {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = at {
        if let Some(coffer_format::Error::PlainChanged) = error.downcast_ref() {
            return true;
        }
        at = error.source();
    }
    false
}

/// Why a file could not be read to its end.
#[derive(Debug, Error)]
#[error("a file of a table cannot be read: {0}")]
struct Unread(String);
