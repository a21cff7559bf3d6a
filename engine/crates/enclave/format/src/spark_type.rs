//! Spark's types, their DDL text and their Arrow form.
//!
//! All that lies inside of a nested type is nullable, but a map's keys, as Spark has it of every
//! Parquet file that it reads.

use std::{fmt, str::FromStr, sync::Arc};

use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit};

mod ddl;

use ddl::Ddl;
pub use ddl::parse_ddl;

/// Levels of a nested type, at most, as fragments have them.
const MAX_DEPTH: u32 = 32;
const TOO_DEEP: &str = "nested types have at most 32 levels";

/// The types a sealed table's column can have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SparkType {
    /// BOOLEAN
    Boolean,
    /// TINYINT
    Byte,
    /// SMALLINT
    Short,
    /// INT
    Int,
    /// BIGINT
    Long,
    /// FLOAT
    Float,
    /// DOUBLE
    Double,
    /// DECIMAL(precision, scale): 1 to 38 digits, scale at most the precision.
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// STRING, UTF8_BINARY collation
    String,
    /// CHAR(length): a string, which is stored padded to so many characters.
    Char {
        /// Characters.
        length: u32,
    },
    /// VARCHAR(length): a string of at most so many characters.
    Varchar {
        /// Characters.
        length: u32,
    },
    /// BINARY
    Binary,
    /// DATE: days since 1970-01-01
    Date,
    /// TIMESTAMP: an instant, microseconds since the epoch, UTC
    Timestamp,
    /// TIMESTAMP_NTZ: a wall-clock time, microseconds
    TimestampNtz,
    /// TIME(digits): of a day, microseconds, of which so many digits of seconds are kept: 0 to 6.
    Time {
        /// Of seconds, behind the point.
        digits: u8,
    },
    /// INTERVAL YEAR TO MONTH, or one of them: months
    YearMonth {
        /// The first field: 0, 1.
        first: u8,
        /// The last field, not before it.
        last: u8,
    },
    /// INTERVAL DAY TO SECOND, or fewer of its fields: microseconds
    DayTime {
        /// The first field: 0 to 3, DAY, HOUR, MINUTE, SECOND.
        first: u8,
        /// The last field, not before it.
        last: u8,
    },
    /// ARRAY
    Array {
        /// Of its elements.
        element: Arc<SparkType>,
    },
    /// STRUCT: one field at least; no two of the same name.
    Struct {
        /// Name and type, in order.
        fields: Arc<[(String, SparkType)]>,
    },
    /// MAP
    Map {
        /// Of its keys.
        key: Arc<SparkType>,
        /// Of its values.
        value: Arc<SparkType>,
    },
}

/// A type that no sealed column can have.
#[derive(Debug, Clone, thiserror::Error)]
#[error("column `{column}` has the type {found}, which a sealed table cannot hold: {reason}")]
pub struct UnsupportedType {
    /// The column.
    pub column: String,
    /// Its type, as text.
    pub found: String,
    /// Why not.
    pub reason: &'static str,
}

impl SparkType {
    /// `ARRAY<element>`
    pub fn array(element: Self) -> Self {
        Self::Array {
            element: Arc::new(element),
        }
    }

    /// `STRUCT<fields>`
    pub fn structure(fields: Vec<(String, Self)>) -> Self {
        Self::Struct {
            fields: fields.into(),
        }
    }

    /// `MAP<key, value>`
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map {
            key: Arc::new(key),
            value: Arc::new(value),
        }
    }

    /// ARRAY, STRUCT or MAP.
    pub fn is_nested(&self) -> bool {
        matches!(
            self,
            Self::Array { .. } | Self::Struct { .. } | Self::Map { .. }
        )
    }

    /// The Arrow type of the column in memory. (In the files a map's entries are `key_value`.)
    pub fn to_arrow(&self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Byte => DataType::Int8,
            Self::Short => DataType::Int16,
            Self::Int => DataType::Int32,
            Self::Long => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Decimal { precision, scale } => {
                DataType::Decimal128(*precision, i8::try_from(*scale).unwrap_or(i8::MAX))
            }
            Self::String | Self::Char { .. } | Self::Varchar { .. } => DataType::Utf8,
            Self::Binary => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::TimestampNtz => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Time { .. } => DataType::Time64(TimeUnit::Microsecond),
            Self::YearMonth { .. } => DataType::Int32,
            Self::DayTime { .. } => DataType::Int64,
            Self::Array { element } => {
                DataType::List(Arc::new(Field::new("element", element.to_arrow(), true)))
            }
            Self::Struct { fields } => {
                let field = |(name, kind): &(String, Self)| Field::new(name, kind.to_arrow(), true);
                DataType::Struct(fields.iter().map(field).collect())
            }
            Self::Map { key, value } => {
                let pair = Fields::from(vec![
                    Field::new("key", key.to_arrow(), false),
                    Field::new("value", value.to_arrow(), true),
                ]);
                let entries = Field::new("entries", DataType::Struct(pair), false);
                DataType::Map(Arc::new(entries), false)
            }
        }
    }

    /// Why a column's nested type cannot be one of a table's; none where it can. Names of fields
    /// are told apart as Spark tells columns apart, and each value needs a place in the files.
    pub fn unfit_names(&self) -> Option<&'static str> {
        match self {
            Self::Struct { fields } => {
                let mut names: Vec<String> =
                    fields.iter().map(|(name, _)| name.to_lowercase()).collect();
                names.sort_unstable();
                let count = names.len();
                names.dedup();
                if count == 0 {
                    return Some("a struct has one field at least");
                }
                if names.len() < count {
                    return Some("two fields of a struct have the same name");
                }
                fields.iter().find_map(|(_, kind)| kind.unfit_names())
            }
            Self::Array { element } => element.unfit_names(),
            Self::Map { key, value } => key.unfit_names().or_else(|| value.unfit_names()),
            _ => None,
        }
    }

    /// How many leaves it has in files: values that have column chunks of their own.
    pub fn leaves(&self) -> usize {
        match self {
            Self::Array { element } => element.leaves(),
            Self::Map { key, value } => key.leaves().saturating_add(value.leaves()),
            Self::Struct { fields } => fields
                .iter()
                .fold(0, |sum, (_, kind)| sum.saturating_add(kind.leaves())),
            _ => 1,
        }
    }

    /// STRING, CHAR or VARCHAR.
    pub fn is_text(&self) -> bool {
        matches!(
            self,
            Self::String | Self::Char { .. } | Self::Varchar { .. }
        )
    }

    /// STRING, CHAR, VARCHAR or BINARY: values of any length, of which only a prefix has an order
    /// that schemes keep.
    pub fn is_bytes(&self) -> bool {
        self.is_text() || *self == Self::Binary
    }

    /// The type of its values: Spark computes with CHAR and VARCHAR as strings.
    pub fn of_values(&self) -> Self {
        if self.is_text() {
            Self::String
        } else {
            self.clone()
        }
    }

    /// An interval, or what has one inside: files hold numbers for it.
    pub fn has_interval(&self) -> bool {
        match self {
            Self::YearMonth { .. } | Self::DayTime { .. } => true,
            Self::Array { element } => element.has_interval(),
            Self::Map { key, value } => key.has_interval() || value.has_interval(),
            Self::Struct { fields } => fields.iter().any(|(_, kind)| kind.has_interval()),
            _ => false,
        }
    }

    /// The Spark type that holds every value of an Arrow type. (64-bit and nanosecond values are
    /// checked one by one, see `convert` of coffer-catalog.)
    pub fn from_arrow(column: &str, found: &DataType) -> Result<Self, UnsupportedType> {
        Self::from_arrow_within(column, found, MAX_DEPTH)
    }

    fn from_arrow_within(
        column: &str,
        found: &DataType,
        depth: u32,
    ) -> Result<Self, UnsupportedType> {
        let refuse = |reason| {
            Err(UnsupportedType {
                column: column.to_owned(),
                found: found.to_string(),
                reason,
            })
        };
        let inner = |field: &Arc<Field>| match depth.checked_sub(1) {
            Some(depth) => Self::from_arrow_within(column, field.data_type(), depth),
            None => Err(UnsupportedType {
                column: column.to_owned(),
                found: "nested".to_owned(),
                reason: TOO_DEEP,
            }),
        };
        Ok(match found {
            DataType::Boolean => Self::Boolean,
            DataType::Int8 => Self::Byte,
            DataType::Int16 | DataType::UInt8 => Self::Short,
            DataType::Int32 | DataType::UInt16 => Self::Int,
            DataType::Int64 | DataType::UInt32 => Self::Long,
            DataType::UInt64 => Self::Decimal {
                precision: 20,
                scale: 0,
            },
            DataType::Float16 | DataType::Float32 => Self::Float,
            DataType::Float64 => Self::Double,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => match (*precision, u8::try_from(*scale)) {
                (1..=38, Ok(scale)) if scale <= *precision => Self::Decimal {
                    precision: *precision,
                    scale,
                },
                (1..=38, _) => {
                    return refuse("a decimal's scale must lie between 0 and its precision");
                }
                _ => return refuse("decimals have at most 38 digits"),
            },
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::String,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Binary,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Timestamp(_, Some(_)) => Self::Timestamp,
            DataType::Timestamp(_, None) => Self::TimestampNtz,
            DataType::Dictionary(_, value) => {
                return Self::from_arrow_within(column, value, depth);
            }
            DataType::RunEndEncoded(_, value) => {
                return Self::from_arrow_within(column, value.data_type(), depth);
            }
            DataType::Null => return refuse("it has no type; cast it to one"),
            DataType::Time32(_) | DataType::Time64(_) => Self::Time { digits: 6 },
            DataType::Interval(IntervalUnit::YearMonth) => Self::YearMonth { first: 0, last: 1 },
            DataType::Duration(_) => Self::DayTime { first: 0, last: 3 },
            DataType::Interval(_) => {
                return refuse(
                    "it has months, days and less, which Spark has for expressions only",
                );
            }
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::FixedSizeList(element, _) => Self::array(inner(element)?),
            DataType::Struct(fields) => {
                let field = |field: &Arc<Field>| Ok((field.name().clone(), inner(field)?));
                Self::structure(fields.iter().map(field).collect::<Result<_, _>>()?)
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) => match pair.as_ref() {
                    [key, value] => Self::map(inner(key)?, inner(value)?),
                    _ => return refuse("a map has keys and values"),
                },
                _ => return refuse("a map has keys and values"),
            },
            DataType::ListView(_) | DataType::LargeListView(_) | DataType::Union(_, _) => {
                return refuse("it has no Spark type");
            }
        })
    }
}

impl fmt::Display for SparkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::Byte => "tinyint",
            Self::Short => "smallint",
            Self::Int => "int",
            Self::Long => "bigint",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal { precision, scale } => return write!(f, "decimal({precision},{scale})"),
            Self::String => "string",
            Self::Char { length } => return write!(f, "char({length})"),
            Self::Varchar { length } => return write!(f, "varchar({length})"),
            Self::Binary => "binary",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::TimestampNtz => "timestamp_ntz",
            Self::Time { digits } => return write!(f, "time({digits})"),
            Self::YearMonth { first, last } => return fields(&YEAR_MONTH, *first, *last, f),
            Self::DayTime { first, last } => return fields(&DAY_TIME, *first, *last, f),
            Self::Array { element } => return write!(f, "array<{element}>"),
            Self::Map { key, value } => return write!(f, "map<{key},{value}>"),
            Self::Struct { fields } => {
                let field =
                    |(name, kind): &(String, Self)| format!("{}:{kind}", quote_if_needed(name));
                let fields: Vec<String> = fields.iter().map(field).collect();
                return write!(f, "struct<{}>", fields.join(","));
            }
        })
    }
}

const YEAR_MONTH: [&str; 2] = ["year", "month"];
const DAY_TIME: [&str; 4] = ["day", "hour", "minute", "second"];

/// The type of an interval, by its first and last field.
fn fields(of: &[&str], first: u8, last: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let name = |at: u8| of.get(usize::from(at)).copied().unwrap_or_default();
    match first == last {
        true => write!(f, "interval {}", name(first)),
        false => write!(f, "interval {} to {}", name(first), name(last)),
    }
}

/// The interval of these fields.
fn interval(first: &str, last: &str) -> Option<SparkType> {
    let at = |of: &[&str], name: &str| {
        let found = of.iter().position(|field| field.eq_ignore_ascii_case(name));
        found.and_then(|at| u8::try_from(at).ok())
    };
    let both = |of: &[&str]| {
        at(of, first)
            .zip(at(of, last))
            .filter(|(first, last)| first <= last)
    };
    match (both(&YEAR_MONTH), both(&DAY_TIME)) {
        (Some((first, last)), _) => Some(SparkType::YearMonth { first, last }),
        (_, Some((first, last))) => Some(SparkType::DayTime { first, last }),
        _ => None,
    }
}

/// As Spark writes names in DDL.
fn quote_if_needed(name: &str) -> std::borrow::Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(plain)
    {
        true => name.into(),
        false => format!("`{}`", name.replace('`', "``")).into(),
    }
}

impl FromStr for SparkType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut ddl = Ddl::over(text);
        let kind = ddl.kind(MAX_DEPTH)?;
        ddl.end()?;
        Ok(kind)
    }
}

/// A type without types inside.
fn flat(name: &str, arguments: Option<&str>) -> Result<SparkType, String> {
    let text = match arguments {
        Some(arguments) => format!("{name}({arguments})"),
        None => name.to_owned(),
    };
    let plain = match name.to_ascii_lowercase().as_str() {
        "boolean" => SparkType::Boolean,
        "tinyint" | "byte" => SparkType::Byte,
        "smallint" | "short" => SparkType::Short,
        "int" | "integer" => SparkType::Int,
        "bigint" | "long" => SparkType::Long,
        "float" | "real" => SparkType::Float,
        "double" => SparkType::Double,
        "string" => SparkType::String,
        "binary" => SparkType::Binary,
        "date" => SparkType::Date,
        "timestamp" | "timestamp_ltz" => SparkType::Timestamp,
        "timestamp_ntz" => SparkType::TimestampNtz,
        "time" => return time(&text, arguments),
        "char" | "character" => {
            return length(&text, arguments).map(|length| SparkType::Char { length });
        }
        "varchar" => return length(&text, arguments).map(|length| SparkType::Varchar { length }),
        "decimal" | "dec" | "numeric" => return decimal(&text, arguments),
        _ => return Err(format!("`{text}` is not a type that a table can hold")),
    };
    match arguments {
        Some(_) => Err(format!("`{text}`: this type takes no arguments")),
        None => Ok(plain),
    }
}

/// Spark's bounds: as many characters as its 32-bit integers count, none too.
fn length(text: &str, arguments: Option<&str>) -> Result<u32, String> {
    let length = arguments.and_then(|length| length.trim().parse::<i32>().ok());
    let length = length.and_then(|length| u32::try_from(length).ok());
    length.ok_or_else(|| format!("`{text}`: say how many characters, as in VARCHAR(10)"))
}

fn time(text: &str, arguments: Option<&str>) -> Result<SparkType, String> {
    let digits = arguments.map_or(Ok(6), |digits| digits.trim().parse::<u8>());
    match digits.ok().filter(|digits| *digits <= 6) {
        Some(digits) => Ok(SparkType::Time { digits }),
        None => Err(format!("`{text}`: TIME has 0 to 6 digits of seconds")),
    }
}

fn decimal(text: &str, arguments: Option<&str>) -> Result<SparkType, String> {
    let Some(arguments) = arguments else {
        return Ok(SparkType::Decimal {
            precision: 10,
            scale: 0,
        });
    };
    let bad = || format!("`{text}`: DECIMAL takes a precision of 1 to 38 and a scale up to it");
    let mut parts = arguments.split(',').map(|part| part.trim().parse::<u8>());
    let precision = parts.next().and_then(Result::ok).ok_or_else(bad)?;
    let scale = parts.next().unwrap_or(Ok(0)).map_err(|_| bad())?;
    if parts.next().is_some() || !(1..=38).contains(&precision) || scale > precision {
        return Err(bad());
    }
    Ok(SparkType::Decimal { precision, scale })
}

impl serde::Serialize for SparkType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for SparkType {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
