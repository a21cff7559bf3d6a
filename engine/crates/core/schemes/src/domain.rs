//! Domains, and values as ordinals: the position of a value among all that the column may hold.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, cast::AsArray, types,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};

use crate::scheme::check_type;
use crate::{ColumnSpec, SchemeError, Side, codec};

/// The values that a column may hold, by the policy: from `min` to `max`, both included, counted in
/// the column's units (unscaled decimals, days, microseconds).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domain {
    min: i128,
    max: i128,
}

impl Domain {
    /// No domain is wider than all decimals of 38 digits.
    const WIDEST: i128 = 99_999_999_999_999_999_999_999_999_999_999_999_999;

    /// From `min` to `max`.
    pub fn new(min: i128, max: i128) -> Result<Self, SchemeError> {
        let refuse = |reason| Err(SchemeError::BadDomain { min, max, reason });
        if min > max {
            refuse("its smallest value is greater than its greatest")
        } else if min < -Self::WIDEST || max > Self::WIDEST {
            refuse("no value has more than 38 digits")
        } else {
            Ok(Self { min, max })
        }
    }

    /// The whole range of an integer-like type; none for other types.
    pub fn of_type(data_type: &DataType) -> Option<Self> {
        let of = |min: i64, max: i64| Self {
            min: i128::from(min),
            max: i128::from(max),
        };
        Some(match data_type {
            DataType::Boolean => of(0, 1),
            DataType::Int8 => of(i64::from(i8::MIN), i64::from(i8::MAX)),
            DataType::Int16 => of(i64::from(i16::MIN), i64::from(i16::MAX)),
            DataType::Int32 | DataType::Date32 => of(i64::from(i32::MIN), i64::from(i32::MAX)),
            DataType::Int64 | DataType::Timestamp(TimeUnit::Microsecond, _) => {
                of(i64::MIN, i64::MAX)
            }
            DataType::Decimal128(digits, _) => {
                let max = 10_i128.checked_pow(u32::from(*digits))?.checked_sub(1)?;
                Self { min: -max, max }
            }
            _ => return None,
        })
    }

    /// The smallest value.
    pub fn min(&self) -> i128 {
        self.min
    }

    /// The greatest value.
    pub fn max(&self) -> i128 {
        self.max
    }

    /// How many values there are.
    pub fn size(&self) -> u128 {
        self.max.abs_diff(self.min).saturating_add(1)
    }
}

/// How a column's values become ordinals in `0..size`, and back: for schemes that are made of
/// numbers, here and in other crates.
pub struct Ordinals {
    data_type: DataType,
    min: i128,
    size: u128,
    prefix: Option<usize>,
}

impl Ordinals {
    /// Longest prefix: 257^15 fits 128 bits.
    const LONGEST_PREFIX: usize = 15;

    /// For integer-like columns, floats (whole type only) and prefixes of strings.
    pub fn new(scheme: &'static str, column: &ColumnSpec) -> Result<Self, SchemeError> {
        let data_type = column.data_type.clone();
        let refuse = |reason| SchemeError::Unsupported {
            scheme,
            data_type: column.data_type.clone(),
            reason,
        };
        if let Some(whole) = Domain::of_type(&data_type) {
            let domain = column.domain.unwrap_or(whole);
            if domain.min < whole.min || domain.max > whole.max {
                return Err(refuse(
                    "the policy's domain has values that the type has not",
                ));
            }
            return Ok(Self {
                data_type,
                min: domain.min,
                size: domain.size(),
                prefix: None,
            });
        }
        if column.domain.is_some() {
            return Err(refuse(
                "only integers, decimals, dates and timestamps have a domain",
            ));
        }
        let (size, prefix) = match data_type {
            DataType::Float32 => (1 << 32, None),
            DataType::Float64 => (1 << 64, None),
            DataType::Utf8 | DataType::Binary => {
                if !(1..=Self::LONGEST_PREFIX).contains(&column.prefix) {
                    return Err(refuse("a prefix has 1 to 15 bytes"));
                }
                let digits = u32::try_from(column.prefix)
                    .map_err(|_| refuse("a prefix has 1 to 15 bytes"))?;
                (257_u128.pow(digits), Some(column.prefix))
            }
            _ => return Err(codec::unsupported(scheme, &data_type)),
        };
        Ok(Self {
            data_type,
            min: 0,
            size,
            prefix,
        })
    }

    /// How many values there are.
    pub fn size(&self) -> u128 {
        self.size
    }

    /// The value whose ordinal is 0, for integer-like columns.
    pub fn min(&self) -> i128 {
        self.min
    }

    /// Bits of the greatest ordinal, at least 1.
    pub fn bits(&self) -> u32 {
        (u128::BITS - self.size.saturating_sub(1).leading_zeros()).max(1)
    }

    /// Whether an ordinal tells the whole value.
    pub fn exact(&self) -> bool {
        self.prefix.is_none()
    }

    /// The ordinals of a column; 0 for NULL. The error names the first row whose value has none.
    pub fn of(&self, column: &dyn Array) -> Result<Vec<u128>, SchemeError> {
        check_type(column, &self.data_type)?;
        match &self.data_type {
            DataType::Boolean => {
                let array = column.as_boolean();
                let mut out = Vec::with_capacity(array.len());
                for (row, value) in array.iter().enumerate() {
                    out.push(value.map_or(Ok(0), |value| self.ordinal(row, i128::from(value)))?);
                }
                Ok(out)
            }
            DataType::Int8 => self.primitive::<types::Int8Type>(column, i128::from),
            DataType::Int16 => self.primitive::<types::Int16Type>(column, i128::from),
            DataType::Int32 => self.primitive::<types::Int32Type>(column, i128::from),
            DataType::Int64 => self.primitive::<types::Int64Type>(column, i128::from),
            DataType::Date32 => self.primitive::<types::Date32Type>(column, i128::from),
            DataType::Timestamp(..) => {
                self.primitive::<types::TimestampMicrosecondType>(column, i128::from)
            }
            DataType::Decimal128(..) => self.primitive::<types::Decimal128Type>(column, |v| v),
            DataType::Float32 => {
                self.primitive::<types::Float32Type>(column, |v| i128::from(ordered_f32(v)))
            }
            DataType::Float64 => {
                self.primitive::<types::Float64Type>(column, |v| i128::from(ordered_f64(v)))
            }
            DataType::Utf8 => Ok(self.texts(
                column
                    .as_string::<i32>()
                    .iter()
                    .map(|v| v.map(str::as_bytes)),
            )),
            DataType::Binary => Ok(self.texts(column.as_binary::<i32>().iter())),
            _ => Err(SchemeError::Internal("a type without ordinals")),
        }
    }

    /// The column of these ordinals, which are all smaller than the size. Prefixes do not come
    /// back.
    pub fn restore(
        &self,
        ordinals: impl Iterator<Item = u128>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, SchemeError> {
        let bad = || SchemeError::Internal("an ordinal outside its type");
        let value = |ordinal: u128| self.min.checked_add_unsigned(ordinal).ok_or_else(bad);
        let narrow = |ordinal| i64::try_from(value(ordinal)?).map_err(|_| bad());
        let narrower = |ordinal| i32::try_from(value(ordinal)?).map_err(|_| bad());
        let n = nulls;
        Ok(match &self.data_type {
            DataType::Boolean => {
                let bits: Vec<bool> = ordinals
                    .map(|o| Ok(value(o)? != 0))
                    .collect::<Result<_, SchemeError>>()?;
                Arc::new(BooleanArray::new(bits.into(), n))
            }
            DataType::Int8 => collect::<types::Int8Type>(ordinals, n, |o| {
                i8::try_from(value(o)?).map_err(|_| bad())
            })?,
            DataType::Int16 => collect::<types::Int16Type>(ordinals, n, |o| {
                i16::try_from(value(o)?).map_err(|_| bad())
            })?,
            DataType::Int32 => collect::<types::Int32Type>(ordinals, n, narrower)?,
            DataType::Int64 => collect::<types::Int64Type>(ordinals, n, narrow)?,
            DataType::Date32 => collect::<types::Date32Type>(ordinals, n, narrower)?,
            DataType::Timestamp(_, zone) => {
                let array =
                    collect_primitive::<types::TimestampMicrosecondType>(ordinals, n, narrow)?;
                Arc::new(array.with_timezone_opt(zone.clone()))
            }
            DataType::Decimal128(digits, scale) => {
                let array = collect_primitive::<types::Decimal128Type>(ordinals, n, value)?;
                Arc::new(codec::decimals(array, *digits, *scale)?)
            }
            DataType::Float32 => collect::<types::Float32Type>(ordinals, n, |o| {
                Ok(f32::from_bits(unordered_u32(
                    u32::try_from(o).map_err(|_| bad())?,
                )))
            })?,
            DataType::Float64 => collect::<types::Float64Type>(ordinals, n, |o| {
                Ok(f64::from_bits(unordered_u64(
                    u64::try_from(o).map_err(|_| bad())?,
                )))
            })?,
            _ => return Err(SchemeError::Internal("a prefix is no value")),
        })
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        column: &dyn Array,
        wide: impl Fn(T::Native) -> i128,
    ) -> Result<Vec<u128>, SchemeError> {
        let array = column.as_primitive::<T>();
        let mut out = Vec::with_capacity(array.len());
        if array.null_count() == 0 {
            for (row, value) in array.values().iter().enumerate() {
                out.push(self.ordinal(row, wide(*value))?);
            }
        } else {
            for (row, value) in array.iter().enumerate() {
                out.push(value.map_or(Ok(0), |value| self.ordinal(row, wide(value)))?);
            }
        }
        Ok(out)
    }

    fn ordinal(&self, row: usize, value: i128) -> Result<u128, SchemeError> {
        if value < self.min {
            return Err(SchemeError::OutsideDomain {
                row,
                side: Side::Below,
            });
        }
        let ordinal = value.abs_diff(self.min);
        if ordinal >= self.size {
            return Err(SchemeError::OutsideDomain {
                row,
                side: Side::Above,
            });
        }
        Ok(ordinal)
    }

    /// The prefix as a number in base 257, where the digit 0 says that the value has ended: shorter
    /// values come first, as in Spark's order of bytes.
    fn texts<'a>(&self, values: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<u128> {
        let digits = self.prefix.unwrap_or(0);
        values
            .map(|value| {
                let bytes = value
                    .unwrap_or_default()
                    .iter()
                    .map(|b| u128::from(*b).saturating_add(1));
                bytes
                    .chain(std::iter::repeat(0))
                    .take(digits)
                    .fold(0_u128, |number, digit| {
                        number.wrapping_mul(257).wrapping_add(digit)
                    })
            })
            .collect()
    }
}

fn collect<T: ArrowPrimitiveType>(
    ordinals: impl Iterator<Item = u128>,
    nulls: Option<NullBuffer>,
    value: impl Fn(u128) -> Result<T::Native, SchemeError>,
) -> Result<ArrayRef, SchemeError> {
    Ok(Arc::new(collect_primitive::<T>(ordinals, nulls, value)?))
}

fn collect_primitive<T: ArrowPrimitiveType>(
    ordinals: impl Iterator<Item = u128>,
    nulls: Option<NullBuffer>,
    value: impl Fn(u128) -> Result<T::Native, SchemeError>,
) -> Result<PrimitiveArray<T>, SchemeError> {
    let values = ordinals.map(value).collect::<Result<Vec<_>, _>>()?;
    Ok(PrimitiveArray::new(ScalarBuffer::from(values), nulls))
}

/// Bits of a float, arranged so that their order is Spark's: −∞ … −0.0 = 0.0 … ∞, NaN.
fn ordered_f32(value: f32) -> u32 {
    let bits = codec::canonical_f32(value).to_bits();
    if bits >> 31 == 1 {
        !bits
    } else {
        bits | (1 << 31)
    }
}

fn ordered_f64(value: f64) -> u64 {
    let bits = codec::canonical_f64(value).to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | (1 << 63)
    }
}

fn unordered_u32(ordered: u32) -> u32 {
    if ordered >> 31 == 1 {
        ordered & !(1 << 31)
    } else {
        !ordered
    }
}

fn unordered_u64(ordered: u64) -> u64 {
    if ordered >> 63 == 1 {
        ordered & !(1 << 63)
    } else {
        !ordered
    }
}
