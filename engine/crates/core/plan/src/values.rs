//! Values: rows that came with the fragment.

use std::{fmt, sync::Arc};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use coffer_expr::{scalar, types};
use coffer_protocol::plan::{
    Literal, Values,
    literal::{Nested, Value},
};
use datafusion_common::{
    Result, ScalarValue, internal_datafusion_err, internal_err, tree_node::TreeNodeRecursion,
};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    memory::MemoryStream,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
};

use crate::{
    Unsupported,
    operator::{operator_basics, unordered},
    schema::{counted, empty, schema_of},
};

/// The rows of a Values node.
pub(crate) fn batch(node: u32, values: &Values) -> Result<RecordBatch, Unsupported> {
    let malformed = |what| Unsupported::Malformed { node, what };
    let schema = schema_of(
        values
            .schema
            .as_ref()
            .ok_or(malformed("values without schema"))?,
        node,
    )?;
    let operators = |source| Unsupported::Operators { node, source };
    if values
        .rows
        .iter()
        .any(|row| row.values.len() != schema.fields().len())
    {
        return Err(malformed("a row of another width than its schema"));
    }
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for (index, field) in schema.fields().iter().enumerate() {
        let scalars = values
            .rows
            .iter()
            .filter_map(|row| row.values.get(index))
            .map(|literal| {
                scalar(literal).map_err(|source| Unsupported::Expression { node, source })
            })
            .collect::<Result<Vec<ScalarValue>, _>>()?;
        if scalars
            .iter()
            .any(|scalar| &scalar.data_type() != field.data_type())
        {
            return Err(malformed("a value of another type than its column"));
        }
        columns.push(if scalars.is_empty() {
            new_empty_array(field.data_type())
        } else {
            ScalarValue::iter_to_array(scalars).map_err(operators)?
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(values.rows.len()));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|source| operators(source.into()))
}

/// Leaf that yields its rows in partition 0.
#[derive(Debug)]
pub(crate) struct ValuesExec {
    batch: RecordBatch,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ValuesExec {
    pub(crate) fn new(batch: RecordBatch, partitions: usize) -> Self {
        let properties = unordered(&batch.schema(), partitions);
        Self {
            batch,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for ValuesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ValuesExec: rows={}", self.batch.num_rows())
    }
}

impl ExecutionPlan for ValuesExec {
    operator_basics!(leaf);

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.batch.schema();
        if partition != 0 {
            return Ok(empty(&schema));
        }
        let stream = MemoryStream::try_new(vec![self.batch.clone()], Arc::clone(&schema), None)?;
        Ok(counted(
            schema,
            Box::pin(stream),
            BaselineMetrics::new(&self.metrics, partition),
        ))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A scalar as a literal of the IR.
pub(crate) fn literal(scalar: &ScalarValue) -> Result<Literal> {
    let data_type = types::of_arrow(&scalar.data_type()).ok_or_else(|| {
        internal_datafusion_err!("{} is no type of fragments", scalar.data_type())
    })?;
    let int = |value: Option<i64>| value.map(Value::Int);
    let value = match scalar {
        ScalarValue::Null => None,
        ScalarValue::Boolean(v) => v.map(Value::Bool),
        ScalarValue::Int8(v) => int(v.map(i64::from)),
        ScalarValue::Int16(v) => int(v.map(i64::from)),
        ScalarValue::Int32(v) | ScalarValue::Date32(v) => int(v.map(i64::from)),
        ScalarValue::Int64(v)
        | ScalarValue::TimestampMicrosecond(v, _)
        | ScalarValue::Time64Microsecond(v) => int(*v),
        ScalarValue::Float32(v) => v.map(Value::Float),
        ScalarValue::Float64(v) => v.map(Value::Double),
        ScalarValue::Decimal128(v, ..) => v.map(|v| Value::Decimal(v.to_be_bytes().to_vec())),
        ScalarValue::Utf8(v) => v.clone().map(Value::String),
        ScalarValue::Binary(v) => v.clone().map(Value::Binary),
        ScalarValue::List(list) => value_of(list.as_ref(), || vec![list.value(0)])?,
        ScalarValue::Struct(row) => value_of(row.as_ref(), || row.columns().to_vec())?,
        ScalarValue::Map(map) => value_of(map.as_ref(), || map.value(0).columns().to_vec())?,
        other => return internal_err!("{} is no type of fragments", other.data_type()),
    };
    Ok(Literal {
        r#type: Some(data_type),
        value,
    })
}

/// The value of a nested scalar from its parts, row by row: keys and values by turns.
fn value_of(one: &dyn Array, parts: impl Fn() -> Vec<ArrayRef>) -> Result<Option<Value>> {
    if one.is_null(0) {
        return Ok(None);
    }
    let parts = parts();
    let rows = parts.first().map_or(0, |part| part.len());
    let mut values = Vec::with_capacity(rows * parts.len());
    for row in 0..rows {
        for part in &parts {
            values.push(literal(&ScalarValue::try_from_array(part, row)?)?);
        }
    }
    Ok(Some(Value::Nested(Nested { values })))
}
