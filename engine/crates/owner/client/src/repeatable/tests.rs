//! What each operator keeps, and that a function which is not listed keeps nothing.

use coffer_protocol::plan::{
    AggCall, Aggregate, Call, DataType, Expand, Filter, Input, Join, Limit, NamedExpr,
    Partitioning, Placed, Project, Scan, Sink, Sort, SortKey, TypeId, Union, Values, Window,
    WindowGroupLimit,
    expand::Projection,
    expr::Kind,
    join::Strategy,
    placed,
    window::{bound::Kind as Bound, call::Function},
};

use super::{
    Repeatable::{Not, Ordered, Unordered},
    *,
};

fn boxed(node: Node) -> Option<Box<Node>> {
    Some(Box::new(node))
}

fn op(op: Op) -> Node {
    Node {
        id: 0,
        op: Some(op),
    }
}

fn input(id: u32) -> Node {
    op(Op::Input(Input {
        input_id: id,
        ..Input::default()
    }))
}

fn merged(id: u32) -> Node {
    op(Op::Input(Input {
        input_id: id,
        merge: vec![SortKey::default()],
        ..Input::default()
    }))
}

fn limit(child: Node) -> Node {
    op(Op::Limit(Box::new(Limit {
        child: boxed(child),
        skip: 0,
        fetch: Some(5),
    })))
}

fn place(child: Node) -> Node {
    op(Op::Placed(Box::new(Placed {
        child: boxed(child),
        columns: vec![],
    })))
}

fn sort(child: Node, fetch: u64) -> Node {
    op(Op::Sort(Box::new(Sort {
        child: boxed(child),
        keys: vec![],
        fetch,
    })))
}

fn aggregate(child: Node, name: &str, grouped: bool) -> Node {
    op(Op::Aggregate(Box::new(Aggregate {
        child: boxed(child),
        grouping: vec![NamedExpr::default(); usize::from(grouped)],
        calls: vec![AggCall {
            name: name.to_owned(),
            input_types: vec![DataType {
                id: TypeId::Double.into(),
                ..DataType::default()
            }],
            ..AggCall::default()
        }],
    })))
}

fn expand(child: Node) -> Node {
    op(Op::Expand(Box::new(Expand {
        child: boxed(child),
        ..Expand::default()
    })))
}

fn window(child: Node, calls: Vec<window::Call>) -> Node {
    op(Op::Window(Box::new(Window {
        child: boxed(child),
        calls,
        ..Window::default()
    })))
}

fn ranked(child: Node, rank: window::Rank) -> Node {
    let ranking = window::Ranking {
        rank: rank.into(),
        buckets: 2,
    };
    let call = window::Call {
        function: Some(Function::Ranking(ranking)),
        ..window::Call::default()
    };
    window(child, vec![call])
}

fn group_limit(child: Node, rank: window::Rank) -> Node {
    op(Op::WindowGroupLimit(Box::new(WindowGroupLimit {
        child: boxed(child),
        rank: rank.into(),
        ..WindowGroupLimit::default()
    })))
}

fn framed(child: Node, name: &str, lower: Bound, upper: Bound) -> Node {
    let bound = |kind| window::Bound { kind: Some(kind) };
    let made = aggregate(op(Op::Values(Values::default())), name, false);
    let Some(Op::Aggregate(mut made)) = made.op else {
        panic!("no aggregate");
    };
    let call = window::Call {
        function: made.calls.pop().map(Function::Aggregate),
        frame: Some(window::Frame {
            lower: Some(bound(lower)),
            upper: Some(bound(upper)),
        }),
        ..window::Call::default()
    };
    window(child, vec![call])
}

#[test]
fn a_window_that_tells_peers_apart_is_made_anew() {
    use window::Rank;
    let producers = HashMap::from([(0, Ordered)]);
    let first = || Bound::Unbounded(window::bound::Unbounded {});
    let peers = || Bound::Peers(window::bound::Peers {});
    let key = || {
        Bound::Value(Expr {
            kind: Some(Kind::Column(0)),
        })
    };
    let shift = Function::Shift(window::Shift::default());
    let nth = Function::NthValue(window::NthValue::default());
    let of = |function: Option<Function>| {
        let call = window::Call {
            function,
            ..window::Call::default()
        };
        window(input(0), vec![call])
    };
    let drawn_bound = Bound::Value(drawn());
    let cases = [
        ("row_number", ranked(input(0), Rank::RowNumber), Not),
        ("ntile", ranked(input(0), Rank::Ntile), Not),
        ("rank", ranked(input(0), Rank::Rank), Unordered),
        ("dense_rank", ranked(input(0), Rank::DenseRank), Unordered),
        (
            "percent_rank",
            ranked(input(0), Rank::PercentRank),
            Unordered,
        ),
        ("cume_dist", ranked(input(0), Rank::CumeDist), Unordered),
        (
            "the first rows of what is ranked",
            limit(ranked(input(0), Rank::Rank)),
            Not,
        ),
        ("lead", of(Some(shift)), Not),
        ("nth_value", of(Some(nth)), Not),
        ("nothing", of(None), Not),
        (
            "sums of window partitions",
            framed(input(0), "sum", first(), first()),
            Unordered,
        ),
        (
            "sums up to peers",
            framed(input(0), "sum", first(), peers()),
            Unordered,
        ),
        (
            "sums up to a value",
            framed(input(0), "sum", key(), key()),
            Unordered,
        ),
        (
            "sums up to what is drawn",
            framed(input(0), "sum", first(), drawn_bound),
            Not,
        ),
        (
            "sums up to a row",
            framed(input(0), "sum", first(), Bound::Rows(0)),
            Not,
        ),
        (
            "the first of a window partition",
            framed(input(0), "first", first(), first()),
            Not,
        ),
        (
            "what nobody has classed",
            framed(input(0), "modus", first(), first()),
            Not,
        ),
        (
            "the first ranks",
            group_limit(input(0), Rank::Rank),
            Unordered,
        ),
        (
            "the first dense ranks",
            group_limit(input(0), Rank::DenseRank),
            Unordered,
        ),
        (
            "the first rows",
            group_limit(input(0), Rank::RowNumber),
            Not,
        ),
    ];
    for (what, root, expected) in cases {
        assert_eq!(
            Repeatable::of(&fragment(root), &producers),
            expected,
            "{what}"
        );
    }
}

fn join(left: Node, right: Node, strategy: Strategy) -> Node {
    op(Op::Join(Box::new(Join {
        left: boxed(left),
        right: boxed(right),
        strategy: strategy.into(),
        ..Join::default()
    })))
}

#[test]
fn an_operator_that_takes_rows_by_place_needs_an_order_that_is_kept() {
    let producers = HashMap::from([(0, Ordered), (1, Unordered), (2, Not)]);
    let values = || op(Op::Values(Values::default()));
    let union = |children| {
        op(Op::Union(Union {
            children,
            ..Union::default()
        }))
    };
    let cases = [
        ("rows of the fragment", values(), Ordered),
        ("the first of them", limit(values()), Ordered),
        ("an input in order", input(0), Ordered),
        ("its first", limit(input(0)), Ordered),
        ("a merged input", merged(0), Unordered),
        ("its first rows", limit(merged(0)), Not),
        ("an input in any order", input(1), Unordered),
        ("the first of it", limit(input(1)), Not),
        ("its places", place(input(0)), Ordered),
        ("its rows' places", place(merged(0)), Not),
        ("places in it", place(input(1)), Not),
        ("one version of rows made anew", input(2), Unordered),
        ("groups", aggregate(input(0), "sum", true), Unordered),
        (
            "the first groups",
            limit(aggregate(input(0), "sum", true)),
            Not,
        ),
        (
            "one sum of doubles",
            limit(aggregate(input(1), "sum", false)),
            Ordered,
        ),
        (
            "groups' averages",
            aggregate(input(1), "avg", true),
            Unordered,
        ),
        (
            "deviations",
            aggregate(input(1), "stddev_samp", true),
            Unordered,
        ),
        ("largest", aggregate(input(1), "max", true), Unordered),
        (
            "an aggregate that nobody has classed",
            aggregate(values(), "modus", true),
            Not,
        ),
        ("one first value", aggregate(input(1), "first", false), Not),
        (
            "the first value of rows in order",
            aggregate(input(0), "first", false),
            Ordered,
        ),
        ("last values", aggregate(input(1), "last", true), Not),
        ("sorted", sort(input(0), 0), Unordered),
        ("the first of what is sorted", limit(sort(input(0), 0)), Not),
        ("the top of rows in order", sort(input(0), 3), Ordered),
        ("the top of rows in any order", sort(input(1), 3), Not),
        (
            "a hash join",
            join(input(0), values(), Strategy::Hash),
            Unordered,
        ),
        (
            "the first of it",
            limit(join(input(0), values(), Strategy::Hash)),
            Not,
        ),
        (
            "the first of rows that are multiplied",
            limit(expand(input(0))),
            Not,
        ),
        ("rows that are multiplied", expand(input(0)), Unordered),
        (
            "a hash join of rows in any order",
            join(input(0), input(1), Strategy::Hash),
            Unordered,
        ),
        (
            "a nested loop",
            join(input(0), values(), Strategy::NestedLoop),
            Unordered,
        ),
        (
            "a merge join",
            join(input(0), input(0), Strategy::SortMerge),
            Unordered,
        ),
        ("all together", union(vec![values(), limit(input(1))]), Not),
        (
            "groups of what is made anew",
            aggregate(limit(input(1)), "sum", false),
            Not,
        ),
    ];
    for (what, root, expected) in cases {
        assert_eq!(
            Repeatable::of(&fragment(root), &producers),
            expected,
            "{what}"
        );
    }
}

fn fragment(root: Node) -> Fragment {
    to(root, sink::Kind::Result(sink::Result {}))
}

fn to(root: Node, kind: sink::Kind) -> Fragment {
    Fragment {
        root: Some(root),
        sink: Some(Sink { kind: Some(kind) }),
        ..Fragment::default()
    }
}

fn drawn() -> Expr {
    Expr {
        kind: Some(Kind::Call(Call {
            name: "rand".to_owned(),
            ..Call::default()
        })),
    }
}

#[test]
fn a_function_that_is_not_listed_makes_its_rows_anew_wherever_it_is_called() {
    let values = || boxed(op(Op::Values(Values::default())));
    let key = || SortKey {
        expr: Some(drawn()),
        ..SortKey::default()
    };
    let named = || NamedExpr {
        expr: Some(drawn()),
        ..NamedExpr::default()
    };
    let call = |call: AggCall| {
        Op::Aggregate(Box::new(Aggregate {
            child: values(),
            grouping: vec![],
            calls: vec![AggCall {
                name: "count".to_owned(),
                ..call
            }],
        }))
    };
    let join = |join| {
        Op::Join(Box::new(Join {
            left: values(),
            right: values(),
            ..join
        }))
    };
    let ops = [
        Op::Scan(Scan {
            pushed: vec![drawn()],
            ..Scan::default()
        }),
        Op::Input(Input {
            merge: vec![key()],
            ..Input::default()
        }),
        Op::Filter(Box::new(Filter {
            child: values(),
            condition: Some(drawn()),
        })),
        Op::Project(Box::new(Project {
            child: values(),
            exprs: vec![named()],
        })),
        Op::Sort(Box::new(Sort {
            child: values(),
            keys: vec![key()],
            fetch: 0,
        })),
        Op::Placed(Box::new(Placed {
            child: values(),
            columns: vec![placed::Column {
                input: Some(drawn()),
                ..placed::Column::default()
            }],
        })),
        Op::Expand(Box::new(Expand {
            child: values(),
            projections: vec![Projection {
                exprs: vec![drawn()],
            }],
            schema: None,
        })),
        Op::Aggregate(Box::new(Aggregate {
            child: values(),
            grouping: vec![named()],
            calls: vec![],
        })),
        call(AggCall {
            args: vec![drawn()],
            ..AggCall::default()
        }),
        call(AggCall {
            filter: Some(drawn()),
            ..AggCall::default()
        }),
        join(Join {
            left_keys: vec![drawn()],
            ..Join::default()
        }),
        join(Join {
            right_keys: vec![drawn()],
            ..Join::default()
        }),
        join(Join {
            condition: Some(drawn()),
            ..Join::default()
        }),
    ];
    let none = HashMap::new();
    for root in ops {
        let text = format!("{root:?}");
        assert_eq!(
            Repeatable::of(&fragment(op(root.clone())), &none),
            Not,
            "{text}"
        );
        let above = aggregate(limit(op(root)), "count", false);
        assert_eq!(Repeatable::of(&fragment(above), &none), Not, "above {text}");
    }
    assert_eq!(Repeatable::of(&fragment(Node::default()), &none), Not);
    let shuffles = [
        None,
        Some(partitioning::Kind::Hash(partitioning::Hash {
            exprs: vec![drawn()],
            partitions: 2,
        })),
        Some(partitioning::Kind::Range(partitioning::Range {
            keys: vec![key()],
            ..partitioning::Range::default()
        })),
    ];
    for kind in shuffles {
        let shuffle = sink::Kind::Shuffle(Partitioning { kind });
        let rows = op(Op::Values(Values::default()));
        assert_eq!(Repeatable::of(&to(rows, shuffle), &none), Not);
    }
}
