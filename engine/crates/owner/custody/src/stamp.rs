//! What tells one state of a file from another, for programs that hold what they read of it.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// One state of a file. One that is replaced whole has another inode; one that is written over,
/// other times.
#[derive(Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Whether the file has rested for so long by now. One that was changed a moment ago may be
    /// changed again within the clock's smallest step, and keep its stamp.
    pub fn rests_since(&self, while_: Duration) -> bool {
        let changed = u64::try_from(self.changed.0).unwrap_or(u64::MAX);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        changed.saturating_add(while_.as_secs()) < now.as_secs()
    }

    /// Of a file as it is now. Take it before the file is read, or while it is locked: never later
    /// than what it stands for.
    pub fn of(path: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(path)?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}
