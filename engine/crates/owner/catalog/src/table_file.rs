//! The bytes of a table's file: of a local disk, or of storage that is reached through a port.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    ops::Range,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use coffer_format::Digest;
use coffer_protocol::storage::{Reach, Storage, url};
use futures::executor::block_on;
use parquet::file::reader::ChunkReader;

use crate::disk;

/// So much is fetched at once, at least: pages follow each other.
const WINDOW: u64 = 2 << 20;
/// So many windows are kept of a file: its columns are read side by side.
const WINDOWS: usize = 32;

/// What is digested is held in memory so much at a time.
const LOCAL_BLOCK: u64 = 1 << 20;
const REMOTE_BLOCK: u64 = 4 << 20;

/// A table's file, open.
pub(crate) enum TableFile {
    Local(File),
    Remote(Arc<RemoteFile>),
}

pub(crate) struct RemoteFile {
    storage: Arc<dyn Storage>,
    url: String,
    size: u64,
    windows: Mutex<VecDeque<(u64, Bytes)>>,
}

impl TableFile {
    /// The file and its length as storage has it.
    pub(crate) fn open(reach: &Reach, path: &Path) -> io::Result<(Self, u64)> {
        let Some(url) = url(path) else {
            let file = disk::open(path)?;
            let size = file.metadata()?.len();
            return Ok((Self::Local(file), size));
        };
        let storage = reach.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let size = block_on(storage.size(url))?.ok_or(io::ErrorKind::NotFound)?;
        let file = RemoteFile {
            storage: Arc::clone(storage),
            url: url.to_owned(),
            size,
            windows: Mutex::default(),
        };
        Ok((Self::Remote(Arc::new(file)), size))
    }

    /// Sees to it that what is there now is there after a crash too. Storage that is asked through
    /// a port has seen to it when the file was written.
    pub(crate) fn make_durable(&self) -> io::Result<()> {
        match self {
            Self::Local(file) => file.sync_all(),
            Self::Remote(_) => Ok(()),
        }
    }

    /// The same for another reader.
    pub(crate) fn again(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Local(file) => Self::Local(file.try_clone()?),
            Self::Remote(file) => Self::Remote(Arc::clone(file)),
        })
    }

    /// These bytes, as far as they are there.
    pub(crate) fn range(&self, range: Range<u64>) -> io::Result<Bytes> {
        match self {
            Self::Local(file) => {
                let mut file = file.try_clone()?;
                Ok(read_range(&mut file, range)?.into())
            }
            Self::Remote(file) => file.get(range.start..range.end.min(file.size)),
        }
    }

    /// The digest of these bytes, which are read a block at a time and not kept; none where they
    /// are not there.
    pub(crate) fn digest(&self, range: Range<u64>) -> io::Result<Option<Digest>> {
        let mut seen = Context::new(&SHA256);
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at.saturating_add(self.block()));
            let bytes = match self {
                Self::Local(file) => {
                    let mut file = file.try_clone()?;
                    Bytes::from(read_range(&mut file, at..end)?)
                }
                Self::Remote(file) => match file.fetch(at..end) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                    fetched => fetched?,
                },
            };
            if u64::try_from(bytes.len()) != Ok(end.saturating_sub(at)) {
                return Ok(None);
            }
            seen.update(&bytes);
            at = end;
        }
        Ok(Digest::try_from(seen.finish().as_ref()).ok())
    }

    fn block(&self) -> u64 {
        match self {
            Self::Local(_) => LOCAL_BLOCK,
            Self::Remote(_) => REMOTE_BLOCK,
        }
    }

    /// From here to the end.
    pub(super) fn get_read(&self, start: u64, size: u64) -> io::Result<Box<dyn BufRead>> {
        match self {
            Self::Local(file) => Ok(Box::new(file.get_read(start).map_err(io::Error::other)?)),
            Self::Remote(file) => {
                let rest = Rest {
                    file: Arc::clone(file),
                    range: start..size.min(file.size),
                };
                Ok(Box::new(BufReader::new(rest)))
            }
        }
    }

    /// Exactly these bytes.
    pub(super) fn get_bytes(&self, range: Range<u64>) -> parquet::errors::Result<Bytes> {
        match self {
            Self::Local(file) => {
                let length = usize::try_from(range.end.saturating_sub(range.start));
                file.get_bytes(range.start, length.unwrap_or(usize::MAX))
            }
            Self::Remote(file) => Ok(file.get(range)?),
        }
    }
}

impl RemoteFile {
    fn get(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let held = windows.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(range.start.checked_sub(*start)?).ok()?;
            let to = usize::try_from(range.end.checked_sub(*start)?).ok()?;
            (to <= bytes.len()).then(|| bytes.slice(from..to))
        });
        if let Some(held) = held {
            return Ok(held);
        }
        let end = range
            .end
            .max(range.start.saturating_add(WINDOW))
            .min(self.size.max(range.end));
        let bytes = self.fetch(range.start..end)?;
        let length = usize::try_from(range.end.saturating_sub(range.start));
        let wanted = length.ok().filter(|length| *length <= bytes.len());
        let wanted = bytes.slice(..wanted.ok_or(io::ErrorKind::UnexpectedEof)?);
        windows.push_back((range.start, bytes));
        if windows.len() > WINDOWS {
            windows.pop_front();
        }
        Ok(wanted)
    }
}

impl RemoteFile {
    fn fetch(&self, range: Range<u64>) -> io::Result<Bytes> {
        let asked = self.storage.ranges(&self.url, std::slice::from_ref(&range));
        Ok(block_on(asked)?.pop().unwrap_or_default())
    }
}

struct Rest {
    file: Arc<RemoteFile>,
    range: Range<u64>,
}

impl Read for Rest {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = u64::try_from(into.len()).unwrap_or(WINDOW);
        let end = self.range.end.min(self.range.start.saturating_add(most));
        let bytes = self.file.get(self.range.start..end)?;
        match into.get_mut(..bytes.len()) {
            Some(into) => into.copy_from_slice(&bytes),
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
        self.range.start = end;
        Ok(bytes.len())
    }
}

fn read_range(file: &mut File, range: std::ops::Range<u64>) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(range.start))?;
    let length = range.end.saturating_sub(range.start);
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}
