//! The IR's types as Arrow types. One to one: nothing else crosses a fragment boundary.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use coffer_protocol::plan::{self, TypeId};

use crate::Unsupported;

/// Largest precision of Spark's decimals, and of Arrow's 128 bit ones.
pub const MAX_PRECISION: u8 = 38;
/// Levels of a nested type, at most.
const MAX_DEPTH: u32 = 32;
/// Digits of seconds that a TIME has, at most.
pub const MAX_TIME_DIGITS: u32 = 6;

/// An interval's type: YEAR to MONTH, in months, or DAY to SECOND, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Of years and months.
    pub months: bool,
    /// The first field, by Spark's number of it.
    pub first: u8,
    /// The last field.
    pub last: u8,
}

impl Interval {
    /// The interval that an IR type is; none: it is another type, or has fields of no interval.
    #[must_use]
    pub fn of(proto: &plan::DataType) -> Option<Self> {
        let months = match TypeId::try_from(proto.id).ok()? {
            TypeId::YearMonthInterval => true,
            TypeId::DayTimeInterval => false,
            _ => return None,
        };
        let (first, last) = (
            u8::try_from(proto.precision).ok()?,
            u8::try_from(proto.scale).ok()?,
        );
        let fields = if months { 2 } else { 4 };
        (first <= last && last < fields).then_some(Self {
            months,
            first,
            last,
        })
    }

    /// A field's name, as Spark writes it.
    #[must_use]
    pub fn field(self, number: u8) -> &'static str {
        match (self.months, number) {
            (true, 0) => "YEAR",
            (true, _) => "MONTH",
            (false, 0) => "DAY",
            (false, 1) => "HOUR",
            (false, 2) => "MINUTE",
            (false, _) => "SECOND",
        }
    }

    /// Its fields: `YEAR TO MONTH`.
    #[must_use]
    pub fn fields(self) -> String {
        match self.first == self.last {
            true => self.field(self.first).to_owned(),
            false => format!("{} TO {}", self.field(self.first), self.field(self.last)),
        }
    }
}

/// Whether an IR type is or has inside what Arrow's type of it does not tell all of: intervals,
/// which are numbers there, and TIME, which has its digits of seconds.
#[must_use]
pub fn is_open_in_arrow(proto: &plan::DataType) -> bool {
    let mut inner = proto.children.iter().filter_map(|f| f.r#type.as_ref());
    let open = [
        TypeId::YearMonthInterval,
        TypeId::DayTimeInterval,
        TypeId::Time,
    ];
    open.iter().any(|id| proto.id == i32::from(*id)) || inner.any(is_open_in_arrow)
}

/// The Arrow type of an IR type. Refuses what the contract does not allow (precision 0 or above 38,
/// scale above precision).
pub fn to_arrow(proto: &plan::DataType) -> Result<DataType, Unsupported> {
    to_arrow_within(proto, MAX_DEPTH)
}

fn to_arrow_within(proto: &plan::DataType, depth: u32) -> Result<DataType, Unsupported> {
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
        TypeId::Array => match children(proto, depth)?.as_slice() {
            [(_, element)] => list_of(element.clone()),
            _ => return Err(malformed("ARRAY", "an array has one element type")),
        },
        TypeId::Struct => struct_of(children(proto, depth)?),
        TypeId::Map => match children(proto, depth)?.as_slice() {
            [(_, key), (_, value)] => map_of(key.clone(), value.clone()),
            _ => return Err(malformed("MAP", "a map has a key's type and a value's")),
        },
        TypeId::YearMonthInterval | TypeId::DayTimeInterval => match Interval::of(proto) {
            Some(Interval { months: true, .. }) => DataType::Int32,
            Some(Interval { months: false, .. }) => DataType::Int64,
            None => return Err(malformed("an interval", "its fields are none of its kind")),
        },
        TypeId::Time if proto.precision <= MAX_TIME_DIGITS => {
            DataType::Time64(TimeUnit::Microsecond)
        }
        TypeId::Time => return Err(malformed("TIME", "it has at most 6 digits of seconds")),
    })
}

fn malformed(of: &str, why: &'static str) -> Unsupported {
    Unsupported::new(of, why)
}

fn children(proto: &plan::DataType, depth: u32) -> Result<Vec<(&str, DataType)>, Unsupported> {
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| malformed("a nested type", "it has more than 32 levels"))?;
    let child = |field: &'_ plan::Field| {
        let data_type = field.r#type.as_ref();
        let data_type = data_type
            .ok_or_else(|| Unsupported::new(&field.name, "the fragment does not say its type"))?;
        to_arrow_within(data_type, depth)
    };
    proto
        .children
        .iter()
        .map(|field| Ok((field.name.as_str(), child(field)?)))
        .collect()
}

/// Arrow's type of Spark's arrays, in the form that all of this crate has: elements are nullable.
pub fn list_of(element: DataType) -> DataType {
    DataType::List(element_field(element))
}

/// The field of an array's elements.
pub fn element_field(element: DataType) -> FieldRef {
    Arc::new(Field::new("element", element, true))
}

/// Arrow's type of Spark's structs: every field is nullable.
pub fn struct_of<N: Into<String>>(fields: impl IntoIterator<Item = (N, DataType)>) -> DataType {
    let fields = fields.into_iter();
    DataType::Struct(
        fields
            .map(|(name, of)| Field::new(name, of, true))
            .collect(),
    )
}

/// Arrow's type of Spark's maps: keys are never NULL, and lie in no order.
pub fn map_of(key: DataType, value: DataType) -> DataType {
    let (entries, _) = map_entries(key, value);
    DataType::Map(entries, false)
}

/// The field of a map's entries, and its two fields.
pub fn map_entries(key: DataType, value: DataType) -> (FieldRef, Fields) {
    let fields = Fields::from(vec![
        Field::new("key", key, false),
        Field::new("value", value, true),
    ]);
    let entries = Field::new("entries", DataType::Struct(fields.clone()), false);
    (Arc::new(entries), fields)
}

/// The same type in this crate's form: names and nullability inside of nested types, whatever they
/// were (files and other programs' batches have their own).
pub fn canonical(data_type: &DataType) -> DataType {
    match data_type {
        DataType::List(element) => list_of(canonical(element.data_type())),
        DataType::Struct(fields) => struct_of(
            fields
                .iter()
                .map(|field| (field.name().as_str(), canonical(field.data_type()))),
        ),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let of = |i: usize| {
                    fields
                        .get(i)
                        .map_or(DataType::Null, |f| canonical(f.data_type()))
                };
                map_of(of(0), of(1))
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

/// Whether two types are one but for the names of structs' fields, which Spark does not look at
/// when it compares values.
pub(crate) fn same_but_names(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::List(one), DataType::List(other)) => {
            same_but_names(one.data_type(), other.data_type())
        }
        (DataType::Struct(one), DataType::Struct(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len()
                && pairs.all(|(one, other)| same_but_names(one.data_type(), other.data_type()))
        }
        _ => one == other,
    }
}

/// The IR's type of an Arrow type; none for one that no fragment has. What Arrow does not tell is
/// lost: intervals are numbers, a TIME has six digits of seconds.
#[must_use]
pub fn of_arrow(data_type: &DataType) -> Option<plan::DataType> {
    let field = |name: &str, of: &DataType| {
        Some(plan::Field {
            name: name.to_owned(),
            r#type: Some(of_arrow(of)?),
            nullable: true,
            declared: String::new(),
        })
    };
    let (id, children) = match data_type {
        DataType::Null => (TypeId::Null, vec![]),
        DataType::Boolean => (TypeId::Boolean, vec![]),
        DataType::Int8 => (TypeId::Byte, vec![]),
        DataType::Int16 => (TypeId::Short, vec![]),
        DataType::Int32 => (TypeId::Int, vec![]),
        DataType::Int64 => (TypeId::Long, vec![]),
        DataType::Float32 => (TypeId::Float, vec![]),
        DataType::Float64 => (TypeId::Double, vec![]),
        DataType::Decimal128(precision, scale) => {
            return Some(plan::DataType {
                id: TypeId::Decimal.into(),
                precision: (*precision).into(),
                scale: u32::try_from(*scale).ok()?,
                children: vec![],
            });
        }
        DataType::Utf8 => (TypeId::String, vec![]),
        DataType::Binary => (TypeId::Binary, vec![]),
        DataType::Date32 => (TypeId::Date, vec![]),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => (TypeId::Timestamp, vec![]),
        DataType::Timestamp(TimeUnit::Microsecond, None) => (TypeId::TimestampNtz, vec![]),
        DataType::Time64(TimeUnit::Microsecond) => {
            return Some(plan::DataType {
                id: TypeId::Time.into(),
                precision: MAX_TIME_DIGITS,
                ..plan::DataType::default()
            });
        }
        DataType::List(element) => {
            let element = field("element", element.data_type())?;
            (TypeId::Array, vec![element])
        }
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|f| field(f.name(), f.data_type()));
            (TypeId::Struct, fields.collect::<Option<_>>()?)
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let fields = fields.iter().map(|f| field(f.name(), f.data_type()));
                (TypeId::Map, fields.collect::<Option<_>>()?)
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(plan::DataType {
        id: id.into(),
        children,
        ..plan::DataType::default()
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
        DataType::Time64(_) => "TIME(6)".into(),
        DataType::List(element) => format!("ARRAY<{}>", sql_name(element.data_type())),
        DataType::Struct(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|f| format!("{}: {}", f.name(), sql_name(f.data_type())));
            format!("STRUCT<{}>", fields.collect::<Vec<_>>().join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let sides: Vec<_> = fields.iter().map(|f| sql_name(f.data_type())).collect();
                format!("MAP<{}>", sides.join(", "))
            }
            other => other.to_string(),
        },
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
            ..plan::DataType::default()
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
    fn types_go_there_and_back() {
        let nested = struct_of([
            ("a", list_of(DataType::Decimal128(38, 3))),
            ("a", map_of(DataType::Utf8, list_of(DataType::Boolean))),
            (
                "",
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            ),
            ("t", DataType::Time64(TimeUnit::Microsecond)),
        ]);
        assert_eq!(to_arrow(&of_arrow(&nested).unwrap()).unwrap(), nested);
        assert_eq!(canonical(&nested), nested);
        assert_eq!(
            sql_name(&nested),
            "STRUCT<a: ARRAY<DECIMAL(38,3)>, a: MAP<STRING, ARRAY<BOOLEAN>>, : TIMESTAMP, \
             t: TIME(6)>"
        );
    }

    #[test]
    fn deep_types_and_wrong_children_are_refused() {
        let mut deep = DataType::Int32;
        for _ in 0..MAX_DEPTH {
            deep = list_of(deep);
        }
        assert!(to_arrow(&of_arrow(&deep).unwrap()).is_ok());
        assert!(to_arrow(&of_arrow(&list_of(deep)).unwrap()).is_err());
        for (id, children) in [(TypeId::Array, 0), (TypeId::Array, 2), (TypeId::Map, 1)] {
            let child = plan::Field {
                r#type: Some(plan::DataType {
                    id: TypeId::Int.into(),
                    ..plan::DataType::default()
                }),
                ..plan::Field::default()
            };
            let wrong = plan::DataType {
                id: id.into(),
                children: vec![child; children],
                ..plan::DataType::default()
            };
            assert!(to_arrow(&wrong).is_err());
        }
    }

    #[test]
    fn intervals_and_times_have_fields_of_their_own() {
        let of = |id: TypeId, precision, scale| plan::DataType {
            id: id.into(),
            precision,
            scale,
            ..plan::DataType::default()
        };
        let months = of(TypeId::YearMonthInterval, 0, 1);
        assert_eq!(to_arrow(&months).unwrap(), DataType::Int32);
        assert_eq!(Interval::of(&months).unwrap().fields(), "YEAR TO MONTH");
        let micros = of(TypeId::DayTimeInterval, 3, 3);
        assert_eq!(to_arrow(&micros).unwrap(), DataType::Int64);
        assert_eq!(Interval::of(&micros).unwrap().fields(), "SECOND");
        for wrong in [
            of(TypeId::YearMonthInterval, 1, 0),
            of(TypeId::YearMonthInterval, 0, 2),
            of(TypeId::DayTimeInterval, 0, 4),
            of(TypeId::DayTimeInterval, 300, 300),
            of(TypeId::Time, 7, 0),
        ] {
            assert!(to_arrow(&wrong).is_err(), "{wrong:?}");
        }
        let nested = plan::DataType {
            id: TypeId::Array.into(),
            children: vec![plan::Field {
                r#type: Some(months),
                ..plan::Field::default()
            }],
            ..plan::DataType::default()
        };
        assert!(is_open_in_arrow(&nested) && !is_open_in_arrow(&of(TypeId::Int, 0, 0)));
    }

    #[test]
    fn an_unknown_type_is_refused() {
        for id in [0, 21, -1] {
            assert!(
                to_arrow(&plan::DataType {
                    id,
                    ..plan::DataType::default()
                })
                .is_err()
            );
        }
    }
}
