//! LISTAGG: a group's texts or bytes, one behind the other, with a delimiter between them.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, BinaryBuilder, UInt32Array},
    compute::{SortOptions, cast, take},
    datatypes::DataType,
    row::{RowConverter, SortField},
};
use datafusion_common::{Result, internal_datafusion_err};

/// How a group's values are joined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Joined {
    pub(super) delimiter: Vec<u8>,
    /// STRING or BINARY.
    pub(super) result: DataType,
    /// What the values are ordered by: descending, and NULLs first. Of the value itself, unless
    /// values are structs of a value and its keys.
    pub(super) orders: Vec<(bool, bool)>,
}

impl Joined {
    pub(super) fn of(&self, values: &ArrayRef, lengths: &[usize]) -> Result<ArrayRef> {
        let (texts, keys) = match values.as_struct_opt() {
            None => (values, vec![Arc::clone(values)]),
            Some(parts) => {
                let (texts, keys) = parts
                    .columns()
                    .split_first()
                    .ok_or_else(|| internal_datafusion_err!("a value without parts"))?;
                (texts, keys.to_vec())
            }
        };
        let order = self.order(&keys, lengths)?;
        let texts = cast(&take(texts, &order, None)?, &DataType::Binary)?;
        let texts = texts.as_binary::<i32>();
        let mut out = BinaryBuilder::new();
        let (mut row, mut joined) = (0, Vec::new());
        for length in lengths {
            joined.clear();
            for place in row..row + length {
                if place > row {
                    joined.extend(&self.delimiter);
                }
                joined.extend(texts.value(place));
            }
            row += length;
            match length {
                0 => out.append_null(),
                _ => out.append_value(&joined),
            }
        }
        Ok(cast(&out.finish(), &self.result)?)
    }

    /// The places of each group's values in their order; those with equal keys stay as they came.
    fn order(&self, keys: &[ArrayRef], lengths: &[usize]) -> Result<UInt32Array> {
        let all: usize = lengths.iter().sum();
        let end = u32::try_from(all).map_err(|_| internal_datafusion_err!("2^32 values"))?;
        let mut places: Vec<u32> = (0..end).collect();
        if !self.orders.is_empty() {
            let fields = keys.iter().zip(&self.orders).map(|(key, order)| {
                let options = SortOptions {
                    descending: order.0,
                    nulls_first: order.1,
                };
                SortField::new_with_options(key.data_type().clone(), options)
            });
            let converter = RowConverter::new(fields.collect())?;
            let rows = converter.convert_columns(keys)?;
            let mut rest = places.as_mut_slice();
            for length in lengths {
                let (group, more) = rest.split_at_mut(*length);
                group.sort_by_key(|place| rows.row(usize::try_from(*place).unwrap_or(0)));
                rest = more;
            }
        }
        Ok(UInt32Array::from(places))
    }
}
