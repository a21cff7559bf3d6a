//! `plain`: the column as it is. No key, no protection.

use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::DataType;

use crate::scheme::check_type;
use crate::{ColumnSpec, RowPositions, Scheme, SchemeError};

/// The scheme that changes nothing.
pub struct Plain(DataType);

impl Plain {
    /// Of a column.
    pub fn new(column: &ColumnSpec) -> Self {
        Self(column.data_type.clone())
    }
}

impl Scheme for Plain {
    fn name(&self) -> &'static str {
        "plain"
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
