//! Bytes of sealed files, under metadata that was opened before.

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use coffer_table::{Digest, lengths};
use datafusion_common::{Result, exec_err, internal_datafusion_err};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource_parquet::ParquetFileReaderFactory;
use datafusion_physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::{FutureExt, future::BoxFuture};
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use parquet::{
    arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
    errors::ParquetError,
    file::metadata::ParquetMetaData,
};

use super::{files::external, whole::BytesSeen};
use crate::io::{ReadLimit, ScanFiles};

/// What a reader needs of a file; travels with it as an extension.
#[derive(Debug, Clone)]
pub(super) struct SealedFile {
    pub(super) path: Path,
    pub(super) size: u64,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) kind: Kind,
}

/// What the bytes of a file are.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Encrypted modules.
    Sealed,
    /// An unverified input, nothing of which is encrypted.
    Plain,
    /// Of a table with stored columns: these column chunks, in order.
    Stored(Arc<[Chunk]>),
}

/// One column chunk of a file with stored columns.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) range: Range<u64>,
    /// Of one that lies unencrypted and may be read.
    pub(super) digest: Option<Digest>,
    pub(super) sealed: bool,
}

impl SealedFile {
    /// Looks at pages before the `parquet` crate allocates by what they say.
    fn check_pages(&self, range: &Range<u64>, bytes: &[u8]) -> parquet::errors::Result<()> {
        match &self.kind {
            Kind::Stored(chunks) => check_stored(chunks, range, bytes),
            Kind::Plain => lengths::check_pages(bytes),
            Kind::Sealed if coffer_sealing::UNSEALED => lengths::check_pages(bytes),
            Kind::Sealed => lengths::check_modules(bytes),
        }
        .map_err(refused)
    }

    /// The same for a range with page indexes.
    fn check_indexes(&self, range: &Range<u64>, bytes: &[u8]) -> parquet::errors::Result<()> {
        match &self.kind {
            // Nobody asks for them: what lies unencrypted there has no digest.
            Kind::Stored(_) => return Err(refused(coffer_table::Error::ChunkDigest)),
            Kind::Sealed if !coffer_sealing::UNSEALED => return lengths::check_modules(bytes).map_err(refused),
            Kind::Sealed | Kind::Plain => {}
        }
        for chunk in self.metadata.row_groups().iter().flat_map(|group| group.columns()) {
            let (offset, length) = (chunk.column_index_offset(), chunk.column_index_length());
            if let Some(index) = part(range, bytes, offset, length) {
                lengths::check_column_index(index).map_err(refused)?;
            }
            let (offset, length) = (chunk.offset_index_offset(), chunk.offset_index_length());
            if let Some(index) = part(range, bytes, offset, length) {
                lengths::check_offset_index(index).map_err(refused)?;
            }
        }
        Ok(())
    }
}

/// An unencrypted column chunk is read whole, and is the pinned one; whatever else is asked for is made of encrypted modules.
fn check_stored(chunks: &[Chunk], range: &Range<u64>, bytes: &[u8]) -> Result<(), coffer_table::Error> {
    let after = chunks.partition_point(|chunk| chunk.range.start <= range.start);
    let chunk = after.checked_sub(1).and_then(|at| chunks.get(at));
    let chunk = chunk.filter(|chunk| range.end <= chunk.range.end);
    match chunk {
        Some(Chunk { sealed: true, .. }) => lengths::check_modules(bytes),
        Some(Chunk {
            range: whole,
            digest: Some(digest),
            ..
        }) if whole == range => lengths::check_clear_chunk(bytes, digest),
        // The unsealed build encrypts no column.
        Some(Chunk { digest: None, .. }) if coffer_sealing::UNSEALED => lengths::check_pages(bytes),
        _ => Err(coffer_table::Error::ChunkDigest),
    }
}

/// What a range of a file has of a page index, if it has all of it.
fn part<'a>(range: &Range<u64>, bytes: &'a [u8], offset: Option<i64>, length: Option<i32>) -> Option<&'a [u8]> {
    let from = u64::try_from(offset?).ok()?.checked_sub(range.start)?;
    let from = usize::try_from(from).ok()?;
    let length = usize::try_from(length?).ok().filter(|length| *length > 0)?;
    bytes.get(from..from.checked_add(length)?)
}

fn refused(error: coffer_table::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Makes readers for files whose footers are open.
pub(super) struct SealedReaders {
    store: Arc<dyn ObjectStore>,
    bytes_read: Arc<AtomicU64>,
    whole: Option<Arc<BytesSeen>>,
    limit: Option<Arc<ReadLimit>>,
}

impl SealedReaders {
    pub(super) fn new(task: &ScanFiles) -> Self {
        Self {
            store: Arc::clone(&task.store),
            bytes_read: Arc::clone(&task.bytes_read),
            whole: task.whole.clone(),
            limit: task.limit.clone(),
        }
    }
}

impl fmt::Debug for SealedReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedReaders")
            .field("store", &self.store.to_string())
            .finish_non_exhaustive()
    }
}

impl ParquetFileReaderFactory for SealedReaders {
    fn create_reader(
        &self,
        _: usize,
        file: PartitionedFile,
        _: Option<usize>,
        _: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        // No way to read a file whose footer was not checked.
        let file = file
            .extension::<SealedFile>()
            .cloned()
            .ok_or_else(|| internal_datafusion_err!("a file came without its opened footer"))?;
        Ok(Box::new(SealedReader {
            file,
            store: Arc::clone(&self.store),
            bytes_read: Arc::clone(&self.bytes_read),
            whole: self.whole.clone(),
            limit: self.limit.clone(),
        }))
    }
}

struct SealedReader {
    file: SealedFile,
    store: Arc<dyn ObjectStore>,
    bytes_read: Arc<AtomicU64>,
    whole: Option<Arc<BytesSeen>>,
    limit: Option<Arc<ReadLimit>>,
}

impl SealedReader {
    /// Before any of them is asked for.
    fn admit(&self, ranges: &[Range<u64>]) -> parquet::errors::Result<()> {
        match &self.limit {
            Some(limit) if !limit.allows(ranges) => {
                Err(ParquetError::General("more would be read than is allowed".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn note(&self, range: &Range<u64>) {
        if let Some(seen) = &self.whole {
            seen.note(&self.file.path, range);
        }
    }

    fn check(&self, range: &Range<u64>) -> parquet::errors::Result<()> {
        if range.start <= range.end && range.end <= self.file.size {
            Ok(())
        } else {
            Err(ParquetError::General("a page lies outside of its file".to_owned()))
        }
    }
}

impl AsyncFileReader for SealedReader {
    /// Page indexes are read so, in one range.
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        async move {
            self.check(&range)?;
            self.admit(std::slice::from_ref(&range))?;
            self.note(&range);
            let bytes = read_range(self.store.as_ref(), &self.file.path, range.clone(), &self.bytes_read)
                .await
                .map_err(|error| ParquetError::External(Box::new(error)))?;
            self.file.check_indexes(&range, &bytes)?;
            Ok(bytes)
        }
        .boxed()
    }

    /// Pages are read so: a whole column chunk for each range, or a whole page.
    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        async move {
            ranges.iter().try_for_each(|range| self.check(range))?;
            self.admit(&ranges)?;
            for range in &ranges {
                self.note(range);
            }
            let read = self
                .store
                .get_ranges(&self.file.path, &ranges)
                .await
                .map_err(|error| ParquetError::External(Box::new(error)))?;
            for (bytes, range) in read.iter().zip(&ranges) {
                if length(bytes) != range.end - range.start {
                    return Err(ParquetError::EOF("storage gave fewer bytes than a page has".to_owned()));
                }
                self.bytes_read.fetch_add(length(bytes), Ordering::Relaxed);
                self.file.check_pages(range, bytes)?;
            }
            Ok(read)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let metadata = Arc::clone(&self.file.metadata);
        async move { Ok(metadata) }.boxed()
    }
}

/// Exactly these bytes of a file.
pub(super) async fn read_range(
    store: &dyn ObjectStore,
    path: &Path,
    range: Range<u64>,
    bytes_read: &AtomicU64,
) -> Result<Bytes> {
    let wanted = range.end.saturating_sub(range.start);
    let bytes = store.get_range(path, range).await.map_err(external)?;
    bytes_read.fetch_add(length(&bytes), Ordering::Relaxed);
    if length(&bytes) != wanted {
        return exec_err!("storage gave {} bytes for {wanted}", bytes.len());
    }
    Ok(bytes)
}

fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
