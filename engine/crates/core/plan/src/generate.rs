//! Generate: every row becomes as many rows as its array has elements, or as its generator says.

use std::{fmt, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Int32Array, RecordBatch, RecordBatchOptions, StructArray,
        UInt32Array, make_array, new_null_array,
    },
    buffer::{NullBuffer, OffsetBuffer},
    compute::{interleave, take},
    datatypes::{DataType, Int64Type, SchemaRef},
};
use coffer_protocol::plan::{Expr, Generate, generate::Generator};
use datafusion_common::{Result, internal_datafusion_err, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    coop::make_cooperative,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt, stream};

use crate::{
    Unsupported,
    expressions::Expressions,
    operator::{operator_basics, unordered},
    schema::{same_types, schema_of},
};

/// The most rows that one row is made into by `stack`.
const MAX_STACK: u32 = 1 << 20;

/// How rows are made of a row.
enum How {
    Explode {
        input: Arc<dyn PhysicalExpr>,
        position: bool,
        fields: bool,
    },
    Stack {
        rows: usize,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
    },
    Copies {
        count: Arc<dyn PhysicalExpr>,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
    },
}

/// What a batch is made of and into.
struct Spec {
    how: How,
    kept: Vec<usize>,
    outer: bool,
    schema: SchemaRef,
}

/// Emits batches of the session's size at most, whatever the arrays' lengths.
pub(crate) struct GenerateExec {
    child: Arc<dyn ExecutionPlan>,
    spec: Arc<Spec>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GenerateExec {
    pub(crate) fn new(
        node: u32,
        generate: &Generate,
        child: Arc<dyn ExecutionPlan>,
        expressions: &Expressions,
    ) -> Result<Self, Unsupported> {
        let malformed = |what| Unsupported::Malformed { node, what };
        let input = child.schema();
        let declared = generate.schema.as_ref();
        let declared = schema_of(
            declared.ok_or(malformed("a generator without schema"))?,
            node,
        )?;
        let kept = generate
            .kept
            .iter()
            .map(|column| usize::try_from(*column).unwrap_or(usize::MAX))
            .collect::<Vec<_>>();
        let mut fields = kept
            .iter()
            .map(|column| input.fields().get(*column).cloned())
            .collect::<Option<Vec<_>>>()
            .ok_or(malformed("a kept column that is not there"))?;
        let (how, made) = how(node, generate, &input, &declared, expressions)?;
        same_types(node, &made, &declared)?;
        fields.extend(declared.fields().iter().cloned());
        let schema: SchemaRef = Arc::new(arrow::datatypes::Schema::new(fields));
        let spec = Spec {
            how,
            kept,
            outer: generate.outer,
            schema,
        };
        Ok(Self::of(child, Arc::new(spec)))
    }

    fn of(child: Arc<dyn ExecutionPlan>, spec: Arc<Spec>) -> Self {
        let properties = unordered(&spec.schema, child.output_partitioning().partition_count());
        Self {
            child,
            spec,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// The generator, and its columns' types.
fn how(
    node: u32,
    generate: &Generate,
    input: &SchemaRef,
    declared: &SchemaRef,
    expressions: &Expressions,
) -> Result<(How, SchemaRef), Unsupported> {
    let malformed = |what| Unsupported::Malformed { node, what };
    let compile = |expr: &Expr| expressions.compile(node, expr, input);
    let of = |expr: &Arc<dyn PhysicalExpr>| {
        let data_type = expr.data_type(input);
        data_type.map_err(|source| Unsupported::Operators { node, source })
    };
    let (how, types) = match &generate.generator {
        None => return Err(malformed("no generator")),
        Some(Generator::Explode(explode)) => {
            let list = explode.input.as_ref();
            let list = compile(list.ok_or(malformed("an explode without input"))?)?;
            let mut types = vec![];
            if explode.position {
                types.push(DataType::Int32);
            }
            match (of(&list)?, explode.fields) {
                (DataType::List(element), false) => types.push(element.data_type().clone()),
                (DataType::List(element), true) => match element.data_type() {
                    DataType::Struct(fields) => {
                        types.extend(fields.iter().map(|field| field.data_type().clone()));
                    }
                    _ => return Err(malformed("fields of what is no struct")),
                },
                (DataType::Map(entries, _), false) => match entries.data_type() {
                    DataType::Struct(sides) => {
                        types.extend(sides.iter().map(|side| side.data_type().clone()));
                    }
                    _ => return Err(malformed("a map of no pairs")),
                },
                _ => return Err(malformed("elements of what is no array and no map")),
            }
            let how = How::Explode {
                input: list,
                position: explode.position,
                fields: explode.fields,
            };
            (how, types)
        }
        Some(Generator::Stack(stack)) => {
            let exprs = stack.exprs.iter().map(compile);
            let exprs = exprs.collect::<Result<Vec<_>, _>>()?;
            if !(1..=MAX_STACK).contains(&stack.rows) {
                return Err(malformed("a stack of no rows, or of too many"));
            }
            let rows = usize::try_from(stack.rows).unwrap_or(usize::MAX);
            let types: Vec<DataType> = declared
                .fields()
                .iter()
                .map(|f| f.data_type().clone())
                .collect();
            if types.len() != exprs.len().div_ceil(rows) {
                return Err(malformed("a stack of another width than its schema"));
            }
            for (expr, expected) in exprs.iter().zip(types.iter().cycle()) {
                let found = of(expr)?;
                if found != *expected && found != DataType::Null {
                    return Err(malformed("a stack of values of several types"));
                }
            }
            (How::Stack { rows, exprs }, types)
        }
        Some(Generator::Copies(copies)) => {
            let count = copies.count.as_ref();
            let count = compile(count.ok_or(malformed("copies without a count"))?)?;
            if of(&count)? != DataType::Int64 {
                return Err(malformed("a count of copies that is no LONG"));
            }
            let exprs = copies.exprs.iter().map(compile);
            let exprs = exprs.collect::<Result<Vec<_>, _>>()?;
            let types = exprs.iter().map(of).collect::<Result<_, _>>()?;
            (How::Copies { count, exprs }, types)
        }
    };
    let fields = types.into_iter().zip(declared.fields());
    let fields: Vec<_> = fields
        .map(|(of, field)| field.as_ref().clone().with_data_type(of))
        .collect();
    if fields.len() != declared.fields().len() {
        return Err(malformed("a generator of another width than its schema"));
    }
    Ok((how, Arc::new(arrow::datatypes::Schema::new(fields))))
}

impl fmt::Debug for GenerateExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenerateExec")
            .field("child", &self.child)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for GenerateExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let name = match self.spec.how {
            How::Explode { fields: true, .. } => "inline",
            How::Explode { .. } => "explode",
            How::Stack { .. } => "stack",
            How::Copies { .. } => "copies",
        };
        write!(f, "GenerateExec: {name}")
    }
}

impl ExecutionPlan for GenerateExec {
    operator_basics!(
        one child,
        |plan, child| Self::of(child, Arc::clone(&plan.spec)),
        else "a generate has one child"
    );

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let most = context.session_config().batch_size();
        let input = self.child.execute(partition, context)?;
        let (spec, made) = (Arc::clone(&self.spec), Arc::clone(&self.spec));
        let generated = input
            .flat_map(move |batch| {
                let batches = batch.and_then(|batch| Source::of(&spec, batch));
                match batches {
                    Ok(source) => stream::iter(Chunks::new(source, most)).boxed(),
                    Err(error) => stream::iter([Err(error)]).boxed(),
                }
            })
            .map(move |chunk| {
                let _timer = metrics.elapsed_compute().timer();
                let (source, chunk) = chunk?;
                let batch = source.rows(&made, &chunk)?;
                metrics.record_output(batch.num_rows());
                Ok(batch)
            });
        // One batch of input makes many: without a pause among them a task could not be cancelled.
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.spec.schema),
            generated,
        ))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A batch with what its rows are made into.
struct Source {
    batch: RecordBatch,
    /// How many rows each row becomes; none is one that `outer` keeps.
    counts: Vec<Option<usize>>,
    columns: Columns,
}

enum Columns {
    /// Elements of all rows, one behind the other, and where each row's begin.
    Elements {
        starts: OffsetBuffer<i32>,
        columns: Vec<ArrayRef>,
        position: bool,
    },
    /// Of each row to be made, a row of columns.
    Stacked(Vec<Vec<ArrayRef>>),
    Copied(Vec<ArrayRef>),
}

impl Source {
    fn of(spec: &Spec, batch: RecordBatch) -> Result<Arc<Self>> {
        let rows = batch.num_rows();
        let array = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch)?.into_array(rows);
        let (counts, columns): (Vec<usize>, Columns) = match &spec.how {
            How::Explode {
                input,
                position,
                fields,
            } => {
                let input = array(input)?;
                let (starts, columns) = elements(&input, *fields)?;
                let valid = |(row, length)| if input.is_valid(row) { length } else { 0 };
                let counts = starts.lengths().enumerate().map(valid).collect();
                let columns = Columns::Elements {
                    starts,
                    columns,
                    position: *position,
                };
                (counts, columns)
            }
            How::Stack { rows: made, exprs } => {
                let types: Vec<&DataType> = spec
                    .schema
                    .fields()
                    .iter()
                    .skip(spec.kept.len())
                    .map(|field| field.data_type())
                    .collect();
                let mut exprs = exprs.iter();
                let mut next = |of: &DataType| match exprs.next().map(array).transpose()? {
                    Some(values) if values.data_type() == of => Ok(values),
                    _ => Ok(new_null_array(of, rows)),
                };
                let mut stacked = Vec::with_capacity(*made);
                for _ in 0..*made {
                    let columns = types.iter().map(|of| next(of));
                    stacked.push(columns.collect::<Result<Vec<ArrayRef>>>()?);
                }
                (vec![*made; rows], Columns::Stacked(stacked))
            }
            How::Copies { count, exprs } => {
                let counts = array(count)?;
                let counts = counts.as_primitive::<Int64Type>().iter();
                let counts = counts
                    .map(|count| usize::try_from(count.unwrap_or(0)).unwrap_or(0))
                    .collect();
                let columns = exprs.iter().map(array).collect::<Result<_>>()?;
                (counts, Columns::Copied(columns))
            }
        };
        let count = |count| match (count, spec.outer) {
            (0, true) => None,
            (count, _) => Some(count),
        };
        Ok(Arc::new(Self {
            batch,
            counts: counts.into_iter().map(count).collect(),
            columns,
        }))
    }

    /// The rows of a chunk.
    fn rows(&self, spec: &Spec, chunk: &Chunk) -> Result<RecordBatch> {
        let rows = UInt32Array::from_iter_values(chunk.iter().map(|(row, _)| *row));
        let mut columns = Vec::with_capacity(spec.schema.fields().len());
        for kept in &spec.kept {
            columns.push(take(self.batch.column(*kept), &rows, None)?);
        }
        match &self.columns {
            Columns::Elements {
                starts,
                columns: elements,
                position,
            } => {
                if *position {
                    let positions = chunk
                        .iter()
                        .map(|(_, nth)| nth.map(|nth| i32::try_from(nth).unwrap_or(i32::MAX)));
                    columns.push(Arc::new(positions.collect::<Int32Array>()));
                }
                let places = chunk.iter().map(|(row, nth)| {
                    let start = starts.get(usize::try_from(*row).ok()?)?;
                    u32::try_from(*start).ok()?.checked_add((*nth)?)
                });
                let places: UInt32Array = places.collect();
                for column in elements {
                    columns.push(take(column, &places, None)?);
                }
            }
            Columns::Stacked(stacked) => {
                let places: Vec<(usize, usize)> = chunk
                    .iter()
                    .map(|(row, nth)| (place(nth.unwrap_or(0)), place(*row)))
                    .collect();
                let width = stacked.first().map_or(0, Vec::len);
                for column in 0..width {
                    let parts = stacked.iter().filter_map(|row| row.get(column));
                    let parts: Vec<&dyn Array> = parts.map(AsRef::as_ref).collect();
                    columns.push(interleave(&parts, &places)?);
                }
            }
            Columns::Copied(copied) => {
                let places = chunk.iter().map(|(row, nth)| nth.map(|_| *row));
                let places: UInt32Array = places.collect();
                for column in copied {
                    columns.push(take(column, &places, None)?);
                }
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(chunk.len()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&spec.schema),
            columns,
            &options,
        )?)
    }
}

fn place(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// The elements of an array's or a map's rows, as columns, and where each row's begin.
fn elements(input: &ArrayRef, fields: bool) -> Result<(OffsetBuffer<i32>, Vec<ArrayRef>)> {
    if let Some(map) = input.as_map_opt() {
        let sides = vec![Arc::clone(map.keys()), Arc::clone(map.values())];
        return Ok((map.offsets().clone(), sides));
    }
    let list = input
        .as_list_opt::<i32>()
        .ok_or_else(|| internal_datafusion_err!("{} has no elements", input.data_type()))?;
    let columns = match list.values().as_struct_opt() {
        Some(structs) if fields => fields_of(structs)?,
        _ => vec![Arc::clone(list.values())],
    };
    Ok((list.offsets().clone(), columns))
}

/// The fields of structs: NULL where the struct is.
fn fields_of(structs: &StructArray) -> Result<Vec<ArrayRef>> {
    let nulls = structs.nulls();
    let columns = structs.columns().iter().map(|column| match nulls {
        None => Ok(Arc::clone(column)),
        Some(_) if column.data_type().is_null() => Ok(Arc::clone(column)),
        Some(_) => {
            let both = NullBuffer::union(nulls, column.nulls());
            Ok(make_array(
                column.to_data().into_builder().nulls(both).build()?,
            ))
        }
    });
    columns.collect()
}

/// Rows to be made: the row that each is made of, and which of its rows it is; none for the row
/// that `outer` keeps.
type Chunk = Vec<(u32, Option<u32>)>;

/// The rows to be made of a batch, a batch at a time.
struct Chunks {
    source: Arc<Source>,
    most: usize,
    row: usize,
    nth: usize,
}

impl Chunks {
    fn new(source: Arc<Source>, most: usize) -> Self {
        Self {
            source,
            most: most.max(1),
            row: 0,
            nth: 0,
        }
    }

    fn next_chunk(&mut self) -> Result<Chunk> {
        let index = |index: usize| {
            u32::try_from(index).map_err(|_| internal_datafusion_err!("a row of 2^32 rows"))
        };
        let mut chunk = Vec::new();
        while let Some(count) = self.source.counts.get(self.row) {
            let room = self.most.saturating_sub(chunk.len());
            if room == 0 {
                break;
            }
            let row = index(self.row)?;
            let left = match count {
                None => {
                    chunk.push((row, None));
                    0
                }
                Some(count) => {
                    let end = self.nth.saturating_add(room).min(*count);
                    for nth in self.nth..end {
                        chunk.push((row, Some(index(nth)?)));
                    }
                    self.nth = end;
                    count.saturating_sub(end)
                }
            };
            if left == 0 {
                self.row += 1;
                self.nth = 0;
            }
        }
        Ok(chunk)
    }
}

impl Iterator for Chunks {
    type Item = Result<(Arc<Source>, Chunk)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_chunk() {
            Ok(chunk) if chunk.is_empty() => None,
            Ok(chunk) => Some(Ok((Arc::clone(&self.source), chunk))),
            Err(error) => {
                self.row = usize::MAX;
                Some(Err(error))
            }
        }
    }
}
