//! Spark's order of nested values: arrays element by element, then the shorter first; structs field
//! by field; inside, NULL is the least and equal to itself, NaN the greatest and equal to itself,
//! and −0.0 equal to 0.0. Maps have none.
//!
//! Values are brought into Arrow's row format, whose bytes compare so once floats have one NaN and
//! one zero.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, ListArray, StructArray},
    datatypes::{DataType, Float32Type, Float64Type},
    row::{Row, RowConverter, Rows, SortField},
};
use datafusion_common::Result;

/// Whether values of the type lie in an array, a struct or a map.
pub(crate) fn is_nested(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_) | DataType::Struct(_) | DataType::Map(..)
    )
}

/// Whether Spark compares values of the type.
pub(crate) fn is_orderable(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(element) => is_orderable(element.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_orderable(field.data_type())),
        DataType::Map(..) => false,
        _ => true,
    }
}

/// What is one value to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zeros {
    /// −0.0 is 0.0.
    One,
    /// Both are told apart where they are not inside of a nested value: Java's `equals`.
    Two,
}

/// Values that can be compared with those of arrays that were given together with theirs.
pub(crate) struct Ordered(Rows);

impl Ordered {
    /// Of arrays of one type.
    pub(crate) fn of<const N: usize>(arrays: [&ArrayRef; N]) -> Result<[Self; N]> {
        Self::with(Zeros::One, arrays)
    }

    pub(crate) fn with<const N: usize>(zeros: Zeros, arrays: [&ArrayRef; N]) -> Result<[Self; N]> {
        let data_type = arrays
            .first()
            .map_or(DataType::Null, |a| a.data_type().clone());
        let converter = RowConverter::new(vec![SortField::new(data_type)])?;
        let mut rows = Vec::with_capacity(N);
        for array in arrays {
            let array = normalized(array, zeros)?;
            rows.push(Self(converter.convert_columns(&[array])?));
        }
        rows.try_into().map_err(|_| {
            datafusion_common::DataFusionError::Internal("arrays were lost".to_owned())
        })
    }

    pub(crate) fn get(&self, index: usize) -> Row<'_> {
        self.0.row(index)
    }
}

fn normalized(array: &ArrayRef, zeros: Zeros) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Float32 => {
            let values: Float32Array =
                array
                    .as_primitive::<Float32Type>()
                    .unary(|v| match v.is_nan() {
                        true => f32::NAN,
                        false if zeros == Zeros::One => v + 0.0,
                        false => v,
                    });
            Arc::new(values)
        }
        DataType::Float64 => {
            let values: Float64Array =
                array
                    .as_primitive::<Float64Type>()
                    .unary(|v| match v.is_nan() {
                        true => f64::NAN,
                        false if zeros == Zeros::One => v + 0.0,
                        false => v,
                    });
            Arc::new(values)
        }
        DataType::List(field) => {
            let list = array.as_list::<i32>();
            Arc::new(ListArray::try_new(
                Arc::clone(field),
                list.offsets().clone(),
                normalized(list.values(), Zeros::One)?,
                list.nulls().cloned(),
            )?)
        }
        DataType::Struct(fields) => {
            let row = array.as_struct();
            let columns = row.columns().iter();
            let columns = columns.map(|column| normalized(column, Zeros::One));
            Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns.collect::<Result<Vec<_>>>()?,
                row.nulls().cloned(),
                row.len(),
            )?)
        }
        _ => Arc::clone(array),
    })
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use arrow::array::{Int32Array, ListArray};
    use arrow::datatypes::{Float64Type, Int32Type};

    use super::*;
    use crate::types;

    fn orders(array: ArrayRef) -> Vec<Ordering> {
        let [rows] = Ordered::of([&array]).unwrap();
        (1..array.len())
            .map(|i| rows.get(i - 1).cmp(&rows.get(i)))
            .collect()
    }

    #[test]
    fn arrays_compare_element_by_element() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![]),
            Some(vec![None]),
            Some(vec![None, None]),
            Some(vec![Some(-5)]),
            Some(vec![Some(1)]),
            Some(vec![Some(1), None]),
            Some(vec![Some(1), Some(0)]),
            Some(vec![Some(2)]),
        ]);
        assert!(orders(Arc::new(list)).iter().all(|o| o.is_lt()));
    }

    #[test]
    fn floats_inside_have_one_nan_and_one_zero() {
        let nan = f64::from_bits(0xfff8_0000_0000_0001);
        let list = ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(-0.0)]),
            Some(vec![Some(0.0)]),
            Some(vec![Some(f64::INFINITY)]),
            Some(vec![Some(nan)]),
            Some(vec![Some(f64::NAN)]),
        ]);
        use Ordering::{Equal, Less};
        assert_eq!(orders(Arc::new(list)), [Equal, Less, Less, Equal]);
    }

    #[test]
    fn structs_compare_field_by_field() {
        let DataType::Struct(fields) =
            types::struct_of([("a", DataType::Int32), ("b", DataType::Int32)])
        else {
            unreachable!()
        };
        let column = |values: Vec<Option<i32>>| Arc::new(Int32Array::from(values)) as ArrayRef;
        let row = StructArray::new(
            fields,
            vec![
                column(vec![None, Some(1), Some(1), Some(2)]),
                column(vec![Some(9), None, Some(0), None]),
            ],
            None,
        );
        assert!(orders(Arc::new(row)).iter().all(|o| o.is_lt()));
    }
}
