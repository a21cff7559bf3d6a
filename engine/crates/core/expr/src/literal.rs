//! Literals of the IR as DataFusion scalars.

use arrow::datatypes::{DataType, TimeUnit};
use coffer_protocol::plan::{self, literal::Value};
use datafusion_common::ScalarValue;

use crate::{Unsupported, decimal::fits, types};

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
                scale: 0,
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
