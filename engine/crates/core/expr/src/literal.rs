//! Literals of the IR as DataFusion scalars.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ListArray, MapArray, StructArray, new_empty_array},
    buffer::OffsetBuffer,
    datatypes::{DataType, TimeUnit},
    error::ArrowError,
};
use coffer_protocol::plan::{self, literal::Value};
use datafusion_common::ScalarValue;

use crate::{Unsupported, calendar::MICROS_PER_DAY, decimal::fits, types};

/// The scalar that a literal stands for; its value must fit its type.
pub fn scalar(literal: &plan::Literal) -> Result<ScalarValue, Unsupported> {
    let data_type = types::required(literal.r#type.as_ref(), "a literal")?;
    let Some(value) = &literal.value else {
        return typed_null(&data_type);
    };
    let misfit = || {
        Unsupported::new(
            format!("a literal of type {data_type}"),
            "its value is not one of that type",
        )
    };
    Ok(match (&data_type, value) {
        (DataType::Boolean, Value::Bool(v)) => ScalarValue::Boolean(Some(*v)),
        (DataType::Int8, Value::Int(v)) => {
            ScalarValue::Int8(Some(i8::try_from(*v).map_err(|_| misfit())?))
        }
        (DataType::Int16, Value::Int(v)) => {
            ScalarValue::Int16(Some(i16::try_from(*v).map_err(|_| misfit())?))
        }
        (DataType::Int32, Value::Int(v)) => {
            ScalarValue::Int32(Some(i32::try_from(*v).map_err(|_| misfit())?))
        }
        (DataType::Int64, Value::Int(v)) => ScalarValue::Int64(Some(*v)),
        (DataType::Date32, Value::Int(v)) => {
            ScalarValue::Date32(Some(i32::try_from(*v).map_err(|_| misfit())?))
        }
        (DataType::Timestamp(TimeUnit::Microsecond, zone), Value::Int(v)) => {
            ScalarValue::TimestampMicrosecond(Some(*v), zone.clone())
        }
        (DataType::Time64(TimeUnit::Microsecond), Value::Int(v)) => {
            let of_day = Some(*v).filter(|v| (0..MICROS_PER_DAY).contains(v));
            ScalarValue::Time64Microsecond(Some(of_day.ok_or_else(misfit)?))
        }
        (DataType::Float32, Value::Float(v)) => ScalarValue::Float32(Some(*v)),
        (DataType::Float64, Value::Double(v)) => ScalarValue::Float64(Some(*v)),
        (DataType::Decimal128(p, s), Value::Decimal(bytes)) => {
            let unscaled = big_endian(bytes)
                .filter(|v| fits(*v, *p))
                .ok_or_else(misfit)?;
            ScalarValue::Decimal128(Some(unscaled), *p, *s)
        }
        (DataType::Utf8, Value::String(v)) => ScalarValue::Utf8(Some(v.clone())),
        (DataType::Binary, Value::Binary(v)) => ScalarValue::Binary(Some(v.clone())),
        (
            DataType::List(_) | DataType::Struct(_) | DataType::Map(..),
            Value::Nested(plan::literal::Nested { values }),
        ) => nested(&data_type, values)?,
        _ => return Err(misfit()),
    })
}

fn nested(of: &DataType, literals: &[plan::Literal]) -> Result<ScalarValue, Unsupported> {
    let misfit = || {
        Unsupported::new(
            format!("a literal of type {}", types::sql_name(of)),
            "its values are not of that type",
        )
    };
    let values = |of: &DataType, step: usize, from: usize| {
        let values = literals.iter().skip(from).step_by(step);
        let values = values.map(scalar).collect::<Result<Vec<_>, _>>()?;
        if values.iter().any(|value| value.data_type() != *of) {
            return Err(misfit());
        }
        if values.is_empty() {
            return Ok(new_empty_array(of));
        }
        ScalarValue::iter_to_array(values).map_err(|_| misfit())
    };
    let arrow = |_: ArrowError| misfit();
    Ok(match of {
        DataType::List(element) => {
            let values = values(element.data_type(), 1, 0)?;
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            let list = ListArray::try_new(Arc::clone(element), offsets, values, None);
            ScalarValue::List(Arc::new(list.map_err(arrow)?))
        }
        DataType::Struct(fields) if fields.len() == literals.len() => {
            let columns = literals.iter().zip(fields).map(|(literal, field)| {
                let value = scalar(literal)?;
                if value.data_type() != *field.data_type() {
                    return Err(misfit());
                }
                value.to_array().map_err(|_| misfit())
            });
            let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
            let row = StructArray::try_new_with_length(fields.clone(), columns, None, 1);
            ScalarValue::Struct(Arc::new(row.map_err(arrow)?))
        }
        DataType::Map(entries, ordered) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(misfit());
            };
            let sides = fields.iter().enumerate();
            let sides = sides.map(|(from, field)| values(field.data_type(), 2, from));
            let sides = sides.collect::<Result<Vec<ArrayRef>, _>>()?;
            let pairs = StructArray::try_new(fields.clone(), sides, None).map_err(arrow)?;
            let offsets = OffsetBuffer::from_lengths([pairs.len()]);
            let map = MapArray::try_new(Arc::clone(entries), offsets, pairs, None, *ordered);
            ScalarValue::Map(Arc::new(map.map_err(arrow)?))
        }
        _ => return Err(misfit()),
    })
}

/// NULL of a type.
pub fn typed_null(data_type: &DataType) -> Result<ScalarValue, Unsupported> {
    ScalarValue::try_from(data_type).map_err(|_| {
        Unsupported::new(
            format!("NULL of type {data_type}"),
            "it is not a type of the fragment format",
        )
    })
}

/// Two's complement, big endian, 1 to 16 bytes.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let first = *bytes.first()?;
    if bytes.len() > 16 {
        return None;
    }
    let mut wide = if first & 0x80 == 0 {
        [0u8; 16]
    } else {
        [0xffu8; 16]
    };
    wide.get_mut(16 - bytes.len()..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_s_complement_of_any_width() {
        assert_eq!(big_endian(&[0x80]), Some(-128));
        assert_eq!(big_endian(&[0, 0x80]), Some(128));
        assert_eq!(big_endian(&[0xff; 16]), Some(-1));
        assert_eq!(big_endian(&[]), None);
        assert_eq!(big_endian(&[0; 17]), None);
    }

    #[test]
    fn a_value_outside_its_type_is_refused() {
        let literal = |id: plan::TypeId, precision, value| plan::Literal {
            r#type: Some(plan::DataType {
                id: id.into(),
                precision,
                ..plan::DataType::default()
            }),
            value: Some(value),
        };
        assert!(scalar(&literal(plan::TypeId::Byte, 0, Value::Int(128))).is_err());
        assert!(scalar(&literal(plan::TypeId::Int, 0, Value::Double(1.0))).is_err());
        assert!(
            scalar(&literal(
                plan::TypeId::Decimal,
                2,
                Value::Decimal(vec![100])
            ))
            .is_err()
        );
        assert_eq!(
            scalar(&literal(plan::TypeId::Decimal, 2, Value::Decimal(vec![99]))).unwrap(),
            ScalarValue::Decimal128(Some(99), 2, 0)
        );
    }
}
