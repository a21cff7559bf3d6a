//! Short ways to write fragments, and a task without an engine.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::concat_batches,
    util::pretty::pretty_format_batches,
};
use coffer_expr::CompileContext;
use coffer_plan::{
    BuildContext, Plan, ScanSource, TaskIo, Unsupported, boundary_schema, build, config,
    with_task_io,
};
use coffer_protocol::plan::{
    AggCall, AggMode, Aggregate, Call, DataType, EvalMode, Expr, Field, Fragment, Input, Literal,
    NamedExpr, Node, Scan, Schema, Sink, SortKey, TypeId, expr::Kind, literal::Value, node::Op,
    sink,
};
use coffer_scan::ScanFiles;
use datafusion_common::{Result, internal_err};
use datafusion_execution::{SendableRecordBatchStream, TaskContext, runtime_env::RuntimeEnv};
use datafusion_physical_plan::{common::collect, memory::MemoryStream};

pub(crate) fn data_type(id: TypeId) -> DataType {
    DataType {
        id: id.into(),
        ..DataType::default()
    }
}

pub(crate) fn decimal(precision: u32, scale: u32) -> DataType {
    DataType {
        id: TypeId::Decimal.into(),
        precision,
        scale,
        ..DataType::default()
    }
}

pub(crate) fn schema(fields: &[(&str, DataType)]) -> Schema {
    let fields = fields
        .iter()
        .map(|(name, data_type)| Field {
            name: (*name).to_owned(),
            r#type: Some(data_type.clone()),
            nullable: true,
            ..Field::default()
        })
        .collect();
    Schema { fields }
}

pub(crate) fn column(position: u32) -> Expr {
    Expr {
        kind: Some(Kind::Column(position)),
    }
}

pub(crate) fn literal(id: TypeId, value: Value) -> Expr {
    Expr {
        kind: Some(Kind::Literal(Literal {
            r#type: Some(data_type(id)),
            value: Some(value),
        })),
    }
}

pub(crate) fn long(value: i64) -> Expr {
    literal(TypeId::Long, Value::Int(value))
}

pub(crate) fn call(name: &str, args: Vec<Expr>, id: TypeId) -> Expr {
    let call = Call {
        name: name.to_owned(),
        args,
        r#type: Some(data_type(id)),
        ..Call::default()
    };
    Expr {
        kind: Some(Kind::Call(call)),
    }
}

pub(crate) fn named(name: &str, expr: Expr) -> NamedExpr {
    NamedExpr {
        name: name.to_owned(),
        expr: Some(expr),
    }
}

pub(crate) fn key(expr: Expr, descending: bool, nulls_first: bool) -> SortKey {
    SortKey {
        expr: Some(expr),
        descending,
        nulls_first,
    }
}

pub(crate) fn node(id: u32, op: Op) -> Node {
    Node { id, op: Some(op) }
}

pub(crate) fn input(id: u32, schema: &Schema) -> Node {
    node(
        id,
        Op::Input(Input {
            input_id: id,
            schema: Some(schema.clone()),
            merge: vec![],
            broadcast: false,
        }),
    )
}

pub(crate) fn broadcast(id: u32, schema: &Schema) -> Node {
    let mut node = input(id, schema);
    if let Some(Op::Input(input)) = &mut node.op {
        input.broadcast = true;
    }
    node
}

pub(crate) fn fragment(root: Node, output: Schema) -> Fragment {
    let sink = Sink {
        kind: Some(sink::Kind::Result(sink::Result {})),
    };
    Fragment {
        version: 1,
        root: Some(root),
        sink: Some(sink),
        output: Some(output),
        hiding: None,
    }
}

/// An aggregate function by its types; calls of it in any mode.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) inputs: Vec<DataType>,
    pub(crate) buffer: Vec<DataType>,
    pub(crate) result: DataType,
    pub(crate) eval: EvalMode,
    pub(crate) ignore_nulls: bool,
    pub(crate) parameters: Vec<Literal>,
}

pub(crate) fn function(
    name: &'static str,
    inputs: &[DataType],
    buffer: &[DataType],
    result: DataType,
) -> Function {
    Function {
        name,
        inputs: inputs.to_vec(),
        buffer: buffer.to_vec(),
        result,
        eval: EvalMode::Legacy,
        ignore_nulls: false,
        parameters: vec![],
    }
}

impl Function {
    pub(crate) fn parameter(mut self, id: TypeId, value: Value) -> Self {
        self.parameters.push(Literal {
            r#type: Some(data_type(id)),
            value: Some(value),
        });
        self
    }

    pub(crate) fn eval(mut self, eval: EvalMode) -> Self {
        self.eval = eval;
        self
    }

    pub(crate) fn ignore_nulls(mut self) -> Self {
        self.ignore_nulls = true;
        self
    }

    fn call(&self, mode: AggMode, args: Vec<Expr>) -> AggCall {
        let names: Vec<String> = (0..self.buffer.len()).map(|i| format!("b{i}")).collect();
        let buffer: Vec<(&str, DataType)> = names
            .iter()
            .map(String::as_str)
            .zip(self.buffer.iter().cloned())
            .collect();
        AggCall {
            name: self.name.to_owned(),
            mode: mode.into(),
            args,
            filter: None,
            r#type: Some(self.result.clone()),
            input_types: self.inputs.clone(),
            buffer: Some(schema(&buffer)),
            eval: self.eval.into(),
            ignore_nulls: self.ignore_nulls,
            parameters: self.parameters.clone(),
            ..AggCall::default()
        }
    }

    /// Over the columns from `first` on.
    pub(crate) fn rows(&self, mode: AggMode, first: u32) -> AggCall {
        self.call(
            mode,
            (first..).take(self.inputs.len()).map(column).collect(),
        )
    }

    /// Over the buffer columns from `first` on.
    pub(crate) fn buffers(&self, mode: AggMode, first: u32) -> AggCall {
        self.call(
            mode,
            (first..).take(self.buffer.len()).map(column).collect(),
        )
    }
}

pub(crate) fn aggregate(
    id: u32,
    child: Node,
    grouping: Vec<NamedExpr>,
    calls: Vec<AggCall>,
) -> Node {
    node(
        id,
        Op::Aggregate(Box::new(Aggregate {
            child: Some(Box::new(child)),
            grouping,
            calls,
        })),
    )
}

/// A task whose inputs are batches in memory: one stream for each inner vector.
#[derive(Default, Clone)]
pub(crate) struct MemoryIo {
    pub(crate) inputs: HashMap<u32, Vec<Vec<RecordBatch>>>,
    pub(crate) scans: HashMap<u32, ScanFiles>,
    pub(crate) partition: u32,
}

impl MemoryIo {
    pub(crate) fn input(mut self, id: u32, streams: Vec<Vec<RecordBatch>>) -> Self {
        self.inputs.insert(id, streams);
        self
    }
}

fn stream(batches: Vec<RecordBatch>) -> Result<SendableRecordBatchStream> {
    let schema = batches
        .first()
        .map(RecordBatch::schema)
        .expect("an input of no batches has no schema here");
    Ok(Box::pin(MemoryStream::try_new(batches, schema, None)?))
}

impl TaskIo for MemoryIo {
    fn partition(&self) -> u32 {
        self.partition
    }

    fn input(&self, id: u32) -> Result<SendableRecordBatchStream> {
        match self.inputs.get(&id) {
            Some(streams) => stream(streams.concat()),
            None => internal_err!("no input {id}"),
        }
    }

    fn input_streams(&self, id: u32) -> Result<Vec<SendableRecordBatchStream>> {
        match self.inputs.get(&id) {
            Some(streams) => streams.iter().cloned().map(stream).collect(),
            None => internal_err!("no input {id}"),
        }
    }

    fn scan(&self, id: u32) -> Result<Arc<dyn ScanSource>> {
        match self.scans.get(&id) {
            Some(files) => Ok(Arc::new(files.clone())),
            None => internal_err!("no scan {id}"),
        }
    }
}

pub(crate) fn batch(schema: &Schema, columns: Vec<ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(boundary_schema(schema).unwrap(), columns).unwrap()
}

pub(crate) fn plan(fragment: &Fragment, partitions: usize) -> Result<Plan, Unsupported> {
    let expressions = CompileContext::default();
    build(
        fragment,
        &BuildContext {
            partitions,
            expressions: &expressions,
            decryptor: None,
        },
    )
}

pub(crate) fn context(io: MemoryIo, batch_size: usize) -> Arc<TaskContext> {
    context_in(io, batch_size, Arc::new(RuntimeEnv::default()))
}

pub(crate) fn context_in(
    io: MemoryIo,
    batch_size: usize,
    runtime: Arc<RuntimeEnv>,
) -> Arc<TaskContext> {
    let config = with_task_io(config(batch_size), Arc::new(io));
    Arc::new(
        TaskContext::default()
            .with_session_config(config)
            .with_runtime(runtime),
    )
}

pub(crate) async fn run_on(plan: &Plan, partition: usize, io: MemoryIo) -> Result<RecordBatch> {
    let stream = plan.execute(partition, context(io, 3))?;
    let batches = collect(stream).await?;
    Ok(concat_batches(&plan.schema(), &batches)?)
}

pub(crate) async fn run(fragment: &Fragment, io: MemoryIo) -> Result<RecordBatch> {
    let plan = plan(fragment, 1).unwrap_or_else(|refused| panic!("{refused}"));
    run_on(&plan, 0, io).await
}

/// The table's body as text, without its head.
pub(crate) fn body(batch: &RecordBatch) -> Vec<String> {
    let table = pretty_format_batches(std::slice::from_ref(batch))
        .unwrap()
        .to_string();
    let lines = table.lines().filter(|line| line.starts_with('|')).skip(1);
    lines
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(str::trim)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

pub(crate) fn sorted(batch: &RecordBatch) -> Vec<String> {
    let mut lines = body(batch);
    lines.sort();
    lines
}

/// The scan with id 4, its rows as they are.
pub(crate) fn scan(schema: &Schema, pushed: Vec<Expr>) -> Fragment {
    let root = node(
        1,
        Op::Scan(Scan {
            scan_id: 4,
            schema: Some(schema.clone()),
            pushed,
        }),
    );
    fragment(root, schema.clone())
}

/// Runs a [`scan`] over these files.
pub(crate) async fn read(
    files: ScanFiles,
    schema: &Schema,
    pushed: Vec<Expr>,
) -> Result<RecordBatch> {
    let mut io = MemoryIo::default();
    io.scans.insert(4, files);
    run(&scan(schema, pushed), io).await
}
