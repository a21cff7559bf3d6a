//! Rows made of rows, numbers and samples.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, Int64Array, RecordBatch},
    datatypes::Int64Type,
};
use coffer_plan::Unsupported;
use coffer_protocol::plan::{
    DataType, Drawn, Expr, Generate, Literal, Node, Numbers, Schema, TypeId, Values,
    expr::Kind,
    generate::{Copies, Explode, Generator, Stack},
    literal,
    node::Op,
    values::Row,
};

use crate::support::{
    MemoryIo, batch, body, column, data_type, fragment, input, long, node, plan, run, run_on,
    schema,
};

fn longs() -> DataType {
    data_type(TypeId::Long)
}

fn pairs() -> Schema {
    schema(&[("a", longs()), ("b", longs())])
}

fn io(rows: &[(Option<i64>, Option<i64>)]) -> MemoryIo {
    let (a, b): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
    let columns: Vec<Arc<dyn Array>> =
        vec![Arc::new(Int64Array::from(a)), Arc::new(Int64Array::from(b))];
    MemoryIo::default().input(1, vec![vec![batch(&pairs(), columns)]])
}

fn generate(generator: Generator, made: &Schema, outer: bool) -> Node {
    let generate = Generate {
        child: Some(Box::new(input(1, &pairs()))),
        kept: vec![0],
        generator: Some(generator),
        schema: Some(made.clone()),
        outer,
    };
    node(2, Op::Generate(Box::new(generate)))
}

fn array(values: &[Option<i64>]) -> Expr {
    let element = coffer_protocol::plan::Field {
        name: "element".to_owned(),
        r#type: Some(longs()),
        nullable: true,
        ..Default::default()
    };
    let of = DataType {
        id: TypeId::Array.into(),
        children: vec![element],
        ..DataType::default()
    };
    let values = values.iter().map(|value| Literal {
        r#type: Some(longs()),
        value: value.map(literal::Value::Int),
    });
    let nested = literal::Nested {
        values: values.collect(),
    };
    Expr {
        kind: Some(Kind::Literal(Literal {
            r#type: Some(of),
            value: Some(literal::Value::Nested(nested)),
        })),
    }
}

fn with(schema: &Schema) -> Schema {
    let mut fields = vec![pairs().fields[0].clone()];
    fields.extend(schema.fields.clone());
    Schema { fields }
}

async fn made(generator: Generator, made: &Schema, outer: bool) -> Vec<String> {
    let rows = [(Some(1), Some(2)), (None, Some(-1)), (Some(3), None)];
    let root = generate(generator, made, outer);
    body(&run(&fragment(root, with(made)), io(&rows)).await.unwrap())
}

fn explode(values: &[Option<i64>], position: bool) -> Generator {
    Generator::Explode(Explode {
        input: Some(array(values)),
        position,
        fields: false,
    })
}

#[tokio::test]
async fn elements_with_their_positions() {
    let columns = schema(&[("pos", data_type(TypeId::Int)), ("x", longs())]);
    let rows = made(explode(&[Some(7), None], true), &columns, false).await;
    assert_eq!(rows, ["1 0 7", "1 1 ", " 0 7", " 1 ", "3 0 7", "3 1 "]);
}

#[tokio::test]
async fn a_row_of_nothing_is_kept_by_outer_alone() {
    let columns = schema(&[("pos", data_type(TypeId::Int)), ("x", longs())]);
    assert!(made(explode(&[], true), &columns, false).await.is_empty());
    assert_eq!(
        made(explode(&[], true), &columns, true).await,
        ["1  ", "  ", "3  "]
    );
}

#[tokio::test]
async fn stacks_are_filled_up_with_nulls() {
    let columns = schema(&[("x", longs()), ("y", longs())]);
    let stack = Generator::Stack(Stack {
        rows: 2,
        exprs: vec![column(0), long(8), column(1)],
    });
    let rows = made(stack, &columns, false).await;
    assert_eq!(rows, ["1 1 8", "1 2 ", "  8", " -1 ", "3 3 8", "3  "]);
}

#[tokio::test]
async fn copies_by_a_count() {
    let columns = schema(&[("x", longs())]);
    let copies = Generator::Copies(Copies {
        count: Some(column(1)),
        exprs: vec![column(0)],
    });
    assert_eq!(made(copies, &columns, false).await, ["1 1", "1 1"]);
}

#[tokio::test]
async fn long_arrays_come_in_several_batches() {
    let values: Vec<Option<i64>> = (0..50_000).map(Some).collect();
    let columns = schema(&[("x", longs())]);
    let rows = made(explode(&values, false), &columns, false).await;
    assert_eq!(rows.len(), 150_000);
    assert_eq!(
        (rows[49_999].as_str(), rows[50_000].as_str()),
        ("1 49999", " 0")
    );
}

#[test]
fn wrong_generators_are_refused() {
    let columns = schema(&[("x", longs())]);
    let refused = |generator| {
        let root = generate(generator, &columns, false);
        matches!(
            plan(&fragment(root, with(&columns)), 1),
            Err(Unsupported::Malformed { .. } | Unsupported::Type { .. })
        )
    };
    assert!(refused(explode(&[Some(1)], true)));
    assert!(refused(Generator::Explode(Explode {
        input: Some(column(0)),
        ..Explode::default()
    })));
    for (rows, exprs) in [(0, vec![long(1)]), (1, vec![long(1), long(2)])] {
        assert!(refused(Generator::Stack(Stack { rows, exprs })));
    }
}

async fn numbers(start: i64, end: i64, step: i64, partitions: u32) -> Vec<Vec<i64>> {
    let columns = schema(&[("id", longs())]);
    let numbers = Numbers {
        schema: Some(columns.clone()),
        start,
        end,
        step,
        partitions,
    };
    let root = node(1, Op::Numbers(numbers));
    let plan = plan(
        &fragment(root, columns),
        usize::try_from(partitions).unwrap(),
    )
    .unwrap();
    let mut all = vec![];
    for partition in 0..usize::try_from(partitions).unwrap() {
        let rows = run_on(&plan, partition, MemoryIo::default()).await.unwrap();
        all.push(values(&rows));
    }
    all
}

fn values(rows: &RecordBatch) -> Vec<i64> {
    rows.column(0).as_primitive::<Int64Type>().values().to_vec()
}

#[tokio::test]
async fn numbers_are_cut_as_spark_cuts_them() {
    assert_eq!(
        numbers(0, 10, 1, 3).await,
        [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8, 9]]
    );
    assert_eq!(numbers(5, -3, -3, 2).await, [vec![5], vec![2, -1]]);
    assert_eq!(numbers(3, 3, 1, 2).await, [Vec::<i64>::new(), vec![]]);
    let ends = numbers(i64::MIN, i64::MAX, i64::MAX, 1).await;
    assert_eq!(ends, [vec![i64::MIN, -1, i64::MAX - 1]]);
}

fn drawn(lower: f64, upper: f64, replacement: bool) -> Node {
    let values = (0..10_000).map(|value| Row {
        values: vec![Literal {
            r#type: Some(longs()),
            value: Some(literal::Value::Int(value)),
        }],
    });
    let child = node(
        1,
        Op::Values(Values {
            schema: Some(schema(&[("id", longs())])),
            rows: values.collect(),
        }),
    );
    let drawn = Drawn {
        child: Some(Box::new(child)),
        lower,
        upper,
        replacement,
        seed: 42,
    };
    node(2, Op::Drawn(Box::new(drawn)))
}

async fn sample(lower: f64, upper: f64, replacement: bool) -> Vec<i64> {
    let fragment = fragment(drawn(lower, upper, replacement), schema(&[("id", longs())]));
    values(&run(&fragment, MemoryIo::default()).await.unwrap())
}

#[tokio::test]
async fn parts_of_a_draw_are_the_whole() {
    let mut parts = sample(0.0, 0.3, false).await;
    assert!((2_700..3_300).contains(&parts.len()));
    parts.extend(sample(0.3, 1.0, false).await);
    parts.sort_unstable();
    assert_eq!(parts, (0..10_000).collect::<Vec<_>>());
    assert!(sample(0.5, 0.5, false).await.is_empty());
}

#[tokio::test]
async fn with_replacement_rows_come_as_often_as_the_mean_says() {
    for mean in [0.5, 40.0] {
        let rows = sample(0.0, mean, true).await;
        #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
        let found = rows.len() as f64 / 10_000.0;
        assert!((found / mean - 1.0).abs() < 0.05, "{found} for {mean}");
    }
}

#[test]
fn shares_that_are_none_are_refused() {
    for (lower, upper) in [
        (-0.1, 0.5),
        (0.6, 0.5),
        (0.0, 1.5),
        (f64::NAN, 1.0),
        (0.0, f64::NAN),
    ] {
        let root = drawn(lower, upper, false);
        assert!(plan(&fragment(root, schema(&[("id", longs())])), 1).is_err());
    }
}
