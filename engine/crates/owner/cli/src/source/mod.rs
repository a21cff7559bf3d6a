//! Where rows come from: Parquet, CSV or text, cut into units that threads take one by one. A unit
//! becomes a row group.

mod csv;
mod csv_values;
mod parquet;
mod text;

use std::path::{Path, PathBuf};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use coffer_format::{Digest, SparkType};

use crate::{
    args::{Encrypt, Format},
    failure::{Exit, Failure},
};

/// Rows of a unit, about.
pub(crate) const UNIT_ROWS: u64 = 1 << 20;
/// Below this a second thread does not pay.
pub(crate) const LEAST_ROWS: u64 = 1 << 16;

/// An opened source.
pub(crate) enum Source {
    Parquet(parquet::ParquetSource),
    Csv(csv::CsvSource),
    Text(text::TextSource),
}

impl Source {
    /// Finds the files, reads schemas, infers types.
    pub(crate) fn open(args: &Encrypt, threads: usize) -> Result<Self, Failure> {
        let (files, format) = find(&args.src, args.format)?;
        let has = match format {
            Format::Parquet => Some("Parquet has a schema of its own"),
            Format::Csv => None,
            Format::Text => Some("text has one column, `value`"),
        };
        if let (Some(has), Some(_)) = (has, &args.schema) {
            return Err(Failure::usage(format!("--schema is for CSV; {has}")));
        }
        Ok(match format {
            Format::Parquet => Self::Parquet(parquet::ParquetSource::open(files, threads)?),
            Format::Csv => Self::Csv(csv::CsvSource::open(files, args, threads)?),
            Format::Text => Self::Text(text::TextSource::open(files, threads)?),
        })
    }

    pub(crate) fn columns(&self) -> &[(String, SparkType, bool)] {
        match self {
            Self::Parquet(source) => &source.columns,
            Self::Csv(source) => &source.columns,
            Self::Text(source) => &source.columns,
        }
    }

    pub(crate) fn units(&self) -> usize {
        match self {
            Self::Parquet(source) => source.units(),
            Self::Csv(source) => source.units(),
            Self::Text(source) => source.units(),
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        match self {
            Self::Parquet(source) => source.rows,
            Self::Csv(source) => source.rows,
            Self::Text(source) => source.rows,
        }
    }

    /// Hands the rows of a unit, in the table's schema, to `take`.
    pub(crate) fn read(
        &self,
        unit: usize,
        schema: &SchemaRef,
        take: &mut dyn FnMut(RecordBatch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            Self::Parquet(source) => source.read(unit, schema, take),
            Self::Csv(source) => source.read(unit, schema, take),
            Self::Text(source) => source.read(unit, schema, take),
        }
    }
}

/// What decides which rows a unit has: the files as they are now, and how they are read. A write
/// that was interrupted goes on for the same only.
pub(crate) fn job(args: &Encrypt, threads: usize) -> Result<Digest, Failure> {
    let (files, format) = find(&args.src, args.format)?;
    let mut text = format!(
        "1 {format:?} {threads} {} {} {:?} {:?} {:?} {:?} {} {}",
        args.header,
        args.no_header,
        args.delimiter,
        args.quote,
        args.null_value,
        args.schema,
        args.memory,
        args.shuffle_rows
    );
    for file in files {
        let failed = |error| Failure::io("read", &file, error);
        let path = std::fs::canonicalize(&file).map_err(failed)?;
        let found = std::fs::metadata(&file).map_err(failed)?;
        let modified = found.modified().map_err(failed)?;
        text.push_str(&format!("\n{path:?} {} {modified:?}", found.len()));
    }
    Ok(Digest::of(text.as_bytes()))
}

fn find(src: &Path, format: Option<Format>) -> Result<(Vec<PathBuf>, Format), Failure> {
    let metadata = std::fs::metadata(src).map_err(|error| Failure::io("read", src, error))?;
    if metadata.is_file() {
        let format = format
            .or_else(|| format_of(src))
            .ok_or_else(|| unknown(src))?;
        return Ok((vec![src.to_owned()], format));
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(src).map_err(|error| Failure::io("read", src, error))? {
        let path = entry
            .map_err(|error| Failure::io("read", src, error))?
            .path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name == coffer_catalog::MANIFEST_FOLDER {
            return Err(Failure::usage(format!(
                "{} is a sealed table already",
                src.display()
            )));
        }
        if name.starts_with(['_', '.']) {
            continue;
        }
        if path.is_dir() {
            return Err(
                Failure::usage(format!("{} has the folder {name} in it", src.display())).hint(
                    "partitioned folders are not supported yet: their columns are in the \
                    folders' names",
                ),
            );
        }
        files.push(path);
    }
    files.sort();
    let mut formats: Vec<Option<Format>> = files.iter().map(|file| format_of(file)).collect();
    formats.dedup();
    match (format, formats.as_slice()) {
        (_, []) => Err(Failure::usage(format!(
            "{} has no files in it",
            src.display()
        ))),
        (Some(format), _) => Ok((files, format)),
        (None, [Some(format)]) => Ok((files, *format)),
        _ => Err(unknown(src)),
    }
}

fn format_of(file: &Path) -> Option<Format> {
    match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "parquet" | "parq" => Some(Format::Parquet),
        "csv" | "tsv" | "tbl" => Some(Format::Csv),
        "txt" | "text" => Some(Format::Text),
        _ => None,
    }
}

fn unknown(src: &Path) -> Failure {
    Failure::usage(format!("it is not clear what {} holds", src.display())).hint(
        "say --format parquet, csv or text; the files' names end in .parquet, .csv or .txt \
         otherwise",
    )
}

/// A source's bytes that cannot be read.
pub(crate) fn malformed(file: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::new(
        Exit::Check,
        format!("{} cannot be read: {error}", file.display()),
    )
}
