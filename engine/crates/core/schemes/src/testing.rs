//! Columns of every type, and what every scheme must do with them.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, StringArray,
    TimestampMicrosecondArray, cast::AsArray,
};

use crate::{RowPositions, Scheme};

/// Columns of all integer-like types with the ends of their ranges, with and without NULLs.
pub(crate) fn integer_columns() -> Vec<ArrayRef> {
    let decimals = |digits: u8, values: Vec<Option<i128>>| {
        Arc::new(
            Decimal128Array::from(values)
                .with_precision_and_scale(digits, 2)
                .unwrap(),
        ) as ArrayRef
    };
    vec![
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Int8Array::from(vec![
            Some(i8::MIN),
            Some(0),
            None,
            Some(i8::MAX),
        ])),
        Arc::new(Int16Array::from(vec![
            Some(i16::MIN),
            Some(-1),
            None,
            Some(i16::MAX),
        ])),
        Arc::new(Int32Array::from(vec![i32::MIN, -1, 0, 1, i32::MAX])),
        Arc::new(Int32Array::from(vec![None, Some(5), Some(5), Some(-5)])),
        Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, 1, i64::MAX])),
        Arc::new(Int64Array::from(Vec::<i64>::new())),
        Arc::new(Date32Array::from(vec![Some(0), None, Some(19_000)])),
        Arc::new(
            TimestampMicrosecondArray::from(vec![Some(1), None, Some(-7)]).with_timezone("UTC"),
        ),
        Arc::new(TimestampMicrosecondArray::from(vec![i64::MIN, 3, i64::MAX])),
        decimals(5, vec![Some(-99_999), None, Some(99_999)]),
        decimals(18, vec![Some(-999_999_999_999_999_999), Some(0), Some(5)]),
        decimals(
            38,
            vec![
                Some(-(10_i128.pow(38) - 1)),
                None,
                Some(10_i128.pow(38) - 1),
                Some(12),
            ],
        ),
    ]
}

/// Those, floats, strings and binary.
pub(crate) fn columns() -> Vec<ArrayRef> {
    let mut columns = integer_columns();
    columns.extend(float_columns());
    let long = "a rather long string, of more than one block of AES".to_owned();
    columns.push(Arc::new(StringArray::from(vec![
        Some(""),
        None,
        Some("ä"),
        Some(&long),
    ])));
    columns.push(Arc::new(BinaryArray::from(vec![
        &[][..],
        &[0xff; 16],
        &[0; 15],
        &[1; 33],
    ])));
    // A slice: offsets that do not start at 0.
    columns.push(Arc::new(
        StringArray::from(vec!["x", "yy", "zzz", "yy"]).slice(1, 2),
    ));
    columns.push(Arc::new(
        Int64Array::from(vec![Some(9), None, Some(8), Some(7)]).slice(1, 3),
    ));
    columns
}

pub(crate) fn float_columns() -> Vec<ArrayRef> {
    vec![
        Arc::new(Float32Array::from(vec![
            Some(f32::MIN),
            None,
            Some(0.0),
            Some(f32::INFINITY),
        ])),
        Arc::new(Float64Array::from(vec![
            f64::NEG_INFINITY,
            -1.5,
            0.0,
            f64::MIN_POSITIVE,
            f64::MAX,
        ])),
    ]
}

/// Encrypts, checks type, length and NULLs, decrypts, compares, and gives the stored column.
pub(crate) fn round_trip(
    scheme: &dyn Scheme,
    column: &ArrayRef,
    positions: RowPositions<'_>,
) -> ArrayRef {
    let stored = scheme.encrypt(column, positions).unwrap();
    assert_eq!(stored.data_type(), &scheme.stored_type());
    assert_eq!(stored.len(), column.len());
    assert!((0..column.len()).all(|row| stored.is_null(row) == column.is_null(row)));
    let opened = scheme.decrypt(&stored, positions).unwrap();
    assert_eq!(&opened, column, "{}", scheme.name());
    stored
}

/// A binary column with one bit of one value flipped.
pub(crate) fn flip(stored: &ArrayRef, row: usize, bit: usize) -> ArrayRef {
    let values: Vec<Option<Vec<u8>>> = stored
        .as_binary::<i32>()
        .iter()
        .enumerate()
        .map(|(i, value)| {
            value.map(|value| {
                let mut value = value.to_vec();
                if i == row {
                    value[bit / 8] ^= 1 << (bit % 8);
                }
                value
            })
        })
        .collect();
    Arc::new(
        values
            .iter()
            .map(|value| value.as_deref())
            .collect::<BinaryArray>(),
    )
}
