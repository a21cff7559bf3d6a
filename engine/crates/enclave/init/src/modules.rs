//! Modules of the kernel, which the image has in the order in which they need each other.

use std::{
    ffi::CStr,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rustix::{io::Errno, system::finit_module};

use crate::InitError;

const NO_PARAMETERS: &CStr = c"";

/// Loads those without which nothing works, and of the others those for which there is hardware:
/// SEV's does not load on an Intel machine.
pub(crate) fn load(needed: &Path, optional: &Path) -> Result<(), InitError> {
    for path in files(needed)? {
        insert(&path).map_err(|error| InitError::Module(path, error.into()))?;
    }
    for path in files(optional)? {
        if let Err(error) = insert(&path) {
            eprintln!("info: not loaded: {}: {error}", path.display());
        }
    }
    Ok(())
}

fn insert(path: &Path) -> Result<(), Errno> {
    let file =
        File::open(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    match finit_module(&file, NO_PARAMETERS, 0) {
        Err(Errno::EXIST) => Ok(()),
        loaded => loaded,
    }
}

/// The files of a folder, by name: names begin with numbers.
fn files(folder: &Path) -> Result<Vec<PathBuf>, InitError> {
    let failed = |error: io::Error| InitError::File(folder.to_owned(), error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["10-b.ko", "00-z.ko", "05-a.ko"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        fs::create_dir(folder.path().join("optional")).unwrap();
        let found = files(folder.path()).unwrap();
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["00-z.ko", "05-a.ko", "10-b.ko"]);
        assert!(files(Path::new("/no/such/folder")).is_err());
    }
}
