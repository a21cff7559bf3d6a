//! Reading a file of stored columns at the client site, row group by row group.
//!
//! Column chunks that lie unencrypted are read whole, and neither parsed nor opened before their
//! digest was found to be the pinned one.

use std::{
    io::Read,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::Schema,
};
use bytes::{Buf, Bytes};
use coffer_format::{
    Digest, Error as FormatError, FilePin, RowEncoder, StoredColumn,
    footer::{LeafPlace, leaf_places},
    lengths,
    plain::reads_as,
    stored_column::FILE_ID,
};
use coffer_schemes::RowPositions;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{
            ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
        },
    },
    errors::ParquetError,
    file::reader::{ChunkReader, Length},
};

use crate::{Error, convert, read::Modules, stored::Codec};

/// Reads some stored columns of a file, or the table's columns out of them.
pub(crate) struct StoredReader {
    modules: Modules,
    metadata: ArrowReaderMetadata,
    codec: Codec,
    places: Vec<LeafPlace>,
    file: [u8; FILE_ID],
    /// By row group, and then by unencrypted stored column.
    digests: Vec<Vec<Digest>>,
    batch_rows: usize,
    /// Positions of what is read, ascending.
    wanted: Vec<usize>,
    next_group: usize,
    group: Option<ParquetRecordBatchReader>,
    /// The number of the next row.
    row: u64,
}

impl StoredReader {
    /// `all`: every stored column, not just the cheapest to open of each column.
    pub(crate) fn new(
        modules: Modules,
        metadata: ArrowReaderMetadata,
        codec: Codec,
        pin: &FilePin,
        all: bool,
        batch_rows: usize,
    ) -> Result<Self, Error> {
        let stored = codec.stored();
        let fields = metadata.schema().fields();
        let same = |(stored, field): (&StoredColumn, &Arc<arrow::datatypes::Field>)| {
            field.name() == &stored.name() && reads_as(field.data_type(), &stored.kind.to_arrow())
        };
        if fields.len() != stored.len() || !stored.iter().zip(fields).all(same) {
            return Err(FormatError::BatchSchema("of the stored columns".into()).into());
        }
        let file = pin
            .aad_prefix
            .as_slice()
            .try_into()
            .map_err(|_| Error::FilePath)?;
        let wanted = if all {
            (0..stored.len()).collect()
        } else {
            cheapest(stored)
        };
        Ok(Self {
            modules,
            places: leaf_places(metadata.parquet_schema()),
            metadata,
            file,
            digests: pin.chunks.clone(),
            batch_rows,
            wanted,
            codec,
            next_group: 0,
            group: None,
            row: 0,
        })
    }

    /// The next rows of what is read, in the order of the files' columns, and the number of the
    /// first one.
    pub(crate) fn next_stored(&mut self) -> Result<Option<(RecordBatch, u64)>, Error> {
        loop {
            if self.group.is_none() && !self.open_group()? {
                return Ok(None);
            }
            let Some(group) = &mut self.group else {
                return Ok(None);
            };
            // The crate panics on malformed bytes.
            let next = catch_unwind(AssertUnwindSafe(|| group.next()))
                .map_err(|_| FormatError::ParquetPanic)?;
            match next {
                None => self.group = None,
                Some(batch) => {
                    let batch = batch
                        .map_err(|error| Error::from(FormatError::Parquet(error.to_string())))?;
                    let batch = self.renamed(batch)?;
                    let first = self.row;
                    self.row =
                        first.saturating_add(u64::try_from(batch.num_rows()).unwrap_or(u64::MAX));
                    return Ok(Some((batch, first)));
                }
            }
        }
    }

    /// Rows whose nested columns have parts of the names that a table's have.
    fn renamed(&self, batch: RecordBatch) -> Result<RecordBatch, Error> {
        if !batch
            .columns()
            .iter()
            .any(|column| column.data_type().is_nested())
        {
            return Ok(batch);
        }
        let wanted = self
            .wanted
            .iter()
            .filter_map(|at| self.codec.stored().get(*at));
        let fields: Vec<_> = wanted.map(StoredColumn::field).collect();
        convert::to_schema(&batch, &Arc::new(Schema::new(fields)))
    }

    /// The table's columns of rows that [`StoredReader::next_stored`] gave.
    pub(crate) fn open(&self, batch: &RecordBatch, first_row: u64) -> Result<RecordBatch, Error> {
        let position = RowPositions::File {
            file: self.file,
            first_row,
        };
        let stored = self.codec.stored();
        let columns = cheapest(stored)
            .into_iter()
            .map(|at| {
                let place_in_batch = self.wanted.iter().position(|wanted| *wanted == at);
                let array = place_in_batch.and_then(|at| batch.columns().get(at));
                let array = array
                    .ok_or_else(|| FormatError::BatchSchema("of the stored columns".into()))?;
                let of = stored.get(at).map_or(0, |stored| stored.column);
                Ok((of, self.codec.open(at, array, position)?))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let columns = self
            .codec
            .columns()
            .iter()
            .map(|column| {
                let opened = columns.iter().find(|(of, _)| *of == column.id);
                opened
                    .map(|(_, array)| Arc::clone(array))
                    .ok_or_else(|| Error::NotOpenable(column.name.clone()))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(self.codec.logical_schema());
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }

    /// Whether all stored columns of these rows hold the same values, and say the right places. Of
    /// a reader of all of them.
    pub(crate) fn check(&self, batch: &RecordBatch, first_row: u64) -> Result<(), Error> {
        let opened = self.open(batch, first_row)?;
        let wanted = self.codec.encode(&opened, self.file, first_row)?;
        for ((stored, found), wanted) in self
            .codec
            .stored()
            .iter()
            .zip(batch.columns())
            .zip(wanted.columns())
        {
            if found != wanted {
                let column = self
                    .codec
                    .column_of(stored)
                    .map(|column| column.name.clone());
                return Err(Error::Stale {
                    column: column.unwrap_or_else(|| stored.name()),
                    encoding: stored.encoding,
                });
            }
        }
        Ok(())
    }

    fn open_group(&mut self) -> Result<bool, Error> {
        let at = self.next_group;
        let Some(group) = self.metadata.metadata().row_groups().get(at) else {
            return Ok(false);
        };
        self.next_group = at.saturating_add(1);
        let mut digests = self.digests.get(at).into_iter().flatten();
        let mut clear = Vec::new();
        for (chunk, place) in group.columns().iter().zip(&self.places) {
            let position = place.column;
            let stored = self.codec.stored().get(position);
            if !stored.is_some_and(|stored| stored.encoding.is_clear()) {
                continue;
            }
            let digest = digests.next().ok_or(FormatError::ChunkDigest)?;
            if self.wanted.contains(&position) {
                let (start, length) = chunk.byte_range();
                let bytes = self.modules.whole(start, length)?;
                lengths::check_clear_chunk(&bytes, digest)?;
                clear.push((start, bytes));
            }
        }
        let mask =
            ProjectionMask::roots(self.metadata.parquet_schema(), self.wanted.iter().copied());
        let source = Group {
            modules: self.modules.again()?,
            clear,
        };
        let metadata = self.metadata.clone();
        let rows = self.batch_rows;
        let reader = catch_unwind(AssertUnwindSafe(|| {
            ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata)
                .with_projection(mask)
                .with_row_groups(vec![at])
                .with_batch_size(rows)
                .build()
        }))
        .map_err(|_| FormatError::ParquetPanic)??;
        self.group = Some(reader);
        Ok(true)
    }
}

/// Of each column the stored one that costs least to open, ascending.
fn cheapest(stored: &[StoredColumn]) -> Vec<usize> {
    let cost = |stored: &StoredColumn| {
        stored
            .encoding
            .protection()
            .map(|protection| protection.row().cost.open)
    };
    let candidates = || {
        stored
            .iter()
            .enumerate()
            .filter(|(_, stored)| stored.opens())
    };
    let best = |(at, of): (usize, &StoredColumn)| {
        let others = candidates().filter(|(_, other)| other.column == of.column);
        let best = others
            .min_by_key(|(_, other)| cost(other))
            .map(|(best, _)| best);
        (best == Some(at)).then_some(at)
    };
    candidates().filter_map(best).collect()
}

/// A row group's bytes: its unencrypted column chunks, checked, and the file with the others.
struct Group {
    modules: Modules,
    clear: Vec<(u64, Bytes)>,
}

impl Group {
    /// The rest of an unencrypted column chunk from here on, if this is in one.
    fn clear_from(&self, start: u64) -> Option<Bytes> {
        self.clear.iter().find_map(|(first, bytes)| {
            let at = usize::try_from(start.checked_sub(*first)?).ok()?;
            (at < bytes.len()).then(|| bytes.slice(at..))
        })
    }
}

impl Length for Group {
    fn len(&self) -> u64 {
        self.modules.len()
    }
}

impl ChunkReader for Group {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        match self.clear_from(start) {
            Some(bytes) => Ok(Box::new(bytes.reader())),
            None => Ok(Box::new(self.modules.get_read(start)?)),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self.clear_from(start) {
            Some(bytes) if length <= bytes.len() => Ok(bytes.slice(..length)),
            Some(_) => Err(ParquetError::EOF(
                "a page lies outside of its column chunk".to_owned(),
            )),
            None => self.modules.get_bytes(start, length),
        }
    }
}
