//! Columns in the Arrow types that Spark gives them, where the engine has others: intervals, which
//! are numbers here, and TIME, which Spark has in nanoseconds.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray},
    datatypes::{
        ArrowPrimitiveType, DataType, DurationMicrosecondType, Field, Fields, Int32Type, Int64Type,
        IntervalYearMonthType, Schema, SchemaRef, Time64MicrosecondType, Time64NanosecondType,
    },
    error::ArrowError,
};
use coffer_expr::types::is_open_in_arrow;
use coffer_protocol::plan::{self, TypeId};

/// Columns and the types that a plan gives them.
pub(crate) struct Given(Vec<plan::DataType>);

impl Given {
    /// None where the engine's Arrow types are Spark's.
    pub(crate) fn of(declared: &plan::Schema) -> Option<Self> {
        let types = declared.fields.iter();
        let types: Vec<_> = types
            .map(|field| field.r#type.clone().unwrap_or_default())
            .collect();
        types.iter().any(is_open_in_arrow).then_some(Self(types))
    }

    /// The schema of what [`Self::columns`] gives.
    pub(crate) fn schema(&self, schema: &Schema) -> SchemaRef {
        let fields = schema.fields().iter().zip(&self.0);
        let fields: Vec<Field> = fields
            .map(|(field, of)| {
                let data_type = given_type(of, field.data_type());
                field.as_ref().clone().with_data_type(data_type)
            })
            .collect();
        Arc::new(Schema::new(fields))
    }

    pub(crate) fn columns(&self, columns: &[ArrayRef]) -> Result<Vec<ArrayRef>, ArrowError> {
        let pairs = columns.iter().zip(&self.0);
        pairs.map(|(column, of)| given(of, column)).collect()
    }
}

fn part(of: &plan::DataType, at: usize) -> plan::DataType {
    let field = of.children.get(at);
    field
        .and_then(|field| field.r#type.clone())
        .unwrap_or_default()
}

fn fields_of(of: &plan::DataType, fields: &Fields) -> Fields {
    let fields = fields.iter().enumerate();
    fields
        .map(|(at, field)| {
            let data_type = given_type(&part(of, at), field.data_type());
            field.as_ref().clone().with_data_type(data_type)
        })
        .collect()
}

fn given_type(of: &plan::DataType, found: &DataType) -> DataType {
    if !is_open_in_arrow(of) {
        return found.clone();
    }
    match (TypeId::try_from(of.id), found) {
        (Ok(TypeId::YearMonthInterval), _) => IntervalYearMonthType::DATA_TYPE,
        (Ok(TypeId::DayTimeInterval), _) => DurationMicrosecondType::DATA_TYPE,
        (Ok(TypeId::Time), _) => Time64NanosecondType::DATA_TYPE,
        (_, DataType::List(element)) => {
            let data_type = given_type(&part(of, 0), element.data_type());
            DataType::List(Arc::new(element.as_ref().clone().with_data_type(data_type)))
        }
        (_, DataType::Struct(fields)) => DataType::Struct(fields_of(of, fields)),
        (_, DataType::Map(entries, ordered)) => match entries.data_type() {
            DataType::Struct(fields) => {
                let pairs = DataType::Struct(fields_of(of, fields));
                let entries = entries.as_ref().clone().with_data_type(pairs);
                DataType::Map(Arc::new(entries), *ordered)
            }
            other => other.clone(),
        },
        _ => found.clone(),
    }
}

fn given(of: &plan::DataType, values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !is_open_in_arrow(of) {
        return Ok(Arc::clone(values));
    }
    let other = || ArrowError::SchemaError("a column has another type than the plan says".into());
    Ok(match TypeId::try_from(of.id) {
        Ok(TypeId::YearMonthInterval) => {
            let months = values.as_primitive_opt::<Int32Type>().ok_or_else(other)?;
            Arc::new(months.reinterpret_cast::<IntervalYearMonthType>())
        }
        Ok(TypeId::DayTimeInterval) => {
            let micros = values.as_primitive_opt::<Int64Type>().ok_or_else(other)?;
            Arc::new(micros.reinterpret_cast::<DurationMicrosecondType>())
        }
        Ok(TypeId::Time) => {
            let micros = values.as_primitive_opt::<Time64MicrosecondType>();
            let micros = micros.ok_or_else(other)?;
            Arc::new(micros.unary::<_, Time64NanosecondType>(|v| v.wrapping_mul(1_000)))
        }
        _ => match (values.data_type(), given_type(of, values.data_type())) {
            (DataType::List(_), DataType::List(element)) => {
                let list = values.as_list::<i32>();
                let inner = given(&part(of, 0), list.values())?;
                let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
                Arc::new(ListArray::try_new(element, offsets, inner, nulls)?)
            }
            (DataType::Struct(_), DataType::Struct(fields)) => {
                let row = values.as_struct();
                let columns = row.columns().iter().enumerate();
                let columns = columns.map(|(at, column)| given(&part(of, at), column));
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                let (nulls, rows) = (row.nulls().cloned(), row.len());
                Arc::new(StructArray::try_new_with_length(
                    fields, columns, nulls, rows,
                )?)
            }
            (DataType::Map(..), DataType::Map(entries, ordered)) => {
                let map = values.as_map();
                let DataType::Struct(fields) = entries.data_type() else {
                    return Err(other());
                };
                let sides = map.entries().columns().iter().enumerate();
                let sides = sides.map(|(at, side)| given(&part(of, at), side));
                let sides = sides.collect::<Result<Vec<_>, _>>()?;
                let pairs = StructArray::try_new(fields.clone(), sides, None)?;
                let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
                Arc::new(MapArray::try_new(entries, offsets, pairs, nulls, ordered)?)
            }
            _ => return Err(other()),
        },
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, RecordBatch, Time64MicrosecondArray};
    use coffer_expr::types::{list_of, map_of, struct_of, to_arrow};
    use coffer_format::SparkType;

    use super::*;
    use crate::types::data_type;

    #[test]
    fn columns_get_spark_s_types_also_inside() {
        let kinds = [
            "interval month",
            "time(3)",
            "int",
            "array<struct<a:interval hour,b:map<string,time(6)>>>",
        ];
        let types: Vec<_> = kinds
            .iter()
            .map(|text| data_type(&text.parse::<SparkType>().unwrap()))
            .collect();
        let declared = plan::Schema {
            fields: types
                .iter()
                .map(|of| plan::Field {
                    r#type: Some(of.clone()),
                    ..plan::Field::default()
                })
                .collect(),
        };
        let given = Given::of(&declared).unwrap();
        let arrow = types.iter().map(|of| to_arrow(of).unwrap());
        let arrow: Vec<Field> = arrow.map(|of| Field::new("c", of, true)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![Some(-14), None])),
            Arc::new(Time64MicrosecondArray::from(vec![None, Some(1_500_000)])),
            Arc::new(Int32Array::from(vec![1, 2])),
            arrow::array::new_null_array(arrow[3].data_type(), 2),
        ];
        let schema = given.schema(&Schema::new(arrow));
        let made = given.columns(&columns).unwrap();
        let batch = RecordBatch::try_new(Arc::clone(&schema), made).unwrap();
        assert_eq!(
            batch
                .column(1)
                .as_primitive::<Time64NanosecondType>()
                .value(1),
            1_500_000_000
        );
        let inside = struct_of([
            ("a", DurationMicrosecondType::DATA_TYPE),
            ("b", map_of(DataType::Utf8, Time64NanosecondType::DATA_TYPE)),
        ]);
        assert_eq!(schema.field(3).data_type(), &list_of(inside));
        assert_eq!(
            schema.field(0).data_type(),
            &IntervalYearMonthType::DATA_TYPE
        );
        assert!(Given::of(&plan::Schema::default()).is_none());
    }
}
