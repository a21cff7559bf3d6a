//! Source data into Spark's types: losslessly, or refused with the column's name.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Date64Type, Schema, SchemaRef, TimeUnit, TimestampNanosecondType},
};
use coffer_format::{Error as FormatError, SparkType};

use crate::Error;

const MILLIS_PER_DAY: i64 = 86_400_000;

/// The Spark columns that hold a source's columns: name, type, nullable.
pub fn columns_of(source: &Schema) -> Result<Vec<(String, SparkType, bool)>, Error> {
    let column = |field: &Arc<arrow::datatypes::Field>| {
        let kind = SparkType::from_arrow(field.name(), field.data_type())?;
        Ok((field.name().clone(), kind, field.is_nullable()))
    };
    source.fields().iter().map(column).collect()
}

/// Brings a batch into a table's schema, column by column in order.
pub fn to_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    if batch.num_columns() != schema.fields().len() {
        return Err(FormatError::BatchSchema(format!(
            "{} columns instead of {}",
            batch.num_columns(),
            schema.fields().len()
        ))
        .into());
    }
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            if !field.is_nullable() && column.logical_null_count() > 0 {
                let reason = "NULL in a column that is NOT NULL".to_owned();
                return Err(FormatError::Lossy {
                    column: field.name().clone(),
                    reason,
                }
                .into());
            }
            to_type(column, field.data_type(), field.name())
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

/// Casts one column; a value that does not survive is an error. The value is not part of the
/// message.
pub fn to_type(array: &ArrayRef, to: &DataType, column: &str) -> Result<ArrayRef, Error> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    let lossy = |reason: &str| {
        Error::from(FormatError::Lossy {
            column: column.to_owned(),
            reason: reason.to_owned(),
        })
    };
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _)
            if array
                .as_primitive::<TimestampNanosecondType>()
                .iter()
                .flatten()
                .any(|value| value % 1000 != 0) =>
        {
            return Err(lossy(
                "a time has nanoseconds, and Spark's have microseconds",
            ));
        }
        DataType::Date64
            if array
                .as_primitive::<Date64Type>()
                .iter()
                .flatten()
                .any(|value| value % MILLIS_PER_DAY != 0) =>
        {
            return Err(lossy("a date has a time of day"));
        }
        _ => {}
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, to, &options)
        .map_err(|_| lossy("a value does not fit the column's type"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::*;

    fn arr(array: impl Array + 'static) -> ArrayRef {
        Arc::new(array)
    }

    #[test]
    fn unsigned_widens() {
        let max = to_type(
            &arr(UInt64Array::from(vec![u64::MAX])),
            &DataType::Decimal128(20, 0),
            "a",
        )
        .unwrap();
        assert_eq!(
            max.as_primitive::<arrow::datatypes::Decimal128Type>()
                .value(0),
            i128::from(u64::MAX)
        );
        assert_eq!(
            SparkType::from_arrow("a", &DataType::UInt32).unwrap(),
            SparkType::Long
        );
    }

    #[test]
    fn nanoseconds_only_if_whole() {
        let to = DataType::Timestamp(TimeUnit::Microsecond, None);
        let whole = arr(TimestampNanosecondArray::from(vec![Some(-5000), None]));
        assert_eq!(to_type(&whole, &to, "a").unwrap().null_count(), 1);
        let broken = arr(TimestampNanosecondArray::from(vec![-5001]));
        assert!(matches!(
            to_type(&broken, &to, "a"),
            Err(Error::Format(FormatError::Lossy { .. }))
        ));
    }

    #[test]
    fn overflow_is_an_error() {
        let seconds = arr(TimestampSecondArray::from(vec![i64::MAX]));
        let to = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert!(to_type(&seconds, &to, "a").is_err());
    }

    #[test]
    fn nested_is_refused_by_name() {
        let list = DataType::List(Arc::new(arrow::datatypes::Field::new_list_field(
            DataType::Int32,
            true,
        )));
        let error = SparkType::from_arrow("tags", &list)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`tags`") && error.contains("nested"),
            "{error}"
        );
    }
}
