//! Reading files at the client site: for `decrypt` and `verify --deep`. (Enclaves read through
//! DataFusion, with [`footer::open`].)

use std::{
    io::BufRead,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use bytes::Bytes;
use coffer_format::{
    Column, Error as FormatError, FilePin, FooterPin, KekRetriever, OpenedFooter, footer, lengths,
    plain::reads_as,
};
use coffer_protocol::storage::Reach;
use coffer_sealing::KekSet;
use parquet::{
    arrow::arrow_reader::{
        ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
        ParquetRecordBatchReaderBuilder,
    },
    encryption::decrypt::FileDecryptionProperties,
    errors::ParquetError,
    file::reader::{ChunkReader, Length},
};

use crate::{
    Error, TableWrite, VerifiedManifest, convert, disk, foreign::NamedKeks, plain,
    stored::StoredReader, table_file::TableFile,
};

const BATCH_ROWS: usize = 16 * 1024;

/// The rows of one file, checked as far as they were read.
pub struct FileReader {
    rows: Rows,
    schema: SchemaRef,
    /// Parts of nested columns have other names in the file.
    renames: bool,
    left: Option<u64>,
}

enum Rows {
    Sealed(ParquetRecordBatchReader),
    Adopted(ParquetRecordBatchReader),
    Stored(Box<StoredReader>),
}

impl FileReader {
    /// A file of a table, all its columns. Size, footer and encryption are checked before a page is
    /// read. Of a column that is stored in several ways the one is read that costs least to open.
    pub fn open(table: &VerifiedManifest, pin: &FilePin) -> Result<Self, Error> {
        let schema = Arc::new(table.manifest().schema());
        if pin.adopted.is_some() {
            let keks = Arc::new(table.all_keks()?);
            return Self::adopted(
                table.reach(),
                &table.file_path(pin),
                pin,
                &table.footer_pin(pin),
                &keks,
                schema,
            );
        }
        let (modules, metadata) = Self::open_checked(table, pin)?;
        let rows = if table.manifest().stored.is_empty() {
            check_schema(&schema, &metadata)?;
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(modules, metadata);
            Rows::Sealed(builder.with_batch_size(BATCH_ROWS).build()?)
        } else {
            let reader =
                StoredReader::new(modules, metadata, table.codec()?, pin, false, BATCH_ROWS)?;
            Rows::Stored(Box::new(reader))
        };
        Ok(Self {
            rows,
            renames: schema
                .fields()
                .iter()
                .any(|field| field.data_type().is_nested()),
            schema,
            left: Some(pin.rows),
        })
    }

    /// A file that is being adopted.
    pub(crate) fn of_adopted(
        write: &TableWrite,
        pin: &FilePin,
        keks: &Arc<KekSet>,
    ) -> Result<Self, Error> {
        let path = write.folder().join(&pin.path);
        let schema = Schema::new(
            write
                .columns()
                .iter()
                .map(Column::field)
                .collect::<Vec<_>>(),
        );
        let footer_pin = FooterPin::of(write.table(), pin, false);
        Self::adopted(
            write.register.reach(),
            &path,
            pin,
            &footer_pin,
            keks,
            Arc::new(schema),
        )
    }

    fn adopted(
        reach: &Reach,
        path: &Path,
        pin: &FilePin,
        footer_pin: &FooterPin,
        keks: &Arc<KekSet>,
        schema: SchemaRef,
    ) -> Result<Self, Error> {
        let names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let (modules, opened) = open_pinned(reach, path, pin, footer_pin, keks, &names)?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            modules,
            plain::reader_metadata(&opened)?,
        );
        Ok(Self {
            rows: Rows::Adopted(builder.with_batch_size(BATCH_ROWS).build()?),
            schema,
            renames: true,
            left: Some(pin.rows),
        })
    }

    /// All stored columns of a file.
    pub(crate) fn open_stored(
        table: &VerifiedManifest,
        pin: &FilePin,
    ) -> Result<StoredReader, Error> {
        let (modules, metadata) = Self::open_checked(table, pin)?;
        StoredReader::new(modules, metadata, table.codec()?, pin, true, BATCH_ROWS)
    }

    fn open_checked(
        table: &VerifiedManifest,
        pin: &FilePin,
    ) -> Result<(Modules, ArrowReaderMetadata), Error> {
        let names = table.manifest().file_columns();
        let columns: Vec<&str> = names.iter().map(String::as_str).collect();
        let keks = Arc::new(table.all_keks()?);
        let path = table.file_path(pin);
        let footer_pin = table.footer_pin(pin);
        let (modules, opened) =
            open_pinned(table.reach(), &path, pin, &footer_pin, &keks, &columns)?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(opened.metadata()), options)?;
        Ok((modules, metadata))
    }

    /// Of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, Error> {
        let next = match &mut self.rows {
            // The crate panics on modules that are shorter than their nonce and tag.
            Rows::Sealed(reader) | Rows::Adopted(reader) => {
                catch_unwind(AssertUnwindSafe(|| reader.next()))
                    .map_err(|_| FormatError::ParquetPanic)?
                    .map(|batch| {
                        batch.map_err(|error| Error::from(FormatError::Parquet(error.to_string())))
                    })
            }
            Rows::Stored(reader) => reader
                .next_stored()
                .and_then(|next| {
                    next.map(|(batch, first)| reader.open(&batch, first))
                        .transpose()
                })
                .transpose(),
        };
        let Some(batch) = next else {
            return match self.left.take() {
                None | Some(0) => Ok(None),
                Some(left) => Err(FormatError::Parquet(format!("{left} rows are missing")).into()),
            };
        };
        let batch = batch?;
        let rows = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
        if let Some(left) = &mut self.left {
            *left = left
                .checked_sub(rows)
                .ok_or_else(|| FormatError::Parquet("there are more rows than written".into()))?;
        }
        // Also our own files call a map's entries otherwise than a table's schema does.
        if matches!(self.rows, Rows::Adopted(_)) || self.renames {
            return convert::to_schema(&batch, &self.schema).map(Some);
        }
        Ok(Some(RecordBatch::try_new(
            Arc::clone(&self.schema),
            batch.columns().to_vec(),
        )?))
    }
}

impl Iterator for FileReader {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Size and footer as pinned, before anything of the file is believed.
pub(crate) fn open_pinned(
    reach: &Reach,
    path: &Path,
    pin: &FilePin,
    footer_pin: &FooterPin,
    keks: &Arc<KekSet>,
    columns: &[&str],
) -> Result<(Modules, OpenedFooter), Error> {
    let (file, size) = match TableFile::open(reach, path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(FormatError::FileMissing(pin.path.clone()).into());
        }
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    if size != pin.size {
        return Err(Error::FileSize {
            file: pin.path.clone(),
            want: pin.size,
            got: size,
        });
    }
    let bytes = file
        .range(footer_pin.range()?)
        .map_err(Error::io("read", path))?;
    let opened = footer::open(bytes, footer_pin, keks, columns)?;
    Ok((Modules { file, size }, opened))
}

/// A single encrypted Parquet file that no manifest pins. Each module is authentic under its key;
/// whether it is the right file, nobody says. Nothing is demanded of columns that are not
/// encrypted.
pub fn open_foreign(path: &Path, keks: NamedKeks) -> Result<FileReader, Error> {
    let file = disk::open(path).map_err(Error::io("read", path))?;
    let keys =
        FileDecryptionProperties::with_key_retriever(Arc::new(KekRetriever::new(Arc::new(keks))))
            .build()?;
    let options = ArrowReaderOptions::new().with_file_decryption_properties(keys);
    let reader = catch_unwind(AssertUnwindSafe(|| {
        let metadata = ArrowReaderMetadata::load(&file, options)?;
        if let Some(closed) = closed_column(&metadata) {
            return Err(Error::from(FormatError::ColumnKeyMissing(closed)));
        }
        Ok(
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
                .with_batch_size(BATCH_ROWS)
                .build()?,
        )
    }))
    .unwrap_or(Err(FormatError::ParquetPanic.into()))?;
    let schema = arrow::array::RecordBatchReader::schema(&reader);
    Ok(FileReader {
        rows: Rows::Sealed(reader),
        schema,
        renames: false,
        left: None,
    })
}

/// The file's columns must be the table's.
fn check_schema(schema: &Schema, metadata: &ArrowReaderMetadata) -> Result<(), Error> {
    for (want, got) in schema.fields().iter().zip(metadata.schema().fields()) {
        let same = want.data_type() == got.data_type()
            || want.data_type().is_nested() && reads_as(got.data_type(), want.data_type());
        if want.name() != got.name() || !same {
            return Err(FormatError::BatchSchema(want.name().clone()).into());
        }
    }
    if schema.fields().len() == metadata.schema().fields().len() {
        Ok(())
    } else {
        Err(FormatError::BatchSchema("the number of columns".into()).into())
    }
}

/// A file of encrypted modules, each of which is looked at before the `parquet` crate allocates by
/// its length.
pub(crate) struct Modules {
    file: TableFile,
    size: u64,
}

impl Modules {
    /// The same file for another reader of it.
    pub(crate) fn again(&self) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::from(FormatError::Parquet(error.to_string()));
        Ok(Self {
            file: self.file.again().map_err(failed)?,
            size: self.size,
        })
    }

    /// A whole column chunk.
    pub(crate) fn whole(&self, start: u64, length: u64) -> Result<Bytes, Error> {
        let length = usize::try_from(length).map_err(|_| FormatError::Limit("column chunk"))?;
        Ok(self.get_bytes(start, length)?)
    }
}

impl Length for Modules {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Modules {
    type T = Box<dyn BufRead>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut read = self.file.get_read(start, self.size)?;
        if !coffer_sealing::OPEN_TABLES {
            let short = || ParquetError::EOF("a module lies outside of its file".to_owned());
            let length = u32::from_le_bytes(*read.fill_buf()?.first_chunk().ok_or_else(short)?);
            lengths::check_module_length(length)
                .map_err(|error| ParquetError::General(error.to_string()))?;
            if u64::from(length) > self.size.saturating_sub(start).saturating_sub(4) {
                return Err(short());
            }
        }
        Ok(read)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = u64::try_from(length)
            .ok()
            .and_then(|length| start.checked_add(length));
        match end {
            Some(end) if end <= self.size => self.file.get_bytes(start..end),
            _ => Err(ParquetError::EOF(
                "a page lies outside of its file".to_owned(),
            )),
        }
    }
}

fn closed_column(metadata: &ArrowReaderMetadata) -> Option<String> {
    let groups = metadata
        .metadata()
        .row_groups()
        .iter()
        .filter(|group| group.num_rows() > 0);
    let mut chunks = groups.flat_map(|group| group.columns());
    chunks
        .find(|chunk| chunk.num_values() == 0)
        .map(|chunk| chunk.column_path().string())
}
