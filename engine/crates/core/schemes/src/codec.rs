//! Canonical bytes of values: equal values have equal bytes, on every machine.
//!
//! Numbers are big-endian two's complement of their type's width (booleans 1 byte; decimals 8 bytes
//! up to 18 digits, else 16, of the unscaled value); floats are IEEE 754 with −0.0 as 0.0 and every
//! NaN as the one quiet NaN; strings and binary are their bytes.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, Decimal128Array,
    PrimitiveArray, StringArray, TimestampMicrosecondArray, builder::BooleanBufferBuilder,
    cast::AsArray, types,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};

use crate::SchemeError;
use crate::scheme::check_type;

/// Decimals of up to so many digits have an unscaled value of 8 bytes.
const DIGITS_OF_8_BYTES: u8 = 18;

/// A column as bytes.
pub(crate) enum Cells<'a> {
    /// `width` bytes for each row; zeros for NULL.
    Fixed { width: usize, bytes: Vec<u8> },
    /// Row i is `data[offsets[i]..offsets[i + 1]]`.
    Variable { offsets: &'a [i32], data: &'a [u8] },
}

/// The column's values as canonical bytes.
pub(crate) fn encode<'a>(
    scheme: &'static str,
    column: &'a dyn Array,
    data_type: &DataType,
) -> Result<Cells<'a>, SchemeError> {
    check_type(column, data_type)?;
    Ok(match data_type {
        DataType::Boolean => {
            let array = column.as_boolean();
            let bytes = array
                .iter()
                .map(|value| u8::from(value == Some(true)))
                .collect();
            Cells::Fixed { width: 1, bytes }
        }
        DataType::Int8 => fixed::<types::Int8Type, 1>(column, i8::to_be_bytes),
        DataType::Int16 => fixed::<types::Int16Type, 2>(column, i16::to_be_bytes),
        DataType::Int32 => fixed::<types::Int32Type, 4>(column, i32::to_be_bytes),
        DataType::Int64 => fixed::<types::Int64Type, 8>(column, i64::to_be_bytes),
        DataType::Date32 => fixed::<types::Date32Type, 4>(column, i32::to_be_bytes),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            fixed::<types::TimestampMicrosecondType, 8>(column, i64::to_be_bytes)
        }
        DataType::Float32 => {
            fixed::<types::Float32Type, 4>(column, |v| canonical_f32(v).to_be_bytes())
        }
        DataType::Float64 => {
            fixed::<types::Float64Type, 8>(column, |v| canonical_f64(v).to_be_bytes())
        }
        DataType::Decimal128(digits, _) if *digits <= DIGITS_OF_8_BYTES => short_decimals(column)?,
        DataType::Decimal128(..) => fixed::<types::Decimal128Type, 16>(column, i128::to_be_bytes),
        DataType::Utf8 => {
            let array = column.as_string::<i32>();
            Cells::Variable {
                offsets: array.value_offsets(),
                data: array.value_data(),
            }
        }
        DataType::Binary => {
            let array = column.as_binary::<i32>();
            Cells::Variable {
                offsets: array.value_offsets(),
                data: array.value_data(),
            }
        }
        _ => return Err(unsupported(scheme, data_type)),
    })
}

/// How wide the values of a type are; none for strings and binary.
pub(crate) fn width(
    scheme: &'static str,
    data_type: &DataType,
) -> Result<Option<usize>, SchemeError> {
    Ok(match data_type {
        DataType::Boolean | DataType::Int8 => Some(1),
        DataType::Int16 => Some(2),
        DataType::Int32 | DataType::Date32 | DataType::Float32 => Some(4),
        DataType::Int64 | DataType::Timestamp(TimeUnit::Microsecond, _) | DataType::Float64 => {
            Some(8)
        }
        DataType::Decimal128(digits, _) if *digits <= DIGITS_OF_8_BYTES => Some(8),
        DataType::Decimal128(..) => Some(16),
        DataType::Utf8 | DataType::Binary => None,
        _ => return Err(unsupported(scheme, data_type)),
    })
}

/// The column of canonical bytes of fixed width.
pub(crate) fn decode_fixed(
    scheme: &'static str,
    data_type: &DataType,
    bytes: &[u8],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, SchemeError> {
    Ok(match data_type {
        DataType::Boolean => {
            let mut bits = BooleanBufferBuilder::new(bytes.len());
            bytes.iter().for_each(|byte| bits.append(*byte != 0));
            Arc::new(BooleanArray::new(bits.finish(), nulls))
        }
        DataType::Int8 => Arc::new(unfixed::<types::Int8Type, 1>(
            bytes,
            nulls,
            i8::from_be_bytes,
        )),
        DataType::Int16 => Arc::new(unfixed::<types::Int16Type, 2>(
            bytes,
            nulls,
            i16::from_be_bytes,
        )),
        DataType::Int32 => Arc::new(unfixed::<types::Int32Type, 4>(
            bytes,
            nulls,
            i32::from_be_bytes,
        )),
        DataType::Int64 => Arc::new(unfixed::<types::Int64Type, 8>(
            bytes,
            nulls,
            i64::from_be_bytes,
        )),
        DataType::Date32 => Arc::new(unfixed::<types::Date32Type, 4>(
            bytes,
            nulls,
            i32::from_be_bytes,
        )),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let array: TimestampMicrosecondArray =
                unfixed::<types::TimestampMicrosecondType, 8>(bytes, nulls, i64::from_be_bytes);
            Arc::new(array.with_timezone_opt(zone.clone()))
        }
        DataType::Float32 => Arc::new(unfixed::<types::Float32Type, 4>(
            bytes,
            nulls,
            f32::from_be_bytes,
        )),
        DataType::Float64 => Arc::new(unfixed::<types::Float64Type, 8>(
            bytes,
            nulls,
            f64::from_be_bytes,
        )),
        DataType::Decimal128(digits, scale) => {
            let array = if *digits <= DIGITS_OF_8_BYTES {
                unfixed::<types::Decimal128Type, 8>(bytes, nulls, |b| {
                    i128::from(i64::from_be_bytes(b))
                })
            } else {
                unfixed::<types::Decimal128Type, 16>(bytes, nulls, i128::from_be_bytes)
            };
            Arc::new(decimals(array, *digits, *scale)?)
        }
        _ => return Err(unsupported(scheme, data_type)),
    })
}

/// The column of strings or binary values. Bytes that are not UTF-8 are not a string's.
pub(crate) fn decode_variable(
    scheme: &'static str,
    data_type: &DataType,
    lengths: impl IntoIterator<Item = usize>,
    data: Vec<u8>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, SchemeError> {
    let offsets = offsets(lengths)?;
    let values = Buffer::from_vec(data);
    Ok(match data_type {
        DataType::Utf8 => Arc::new(
            StringArray::try_new(offsets, values, nulls)
                .map_err(|_| SchemeError::Malformed("a string is not UTF-8"))?,
        ),
        DataType::Binary => Arc::new(binary_of(offsets, values, nulls)?),
        _ => return Err(unsupported(scheme, data_type)),
    })
}

/// A binary column of these lengths.
pub(crate) fn binary(
    lengths: impl IntoIterator<Item = usize>,
    data: Vec<u8>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, SchemeError> {
    Ok(Arc::new(binary_of(
        offsets(lengths)?,
        Buffer::from_vec(data),
        nulls,
    )?))
}

fn binary_of(
    offsets: OffsetBuffer<i32>,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<BinaryArray, SchemeError> {
    BinaryArray::try_new(offsets, values, nulls)
        .map_err(|_| SchemeError::Internal("a binary column"))
}

fn offsets(lengths: impl IntoIterator<Item = usize>) -> Result<OffsetBuffer<i32>, SchemeError> {
    let lengths = lengths.into_iter();
    let mut offsets = Vec::with_capacity(lengths.size_hint().0.saturating_add(1));
    let mut end = 0_i32;
    offsets.push(end);
    for length in lengths {
        end = i32::try_from(length)
            .ok()
            .and_then(|length| end.checked_add(length))
            .ok_or(SchemeError::Malformed(
                "a batch of more than 2 GiB in one column",
            ))?;
        offsets.push(end);
    }
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

/// The values of a column of strings or binary; a NULL's is what lies under it.
pub(crate) fn values<'a>(offsets: &'a [i32], data: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let positions = |offset: &i32| usize::try_from(*offset).unwrap_or(0);
    offsets
        .iter()
        .zip(offsets.iter().skip(1))
        .map(move |(start, end)| {
            data.get(positions(start)..positions(end))
                .unwrap_or_default()
        })
}

/// All of those values, one behind the other.
pub(crate) fn span<'a>(offsets: &[i32], data: &'a [u8]) -> &'a [u8] {
    let positions =
        |offset: Option<&i32>| offset.and_then(|o| usize::try_from(*o).ok()).unwrap_or(0);
    data.get(positions(offsets.first())..positions(offsets.last()))
        .unwrap_or_default()
}

/// A decimal column; its values must have no more digits than the type.
pub(crate) fn decimals(
    array: Decimal128Array,
    digits: u8,
    scale: i8,
) -> Result<Decimal128Array, SchemeError> {
    let array = array
        .with_precision_and_scale(digits, scale)
        .map_err(|_| SchemeError::Internal("a decimal type"))?;
    array
        .validate_decimal_precision(digits)
        .map_err(|_| SchemeError::Malformed("a decimal with more digits than its type"))?;
    Ok(array)
}

/// −0.0 and 0.0 are equal, and so are all NaNs.
pub(crate) fn canonical_f32(value: f32) -> f32 {
    if value.is_nan() {
        f32::from_bits(0x7fc0_0000)
    } else {
        value + 0.0
    }
}

/// As [`canonical_f32`].
pub(crate) fn canonical_f64(value: f64) -> f64 {
    if value.is_nan() {
        f64::from_bits(0x7ff8_0000_0000_0000)
    } else {
        value + 0.0
    }
}

pub(crate) fn unsupported(scheme: &'static str, data_type: &DataType) -> SchemeError {
    SchemeError::Unsupported {
        scheme,
        data_type: data_type.clone(),
        reason: "only Spark's flat types have schemes",
    }
}

fn fixed<'a, T: ArrowPrimitiveType, const W: usize>(
    column: &dyn Array,
    bytes: impl Fn(T::Native) -> [u8; W],
) -> Cells<'a> {
    let array = column.as_primitive::<T>();
    let mut out = Vec::with_capacity(array.len().saturating_mul(W));
    match array.nulls() {
        None => array
            .values()
            .iter()
            .for_each(|v| out.extend_from_slice(&bytes(*v))),
        // What lies under a NULL is not the value's business, and must not reach a ciphertext.
        Some(_) => array
            .iter()
            .for_each(|v| out.extend_from_slice(&v.map_or([0; W], &bytes))),
    }
    Cells::Fixed {
        width: W,
        bytes: out,
    }
}

fn short_decimals<'a>(column: &dyn Array) -> Result<Cells<'a>, SchemeError> {
    let array = column.as_primitive::<types::Decimal128Type>();
    let mut bytes = Vec::with_capacity(array.len().saturating_mul(8));
    for (row, value) in array.iter().enumerate() {
        let value = value.unwrap_or(0);
        let short = i64::try_from(value).map_err(|_| SchemeError::OutsideDomain {
            row,
            side: if value < 0 {
                crate::Side::Below
            } else {
                crate::Side::Above
            },
        })?;
        bytes.extend_from_slice(&short.to_be_bytes());
    }
    Ok(Cells::Fixed { width: 8, bytes })
}

fn unfixed<T: ArrowPrimitiveType, const W: usize>(
    bytes: &[u8],
    nulls: Option<NullBuffer>,
    value: impl Fn([u8; W]) -> T::Native,
) -> PrimitiveArray<T> {
    let values: Vec<T::Native> = bytes
        .as_chunks::<W>()
        .0
        .iter()
        .map(|chunk| value(*chunk))
        .collect();
    PrimitiveArray::new(ScalarBuffer::from(values), nulls)
}
