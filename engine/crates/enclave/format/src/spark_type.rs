//! Spark's flat types, their DDL text and their Arrow form.

use std::{fmt, str::FromStr};

use arrow::datatypes::{DataType, TimeUnit};

/// The types a sealed table's column can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// The Arrow type of the column in memory and in the files.
    pub fn to_arrow(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Byte => DataType::Int8,
            Self::Short => DataType::Int16,
            Self::Int => DataType::Int32,
            Self::Long => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Decimal { precision, scale } => {
                DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(i8::MAX))
            }
            Self::String | Self::Char { .. } | Self::Varchar { .. } => DataType::Utf8,
            Self::Binary => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::TimestampNtz => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }

    /// STRING, CHAR or VARCHAR.
    pub fn is_text(self) -> bool {
        matches!(
            self,
            Self::String | Self::Char { .. } | Self::Varchar { .. }
        )
    }

    /// STRING, CHAR, VARCHAR or BINARY: values of any length, of which only a prefix has an order
    /// that schemes keep.
    pub fn is_bytes(self) -> bool {
        self.is_text() || self == Self::Binary
    }

    /// The type of its values: Spark computes with CHAR and VARCHAR as strings.
    pub fn of_values(self) -> Self {
        if self.is_text() { Self::String } else { self }
    }

    /// The Spark type that holds every value of an Arrow type. (64-bit and nanosecond values are
    /// checked one by one, see `convert` of coffer-catalog.)
    pub fn from_arrow(column: &str, found: &DataType) -> Result<Self, UnsupportedType> {
        let refuse = |reason| {
            Err(UnsupportedType {
                column: column.to_owned(),
                found: found.to_string(),
                reason,
            })
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
            DataType::Dictionary(_, value) => return Self::from_arrow(column, value),
            DataType::RunEndEncoded(_, value) => {
                return Self::from_arrow(column, value.data_type());
            }
            DataType::Null => return refuse("it has no type; cast it to one"),
            DataType::Time32(_) | DataType::Time64(_) => {
                return refuse("times of day are not supported");
            }
            DataType::Interval(_) | DataType::Duration(_) => {
                return refuse("intervals are not supported");
            }
            DataType::List(_)
            | DataType::LargeList(_)
            | DataType::ListView(_)
            | DataType::LargeListView(_)
            | DataType::FixedSizeList(_, _)
            | DataType::Struct(_)
            | DataType::Map(_, _)
            | DataType::Union(_, _) => {
                return refuse("nested types are not supported; flatten the column first");
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
        })
    }
}

impl FromStr for SparkType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        let (name, arguments) = match lower.split_once('(') {
            Some((name, rest)) => {
                let inner = rest
                    .strip_suffix(')')
                    .ok_or_else(|| format!("`{text}`: a parenthesis is not closed"))?;
                (name.trim(), Some(inner))
            }
            None => (lower.as_str(), None),
        };
        let plain = match name {
            "boolean" => Self::Boolean,
            "tinyint" | "byte" => Self::Byte,
            "smallint" | "short" => Self::Short,
            "int" | "integer" => Self::Int,
            "bigint" | "long" => Self::Long,
            "float" | "real" => Self::Float,
            "double" => Self::Double,
            "string" => Self::String,
            "binary" => Self::Binary,
            "date" => Self::Date,
            "timestamp" | "timestamp_ltz" => Self::Timestamp,
            "timestamp_ntz" => Self::TimestampNtz,
            "char" | "character" => {
                return length(text, arguments).map(|length| Self::Char { length });
            }
            "varchar" => return length(text, arguments).map(|length| Self::Varchar { length }),
            "decimal" | "dec" | "numeric" => return decimal(text, arguments),
            _ => return Err(format!("`{text}` is not a flat Spark type")),
        };
        if arguments.is_some() {
            Err(format!("`{text}`: this type takes no arguments"))
        } else {
            Ok(plain)
        }
    }
}

/// Spark's bounds: as many characters as its 32-bit integers count, none too.
fn length(text: &str, arguments: Option<&str>) -> Result<u32, String> {
    let length = arguments.and_then(|length| length.trim().parse::<i32>().ok());
    let length = length.and_then(|length| u32::try_from(length).ok());
    length.ok_or_else(|| format!("`{text}`: say how many characters, as in VARCHAR(10)"))
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

/// Parses Spark's DDL for columns, `a INT, b DECIMAL(12,2) NOT NULL`, names in backquotes if need
/// be. Gives name, type and whether NULL is allowed.
pub fn parse_ddl(ddl: &str) -> Result<Vec<(String, SparkType, bool)>, String> {
    split_top(ddl)
        .into_iter()
        .map(|part| parse_column(&part))
        .collect()
}

/// Splits at commas outside parentheses and backquotes.
fn split_top(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut depth, mut quoted) = (Vec::new(), String::new(), 0_u32, false);
    for c in text.chars() {
        match c {
            '`' => quoted = !quoted,
            '(' if !quoted => depth = depth.saturating_add(1),
            ')' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    parts.push(part);
    parts
}

fn parse_column(text: &str) -> Result<(String, SparkType, bool), String> {
    let text = text.trim();
    let (name, rest) = if let Some(rest) = text.strip_prefix('`') {
        let end = rest
            .find('`')
            .ok_or_else(|| format!("`{text}`: a backquote is not closed"))?;
        let (name, rest) = rest.split_at(end);
        (name, rest.trim_start_matches('`'))
    } else {
        let end = text
            .find(|c: char| c.is_whitespace() || c == ':')
            .unwrap_or(text.len());
        text.split_at(end)
    };
    let mut kind = rest.trim().trim_start_matches(':').trim();
    let mut nullable = true;
    let lower = kind.to_ascii_lowercase();
    if let Some(stem) = lower
        .strip_suffix("null")
        .map(str::trim_end)
        .and_then(|stem| stem.strip_suffix("not"))
    {
        nullable = false;
        kind = kind.get(..stem.len()).unwrap_or(kind).trim_end();
    }
    if name.is_empty() || kind.is_empty() {
        return Err(format!(
            "`{text}`: expected a name and a type, as in `a INT`"
        ));
    }
    Ok((name.to_owned(), kind.parse()?, nullable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ddl_reads_as_spark_does() {
        let columns =
            parse_ddl("a INT, `b, c` decimal(12, 2) NOT NULL, d: timestamp_ntz, e Dec").unwrap();
        assert_eq!(columns[0], ("a".into(), SparkType::Int, true));
        assert_eq!(
            columns[1],
            (
                "b, c".into(),
                SparkType::Decimal {
                    precision: 12,
                    scale: 2
                },
                false
            )
        );
        assert_eq!(columns[2], ("d".into(), SparkType::TimestampNtz, true));
        assert_eq!(
            columns[3],
            (
                "e".into(),
                SparkType::Decimal {
                    precision: 10,
                    scale: 0
                },
                true
            )
        );
    }

    #[test]
    fn char_and_varchar_keep_their_lengths() {
        let columns =
            parse_ddl("a CHAR(5), b character(7), c VarChar( 2147483647 ) NOT NULL").unwrap();
        let kinds: Vec<_> = columns.iter().map(|column| column.1).collect();
        let long = SparkType::Varchar {
            length: 2_147_483_647,
        };
        assert_eq!(
            kinds,
            [
                SparkType::Char { length: 5 },
                SparkType::Char { length: 7 },
                long
            ]
        );
        assert!(
            kinds
                .iter()
                .all(|kind| kind.of_values() == SparkType::String)
        );
    }

    #[test]
    fn ddl_refuses() {
        for bad in [
            "a",
            "a ARRAY<INT>",
            "a DECIMAL(39,0)",
            "a DECIMAL(3,4)",
            "a INT(3)",
            "`a INT",
            "",
            "a VARCHAR",
            "a CHAR(-1)",
            "a CHAR(2147483648)",
        ] {
            assert!(parse_ddl(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_round_trip() {
        for kind in [
            "boolean",
            "tinyint",
            "decimal(38,10)",
            "timestamp_ntz",
            "string",
            "char(1)",
            "varchar(20)",
        ] {
            assert_eq!(kind.parse::<SparkType>().unwrap().to_string(), kind);
        }
    }
}
