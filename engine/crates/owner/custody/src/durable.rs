//! Writing a file so that a crash leaves the old one or the new one, never half: a temporary file
//! beside it (mode 0600), fsync, rename, fsync of the folder. Two writers take turns by a lock
//! file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Replaces `path`, or makes it. The caller holds its [`lock`].
///
/// The temporary file has always the same name, `<path>.tmp`: one that a killed process left has
/// the keys of then, under the passphrase of then, and must not outlive the next writing.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = beside(path, ".tmp");
    remove(&temporary)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written
        .and_then(|()| fs::rename(&temporary, path))
        // The failure is what counts; what cannot be removed now, the next writing removes.
        .inspect_err(|_| drop(remove(&temporary)))?;
    sync_folder(path)
}

/// Makes `path`; an existing file is an error of kind `AlreadyExists` and stays as it is.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    staged(path, bytes)?
        .persist_noclobber(path)
        .map_err(|failed| failed.error)?;
    sync_folder(path)
}

/// A file's bytes. One with more than `most` is an error.
pub(crate) fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(length) if length <= most => Ok(bytes),
        _ => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {most} bytes"),
        )),
    }
}

/// Held while a file is read, changed and replaced.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(beside(path, ".lock"))?;
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

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(suffix);
    folder(path).join(name)
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_killed_writer_left_goes_with_the_next_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keyring.coffer");
        create(&path, b"first").unwrap();
        let (stray, elsewhere) = (
            folder.path().join("keyring.coffer.tmp"),
            folder.path().join("elsewhere"),
        );
        fs::write(&stray, b"keys of long ago").unwrap();
        replace(&path, b"second").unwrap();
        assert_eq!(names(folder.path()), ["keyring.coffer"]);
        // It is not written through.
        fs::write(&elsewhere, b"other").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &stray).unwrap();
        replace(&path, b"third").unwrap();
        assert_eq!(fs::read(&elsewhere).unwrap(), b"other");
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        // One that cannot be put in place goes too.
        let taken = folder.path().join("taken");
        fs::create_dir_all(taken.join("inner")).unwrap();
        assert!(replace(&taken, b"x").is_err());
        assert_eq!(
            names(folder.path()),
            ["elsewhere", "keyring.coffer", "taken"]
        );
    }
}
