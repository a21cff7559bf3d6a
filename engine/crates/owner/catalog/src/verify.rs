//! Checking a table against its manifest.

use std::{path::PathBuf, sync::Arc};

use coffer_format::{Error as FormatError, FilePin};

use crate::{Error, FileReader, MANIFEST_FOLDER, VerifiedManifest, clean, read::open_pinned};

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
    /// Files in the folder that no version names.
    pub extra: Vec<PathBuf>,
    /// Files that only older versions name, with the newest that does. They are no defect: nobody
    /// reads them.
    pub superseded: Vec<(PathBuf, u64)>,
}

impl Report {
    /// Whether nothing was found.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.extra.is_empty()
    }
}

/// Checks a table whose manifest was already verified: the chain of manifests, that every file is
/// there with size, footer and encryption as pinned, and that there is no other. `deep`: every page
/// decrypts, rows count up, and what a column is stored as is the same everywhere. `step` is called
/// after each file with its size.
pub fn verify(
    table: &VerifiedManifest,
    deep: bool,
    mut step: impl FnMut(u64),
) -> Result<Report, Error> {
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
    let beside = clean::beside(table)?;
    report.extra = beside.extra;
    report.superseded = beside.superseded;
    Ok(report)
}

fn check(table: &VerifiedManifest, pin: &FilePin) -> Result<(), Error> {
    let path = table.file_path(pin);
    let names = table.manifest().file_columns();
    let columns: Vec<&str> = names.iter().map(String::as_str).collect();
    let keks = Arc::new(table.all_keks()?);
    let footer_pin = table.footer_pin(pin);
    open_pinned(table.reach(), &path, pin, &footer_pin, &keks, &columns).map(|_| ())
}

fn deep_check(table: &VerifiedManifest, pin: &FilePin) -> Result<u64, Error> {
    let mut rows = 0_u64;
    if !table.manifest().stored.is_empty() {
        let mut reader = FileReader::open_stored(table, pin)?;
        while let Some((batch, first)) = reader.next_stored()? {
            reader.check(&batch, first)?;
            rows = rows.saturating_add(u64::try_from(batch.num_rows()).unwrap_or(0));
        }
        return if rows == pin.rows {
            Ok(rows)
        } else {
            Err(FormatError::FooterRows {
                want: pin.rows,
                got: rows,
            }
            .into())
        };
    }
    for batch in FileReader::open(table, pin)? {
        rows = rows.saturating_add(u64::try_from(batch?.num_rows()).unwrap_or(0));
    }
    Ok(rows)
}
