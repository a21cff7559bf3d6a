//! Spill: the only bytes of a query that an engine puts on a disk, all of them sealed.
//!
//! [`SealedSpill`] is DataFusion's temp-file factory: what sorts and aggregates spill is cut into
//! chunks and sealed under a key drawn for the file, which lives in this process and is wiped with
//! it. [`Scratch`] holds bytes that are sealed already (frames on their way out or in), so it adds
//! nothing of its own: who opens the frames checks them.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use coffer_sealing::{SpillKey, SpillReader, StreamReader, spill::CHUNK_LEN};
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use parking_lot::Mutex;
use tempfile::{NamedTempFile, TempDir};

/// The folder of one engine's spill files; removed with everything in it when the engine ends.
pub struct SpillFolder {
    folder: TempDir,
    written: AtomicU64,
}

impl SpillFolder {
    /// Makes a folder of the engine's own under `parent`, which is created if it is not there.
    pub fn create(parent: &Path) -> io::Result<Arc<Self>> {
        std::fs::create_dir_all(parent)?;
        let folder = tempfile::Builder::new()
            .prefix("coffer-spill-")
            .tempdir_in(parent)?;
        Ok(Arc::new(Self {
            folder,
            written: AtomicU64::new(0),
        }))
    }

    /// Bytes written to spill files so far, by all tasks.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Removes the folder and what is in it, whoever still holds it: the process ends now, and may
    /// do so before the tasks of closed connections have let go.
    pub fn remove(&self) {
        if let Err(error) = std::fs::remove_dir_all(self.folder.path()) {
            tracing::warn!(%error, "the spill folder was not removed");
        }
    }

    fn file(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new()
            .prefix("s")
            .tempfile_in(self.folder.path())
    }
}

/// DataFusion's spill files, sealed.
pub struct SealedSpill {
    folder: Arc<SpillFolder>,
}

impl SealedSpill {
    /// Files go to this folder.
    pub fn new(folder: Arc<SpillFolder>) -> Self {
        Self { folder }
    }
}

impl TempFileFactory for SealedSpill {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        Ok(Arc::new(SealedFile {
            folder: Arc::clone(&self.folder),
            file: Arc::new(self.folder.file()?),
            key: Mutex::new(SpillKey::generate().map_err(outward)?),
            size: Arc::new(AtomicU64::new(0)),
        }))
    }
}

struct SealedFile {
    folder: Arc<SpillFolder>,
    file: Arc<NamedTempFile>,
    key: Mutex<SpillKey>,
    size: Arc<AtomicU64>,
}

/// Why bytes that were put on a disk did not come back. What comes back altered, its opener
/// refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpillFault {
    /// The file is gone.
    #[error("a spill file is not there any more")]
    Missing,
    /// The file ends before what was written to it.
    #[error("a spill file is shorter than what was written to it")]
    Short,
}

impl SpillFault {
    /// The stable name, as in `docs/reference/errors.md`.
    pub fn code(self) -> &'static str {
        match self {
            Self::Missing => "COFFER_SPILL_MISSING",
            Self::Short => "COFFER_SPILL_LENGTH",
        }
    }
}

/// An error of the disk, or the fault that it tells of.
fn fault(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(error.kind(), SpillFault::Missing),
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), SpillFault::Short),
        _ => error,
    }
}

impl SpillFile for SealedFile {
    // No `path`: nobody is to read the file but through `read_stream`.

    fn size(&self) -> Option<u64> {
        Some(self.size.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let reader = ChunkReader {
            input: BufReader::with_capacity(CHUNK_LEN, self.file.reopen().map_err(fault)?),
            chunks: Some(self.key.lock().reader().map_err(outward)?),
            _file: Arc::clone(&self.file),
        };
        // Reading blocks: the task's thread is its own.
        Ok(Box::pin(stream::try_unfold(reader, |mut reader| async {
            Ok(reader.next()?.map(|chunk| (chunk, reader)))
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(ChunkWriter {
            folder: Arc::clone(&self.folder),
            output: self.file.reopen().map_err(fault)?,
            chunks: self.key.lock().writer().map_err(outward)?,
            plain: Vec::with_capacity(CHUNK_LEN),
            sealed: Vec::new(),
            size: Arc::clone(&self.size),
        }))
    }
}

struct ChunkWriter {
    folder: Arc<SpillFolder>,
    output: File,
    chunks: coffer_sealing::SpillWriter,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    size: Arc<AtomicU64>,
}

impl ChunkWriter {
    fn put(&mut self, last: bool) -> io::Result<()> {
        self.sealed.clear();
        self.chunks
            .seal(&self.plain, last, &mut self.sealed)
            .map_err(io::Error::other)?;
        self.plain.clear();
        self.output.write_all(&self.sealed)?;
        let length = self.sealed.len() as u64;
        self.size.fetch_add(length, Ordering::Relaxed);
        self.folder.written.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CHUNK_LEN.saturating_sub(self.plain.len());
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        self.plain.extend_from_slice(taken);
        if self.plain.len() >= CHUNK_LEN {
            self.put(false)?;
        }
        Ok(taken.len())
    }

    /// Does nothing: a file is readable once finished, not before.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for ChunkWriter {
    fn finish(&mut self) -> Result<()> {
        self.put(true)?;
        Ok(())
    }
}

struct ChunkReader {
    input: BufReader<File>,
    chunks: Option<SpillReader>,
    /// The file stays until its last reader is gone.
    _file: Arc<NamedTempFile>,
}

impl ChunkReader {
    fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let Some(chunks) = &mut self.chunks else {
                return Ok(None);
            };
            let mut reader = StreamReader::new();
            let frame = loop {
                if let Some(frame) = reader.frame().map_err(outward)? {
                    break frame;
                }
                let missing = reader.missing().map_err(outward)?;
                self.input.read_exact(reader.room(missing)).map_err(fault)?;
            };
            let opened = chunks.open(frame.into_bytes()).map_err(outward)?;
            if opened.is_last() {
                self.chunks = None;
                if self.input.read(&mut [0])? != 0 {
                    return Err(outward(coffer_sealing::Error::FrameAfterLast));
                }
            }
            let (frame, plain) = opened.into_parts();
            if !plain.is_empty() {
                return Ok(Some(frame.freeze().slice(plain)));
            }
        }
    }
}

fn outward(error: coffer_sealing::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A file for bytes that are sealed already.
pub struct Scratch {
    folder: Arc<SpillFolder>,
    file: NamedTempFile,
    end: u64,
}

/// Where in a [`Scratch`] bytes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    offset: u64,
    length: usize,
}

impl Extent {
    /// How many bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Scratch {
    /// An empty file.
    pub fn create(folder: &Arc<SpillFolder>) -> io::Result<Self> {
        Ok(Self {
            folder: Arc::clone(folder),
            file: folder.file()?,
            end: 0,
        })
    }

    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.end
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Appends bytes.
    pub fn append(&mut self, sealed: &[u8]) -> io::Result<Extent> {
        let file = self.file.as_file_mut();
        file.seek(SeekFrom::Start(self.end))?;
        file.write_all(sealed)?;
        let extent = Extent {
            offset: self.end,
            length: sealed.len(),
        };
        self.end += sealed.len() as u64;
        self.folder
            .written
            .fetch_add(sealed.len() as u64, Ordering::Relaxed);
        Ok(extent)
    }

    /// Reads bytes back, appending them to `out`. They may have been altered meanwhile; their
    /// opener will say.
    pub fn read(&mut self, extent: Extent, out: &mut Vec<u8>) -> io::Result<()> {
        let file = self.file.as_file_mut();
        file.seek(SeekFrom::Start(extent.offset))?;
        let start = out.len();
        out.resize(start + extent.length, 0);
        file.read_exact(out.get_mut(start..).unwrap_or_default())
            .map_err(fault)
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use coffer_sealing::frame::HEADER_LEN;

    const MARK: &[u8] = b"a value that must not reach a disk";

    fn written(folder: &Arc<SpillFolder>, chunks: usize) -> Arc<dyn SpillFile> {
        let file = SealedSpill::new(Arc::clone(folder))
            .create_temp_file("test")
            .unwrap();
        let mut writer = file.open_writer().unwrap();
        for _ in 0..chunks * CHUNK_LEN / MARK.len() {
            writer.write_all(MARK).unwrap();
        }
        writer.finish().unwrap();
        file
    }

    fn only_file(folder: &SpillFolder) -> std::path::PathBuf {
        let mut files = std::fs::read_dir(folder.folder.path()).unwrap();
        let path = files.next().unwrap().unwrap().path();
        assert!(files.next().is_none());
        path
    }

    async fn read(file: &Arc<dyn SpillFile>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut stream = file.read_stream()?;
        while let Some(chunk) = stream.next().await {
            out.extend_from_slice(&chunk?);
        }
        Ok(out)
    }

    fn fresh() -> (TempDir, Arc<SpillFolder>) {
        let parent = tempfile::tempdir().unwrap();
        let folder = SpillFolder::create(parent.path()).unwrap();
        (parent, folder)
    }

    #[tokio::test]
    async fn what_was_spilled_comes_back_and_lies_sealed() {
        let (_parent, folder) = fresh();
        let file = written(&folder, 3);
        let back = read(&file).await.unwrap();
        assert_eq!(back.len(), 3 * CHUNK_LEN / MARK.len() * MARK.len());
        assert!(back.chunks(MARK.len()).all(|chunk| chunk == MARK));
        assert_eq!(
            read(&file).await.unwrap().len(),
            back.len(),
            "a second reading"
        );

        let stored = std::fs::read(only_file(&folder)).unwrap();
        assert!(stored.len() > back.len());
        assert!(!stored.windows(8).any(|bytes| bytes == &MARK[..8]));
        assert_eq!(folder.written(), stored.len() as u64);
        drop(file);
        assert!(
            std::fs::read_dir(folder.folder.path())
                .unwrap()
                .next()
                .is_none()
        );
    }

    #[tokio::test]
    async fn an_altered_cut_extended_or_swapped_file_is_refused() {
        type Tamper = fn(&mut Vec<u8>);
        let cases: [(&str, Tamper); 5] = [
            ("bit flipped in a chunk", |bytes| bytes[HEADER_LEN + 5] ^= 1),
            ("last flag set early", |bytes| bytes[1] |= 1),
            ("cut at a chunk", |bytes| bytes.truncate(CHUNK_LEN + 32)),
            ("cut inside a chunk", |bytes| bytes.truncate(CHUNK_LEN)),
            ("bytes after the last", |bytes| bytes.push(0)),
        ];
        for (name, tamper) in cases {
            let (_parent, folder) = fresh();
            let file = written(&folder, 3);
            let path = only_file(&folder);
            let mut bytes = std::fs::read(&path).unwrap();
            tamper(&mut bytes);
            std::fs::write(&path, bytes).unwrap();
            assert!(read(&file).await.is_err(), "{name}");
        }
        let (_parent, folder) = fresh();
        let first = written(&folder, 1);
        let path = only_file(&folder);
        let stale = std::fs::read(&path).unwrap();
        drop(first);
        let second = written(&folder, 1);
        std::fs::write(only_file(&folder), stale).unwrap();
        assert!(read(&second).await.is_err(), "another file's bytes");
    }

    #[tokio::test]
    async fn an_unfinished_file_cannot_be_read() {
        let (_parent, folder) = fresh();
        let file = SealedSpill::new(Arc::clone(&folder))
            .create_temp_file("test")
            .unwrap();
        let mut writer = file.open_writer().unwrap();
        writer.write_all(&vec![1; 2 * CHUNK_LEN]).unwrap();
        drop(writer);
        assert!(read(&file).await.is_err());
    }

    #[test]
    fn scratch_gives_back_extents_in_any_order() {
        let (_parent, folder) = fresh();
        let mut scratch = Scratch::create(&folder).unwrap();
        let one = scratch.append(b"one").unwrap();
        let two = scratch.append(b"twoo").unwrap();
        let mut out = Vec::new();
        scratch.read(two, &mut out).unwrap();
        scratch.read(one, &mut out).unwrap();
        assert_eq!(out, b"twooone");
        assert_eq!((one.len(), two.is_empty()), (3, false));
    }
}
