//! Between a table's columns and its stored columns, at the client site.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{ArrayRef, BinaryArray, Decimal128Array, Int64Array, RecordBatch, RecordBatchOptions},
    datatypes::{Schema, SchemaRef},
};
use coffer_custody::{LinkKey, TableKey};
use coffer_format::{
    Column, Error as FormatError, RowEncoder, SparkType, StoredColumn, StoredEncoding,
    stored_column::FILE_ID,
};
use coffer_schemes::{ColumnSpec, Domain, FileIds, Protection, RowPositions, Scheme, SchemeKey};
use coffer_sealing::LinkId;

use crate::Error;

/// The keys of the links that a table's columns are in.
pub type LinkKeys = BTreeMap<LinkId, LinkKey>;

/// Encrypts and opens the columns of one table. Holds keys, so it never leaves the client site.
#[derive(Clone)]
pub struct Codec {
    columns: Arc<[Column]>,
    stored: Arc<[StoredColumn]>,
    /// One for each stored column that is a column's.
    schemes: Arc<[Option<Arc<dyn Scheme>>]>,
    schema: SchemaRef,
    logical_schema: SchemaRef,
}

impl Codec {
    pub(crate) fn new(
        key: &TableKey,
        links: &LinkKeys,
        columns: &[Column],
        stored: &[StoredColumn],
    ) -> Result<Self, Error> {
        let scheme_of = |stored: &StoredColumn| {
            let column = columns.iter().find(|column| column.id == stored.column);
            column
                .map(|column| scheme(key, links, column, stored))
                .transpose()
        };
        let schemes: Vec<_> = stored.iter().map(scheme_of).collect::<Result<_, _>>()?;
        let fields: Vec<_> = stored.iter().map(StoredColumn::field).collect();
        Ok(Self {
            columns: columns.into(),
            stored: stored.into(),
            schemes: schemes.into(),
            schema: Arc::new(Schema::new(fields)),
            logical_schema: Arc::new(Schema::new(
                columns.iter().map(Column::field).collect::<Vec<_>>(),
            )),
        })
    }

    /// What is stored, in order.
    pub fn stored(&self) -> &[StoredColumn] {
        &self.stored
    }

    /// Of what is stored.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The table's columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Of the table's columns.
    pub(crate) fn logical_schema(&self) -> &SchemaRef {
        &self.logical_schema
    }

    /// The position of a stored column, by its name in the files.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.stored.iter().position(|stored| stored.name() == name)
    }

    /// The column that a stored one holds.
    pub fn column_of(&self, stored: &StoredColumn) -> Option<&Column> {
        self.columns
            .iter()
            .find(|column| column.id == stored.column)
    }

    /// The scheme of a stored column, by position; none of a file's id and row numbers.
    pub fn scheme(&self, at: usize) -> Option<&Arc<dyn Scheme>> {
        self.schemes.get(at)?.as_ref()
    }

    /// A stored column's values, opened, in the column's type. `position`: where the rows are, for
    /// forms that need it.
    pub fn open(
        &self,
        at: usize,
        array: &ArrayRef,
        position: RowPositions<'_>,
    ) -> Result<ArrayRef, Error> {
        let (stored, scheme, column) = self.parts(at)?;
        if stored.prefix.is_some() {
            return Err(Error::NotOpenable(column.name.clone()));
        }
        scheme.decrypt(array, position).map_err(of_column(column))
    }

    /// As [`Codec::open`], of rows that may come from many files: their `file` and `row` columns
    /// say from where.
    pub fn open_scattered(
        &self,
        at: usize,
        array: &ArrayRef,
        file: Option<&ArrayRef>,
        row: Option<&ArrayRef>,
    ) -> Result<ArrayRef, Error> {
        let (stored, _, column) = self.parts(at)?;
        if !stored.encoding.needs_position() {
            return self.open(at, array, RowPositions::Anywhere);
        }
        let rows = row.and_then(|row| row.as_any().downcast_ref::<Int64Array>());
        let (Some(file), Some(rows)) = (file, rows) else {
            return Err(FormatError::BatchSchema(stored.name()).into());
        };
        let files = FileIds::resolve(file).map_err(of_column(column))?;
        let files = &files;
        self.open(at, array, RowPositions::Scattered { files, rows })
    }

    /// Values of the column as ciphertexts of a stored column that do not depend on where they are.
    pub fn encrypt(&self, at: usize, values: &ArrayRef) -> Result<ArrayRef, Error> {
        let (_, scheme, column) = self.parts(at)?;
        scheme
            .encrypt(values, RowPositions::Anywhere)
            .map_err(of_column(column))
    }

    /// Sums over a stored column, opened, in the type that Spark gives to a sum of the column:
    /// BIGINT, or a decimal of ten digits more. A sum of no row is NULL, as is a NULL state.
    pub fn open_sums(&self, at: usize, states: &BinaryArray) -> Result<ArrayRef, Error> {
        let (stored, scheme, column) = self.parts(at)?;
        if !(stored.encoding.protection()).is_some_and(Protection::is_summable) {
            return Err(FormatError::NoSuchColumn(stored.name()).into());
        }
        let sum = |state: Option<&[u8]>| match state {
            None => Ok(None),
            Some(state) => {
                let opened = scheme.open_sum_state(state);
                Ok(opened.map_err(of_column(column))?.map(|opened| opened.sum))
            }
        };
        let sums = states
            .iter()
            .map(sum)
            .collect::<Result<Vec<Option<i128>>, Error>>()?;
        let SparkType::Decimal { precision, scale } = column.kind else {
            let narrow = |sum: Option<i128>| sum.map(i64::try_from).transpose();
            let sums = sums.into_iter().map(narrow).collect::<Result<Vec<_>, _>>();
            return Ok(Arc::new(Int64Array::from(
                sums.map_err(|_| Error::SumOverflow(column.name.clone()))?,
            )));
        };
        let kind = SparkType::Decimal {
            precision: precision.saturating_add(10).min(38),
            scale,
        };
        Ok(Arc::new(
            Decimal128Array::from(sums).with_data_type(kind.to_arrow()),
        ))
    }

    fn parts(&self, at: usize) -> Result<(&StoredColumn, &Arc<dyn Scheme>, &Column), Error> {
        let stored = self.stored.get(at);
        let column = stored.and_then(|stored| self.column_of(stored));
        match (stored, self.scheme(at), column) {
            (Some(stored), Some(scheme), Some(column)) => Ok((stored, scheme, column)),
            _ => Err(
                FormatError::NoSuchColumn(stored.map(StoredColumn::name).unwrap_or_default())
                    .into(),
            ),
        }
    }
}

impl RowEncoder for Codec {
    fn stored(&self) -> &[StoredColumn] {
        &self.stored
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn encode(
        &self,
        batch: &RecordBatch,
        file: [u8; FILE_ID],
        first_row: u64,
    ) -> Result<RecordBatch, FormatError> {
        let rows = batch.num_rows();
        let position = RowPositions::File { file, first_row };
        let arrays = (self.stored.iter().zip(self.schemes.iter()))
            .map(|(stored, scheme)| match (stored.encoding, scheme) {
                (StoredEncoding::File, _) => {
                    let ids: ArrayRef = Arc::new(BinaryArray::from_iter_values(
                        std::iter::repeat_n(file, rows),
                    ));
                    Ok(ids)
                }
                (StoredEncoding::Row, _) => row_numbers(first_row, rows),
                (_, Some(scheme)) => {
                    let (column, array) = (self.columns.iter().zip(batch.columns()))
                        .find(|(column, _)| column.id == stored.column)
                        .ok_or_else(|| FormatError::BatchSchema(stored.name()))?;
                    scheme.encrypt(array, position).map_err(refused(column))
                }
                (_, None) => Err(FormatError::BatchSchema(stored.name())),
            })
            .collect::<Result<Vec<_>, FormatError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            arrays,
            &options,
        )?)
    }
}

/// The numbers of a file's rows from one on.
fn row_numbers(first: u64, rows: usize) -> Result<ArrayRef, FormatError> {
    let limit = || FormatError::Limit("rows of a file");
    let first = i64::try_from(first).map_err(|_| limit())?;
    let end = i64::try_from(rows)
        .ok()
        .and_then(|rows| first.checked_add(rows));
    Ok(Arc::new(Int64Array::from_iter_values(
        first..end.ok_or_else(limit)?,
    )))
}

pub(super) fn of_column(column: &Column) -> impl Fn(coffer_schemes::SchemeError) -> Error {
    |source| refused(column)(source).into()
}

fn refused(column: &Column) -> impl Fn(coffer_schemes::SchemeError) -> FormatError {
    |source| FormatError::Scheme {
        column: column.name.clone(),
        source,
    }
}

/// The scheme of one stored column, with its key.
pub(super) fn scheme(
    key: &TableKey,
    links: &LinkKeys,
    column: &Column,
    stored: &StoredColumn,
) -> Result<Arc<dyn Scheme>, Error> {
    let protection = stored
        .encoding
        .protection()
        .ok_or_else(|| FormatError::NoSuchColumn(stored.name()))?;
    let (key, spec) = parts(key, links, column, stored, protection)?;
    protection.scheme(&key, &spec).map_err(of_column(column))
}

/// What a scheme is made of.
fn parts(
    key: &TableKey,
    links: &LinkKeys,
    column: &Column,
    stored: &StoredColumn,
    protection: Protection,
) -> Result<(SchemeKey, ColumnSpec), Error> {
    let secret = match stored.link {
        Some(link) => links
            .get(&link)
            .ok_or(Error::LinkUnknown(link))?
            .scheme_key(protection)?,
        // Columns of no link: one key for each, but for the forms whose keys are a stored column's
        // own.
        None if stored.encoding.is_linked() => key.scheme_key(protection, column.id())?,
        None => key.scheme_key(protection, stored.id())?,
    };
    let mut spec =
        ColumnSpec::new(column.kind.to_arrow()).in_link_group(&stored.group(key.table()));
    let key = SchemeKey::from_secret(&secret);
    if let Some(domain) = stored.domain {
        spec = spec.with_domain(Domain::new(domain.min, domain.max).map_err(of_column(column))?);
    }
    if let Some(prefix) = stored.prefix {
        spec = spec.with_prefix(usize::try_from(prefix).unwrap_or(usize::MAX));
    }
    Ok((key, spec))
}
