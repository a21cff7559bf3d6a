//! The IR's types as Arrow types. One to one: nothing else crosses a fragment boundary.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use coffer_protocol::plan::{self, TypeId};

use crate::Unsupported;

/// Largest precision of Spark's decimals, and of Arrow's 128 bit ones.
pub const MAX_PRECISION: u8 = 38;

/// The Arrow type of an IR type. Refuses what the contract does not allow (precision 0 or above 38,
/// scale above precision).
pub fn to_arrow(proto: &plan::DataType) -> Result<DataType, Unsupported> {
    let unknown = || {
        Unsupported::new(
            format!("type {}", proto.id),
            "it is not a type of the fragment format",
        )
    };
    Ok(match TypeId::try_from(proto.id).map_err(|_| unknown())? {
        TypeId::TypeUnspecified => return Err(unknown()),
        TypeId::Null => DataType::Null,
        TypeId::Boolean => DataType::Boolean,
        TypeId::Byte => DataType::Int8,
        TypeId::Short => DataType::Int16,
        TypeId::Int => DataType::Int32,
        TypeId::Long => DataType::Int64,
        TypeId::Float => DataType::Float32,
        TypeId::Double => DataType::Float64,
        TypeId::Decimal => {
            let precision = u8::try_from(proto.precision)
                .ok()
                .filter(|p| (1..=MAX_PRECISION).contains(p));
            let scale = i8::try_from(proto.scale)
                .ok()
                .filter(|_| proto.scale <= proto.precision);
            match (precision, scale) {
                (Some(precision), Some(scale)) => DataType::Decimal128(precision, scale),
                _ => {
                    return Err(Unsupported::new(
                        format!("decimal({},{})", proto.precision, proto.scale),
                        "precision must be 1 to 38 and scale 0 to precision",
                    ));
                }
            }
        }
        TypeId::String => DataType::Utf8,
        TypeId::Binary => DataType::Binary,
        TypeId::Date => DataType::Date32,
        TypeId::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
        TypeId::TimestampNtz => DataType::Timestamp(TimeUnit::Microsecond, None),
    })
}

/// The Arrow schema of an IR schema, fields in order.
pub fn schema_to_arrow(proto: &plan::Schema) -> Result<SchemaRef, Unsupported> {
    let fields = proto
        .fields
        .iter()
        .map(|field| {
            Ok(Field::new(
                &field.name,
                required(field.r#type.as_ref(), &field.name)?,
                field.nullable,
            ))
        })
        .collect::<Result<Vec<_>, Unsupported>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

/// The type that a message must carry.
pub(crate) fn required(proto: Option<&plan::DataType>, of: &str) -> Result<DataType, Unsupported> {
    to_arrow(proto.ok_or_else(|| Unsupported::new(of, "the fragment does not say its type"))?)
}

/// Spark's SQL name of a type, as its messages have it.
pub(crate) fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "VOID".into(),
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Decimal128(p, s) => format!("DECIMAL({p},{s})"),
        DataType::Utf8 => "STRING".into(),
        DataType::Binary => "BINARY".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP".into(),
        DataType::Timestamp(_, None) => "TIMESTAMP_NTZ".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(precision: u32, scale: u32) -> plan::DataType {
        plan::DataType {
            id: TypeId::Decimal.into(),
            precision,
            scale,
        }
    }

    #[test]
    fn decimals_outside_the_contract_are_refused() {
        assert_eq!(
            to_arrow(&decimal(38, 38)).unwrap(),
            DataType::Decimal128(38, 38)
        );
        for (p, s) in [(0, 0), (39, 0), (5, 6), (300, 2), (38, 300)] {
            assert!(to_arrow(&decimal(p, s)).is_err(), "decimal({p},{s})");
        }
    }

    #[test]
    fn an_unknown_type_is_refused() {
        for id in [0, 15, -1] {
            assert!(
                to_arrow(&plan::DataType {
                    id,
                    precision: 0,
                    scale: 0
                })
                .is_err()
            );
        }
    }
}
