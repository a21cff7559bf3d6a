//! Aggregate functions, in one step and in Spark's several, must agree with each other and with
//! Spark's rules.

mod in_runs;
mod memory;
mod order;
mod sums;

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array,
        RecordBatch, StringArray,
    },
    datatypes::Int64Type,
};
use coffer_expr::SparkError;
use coffer_protocol::plan::{AggMode, DataType, EvalMode, Field, Schema, TypeId, literal::Value};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;

use crate::support::{
    Function, MemoryIo, aggregate, batch, body, column, context_in, data_type, decimal, fragment,
    function, input, named, plan, run, run_on, schema, sorted,
};

const LONG: TypeId = TypeId::Long;

fn long() -> DataType {
    data_type(LONG)
}

fn double() -> DataType {
    data_type(TypeId::Double)
}

fn binary() -> DataType {
    data_type(TypeId::Binary)
}

fn boolean() -> DataType {
    data_type(TypeId::Boolean)
}

fn decimals(values: Vec<Option<i128>>, precision: u8, scale: i8) -> ArrayRef {
    Arc::new(
        Decimal128Array::from(values)
            .with_precision_and_scale(precision, scale)
            .unwrap(),
    )
}

/// Rows (k, v), in several batches.
fn rows(value: DataType, keys: Vec<Option<i64>>, values: ArrayRef) -> (Schema, Vec<RecordBatch>) {
    let schema = schema(&[("k", long()), ("v", value)]);
    let whole = batch(&schema, vec![Arc::new(Int64Array::from(keys)), values]);
    let batches = (0..whole.num_rows())
        .step_by(2)
        .map(|at| whole.slice(at, 2.min(whole.num_rows() - at)))
        .collect();
    (schema, batches)
}

fn buffer_schema(function: &Function, grouped: bool) -> Schema {
    let names: Vec<String> = (0..function.buffer.len())
        .map(|i| format!("b{i}"))
        .collect();
    let mut fields = if grouped { vec![("k", long())] } else { vec![] };
    fields.extend(
        names
            .iter()
            .map(String::as_str)
            .zip(function.buffer.iter().cloned()),
    );
    schema(&fields)
}

/// The function over v by k: COMPLETE; and PARTIAL on two halves, PARTIAL_MERGE, FINAL. They must
/// agree.
async fn grouped(
    function: &Function,
    input_schema: &Schema,
    batches: Vec<RecordBatch>,
) -> datafusion_common::Result<Vec<String>> {
    let grouping = || vec![named("k", column(0))];
    let result = schema(&[("k", long()), ("r", function.result.clone())]);
    let complete = aggregate(
        2,
        input(1, input_schema),
        grouping(),
        vec![function.rows(AggMode::Complete, 1)],
    );
    let expected = run(
        &fragment(complete, result.clone()),
        MemoryIo::default().input(1, vec![batches.clone()]),
    )
    .await?;

    let buffers = buffer_schema(function, true);
    let partial = aggregate(
        2,
        input(1, input_schema),
        grouping(),
        vec![function.rows(AggMode::Partial, 1)],
    );
    let partial = plan(&fragment(partial, buffers.clone()), 2).unwrap();
    let (left, right) = batches.split_at(batches.len() / 2);
    let mut halves = vec![];
    for (index, half) in [left, right].into_iter().enumerate() {
        if !half.is_empty() {
            let rows = run_on(
                &partial,
                index,
                MemoryIo::default().input(1, vec![half.to_vec()]),
            )
            .await?;
            halves.push(RecordBatch::try_new(
                coffer_plan::boundary_schema(&buffers).unwrap(),
                rows.columns().to_vec(),
            )?);
        }
    }
    let merge = aggregate(
        2,
        input(1, &buffers),
        grouping(),
        vec![function.buffers(AggMode::PartialMerge, 1)],
    );
    let merged = run(
        &fragment(merge, buffers.clone()),
        MemoryIo::default().input(1, vec![halves]),
    )
    .await?;
    let merged = RecordBatch::try_new(
        coffer_plan::boundary_schema(&buffers).unwrap(),
        merged.columns().to_vec(),
    )?;
    let last = aggregate(
        2,
        input(1, &buffers),
        grouping(),
        vec![function.buffers(AggMode::Final, 1)],
    );
    let last = run(
        &fragment(last, result),
        MemoryIo::default().input(1, vec![vec![merged]]),
    )
    .await?;

    assert_eq!(
        sorted(&last),
        sorted(&expected),
        "{} in several steps",
        function.name
    );
    Ok(sorted(&expected))
}

/// The function over all of v, without grouping.
async fn whole(
    function: &Function,
    input_schema: &Schema,
    batches: Vec<RecordBatch>,
) -> datafusion_common::Result<Vec<String>> {
    let result = schema(&[("r", function.result.clone())]);
    let complete = aggregate(
        2,
        input(1, input_schema),
        vec![],
        vec![function.rows(AggMode::Complete, 1)],
    );
    let expected = run(
        &fragment(complete, result.clone()),
        MemoryIo::default().input(1, vec![batches.clone()]),
    )
    .await?;
    let partial = aggregate(
        2,
        input(1, input_schema),
        vec![],
        vec![function.rows(AggMode::Partial, 1)],
    );
    let last = aggregate(
        3,
        partial,
        vec![],
        vec![function.buffers(AggMode::Final, 0)],
    );
    let last = run(
        &fragment(last, result),
        MemoryIo::default().input(1, vec![batches]),
    )
    .await?;
    assert_eq!(
        body(&last),
        body(&expected),
        "{} in two steps",
        function.name
    );
    assert_eq!(
        body(&buffers_of(function, input_schema).await).len(),
        1,
        "one buffer row of no rows"
    );
    Ok(body(&expected))
}

async fn buffers_of(function: &Function, input_schema: &Schema) -> RecordBatch {
    let partial = aggregate(
        2,
        input(1, input_schema),
        vec![],
        vec![function.rows(AggMode::Partial, 1)],
    );
    let empty = RecordBatch::new_empty(coffer_plan::boundary_schema(input_schema).unwrap());
    let io = MemoryIo::default().input(1, vec![vec![empty]]);
    run(&fragment(partial, buffer_schema(function, false)), io)
        .await
        .unwrap()
}

fn class(error: &datafusion_common::DataFusionError) -> &'static str {
    SparkError::find(error)
        .unwrap_or_else(|| panic!("not Spark's: {error}"))
        .class
}

#[tokio::test]
async fn count_leaves_out_nulls_and_filtered_rows() {
    let values = Arc::new(Int64Array::from(vec![
        Some(1),
        None,
        Some(3),
        Some(4),
        None,
    ]));
    let (s, b) = rows(long(), vec![Some(1), Some(1), None, None, Some(2)], values);
    let count = function("count", &[long()], &[long()], long());
    assert_eq!(
        grouped(&count, &s, b.clone()).await.unwrap(),
        [" 2", "1 1", "2 0"]
    );
    assert_eq!(whole(&count, &s, b.clone()).await.unwrap(), ["3"]);

    let mut filtered = count.rows(AggMode::Complete, 1);
    filtered.filter = Some(crate::support::call(
        "greater_than",
        vec![column(1), crate::support::long(1)],
        TypeId::Boolean,
    ));
    let root = aggregate(2, input(1, &s), vec![named("k", column(0))], vec![filtered]);
    let out = schema(&[("k", long()), ("r", long())]);
    let result = run(&fragment(root, out), MemoryIo::default().input(1, vec![b]))
        .await
        .unwrap();
    assert_eq!(sorted(&result), [" 2", "1 0", "2 0"]);
}

#[tokio::test]
async fn count_of_several_columns_wants_all_of_them() {
    let (s, b) = rows(
        data_type(TypeId::String),
        vec![Some(1), None, Some(3), None],
        Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, None])),
    );
    let both = function(
        "count",
        &[long(), data_type(TypeId::String)],
        &[long()],
        long(),
    );
    let out = schema(&[("r", long())]);
    let root = aggregate(
        2,
        input(1, &s),
        vec![],
        vec![both.rows(AggMode::Complete, 0)],
    );
    let io = MemoryIo::default().input(1, vec![b]);
    assert_eq!(
        body(&run(&fragment(root, out.clone()), io.clone()).await.unwrap()),
        ["1"]
    );
    let none = function("count", &[], &[long()], long());
    let root = aggregate(
        2,
        input(1, &s),
        vec![],
        vec![none.rows(AggMode::Complete, 0)],
    );
    assert_eq!(body(&run(&fragment(root, out), io).await.unwrap()), ["4"]);
}

#[tokio::test]
async fn extremes_of_doubles_have_nan_on_top() {
    let values = Arc::new(Float64Array::from(vec![
        Some(1.0),
        Some(f64::NAN),
        None,
        Some(-1.0),
        None,
    ]));
    let (s, b) = rows(
        double(),
        vec![Some(1), Some(1), Some(1), Some(2), Some(3)],
        values,
    );
    let min = function("min", &[double()], &[double()], double());
    let max = function("max", &[double()], &[double()], double());
    assert_eq!(
        grouped(&min, &s, b.clone()).await.unwrap(),
        ["1 1.0", "2 -1.0", "3 "]
    );
    assert_eq!(
        grouped(&max, &s, b.clone()).await.unwrap(),
        ["1 NaN", "2 -1.0", "3 "]
    );
    assert_eq!(whole(&max, &s, b).await.unwrap(), ["NaN"]);
}

#[tokio::test]
async fn extremes_of_strings_and_booleans() {
    let string = data_type(TypeId::String);
    let values = Arc::new(StringArray::from(vec![
        Some("b"),
        Some("ä"),
        Some(""),
        None,
        Some("B"),
    ]));
    let keys = || vec![Some(1), Some(1), Some(2), Some(3), Some(1)];
    let (s, b) = rows(string.clone(), keys(), values);
    let max = function(
        "max",
        std::slice::from_ref(&string),
        std::slice::from_ref(&string),
        string.clone(),
    );
    let min = function(
        "min",
        std::slice::from_ref(&string),
        std::slice::from_ref(&string),
        string.clone(),
    );
    assert_eq!(
        grouped(&max, &s, b.clone()).await.unwrap(),
        ["1 ä", "2 ", "3 "]
    );
    assert_eq!(grouped(&min, &s, b).await.unwrap(), ["1 B", "2 ", "3 "]);
    let values = Arc::new(BooleanArray::from(vec![
        Some(true),
        Some(false),
        Some(true),
        None,
        None,
    ]));
    let (s, b) = rows(boolean(), keys(), values);
    let every = function("min", &[boolean()], &[boolean()], boolean());
    assert_eq!(
        grouped(&every, &s, b).await.unwrap(),
        ["1 false", "2 true", "3 "]
    );
}

#[tokio::test]
async fn first_and_last_mind_nulls() {
    let values = Arc::new(Int64Array::from(vec![None, Some(2), Some(3), None, None]));
    let (s, b) = rows(
        long(),
        vec![Some(1), Some(1), Some(1), Some(1), Some(2)],
        values,
    );
    let of = |name| function(name, &[long()], &[long(), boolean()], long());
    assert_eq!(
        grouped(&of("first"), &s, b.clone()).await.unwrap(),
        ["1 ", "2 "]
    );
    assert_eq!(
        grouped(&of("first").ignore_nulls(), &s, b.clone())
            .await
            .unwrap(),
        ["1 2", "2 "]
    );
    assert_eq!(
        grouped(&of("last"), &s, b.clone()).await.unwrap(),
        ["1 ", "2 "]
    );
    assert_eq!(
        grouped(&of("last").ignore_nulls(), &s, b.clone())
            .await
            .unwrap(),
        ["1 3", "2 "]
    );
    assert_eq!(
        whole(&of("last").ignore_nulls(), &s, b).await.unwrap(),
        ["3"]
    );
}

#[tokio::test]
async fn moments_of_samples_and_populations() {
    let values = Arc::new(Float64Array::from(vec![
        Some(1.0),
        Some(2.0),
        Some(3.0),
        Some(9.0),
        None,
    ]));
    let (s, b) = rows(
        double(),
        vec![Some(1), Some(1), Some(1), Some(2), Some(3)],
        values,
    );
    let of = |name| function(name, &[double()], &[double(), binary(), binary()], double());
    assert_eq!(
        grouped(&of("variance_samp"), &s, b.clone()).await.unwrap(),
        ["1 1.0", "2 ", "3 "]
    );
    assert_eq!(
        grouped(&of("stddev_samp"), &s, b.clone()).await.unwrap(),
        ["1 1.0", "2 ", "3 "]
    );
    assert_eq!(
        grouped(&of("variance_pop"), &s, b.clone()).await.unwrap(),
        ["1 0.6666666666666666", "2 0.0", "3 "]
    );
    assert_eq!(
        grouped(&of("stddev_pop"), &s, b).await.unwrap(),
        ["1 0.816496580927726", "2 0.0", "3 "]
    );
}

#[tokio::test]
async fn an_aggregate_of_nothing_is_one_row() {
    let (s, b) = rows(
        long(),
        vec![Some(1), Some(2)],
        Arc::new(Int64Array::from(vec![1, 2])),
    );
    let empty = vec![RecordBatch::new_empty(b[0].schema())];
    for batches in [b, empty] {
        let root = aggregate(2, input(1, &s), vec![], vec![]);
        let count = function("count", &[], &[long()], long());
        let root = aggregate(3, root, vec![], vec![count.rows(AggMode::Complete, 0)]);
        let out = schema(&[("n", long())]);
        let result = run(
            &fragment(root, out),
            MemoryIo::default().input(1, vec![batches]),
        )
        .await
        .unwrap();
        assert_eq!(body(&result), ["1"]);
    }
}

#[tokio::test]
async fn what_is_declared_must_be_what_is_computed() {
    let s = schema(&[("k", long()), ("v", decimal(10, 2))]);
    let out = schema(&[("r", decimal(20, 2))]);
    let refused = |f: Function| {
        let root = aggregate(2, input(1, &s), vec![], vec![f.rows(AggMode::Complete, 1)]);
        plan(&fragment(root, out.clone()), 1)
            .unwrap_err()
            .to_string()
    };
    let right = [decimal(20, 2), boolean()];
    assert!(
        refused(function(
            "sum",
            &[decimal(10, 2)],
            &[decimal(20, 2)],
            decimal(20, 2)
        ))
        .contains("buffer")
    );
    assert!(refused(function("sum", &[decimal(10, 2)], &right, decimal(21, 2))).contains("result"));
    assert!(
        refused(function(
            "sum",
            &[decimal(9, 2)],
            &[decimal(19, 2), boolean()],
            decimal(19, 2)
        ))
        .contains("arguments")
    );
    assert!(
        refused(function("modus", &[decimal(10, 2)], &right, decimal(20, 2))).contains("not known")
    );
}

#[tokio::test]
async fn sketches_agree_in_several_steps() {
    let keys: Vec<Option<i64>> = (0..600).map(|i| Some(i % 2)).collect();
    let values = Int64Array::from_iter((0..600).map(|i| (i % 7 != 0).then_some(i / 3)));
    let (schema, batches) = rows(long(), keys, Arc::new(values));
    let count = function(
        "approx_count_distinct",
        &[long()],
        &vec![long(); 52],
        long(),
    );
    let count = count.parameter(TypeId::Int, Value::Int(9));
    let found = grouped(&count, &schema, batches.clone()).await.unwrap();
    // Some 186 numbers, in registers whose error is about one in twenty.
    for (key, line) in found.iter().enumerate() {
        let counted: i64 = line
            .rsplit(['|', ' ', ','])
            .find_map(|w| w.parse().ok())
            .unwrap();
        assert!((168..=204).contains(&counted), "{key}: {line}");
    }
    let sketch = function("count_min_sketch", &[long()], &[binary()], binary());
    let sketch = [3, 20, 7].into_iter().fold(sketch, |sketch, number| {
        sketch.parameter(TypeId::Int, Value::Int(number))
    });
    grouped(&sketch, &schema, batches.clone()).await.unwrap();
    let bloom = function("bloom_filter_agg", &[long()], &[binary()], binary());
    let bloom = [100, 1000].into_iter().fold(bloom, |bloom, number| {
        bloom.parameter(TypeId::Long, Value::Int(number))
    });
    grouped(&bloom, &schema, batches.clone()).await.unwrap();
    let bitmap = function("bitmap_construct_agg", &[long()], &[binary()], binary());
    grouped(&bitmap, &schema, batches).await.unwrap();
}

#[tokio::test]
async fn a_position_outside_of_a_bitmap_is_sparks_error() {
    let values = Int64Array::from(vec![1, 32_768]);
    let (schema, batches) = rows(long(), vec![Some(1), Some(1)], Arc::new(values));
    let bitmap = function("bitmap_construct_agg", &[long()], &[binary()], binary());
    let error = grouped(&bitmap, &schema, batches).await.unwrap_err();
    assert_eq!(
        SparkError::find(&error).unwrap().class,
        "INVALID_BITMAP_POSITION"
    );
}

#[tokio::test]
async fn texts_are_joined_in_their_order() {
    let text = data_type(TypeId::String);
    let element = Field {
        name: "element".to_owned(),
        r#type: Some(text.clone()),
        ..Field::default()
    };
    let list = DataType {
        id: TypeId::Array.into(),
        children: vec![element],
        ..DataType::default()
    };
    let texts = [
        Some("b"),
        Some("x"),
        Some("a"),
        None,
        Some("c"),
        None,
        Some("a"),
    ];
    let keys = [1, 2, 1, 2, 1, 3, 1].into_iter().map(Some).collect();
    let (schema, batches) = rows(text.clone(), keys, Arc::new(StringArray::from_iter(texts)));
    let joined = function(
        "listagg",
        std::slice::from_ref(&text),
        &[list],
        text.clone(),
    )
    .parameter(TypeId::String, Value::String(", ".to_owned()))
    .parameter(TypeId::Boolean, Value::Bool(true))
    .parameter(TypeId::Boolean, Value::Bool(false));
    let found = grouped(&joined, &schema, batches).await.unwrap();
    assert_eq!(found.len(), 3);
    assert!(found[0].contains("c, b, a, a"), "{found:?}");
    assert!(found[1].contains('x'), "{found:?}");
}
