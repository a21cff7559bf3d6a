//! Types of which Spark notes beside a file's schema what Parquet's does not tell: intervals, the
//! digits of a TIME, and CHAR(n) and VARCHAR(n): strings with a length, which Spark minds when it
//! reads and writes.

use std::{collections::BTreeMap, sync::Arc};

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use coffer_schemes::char_text;
use parquet::file::metadata::KeyValue;
use serde::Deserialize;
use serde_json::json;

use crate::{Column, Error, SparkType, UnsupportedType};

/// Where Spark notes its schema in a Parquet file.
const ROW_METADATA: &str = "org.apache.spark.sql.parquet.row.metadata";
/// Levels of a type that is read.
const MAX_DEPTH: u32 = 64;
/// What it calls the type of a string column that is more than that.
const TYPE_STRING: &str = "__CHAR_VARCHAR_TYPE_STRING";

#[derive(Deserialize)]
struct Row {
    fields: Vec<RowField>,
}

#[derive(Deserialize)]
struct RowField {
    name: String,
    #[serde(rename = "type")]
    kind: serde_json::Value,
    #[serde(default)]
    metadata: serde_json::Map<String, serde_json::Value>,
}

/// Gives columns of a file the types that Spark noted of them, where Parquet's tell less: CHAR and
/// VARCHAR, intervals, the digits of a TIME. A note that does not read as one is none. Inside of a
/// nested column no length of strings is kept, so one with such a note is refused.
pub fn declare(
    columns: &mut [(String, SparkType, bool)],
    notes: Option<&Vec<KeyValue>>,
) -> Result<(), UnsupportedType> {
    let noted = notes
        .into_iter()
        .flatten()
        .find(|note| note.key == ROW_METADATA);
    let row: Option<Row> = noted.and_then(|note| serde_json::from_str(note.value.as_deref()?).ok());
    let mut declared = BTreeMap::new();
    for field in row.into_iter().flat_map(|row| row.fields) {
        let nested = columns
            .iter()
            .find(|column| column.0 == field.name && column.1.is_nested());
        if let Some((column, kind, _)) = nested {
            let noted = field.metadata.get(TYPE_STRING);
            if noted.is_some() || mentions_lengths(&field.kind) {
                return Err(UnsupportedType {
                    column: column.clone(),
                    found: kind.to_string(),
                    reason: "CHAR and VARCHAR inside of a nested type are not supported; \
                             use STRING",
                });
            }
        }
        let noted = of_json(&field.kind, MAX_DEPTH);
        let column = columns.iter_mut().find(|column| column.0 == field.name);
        if let Some(((_, kind, _), noted)) = column.zip(noted) {
            *kind = refined(kind, &noted);
        }
        // With spark.sql.preserveCharVarcharTypeInfo the type itself says it.
        let text = field
            .metadata
            .get(TYPE_STRING)
            .unwrap_or(&field.kind)
            .as_str();
        if let Some(kind) = text.and_then(|text| text.parse::<SparkType>().ok()) {
            declared.insert(field.name, kind);
        }
    }
    for (name, kind, _) in columns
        .iter_mut()
        .filter(|column| column.1 == SparkType::String)
    {
        if let Some(found) = declared.remove(name).filter(SparkType::is_text) {
            *kind = found;
        }
    }
    Ok(())
}

/// The type that Spark's JSON says; none for one that no table holds.
fn of_json(json: &serde_json::Value, depth: u32) -> Option<SparkType> {
    let depth = depth.checked_sub(1)?;
    let part = |name: &str| of_json(json.get(name)?, depth);
    if let Some(text) = json.as_str() {
        return text.parse().ok();
    }
    match json.get("type")?.as_str()? {
        "array" => Some(SparkType::array(part("elementType")?)),
        "map" => Some(SparkType::map(part("keyType")?, part("valueType")?)),
        "struct" => {
            let field = |field: &serde_json::Value| {
                let name = field.get("name")?.as_str()?.to_owned();
                Some((name, of_json(field.get("type")?, depth)?))
            };
            let fields = json.get("fields")?.as_array()?.iter().map(field);
            Some(SparkType::structure(fields.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

/// A type as Parquet tells it, with what a note of the same type tells more.
fn refined(found: &SparkType, noted: &SparkType) -> SparkType {
    match (found, noted) {
        (SparkType::Int, SparkType::YearMonth { .. })
        | (SparkType::Long, SparkType::DayTime { .. })
        | (SparkType::Time { .. }, SparkType::Time { .. }) => noted.clone(),
        (SparkType::Array { element }, SparkType::Array { element: noted }) => {
            SparkType::array(refined(element, noted))
        }
        (SparkType::Map { key, value }, SparkType::Map { key: k, value: v }) => {
            SparkType::map(refined(key, k), refined(value, v))
        }
        (SparkType::Struct { fields }, SparkType::Struct { fields: noted })
            if fields.len() == noted.len() =>
        {
            let pairs = fields.iter().zip(noted.iter());
            let field =
                |((name, kind), (_, noted)): (&(String, SparkType), &(String, SparkType))| {
                    (name.clone(), refined(kind, noted))
                };
            SparkType::structure(pairs.map(field).collect())
        }
        _ => found.clone(),
    }
}

/// Whether Parquet's types tell all of a type.
fn is_told_by_parquet(kind: &SparkType) -> bool {
    match kind {
        SparkType::Array { element } => is_told_by_parquet(element),
        SparkType::Map { key, value } => is_told_by_parquet(key) && is_told_by_parquet(value),
        SparkType::Struct { fields } => fields.iter().all(|(_, kind)| is_told_by_parquet(kind)),
        SparkType::Time { .. } | SparkType::YearMonth { .. } | SparkType::DayTime { .. } => false,
        kind => !is_limited(kind),
    }
}

/// Whether a type in Spark's JSON has a CHAR or VARCHAR in it, as it has with
/// spark.sql.preserveCharVarcharTypeInfo.
fn mentions_lengths(json: &serde_json::Value) -> bool {
    match json {
        serde_json::Value::String(text) => {
            text.starts_with("char(") || text.starts_with("varchar(")
        }
        serde_json::Value::Array(values) => values.iter().any(mentions_lengths),
        serde_json::Value::Object(values) => values.values().any(mentions_lengths),
        _ => false,
    }
}

/// CHAR or VARCHAR.
fn is_limited(kind: &SparkType) -> bool {
    matches!(kind, SparkType::Char { .. } | SparkType::Varchar { .. })
}

/// Spark's schema of a file with these columns; none where Parquet's types say it all.
pub fn row_metadata(columns: &[Column]) -> Option<KeyValue> {
    columns
        .iter()
        .find(|column| !is_told_by_parquet(&column.kind))?;
    let field = |column: &Column| {
        let mut metadata = serde_json::Map::new();
        if is_limited(&column.kind) {
            metadata.insert(TYPE_STRING.to_owned(), json!(column.kind.to_string()));
        }
        json!({
            "name": column.name,
            "type": json_type(&column.kind.of_values()),
            "nullable": column.nullable,
            "metadata": metadata,
        })
    };
    let fields: Vec<_> = columns.iter().map(field).collect();
    let row = json!({ "type": "struct", "fields": fields });
    Some(KeyValue::new(ROW_METADATA.to_owned(), row.to_string()))
}

/// Of the flat types, four are called otherwise in Spark's JSON than in its DDL.
fn json_type(kind: &SparkType) -> serde_json::Value {
    match kind {
        SparkType::Byte => json!("byte"),
        SparkType::Short => json!("short"),
        SparkType::Int => json!("integer"),
        SparkType::Long => json!("long"),
        SparkType::Array { element } => {
            json!({ "type": "array", "elementType": json_type(element), "containsNull": true })
        }
        SparkType::Map { key, value } => json!({
            "type": "map",
            "keyType": json_type(key),
            "valueType": json_type(value),
            "valueContainsNull": true,
        }),
        SparkType::Struct { fields } => {
            let field = |(name, kind): &(String, SparkType)| {
                json!({
                    "name": name, "type": json_type(kind), "nullable": true, "metadata": {},
                })
            };
            json!({ "type": "struct", "fields": fields.iter().map(field).collect::<Vec<_>>() })
        }
        kind => json!(kind.to_string()),
    }
}

/// Rows as Spark stores them: CHAR is padded, of a VARCHAR that is too long the last spaces go, and
/// a longer text is an error.
pub(crate) fn stored(batch: &RecordBatch, columns: &[Column]) -> Result<RecordBatch, Error> {
    mapped(batch, columns, |text, column| {
        let stored = match &column.kind {
            SparkType::Char { length } => char_text::fixed(text, size(*length)),
            SparkType::Varchar { length } => {
                char_text::limited(text, size(*length)).map(Into::into)
            }
            _ => Some(text.into()),
        };
        stored.ok_or_else(|| Error::Lossy {
            column: column.name.clone(),
            reason: format!(
                "a value is too long for {} (EXCEED_LIMIT_LENGTH)",
                column.kind
            ),
        })
    })
}

/// Rows as Spark reads them: a CHAR that another program stored short is padded.
pub fn read(batch: &RecordBatch, columns: &[Column]) -> Result<RecordBatch, Error> {
    mapped(batch, columns, |text, column| {
        Ok(match &column.kind {
            SparkType::Char { length } => char_text::padded(text, size(*length)),
            _ => text.into(),
        })
    })
}

fn size(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

fn mapped(
    batch: &RecordBatch,
    columns: &[Column],
    f: impl for<'t> Fn(&'t str, &Column) -> Result<std::borrow::Cow<'t, str>, Error>,
) -> Result<RecordBatch, Error> {
    if columns.iter().all(|column| !is_limited(&column.kind)) {
        return Ok(batch.clone());
    }
    let map = |(array, column): (&ArrayRef, &Column)| {
        let texts = match array.as_string_opt::<i32>() {
            Some(texts) if is_limited(&column.kind) => texts,
            _ => return Ok(Arc::clone(array)),
        };
        let texts = texts
            .iter()
            .map(|text| text.map(|text| f(text, column)).transpose());
        let array: ArrayRef = Arc::new(texts.collect::<Result<StringArray, Error>>()?);
        Ok(array)
    };
    let arrays = batch
        .columns()
        .iter()
        .zip(columns)
        .map(map)
        .collect::<Result<Vec<_>, Error>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        batch.schema(),
        arrays,
        &options,
    )?)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;

    use super::*;

    fn column(name: &str, kind: SparkType) -> Column {
        Column {
            id: 1,
            name: name.into(),
            kind,
            nullable: true,
            protection: coffer_schemes::Protection::Tee.into(),
        }
    }

    fn columns() -> [Column; 4] {
        [
            column("n", SparkType::Int),
            column("c", SparkType::Char { length: 3 }),
            column("v", SparkType::Varchar { length: 3 }),
            column("s", SparkType::String),
        ]
    }

    #[test]
    fn what_is_noted_is_read_again() {
        let columns = columns();
        let note = row_metadata(&columns).unwrap();
        let mut found: Vec<_> = columns
            .iter()
            .map(|c| (c.name.clone(), c.kind.of_values(), true))
            .collect();
        declare(&mut found, Some(&vec![note])).unwrap();
        assert!(
            found
                .iter()
                .zip(&columns)
                .all(|(found, column)| found.1 == column.kind),
            "{found:?}"
        );
        assert!(row_metadata(&[column("s", SparkType::String)]).is_none());
    }

    #[test]
    fn intervals_and_times_are_noted_and_read_again() {
        let columns = [
            column("y", "interval year to month".parse().unwrap()),
            column("d", "interval minute to second".parse().unwrap()),
            column("t", "time(2)".parse().unwrap()),
            column("n", "struct<a:array<interval day>,b:int>".parse().unwrap()),
            column("m", "map<string,time(6)>".parse().unwrap()),
            column("i", SparkType::Int),
        ];
        let note = row_metadata(&columns).unwrap();
        assert!(note.value.as_deref().unwrap().contains("\"interval day\""));
        let mut found: Vec<_> = columns
            .iter()
            .map(|c| {
                let parquet = SparkType::from_arrow("", &c.kind.to_arrow()).unwrap();
                (c.name.clone(), parquet, true)
            })
            .collect();
        assert!(found.iter().zip(&columns).any(|(f, c)| f.1 != c.kind));
        declare(&mut found, Some(&vec![note])).unwrap();
        assert!(
            found.iter().zip(&columns).all(|(f, c)| f.1 == c.kind),
            "{found:?}"
        );
    }

    #[test]
    fn a_note_of_spark_is_read_and_nonsense_is_none() {
        let read = |text: &str| {
            let mut columns = [
                ("c".to_owned(), SparkType::String, true),
                ("n".to_owned(), SparkType::Int, true),
            ];
            declare(
                &mut columns,
                Some(&vec![KeyValue::new(
                    ROW_METADATA.to_owned(),
                    text.to_owned(),
                )]),
            )
            .unwrap();
            assert_eq!(columns[1].1, SparkType::Int);
            columns[0].1.clone()
        };
        let field = |kind: &str, metadata: &str| {
            format!(
                r#"{{"type":"struct","fields":[
                {{"name":"c","type":{kind},"nullable":true,"metadata":{metadata}}},
                {{"name":"n","type":"char(3)","nullable":true,"metadata":{{}}}}]}}"#
            )
        };
        let noted = field(
            "\"string\"",
            r#"{"__CHAR_VARCHAR_TYPE_STRING":"varchar(7)"}"#,
        );
        assert_eq!(read(&noted), SparkType::Varchar { length: 7 });
        assert_eq!(
            read(&field("\"char(4)\"", "{}")),
            SparkType::Char { length: 4 }
        );
        assert_eq!(read(&field("\"string\"", "{}")), SparkType::String);
        assert_eq!(
            read(&field("{\"type\":\"array\"}", "{}")),
            SparkType::String
        );
        assert_eq!(
            read(&field(
                "\"string\"",
                r#"{"__CHAR_VARCHAR_TYPE_STRING":"array<char(7)>"}"#
            )),
            SparkType::String
        );
        assert_eq!(read(&field("\"integer\"", "{}")), SparkType::String);
        assert_eq!(read("{"), SparkType::String);
    }

    #[test]
    fn lengths_inside_of_nested_columns_are_refused() {
        let declared = |metadata: &str, element: &str| {
            let kind = SparkType::array(SparkType::String);
            let note = format!(
                r#"{{"fields":[{{"name":"c","type":{{"type":"array","elementType":"{element}"}},
                "metadata":{metadata}}}]}}"#
            );
            let notes = vec![KeyValue::new(ROW_METADATA.to_owned(), note)];
            declare(&mut [("c".to_owned(), kind, true)], Some(&notes)).is_ok()
        };
        assert!(declared("{}", "string"));
        assert!(!declared("{}", "char(3)"));
        assert!(!declared(
            r#"{"__CHAR_VARCHAR_TYPE_STRING":"array<char(3)>"}"#,
            "string"
        ));
    }

    #[test]
    fn values_are_stored_as_spark_stores_them() {
        let columns = columns();
        let schema = Schema::new(columns.iter().map(Column::field).collect::<Vec<_>>());
        let batch = |c: Option<&str>, v: Option<&str>| {
            let text = |text: Option<&str>| Arc::new(StringArray::from(vec![text])) as ArrayRef;
            let number: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![1]));
            RecordBatch::try_new(
                Arc::new(schema.clone()),
                vec![number, text(c), text(v), text(Some("long enough"))],
            )
            .unwrap()
        };
        let texts = |batch: &RecordBatch, at: usize| {
            let found = batch.column(at).as_string::<i32>().clone();
            found.iter().next().flatten().map(str::to_owned)
        };
        let done = stored(&batch(Some("é"), Some("ab     ")), &columns).unwrap();
        assert_eq!(
            (texts(&done, 1).as_deref(), texts(&done, 2).as_deref()),
            (Some("é  "), Some("ab "))
        );
        let done = stored(&batch(None, Some("")), &columns).unwrap();
        assert_eq!(
            (texts(&done, 1), texts(&done, 2).as_deref()),
            (None, Some(""))
        );
        for (c, v) in [
            (Some("abcd"), None),
            (None, Some("abcd")),
            (Some(" abc"), None),
        ] {
            let error = stored(&batch(c, v), &columns).unwrap_err().to_string();
            assert!(
                error.contains("EXCEED_LIMIT_LENGTH") && !error.contains("abc"),
                "{error}"
            );
        }
        let read = read(&batch(Some("a"), Some("abcd")), &columns).unwrap();
        assert_eq!(
            (texts(&read, 1).as_deref(), texts(&read, 2).as_deref()),
            (Some("a  "), Some("abcd"))
        );
    }
}
