//! Plans of a few stages, and which scans are narrowed.

use coffer_protocol::plan::{
    Call, Field, Filter, Input, Partitioning, Project, Scan, Schema, Sink,
};

use super::*;

const WIDTH: usize = 3;

fn node(op: Op) -> Node {
    Node {
        id: 0,
        op: Some(op),
    }
}

fn of(column: u32) -> Expr {
    Expr {
        kind: Some(Kind::Column(column)),
    }
}

fn schema() -> Option<Schema> {
    Some(Schema {
        fields: vec![Field::default(); WIDTH],
    })
}

fn scan(filtered: bool) -> Node {
    let call = Call {
        name: "lt".to_owned(),
        args: vec![of(1), of(2)],
        ..Call::default()
    };
    let pushed = Expr {
        kind: Some(Kind::Call(call)),
    };
    node(Op::Scan(Scan {
        scan_id: 7,
        schema: schema(),
        pushed: vec![pushed; usize::from(filtered)],
    }))
}

fn input(input_id: u32) -> Node {
    node(Op::Input(Input {
        input_id,
        schema: schema(),
        ..Input::default()
    }))
}

fn join(kind: JoinType, left: Node, right: Node, keys: (u32, u32)) -> Node {
    node(Op::Join(Box::new(Join {
        left: Some(Box::new(left)),
        right: Some(Box::new(right)),
        left_keys: vec![of(keys.0)],
        right_keys: vec![of(keys.1)],
        r#type: kind.into(),
        ..Join::default()
    })))
}

fn shuffled(root: Node) -> Fragment {
    let hash = partitioning::Hash {
        exprs: vec![of(0)],
        partitions: 4,
    };
    Fragment {
        root: Some(root),
        sink: Some(Sink {
            kind: Some(sink::Kind::Shuffle(Partitioning {
                kind: Some(partitioning::Kind::Hash(hash)),
            })),
        }),
        ..Fragment::default()
    }
}

/// A stage that reads tables of so many rows.
fn reads(root: Node, rows: u64) -> Shape {
    Shape {
        rows: HashMap::from([(7, rows)]),
        ..Shape::new(shuffled(root))
    }
}

/// A stage whose input i has the rows of stage i.
fn joins(root: Node, inputs: usize) -> Shape {
    Shape {
        inputs: (0..inputs)
            .map(|at| (u32::try_from(at).unwrap(), at))
            .collect(),
        ..Shape::new(shuffled(root))
    }
}

fn by(scan: u32, column: usize, by: (usize, usize)) -> Vec<Narrowed> {
    vec![Narrowed { scan, column, by }]
}

/// Which stage is narrowed where a small stage and a large one are joined, the small one the
/// left side.
fn of_pair(kind: JoinType) -> (bool, bool) {
    let chosen = |small_is_left: bool| {
        let (left, right) = match small_is_left {
            true => (input(0), input(1)),
            false => (input(1), input(0)),
        };
        let shapes = [
            reads(scan(true), 100),
            reads(scan(false), 10_000),
            joins(join(kind, left, right, (0, 0)), 2),
        ];
        let chosen = narrowed(&shapes);
        assert!(chosen[0].is_empty() && chosen[2].is_empty());
        assert!(chosen[1].is_empty() || chosen[1] == by(7, 0, (0, 0)));
        !chosen[1].is_empty()
    };
    (chosen(true), chosen(false))
}

#[test]
fn a_side_is_narrowed_where_what_has_no_match_does_not_come_out() {
    use JoinType::{
        Existence, FullOuter, Inner, LeftAnti, LeftOuter, LeftSemi, LeftSingle, RightOuter,
    };
    // The right side, then the left one.
    assert_eq!(of_pair(Inner), (true, true));
    assert_eq!(of_pair(LeftSemi), (true, true));
    assert_eq!(of_pair(LeftOuter), (true, false));
    assert_eq!(of_pair(LeftAnti), (true, false));
    assert_eq!(of_pair(Existence), (true, false));
    assert_eq!(of_pair(RightOuter), (false, true));
    assert_eq!(of_pair(FullOuter), (false, false));
    assert_eq!(of_pair(LeftSingle), (false, false));
}

#[test]
fn not_in_and_joins_without_keys_narrow_nothing() {
    let with = |change: fn(&mut Join)| {
        let mut root = join(JoinType::LeftAnti, input(0), input(1), (0, 0));
        if let Some(Op::Join(join)) = &mut root.op {
            change(join);
        }
        let shapes = [
            reads(scan(true), 100),
            reads(scan(false), 10_000),
            joins(root, 2),
        ];
        narrowed(&shapes)[1].len()
    };
    assert_eq!(with(|_| {}), 1);
    assert_eq!(with(|join| join.null_aware = true), 0);
    assert_eq!(with(|join| join.set_strategy(Strategy::NestedLoop)), 0);
}

fn may_fail() -> Expr {
    let call = Call {
        name: "raise_error".to_owned(),
        args: vec![of(1)],
        ..Call::default()
    };
    Expr {
        kind: Some(Kind::Call(call)),
    }
}

#[test]
fn what_is_computed_of_a_row_must_not_fail() {
    assert!(is_fallible(&may_fail()));
    let projected = |second: Expr| {
        let exprs = [of(2), second].map(|expr| NamedExpr {
            expr: Some(expr),
            ..NamedExpr::default()
        });
        node(Op::Project(Box::new(Project {
            child: Some(Box::new(scan(false))),
            exprs: exprs.to_vec(),
        })))
    };
    let filtered = |condition: Expr| {
        node(Op::Filter(Box::new(Filter {
            child: Some(Box::new(scan(false))),
            condition: Some(condition),
        })))
    };
    let chosen = |target: Fragment| {
        let shapes = [
            reads(scan(true), 100),
            Shape {
                fragment: target,
                ..reads(scan(false), 10_000)
            },
            joins(join(JoinType::Inner, input(0), input(1), (1, 0)), 2),
        ];
        narrowed(&shapes)[1].clone()
    };
    assert_eq!(chosen(shuffled(projected(of(1)))), by(7, 2, (0, 1)));
    assert!(chosen(shuffled(projected(may_fail()))).is_empty());
    assert_eq!(chosen(shuffled(filtered(of(1)))), by(7, 0, (0, 1)));
    assert!(chosen(shuffled(filtered(may_fail()))).is_empty());
    let mut scattered = shuffled(scan(false));
    let fails = partitioning::Hash {
        exprs: vec![may_fail()],
        partitions: 4,
    };
    for kind in [
        partitioning::Kind::Hash(fails),
        partitioning::Kind::RoundRobin(partitioning::RoundRobin { partitions: 4 }),
    ] {
        scattered.sink = Some(Sink {
            kind: Some(sink::Kind::Shuffle(Partitioning { kind: Some(kind) })),
        });
        assert!(chosen(scattered.clone()).is_empty());
    }
}

#[test]
fn rows_that_somebody_else_reads_stay() {
    let shapes = |readers: usize| {
        let reader = || joins(join(JoinType::Inner, input(0), input(1), (0, 0)), 2);
        let mut shapes = vec![reads(scan(true), 100), reads(scan(false), 10_000)];
        shapes.extend((0..readers).map(|_| reader()));
        shapes
    };
    assert_eq!(narrowed(&shapes(1))[1], by(7, 0, (0, 0)));
    assert!(narrowed(&shapes(2)).iter().all(Vec::is_empty));
}

#[test]
fn keys_of_all_rows_narrow_nothing() {
    let shapes = [
        reads(scan(false), 100),
        reads(scan(false), 10_000),
        joins(join(JoinType::Inner, input(0), input(1), (0, 0)), 2),
    ];
    assert!(narrowed(&shapes).iter().all(Vec::is_empty));
}

#[test]
fn what_is_narrowed_narrows_further_and_nobody_waits_for_itself() {
    // As query 21 of TPC-H: rows of the small table, joined with those of a large one that have
    // one match in it and none in it.
    let once = join(JoinType::LeftSemi, input(1), input(2), (1, 1));
    let never = join(JoinType::LeftAnti, once, input(3), (1, 1));
    let shapes = [
        reads(scan(true), 100),
        reads(scan(true), 10_000),
        reads(scan(false), 10_000),
        reads(scan(true), 10_000),
        joins(join(JoinType::Inner, input(0), never, (0, 2)), 4),
    ];
    let chosen = narrowed(&shapes);
    assert_eq!(chosen[1], by(7, 2, (0, 0)));
    assert_eq!(chosen[2], by(7, 1, (1, 1)));
    assert_eq!(chosen[3], by(7, 1, (1, 1)));
    assert!(chosen[0].is_empty() && chosen[4].is_empty());
}

#[test]
fn a_stage_between_passes_keys_on() {
    let shapes = [
        reads(scan(true), 100),
        reads(scan(false), 10_000),
        Shape {
            inputs: HashMap::from([(0, 1)]),
            ..Shape::new(shuffled(input(0)))
        },
        Shape {
            inputs: HashMap::from([(0, 0), (1, 2)]),
            ..Shape::new(shuffled(join(JoinType::Inner, input(0), input(1), (2, 1))))
        },
    ];
    assert_eq!(narrowed(&shapes)[1], by(7, 1, (0, 2)));
}
