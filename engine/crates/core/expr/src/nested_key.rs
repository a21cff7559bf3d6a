//! Nested values as bytes whose order is Spark's: element by element, what is shorter first, NULL
//! inside before all else, NaN last, −0.0 as 0.0.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, make_array},
    datatypes::{DataType, Float32Type, Float64Type},
    row::{RowConverter, SortField},
};
use datafusion_common::Result;

use crate::{Unsupported, function::Kernel, types::sql_name, vector::argument};

/// `exact`: values that are no other to Spark's order but have other bits are others here.
pub(crate) fn kernel(data_type: &DataType, exact: bool) -> Result<Kernel, Unsupported> {
    let field = SortField::new(data_type.clone());
    if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
        return Err(Unsupported::new(
            sql_name(data_type),
            "its values have no order",
        ));
    }
    Ok(Arc::new(move |args, rows| {
        let values = argument(args, 0)?.to_array(rows)?;
        let converter = RowConverter::new(vec![field.clone()])?;
        let compared = match exact {
            true => Arc::clone(&values),
            false => canonical(&values)?,
        };
        let bytes = converter.convert_columns(&[compared])?;
        let keys = bytes.iter().enumerate();
        let keys = keys.map(|(row, key)| values.is_valid(row).then(|| key.as_ref().to_vec()));
        Ok(Arc::new(keys.collect::<BinaryArray>()))
    }))
}

/// The same values, each NaN as one NaN, −0.0 as 0.0.
fn canonical(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Float32 => Ok(floats::<Float32Type>(values, |v| match v.is_nan() {
            true => f32::NAN,
            false => v + 0.0,
        })),
        DataType::Float64 => Ok(floats::<Float64Type>(values, |v| match v.is_nan() {
            true => f64::NAN,
            false => v + 0.0,
        })),
        nested if nested.is_nested() => {
            let data = values.to_data();
            let children = data.child_data().iter().map(|child| {
                let child = canonical(&make_array(child.clone()))?;
                Ok(child.into_data())
            });
            let children = children.collect::<Result<Vec<_>>>()?;
            Ok(make_array(
                data.into_builder().child_data(children).build()?,
            ))
        }
        _ => Ok(Arc::clone(values)),
    }
}

fn floats<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    of: impl Fn(T::Native) -> T::Native,
) -> ArrayRef {
    Arc::new(values.as_primitive::<T>().unary::<_, T>(of))
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Float64Array, ListArray, StructArray},
        buffer::{NullBuffer, OffsetBuffer},
    };
    use datafusion_expr::ColumnarValue;

    use super::*;
    use crate::types::{element_field, struct_of};

    fn keys(values: ArrayRef) -> Vec<Option<Vec<u8>>> {
        let (rows, data_type) = (values.len(), values.data_type().clone());
        let keys =
            kernel(&data_type, false).unwrap()(&[ColumnarValue::Array(values)], rows).unwrap();
        keys.as_binary::<i32>()
            .iter()
            .map(|key| key.map(<[u8]>::to_vec))
            .collect()
    }

    #[test]
    fn arrays_in_spark_s_order() {
        let values = Float64Array::from(vec![
            None,
            Some(-1.0),
            Some(-1.0),
            Some(0.0),
            Some(-0.0),
            Some(f64::INFINITY),
            Some(f64::NAN),
            Some(f64::from_bits(0xfff8_0000_0000_0001)),
        ]);
        // [], [NULL], [-1], [-1, 0], [-0], [inf], [NaN], [other NaN], NULL
        let offsets = OffsetBuffer::from_lengths([0, 1, 1, 2, 1, 1, 1, 1, 0]);
        let mut valid = vec![true; 8];
        valid.push(false);
        let lists = ListArray::new(
            element_field(DataType::Float64),
            offsets,
            Arc::new(values),
            Some(NullBuffer::from(valid)),
        );
        let keys = keys(Arc::new(lists));
        assert!(
            keys[..7].windows(2).all(|pair| pair[0] < pair[1]),
            "{keys:?}"
        );
        assert_eq!(keys[6], keys[7]);
        assert_eq!(keys[8], None);
    }

    #[test]
    fn equal_zeros_of_structs_are_equal() {
        let column: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.0), Some(-0.0), None]));
        let DataType::Struct(fields) = struct_of([("a", DataType::Float64)]) else {
            unreachable!()
        };
        let keys = keys(Arc::new(StructArray::new(fields, vec![column], None)));
        assert_eq!(keys[0], keys[1]);
        assert!(keys[2] < keys[0] && keys[2].is_some());
    }
}
