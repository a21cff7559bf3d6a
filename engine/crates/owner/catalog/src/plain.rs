//! Plain Parquet files beside sealed tables: inputs that are not verified.
//!
//! Only what the policy lists as `unverified_inputs` is opened so. The client site reads the
//! footers once and pins them, and before a query's first task runs also each column chunk that it
//! reads ([`ChunkPins`]), so that all tasks of a query, and all their repeats, read the same bytes;
//! what the host put there before nobody can tell. A sealed file never passes for a plain one, nor
//! a plain one for a sealed one: the magics differ, and who asks says which.

mod pins;

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::datatypes::{DataType, TimeUnit};
use coffer_format::{
    Digest, Error as FormatError, OpenedFooter, RowGroupPin, SparkType, UnsupportedType,
    footer::{TAIL_LEN, leaf_places},
    plain::{PlainPin, arrow_schema, parse, split, tail_length},
    writer::column_bytes,
};
use coffer_protocol::storage::{Reach, url};
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    file::metadata::{ColumnChunkMetaData, KeyValue, ParquetMetaData},
};

use crate::{Error, convert, table_file::TableFile};

pub use pins::ChunkPins;

/// Set by Spark 2 and by Spark's legacy mode: dates and times are in the Julian calendar
/// before 1582.
const LEGACY: [&str; 2] = [
    "org.apache.spark.legacyDateTime",
    "org.apache.spark.legacyINT96",
];

/// Name, type, nullable.
pub type PlainColumn = (String, SparkType, bool);

/// A plain file, as it was when it was opened.
#[derive(Debug, Clone)]
pub struct PlainFile {
    /// Absolute, or a URL.
    pub path: PathBuf,
    /// Of its footer.
    pub pin: PlainPin,
    /// In order.
    pub row_groups: Vec<RowGroupPin>,
    /// By row group, then leaf: where its bytes lie.
    chunks: Vec<Vec<Range<u64>>>,
    /// By leaf: the place of its column.
    columns: Vec<usize>,
}

/// Plain files that are read as one table.
#[derive(Debug, Clone)]
pub struct PlainTable {
    /// In the order given.
    pub files: Vec<PlainFile>,
    /// Name, type, nullable: those that all files have.
    pub columns: Vec<PlainColumn>,
    /// Stored bytes of each column, over all files.
    pub column_bytes: Vec<u64>,
}

impl PlainTable {
    /// Opens files of the same columns. A column that this version cannot read as Spark does is an
    /// error.
    pub fn open(paths: &[PathBuf], reach: &Reach) -> Result<Self, Error> {
        let mut table = Self {
            files: Vec::with_capacity(paths.len()),
            columns: vec![],
            column_bytes: vec![],
        };
        for path in paths {
            let (file, metadata) = pin(path, reach)?;
            let columns = columns(&metadata, path)?;
            if table.files.is_empty() {
                table.column_bytes = vec![0; columns.len()];
                table.columns = columns;
            } else if !merge(&mut table.columns, columns) {
                return Err(Error::PlainColumns(path.clone()));
            }
            let bytes = column_bytes(&metadata, table.columns.len());
            for (sum, bytes) in table.column_bytes.iter_mut().zip(bytes) {
                *sum = sum.saturating_add(bytes);
            }
            table.files.push(file);
        }
        Ok(table)
    }

    /// Of all files.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.pin.rows).sum()
    }

    /// Stands for these very files: two tables of the same digest are the same.
    pub fn digest(&self) -> Digest {
        let mut text = Vec::new();
        for file in &self.files {
            text.extend_from_slice(file.path.as_os_str().as_encoded_bytes());
            text.push(0);
            text.extend_from_slice(file.pin.footer_sha256.as_bytes());
            text.extend_from_slice(&file.pin.size.to_le_bytes());
        }
        Digest::of(&text)
    }
}

/// What the `parquet` crate reads a file by that others wrote: instants in microseconds, which have
/// Spark's range.
pub(crate) fn reader_metadata(opened: &OpenedFooter) -> Result<ArrowReaderMetadata, Error> {
    let metadata = opened.metadata();
    let options = ArrowReaderOptions::new()
        .with_skip_arrow_metadata(true)
        .with_schema(Arc::new(arrow_schema(metadata)?));
    Ok(ArrowReaderMetadata::try_new(Arc::clone(metadata), options)?)
}

/// One file's columns as those of all files before it: nullable where they are in any. False if
/// names or types differ.
pub(crate) fn merge(columns: &mut [PlainColumn], others: Vec<PlainColumn>) -> bool {
    let alike = |(a, b): (&PlainColumn, &PlainColumn)| (&a.0, &a.1) == (&b.0, &b.1);
    if columns.len() != others.len() || !columns.iter().zip(&others).all(alike) {
        return false;
    }
    for (column, other) in columns.iter_mut().zip(others) {
        column.2 |= other.2;
    }
    true
}

/// The columns of a file that others wrote, as Spark has them.
pub(crate) fn columns(metadata: &ParquetMetaData, path: &Path) -> Result<Vec<PlainColumn>, Error> {
    let legacy = |note: &KeyValue| LEGACY.contains(&note.key.as_str());
    if metadata
        .file_metadata()
        .key_value_metadata()
        .is_some_and(|notes| notes.iter().any(legacy))
    {
        return Err(Error::PlainCalendar(path.to_owned()));
    }
    let schema = arrow_schema(metadata)?;
    for field in schema.fields() {
        if has_nanos(field.data_type()) {
            return Err(Error::PlainNanos(field.name().clone()));
        }
    }
    let columns = convert::columns_of(&schema)?;
    for (column, kind, _) in &columns {
        if let Some(reason) = kind.unfit_names() {
            return Err(FormatError::from(UnsupportedType {
                column: column.clone(),
                found: kind.to_string(),
                reason,
            })
            .into());
        }
    }
    Ok(columns)
}

fn has_nanos(found: &DataType) -> bool {
    match found {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => true,
        DataType::List(inner)
        | DataType::LargeList(inner)
        | DataType::FixedSizeList(inner, _)
        | DataType::Map(inner, _) => has_nanos(inner.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_nanos(field.data_type())),
        _ => false,
    }
}

fn pin(path: &Path, reach: &Reach) -> Result<(PlainFile, ParquetMetaData), Error> {
    let io = |error| Error::io("read", path)(error);
    let (file, size) = TableFile::open(reach, path).map_err(io)?;
    let tail = size.checked_sub(TAIL_LEN).ok_or(FormatError::PlainMagic)?;
    let tail = file.range(tail..size).map_err(io)?;
    let length = tail_length(&tail)?;
    let start = size
        .checked_sub(length.saturating_add(TAIL_LEN))
        .ok_or(FormatError::PlainMagic)?;
    let bytes = file.range(start..size).map_err(io)?;
    let digest = Digest::of(split(&bytes)?.0);
    let metadata = parse(bytes, size)?;
    let row_groups = metadata
        .row_groups()
        .iter()
        .map(|group| RowGroupPin {
            rows: unsigned(group.num_rows()),
            bytes: unsigned(group.compressed_size()),
        })
        .collect();
    let chunks = metadata
        .row_groups()
        .iter()
        .map(|group| {
            group
                .columns()
                .iter()
                .map(|chunk| chunk_range(chunk, size))
                .collect()
        })
        .collect::<Result<_, _>>()?;
    let pinned = PlainFile {
        path: match url(path) {
            Some(_) => path.to_owned(),
            None => fs::canonicalize(path).map_err(io)?,
        },
        pin: PlainPin {
            size,
            rows: unsigned(metadata.file_metadata().num_rows()),
            footer_length: length,
            footer_sha256: digest,
        },
        row_groups,
        chunks,
        columns: leaf_places(metadata.file_metadata().schema_descr())
            .iter()
            .map(|place| place.column)
            .collect(),
    };
    Ok((pinned, metadata))
}

/// Where a column chunk lies. All of these numbers are the host's.
fn chunk_range(chunk: &ColumnChunkMetaData, size: u64) -> Result<Range<u64>, Error> {
    let outside = Error::from(FormatError::ParquetLength(
        "a column chunk lies outside of its file",
    ));
    let first = match chunk.dictionary_page_offset() {
        Some(dictionary) => dictionary,
        None => chunk.data_page_offset(),
    };
    let (Ok(start), Ok(length)) = (u64::try_from(first), u64::try_from(chunk.compressed_size()))
    else {
        return Err(outside);
    };
    match start.checked_add(length) {
        Some(end) if end <= size => Ok(start..end),
        _ => Err(outside),
    }
}

/// Whether an open file still ends in the pinned footer.
fn still_ends_so(file: &TableFile, size: u64, path: &Path, pin: &PlainPin) -> Result<(), Error> {
    let io = |error| Error::io("read", path)(error);
    let bytes = match size == pin.size {
        true => file.range(pin.range()?).map_err(io)?,
        false => return Err(FormatError::PlainChanged.into()),
    };
    let same = split(&bytes).is_ok_and(|(footer, _)| Digest::of(footer) == pin.footer_sha256);
    if same {
        Ok(())
    } else {
        Err(FormatError::PlainChanged.into())
    }
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;
    use coffer_format::plain::{MAGIC, MAX_FOOTER};

    #[test]
    fn a_footer_is_not_read_when_it_says_that_it_is_longer_than_any() {
        // The file has holes only: what it says of its footer's length is there, and takes no disk.
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let claimed = u32::try_from(MAX_FOOTER + 1).unwrap();
        file.seek(SeekFrom::Start(u64::from(claimed))).unwrap();
        file.write_all(&claimed.to_le_bytes()).unwrap();
        file.write_all(&MAGIC).unwrap();
        let opened = PlainTable::open(&[file.path().to_owned()], &None);
        assert!(
            matches!(opened, Err(Error::Format(FormatError::PlainFooter(length)))
                if length == u64::from(claimed)),
            "{opened:?}"
        );
    }
}
