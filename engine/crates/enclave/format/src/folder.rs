//! A table's folder, held open: what is made, removed or published there happens in this very
//! folder, whatever its path leads to by then.
//!
//! How the folder was reached is the owner's business: links on its path are followed when it is
//! opened. Below it nothing is followed. A host that puts a link in the place of an inner folder,
//! or of the folder itself, would else have files of another table removed, or files made in a
//! folder of the client site.
//!
//! A folder that is a URL is reached through a port: nothing is held open there, and what storage
//! makes of a name is its own affair.

mod remote;

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Write},
    marker::PhantomData,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use coffer_protocol::storage::{ENTRIES_MOST, NAMES_MOST, Storage, url};
use remote::RemoteFolder;
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use crate::{
    Digest, Error, NotAFile,
    files::{self, Direct, Disk, Op},
    output::Output,
};

/// Folders below each other at most: one for each plain partition column.
const DEPTH: usize = 64;

/// A folder; a local one is held open.
#[derive(Debug)]
pub struct Folder<D: Disk = Direct> {
    place: Place,
    path: PathBuf,
    disk: PhantomData<D>,
}

#[derive(Debug)]
enum Place {
    Local(OwnedFd),
    Remote(RemoteFolder),
}

impl<D: Disk> Folder<D> {
    /// The folder that a path leads to now, or that a URL names; it need not be there then.
    pub fn at(path: &Path, storage: Option<&Arc<dyn Storage>>) -> Result<Self, Error> {
        let Some(url) = url(path) else {
            return Self::open(path);
        };
        let storage = storage.ok_or(io::ErrorKind::Unsupported);
        let storage = storage.map_err(|kind| Error::io("reach", path)(kind.into()))?;
        Ok(Self {
            place: Place::Remote(RemoteFolder {
                storage: Arc::clone(storage),
                url: url.trim_end_matches('/').to_owned(),
            }),
            path: path.to_owned(),
            disk: PhantomData,
        })
    }

    /// The local folder that a path leads to now.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = D::act(Op::Open, path, || {
            Ok(rustix::fs::open(path, flags, Mode::empty())?)
        });
        Ok(Self {
            place: Place::Local(opened.map_err(Error::io("open", path))?),
            path: path.to_owned(),
            disk: PhantomData,
        })
    }

    /// As it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is now, without links: the system's word on the folder that is held open.
    pub fn real(&self) -> Result<PathBuf, Error> {
        use std::os::fd::AsRawFd;
        let Place::Local(folder) = &self.place else {
            return Ok(self.path.clone());
        };
        let held = format!("/proc/self/fd/{}", folder.as_raw_fd());
        std::fs::read_link(held).map_err(Error::io("open", &self.path))
    }

    fn failed(
        &self,
        doing: &'static str,
        inner: &Path,
    ) -> impl FnOnce(io::Error) -> Error + use<D> {
        let path = self.path.join(inner);
        move |source| Error::Io {
            doing,
            path,
            source,
        }
    }

    fn remote(&self) -> Option<&RemoteFolder> {
        match &self.place {
            Place::Local(_) => None,
            Place::Remote(remote) => Some(remote),
        }
    }

    /// The folder in which a file lies, and its name there.
    fn parent(&self, file: &Path) -> io::Result<(Inner<'_>, OsString)> {
        let name = file
            .file_name()
            .ok_or(io::ErrorKind::InvalidInput)?
            .to_owned();
        Ok((self.inner(file.parent().unwrap_or(Path::new("")))?, name))
    }

    fn inner(&self, path: &Path) -> io::Result<Inner<'_>> {
        let Place::Local(folder) = &self.place else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mut at = Inner::Root(folder.as_fd());
        for part in path.components() {
            let Component::Normal(name) = part else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            at = Inner::Below(rustix::fs::openat(
                &at,
                name,
                below() | OFlags::DIRECTORY,
                Mode::empty(),
            )?);
        }
        Ok(at)
    }

    /// Reads a whole file of at most `limit` bytes, if it is there.
    pub fn read(&self, file: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let read = || {
            if let Some(remote) = self.remote() {
                return remote.read(file, limit);
            }
            let (parent, name) = self.parent(file)?;
            let opened =
                rustix::fs::openat(&parent, name, below() | OFlags::NONBLOCK, Mode::empty())?;
            let opened = File::from(opened);
            if !opened.metadata()?.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, NotAFile));
            }
            let mut bytes = Vec::new();
            opened
                .take(limit.saturating_add(1))
                .read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match D::act(Op::Read, &self.path.join(file), read) {
            Ok(bytes) if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit => {
                Err(Error::Limit("control file"))
            }
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", file)(error)),
        }
    }

    /// The length of a file; none if there is no file of this name, but maybe something else.
    pub fn length(&self, file: &Path) -> Result<Option<u64>, Error> {
        if let Some(remote) = self.remote() {
            let look = || remote.length(file);
            return D::act(Op::Read, &self.path.join(file), look)
                .map_err(self.failed("read", file));
        }
        let look = || {
            let (parent, name) = self.parent(file)?;
            Ok(rustix::fs::statat(
                &parent,
                name,
                AtFlags::SYMLINK_NOFOLLOW,
            )?)
        };
        match D::act(Op::Read, &self.path.join(file), look) {
            Ok(found) if FileType::from_raw_mode(found.st_mode).is_file() => {
                Ok(Some(u64::try_from(found.st_size).unwrap_or(0)))
            }
            Ok(_) => Ok(None),
            Err(error) if is_none(&error) => Ok(None),
            Err(error) => Err(self.failed("read", file)(error)),
        }
    }

    /// Whether there is anything of this name.
    pub fn has(&self, path: &Path) -> bool {
        if let Some(remote) = self.remote() {
            // What cannot be said is taken to be there.
            return remote.has(path).unwrap_or(true);
        }
        self.parent(path)
            .and_then(|(parent, name)| {
                Ok(rustix::fs::statat(
                    &parent,
                    name,
                    AtFlags::SYMLINK_NOFOLLOW,
                )?)
            })
            .is_ok()
    }

    /// Makes inner folders, as far as they are not there. Their names are not durable yet.
    pub fn make_folders(&self, path: &Path) -> Result<(), Error> {
        if self.remote().is_some() {
            return Ok(());
        }
        let make = || {
            let mut inner = PathBuf::new();
            for part in path.components() {
                inner.push(part);
                let (parent, name) = self.parent(&inner)?;
                match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            // A link of that name is no folder.
            self.inner(path).map(|_| ())
        };
        D::act(Op::Make, &self.path.join(path), make).map_err(self.failed("create", path))
    }

    /// Makes a file that is not there, for reading and writing.
    pub fn create(&self, file: &Path) -> Result<Output, Error> {
        let create = || {
            if let Some(remote) = self.remote() {
                return Ok(Output::remote(
                    Arc::clone(&remote.storage),
                    remote.at(file)?,
                ));
            }
            let (parent, name) = self.parent(file)?;
            let flags =
                OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o666))?;
            Ok(Output::Local(File::from(made)))
        };
        let made = D::act(Op::Create, &self.path.join(file), create);
        made.map_err(self.failed("create", file))
    }

    /// Removes a file, a link itself and not what it leads to. One that is not there is removed.
    pub fn remove(&self, file: &Path) -> Result<(), Error> {
        let remove = || {
            if let Some(remote) = self.remote() {
                return remote.remove(file, false);
            }
            let (parent, name) = self.parent(file)?;
            Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?)
        };
        match D::act(Op::Remove, &self.path.join(file), remove) {
            Err(error) if !is_none(&error) => Err(self.failed("remove", file)(error)),
            _ => Ok(()),
        }
    }

    /// Removes an inner folder if it is empty.
    pub fn remove_folder(&self, path: &Path) {
        // One that is not empty stays, and so does what cannot be removed.
        let _ = D::act(Op::Remove, &self.path.join(path), || {
            if let Some(remote) = self.remote() {
                return remote.remove(path, true);
            }
            let (parent, name) = self.parent(path)?;
            Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
        });
    }

    /// Makes the names in an inner folder durable.
    pub fn sync(&self, path: &Path) -> Result<(), Error> {
        // What a put was told to be done is durable.
        if self.remote().is_some() {
            return Ok(());
        }
        let sync = || Ok(rustix::fs::fsync(&self.inner(path)?)?);
        D::act(Op::Sync, &self.path.join(path), sync).map_err(self.failed("write", path))
    }

    /// Puts a whole file of these bytes in place, durably, unless there is one of that name: then
    /// it gives what is there, if that is at most `limit` bytes long.
    pub fn put_if_absent(&self, file: &Path, bytes: &[u8], limit: u64) -> Result<Put, Error> {
        if let Some(remote) = self.remote() {
            let put = || remote.put_if_absent(file, bytes);
            let put = D::act(Op::Link, &self.path.join(file), put);
            return match put.map_err(self.failed("publish", file))? {
                true => Ok(Put::Done),
                false => Ok(Put::Taken(self.digest_of(file, limit))),
            };
        }
        let staged =
            file.with_file_name(format!("{}{}", files::TEMPORARY, files::random_hex::<8>()?));
        let put = self.stage_and_link(&staged, file, bytes, limit);
        // What cannot be removed now, nobody reads, and `verify --clean` removes.
        let _ = self.remove(&staged);
        let put = put?;
        if matches!(put, Put::Done) {
            self.sync(file.parent().unwrap_or(Path::new("")))?;
        }
        Ok(put)
    }

    fn stage_and_link(
        &self,
        staged: &Path,
        file: &Path,
        bytes: &[u8],
        limit: u64,
    ) -> Result<Put, Error> {
        let mut to = self.create(staged)?;
        D::act(Op::Write, &self.path.join(staged), || {
            to.write_all(bytes)?;
            to.complete()
        })
        .map_err(self.failed("write", staged))?;
        let linked = D::act(Op::Link, &self.path.join(file), || {
            let (parent, name) = self.parent(file)?;
            let from = staged.file_name().unwrap_or_default();
            Ok(rustix::fs::linkat(
                &parent,
                from,
                &parent,
                name,
                AtFlags::empty(),
            )?)
        });
        match linked {
            Ok(()) => Ok(Put::Done),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(Put::Taken(self.digest_of(file, limit)))
            }
            Err(error) => Err(self.failed("publish", file)(error)),
        }
    }

    /// Of a file that is there. One that cannot be read is another.
    fn digest_of(&self, file: &Path, limit: u64) -> Option<Digest> {
        let there = self.read(file, limit).ok().flatten();
        there.map(|bytes| Digest::of(&bytes))
    }

    /// What an inner folder holds: names, and whether each is a folder. Nothing of one that is not
    /// there.
    pub fn names(&self, path: &Path) -> Result<Vec<(OsString, bool)>, Error> {
        match D::act(Op::Read, &self.path.join(path), || self.list(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(self.failed("read", path)),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(OsString, bool)>> {
        if let Some(remote) = self.remote() {
            return remote.names(path);
        }
        let inner = self.inner(path)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&inner)? {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let found = rustix::fs::statat(&inner, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(found.st_mode)
                }
                kind => kind,
            };
            names.push((name, kind.is_dir()));
        }
        Ok(names)
    }

    /// The lengths of several files, as [`length`](Self::length).
    pub fn lengths(&self, files: &[&Path]) -> Result<Vec<Option<u64>>, Error> {
        match self.remote() {
            Some(remote) => D::act(Op::Read, &self.path, || remote.lengths(files))
                .map_err(self.failed("read", Path::new(""))),
            None => files.iter().map(|file| self.length(file)).collect(),
        }
    }

    /// The files below it, relative to it; where listing takes a question for each folder, only
    /// those right in these folders.
    pub fn files_near(&self, folders: &[&Path]) -> Result<Vec<PathBuf>, Error> {
        match self.remote() {
            Some(remote) => D::act(Op::Read, &self.path, || remote.files_in(folders))
                .map_err(self.failed("read", Path::new(""))),
            None => self.walk(),
        }
    }

    /// All files below it, relative to it, in order; a link is a file. Errors where storage that is
    /// asked through a port shows more than [`ENTRIES_MOST`], or names of more than [`NAMES_MOST`]
    /// bytes.
    pub fn walk(&self) -> Result<Vec<PathBuf>, Error> {
        self.walk_within(ENTRIES_MOST, NAMES_MOST)
    }

    /// What was listed counts, whether it is kept or not: each folder is one more question, and a
    /// tree of empty ones would else be asked about for ever.
    fn walk_within(&self, entries: usize, bytes: usize) -> Result<Vec<PathBuf>, Error> {
        let mut files = Vec::new();
        let mut folders = vec![(PathBuf::new(), 0_usize)];
        let (mut seen, mut named) = (0_usize, 0_usize);
        while let Some((inner, depth)) = folders.pop() {
            for (name, is_folder) in self.names(&inner)? {
                let path = inner.join(name);
                seen = seen.saturating_add(1);
                named = named.saturating_add(path.as_os_str().len());
                if is_folder && depth < DEPTH {
                    folders.push((path, depth.saturating_add(1)));
                } else {
                    files.push(path);
                }
            }
            if self.remote().is_some() && (seen > entries || named > bytes) {
                let endless = io::Error::new(io::ErrorKind::InvalidData, "folders without end");
                return Err(self.failed("read", &inner)(endless));
            }
        }
        files.sort();
        Ok(files)
    }
}

/// What became of a file that was to be put in place.
#[derive(Debug, PartialEq, Eq)]
pub enum Put {
    /// It lies there.
    Done,
    /// There is one, with this digest as far as it can be read.
    Taken(Option<Digest>),
}

enum Inner<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Inner<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(folder) => *folder,
            Self::Below(folder) => folder.as_fd(),
        }
    }
}

/// As everything below the folder is opened.
fn below() -> OFlags {
    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Nothing is there, or on its way is no folder of this table's.
fn is_none(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

#[cfg(test)]
mod tests;
