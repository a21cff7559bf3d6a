//! Windows: what each function gives, whatever the batches that rows come in; the order that a
//! window makes for itself; what it refuses.

use std::sync::Arc;

use arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
use coffer_expr::SparkError;
use coffer_plan::Unsupported;
use coffer_protocol::plan::{
    AggMode, DataType, EvalMode, Expr, Node, Schema, Sort, SortKey, TypeId, Window,
    WindowGroupLimit, expr,
    node::Op,
    window::{
        Bound, Call, Frame, NthValue, Rank, Ranking, Shift,
        bound::{Kind, Peers, Unbounded},
        call::Function as Called,
    },
};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_physical_plan::common::collect;

use crate::support::{
    Function, MemoryIo, batch, body, call, column, context_in, data_type, fragment, function,
    input, key, long, node, plan, run, schema, sorted,
};

pub(crate) fn longs() -> DataType {
    data_type(TypeId::Long)
}

pub(crate) fn double() -> DataType {
    data_type(TypeId::Double)
}

pub(crate) fn int() -> DataType {
    data_type(TypeId::Int)
}

pub(crate) fn table() -> Schema {
    schema(&[
        ("g", double()),
        ("v", longs()),
        ("s", data_type(TypeId::String)),
    ])
}

/// (g, v, s) in no order: groups of NaN, of both zeros and of NULL; ties and NULLs of v.
fn rows() -> Vec<RecordBatch> {
    let odd_nan = f64::from_bits(0xfff8_0000_0000_0001);
    let (g, v): (Vec<_>, Vec<_>) = [
        (Some(0.0), Some(3)),
        (None, Some(1)),
        (Some(f64::NAN), Some(2)),
        (Some(-0.0), Some(1)),
        (Some(0.0), None),
        (Some(odd_nan), Some(1)),
        (Some(-0.0), Some(3)),
        (None, None),
        (Some(0.0), Some(7)),
    ]
    .into_iter()
    .unzip();
    let s: Vec<String> = (0..g.len()).map(|row| format!("r{row}")).collect();
    let whole = batch(
        &table(),
        vec![
            Arc::new(Float64Array::from(g)),
            Arc::new(Int64Array::from(v)),
            Arc::new(StringArray::from(s)),
        ],
    );
    (0..whole.num_rows())
        .step_by(4)
        .map(|at| whole.slice(at, 4.min(whole.num_rows() - at)))
        .collect()
}

fn io() -> MemoryIo {
    MemoryIo::default().input(1, vec![rows()])
}

pub(crate) fn by_v() -> Vec<SortKey> {
    vec![key(column(1), false, true)]
}

fn window(calls: Vec<Call>, order: Vec<SortKey>) -> Node {
    node(
        2,
        Op::Window(Box::new(Window {
            child: Some(Box::new(input(1, &table()))),
            partition: vec![column(0)],
            order,
            calls,
        })),
    )
}

pub(crate) fn named(function: Called, frame: Option<Frame>) -> Call {
    Call {
        name: "w".to_owned(),
        function: Some(function),
        frame,
    }
}

pub(crate) fn ranking(rank: Rank, buckets: u32) -> Call {
    let rank = rank.into();
    named(Called::Ranking(Ranking { rank, buckets }), None)
}

pub(crate) fn frame(lower: Kind, upper: Kind) -> Option<Frame> {
    let bound = |kind| Some(Bound { kind: Some(kind) });
    Some(Frame {
        lower: bound(lower),
        upper: bound(upper),
    })
}

pub(crate) fn end() -> Kind {
    Kind::Unbounded(Unbounded {})
}

pub(crate) fn peers() -> Kind {
    Kind::Peers(Peers {})
}

/// v and so many more.
pub(crate) fn beyond(more: i64, mode: EvalMode) -> Expr {
    let mut sum = call("add", vec![column(1), long(more)], TypeId::Long);
    if let Some(expr::Kind::Call(call)) = &mut sum.kind {
        call.mode = mode.into();
    }
    sum
}

fn sum() -> Function {
    function("sum", &[longs()], &[longs()], longs()).eval(EvalMode::Ansi)
}

pub(crate) fn aggregate(function: &Function, frame: Option<Frame>) -> Call {
    named(
        Called::Aggregate(function.rows(AggMode::Complete, 1)),
        frame,
    )
}

pub(crate) fn output(types: &[DataType]) -> Schema {
    let mut all = table();
    let more = types.iter().map(|data_type| ("w", data_type.clone()));
    all.fields.extend(schema(&more.collect::<Vec<_>>()).fields);
    all
}

/// s and the columns of the calls, by s.
async fn results(calls: Vec<Call>, order: Vec<SortKey>, types: &[DataType]) -> Vec<String> {
    let made = run(&fragment(window(calls, order), output(types)), io())
        .await
        .unwrap();
    let shown: Vec<usize> = (2..made.num_columns()).collect();
    sorted(&made.project(&shown).unwrap())
}

#[tokio::test]
async fn ranks() {
    let kinds = [
        (Rank::RowNumber, int()),
        (Rank::Rank, int()),
        (Rank::DenseRank, int()),
        (Rank::PercentRank, double()),
        (Rank::CumeDist, double()),
    ];
    let calls: Vec<Call> = kinds.iter().map(|(rank, _)| ranking(*rank, 0)).collect();
    let types: Vec<DataType> = kinds.iter().map(|(_, kind)| kind.clone()).collect();
    // Those of the rows so far alone, which hold no rows.
    let order = || vec![key(column(1), false, true), key(column(2), false, true)];
    assert_eq!(
        results(calls[..3].to_vec(), order(), &types[..3]).await,
        [
            "r0 3 3 3", "r1 2 2 2", "r2 2 2 2", "r3 2 2 2", "r4 1 1 1", "r5 1 1 1", "r6 4 4 4",
            "r7 1 1 1", "r8 5 5 5",
        ]
    );
    // Of each row, but the row numbers of the peers r0 and r6, which may be either way.
    let found = results(calls, by_v(), &types).await;
    let found: Vec<String> = found
        .into_iter()
        .map(|line| match line.split_once(' ') {
            Some((row @ ("r0" | "r6"), rest)) => {
                format!("{row}{}", rest.trim_start_matches(['3', '4']))
            }
            _ => line,
        })
        .collect();
    assert_eq!(
        found,
        [
            "r0 3 3 0.5 0.8",
            "r1 2 2 2 1.0 1.0",
            "r2 2 2 2 1.0 1.0",
            "r3 2 2 2 0.25 0.4",
            "r4 1 1 1 0.0 0.2",
            "r5 1 1 1 0.0 0.5",
            "r6 3 3 0.5 0.8",
            "r7 1 1 1 0.0 0.5",
            "r8 5 5 4 1.0 1.0",
        ]
    );
}

#[tokio::test]
async fn buckets_differ_by_one_row_at_most() {
    let order = || vec![key(column(2), false, true)];
    let calls = vec![ranking(Rank::Ntile, 3), ranking(Rank::Ntile, 100)];
    assert_eq!(
        results(calls, order(), &[int(), int()]).await,
        [
            "r0 1 1", "r1 1 1", "r2 1 1", "r3 1 2", "r4 2 3", "r5 2 2", "r6 2 4", "r7 2 2",
            "r8 3 5",
        ]
    );
}

#[tokio::test]
async fn values_of_other_rows() {
    let shift = |offset, otherwise, ignore_nulls| {
        let shift = Shift {
            input: Some(column(1)),
            offset,
            otherwise,
            ignore_nulls,
        };
        named(Called::Shift(shift), None)
    };
    let nth = |nth, ignore_nulls| {
        let value = NthValue {
            input: Some(column(1)),
            nth,
            ignore_nulls,
        };
        named(Called::NthValue(value), frame(end(), end()))
    };
    let calls = vec![
        shift(1, None, false),
        shift(-1, Some(long(-9)), false),
        shift(-2, Some(column(1)), false),
        shift(-1, None, true),
        nth(3, false),
        nth(3, true),
    ];
    let order = vec![key(column(2), false, true)];
    assert_eq!(
        results(calls, order, &[(); 6].map(|()| longs())).await,
        [
            // lead, lag, lag by two, lag of values, third, third value
            "r0 1 -9 3   3",
            "r1  -9 1   ",
            "r2 1 -9 2   ",
            "r3  3 1 3  3",
            "r4 3 1 3 1  3",
            "r5  2 1 2  ",
            "r6 7  1 1  3",
            "r7  1  1  ",
            "r8  3  3  3",
        ]
    );
}

#[tokio::test]
async fn frames_of_rows_of_peers_and_of_values() {
    let order = || vec![key(column(1), false, true), key(column(2), false, true)];
    let calls = vec![
        aggregate(&sum(), frame(end(), end())),
        aggregate(&sum(), frame(end(), Kind::Rows(0))),
        aggregate(&sum(), frame(Kind::Rows(-1), Kind::Rows(1))),
        aggregate(&sum(), frame(Kind::Rows(1), end())),
    ];
    assert_eq!(
        results(calls, order(), &[(); 4].map(|()| longs())).await,
        [
            "r0 14 4 7 10",
            "r1 1 1 1 ",
            "r2 3 3 3 ",
            "r3 14 1 4 13",
            "r4 14  1 14",
            "r5 3 1 3 2",
            "r6 14 7 13 7",
            "r7 1  1 1",
            "r8 14 14 10 ",
        ]
    );
    let calls = vec![
        aggregate(&sum(), frame(end(), peers())),
        aggregate(&sum(), frame(peers(), end())),
        aggregate(
            &sum(),
            frame(
                Kind::Value(beyond(-2, EvalMode::Ansi)),
                Kind::Value(beyond(1, EvalMode::Ansi)),
            ),
        ),
    ];
    assert_eq!(
        results(calls, by_v(), &[(); 3].map(|()| longs())).await,
        [
            "r0 7 13 7",
            "r1 1 1 1",
            "r2 3 2 3",
            "r3 1 14 1",
            "r4  14 ",
            "r5 1 3 3",
            "r6 7 13 7",
            "r7  1 ",
            "r8 14 7 7",
        ]
    );
}

#[tokio::test]
async fn a_bound_is_computed_only_where_it_is_asked_for() {
    let most = i64::MAX - 1;
    let schema = schema(&[
        ("g", double()),
        ("v", longs()),
        ("s", data_type(TypeId::String)),
    ]);
    let some = |values: Vec<i64>| {
        let rows = values.len();
        let columns: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(Float64Array::from(vec![1.0; rows])),
            Arc::new(Int64Array::from(values)),
            Arc::new(StringArray::from(vec!["r"; rows])),
        ];
        MemoryIo::default().input(1, vec![vec![batch(&schema, columns)]])
    };
    let count = function("count", &[longs()], &[longs()], longs());
    let up_to = |upper| {
        let bound = Kind::Value(beyond(upper, EvalMode::Ansi));
        let calls = vec![aggregate(&count, frame(end(), bound))];
        fragment(window(calls, by_v()), output(&[longs()]))
    };
    // The last row has nothing after it that its bound could be compared with.
    let made = run(&up_to(1), some(vec![most, most])).await.unwrap();
    assert_eq!(made.num_rows(), 2);
    let made = run(&up_to(2), some(vec![1, most])).await.unwrap_err();
    assert_eq!(
        SparkError::find(&made).unwrap().class,
        "ARITHMETIC_OVERFLOW"
    );
    let made = run(&up_to(most), some(vec![1, most])).await.unwrap();
    assert_eq!(
        body(&made),
        ["1.0 1 r 2".to_owned(), format!("1.0 {most} r 2")]
    );
}

#[tokio::test]
async fn the_first_rows_of_each_group() {
    let limited = |rank: Rank, limit| {
        let limit = WindowGroupLimit {
            child: Some(Box::new(input(1, &table()))),
            partition: vec![column(0)],
            order: by_v(),
            rank: rank.into(),
            limit,
        };
        fragment(node(2, Op::WindowGroupLimit(Box::new(limit))), table())
    };
    let of = async |rank, limit| {
        let made = run(&limited(rank, limit), io()).await.unwrap();
        sorted(&made.project(&[2]).unwrap())
    };
    assert_eq!(of(Rank::RowNumber, 1).await, ["r4", "r5", "r7"]);
    assert_eq!(
        of(Rank::Rank, 3).await,
        ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"]
    );
    assert_eq!(
        of(Rank::DenseRank, 2).await,
        ["r1", "r2", "r3", "r4", "r5", "r7"]
    );
    assert_eq!(of(Rank::DenseRank, 4).await.len(), 9);
    for (rank, limit) in [(Rank::CumeDist, 1), (Rank::Rank, 0)] {
        plan(&limited(rank, limit), 1).unwrap_err();
    }
}

/// A limit of groups over a sort, as Spark plans it, keeps what one over sorted rows keeps: also
/// where groups are many, and where keys are many to a group.
#[tokio::test]
async fn rows_behind_the_first_of_each_group_are_not_sorted() {
    let schema = table();
    let made = |groups: i64, seed: i64| {
        let value = move |row: i64, step: i64| (row * step + seed) % 7919;
        let parts = (0..80).map(|part| {
            let rows = part * 1000..(part + 1) * 1000;
            let g = rows.clone().map(|row| (value(row, 31) % groups) as f64);
            let v = rows.clone().map(|row| match value(row, 613) {
                0..100 => None,
                value => Some(value % 500),
            });
            let s = rows.map(|row| format!("r{row}"));
            batch(
                &schema,
                vec![
                    Arc::new(g.collect::<Float64Array>()),
                    Arc::new(v.collect::<Int64Array>()),
                    Arc::new(s.map(Some).collect::<StringArray>()),
                ],
            )
        });
        MemoryIo::default().input(1, vec![parts.collect()])
    };
    let limited = |rank: Rank, limit, sorts: bool| {
        let read = input(1, &schema);
        let sort = Sort {
            child: Some(Box::new(read.clone())),
            keys: [vec![key(column(0), false, true)], by_v()].concat(),
            fetch: 0,
        };
        let limit = WindowGroupLimit {
            child: Some(Box::new(match sorts {
                true => node(3, Op::Sort(Box::new(sort))),
                false => read,
            })),
            partition: vec![column(0)],
            order: by_v(),
            rank: rank.into(),
            limit,
        };
        fragment(node(2, Op::WindowGroupLimit(Box::new(limit))), table())
    };
    let shown = |limit| {
        let plan = plan(&limited(Rank::Rank, limit, true), 1).unwrap();
        let text = datafusion_physical_plan::displayable(plan.root().as_ref())
            .indent(false)
            .to_string();
        (
            text.matches("Unsorted").count(),
            text.matches("SortExec").count(),
        )
    };
    assert_eq!((shown(3), shown(5000)), ((1, 1), (0, 1)));
    for (groups, limit) in [(1, 10), (5, 100), (300, 3), (7000, 2)] {
        for rank in [Rank::RowNumber, Rank::Rank, Rank::DenseRank] {
            let kept = async |sorts| {
                let made = run(&limited(rank, limit, sorts), made(groups, 11)).await;
                // Of peers any may have the last number.
                sorted(&made.unwrap().project(&[0, 1]).unwrap())
            };
            assert_eq!(
                kept(true).await,
                kept(false).await,
                "{groups} {limit} {rank:?}"
            );
        }
    }
}

#[tokio::test]
async fn rows_that_come_in_order_are_not_sorted_again() {
    let lower = window(vec![ranking(Rank::RowNumber, 0)], by_v());
    let upper = |order| {
        let child = window(vec![ranking(Rank::RowNumber, 0)], by_v());
        let window = Window {
            child: Some(Box::new(child)),
            partition: vec![column(0)],
            order,
            calls: vec![ranking(Rank::Rank, 0)],
        };
        node(3, Op::Window(Box::new(window)))
    };
    let sorts = |root, types: &[DataType]| {
        let plan = plan(&fragment(root, output(types)), 1).unwrap();
        let text = datafusion_physical_plan::displayable(plan.root().as_ref())
            .indent(false)
            .to_string();
        text.matches("SortExec").count()
    };
    assert_eq!(sorts(lower, &[int()]), 1);
    assert_eq!(sorts(upper(by_v()), &[int(), int()]), 1);
    assert_eq!(sorts(upper(vec![]), &[int(), int()]), 1);
    assert_eq!(
        sorts(upper(vec![key(column(1), true, true)]), &[int(), int()]),
        2
    );
}

#[tokio::test]
async fn a_window_partition_that_memory_does_not_hold_goes_to_the_disk() {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(1 << 20, 1.0)
        .build_arc()
        .unwrap();
    let big = |groups: usize| {
        let rows = 20_000;
        let groups: Vec<f64> = (0..rows)
            .map(|row| (row / (rows / groups)) as f64)
            .collect();
        let whole = batch(
            &table(),
            vec![
                Arc::new(Float64Array::from(groups)),
                Arc::new(Int64Array::from(vec![1; rows])),
                Arc::new(StringArray::from(vec!["row"; rows])),
            ],
        );
        let batches = (0..rows).step_by(1000).map(|at| whole.slice(at, 1000));
        MemoryIo::default().input(1, vec![batches.collect()])
    };
    // Merged inputs are known to be in order.
    let mut child = input(1, &table());
    if let Some(Op::Input(input)) = &mut child.op {
        input.merge = vec![key(column(0), false, true)];
    }
    let window = Window {
        child: Some(Box::new(child)),
        partition: vec![column(0)],
        order: vec![],
        calls: vec![aggregate(&sum(), frame(end(), end()))],
    };
    let root = node(2, Op::Window(Box::new(window)));
    let plan = plan(&fragment(root, output(&[longs()])), 1).unwrap();
    let run = async |groups| {
        let context = context_in(big(groups), 500, Arc::clone(&runtime));
        collect(plan.execute(0, context).unwrap()).await
    };
    let made = run(100).await.unwrap();
    assert_eq!(
        made.iter().map(RecordBatch::num_rows).sum::<usize>(),
        20_000
    );
    let made = run(1).await.unwrap();
    assert_eq!(
        made.iter().map(RecordBatch::num_rows).sum::<usize>(),
        20_000
    );
    assert_eq!(runtime.memory_pool.reserved(), 0);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |call: Call, order| {
        let root = window(vec![call], order);
        match plan(&fragment(root, output(&[longs()])), 1) {
            Err(Unsupported::Malformed { .. } | Unsupported::Aggregate { .. }) => {}
            other => panic!("{other:?}"),
        }
    };
    let value = || Kind::Value(beyond(1, EvalMode::Ansi));
    refused(named(Called::NthValue(NthValue::default()), None), by_v());
    let zeroth = NthValue {
        input: Some(column(1)),
        ..NthValue::default()
    };
    refused(named(Called::NthValue(zeroth), frame(end(), end())), by_v());
    refused(ranking(Rank::Ntile, 0), by_v());
    let unknown = Ranking {
        rank: 99,
        buckets: 1,
    };
    refused(named(Called::Ranking(unknown), None), by_v());
    refused(Call::default(), by_v());
    let other_default = Shift {
        input: Some(column(1)),
        otherwise: Some(column(2)),
        ..Shift::default()
    };
    refused(named(Called::Shift(other_default), None), by_v());
    // Bounds: none, or by a value without one order of its type.
    refused(aggregate(&sum(), None), by_v());
    refused(aggregate(&sum(), Some(Frame::default())), by_v());
    refused(aggregate(&sum(), frame(value(), end())), vec![]);
    let two = vec![key(column(1), false, true), key(column(2), false, true)];
    refused(aggregate(&sum(), frame(value(), end())), two);
    let other = vec![key(column(2), false, true)];
    refused(aggregate(&sum(), frame(value(), end())), other);
    // Aggregates: of buffers, with a filter.
    let merged = Called::Aggregate(sum().buffers(AggMode::Final, 1));
    refused(named(merged, frame(end(), end())), by_v());
    let mut filtered = sum().rows(AggMode::Complete, 1);
    filtered.filter = Some(call("is_null", vec![column(1)], TypeId::Boolean));
    refused(
        named(Called::Aggregate(filtered), frame(end(), end())),
        by_v(),
    );
}
