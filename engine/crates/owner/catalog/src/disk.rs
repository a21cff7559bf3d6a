//! Files that appear whole or not at all, and the one way to a disk.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use coffer_format::{Error as FormatError, files::Disk};
use coffer_protocol::storage::{Reach, url};

use crate::Error;

pub(crate) use coffer_format::files::{Op, TEMPORARY, open};

/// Everything that a publication does to a disk goes through here, so that tests can have any of it
/// fail, or be the last thing that the process did.
#[cfg_attr(not(test), allow(unused_variables, reason = "tests look at them"))]
pub(crate) fn act<T>(op: Op, path: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    #[cfg(test)]
    return fault::around(op, path, act);
    #[cfg(not(test))]
    act()
}

#[cfg(test)]
pub(crate) mod fault;

/// Has the table's files written by `act`.
#[derive(Debug, Clone, Copy)]
pub struct Judged;

impl Disk for Judged {
    fn act<T>(op: Op, path: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        act(op, path, work)
    }
}

pub(crate) type Folder = coffer_format::folder::Folder<Judged>;
/// Makes the files of one write of a table.
pub type TableWriter = coffer_format::TableWriter<Judged>;
/// One file being written.
pub type FileWriter = coffer_format::FileWriter<Judged>;

/// Replaces the file at `path` (mode 0600) by these bytes; durable when it returns. Only for who
/// holds the file's lock: what a killed process left in `<path>.tmp`, the next removes.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    match act(Op::Remove, &temporary, || fs::remove_file(&temporary)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io("remove", &temporary)(error));
        }
        _ => {}
    }
    let written = write(&temporary, bytes).and_then(|()| {
        act(Op::Rename, path, || fs::rename(&temporary, path)).map_err(Error::io("replace", path))
    });
    if written.is_err() {
        // What cannot be removed now, the next writing removes.
        let _ = act(Op::Remove, &temporary, || fs::remove_file(&temporary));
    }
    written?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let create = || {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
    };
    let mut file = act(Op::Create, path, create).map_err(Error::io("create", path))?;
    let written = act(Op::Write, path, || {
        file.write_all(bytes).and_then(|()| file.sync_all())
    });
    written.map_err(Error::io("write", path))
}

/// Makes names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), Error> {
    let sync = || File::open(folder).and_then(|file| file.sync_all());
    act(Op::Sync, folder, sync).map_err(Error::io("write", folder))
}

/// As [`read`], also of a URL.
pub(crate) fn read_at(reach: &Reach, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    match (url(path), path.parent(), path.file_name()) {
        (Some(_), Some(folder), Some(name)) => {
            Ok(Folder::at(folder, reach.as_ref())?.read(Path::new(name), limit)?)
        }
        _ => read(path, limit),
    }
}

/// The names right in a folder, which need not be there.
pub(crate) fn names_at(reach: &Reach, folder: &Path) -> Result<Vec<OsString>, Error> {
    if url(folder).is_some() {
        let names = Folder::at(folder, reach.as_ref())?.names(Path::new(""))?;
        return Ok(names.into_iter().map(|(name, _)| name).collect());
    }
    let entries = match act(Op::Read, folder, || fs::read_dir(folder)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", folder)(error)),
    };
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name());
    let names = entries.map(name).collect::<io::Result<_>>();
    names.map_err(Error::io("read", folder))
}

/// Reads a whole file of at most `limit` bytes, if it is there.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    use std::io::Read;
    let file = match act(Op::Read, path, || open(path)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(Error::io("read", path))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(FormatError::Limit("control file").into());
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
        assert!(matches!(
            read(&at("file"), 2),
            Err(Error::Format(FormatError::Limit(_)))
        ));
        assert!(read(&at("none"), 3).unwrap().is_none());
        let pipe = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(pipe.unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
        std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for name in ["pipe", "device", "loop", "folder"] {
            assert!(
                matches!(
                    read(&at(name), 3),
                    Err(Error::Format(FormatError::Io { .. }))
                ),
                "{name}"
            );
        }
    }
}
