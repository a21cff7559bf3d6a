//! Fragments: decoded, shown, and built into a plan. Nothing is run: what a fragment says is done,
//! however long it takes.

use coffer_expr::CompileContext;
use coffer_plan::{BuildContext, build, readable};
use coffer_protocol::plan::{
    AggCall, AggMode, Aggregate, Call, Cast, DataType, Expr, Field, Fragment, InList, Input, Join,
    JoinType, Limit, Literal, NamedExpr, Node, Partitioning, Project, Schema, Sink, Sort, SortKey,
    TypeId, Union, Values, Window, WindowGroupLimit,
    expr::Kind,
    join,
    literal::Value,
    node::Op,
    partitioning, sink,
    values::Row,
    window::{self, bound::Kind as Bound, call::Function as Called},
};
use prost::Message;

use super::{cut, generators, intervals, seed};
use crate::{Outcome, Seed, Target, outcome};

pub(super) const TARGET: Target = Target {
    name: "fragment",
    about: "fragments: decoding, EXPLAIN's text, building of the plan",
    memory: |input| 8192 * input + (32 << 20),
    smoke: 20_000,
    run,
    seeds,
};

fn run(input: &[u8]) -> Outcome {
    let Ok(fragment) = Fragment::decode(input) else {
        return "Malformed".to_owned();
    };
    let _ = readable(&fragment);
    let context = BuildContext {
        partitions: 3,
        expressions: &CompileContext::default(),
        decryptor: None,
    };
    outcome(build(&fragment, &context))
}

pub(super) fn kind(id: TypeId) -> DataType {
    DataType {
        id: id.into(),
        precision: if id == TypeId::Decimal { 12 } else { 0 },
        scale: if id == TypeId::Decimal { 2 } else { 0 },
        ..DataType::default()
    }
}

/// The columns of the fixtures: BIGINT `a`, STRING `s`.
pub(super) fn schema() -> Schema {
    named(&[("a", kind(TypeId::Long)), ("s", kind(TypeId::String))])
}

fn named(fields: &[(&str, DataType)]) -> Schema {
    let field = |(name, kind): &(&str, DataType)| Field {
        name: (*name).to_owned(),
        r#type: Some(kind.clone()),
        nullable: true,
        ..Field::default()
    };
    Schema {
        fields: fields.iter().map(field).collect(),
    }
}

pub(super) fn node(id: u32, op: Op) -> Node {
    Node { id, op: Some(op) }
}

pub(super) fn input(id: u32) -> Node {
    node(
        id,
        Op::Input(Input {
            input_id: id,
            schema: Some(schema()),
            merge: vec![],
            broadcast: false,
        }),
    )
}

pub(super) fn fragment(root: Node, sink: sink::Kind, output: Schema) -> Fragment {
    Fragment {
        version: 1,
        root: Some(root),
        sink: Some(Sink { kind: Some(sink) }),
        output: Some(output),
        hiding: None,
    }
}

pub(super) fn result(root: Node, output: Schema) -> Fragment {
    fragment(root, sink::Kind::Result(sink::Result {}), output)
}

pub(super) fn column(position: u32) -> Expr {
    Expr {
        kind: Some(Kind::Column(position)),
    }
}

pub(super) fn key(position: u32) -> SortKey {
    SortKey {
        expr: Some(column(position)),
        descending: false,
        nulls_first: true,
    }
}

fn literal(id: TypeId, value: Value) -> Literal {
    Literal {
        r#type: Some(kind(id)),
        value: Some(value),
    }
}

pub(super) fn long(value: i64) -> Expr {
    Expr {
        kind: Some(Kind::Literal(literal(TypeId::Long, Value::Int(value)))),
    }
}

fn text(value: &str) -> Expr {
    Expr {
        kind: Some(Kind::Literal(literal(
            TypeId::String,
            Value::String(value.to_owned()),
        ))),
    }
}

pub(super) fn call(name: &str, args: Vec<Expr>, id: TypeId) -> Expr {
    let call = Call {
        name: name.to_owned(),
        args,
        r#type: Some(kind(id)),
        time_zone: "UTC".to_owned(),
        ..Call::default()
    };
    Expr {
        kind: Some(Kind::Call(call)),
    }
}

fn filter(child: Node, condition: Expr) -> Node {
    node(
        50,
        Op::Filter(Box::new(coffer_protocol::plan::Filter {
            child: Some(Box::new(child)),
            condition: Some(condition),
        })),
    )
}

fn project(exprs: Vec<Expr>) -> Node {
    let named = |expr| NamedExpr {
        name: "x".to_owned(),
        expr: Some(expr),
    };
    node(
        60,
        Op::Project(Box::new(Project {
            child: Some(Box::new(input(1))),
            exprs: exprs.into_iter().map(named).collect(),
        })),
    )
}

/// A window over `a` in a range of `a` (1) or of `s` (0), NTILE and LEAD.
fn windowed(by_a: u32, buckets: u32) -> Fragment {
    let bound = |kind| window::Bound { kind: Some(kind) };
    let frame = window::Frame {
        lower: Some(bound(Bound::Value(call(
            "add",
            vec![column(0), long(-5)],
            TypeId::Long,
        )))),
        upper: Some(bound(Bound::Peers(window::bound::Peers {}))),
    };
    let named_call = |function, frame| window::Call {
        name: "w".to_owned(),
        function: Some(function),
        frame,
    };
    let sum = AggCall {
        name: "sum".to_owned(),
        mode: AggMode::Complete.into(),
        args: vec![column(0)],
        r#type: Some(kind(TypeId::Long)),
        input_types: vec![kind(TypeId::Long)],
        buffer: Some(named(&[("sum", kind(TypeId::Long))])),
        ..AggCall::default()
    };
    let ntile = window::Ranking {
        rank: window::Rank::Ntile.into(),
        buckets,
    };
    let lead = window::Shift {
        input: Some(column(1)),
        offset: 2,
        otherwise: Some(text("none")),
        ignore_nulls: true,
    };
    let root = node(
        10,
        Op::Window(Box::new(Window {
            child: Some(Box::new(input(1))),
            partition: vec![column(1)],
            order: vec![key(1 - by_a)],
            calls: vec![
                named_call(Called::Aggregate(sum), Some(frame)),
                named_call(Called::Ranking(ntile), None),
                named_call(Called::Shift(lead), None),
            ],
        })),
    );
    let mut output = schema();
    let made = [
        ("w", kind(TypeId::Long)),
        ("w", kind(TypeId::Int)),
        ("w", kind(TypeId::String)),
    ];
    output.fields.extend(named(&made).fields);
    result(root, output)
}

/// The first rows of each `s`.
fn first(limit: u32) -> Node {
    node(
        10,
        Op::WindowGroupLimit(Box::new(WindowGroupLimit {
            child: Some(Box::new(input(1))),
            partition: vec![column(1)],
            order: vec![key(0)],
            rank: window::Rank::DenseRank.into(),
            limit,
        })),
    )
}

fn seeds() -> Vec<Seed> {
    let x = |id| named(&[("x", kind(id))]);
    let at_least = call(
        "greater_than_or_equal",
        vec![column(0), long(5)],
        TypeId::Boolean,
    );
    let filtered = result(filter(input(1), at_least.clone()), schema());
    let cast = Expr {
        kind: Some(Kind::Cast(Box::new(Cast {
            child: Some(Box::new(column(1))),
            to: Some(kind(TypeId::Decimal)),
            time_zone: "UTC".to_owned(),
            ..Cast::default()
        }))),
    };
    let list = Expr {
        kind: Some(Kind::InList(Box::new(InList {
            value: Some(Box::new(column(1))),
            list: vec![text("a"), text("b")],
        }))),
    };
    let sorted = |fetch| {
        node(
            4,
            Op::Sort(Box::new(Sort {
                child: Some(Box::new(input(1))),
                keys: vec![key(0), key(1)],
                fetch,
            })),
        )
    };
    let joined = node(
        5,
        Op::Join(Box::new(Join {
            left: Some(Box::new(input(1))),
            right: Some(Box::new(input(2))),
            left_keys: vec![column(0)],
            right_keys: vec![column(0)],
            r#type: JoinType::Inner.into(),
            condition: None,
            strategy: join::Strategy::Hash.into(),
            build_left: false,
            broadcast: false,
            null_aware: false,
        })),
    );
    let both = Schema {
        fields: [schema().fields, schema().fields].concat(),
    };
    let counted = node(
        6,
        Op::Aggregate(Box::new(Aggregate {
            child: Some(Box::new(input(1))),
            grouping: vec![NamedExpr {
                name: "s".to_owned(),
                expr: Some(column(1)),
            }],
            calls: vec![AggCall {
                name: "count".to_owned(),
                mode: AggMode::Complete.into(),
                args: vec![column(0)],
                filter: None,
                r#type: Some(kind(TypeId::Long)),
                input_types: vec![kind(TypeId::Long)],
                buffer: Some(named(&[("count", kind(TypeId::Long))])),
                eval: 0,
                ..AggCall::default()
            }],
        })),
    );
    let counts = named(&[("s", kind(TypeId::String)), ("n", kind(TypeId::Long))]);
    let values = node(
        7,
        Op::Values(Values {
            schema: Some(schema()),
            rows: vec![Row {
                values: vec![
                    literal(TypeId::Long, Value::Int(1)),
                    literal(TypeId::String, Value::String("x".to_owned())),
                ],
            }],
        }),
    );
    let hash = |partitions| {
        sink::Kind::Shuffle(Partitioning {
            kind: Some(partitioning::Kind::Hash(partitioning::Hash {
                exprs: vec![column(0)],
                partitions,
            })),
        })
    };
    let limited = node(
        8,
        Op::Limit(Box::new(Limit {
            child: Some(Box::new(input(1))),
            skip: 3,
            fetch: Some(10),
        })),
    );
    let united = node(
        9,
        Op::Union(Union {
            children: vec![input(1), input(2)],
            schema: Some(schema()),
            children_partitions: vec![],
        }),
    );
    let encode = |fragment: Fragment| fragment.encode_to_vec();
    let like = |pattern: &str| call("like", vec![column(1), text(pattern)], TypeId::Boolean);
    let deep = (0..30).fold(at_least.clone(), |inner, _| {
        call("not", vec![inner], TypeId::Boolean)
    });
    let version = Fragment {
        version: 2,
        ..filtered.clone()
    };
    let rootless = Fragment {
        root: None,
        ..filtered.clone()
    };
    vec![
        seed("filtered", encode(filtered.clone())),
        seed(
            "cast",
            encode(result(project(vec![cast]), x(TypeId::Decimal))),
        ),
        seed("in_list", encode(result(filter(input(1), list), schema()))),
        seed("sorted", encode(result(sorted(0), schema()))),
        seed("top_k", encode(result(sorted(10), schema()))),
        seed("joined", encode(result(joined, both))),
        seed("counted", encode(result(counted, counts.clone()))),
        seed("values", encode(result(values, schema()))),
        seed("limited", encode(result(limited, schema()))),
        seed("united", encode(result(united, schema()))),
        seed("shuffled", encode(fragment(input(1), hash(4), schema()))),
        seed(
            "like",
            encode(result(filter(input(1), like("%a_b%")), schema())),
        ),
        seed("nested", encode(result(filter(input(1), deep), schema()))),
        seed("nothing", []),
        seed("cut", cut(&encode(filtered.clone()), 7)),
        seed("version_unknown", encode(version)),
        seed("no_root", encode(rootless)),
        seed(
            "no_sink",
            encode(Fragment {
                sink: None,
                ..filtered.clone()
            }),
        ),
        seed("another_output", encode(result(input(1), counts))),
        seed(
            "column_beyond_the_end",
            encode(result(project(vec![column(9)]), x(TypeId::Long))),
        ),
        seed(
            "function_unknown",
            encode(result(
                project(vec![call("shell", vec![], TypeId::Long)]),
                x(TypeId::Long),
            )),
        ),
        seed(
            "argument_missing",
            encode(result(
                filter(input(1), call("like", vec![], TypeId::Boolean)),
                schema(),
            )),
        ),
        seed(
            "condition_not_boolean",
            encode(result(filter(input(1), column(0)), schema())),
        ),
        seed(
            "input_twice",
            encode(result(
                node(
                    9,
                    Op::Union(Union {
                        children: vec![input(1), input(1)],
                        schema: Some(schema()),
                        children_partitions: vec![2, 1],
                    }),
                ),
                schema(),
            )),
        ),
        seed(
            "partitions_huge",
            encode(fragment(input(1), hash(u32::MAX), schema())),
        ),
        seed(
            "partitions_none",
            encode(fragment(input(1), hash(0), schema())),
        ),
        seed("limit_huge", encode(result(sorted(u64::MAX), schema()))),
        seed(
            "decimal_out_of_range",
            encode(result(
                input(1),
                named(&[(
                    "x",
                    DataType {
                        id: TypeId::Decimal.into(),
                        precision: 99,
                        scale: 200,
                        ..DataType::default()
                    },
                )]),
            )),
        ),
        seed(
            "type_unknown",
            encode(result(
                input(1),
                named(&[(
                    "x",
                    DataType {
                        id: 77,
                        ..DataType::default()
                    },
                )]),
            )),
        ),
        seed(
            "operator_missing",
            encode(result(Node { id: 1, op: None }, schema())),
        ),
        seed("window", encode(windowed(1, 4))),
        seed("window_bound_of_another_type", encode(windowed(0, 4))),
        seed("window_no_buckets", encode(windowed(1, 0))),
        seed("window_group_limit", encode(result(first(3), schema()))),
        seed(
            "window_group_limit_none",
            encode(result(first(0), schema())),
        ),
        seed(
            "pattern_odd",
            encode(result(filter(input(1), like("\\")), schema())),
        ),
    ]
    .into_iter()
    .chain(generators::seeds())
    .chain(intervals::seeds())
    .collect()
}
