//! Which files there are to search.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// Plain files with their sizes in bytes, and how many went while they were looked for.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: Vec<(PathBuf, u64)>,
    pub(crate) vanished: u64,
}

impl Found {
    /// Adds a file, or all files below a folder. A root must be there; what is below one may vanish
    /// meanwhile.
    pub(crate) fn add(&mut self, root: &Path) -> io::Result<()> {
        let kind = fs::symlink_metadata(root)?;
        if kind.is_file() {
            self.files.push((root.to_owned(), kind.len()));
        } else if kind.is_dir() {
            self.below(root)?;
        }
        Ok(())
    }

    fn below(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            match self.add(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => self.vanished += 1,
                done => done?,
            }
        }
        Ok(())
    }
}
