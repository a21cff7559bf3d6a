//! Filter, project, sort, limit, expand, union, values and merged inputs.

use std::sync::Arc;

use arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
use coffer_expr::SparkError;
use coffer_plan::{Unsupported, boundary_schema};
use coffer_protocol::plan::{
    CaseWhen, DataType, EvalMode, Expand, Expr, Filter, Limit, Node, Partitioning, Project, Schema,
    Sink, Sort, SortKey, TypeId, Union, Values, case_when, expand::Projection, expr::Kind,
    literal::Value, node::Op, partitioning, sink, values::Row,
};

use crate::support::{
    MemoryIo, aggregate, batch, body, call, column, data_type, fragment, function, input, key,
    literal, long, named, node, plan, run, run_on, schema,
};

fn longs() -> DataType {
    data_type(TypeId::Long)
}

fn double() -> DataType {
    data_type(TypeId::Double)
}

fn pairs() -> Schema {
    schema(&[("a", longs()), ("b", data_type(TypeId::String))])
}

fn rows(a: Vec<Option<i64>>, b: Vec<Option<&str>>) -> RecordBatch {
    batch(
        &pairs(),
        vec![
            Arc::new(Int64Array::from(a)),
            Arc::new(StringArray::from(b)),
        ],
    )
}

fn some_rows() -> Vec<RecordBatch> {
    vec![
        rows(vec![Some(3), None], vec![Some("c"), Some("n")]),
        rows(
            vec![Some(1), Some(2), Some(1)],
            vec![Some("a"), None, Some("z")],
        ),
    ]
}

fn io() -> MemoryIo {
    MemoryIo::default().input(1, vec![some_rows()])
}

fn boxed(node: Node) -> Option<Box<Node>> {
    Some(Box::new(node))
}

fn sort(keys: Vec<SortKey>, fetch: u64) -> Node {
    node(
        2,
        Op::Sort(Box::new(Sort {
            child: boxed(input(1, &pairs())),
            keys,
            fetch,
        })),
    )
}

#[tokio::test]
async fn a_filter_drops_rows_for_which_the_condition_is_null() {
    let condition = call("greater_than", vec![column(0), long(1)], TypeId::Boolean);
    let root = node(
        2,
        Op::Filter(Box::new(Filter {
            child: boxed(input(1, &pairs())),
            condition: Some(condition),
        })),
    );
    assert_eq!(
        body(&run(&fragment(root, pairs()), io()).await.unwrap()),
        ["3 c", "2 "]
    );
}

#[tokio::test]
async fn a_projection_computes_and_repeats_columns() {
    let doubled = call("add", vec![column(0), column(0)], TypeId::Long);
    let exprs = vec![
        named("x", doubled),
        named("x", column(1)),
        named("y", column(1)),
    ];
    let root = node(
        2,
        Op::Project(Box::new(Project {
            child: boxed(input(1, &pairs())),
            exprs,
        })),
    );
    let string = data_type(TypeId::String);
    let out = schema(&[("x", longs()), ("x", string.clone()), ("y", string)]);
    let result = run(&fragment(root, out), io()).await.unwrap();
    assert_eq!(body(&result), ["6 c c", " n n", "2 a a", "4  ", "2 z z"]);
}

#[tokio::test]
async fn the_error_of_the_first_row_is_the_operators() {
    // Of the rows 3, NULL, then 1, 2, 1: the first column fails on the second batch's 2, the other
    // one on its first row, as Spark finds it.
    let division = |less: i64| {
        let minus = call("subtract", vec![column(0), long(less)], TypeId::Long);
        let mut by = call("integral_divide", vec![long(1), minus], TypeId::Long);
        if let Some(Kind::Call(call)) = &mut by.kind {
            call.mode = EvalMode::Ansi.into();
        }
        by
    };
    let text = call(
        "raise_error",
        vec![literal(
            TypeId::String,
            Value::String("USER_RAISED_EXCEPTION".into()),
        )],
        TypeId::Long,
    );
    let chosen = Expr {
        kind: Some(Kind::CaseWhen(Box::new(CaseWhen {
            branches: vec![case_when::Branch {
                when: Some(call("eq", vec![column(0), long(1)], TypeId::Boolean)),
                then: Some(text),
            }],
            otherwise: Some(Box::new(long(0))),
            r#type: Some(longs()),
        }))),
    };
    let root = node(
        2,
        Op::Project(Box::new(Project {
            child: boxed(input(1, &pairs())),
            exprs: vec![named("x", division(2)), named("y", chosen)],
        })),
    );
    let out = schema(&[("x", longs()), ("y", longs())]);
    let error = run(&fragment(root, out), io()).await.unwrap_err();
    let found = SparkError::find(&error).unwrap();
    assert_ne!(found.class, "DIVIDE_BY_ZERO", "{found}");
}

#[tokio::test]
async fn a_projection_of_nothing_keeps_the_number_of_rows() {
    let project = node(
        2,
        Op::Project(Box::new(Project {
            child: boxed(input(1, &pairs())),
            exprs: vec![],
        })),
    );
    let count = function("count", &[], &[longs()], longs());
    let root = aggregate(
        3,
        project,
        vec![],
        vec![count.rows(coffer_protocol::plan::AggMode::Complete, 0)],
    );
    assert_eq!(
        body(
            &run(&fragment(root, schema(&[("n", longs())])), io())
                .await
                .unwrap()
        ),
        ["5"]
    );
}

#[tokio::test]
async fn sorts_place_nulls_as_told() {
    let ascending = sort(
        vec![key(column(0), false, true), key(column(1), true, false)],
        0,
    );
    let result = run(&fragment(ascending, pairs()), io()).await.unwrap();
    assert_eq!(body(&result), [" n", "1 z", "1 a", "2 ", "3 c"]);
    let descending = sort(
        vec![key(column(0), true, false), key(column(1), false, true)],
        0,
    );
    let result = run(&fragment(descending, pairs()), io()).await.unwrap();
    assert_eq!(body(&result), ["3 c", "2 ", "1 a", "1 z", " n"]);
}

#[tokio::test]
async fn top_k_gives_the_same_rows_when_a_task_is_repeated() {
    let top = sort(vec![key(column(0), false, false)], 2);
    let plan = plan(&fragment(top, pairs()), 3).unwrap();
    // Partition 0 holds smaller rows; a threshold shared over partitions or runs would lose those
    // of partition 1.
    let small = MemoryIo::default().input(
        1,
        vec![vec![rows(vec![Some(-5), Some(-6)], vec![None, None])]],
    );
    assert_eq!(
        body(&run_on(&plan, 0, small).await.unwrap()),
        ["-6 ", "-5 "]
    );
    for _ in 0..3 {
        let ones: Vec<String> = body(&run_on(&plan, 1, io()).await.unwrap());
        assert_eq!(ones, ["1 a", "1 z"]);
    }
    // Runs add up.
    let metrics = plan.metrics(1);
    assert_eq!(metrics.iter().find(|m| m.node == 2).unwrap().rows, 6);
}

#[tokio::test]
async fn doubles_sort_as_in_spark() {
    let s = schema(&[("d", double()), ("i", longs())]);
    let values = Float64Array::from(vec![
        Some(0.0),
        Some(-f64::NAN),
        Some(-0.0),
        Some(f64::INFINITY),
        None,
        Some(-1.0),
    ]);
    let b = batch(
        &s,
        vec![
            Arc::new(values),
            Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5, 6])),
        ],
    );
    let keys = vec![key(column(0), false, true), key(column(1), false, true)];
    let root = node(
        2,
        Op::Sort(Box::new(Sort {
            child: boxed(input(1, &s)),
            keys,
            fetch: 0,
        })),
    );
    let result = run(
        &fragment(root, s),
        MemoryIo::default().input(1, vec![vec![b]]),
    )
    .await
    .unwrap();
    let order: Vec<String> = body(&result)
        .iter()
        .map(|l| l.split(' ').next_back().unwrap().to_owned())
        .collect();
    // NULL, -1, the two zeros in order of i, infinity, NaN.
    assert_eq!(order, ["5", "6", "1", "3", "4", "2"]);
}

#[tokio::test]
async fn limits_are_of_each_partition() {
    let limit = |skip, fetch| {
        let root = node(
            2,
            Op::Limit(Box::new(Limit {
                child: boxed(input(1, &pairs())),
                skip,
                fetch,
            })),
        );
        plan(&fragment(root, pairs()), 2).unwrap()
    };
    let two = limit(1, Some(2));
    for partition in 0..2 {
        assert_eq!(
            body(&run_on(&two, partition, io()).await.unwrap()),
            [" n", "1 a"]
        );
    }
    assert_eq!(
        body(&run_on(&limit(4, None), 0, io()).await.unwrap()),
        ["1 z"]
    );
    assert_eq!(
        run_on(&limit(0, Some(0)), 0, io())
            .await
            .unwrap()
            .num_rows(),
        0
    );
}

#[tokio::test]
async fn an_expand_gives_each_projection_of_each_row() {
    let s = schema(&[("a", longs()), ("g", longs())]);
    let projections = vec![
        Projection {
            exprs: vec![column(0), long(0)],
        },
        Projection {
            exprs: vec![literal(TypeId::Long, Value::Int(9)), long(1)],
        },
    ];
    let expand = Expand {
        child: boxed(input(1, &pairs())),
        projections,
        schema: Some(s.clone()),
    };
    let root = node(2, Op::Expand(Box::new(expand)));
    let io = MemoryIo::default().input(1, vec![vec![rows(vec![Some(3), None], vec![None, None])]]);
    assert_eq!(
        body(&run(&fragment(root, s), io).await.unwrap()),
        ["3 0", " 0", "9 1", "9 1"]
    );
}

fn union(children_partitions: Vec<u32>, children: Vec<Node>) -> Node {
    node(
        9,
        Op::Union(Union {
            children,
            schema: Some(pairs()),
            children_partitions,
        }),
    )
}

fn second(id: u32) -> Node {
    let s = schema(&[("other", longs()), ("names", data_type(TypeId::String))]);
    input(id, &s)
}

fn two_inputs() -> MemoryIo {
    let s = schema(&[("other", longs()), ("names", data_type(TypeId::String))]);
    let other = batch(
        &s,
        vec![
            Arc::new(Int64Array::from(vec![77])),
            Arc::new(StringArray::from(vec!["u"])),
        ],
    );
    io().input(2, vec![vec![other]])
}

#[tokio::test]
async fn unions_stack_or_align() {
    let stacked = plan(
        &fragment(
            union(vec![2, 1], vec![input(1, &pairs()), second(2)]),
            pairs(),
        ),
        3,
    )
    .unwrap();
    assert_eq!(
        run_on(&stacked, 1, two_inputs()).await.unwrap().num_rows(),
        5
    );
    assert_eq!(
        body(&run_on(&stacked, 2, two_inputs()).await.unwrap()),
        ["77 u"]
    );
    let aligned = plan(
        &fragment(union(vec![], vec![second(2), input(1, &pairs())]), pairs()),
        2,
    )
    .unwrap();
    for partition in 0..2 {
        let result = body(&run_on(&aligned, partition, two_inputs()).await.unwrap());
        assert_eq!(result, ["77 u", "3 c", " n", "1 a", "2 ", "1 z"]);
    }
    let wrong = fragment(
        union(vec![2, 1], vec![input(1, &pairs()), second(2)]),
        pairs(),
    );
    assert!(matches!(
        plan(&wrong, 2),
        Err(Unsupported::Malformed { node: 9, .. })
    ));
}

#[tokio::test]
async fn values_are_in_partition_0_only() {
    let row = |a: Option<i64>, b: &str| Row {
        values: [long_literal(a), string_literal(b)].to_vec(),
    };
    let values = Values {
        schema: Some(pairs()),
        rows: vec![row(Some(1), "x"), row(None, "y")],
    };
    let plan = plan(&fragment(node(1, Op::Values(values)), pairs()), 2).unwrap();
    assert_eq!(
        body(&run_on(&plan, 0, MemoryIo::default()).await.unwrap()),
        ["1 x", " y"]
    );
    assert_eq!(
        run_on(&plan, 1, MemoryIo::default())
            .await
            .unwrap()
            .num_rows(),
        0
    );
}

fn long_literal(value: Option<i64>) -> coffer_protocol::plan::Literal {
    coffer_protocol::plan::Literal {
        r#type: Some(longs()),
        value: value.map(Value::Int),
    }
}

fn string_literal(value: &str) -> coffer_protocol::plan::Literal {
    coffer_protocol::plan::Literal {
        r#type: Some(data_type(TypeId::String)),
        value: Some(Value::String(value.to_owned())),
    }
}

#[tokio::test]
async fn sorted_streams_are_merged() {
    let mut leaf = input(1, &pairs());
    if let Some(Op::Input(input)) = &mut leaf.op {
        input.merge = vec![key(column(0), true, false)];
    }
    let streams = vec![
        vec![
            rows(vec![Some(5), Some(3)], vec![Some("a"), Some("a")]),
            rows(vec![None], vec![Some("a")]),
        ],
        vec![rows(vec![Some(4), Some(3)], vec![Some("b"), Some("b")])],
        vec![rows(vec![], vec![])],
    ];
    let result = run(
        &fragment(leaf, pairs()),
        MemoryIo::default().input(1, streams),
    )
    .await
    .unwrap();
    assert_eq!(body(&result), ["5 a", "4 b", "3 a", "3 b", " a"]);
}

#[tokio::test]
async fn rows_that_are_dealt_out_come_in_one_order() {
    let mut fragment = fragment(input(1, &pairs()), pairs());
    let robin = partitioning::RoundRobin { partitions: 3 };
    let kind = partitioning::Kind::RoundRobin(robin);
    fragment.sink = Some(Sink {
        kind: Some(sink::Kind::Shuffle(Partitioning { kind: Some(kind) })),
    });
    let forth = run(&fragment, io()).await.unwrap();
    let mut reversed = some_rows();
    reversed.reverse();
    let back = run(&fragment, MemoryIo::default().input(1, vec![reversed]))
        .await
        .unwrap();
    assert_eq!(body(&forth), body(&back));
    assert_eq!(forth.num_rows(), 5);
}

#[tokio::test]
async fn metrics_are_by_node_and_partition() {
    let condition = call("greater_than", vec![column(0), long(1)], TypeId::Boolean);
    let root = node(
        2,
        Op::Filter(Box::new(Filter {
            child: boxed(input(1, &pairs())),
            condition: Some(condition),
        })),
    );
    let plan = plan(&fragment(root, pairs()), 2).unwrap();
    run_on(&plan, 1, io()).await.unwrap();
    let rows = |partition| {
        plan.metrics(partition)
            .iter()
            .map(|m| (m.node, m.rows))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(1), [(1, 5), (2, 2)]);
    assert_eq!(rows(0), [(1, 0), (2, 0)]);
}

#[tokio::test]
async fn wrong_fragments_are_refused() {
    let refused = |root: Node, out: Schema| plan(&fragment(root, out), 1).unwrap_err();
    let mut newer = fragment(input(1, &pairs()), pairs());
    newer.version = 2;
    assert!(matches!(
        plan(&newer, 1),
        Err(Unsupported::Version { found: 2, .. })
    ));
    assert!(matches!(
        refused(Node { id: 4, op: None }, pairs()),
        Unsupported::Malformed { node: 4, .. }
    ));
    assert!(matches!(
        refused(
            input(1, &pairs()),
            schema(&[("a", longs()), ("b", longs())])
        ),
        Unsupported::Type { column: 1, .. }
    ));
    assert!(matches!(
        refused(input(1, &pairs()), schema(&[("a", longs())])),
        Unsupported::Type { column: 1, .. }
    ));
    let condition = node(
        2,
        Op::Filter(Box::new(Filter {
            child: boxed(input(1, &pairs())),
            condition: Some(column(0)),
        })),
    );
    assert!(matches!(
        refused(condition, pairs()),
        Unsupported::Malformed { node: 2, .. }
    ));
    let beyond = node(
        2,
        Op::Filter(Box::new(Filter {
            child: boxed(input(1, &pairs())),
            condition: Some(column(7)),
        })),
    );
    assert!(matches!(
        refused(beyond, pairs()),
        Unsupported::Expression { node: 2, .. }
    ));
    assert!(matches!(
        refused(node(3, Op::Join(Box::default())), pairs()),
        Unsupported::Malformed { node: 3, .. }
    ));
    assert!(matches!(
        refused(sort(vec![], 0), pairs()),
        Unsupported::Malformed { node: 2, .. }
    ));
    assert!(boundary_schema(&schema(&[("d", crate::support::decimal(39, 0))])).is_err());
}
