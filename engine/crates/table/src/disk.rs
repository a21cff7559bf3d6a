//! Files that appear whole or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
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

/// A whole file on the disk that is still to get its name. Without one it goes again, also when the disk was full half way.
pub(crate) struct Staged(PathBuf);

impl Staged {
    /// Writes these bytes into a folder; durable but for the name when it returns.
    pub(crate) fn write(folder: &Path, bytes: &[u8]) -> Result<Self, Error> {
        Self::write_to(folder.join(format!("{TEMPORARY}{}", random_hex::<8>()?)), bytes, 0o666)
    }

    fn write_to(path: PathBuf, bytes: &[u8], mode: u32) -> Result<Self, Error> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .map_err(Error::io("create", &path))?;
        let staged = Self(path);
        file.write_all(bytes)
            .and_then(|()| file.sync_all())
            .map_err(Error::io("write", &staged.0))?;
        Ok(staged)
    }

    /// Names it so, in its folder, if there is no such file; durable when it returns.
    pub(crate) fn put_if_absent(self, name: &str) -> Result<bool, Error> {
        let path = self.0.with_file_name(name);
        match fs::hard_link(&self.0, &path) {
            Ok(()) => {
                let folder = self.folder().to_owned();
                drop(self);
                sync_folder(&folder).map(|()| true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::io("publish", &path)(error)),
        }
    }

    fn folder(&self) -> &Path {
        self.0.parent().unwrap_or(Path::new("."))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // What cannot be removed now, nobody reads, and `verify --clean` removes.
        let _ = fs::remove_file(&self.0);
    }
}

/// Replaces the file at `path` (mode 0600) by these bytes; durable when it returns. Only for who holds the file's lock: what a killed
/// process left in `<path>.tmp`, the next removes.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io("remove", &temporary)(error));
        }
        _ => {}
    }
    let staged = Staged::write_to(temporary, bytes, 0o600)?;
    fs::rename(&staged.0, path).map_err(Error::io("replace", path))?;
    sync_folder(staged.folder())
}

/// Makes names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), Error> {
    File::open(folder)
        .and_then(|file| file.sync_all())
        .map_err(Error::io("write", folder))
}

/// Opens a file that a host has in its hands. What is no file is refused: a pipe would be waited for, a device has no end.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        let kind = std::io::ErrorKind::InvalidInput;
        return Err(std::io::Error::new(
            kind,
            "under its name lies something else than a file",
        ));
    }
    File::open(path)
}

/// Reads a whole file of at most `limit` bytes, if it is there.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    use std::io::Read;
    let file = match open(path) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_writer_left_goes_with_the_next_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("register.coffer");
        fs::write(folder.path().join("register.coffer.tmp"), b"half").unwrap();
        for bytes in [b"first", b"again"] {
            replace(&path, bytes).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn only_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), b"abc").unwrap();
        assert_eq!(read(&at("file"), 3).unwrap().unwrap(), b"abc");
        assert!(matches!(read(&at("file"), 2), Err(Error::Limit(_))));
        assert!(read(&at("none"), 3).unwrap().is_none());
        let pipe = std::process::Command::new("mkfifo").arg(at("pipe")).status();
        assert!(pipe.unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
        std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for name in ["pipe", "device", "loop", "folder"] {
            assert!(matches!(read(&at(name), 3), Err(Error::Io { .. })), "{name}");
        }
    }
}
