//! Files that are there whole or not at all, and whose turn it is to write them.

use std::{
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use crate::LogError;

/// Puts a file there, or in the place of the one that is there, on the disk when this returns.
/// `mode`: its rights. Folders on the way are made.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), LogError> {
    let written = || -> io::Result<()> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        fs::create_dir_all(folder)?;
        let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
        fresh.write_all(bytes)?;
        fresh
            .as_file()
            .set_permissions(Permissions::from_mode(mode))?;
        fresh.as_file().sync_all()?;
        fresh.persist(path)?;
        File::open(folder)?.sync_all()
    };
    written().map_err(LogError::io(path))
}

/// Waits until nobody else holds this lock; held until the file is dropped.
pub fn hold(lock: &Path) -> Result<File, LogError> {
    let held = File::create(lock).map_err(LogError::io(lock))?;
    held.lock().map_err(LogError::io(lock))?;
    Ok(held)
}
