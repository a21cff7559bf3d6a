//! The readable form of fragments, held against golden files. `COFFER_GOLDEN=write` writes them
//! anew.

use std::{fs, path::Path};

use coffer_plan::readable;
use coffer_protocol::plan::{
    AggMode, CaseWhen, Cast, Expr, Filter, Fragment, InList, Join, JoinType, Limit, Literal,
    Partitioning, Project, Scan, Sink, Sort, SubqueryValue, TypeId, Union, Values,
    case_when::Branch, expr::Kind, join::Strategy, literal::Value, node::Op, partitioning, sink,
};

use crate::support::{
    aggregate, broadcast, call, column, data_type, decimal, fragment, function, input, key,
    literal, long, named, node, schema,
};

fn golden(name: &str, fragment: &Fragment) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let found = readable(fragment);
    if std::env::var_os("COFFER_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{}", path.display());
}

fn expr(kind: Kind) -> Expr {
    Expr { kind: Some(kind) }
}

fn decimal_literal(unscaled: &[u8], precision: u32, scale: u32) -> Expr {
    expr(Kind::Literal(Literal {
        r#type: Some(decimal(precision, scale)),
        value: Some(Value::Decimal(unscaled.to_vec())),
    }))
}

#[test]
fn a_scan_with_a_partial_aggregate() {
    let string = data_type(TypeId::String);
    let columns = schema(&[
        ("l_returnflag", string),
        ("l_quantity", decimal(15, 2)),
        ("l_shipdate", data_type(TypeId::Date)),
    ]);
    let until = call(
        "less_than_or_equal",
        vec![column(2), literal(TypeId::Date, Value::Int(10471))],
        TypeId::Boolean,
    );
    let scan = node(
        1,
        Op::Scan(Scan {
            scan_id: 7,
            schema: Some(columns),
            pushed: vec![until],
        }),
    );
    let positive = call(
        "greater_than",
        vec![column(1), decimal_literal(&[0xff, 0x85], 15, 2)],
        TypeId::Boolean,
    );
    let filter = node(
        2,
        Op::Filter(Box::new(Filter {
            child: Some(Box::new(scan)),
            condition: Some(positive),
        })),
    );
    let sum = function(
        "sum",
        &[decimal(15, 2)],
        &[decimal(25, 2), data_type(TypeId::Boolean)],
        decimal(25, 2),
    );
    let mut count = function(
        "count",
        &[],
        &[data_type(TypeId::Long)],
        data_type(TypeId::Long),
    )
    .rows(AggMode::Partial, 0);
    count.filter = Some(call("is_not_null", vec![column(0)], TypeId::Boolean));
    let root = aggregate(
        3,
        filter,
        vec![named("l_returnflag", column(0))],
        vec![sum.rows(AggMode::Partial, 1), count],
    );
    let mut fragment = fragment(root, schema(&[]));
    let hash = partitioning::Hash {
        exprs: vec![column(0)],
        partitions: 200,
    };
    let kind = Some(partitioning::Kind::Hash(hash));
    fragment.sink = Some(Sink {
        kind: Some(sink::Kind::Shuffle(Partitioning { kind })),
    });
    golden("partial.txt", &fragment);
}

#[test]
fn everything_else() {
    let s = schema(&[
        ("a", data_type(TypeId::Long)),
        ("b", data_type(TypeId::String)),
    ]);
    let last = function(
        "last",
        &[data_type(TypeId::Long)],
        &[data_type(TypeId::Long), data_type(TypeId::Boolean)],
        data_type(TypeId::Long),
    );
    let by_b = || vec![key(column(1), true, false), key(column(0), false, true)];
    let mut left = input(1, &s);
    if let Some(Op::Input(input)) = &mut left.op {
        input.merge = by_b();
    }
    let values = node(
        2,
        Op::Values(Values {
            schema: Some(s.clone()),
            rows: vec![],
        }),
    );
    let union = node(
        3,
        Op::Union(Union {
            children: vec![left, values],
            schema: Some(s.clone()),
            children_partitions: vec![4, 1],
        }),
    );
    let case = CaseWhen {
        branches: vec![Branch {
            when: Some(call("is_null", vec![column(1)], TypeId::Boolean)),
            then: Some(long(-1)),
        }],
        otherwise: Some(Box::new(expr(Kind::Cast(Box::new(Cast {
            child: Some(Box::new(column(1))),
            to: Some(data_type(TypeId::Long)),
            ..Cast::default()
        }))))),
        r#type: None,
    };
    let list = InList {
        value: Some(Box::new(column(1))),
        list: vec![
            literal(TypeId::String, Value::String("x\"y".into())),
            expr(Kind::Literal(Literal::default())),
        ],
    };
    let exprs = vec![
        named("c", expr(Kind::CaseWhen(Box::new(case)))),
        named("in", expr(Kind::InList(Box::new(list)))),
        named(
            "s",
            expr(Kind::Subquery(SubqueryValue {
                id: 3,
                r#type: None,
            })),
        ),
        named("d", literal(TypeId::Double, Value::Double(1e300))),
        named("x", literal(TypeId::Binary, Value::Binary(vec![0, 255]))),
    ];
    let project = node(
        4,
        Op::Project(Box::new(Project {
            child: Some(Box::new(union)),
            exprs,
        })),
    );
    let join = Join {
        left: Some(Box::new(project)),
        right: Some(Box::new(input(5, &s))),
        left_keys: vec![column(0)],
        right_keys: vec![column(0)],
        r#type: JoinType::LeftSemi.into(),
        ..Join::default()
    };
    let join = node(6, Op::Join(Box::new(join)));
    let lasts = aggregate(
        7,
        join,
        vec![],
        vec![
            last.clone().ignore_nulls().buffers(AggMode::Final, 0),
            last.rows(AggMode::Complete, 0),
        ],
    );
    let sort = node(
        8,
        Op::Sort(Box::new(Sort {
            child: Some(Box::new(lasts)),
            keys: by_b(),
            fetch: 10,
        })),
    );
    let root = node(
        9,
        Op::Limit(Box::new(Limit {
            child: Some(Box::new(sort)),
            skip: 2,
            fetch: Some(10),
        })),
    );
    golden("everything.txt", &fragment(root, s));
}

#[test]
fn joins() {
    let columns = schema(&[
        ("k", data_type(TypeId::Long)),
        ("v", data_type(TypeId::String)),
    ]);
    let condition = call("less_than", vec![column(1), column(3)], TypeId::Boolean);
    let not_in = Join {
        left: Some(Box::new(input(1, &columns))),
        right: Some(Box::new(broadcast(2, &columns))),
        left_keys: vec![column(0)],
        right_keys: vec![column(0)],
        r#type: JoinType::LeftAnti.into(),
        broadcast: true,
        null_aware: true,
        ..Join::default()
    };
    let merge = Join {
        left: Some(Box::new(node(3, Op::Join(Box::new(not_in))))),
        right: Some(Box::new(input(4, &columns))),
        left_keys: vec![column(0)],
        right_keys: vec![column(0)],
        r#type: JoinType::FullOuter.into(),
        condition: Some(condition.clone()),
        strategy: Strategy::SortMerge.into(),
        ..Join::default()
    };
    let cross = Join {
        left: Some(Box::new(broadcast(6, &columns))),
        right: Some(Box::new(node(5, Op::Join(Box::new(merge))))),
        r#type: JoinType::Cross.into(),
        strategy: Strategy::NestedLoop.into(),
        build_left: true,
        broadcast: true,
        ..Join::default()
    };
    let mut fragment = fragment(node(7, Op::Join(Box::new(cross))), columns);
    let kind = Some(sink::Kind::Broadcast(sink::Broadcast {}));
    fragment.sink = Some(Sink { kind });
    golden("joins.txt", &fragment);
}
