//! The files that this process makes of a write: how large they are, and which there are.

use coffer_protocol::wire::{PublishWrite, WrittenFile};

use crate::ClientError;

/// Rows of a row group at most.
pub(crate) const ROW_GROUP_ROWS: u64 = 1 << 20;
/// Encoded bytes of a row group at most; engines with little memory take less.
pub(crate) const ROW_GROUP_BYTES: u64 = 128 << 20;
/// A file is ended when it has grown so far.
pub(crate) const FILE_BYTES: u64 = 512 << 20;

/// What streams of a write have made here.
#[derive(Default)]
pub(crate) struct Made {
    /// That came to their end.
    streams: u32,
    files: Vec<WrittenFile>,
    /// Whether the host may have chosen rows of them.
    host_chosen: bool,
}

impl Made {
    pub(crate) fn add(&mut self, files: impl Iterator<Item = WrittenFile>, host_chosen: bool) {
        self.streams = self.streams.saturating_add(1);
        self.files.extend(files);
        self.host_chosen |= host_chosen;
    }

    /// The files, and whether the host may have chosen rows of them, if the request counts the same
    /// streams and no tasks beside them; none: the rows are those of tasks.
    pub(crate) fn published(
        self,
        request: &PublishWrite,
    ) -> Result<Option<(Vec<WrittenFile>, bool)>, ClientError> {
        if self.streams != request.streams {
            return Err(ClientError::RowStreams {
                said: request.streams,
                ended: self.streams,
            });
        }
        match (self.streams, request.commits.is_empty()) {
            (0, _) => Ok(None),
            (_, true) => Ok(Some((self.files, self.host_chosen))),
            (_, false) => Err(ClientError::Malformed("PUBLISH_WRITE")),
        }
    }
}
