//! Every type of join by every strategy, against two nested loops over small tables with NULLs,
//! duplicates, NaN and −0.0.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch},
    datatypes::{Float64Type, Int64Type},
};
use coffer_protocol::plan::{
    DataType, Field, Filter, Join, JoinType, Node, Schema, TypeId, join::Strategy as How, node::Op,
};
use futures::StreamExt;
use proptest::{collection::vec, option, prelude::*};

use crate::support::{
    MemoryIo, batch, broadcast, call, column, context, data_type, fragment, input, node, plan,
    run_on, schema,
};

/// (k, d, v): two keys and a value.
type Row = (Option<i64>, Option<f64>, Option<i64>);

pub(crate) fn columns(prefix: &str) -> Schema {
    let name = |suffix: &str| format!("{prefix}{suffix}");
    schema(&[
        (name("k").as_str(), data_type(TypeId::Long)),
        (name("d").as_str(), data_type(TypeId::Double)),
        (name("v").as_str(), data_type(TypeId::Long)),
    ])
}

pub(crate) fn table(prefix: &str, rows: &[Row]) -> RecordBatch {
    batch(
        &columns(prefix),
        vec![
            Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>()),
            Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
        ],
    )
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    kind: JoinType,
    how: How,
    build_left: bool,
    broadcast: bool,
    keys: usize,
    residual: bool,
    null_aware: bool,
}

fn with_mark(schema: &Schema) -> Schema {
    let mut fields = schema.fields.clone();
    fields.push(Field {
        name: "exists".to_owned(),
        r#type: Some(data_type(TypeId::Boolean)),
        nullable: false,
        ..Field::default()
    });
    Schema { fields }
}

fn output(kind: JoinType) -> Schema {
    match kind {
        JoinType::LeftSemi | JoinType::LeftAnti => columns("l"),
        JoinType::Existence => with_mark(&columns("l")),
        _ => Schema {
            fields: [columns("l").fields, columns("r").fields].concat(),
        },
    }
}

fn join(shape: Shape) -> Node {
    let side = |id: u32, prefix: &str, built: bool| match shape.broadcast && built {
        true => broadcast(id, &columns(prefix)),
        false => input(id, &columns(prefix)),
    };
    let keys: Vec<_> = (0..2).take(shape.keys).map(column).collect();
    let condition = call("greater_than", vec![column(2), column(5)], TypeId::Boolean);
    node(
        3,
        Op::Join(Box::new(Join {
            left: Some(Box::new(side(1, "l", shape.build_left))),
            right: Some(Box::new(side(2, "r", !shape.build_left))),
            left_keys: keys.clone(),
            right_keys: keys,
            r#type: shape.kind.into(),
            condition: shape.residual.then_some(condition),
            strategy: shape.how.into(),
            build_left: shape.build_left,
            broadcast: shape.broadcast,
            null_aware: shape.null_aware,
        })),
    )
}

fn keys_match(shape: Shape, left: &Row, right: &Row) -> bool {
    let of_k = matches!((left.0, right.0), (Some(l), Some(r)) if l == r);
    let of_d =
        matches!((left.1, right.1), (Some(l), Some(r)) if l == r || (l.is_nan() && r.is_nan()));
    (shape.keys < 1 || of_k) && (shape.keys < 2 || of_d)
}

fn pairs(shape: Shape, left: &Row, right: &Row) -> bool {
    let residual = matches!((left.2, right.2), (Some(l), Some(r)) if l > r);
    keys_match(shape, left, right) && (!shape.residual || residual)
}

fn text(row: &Row) -> String {
    format!("{:?} {:?} {:?}", row.0, row.1, row.2)
}

/// What Spark gives, one line a row, sorted.
fn expected(shape: Shape, left: &[Row], right: &[Row]) -> Vec<String> {
    let none = text(&(None, None, None));
    let found = |l: &Row| right.iter().any(|r| pairs(shape, l, r));
    let mut lines: Vec<String> = match shape.kind {
        JoinType::LeftSemi => left.iter().filter(|l| found(l)).map(text).collect(),
        JoinType::LeftAnti if shape.null_aware => left
            .iter()
            .filter(
                |l| match (right.is_empty(), right.iter().any(|r| r.0.is_none())) {
                    (true, _) => true,
                    (_, true) => false,
                    _ => l.0.is_some() && !found(l),
                },
            )
            .map(text)
            .collect(),
        JoinType::LeftAnti => left.iter().filter(|l| !found(l)).map(text).collect(),
        JoinType::Existence => left
            .iter()
            .map(|l| format!("{} {}", text(l), found(l)))
            .collect(),
        kind => {
            let mut lines = vec![];
            for l in left {
                let matches = right.iter().filter(|r| pairs(shape, l, r));
                lines.extend(matches.map(|r| format!("{} {}", text(l), text(r))));
            }
            if matches!(
                kind,
                JoinType::LeftOuter | JoinType::LeftSingle | JoinType::FullOuter
            ) {
                let lost = left.iter().filter(|l| !found(l));
                lines.extend(lost.map(|l| format!("{} {none}", text(l))));
            }
            if matches!(kind, JoinType::RightOuter | JoinType::FullOuter) {
                let lost = right
                    .iter()
                    .filter(|r| !left.iter().any(|l| pairs(shape, l, r)));
                lines.extend(lost.map(|r| format!("{none} {}", text(r))));
            }
            lines
        }
    };
    lines.sort();
    lines
}

fn lines(batch: &RecordBatch) -> Vec<String> {
    let cell = |column: &dyn Array, row: usize| -> String {
        let is_null = column.is_null(row);
        match column.data_type() {
            arrow::datatypes::DataType::Int64 => {
                format!(
                    "{:?}",
                    (!is_null).then(|| column.as_primitive::<Int64Type>().value(row))
                )
            }
            arrow::datatypes::DataType::Float64 => {
                format!(
                    "{:?}",
                    (!is_null).then(|| column.as_primitive::<Float64Type>().value(row))
                )
            }
            _ => {
                assert!(!is_null, "the mark is never NULL");
                let marks: &BooleanArray = column.as_boolean();
                marks.value(row).to_string()
            }
        }
    };
    let mut lines: Vec<String> = (0..batch.num_rows())
        .map(|row| {
            let cells: Vec<String> = batch
                .columns()
                .iter()
                .map(|column| cell(column, row))
                .collect();
            cells.join(" ")
        })
        .collect();
    lines.sort();
    lines
}

const TYPES: [JoinType; 9] = [
    JoinType::Inner,
    JoinType::LeftOuter,
    JoinType::RightOuter,
    JoinType::FullOuter,
    JoinType::LeftSemi,
    JoinType::LeftAnti,
    JoinType::Existence,
    JoinType::Cross,
    JoinType::LeftSingle,
];

/// All that a fragment may ask for.
fn shapes() -> Vec<Shape> {
    let mut shapes = vec![];
    for kind in TYPES {
        for how in [How::Hash, How::SortMerge, How::NestedLoop] {
            for keys in if how == How::NestedLoop { 0..1 } else { 1..3 } {
                for bits in 0..8 {
                    let [build_left, broadcast, residual] =
                        [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0];
                    let gives_unmatched_of_build = match build_left {
                        true => !matches!(
                            kind,
                            JoinType::Inner | JoinType::Cross | JoinType::RightOuter
                        ),
                        false => matches!(kind, JoinType::RightOuter | JoinType::FullOuter),
                    };
                    if broadcast && (how == How::SortMerge || gives_unmatched_of_build) {
                        continue;
                    }
                    shapes.push(Shape {
                        kind,
                        how,
                        build_left,
                        broadcast,
                        keys,
                        residual,
                        null_aware: false,
                    });
                }
            }
        }
    }
    shapes.push(Shape {
        kind: JoinType::LeftAnti,
        how: How::Hash,
        build_left: false,
        broadcast: true,
        keys: 1,
        residual: false,
        null_aware: true,
    });
    shapes
}

fn batches(prefix: &str, rows: &[Row]) -> Vec<Vec<RecordBatch>> {
    let mut all: Vec<RecordBatch> = rows.chunks(2).map(|rows| table(prefix, rows)).collect();
    all.push(table(prefix, &[]));
    vec![all]
}

fn io(left: &[Row], right: &[Row]) -> MemoryIo {
    MemoryIo::default()
        .input(1, batches("l", left))
        .input(2, batches("r", right))
}

/// Runs the join in some of the tasks of one plan: each over other rows of the side that is cut.
async fn check(shape: Shape, left: &[Row], right: &[Row]) {
    let plan = plan(&fragment(join(shape), output(shape.kind)), 5)
        .unwrap_or_else(|refused| panic!("{shape:?}: {refused}"));
    // Never all partitions, and not in order.
    for partition in [3, 1] {
        let (left, right) = match (partition, shape.broadcast, shape.build_left) {
            (3, ..) => (left, right),
            // The other task: of a broadcast join it has the same build side.
            (_, true, true) => (left, &right[right.len() / 2..]),
            (_, true, false) => (&left[left.len() / 2..], right),
            _ => (&left[left.len() / 2..], &right[..right.len() / 2]),
        };
        let found = run_on(&plan, partition, io(left, right)).await;
        let several = |l: &Row| right.iter().filter(|r| pairs(shape, l, r)).count() > 1;
        if shape.kind == JoinType::LeftSingle && left.iter().any(several) {
            let error = found.expect_err("a left row comes twice");
            let class = coffer_expr::SparkError::find(&error).map(|error| error.class);
            assert_eq!(class, Some("SCALAR_SUBQUERY_TOO_MANY_ROWS"), "{shape:?}");
            continue;
        }
        let found = found.unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        assert_eq!(
            lines(&found),
            expected(shape, left, right),
            "{shape:?} {left:?} {right:?}"
        );
        let counted = plan
            .metrics(partition)
            .iter()
            .find(|m| m.node == 3)
            .map(|m| m.rows);
        assert_eq!(
            counted,
            Some(found.num_rows() as u64),
            "{shape:?}: the node's rows are counted"
        );
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let double = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(-f64::NAN),
        Just(1.5),
    ];
    vec(
        (option::of(0..3i64), option::of(double), option::of(0..4i64)),
        0..9,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn joins_give_what_two_loops_give(left in rows(), right in rows()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for shape in shapes() {
                check(shape, &left, &right).await;
            }
        });
    }
}

#[tokio::test]
async fn joins_of_empty_sides() {
    let some: &[Row] = &[(Some(1), Some(0.5), Some(1)), (None, None, None)];
    for shape in shapes() {
        for (left, right) in [(some, &[][..]), (&[][..], some), (&[][..], &[][..])] {
            check(shape, left, right).await;
        }
    }
}

/// Ten thousand million pairs, none of which comes out: whoever cancels a task is heard when its
/// stream says that it is not ready.
#[tokio::test]
async fn a_join_of_very_many_rows_pauses() {
    let many: Vec<Row> = vec![(Some(1), Some(1.0), Some(1)); 100_000];
    for (how, broadcast, keys) in [
        (How::Hash, true, 1),
        (How::Hash, false, 1),
        (How::SortMerge, false, 1),
        (How::NestedLoop, true, 0),
    ] {
        let shape = Shape {
            kind: JoinType::Inner,
            how,
            build_left: true,
            broadcast,
            keys,
            residual: false,
            null_aware: false,
        };
        let none = call("greater_than", vec![column(2), column(5)], TypeId::Boolean);
        let root = node(
            4,
            Op::Filter(Box::new(Filter {
                child: Some(Box::new(join(shape))),
                condition: Some(none),
            })),
        );
        let plan = plan(&fragment(root, output(shape.kind)), 1).unwrap();
        let io = MemoryIo::default()
            .input(1, vec![vec![table("l", &many)]])
            .input(2, vec![vec![table("r", &many)]]);
        let mut rows = plan.execute(0, context(io, 8192)).unwrap();
        // Without pauses its first answer would be that there are no more rows.
        for _ in 0..20 {
            let polled = tokio::select! {
                biased;
                batch = rows.next() => Some(batch),
                () = std::future::ready(()) => None,
            };
            assert!(polled.is_none(), "{shape:?}: {polled:?}");
            tokio::task::yield_now().await;
        }
    }
}

fn of_type(id: TypeId) -> DataType {
    match id {
        TypeId::Decimal => crate::support::decimal(20, 3),
        _ => data_type(id),
    }
}

#[tokio::test]
async fn keys_of_every_type_meet() {
    use arrow::{array::new_null_array, compute::cast, datatypes::DataType as Arrow};
    for id in [
        TypeId::Boolean,
        TypeId::Byte,
        TypeId::Short,
        TypeId::Int,
        TypeId::Long,
        TypeId::Float,
        TypeId::Double,
        TypeId::Decimal,
        TypeId::String,
        TypeId::Binary,
        TypeId::Date,
        TypeId::Timestamp,
        TypeId::TimestampNtz,
    ] {
        let columns = schema(&[("k", of_type(id))]);
        let to = coffer_plan::boundary_schema(&columns)
            .unwrap()
            .field(0)
            .data_type()
            .clone();
        let through = match &to {
            Arrow::Boolean | Arrow::Decimal128(..) | Arrow::Utf8 => Arrow::Int64,
            Arrow::Binary => Arrow::Utf8,
            Arrow::Date32 => Arrow::Int32,
            _ => Arrow::Int64,
        };
        let numbers = Int64Array::from(vec![Some(0), Some(1), None, Some(1)]);
        let values = cast(&cast(&numbers, &through).unwrap(), &to).unwrap();
        let nulls = new_null_array(&to, 1);
        let io = MemoryIo::default()
            .input(1, vec![vec![batch(&columns, vec![Arc::clone(&values)])]])
            .input(
                2,
                vec![vec![
                    batch(&columns, vec![Arc::clone(&values)]),
                    batch(&columns, vec![nulls]),
                ]],
            );
        for how in [How::Hash, How::SortMerge] {
            for (kind, count) in [
                (JoinType::Inner, 5),
                (JoinType::FullOuter, 8),
                (JoinType::LeftSemi, 3),
                (JoinType::LeftAnti, 1),
            ] {
                let join = Join {
                    left: Some(Box::new(input(1, &columns))),
                    right: Some(Box::new(input(2, &columns))),
                    left_keys: vec![column(0)],
                    right_keys: vec![column(0)],
                    r#type: kind.into(),
                    strategy: how.into(),
                    ..Join::default()
                };
                let out = match kind {
                    JoinType::LeftSemi | JoinType::LeftAnti => columns.clone(),
                    _ => Schema {
                        fields: [columns.fields.clone(), columns.fields.clone()].concat(),
                    },
                };
                let plan = plan(&fragment(node(3, Op::Join(Box::new(join))), out), 1).unwrap();
                let found = run_on(&plan, 0, io.clone()).await;
                let found =
                    found.unwrap_or_else(|error| panic!("{id:?} {how:?} {kind:?}: {error}"));
                assert_eq!(found.num_rows(), count, "{id:?} {how:?} {kind:?}");
            }
        }
    }
}
