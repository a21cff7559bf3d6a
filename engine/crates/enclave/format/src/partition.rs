//! Partition columns: the text form of their values, and the folders of those that the policy names
//! `plain`.
//!
//! The values of a file lie in the manifest, as text: a whole number for numbers, days and
//! microseconds, the digits of a decimal's unscaled value, `true` or `false`, or the string itself.
//! They are also in the file, as those of every column are, so readers need nothing of this. Only
//! the values of `plain` columns appear in paths, as Hive writes them.

use arrow::{
    array::{Array, AsArray},
    datatypes::{
        Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type,
        Time64MicrosecondType, TimestampMicrosecondType,
    },
};

use crate::{Column, Error, SparkType};

/// A partition column's value as text; none is NULL.
pub type PartitionValue = Option<String>;

const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";
const DAY_MICROS: i64 = 86_400_000_000;

/// Whether a table can be partitioned by a column of this type: those whose equality is plain.
pub fn can_partition(kind: &SparkType) -> bool {
    let unequal = matches!(
        kind,
        SparkType::Float | SparkType::Double | SparkType::Binary
    );
    !unequal && !kind.is_nested()
}

/// The value of one row.
pub fn partition_value(
    column: &Column,
    array: &dyn Array,
    row: usize,
) -> Result<PartitionValue, Error> {
    if row >= array.len() {
        return Err(Error::BatchSchema(column.name.clone()));
    }
    if array.is_null(row) {
        return Ok(None);
    }
    let text = match &column.kind {
        SparkType::Boolean => array
            .as_boolean_opt()
            .map(|values| values.value(row).to_string()),
        SparkType::Byte => array
            .as_primitive_opt::<Int8Type>()
            .map(|v| v.value(row).to_string()),
        SparkType::Short => array
            .as_primitive_opt::<Int16Type>()
            .map(|v| v.value(row).to_string()),
        SparkType::Int | SparkType::YearMonth { .. } => array
            .as_primitive_opt::<Int32Type>()
            .map(|v| v.value(row).to_string()),
        SparkType::Long | SparkType::DayTime { .. } => array
            .as_primitive_opt::<Int64Type>()
            .map(|v| v.value(row).to_string()),
        SparkType::Decimal { .. } => array
            .as_primitive_opt::<Decimal128Type>()
            .map(|v| v.value(row).to_string()),
        SparkType::String | SparkType::Char { .. } | SparkType::Varchar { .. } => array
            .as_string_opt::<i32>()
            .map(|v| v.value(row).to_owned()),
        SparkType::Date => array
            .as_primitive_opt::<Date32Type>()
            .map(|v| v.value(row).to_string()),
        SparkType::Timestamp | SparkType::TimestampNtz => array
            .as_primitive_opt::<TimestampMicrosecondType>()
            .map(|v| v.value(row).to_string()),
        SparkType::Time { .. } => array
            .as_primitive_opt::<Time64MicrosecondType>()
            .map(|v| v.value(row).to_string()),
        SparkType::Float
        | SparkType::Double
        | SparkType::Binary
        | SparkType::Array { .. }
        | SparkType::Struct { .. }
        | SparkType::Map { .. } => {
            return Err(Error::PartitionType(column.name.clone()));
        }
    };
    text.map(Some)
        .ok_or_else(|| Error::BatchSchema(column.name.clone()))
}

/// The folders that a file with these values lies in, `a=1/b=2/`: of the plain columns alone.
pub fn folders<'a>(columns: impl Iterator<Item = (&'a Column, &'a PartitionValue)>) -> String {
    columns
        .filter(|(column, _)| column.is_in_paths())
        .map(|(column, value)| {
            let value = match value.as_deref().map(|text| shown(&column.kind, text)) {
                None => NULL_FOLDER.to_owned(),
                // As Hive has it: an empty folder name would be none.
                Some(text) if text.is_empty() => NULL_FOLDER.to_owned(),
                Some(text) => escaped(&text),
            };
            format!("{}={value}/", escaped(&column.name))
        })
        .collect()
}

/// A value as people write it; the text itself where there is no such form.
fn shown(kind: &SparkType, text: &str) -> String {
    let number = text.parse::<i64>().ok();
    let formed = match (kind, number) {
        (SparkType::Date, Some(days)) => date(days),
        (SparkType::Timestamp | SparkType::TimestampNtz, Some(micros)) => timestamp(micros),
        (SparkType::Decimal { scale, .. }, _) => Some(decimal(text, usize::from(*scale))),
        _ => None,
    };
    formed.unwrap_or_else(|| text.to_owned())
}

fn decimal(digits: &str, scale: usize) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let padded = format!("{digits:0>width$}", width = scale.saturating_add(1));
    let (whole, fraction) = padded.split_at(padded.len().saturating_sub(scale));
    format!("{sign}{whole}.{fraction}")
}

/// Proleptic Gregorian, years 1 to 9999 (Howard Hinnant's `civil_from_days`).
fn date(days: i64) -> Option<String> {
    let shifted = days.checked_add(719_468)?;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (1..=9999)
        .contains(&year)
        .then(|| format!("{year:04}-{month:02}-{day:02}"))
}

fn timestamp(micros: i64) -> Option<String> {
    let day = date(micros.div_euclid(DAY_MICROS))?;
    let left = micros.rem_euclid(DAY_MICROS);
    let (seconds, fraction) = (left / 1_000_000, left % 1_000_000);
    let time = format!(
        "{day} {:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    if fraction == 0 {
        return Some(time);
    }
    let fraction = format!("{fraction:06}");
    Some(format!("{time}.{}", fraction.trim_end_matches('0')))
}

/// Hive's escaping of path names; also of a leading `.` and `_`, by which tools know files to be
/// left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let special = c.is_control()
            || matches!(
                c,
                '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '{' | '[' | ']' | '^'
            )
            || (at == 0 && matches!(c, '.' | '_'));
        if special {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use coffer_schemes::Protection;

    use super::*;

    fn column(name: &str, kind: SparkType, protection: Protection) -> Column {
        Column {
            id: 1,
            name: name.into(),
            kind,
            nullable: true,
            protection: protection.into(),
        }
    }

    #[test]
    fn folders_carry_plain_values_only() {
        let columns = [
            column("day", SparkType::Date, Protection::Plain),
            column("who", SparkType::String, Protection::Tee),
            column("x/y", SparkType::String, Protection::Plain),
        ];
        let values = [
            Some("19782".to_owned()),
            Some("secret".into()),
            Some("../a=b".into()),
        ];
        let path = folders(columns.iter().zip(&values));
        assert_eq!(path, "day=2024-02-29/x%2Fy=%2E.%2Fa%3Db/");
        assert_eq!(
            folders(columns.iter().zip(&[None, None, None])),
            "day=__HIVE_DEFAULT_PARTITION__/x%2Fy=__HIVE_DEFAULT_PARTITION__/"
        );
    }

    #[test]
    fn values_as_people_write_them() {
        assert_eq!(shown(&SparkType::Date, "-719162"), "0001-01-01");
        assert_eq!(shown(&SparkType::Date, "2932896"), "9999-12-31");
        assert_eq!(shown(&SparkType::Date, "2147483647"), "2147483647");
        assert_eq!(
            shown(&SparkType::Timestamp, "-1"),
            "1969-12-31 23:59:59.999999"
        );
        assert_eq!(
            shown(&SparkType::TimestampNtz, "1500000"),
            "1970-01-01 00:00:01.5"
        );
        let money = SparkType::Decimal {
            precision: 9,
            scale: 2,
        };
        assert_eq!(
            (shown(&money, "-7"), shown(&money, "1234")),
            ("-0.07".into(), "12.34".into())
        );
    }
}
