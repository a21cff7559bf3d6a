//! MODE: a group's most frequent value.

use std::collections::{HashMap, hash_map::Entry};

use arrow::{
    array::{Array, ArrayRef, AsArray, UInt32Array},
    compute::take,
    datatypes::{
        DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        TimestampMicrosecondType,
    },
    row::{Row, RowConverter, SortField},
};
use datafusion_common::{Result, exec_datafusion_err};

/// Which of several that are equally frequent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mode {
    Least,
    Largest,
    /// Spark takes the one that its hash table has first.
    Any,
}

/// One of a group's values, at `first` and elsewhere.
#[derive(Clone, Copy)]
struct Counted {
    first: usize,
    count: usize,
}

impl Mode {
    /// By group; NULL of none.
    pub(super) fn of(self, values: &ArrayRef, lengths: &[usize]) -> Result<ArrayRef> {
        let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
        let rows = converter.convert_columns(&[ArrayRef::clone(values)])?;
        let (mut chosen, mut begin) = (Vec::with_capacity(lengths.len()), 0);
        for length in lengths {
            let mut counted: HashMap<Row<'_>, Counted> = HashMap::new();
            for at in begin..begin + length {
                match counted.entry(rows.row(at)) {
                    Entry::Occupied(mut known) => known.get_mut().count += 1,
                    Entry::Vacant(new) => {
                        new.insert(Counted {
                            first: at,
                            count: 1,
                        });
                    }
                }
            }
            begin += length;
            let most = counted.values().map(|of| of.count).max();
            let best = counted.iter().filter(|(_, of)| Some(of.count) == most);
            let best = match self {
                Self::Least => best.min_by_key(|(row, _)| *row),
                Self::Largest => best.max_by_key(|(row, _)| *row),
                Self::Any => {
                    let places = places(counted.len());
                    best.min_by_key(|(_, of)| (place(values, of.first, places), of.first))
                }
            };
            let first = best.map(|(_, of)| u32::try_from(of.first)).transpose();
            chosen.push(first.map_err(|_| exec_datafusion_err!("a group has too many values"))?);
        }
        Ok(take(values, &UInt32Array::from(chosen), None)?)
    }
}

/// How many places Spark's `OpenHashMap` has for so many keys: it begins with 64, and has twice as
/// many once seven in ten are taken.
fn places(keys: usize) -> usize {
    let mut places: usize = 64;
    while keys > places.saturating_mul(7) / 10 && places < 1 << 30 {
        places *= 2;
    }
    places
}

/// Where a value lies among them, if no other has taken that place before; the same for all of a
/// type whose hash is not known here.
fn place(values: &ArrayRef, at: usize, places: usize) -> usize {
    let folded =
        |bits: i64| ((bits ^ (bits.cast_unsigned() >> 32).cast_signed()) & 0xffff_ffff) as i32;
    let hash = match values.data_type() {
        DataType::Boolean => match values.as_boolean().value(at) {
            true => 1231,
            false => 1237,
        },
        DataType::Int8 => values.as_primitive::<Int8Type>().value(at).into(),
        DataType::Int16 => values.as_primitive::<Int16Type>().value(at).into(),
        DataType::Int32 => values.as_primitive::<Int32Type>().value(at),
        DataType::Date32 => values.as_primitive::<Date32Type>().value(at),
        DataType::Int64 => folded(values.as_primitive::<Int64Type>().value(at)),
        DataType::Timestamp(..) => {
            folded(values.as_primitive::<TimestampMicrosecondType>().value(at))
        }
        DataType::Float32 => {
            let value = values.as_primitive::<Float32Type>().value(at);
            let value = if value.is_nan() { f32::NAN } else { value };
            value.to_bits().cast_signed()
        }
        DataType::Float64 => {
            let value = values.as_primitive::<Float64Type>().value(at);
            let value = if value.is_nan() { f64::NAN } else { value };
            folded(value.to_bits().cast_signed())
        }
        DataType::Utf8 => coffer_expr::murmur3(values.as_string::<i32>().value(at).as_bytes(), 42),
        _ => return 0,
    };
    let spread = coffer_expr::murmur3(&hash.to_le_bytes(), 0).cast_unsigned();
    usize::try_from(spread).unwrap_or_default() & (places - 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int32Array;

    use super::*;

    #[test]
    fn of_several_the_one_that_is_asked_for() {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 3, 3, 2, 2, 7, -10, 0, 10]));
        let of = |mode: Mode| {
            let modes = mode.of(&values, &[5, 0, 1, 3]).unwrap();
            modes.as_primitive::<Int32Type>().iter().collect::<Vec<_>>()
        };
        assert_eq!(of(Mode::Least), [Some(2), None, Some(7), Some(-10)]);
        assert_eq!(of(Mode::Largest), [Some(3), None, Some(7), Some(10)]);
        // As Spark's documentation has it.
        assert_eq!(of(Mode::Any).last(), Some(&Some(0)));
    }

    #[test]
    fn a_table_grows_as_spark_s() {
        assert_eq!([1, 44, 45, 89, 90].map(places), [64, 64, 128, 128, 256]);
    }
}
