//! Bytes of sealed files, under metadata that was opened before.

use std::{
    fmt, io,
    ops::Range,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use coffer_format::{Digest, lengths};
use coffer_protocol::storage::Storage;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource_parquet::ParquetFileReaderFactory;
use datafusion_physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::{
    FutureExt,
    future::{BoxFuture, join},
};
use parquet::{
    arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
    errors::ParquetError,
    file::metadata::ParquetMetaData,
};

use crate::{BytesSeen, ReadLimit, ScanFiles, ahead::Ahead, files::external};

/// What a reader needs of a file; travels with it as an extension.
#[derive(Debug, Clone)]
pub(crate) struct SealedFile {
    pub(crate) path: Arc<str>,
    pub(crate) size: u64,
    pub(crate) metadata: Arc<ParquetMetaData>,
    pub(crate) kind: Kind,
}

/// What the bytes of a file are.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Encrypted modules.
    Sealed,
    /// An unverified input, nothing of which is encrypted: these column chunks, in order, as the
    /// query first read them.
    Plain(Arc<[Chunk]>),
    /// Of a table with stored columns: these column chunks, in order.
    Stored(Arc<[Chunk]>),
}

/// One column chunk of a file with stored columns.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) range: Range<u64>,
    /// Of one that lies unencrypted and may be read.
    pub(crate) digest: Option<Digest>,
    pub(crate) sealed: bool,
}

impl SealedFile {
    /// Looks at pages before the `parquet` crate allocates by what they say.
    fn check_pages(&self, range: &Range<u64>, bytes: &[u8]) -> parquet::errors::Result<()> {
        match &self.kind {
            Kind::Stored(chunks) => check_stored(chunks, range, bytes),
            Kind::Plain(chunks) => check_plain(chunks, range, bytes),
            Kind::Sealed if coffer_sealing::OPEN_TABLES => lengths::check_pages(bytes),
            Kind::Sealed => lengths::check_modules(bytes),
        }
        .map_err(refused)
    }

    /// The same for a range with page indexes.
    fn check_indexes(&self, range: &Range<u64>, bytes: &[u8]) -> parquet::errors::Result<()> {
        match &self.kind {
            // Nobody asks for them: what lies unencrypted there has no digest.
            Kind::Stored(_) => return Err(refused(coffer_format::Error::ChunkDigest)),
            Kind::Plain(_) => return Err(refused(coffer_format::Error::PlainChanged)),
            Kind::Sealed if !coffer_sealing::OPEN_TABLES => {
                return lengths::check_modules(bytes).map_err(refused);
            }
            Kind::Sealed => {}
        }
        for chunk in self
            .metadata
            .row_groups()
            .iter()
            .flat_map(|group| group.columns())
        {
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

/// The chunk that has all of a range.
fn chunk_of<'a>(chunks: &'a [Chunk], range: &Range<u64>) -> Option<&'a Chunk> {
    let after = chunks.partition_point(|chunk| chunk.range.start <= range.start);
    let chunk = after.checked_sub(1).and_then(|at| chunks.get(at));
    chunk.filter(|chunk| range.end <= chunk.range.end)
}

/// A column chunk of an unverified input is read whole, and is the pinned one. Several may lie at
/// the same place, if its writer likes.
fn check_plain(
    chunks: &[Chunk],
    range: &Range<u64>,
    bytes: &[u8],
) -> Result<(), coffer_format::Error> {
    let first = chunks.partition_point(|chunk| chunk.range.start < range.start);
    let here = chunks
        .iter()
        .skip(first)
        .take_while(|chunk| chunk.range.start == range.start);
    let mut pinned = here
        .filter(|chunk| chunk.range == *range)
        .filter_map(|chunk| chunk.digest);
    match pinned.next() {
        Some(digest) => lengths::check_plain_chunk(bytes, &digest),
        None => Err(coffer_format::Error::PlainChanged),
    }
}

/// An unencrypted column chunk is read whole, and is the pinned one; whatever else is asked for is
/// made of encrypted modules.
fn check_stored(
    chunks: &[Chunk],
    range: &Range<u64>,
    bytes: &[u8],
) -> Result<(), coffer_format::Error> {
    match chunk_of(chunks, range) {
        Some(Chunk { sealed: true, .. }) => lengths::check_modules(bytes),
        Some(Chunk {
            range: whole,
            digest: Some(digest),
            ..
        }) if whole == range => lengths::check_clear_chunk(bytes, digest),
        // The unsealed build encrypts no column.
        Some(Chunk { digest: None, .. }) if coffer_sealing::OPEN_TABLES => {
            lengths::check_pages(bytes)
        }
        _ => Err(coffer_format::Error::ChunkDigest),
    }
}

/// What a range of a file has of a page index, if it has all of it.
fn part<'a>(
    range: &Range<u64>,
    bytes: &'a [u8],
    offset: Option<i64>,
    length: Option<i32>,
) -> Option<&'a [u8]> {
    let from = u64::try_from(offset?).ok()?.checked_sub(range.start)?;
    let from = usize::try_from(from).ok()?;
    let length = usize::try_from(length?).ok().filter(|length| *length > 0)?;
    bytes.get(from..from.checked_add(length)?)
}

fn refused(error: coffer_format::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Makes readers for files whose footers are open.
pub(crate) struct SealedReaders {
    store: Arc<dyn Storage>,
    bytes_read: Arc<AtomicU64>,
    whole: Option<Arc<BytesSeen>>,
    limit: Option<Arc<ReadLimit>>,
    ahead: Option<Arc<Ahead>>,
}

impl SealedReaders {
    pub(crate) fn new(task: &ScanFiles, ahead: Option<Arc<Ahead>>) -> Self {
        Self {
            store: Arc::clone(&task.store),
            bytes_read: Arc::clone(&task.bytes_read),
            whole: task.whole.clone(),
            limit: task.limit.clone(),
            ahead,
        }
    }
}

impl fmt::Debug for SealedReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedReaders")
            .field("store", &self.store)
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
            ahead: self.ahead.clone(),
        }))
    }
}

struct SealedReader {
    file: SealedFile,
    store: Arc<dyn Storage>,
    bytes_read: Arc<AtomicU64>,
    whole: Option<Arc<BytesSeen>>,
    limit: Option<Arc<ReadLimit>>,
    ahead: Option<Arc<Ahead>>,
}

impl SealedReader {
    /// Ranges that were looked at, some of which may have been asked for before.
    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, coffer_format::Error> {
        let (store, file) = (self.store.as_ref(), &self.file);
        let Some(ahead) = &self.ahead else {
            return read_ranges(store, &file.path, file.size, ranges).await;
        };
        let known = ahead.asked(file, ranges);
        let new: Vec<_> = ranges
            .iter()
            .filter(|range| !known.contains(range))
            .cloned()
            .collect();
        // These go out first, and then what follows them.
        let reading = read_ranges(store, &file.path, file.size, &new);
        let taking = async {
            ahead.follow(file, ranges);
            ahead.take(file, ranges).await
        };
        let (read, taken) = join(reading, taking).await;
        let (mut read, mut whole) = (read?.into_iter(), Vec::with_capacity(ranges.len()));
        for (range, taken) in ranges.iter().zip(taken) {
            let bytes = match taken {
                Some(bytes) => Some(bytes),
                None if !known.contains(&range) => read.next(),
                // It was asked for in vain.
                None => {
                    let asked = std::slice::from_ref(range);
                    let read = read_ranges(store, &file.path, file.size, asked).await;
                    read?.pop()
                }
            };
            whole.push(bytes.unwrap_or_default());
        }
        Ok(whole)
    }

    /// Before any of them is asked for.
    fn admit(&self, ranges: &[Range<u64>]) -> parquet::errors::Result<()> {
        match &self.limit {
            Some(limit) if !limit.allows(ranges) => Err(ParquetError::General(
                "more would be read than is allowed".to_owned(),
            )),
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
            Err(ParquetError::General(
                "a page lies outside of its file".to_owned(),
            ))
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
            let bytes = read_range(
                self.store.as_ref(),
                (&self.file.path, self.file.size),
                range.clone(),
                &self.bytes_read,
            )
            .await
            .map_err(|error| ParquetError::External(Box::new(error)))?;
            self.file.check_indexes(&range, &bytes)?;
            Ok(bytes)
        }
        .boxed()
    }

    /// Pages are read so: a whole column chunk for each range, or a whole page.
    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        async move {
            ranges.iter().try_for_each(|range| self.check(range))?;
            self.admit(&ranges)?;
            for range in &ranges {
                self.note(range);
            }
            let read = self.read(&ranges).await.map_err(refused)?;
            for (bytes, range) in read.iter().zip(&ranges) {
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
pub(crate) async fn read_range(
    store: &dyn Storage,
    (path, size): (&str, u64),
    range: Range<u64>,
    bytes_read: &AtomicU64,
) -> Result<Bytes> {
    let read = read_ranges(store, path, size, std::slice::from_ref(&range)).await;
    let bytes = read.map_err(external)?.pop().unwrap_or_default();
    bytes_read.fetch_add(length(&bytes), Ordering::Relaxed);
    Ok(bytes)
}

async fn read_ranges(
    store: &dyn Storage,
    path: &str,
    size: u64,
    ranges: &[Range<u64>],
) -> std::result::Result<Vec<Bytes>, coffer_format::Error> {
    if ranges.is_empty() {
        return Ok(Vec::new());
    }
    match store.ranges_of(path, size, ranges).await {
        Ok(read) => Ok(read),
        Err(error) => {
            let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
            Err(unread(store, path, end, error).await)
        }
    }
}

/// Why bytes of a file did not come: it is not there, it is shorter, or storage failed, which is no
/// check of ours.
async fn unread(
    store: &dyn Storage,
    path: &str,
    end: u64,
    error: io::Error,
) -> coffer_format::Error {
    let missing = || coffer_format::Error::FileMissing(path.to_owned());
    if error.kind() == io::ErrorKind::NotFound {
        return missing();
    }
    match store.size(path).await {
        Ok(Some(size)) if size < end => coffer_format::Error::FileShort {
            file: path.to_owned(),
            end,
            got: size,
        },
        Ok(None) => missing(),
        _ => coffer_format::Error::Io {
            doing: "read",
            path: PathBuf::from(path),
            source: error,
        },
    }
}

pub(crate) fn span(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
