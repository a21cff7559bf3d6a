//! Writing a file so that a crash leaves the old one or the new one, never half: a temporary file beside it (mode 0600),
//! fsync, rename, fsync of the folder. Two writers take turns by a lock file.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Replaces `path`, or makes it.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    staged(path, bytes)?.persist(path).map_err(|failed| failed.error)?;
    sync_folder(path)
}

/// Makes `path`; an existing file is an error of kind `AlreadyExists` and stays as it is.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    staged(path, bytes)?
        .persist_noclobber(path)
        .map_err(|failed| failed.error)?;
    sync_folder(path)
}

/// Held while a file is read, changed and replaced.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder(path).join(name))?;
    file.lock()?;
    Ok(file)
}

fn staged(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    // NamedTempFile is made with mode 0600, and removed should anything here fail.
    let mut file = tempfile::Builder::new()
        .prefix(".coffer-")
        .suffix(".tmp")
        .tempfile_in(folder(path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
