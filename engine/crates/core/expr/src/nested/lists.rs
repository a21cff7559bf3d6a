//! Arguments that are arrays or maps, row by row.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray},
    datatypes::DataType,
};
use datafusion_common::{Result, internal_err};
use datafusion_expr::ColumnarValue;

use crate::types::element_field;

/// An argument of any type: an array, or one value for all rows.
pub(crate) struct Items {
    pub(crate) array: ArrayRef,
    one: bool,
}

impl Items {
    pub(crate) fn new(value: &ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Array(array) => Self {
                array: Arc::clone(array),
                one: false,
            },
            ColumnarValue::Scalar(scalar) => Self {
                array: scalar.to_array()?,
                one: true,
            },
        })
    }

    /// Whether there is one value for all rows.
    pub(crate) fn is_one(&self) -> bool {
        self.one
    }

    /// Where a row's value lies in `array`.
    pub(crate) fn at(&self, row: usize) -> usize {
        if self.one { 0 } else { row }
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.array.is_null(self.at(row))
    }

    /// Where a row's value lies in `array`; none of NULL.
    pub(crate) fn valid(&self, row: usize) -> Option<usize> {
        let at = self.at(row);
        self.array.is_valid(at).then_some(at)
    }
}

/// An argument that is an array of Spark's.
#[derive(Clone)]
pub(crate) struct Lists {
    list: ListArray,
    one: bool,
}

impl Lists {
    pub(crate) fn new(value: &ColumnarValue) -> Result<Self> {
        let items = Items::new(value)?;
        match items.array.as_list_opt::<i32>() {
            Some(list) => Ok(Self {
                list: list.clone(),
                one: items.one,
            }),
            None => internal_err!("expected an array, got {}", items.array.data_type()),
        }
    }

    /// The elements of all rows, and of none: see [`Lists::range`].
    pub(crate) fn values(&self) -> &ArrayRef {
        self.list.values()
    }

    /// Where the row's elements lie in `values`; none for NULL.
    pub(crate) fn range(&self, row: usize) -> Option<Range<usize>> {
        let row = if self.one { 0 } else { row };
        if self.list.is_null(row) {
            return None;
        }
        let offsets = self.list.offsets();
        let offset = |at: usize| offsets.get(at).and_then(|o| usize::try_from(*o).ok());
        Some(offset(row)?..offset(row + 1)?)
    }
}

/// An argument that is a map: its keys and its values as arrays of the same lengths.
pub(crate) struct Maps {
    pub(crate) keys: Lists,
    pub(crate) values: Lists,
}

impl Maps {
    pub(crate) fn new(value: &ColumnarValue) -> Result<Self> {
        let items = Items::new(value)?;
        let DataType::Map(..) = items.array.data_type() else {
            return internal_err!("expected a map, got {}", items.array.data_type());
        };
        let map = items.array.as_map();
        let side = |values: &ArrayRef| {
            let list = ListArray::try_new(
                element_field(values.data_type().clone()),
                map.offsets().clone(),
                Arc::clone(values),
                map.nulls().cloned(),
            )?;
            Ok::<_, datafusion_common::DataFusionError>(Lists {
                list,
                one: items.one,
            })
        };
        Ok(Self {
            keys: side(map.keys())?,
            values: side(map.values())?,
        })
    }

    /// Where the row's entries lie; none for NULL.
    pub(crate) fn range(&self, row: usize) -> Option<Range<usize>> {
        self.keys.range(row)
    }
}
