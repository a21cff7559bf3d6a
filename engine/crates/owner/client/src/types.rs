//! Types of tables' columns, in the contract's terms and back.

use coffer_expr::types::Interval;
use coffer_format::{Column, SparkType};
use coffer_protocol::plan::{DataType, Field, TypeId};

pub(crate) fn field(column: &Column) -> Field {
    Field {
        name: column.name.clone(),
        r#type: Some(data_type(&column.kind)),
        nullable: column.nullable,
        declared: declared(&column.kind),
    }
}

/// CHAR(n) or VARCHAR(n), whose values are strings; else nothing.
pub(crate) fn declared(kind: &SparkType) -> String {
    match *kind == kind.of_values() {
        true => String::new(),
        false => kind.to_string(),
    }
}

/// A column's type as it was declared; none for one that no column has.
pub(crate) fn declared_type(found: &DataType, declared: &str) -> Option<SparkType> {
    let values = spark_type(found)?;
    if declared.is_empty() {
        return Some(values);
    }
    let kind = declared.parse::<SparkType>().ok()?;
    (kind.is_text() && kind.of_values() == values).then_some(kind)
}

/// The type of a column's values in the contract's terms.
pub(crate) fn data_type(kind: &SparkType) -> DataType {
    let inner = |name: &str, kind: &SparkType| Field {
        name: name.to_owned(),
        r#type: Some(data_type(kind)),
        nullable: true,
        ..Field::default()
    };
    let (id, precision, scale) = match kind {
        SparkType::Boolean => (TypeId::Boolean, 0, 0),
        SparkType::Byte => (TypeId::Byte, 0, 0),
        SparkType::Short => (TypeId::Short, 0, 0),
        SparkType::Int => (TypeId::Int, 0, 0),
        SparkType::Long => (TypeId::Long, 0, 0),
        SparkType::Float => (TypeId::Float, 0, 0),
        SparkType::Double => (TypeId::Double, 0, 0),
        SparkType::Decimal { precision, scale } => (TypeId::Decimal, *precision, *scale),
        SparkType::String | SparkType::Char { .. } | SparkType::Varchar { .. } => {
            (TypeId::String, 0, 0)
        }
        SparkType::Binary => (TypeId::Binary, 0, 0),
        SparkType::Date => (TypeId::Date, 0, 0),
        SparkType::Timestamp => (TypeId::Timestamp, 0, 0),
        SparkType::TimestampNtz => (TypeId::TimestampNtz, 0, 0),
        SparkType::Time { digits } => (TypeId::Time, *digits, 0),
        SparkType::YearMonth { first, last } => (TypeId::YearMonthInterval, *first, *last),
        SparkType::DayTime { first, last } => (TypeId::DayTimeInterval, *first, *last),
        SparkType::Array { .. } => (TypeId::Array, 0, 0),
        SparkType::Struct { .. } => (TypeId::Struct, 0, 0),
        SparkType::Map { .. } => (TypeId::Map, 0, 0),
    };
    let children = match kind {
        SparkType::Array { element } => vec![inner("element", element)],
        SparkType::Struct { fields } => {
            let fields = fields.iter();
            fields.map(|(name, kind)| inner(name, kind)).collect()
        }
        SparkType::Map { key, value } => {
            let key = Field {
                nullable: false,
                ..inner("key", key)
            };
            vec![key, inner("value", value)]
        }
        _ => vec![],
    };
    DataType {
        id: id.into(),
        precision: precision.into(),
        scale: scale.into(),
        children,
    }
}

/// The other way round; none for a type that no column has. What is said of NULL inside of a nested
/// type plays no role.
pub(crate) fn spark_type(found: &DataType) -> Option<SparkType> {
    // Checks also how deep it is.
    let arrow = coffer_expr::types::to_arrow(found).ok()?;
    let kind = SparkType::from_arrow("", &arrow).ok()?;
    if kind.to_arrow() != arrow || kind.unfit_names().is_some() {
        return None;
    }
    Some(told(kind, found))
}

/// The type with what Arrow's does not tell.
fn told(kind: SparkType, found: &DataType) -> SparkType {
    let inner = |at: usize, kind: &SparkType| {
        let part = found.children.get(at);
        match part.and_then(|field| field.r#type.as_ref()) {
            Some(part) => told(kind.clone(), part),
            None => kind.clone(),
        }
    };
    match &kind {
        SparkType::Int | SparkType::Long => match Interval::of(found) {
            Some(Interval {
                months: true,
                first,
                last,
            }) => SparkType::YearMonth { first, last },
            Some(Interval { first, last, .. }) => SparkType::DayTime { first, last },
            None => kind,
        },
        SparkType::Time { digits } => SparkType::Time {
            digits: u8::try_from(found.precision).unwrap_or(*digits),
        },
        SparkType::Array { element } => SparkType::array(inner(0, element)),
        SparkType::Map { key, value } => SparkType::map(inner(0, key), inner(1, value)),
        SparkType::Struct { fields } => {
            let fields = fields.iter().enumerate();
            let fields = fields.map(|(at, (name, kind))| (name.clone(), inner(at, kind)));
            SparkType::structure(fields.collect())
        }
        _ => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrow_does_not_tell_goes_there_and_back() {
        for text in [
            "interval year to month",
            "interval hour",
            "time(3)",
            "int",
            "array<interval day to second>",
            "struct<a:map<string,interval month>,b:time(0),c:bigint>",
        ] {
            let kind: SparkType = text.parse().unwrap();
            assert_eq!(kind.to_string(), text);
            assert_eq!(spark_type(&data_type(&kind)), Some(kind));
        }
    }
}
