//! A file that is being written: on a local disk, or put part by part where storage is reached
//! through a port.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    sync::Arc,
};

use bytes::Bytes;
use coffer_protocol::storage::Storage;
use futures::executor::block_on;

/// So much is read back at once.
const BLOCK: u64 = 4 << 20;

/// Where a file's bytes go.
#[derive(Debug)]
pub enum Output {
    /// A file of a local disk.
    Local(File),
    /// A file that is not there before its last part.
    Remote(Upload),
}

/// The parts of one file, in order.
#[derive(Debug)]
pub struct Upload {
    storage: Arc<dyn Storage>,
    path: String,
    offset: u64,
}

impl Output {
    /// Of a file that this storage does not have yet.
    pub(crate) fn remote(storage: Arc<dyn Storage>, path: String) -> Self {
        Self::Remote(Upload {
            storage,
            path,
            offset: 0,
        })
    }

    /// Nothing follows: makes the file whole and durable.
    pub(crate) fn complete(&mut self) -> io::Result<()> {
        match self {
            Self::Local(file) => file.sync_all(),
            Self::Remote(upload) => upload.put(Bytes::new(), true),
        }
    }

    /// The completed file from its beginning, as storage gives it.
    pub(crate) fn read_back(&mut self) -> io::Result<Box<dyn Read + '_>> {
        match self {
            Self::Local(file) => {
                file.rewind()?;
                Ok(Box::new(file))
            }
            Self::Remote(upload) => Ok(Box::new(ReadBack { upload, at: 0 })),
        }
    }
}

impl Upload {
    fn put(&mut self, bytes: Bytes, last: bool) -> io::Result<()> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        block_on(self.storage.put(&self.path, self.offset, bytes, last))?;
        self.offset = self.offset.saturating_add(length);
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Local(file) => file.write(bytes),
            Self::Remote(upload) => {
                upload.put(Bytes::copy_from_slice(bytes), false)?;
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Local(file) => file.flush(),
            Self::Remote(_) => Ok(()),
        }
    }
}

struct ReadBack<'a> {
    upload: &'a Upload,
    at: u64,
}

impl Read for ReadBack<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = u64::try_from(into.len()).unwrap_or(BLOCK).min(BLOCK);
        let range = self.at..self.upload.offset.min(self.at.saturating_add(most));
        let asked = std::slice::from_ref(&range);
        let read = block_on(self.upload.storage.ranges(&self.upload.path, asked))?.concat();
        match into.get_mut(..read.len()) {
            Some(into) => into.copy_from_slice(&read),
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
        self.at = range.end;
        Ok(read.len())
    }
}
