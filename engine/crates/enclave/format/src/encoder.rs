//! Who turns a table's rows into what is stored, where columns are stored as ciphertexts: only who
//! has their keys.

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use crate::{Error, StoredColumn, stored_column::FILE_ID};

/// Encrypts rows for a [`TableWriter`](crate::TableWriter) of a table with stored columns.
pub trait RowEncoder: Send + Sync {
    /// What is stored, in order.
    fn stored(&self) -> &[StoredColumn];

    /// Of what is stored.
    fn schema(&self) -> &SchemaRef;

    /// Rows of the table's columns as its stored columns; `first_row` is the number of the first
    /// one in the file.
    fn encode(
        &self,
        batch: &RecordBatch,
        file: [u8; FILE_ID],
        first_row: u64,
    ) -> Result<RecordBatch, Error>;
}
