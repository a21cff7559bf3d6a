//! `tee`: the column as it is, for Parquet's own encryption under the column's key, which attested
//! engines get.
//!
//! This module only says so: it has no key and encrypts nothing. Whoever writes its result must
//! write it encrypted (`coffer-format` does), and a host engine must not be given it.

use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::DataType;

use crate::scheme::check_type;
use crate::{ColumnSpec, RowPositions, Scheme, SchemeError};

/// The marker of a column that is sealed as a whole.
pub struct Tee(DataType);

impl Tee {
    /// Of a column.
    pub fn new(column: &ColumnSpec) -> Self {
        Self(column.data_type.clone())
    }
}

impl Scheme for Tee {
    fn name(&self) -> &'static str {
        "tee"
    }

    fn stored_type(&self) -> DataType {
        self.0.clone()
    }

    fn encrypt(
        &self,
        column: &dyn Array,
        _positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        check_type(column, &self.0)?;
        Ok(make_array(column.to_data()))
    }

    fn decrypt(
        &self,
        stored: &dyn Array,
        positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        self.encrypt(stored, positions)
    }
}
