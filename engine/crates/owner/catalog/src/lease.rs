//! Who uses a table now, among the programs of one config directory: so that cleaning never takes a
//! file from under a job.
//!
//! File locks under `leases` of the config directory, shared by those that write or read and wanted
//! alone by who cleans. The system lets go of them when a process ends, however it ends, so nothing
//! has to be guessed from the age of files.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    path::PathBuf,
};

use coffer_custody::ConfigDir;
use coffer_sealing::TableId;

use crate::Error;

/// What a table is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Files of a coming version are being written.
    Writing,
    /// Some version was opened to be read, by a program that is still running.
    Reading,
}

impl Use {
    fn suffix(self) -> &'static str {
        match self {
            Self::Writing => "writing",
            Self::Reading => "reading",
        }
    }
}

/// Held as long as a table is used. Let go of when dropped, or with the process.
#[derive(Debug)]
pub struct Lease {
    _file: File,
}

impl Lease {
    /// One of many.
    pub fn shared(config_dir: &ConfigDir, table: TableId, kind: Use) -> Result<Self, Error> {
        let (file, path) = open(config_dir, table, kind)?;
        file.lock_shared().map_err(Error::io("lock", &path))?;
        Ok(Self { _file: file })
    }

    /// The only one; none if somebody uses the table so.
    pub fn alone(config_dir: &ConfigDir, table: TableId, kind: Use) -> Result<Option<Self>, Error> {
        let (file, path) = open(config_dir, table, kind)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
        }
    }
}

fn open(config_dir: &ConfigDir, table: TableId, kind: Use) -> Result<(File, PathBuf), Error> {
    let folder = config_dir.path().join("leases");
    fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    let path = folder.join(format!("{table}.{}", kind.suffix()));
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(Error::io("open", &path))?;
    Ok((file, path))
}
