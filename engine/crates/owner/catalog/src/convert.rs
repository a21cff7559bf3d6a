//! Source data into Spark's types: losslessly, or refused with the column's name.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray,
    },
    compute::{CastOptions, cast_with_options},
    datatypes::{
        DataType, Date64Type, DurationMicrosecondType, DurationNanosecondType, Field, Fields,
        Int32Type, Int64Type, IntervalUnit, IntervalYearMonthType, Schema, SchemaRef,
        Time64NanosecondType, TimeUnit, TimestampNanosecondType,
    },
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
    if to.is_nested() {
        return to_nested(array, to, column);
    }
    match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) if *to == DataType::Int32 => {
            let months = array.as_primitive::<IntervalYearMonthType>();
            return Ok(Arc::new(months.reinterpret_cast::<Int32Type>()));
        }
        DataType::Duration(unit) if *to == DataType::Int64 => {
            let nanos = *unit == TimeUnit::Nanosecond;
            let broken = |array: &ArrayRef| {
                let values = array.as_primitive::<DurationNanosecondType>();
                values.iter().flatten().any(|value| value % 1000 != 0)
            };
            if nanos && broken(array) {
                return Err(lossy(
                    "a duration has nanoseconds, and Spark's have microseconds",
                ));
            }
            let micros = DataType::Duration(TimeUnit::Microsecond);
            let micros = cast_with_options(array, &micros, &strict())
                .map_err(|_| lossy("a value does not fit the column's type"))?;
            let micros = micros.as_primitive::<DurationMicrosecondType>();
            return Ok(Arc::new(micros.reinterpret_cast::<Int64Type>()));
        }
        DataType::Time64(TimeUnit::Nanosecond)
            if array
                .as_primitive::<Time64NanosecondType>()
                .iter()
                .flatten()
                .any(|value| value % 1000 != 0) =>
        {
            return Err(lossy(
                "a time has nanoseconds, and Spark's have microseconds",
            ));
        }
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
    cast_with_options(array, to, &strict())
        .map_err(|_| lossy("a value does not fit the column's type"))
}

/// A value that does not survive is an error.
fn strict() -> CastOptions<'static> {
    CastOptions {
        safe: false,
        ..CastOptions::default()
    }
}

/// The same of a nested type, part by part: what a part is called plays no role, but for a struct's
/// fields.
fn to_nested(array: &ArrayRef, to: &DataType, column: &str) -> Result<ArrayRef, Error> {
    let unfit = |reason: &str| {
        Error::from(FormatError::Lossy {
            column: column.to_owned(),
            reason: reason.to_owned(),
        })
    };
    Ok(match (array.data_type(), to) {
        (DataType::LargeList(inner) | DataType::FixedSizeList(inner, _), DataType::List(_)) => {
            let list = DataType::List(Arc::clone(inner));
            let list = cast_with_options(array, &list, &CastOptions::default())
                .map_err(|_| unfit("a list is too long"))?;
            to_nested(&list, to, column)?
        }
        (DataType::List(_), DataType::List(element)) => {
            let list = array.as_list::<i32>();
            let values = to_type(list.values(), element.data_type(), column)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Arc::new(ListArray::try_new(
                Arc::clone(element),
                offsets,
                values,
                nulls,
            )?)
        }
        (DataType::Struct(found), DataType::Struct(fields)) => {
            Arc::new(to_struct(array.as_struct(), found, fields, column)?)
        }
        (DataType::Map(_, _), DataType::Map(entries, ordered)) => {
            let map = array.as_map();
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(unfit("a map has keys and values"));
            };
            if map.keys().logical_null_count() > 0 {
                return Err(unfit("a map's key is NULL"));
            }
            let sides = [map.keys(), map.values()];
            let sides = sides.into_iter().zip(fields);
            let sides = sides
                .map(|(side, field)| to_type(side, field.data_type(), column))
                .collect::<Result<Vec<_>, Error>>()?;
            let pairs = StructArray::try_new(fields.clone(), sides, None)?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            let entries = Arc::clone(entries);
            Arc::new(MapArray::try_new(entries, offsets, pairs, nulls, *ordered)?)
        }
        _ => return Err(unfit("its type is not the column's")),
    })
}

fn to_struct(
    array: &StructArray,
    found: &Fields,
    fields: &Fields,
    column: &str,
) -> Result<StructArray, Error> {
    let names = |fields: &Fields| -> Vec<String> {
        fields
            .iter()
            .map(|field: &Arc<Field>| field.name().clone())
            .collect()
    };
    if names(found) != names(fields) {
        return Err(FormatError::BatchSchema(column.to_owned()).into());
    }
    let columns = array.columns().iter().zip(fields);
    let columns = columns
        .map(|(part, field)| to_type(part, field.data_type(), column))
        .collect::<Result<Vec<_>, Error>>()?;
    let (nulls, rows) = (array.nulls().cloned(), array.len());
    Ok(StructArray::try_new_with_length(
        fields.clone(),
        columns,
        nulls,
        rows,
    )?)
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
    fn nested_values_are_cast_part_by_part() {
        let part = |name: &str, of: DataType| Arc::new(Field::new(name, of, true));
        let mut lists = FixedSizeListBuilder::new(TimestampNanosecondBuilder::new(), 2);
        for value in [5000, 7001] {
            lists.values().append_value(value);
        }
        lists.append(true);
        let to: SparkType = "array<timestamp_ntz>".parse().unwrap();
        let lists = arr(lists.finish());
        let error = to_type(&lists, &to.to_arrow(), "a").unwrap_err();
        assert!(error.to_string().contains("nanoseconds"), "{error}");

        let values = arr(UInt8Array::from(vec![Some(200), None]));
        let inner = StructArray::new(
            vec![part("x", DataType::UInt8)].into(),
            vec![values],
            Some(vec![true, false].into()),
        );
        let found: ArrayRef = Arc::new(inner);
        let to: SparkType = "struct<x:smallint>".parse().unwrap();
        let cast = to_type(&found, &to.to_arrow(), "a").unwrap();
        assert_eq!(SparkType::from_arrow("a", found.data_type()).unwrap(), to);
        assert_eq!((cast.null_count(), cast.data_type()), (1, &to.to_arrow()));
        let other: SparkType = "struct<y:smallint>".parse().unwrap();
        assert!(to_type(&found, &other.to_arrow(), "a").is_err());
    }

    #[test]
    fn intervals_and_times_of_other_units() {
        let to = |array: ArrayRef| {
            let kind = SparkType::from_arrow("a", array.data_type()).unwrap();
            to_type(&array, &kind.to_arrow(), "a")
        };
        let seconds = to(arr(DurationSecondArray::from(vec![-3]))).unwrap();
        assert_eq!(seconds.as_primitive::<Int64Type>().value(0), -3_000_000);
        let months = to(arr(IntervalYearMonthArray::from(vec![14]))).unwrap();
        assert_eq!(months.as_primitive::<Int32Type>().value(0), 14);
        let millis = to(arr(Time32MillisecondArray::from(vec![5]))).unwrap();
        assert_eq!(millis.data_type(), &DataType::Time64(TimeUnit::Microsecond));
        assert!(to(arr(Time64NanosecondArray::from(vec![5]))).is_err());
        assert!(to(arr(DurationNanosecondArray::from(vec![5]))).is_err());
        assert!(to(arr(DurationSecondArray::from(vec![i64::MAX]))).is_err());
    }

    #[test]
    fn what_has_no_spark_type_is_refused_by_name() {
        let mixed = DataType::Interval(IntervalUnit::MonthDayNano);
        let list = DataType::List(Arc::new(Field::new_list_field(mixed, true)));
        let error = SparkType::from_arrow("tags", &list)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`tags`") && error.contains("months, days and less"),
            "{error}"
        );
    }
}
