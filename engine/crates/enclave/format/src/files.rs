//! What is done to the files of a table.

use std::{
    fmt,
    fs::{self, File},
    io,
    path::Path,
};

use crate::{Error, NotAFile};

/// Before the random part of a temporary file's name. Nobody reads such files; `verify` names them.
pub const TEMPORARY: &str = ".tmp-";

/// So many random bytes, as hex text.
pub fn random_hex<const N: usize>() -> Result<String, Error> {
    let mut bytes = [0; N];
    coffer_sealing::fill_random(&mut bytes)?;
    Ok(hex::encode(bytes))
}

/// What is done to a disk, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Open.
    Open,
    /// Read.
    Read,
    /// Make.
    Make,
    /// Create.
    Create,
    /// Write.
    Write,
    /// Link.
    Link,
    /// Rename.
    Rename,
    /// Remove.
    Remove,
    /// Sync.
    Sync,
    /// Lock.
    Lock,
}

/// The way to a disk. The owner's side has one of its own, by which tests can have anything that it
/// does fail.
pub trait Disk: fmt::Debug + Copy + Send + Sync + 'static {
    /// Does this.
    fn act<T>(op: Op, path: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T>;
}

/// Straight to the disk.
#[derive(Debug, Clone, Copy)]
pub struct Direct;

impl Disk for Direct {
    fn act<T>(_op: Op, _path: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        work()
    }
}

/// Opens a file that a host has in its hands. What is no file is refused: a pipe would be waited
/// for, a device has no end.
pub fn open(path: &Path) -> std::io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            NotAFile,
        ));
    }
    File::open(path)
}
