//! Placed: columns of what follows from a row's place in its partition, as Spark's functions give
//! it for the same rows in the same order.

use std::{fmt, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch,
        StringArray, UInt32Array,
    },
    buffer::OffsetBuffer,
    compute::take,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use coffer_protocol::plan::{Placed, placed::Kind};
use datafusion_common::{
    Result, exec_datafusion_err, internal_datafusion_err, internal_err,
    tree_node::TreeNodeRecursion,
};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::StreamExt;

use crate::{
    Unsupported,
    expressions::Expressions,
    operator::{operator_basics, unordered},
    random::{Normal, Twister, XorShift},
    schema::counted,
};

/// The longest text: a batch's are not to fill memory.
const LONGEST: u32 = 1 << 16;

#[derive(Debug)]
struct Column {
    kind: Kind,
    seed: i64,
    length: usize,
    input: Option<Arc<dyn PhysicalExpr>>,
}

#[derive(Debug)]
pub(crate) struct PlacedExec {
    child: Arc<dyn ExecutionPlan>,
    columns: Arc<[Column]>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PlacedExec {
    pub(crate) fn new(
        node: u32,
        placed: &Placed,
        child: Arc<dyn ExecutionPlan>,
        expressions: &Expressions<'_>,
    ) -> Result<Self, Unsupported> {
        let malformed = |what| Unsupported::Malformed { node, what };
        let input = child.schema();
        let mut fields = input.fields().to_vec();
        let mut columns = Vec::with_capacity(placed.columns.len());
        for column in &placed.columns {
            let array = match (column.kind(), &column.input) {
                (Kind::Shuffled, Some(array)) => Some(expressions.compile(node, array, &input)?),
                (Kind::Shuffled, None) => return Err(malformed("a shuffle of nothing")),
                (_, Some(_)) => return Err(malformed("an input that is not used")),
                (_, None) => None,
            };
            let of = match (column.kind(), &array) {
                (Kind::Uniform | Kind::Normal, _) => DataType::Float64,
                (Kind::Text | Kind::Uuid, _) => DataType::Utf8,
                (Kind::Id, _) => DataType::Int64,
                (Kind::Partition, _) => DataType::Int32,
                (_, Some(array)) => match array.data_type(&input) {
                    Ok(list @ DataType::List(_)) => list,
                    _ => return Err(malformed("a shuffle of what is no array")),
                },
                (_, None) => return Err(malformed("a column of no kind")),
            };
            if column.length > LONGEST {
                return Err(malformed("a random text of such a length"));
            }
            fields.push(Arc::new(Field::new(&column.name, of, true)));
            columns.push(Column {
                kind: column.kind(),
                seed: column.seed,
                length: usize::try_from(column.length).unwrap_or_default(),
                input: array,
            });
        }
        Ok(Self::of(
            child,
            columns.into(),
            Arc::new(Schema::new(fields)),
        ))
    }

    fn of(child: Arc<dyn ExecutionPlan>, columns: Arc<[Column]>, schema: SchemaRef) -> Self {
        let properties = unordered(&schema, child.output_partitioning().partition_count());
        Self {
            child,
            columns,
            schema,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for PlacedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PlacedExec: columns={}", self.columns.len())
    }
}

impl ExecutionPlan for PlacedExec {
    operator_basics!(one child, |plan, child| Self::of(
                child,
                Arc::clone(&plan.columns),
                Arc::clone(&plan.schema),
            ), else "places have one child");

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.child.execute(partition, context)?;
        let place = i32::try_from(partition)
            .map_err(|_| internal_datafusion_err!("a partition beyond 2^31"))?;
        let columns = Arc::clone(&self.columns);
        let mut states: Vec<State> = columns.iter().map(|c| State::new(c, place)).collect();
        let schema = Arc::clone(&self.schema);
        let placed = input.map(move |batch| {
            let batch = batch?;
            let mut arrays = batch.columns().to_vec();
            for (column, state) in columns.iter().zip(&mut states) {
                arrays.push(state.next(column, &batch)?);
            }
            Ok(RecordBatch::try_new(Arc::clone(&schema), arrays)?)
        });
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = Arc::clone(&self.schema);
        let stream = RecordBatchStreamAdapter::new(Arc::clone(&schema), placed);
        Ok(counted(schema, Box::pin(stream), metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Where a partition's column is.
enum State {
    Uniform(XorShift),
    Normal(Normal),
    Twisted(Twister),
    /// How many rows came before; the partition.
    Counted(i64, i32),
}

impl State {
    fn new(column: &Column, partition: i32) -> Self {
        let seed = column.seed.wrapping_add(partition.into());
        match column.kind {
            Kind::Uniform | Kind::Text => Self::Uniform(XorShift::new(seed)),
            Kind::Normal => Self::Normal(Normal::new(seed)),
            Kind::Uuid | Kind::Shuffled => Self::Twisted(Twister::new(seed)),
            _ => Self::Counted(0, partition),
        }
    }

    fn next(&mut self, column: &Column, batch: &RecordBatch) -> Result<ArrayRef> {
        let rows = 0..batch.num_rows();
        Ok(match self {
            Self::Uniform(random) if column.kind == Kind::Text => {
                let mut text = || {
                    (0..column.length)
                        .map(|_| char::from(random.letter()))
                        .collect()
                };
                let texts = rows.map(|_| Some(text()));
                Arc::new(
                    texts
                        .collect::<Vec<Option<String>>>()
                        .into_iter()
                        .collect::<StringArray>(),
                )
            }
            Self::Uniform(random) => Arc::new(Float64Array::from_iter_values(
                rows.map(|_| random.double()),
            )),
            Self::Normal(random) => Arc::new(Float64Array::from_iter_values(
                rows.map(|_| random.double()),
            )),
            Self::Twisted(random) => match &column.input {
                Some(array) => {
                    let array = array.evaluate(batch)?.into_array(batch.num_rows())?;
                    Arc::new(shuffled(array.as_list(), random)?)
                }
                None => Arc::new(StringArray::from_iter_values(rows.map(|_| uuid(random)))),
            },
            Self::Counted(_, partition) if column.kind == Kind::Partition => {
                Arc::new(Int32Array::from_iter_values(rows.map(|_| *partition)))
            }
            Self::Counted(count, partition) => {
                let first = (i64::from(*partition) << 33).wrapping_add(*count);
                *count += i64::try_from(batch.num_rows()).unwrap_or(i64::MAX);
                Arc::new(Int64Array::from_iter_values(
                    (first..).take(batch.num_rows()),
                ))
            }
        })
    }
}

/// A random UUID (RFC 4122, version 4).
fn uuid(random: &mut Twister) -> String {
    let most = random.long() & 0xffff_ffff_ffff_0fff | 0x4000;
    let least = (random.long() | 1 << 63) & 0xbfff_ffff_ffff_ffff;
    let text = format!("{most:016x}{least:016x}");
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let parts = [
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32),
    ];
    parts.join("-")
}

/// Each array's elements, in an order drawn for it.
fn shuffled(lists: &ListArray, random: &mut Twister) -> Result<ListArray> {
    let mut indices: Vec<u32> = Vec::with_capacity(lists.values().len());
    let mut lengths = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        let length = match lists.is_null(row) {
            true => 0,
            false => lists.value_length(row).unsigned_abs(),
        };
        lengths.push(usize::try_from(length).unwrap_or_default());
        let Some(first) = lists.value_offsets().get(row) else {
            return internal_err!("a list without its end");
        };
        let start = indices.len();
        for place in 0..length {
            let other = random.below(place + 1);
            let other = usize::try_from(other).unwrap_or_default();
            let moved = match indices.get_mut(start + other) {
                Some(taken) => std::mem::replace(taken, place + first.unsigned_abs()),
                None => place + first.unsigned_abs(),
            };
            indices.push(moved);
        }
    }
    let values = take(lists.values(), &UInt32Array::from(indices), None)?;
    let DataType::List(field) = lists.data_type() else {
        return Err(exec_datafusion_err!("a shuffle of {}", lists.data_type()));
    };
    Ok(ListArray::try_new(
        Arc::clone(field),
        OffsetBuffer::from_lengths(lengths),
        values,
        lists.nulls().cloned(),
    )?)
}
