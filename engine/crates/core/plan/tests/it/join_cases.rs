//! Joins: what is refused, what fails and how, and which columns come out.

use std::sync::Arc;

use coffer_plan::Unsupported;
use coffer_protocol::plan::{
    AggMode, Call, EvalMode, Expr, Join, JoinType, Node, Project, Schema, TypeId, Union, Values,
    expr::Kind, join::Strategy, node::Op,
};
use datafusion_common::DataFusionError;
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_physical_plan::common::collect;

use crate::{
    joins::{columns, table},
    support::{
        MemoryIo, aggregate, broadcast, call, column, context_in, data_type, fragment, function,
        input, long, named, node, plan, run, run_on, schema, sorted,
    },
};

fn boxed(node: Node) -> Option<Box<Node>> {
    Some(Box::new(node))
}

fn base() -> Join {
    Join {
        left: boxed(input(1, &columns("l"))),
        right: boxed(input(2, &columns("r"))),
        left_keys: vec![column(0)],
        right_keys: vec![column(0)],
        ..Join::default()
    }
}

fn of(join: Join) -> Node {
    node(3, Op::Join(Box::new(join)))
}

fn both() -> Schema {
    Schema {
        fields: [columns("l").fields, columns("r").fields].concat(),
    }
}

fn io() -> MemoryIo {
    let left = table(
        "l",
        &[
            (Some(1), None, Some(10)),
            (Some(2), None, Some(20)),
            (None, None, Some(30)),
        ],
    );
    let right = table(
        "r",
        &[
            (Some(1), None, Some(5)),
            (Some(3), None, Some(0)),
            (None, None, Some(0)),
        ],
    );
    MemoryIo::default()
        .input(1, vec![vec![left]])
        .input(2, vec![vec![right]])
}

#[test]
fn joins_that_would_not_be_sparks_are_refused() {
    let with = |change: fn(&mut Join)| {
        let mut join = base();
        change(&mut join);
        plan(&fragment(of(join), both()), 2).map(|_| ())
    };
    let broadcast_right = |join: &mut Join| {
        join.broadcast = true;
        join.right = boxed(broadcast(2, &columns("r")));
    };
    with(|_| {}).unwrap();
    let malformed: Vec<fn(&mut Join)> = vec![
        |join| join.left_keys.clear(),
        |join| {
            join.left_keys.clear();
            join.right_keys.clear();
        },
        |join| join.strategy = Strategy::NestedLoop.into(),
        |join| join.strategy = 9,
        |join| join.r#type = 99,
        |join| join.left = None,
        |join| join.broadcast = true,
        |join| join.right = boxed(broadcast(2, &columns("r"))),
        |join| join.null_aware = true,
        |join| {
            join.condition = Some(call(
                "greater_than",
                vec![column(2), column(6)],
                TypeId::Boolean,
            ))
        },
        |join| {
            join.broadcast = true;
            join.strategy = Strategy::SortMerge.into();
            join.right = boxed(broadcast(2, &columns("r")));
        },
        |join| {
            // A broadcast side is of the broadcast's rows alone.
            let union = Union {
                children: vec![broadcast(2, &columns("r"))],
                schema: Some(columns("r")),
                children_partitions: vec![],
            };
            join.broadcast = true;
            join.right = boxed(node(4, Op::Union(union)));
        },
    ];
    for (case, change) in malformed.into_iter().enumerate() {
        let refused = with(change);
        assert!(
            matches!(refused, Err(Unsupported::Malformed { .. })),
            "{case}: {refused:?}"
        );
    }
    for kind in [JoinType::RightOuter, JoinType::FullOuter] {
        let mut join = base();
        broadcast_right(&mut join);
        join.r#type = kind.into();
        let refused = plan(&fragment(of(join), both()), 2);
        assert!(
            matches!(refused, Err(Unsupported::Operator { .. })),
            "{kind:?}: {refused:?}"
        );
    }
    let mut types = base();
    types.right_keys = vec![column(1)];
    let refused = plan(&fragment(of(types), both()), 2);
    assert!(
        matches!(refused, Err(Unsupported::Type { .. })),
        "{refused:?}"
    );
    let number = with(|join| join.condition = Some(column(0)));
    assert!(
        matches!(number, Err(Unsupported::Malformed { .. })),
        "{number:?}"
    );
}

#[test]
fn local_rows_are_no_side_of_a_cartesian_product() {
    let local = Values {
        schema: Some(columns("r")),
        rows: vec![],
    };
    let join = Join {
        left_keys: vec![],
        right_keys: vec![],
        right: boxed(node(2, Op::Values(local))),
        strategy: Strategy::NestedLoop.into(),
        r#type: JoinType::Cross.into(),
        ..base()
    };
    let fragment = fragment(of(join), both());
    assert!(matches!(
        plan(&fragment, 2),
        Err(Unsupported::Operator { .. })
    ));
    plan(&fragment, 1).unwrap();
}

/// `l.v % r.v = 0`, an error where r.v is 0.
fn divides() -> Expr {
    let remainder = Expr {
        kind: Some(Kind::Call(Call {
            name: "remainder".to_owned(),
            args: vec![column(2), column(5)],
            r#type: Some(data_type(TypeId::Long)),
            mode: EvalMode::Ansi.into(),
            ..Call::default()
        })),
    };
    call("equal_to", vec![remainder, long(0)], TypeId::Boolean)
}

#[tokio::test]
async fn a_condition_is_evaluated_where_keys_match_and_nowhere_else() {
    for strategy in [Strategy::Hash, Strategy::SortMerge] {
        for kind in [
            JoinType::Inner,
            JoinType::LeftOuter,
            JoinType::RightOuter,
            JoinType::FullOuter,
            JoinType::LeftSemi,
            JoinType::LeftAnti,
        ] {
            for build_left in [false, true] {
                let join = Join {
                    condition: Some(divides()),
                    strategy: strategy.into(),
                    r#type: kind.into(),
                    build_left,
                    ..base()
                };
                let out = match kind {
                    JoinType::LeftSemi | JoinType::LeftAnti => columns("l"),
                    _ => both(),
                };
                let plan = plan(&fragment(of(join), out), 1).unwrap();
                // The right rows with 0 meet no left key.
                let good = run_on(&plan, 0, io()).await;
                good.unwrap_or_else(|error| panic!("{strategy:?} {kind:?}: {error}"));
                let zero = table("r", &[(Some(1), None, Some(0))]);
                let bad = run_on(&plan, 0, io().input(2, vec![vec![zero]]))
                    .await
                    .unwrap_err();
                let spark = coffer_expr::SparkError::find(&bad).map(|error| error.class);
                assert!(spark.is_some(), "{strategy:?} {kind:?}: {bad}");
            }
        }
    }
}

#[tokio::test]
async fn a_projection_over_a_join_takes_the_columns_that_it_names() {
    for (strategy, build_left) in [
        (Strategy::Hash, false),
        (Strategy::Hash, true),
        (Strategy::SortMerge, false),
        (Strategy::NestedLoop, false),
    ] {
        let mut join = Join {
            strategy: strategy.into(),
            build_left,
            ..base()
        };
        if strategy == Strategy::NestedLoop {
            join.condition = Some(call(
                "equal_to",
                vec![column(0), column(3)],
                TypeId::Boolean,
            ));
            join.left_keys.clear();
            join.right_keys.clear();
        }
        let sum = call("add", vec![column(5), column(2)], TypeId::Long);
        let project = Project {
            child: boxed(of(join.clone())),
            exprs: vec![named("s", sum), named("k", column(3))],
        };
        let out = schema(&[
            ("s", data_type(TypeId::Long)),
            ("k", data_type(TypeId::Long)),
        ]);
        let result = run(
            &fragment(node(4, Op::Project(Box::new(project))), out),
            io(),
        )
        .await;
        assert_eq!(sorted(&result.unwrap()), ["15 1"], "{strategy:?}");

        // A column that the join does not have.
        let project = Project {
            child: boxed(of(join.clone())),
            exprs: vec![named("k", column(6))],
        };
        let out = schema(&[("k", data_type(TypeId::Long))]);
        assert!(plan(&fragment(node(4, Op::Project(Box::new(project))), out), 1).is_err());

        // No column at all: the rows are counted.
        let project = Project {
            child: boxed(of(join)),
            exprs: vec![],
        };
        let count = function(
            "count",
            &[],
            &[data_type(TypeId::Long)],
            data_type(TypeId::Long),
        );
        let calls = vec![count.rows(AggMode::Complete, 0)];
        let root = aggregate(5, node(4, Op::Project(Box::new(project))), vec![], calls);
        let out = schema(&[("n", data_type(TypeId::Long))]);
        assert_eq!(
            sorted(&run(&fragment(root, out), io()).await.unwrap()),
            ["1"],
            "{strategy:?}"
        );
    }
}

#[tokio::test]
async fn a_cross_join_of_rows_without_columns_counts_pairs() {
    let bare = |id: u32, child: Node| {
        let project = Project {
            child: boxed(child),
            exprs: vec![],
        };
        boxed(node(id, Op::Project(Box::new(project))))
    };
    for broadcast_right in [false, true] {
        let right = match broadcast_right {
            true => broadcast(2, &columns("r")),
            false => input(2, &columns("r")),
        };
        let join = Join {
            left: bare(6, input(1, &columns("l"))),
            right: bare(7, right),
            left_keys: vec![],
            right_keys: vec![],
            r#type: JoinType::Cross.into(),
            strategy: Strategy::NestedLoop.into(),
            broadcast: broadcast_right,
            ..Join::default()
        };
        let count = function(
            "count",
            &[],
            &[data_type(TypeId::Long)],
            data_type(TypeId::Long),
        );
        let root = aggregate(5, of(join), vec![], vec![count.rows(AggMode::Complete, 0)]);
        let out = schema(&[("n", data_type(TypeId::Long))]);
        let result = run(&fragment(root, out), io()).await;
        assert_eq!(
            sorted(&result.unwrap()),
            ["9"],
            "broadcast: {broadcast_right}"
        );
    }
}

#[tokio::test]
async fn a_build_side_that_does_not_fit_is_an_error_of_memory() {
    let rows: Vec<_> = (0..20_000).map(|i| (Some(i), None, Some(i))).collect();
    let io = io().input(2, vec![vec![table("r", &rows)]]);
    for strategy in [Strategy::Hash, Strategy::NestedLoop] {
        let mut join = Join {
            strategy: strategy.into(),
            ..base()
        };
        if strategy == Strategy::NestedLoop {
            join.left_keys.clear();
            join.right_keys.clear();
        }
        let plan = plan(&fragment(of(join), both()), 1).unwrap();
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_limit(100_000, 1.0)
            .build()
            .unwrap();
        let stream = plan
            .execute(0, context_in(io.clone(), 100, Arc::new(runtime)))
            .unwrap();
        let error = collect(stream).await.unwrap_err();
        assert!(
            matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)),
            "{strategy:?}: {error}"
        );
    }
}

#[tokio::test]
async fn a_merge_join_spills_where_memory_is_short() {
    let rows: Vec<_> = (0..40_000)
        .map(|i| (Some((i * 7919) % 40_000), None, Some(i)))
        .collect();
    let pieces = |prefix: &str| {
        rows.chunks(500)
            .map(|rows| table(prefix, rows))
            .collect::<Vec<_>>()
    };
    let io = MemoryIo::default()
        .input(1, vec![pieces("l")])
        .input(2, vec![pieces("r")]);
    let join = Join {
        strategy: Strategy::SortMerge.into(),
        ..base()
    };
    let plan = plan(&fragment(of(join), both()), 1).unwrap();
    let pool = Arc::new(datafusion_execution::memory_pool::FairSpillPool::new(
        3 << 20,
    ));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(pool)
        .build()
        .unwrap();
    let mut io = Some(io);
    let context = context_in(io.take().unwrap(), 500, Arc::new(runtime));
    let mut config = context.session_config().clone();
    config.options_mut().execution.sort_spill_reservation_bytes = 64 << 10;
    let context = datafusion_execution::TaskContext::default()
        .with_session_config(config)
        .with_runtime(context.runtime_env());
    let batches = collect(plan.execute(0, Arc::new(context)).unwrap())
        .await
        .unwrap();
    assert_eq!(
        batches.iter().map(|batch| batch.num_rows()).sum::<usize>(),
        40_000
    );
    let metrics = plan.metrics(0);
    let join = metrics.iter().find(|metrics| metrics.node == 3).unwrap();
    assert!(join.spilled > 0, "{metrics:?}");
}
