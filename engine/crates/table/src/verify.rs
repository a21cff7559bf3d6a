//! Checking a table against its manifest, and clearing away what interrupted writers left.

use std::{
    collections::HashSet,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Error, FilePin, FileReader, MANIFEST_FOLDER, Register, TableRecord, VerifiedManifest, disk, footer,
    open::version_of, read::read_range,
};

/// What was found wrong with one file.
#[derive(Debug)]
pub struct Finding {
    /// Relative to the table's folder.
    pub file: String,
    /// What.
    pub error: Error,
}

/// What a check found. The table is sound when `findings` and `extra` are empty.
#[derive(Debug, Default)]
pub struct Report {
    /// How many versions' manifests were followed back.
    pub versions: u64,
    /// Files checked.
    pub files: u64,
    /// Rows decrypted (deep check only).
    pub rows_read: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Files in the folder that the manifest does not name.
    pub extra: Vec<PathBuf>,
}

impl Report {
    /// Whether nothing was found.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.extra.is_empty()
    }
}

/// Checks a table whose manifest was already verified: the chain of manifests, that every file is there with size, footer
/// and encryption as pinned, and that there is no other. `deep`: every page decrypts, and rows count up.
/// `step` is called after each file with its size.
pub fn verify(table: &VerifiedManifest, deep: bool, mut step: impl FnMut(u64)) -> Result<Report, Error> {
    let mut report = Report::default();
    match table.check_chain() {
        Ok(versions) => report.versions = versions,
        Err(error) => report.findings.push(Finding {
            file: MANIFEST_FOLDER.to_owned(),
            error,
        }),
    }
    for pin in &table.manifest().files {
        let checked = if deep {
            deep_check(table, pin)
        } else {
            check(table, pin).map(|()| 0)
        };
        match checked {
            Ok(rows) => report.rows_read = report.rows_read.saturating_add(rows),
            Err(error) => report.findings.push(Finding {
                file: pin.path.clone(),
                error,
            }),
        }
        report.files = report.files.saturating_add(1);
        step(pin.size);
    }
    report.extra = extra_files(table)?;
    Ok(report)
}

fn check(table: &VerifiedManifest, pin: &FilePin) -> Result<(), Error> {
    let path = table.file_path(pin);
    let mut file = File::open(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::FileMissing(pin.path.clone()),
        _ => Error::io("read", &path)(error),
    })?;
    let size = file.metadata().map_err(Error::io("read", &path))?.len();
    if size != pin.size {
        return Err(Error::FileSize {
            file: pin.path.clone(),
            want: pin.size,
            got: size,
        });
    }
    let footer_pin = table.footer_pin(pin);
    let bytes = read_range(&mut file, footer_pin.range()?).map_err(Error::io("read", &path))?;
    let columns: Vec<&str> = table
        .manifest()
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    footer::open(bytes.into(), &footer_pin, &Arc::new(table.all_keks()?), &columns).map(|_| ())
}

fn deep_check(table: &VerifiedManifest, pin: &FilePin) -> Result<u64, Error> {
    let mut rows = 0_u64;
    for batch in FileReader::open(table, pin)? {
        rows = rows.saturating_add(u64::try_from(batch?.num_rows()).unwrap_or(0));
    }
    Ok(rows)
}

/// Everything in the folder but the manifest's files and the manifests up to its version.
fn extra_files(table: &VerifiedManifest) -> Result<Vec<PathBuf>, Error> {
    let known: HashSet<&str> = table.manifest().files.iter().map(|file| file.path.as_str()).collect();
    let mut extra = Vec::new();
    for name in names(table.folder())? {
        if name != MANIFEST_FOLDER && !name.to_str().is_some_and(|name| known.contains(name)) {
            extra.push(PathBuf::from(name));
        }
    }
    for name in names(&table.folder().join(MANIFEST_FOLDER))? {
        let version = name.to_str().and_then(version_of);
        if !version.is_some_and(|version| (1..=table.manifest().version).contains(&version)) {
            extra.push(Path::new(MANIFEST_FOLDER).join(name));
        }
    }
    extra.sort();
    Ok(extra)
}

fn names(folder: &Path) -> Result<Vec<std::ffi::OsString>, Error> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", folder)(error)),
    };
    entries
        .map(|entry| entry.map(|entry| entry.file_name()).map_err(Error::io("read", folder)))
        .collect()
}

/// Whether a file has the form of those that interrupted writers leave. Others are named, never removed.
fn is_leftover(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let part = name
        .strip_prefix("part-")
        .and_then(|rest| rest.strip_suffix(".parquet"));
    let hex = |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    part.is_some_and(|part| hex(part, 32)) || name.strip_prefix(disk::TEMPORARY).is_some_and(|rest| hex(rest, 16))
}

/// Removes the leftovers among a report's extra files; gives those removed.
pub fn clean(table: &VerifiedManifest, report: &Report) -> Result<Vec<PathBuf>, Error> {
    remove_leftovers(table.folder(), &report.extra)
}

fn remove_leftovers(folder: &Path, files: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut removed = Vec::new();
    for file in files.iter().filter(|file| is_leftover(file)) {
        let path = folder.join(file);
        fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        removed.push(file.clone());
    }
    Ok(removed)
}

/// What a table that was never finished left in its folder.
pub fn unfinished_files(record: &TableRecord) -> Result<Vec<PathBuf>, Error> {
    let mut files: Vec<_> = names(&record.path)?
        .into_iter()
        .filter(|name| name != MANIFEST_FOLDER)
        .map(PathBuf::from)
        .collect();
    let inner = names(&record.path.join(MANIFEST_FOLDER))?;
    files.extend(inner.into_iter().map(|name| Path::new(MANIFEST_FOLDER).join(name)));
    files.sort();
    Ok(files)
}

/// Clears away a table that was never finished: its leftovers, its folder if then empty, and its record. A table with a
/// committed version is left alone.
pub fn clean_unfinished(register: &Register, record: &TableRecord) -> Result<Vec<PathBuf>, Error> {
    let record = register
        .by_id(record.id)?
        .ok_or_else(|| Error::UnknownTable(record.name.clone()))?;
    if record.committed.is_some() {
        return Err(Error::NameTaken(record.name));
    }
    let removed = remove_leftovers(&record.path, &unfinished_files(&record)?)?;
    // Not empty means that somebody else's files are there; they stay, and so does the folder.
    let _ = fs::remove_dir(record.path.join(MANIFEST_FOLDER));
    let _ = fs::remove_dir(&record.path);
    register.remove(record.id)?;
    Ok(removed)
}
