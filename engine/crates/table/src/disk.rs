//! Files that appear whole or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use crate::Error;

/// Before the random part of a temporary file's name. Nobody reads such files; `verify` names them.
pub(crate) const TEMPORARY: &str = ".tmp-";

pub(crate) fn random_hex<const N: usize>() -> Result<String, Error> {
    let mut bytes = [0; N];
    coffer_sealing::fill_random(&mut bytes)?;
    Ok(hex::encode(bytes))
}

fn write_temporary(folder: &Path, bytes: &[u8]) -> Result<PathBuf, Error> {
    let path = folder.join(format!("{TEMPORARY}{}", random_hex::<8>()?));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(Error::io("create", &path))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(Error::io("write", &path))?;
    Ok(path)
}

/// Makes `folder/name` with these bytes if there is no such file; durable when it returns.
pub(crate) fn put_if_absent(folder: &Path, name: &str, bytes: &[u8]) -> Result<bool, Error> {
    let temporary = write_temporary(folder, bytes)?;
    let path = folder.join(name);
    let linked = fs::hard_link(&temporary, &path);
    fs::remove_file(&temporary).map_err(Error::io("remove", &temporary))?;
    match linked {
        Ok(()) => sync_folder(folder).map(|()| true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io("publish", &path)(error)),
    }
}

/// Replaces `folder/name` by these bytes; durable when it returns.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let temporary = write_temporary(folder, bytes)?;
    fs::rename(&temporary, path).map_err(Error::io("replace", path))?;
    sync_folder(folder)
}

/// Makes names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), Error> {
    File::open(folder)
        .and_then(|file| file.sync_all())
        .map_err(Error::io("write", folder))
}

/// Reads a whole file of at most `limit` bytes, if it is there.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    use std::io::Read;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(Error::io("read", path))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(Error::Limit("control file"));
    }
    Ok(Some(bytes))
}
