//! Spark's order of nested values: arrays element by element, then the shorter first; structs field
//! by field; inside, NULL is the least and equal to itself, NaN the greatest and equal to itself,
//! and −0.0 equal to 0.0. Maps have none.
//!
//! What is no number and no text is brought into Arrow's row format, whose bytes compare so once
//! floats have one NaN and one zero.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, Float32Array, Float64Array, ListArray,
        StringArray, StructArray,
    },
    buffer::{NullBuffer, ScalarBuffer},
    datatypes::{
        DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        TimeUnit, TimestampMicrosecondType,
    },
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
pub fn is_orderable(data_type: &DataType) -> bool {
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
pub(crate) struct Ordered {
    keys: Keys,
    nulls: Option<NullBuffer>,
}

enum Keys {
    /// Whole numbers, dates, times; floats as numbers of the same order.
    Longs(ScalarBuffer<i64>),
    Texts(StringArray),
    Rows(Rows),
}

/// A value's place in the order. NULL is the least. Those of one type compare.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key<'a> {
    Long(Option<i64>),
    Text(Option<&'a str>),
    Row(Row<'a>),
}

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
        let mut keys = Vec::with_capacity(N);
        for array in arrays {
            let array = normalized(array, zeros)?;
            keys.push(Self {
                nulls: array.nulls().cloned(),
                keys: match (longs(&array), array.as_string_opt()) {
                    (Some(longs), _) => Keys::Longs(longs),
                    (None, Some(texts)) => Keys::Texts(texts.clone()),
                    (None, None) => Keys::Rows(converter.convert_columns(&[array])?),
                },
            });
        }
        keys.try_into().map_err(|_| {
            datafusion_common::DataFusionError::Internal("arrays were lost".to_owned())
        })
    }

    pub(crate) fn is_null(&self, index: usize) -> bool {
        self.nulls
            .as_ref()
            .is_some_and(|nulls| nulls.is_null(index))
    }

    pub(crate) fn get(&self, index: usize) -> Key<'_> {
        let valid = !self.is_null(index);
        match &self.keys {
            Keys::Longs(values) => Key::Long(valid.then(|| values[index])),
            Keys::Texts(texts) => Key::Text(valid.then(|| texts.value(index))),
            Keys::Rows(rows) => Key::Row(rows.row(index)),
        }
    }

    /// How two values that are not NULL compare.
    pub(crate) fn compare(&self, one: usize, other: usize) -> Ordering {
        match &self.keys {
            Keys::Longs(values) => values[one].cmp(&values[other]),
            Keys::Texts(texts) => texts.value(one).cmp(texts.value(other)),
            Keys::Rows(rows) => rows.row(one).cmp(&rows.row(other)),
        }
    }

    /// A number that is less where the value begins less, if it is not NULL: all of a number, a
    /// text's first bytes.
    pub(crate) fn begins(&self, index: usize) -> i64 {
        match &self.keys {
            Keys::Longs(values) => values[index],
            Keys::Texts(texts) => first_bytes(texts.value(index).as_bytes()),
            Keys::Rows(rows) => first_bytes(rows.row(index).data()),
        }
    }

    /// `is` where all are whole numbers: for loops over many.
    pub(crate) fn numbers<'a>(
        &'a self,
        others: &'a Self,
    ) -> Option<impl Fn(usize, usize) -> bool + 'a> {
        match (&self.keys, &others.keys) {
            (Keys::Longs(ours), Keys::Longs(theirs)) => {
                Some(|one: usize, other: usize| ours[one] == theirs[other] && !self.is_null(one))
            }
            _ => None,
        }
    }

    /// Whether a value is that one of others, which is not NULL.
    pub(crate) fn is(&self, one: usize, others: &Self, other: usize) -> bool {
        match (&self.keys, &others.keys) {
            (Keys::Longs(ours), Keys::Longs(theirs)) => {
                ours[one] == theirs[other] && !self.is_null(one)
            }
            _ => self.get(one) == others.get(other),
        }
    }
}

/// The first eight bytes, with zeros behind those of less, as a number of the bytes' order.
fn first_bytes(bytes: &[u8]) -> i64 {
    let first = bytes.first_chunk::<8>().map_or_else(
        || {
            let mut first = [0; 8];
            first[..bytes.len()].copy_from_slice(bytes);
            first
        },
        |chunk| *chunk,
    );
    (u64::from_be_bytes(first) ^ (1 << 63)).cast_signed()
}

/// Values as whole numbers of the same order, where one such number holds each of the type.
fn longs(array: &ArrayRef) -> Option<ScalarBuffer<i64>> {
    fn wide<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef) -> ScalarBuffer<i64> {
        let values = array.as_primitive::<T>().values();
        values.iter().map(|v| (*v).into()).collect()
    }
    // `f64::total_cmp`.
    fn of_bits(bits: i64) -> i64 {
        bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
    }
    Some(match array.data_type() {
        DataType::Int8 => wide::<Int8Type>(array),
        DataType::Int16 => wide::<Int16Type>(array),
        DataType::Int32 => wide::<Int32Type>(array),
        DataType::Date32 => wide::<Date32Type>(array),
        DataType::Int64 => array.as_primitive::<Int64Type>().values().clone(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let values = array.as_primitive::<TimestampMicrosecondType>();
            values.values().clone()
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values().iter();
            values
                .map(|v| of_bits(f64::from(*v).to_bits().cast_signed()))
                .collect()
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values().iter();
            values.map(|v| of_bits(v.to_bits().cast_signed())).collect()
        }
        _ => return None,
    })
}

/// Values whose bytes in Arrow's row format compare as Spark compares them: with one NaN, and with
/// one zero wherever it lies.
pub fn comparable(array: &ArrayRef) -> Result<ArrayRef> {
    normalized(array, Zeros::One)
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
    fn numbers_and_texts_compare_as_their_rows() {
        use Ordering::{Equal, Less};
        let floats = [
            None,
            Some(f64::NEG_INFINITY),
            Some(-1.5),
            Some(-0.0),
            Some(0.0),
        ];
        let floats = floats
            .into_iter()
            .chain([Some(2.0), Some(f64::NAN), Some(-f64::NAN)]);
        let floats: ArrayRef = Arc::new(floats.collect::<Float64Array>());
        let ordered = [Less, Less, Less, Equal, Less, Less, Equal];
        assert_eq!(orders(Arc::clone(&floats)), ordered);
        let [two] = Ordered::with(Zeros::Two, [&floats]).unwrap();
        assert!(two.get(3) < two.get(4) && two.get(6) == two.get(7));
        let ints = Int32Array::from(vec![None, Some(i32::MIN), Some(-1), Some(0), Some(7)]);
        assert!(orders(Arc::new(ints)).iter().all(|o| o.is_lt()));
        let texts = StringArray::from(vec![None, Some(""), Some("Z"), Some("a"), Some("ä")]);
        assert!(orders(Arc::new(texts)).iter().all(|o| o.is_lt()));
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
