//! Fragments, written short.

use coffer_protocol::plan::{
    self, AggCall, AggMode, Aggregate, Call, DataType, Expand, Expr, Field, Filter, Fragment,
    Input, Join, JoinType, Limit, Literal, NamedExpr, Node, Partitioning, Project, Scan, Schema,
    Sink, Sort, SortKey, SubqueryValue, TypeId, Union, Values, expand::Projection, expr, join,
    literal, node::Op, partitioning, sink, values::Row,
};

pub fn long() -> DataType {
    of(TypeId::Long)
}

pub fn boolean() -> DataType {
    of(TypeId::Boolean)
}

pub fn binary() -> DataType {
    of(TypeId::Binary)
}

pub fn double() -> DataType {
    of(TypeId::Double)
}

pub fn string() -> DataType {
    of(TypeId::String)
}

fn of(id: TypeId) -> DataType {
    DataType {
        id: id.into(),
        ..DataType::default()
    }
}

pub fn schema(fields: &[(&str, DataType)]) -> Schema {
    Schema {
        fields: fields
            .iter()
            .map(|(name, data_type)| Field {
                name: (*name).to_owned(),
                r#type: Some(data_type.clone()),
                nullable: true,
                ..Field::default()
            })
            .collect(),
    }
}

pub fn int(value: i64) -> Literal {
    Literal {
        r#type: Some(long()),
        value: Some(literal::Value::Int(value)),
    }
}

pub fn real(value: f64) -> Literal {
    Literal {
        r#type: Some(double()),
        value: Some(literal::Value::Double(value)),
    }
}

pub fn null(data_type: DataType) -> Literal {
    Literal {
        r#type: Some(data_type),
        value: None,
    }
}

pub fn text(value: &str) -> Literal {
    Literal {
        r#type: Some(string()),
        value: Some(literal::Value::String(value.to_owned())),
    }
}

pub fn constant(literal: Literal) -> Expr {
    Expr {
        kind: Some(expr::Kind::Literal(literal)),
    }
}

pub fn column(position: u32) -> Expr {
    Expr {
        kind: Some(expr::Kind::Column(position)),
    }
}

fn node(id: u32, op: Op) -> Node {
    Node { id, op: Some(op) }
}

pub fn values(schema: Schema, rows: Vec<Vec<Literal>>) -> Node {
    let rows = rows.into_iter().map(|values| Row { values }).collect();
    node(
        1,
        Op::Values(Values {
            schema: Some(schema),
            rows,
        }),
    )
}

pub fn input(schema: Schema) -> Node {
    merged(schema, vec![])
}

pub fn merged(schema: Schema, merge: Vec<SortKey>) -> Node {
    node(
        2,
        Op::Input(Input {
            input_id: 0,
            schema: Some(schema),
            merge,
            broadcast: false,
        }),
    )
}

/// Input `id`, of a shuffle or a broadcast.
pub fn input_of(id: u32, schema: Schema, broadcast: bool) -> Node {
    node(
        20 + id,
        Op::Input(Input {
            input_id: id,
            schema: Some(schema),
            merge: vec![],
            broadcast,
        }),
    )
}

/// A join of inputs 0 and 1 of these columns, by their first ones; the right side is built.
pub fn join(kind: JoinType, schema: &Schema, broadcast: bool) -> Node {
    node(
        10,
        Op::Join(Box::new(Join {
            left: Some(Box::new(input_of(0, schema.clone(), false))),
            right: Some(Box::new(input_of(1, schema.clone(), broadcast))),
            left_keys: vec![column(0)],
            right_keys: vec![column(0)],
            r#type: kind.into(),
            broadcast,
            ..Join::default()
        })),
    )
}

/// All pairs of the rows of inputs 0 and 1.
pub fn product(schema: &Schema) -> Node {
    node(
        10,
        Op::Join(Box::new(Join {
            left: Some(Box::new(input_of(0, schema.clone(), false))),
            right: Some(Box::new(input_of(1, schema.clone(), false))),
            r#type: JoinType::Cross.into(),
            strategy: join::Strategy::NestedLoop.into(),
            ..Join::default()
        })),
    )
}

/// All pairs of these rows and those of a broadcast, which is input 0.
pub fn with_broadcast(left: Node, schema: &Schema) -> Node {
    node(
        10,
        Op::Join(Box::new(Join {
            left: Some(Box::new(left)),
            right: Some(Box::new(input_of(0, schema.clone(), true))),
            r#type: JoinType::Cross.into(),
            strategy: join::Strategy::NestedLoop.into(),
            broadcast: true,
            ..Join::default()
        })),
    )
}

/// The columns of a join that gives both sides.
pub fn twice(schema: &Schema) -> Schema {
    Schema {
        fields: [schema.fields.clone(), schema.fields.clone()].concat(),
    }
}

pub fn scan(schema: Schema) -> Node {
    node(
        3,
        Op::Scan(Scan {
            scan_id: 0,
            schema: Some(schema),
            pushed: vec![],
        }),
    )
}

/// The rows of both, partition by partition.
pub fn union(children: Vec<Node>, schema: Schema) -> Node {
    node(
        7,
        Op::Union(Union {
            children,
            schema: Some(schema),
            children_partitions: vec![],
        }),
    )
}

/// Every row `times` over.
pub fn multiplied(id: u32, child: Node, schema: Schema, times: usize) -> Node {
    let columns = u32::try_from(schema.fields.len()).unwrap();
    let projection = Projection {
        exprs: (0..columns).map(column).collect(),
    };
    node(
        id,
        Op::Expand(Box::new(Expand {
            child: Some(Box::new(child)),
            projections: vec![projection; times],
            schema: Some(schema),
        })),
    )
}

pub fn sorted(child: Node, key: u32) -> Node {
    node(
        5,
        Op::Sort(Box::new(Sort {
            child: Some(Box::new(child)),
            keys: vec![ascending(key)],
            fetch: 0,
        })),
    )
}

pub fn ascending(key: u32) -> SortKey {
    SortKey {
        expr: Some(column(key)),
        descending: false,
        nulls_first: true,
    }
}

/// The first so many rows of each partition.
pub fn limited(child: Node, fetch: u64) -> Node {
    node(
        6,
        Op::Limit(Box::new(Limit {
            child: Some(Box::new(child)),
            skip: 0,
            fetch: Some(fetch),
        })),
    )
}

/// `sum(v)` by `k`, in one of its modes.
pub fn sum_by_key(child: Node, mode: AggMode) -> Node {
    let call = AggCall {
        name: "sum".to_owned(),
        mode: mode.into(),
        args: vec![column(1)],
        filter: None,
        r#type: Some(long()),
        input_types: vec![long()],
        buffer: Some(schema(&[("sum", long())])),
        eval: plan::EvalMode::Legacy.into(),
        ..AggCall::default()
    };
    node(
        4,
        Op::Aggregate(Box::new(Aggregate {
            child: Some(Box::new(child)),
            grouping: vec![NamedExpr {
                name: "k".to_owned(),
                expr: Some(column(0)),
            }],
            calls: vec![call],
        })),
    )
}

/// An aggregate of the column `v` by `k`, both in rows of (k, v), in one step.
pub fn by_key(child: Node, name: &str, value: DataType, buffer: &[(&str, TypeId)]) -> Node {
    let buffer: Vec<(&str, DataType)> = buffer.iter().map(|(name, id)| (*name, of(*id))).collect();
    let mut node = sum_by_key(child, AggMode::Complete);
    if let Some(Op::Aggregate(aggregate)) = &mut node.op
        && let Some(call) = aggregate.calls.first_mut()
    {
        name.clone_into(&mut call.name);
        call.r#type = Some(value.clone());
        call.input_types = vec![value];
        call.buffer = Some(schema(&buffer));
    }
    node
}

/// Columns by their positions, under these names.
pub fn projected(child: Node, columns: &[(&str, u32)]) -> Node {
    let exprs = columns.iter().map(|(name, position)| NamedExpr {
        name: (*name).to_owned(),
        expr: Some(column(*position)),
    });
    node(
        7,
        Op::Project(Box::new(Project {
            child: Some(Box::new(child)),
            exprs: exprs.collect(),
        })),
    )
}

/// An aggregate of doubles `v` by `k`, from rows to values in one step; `buffer` is its layout
/// between steps.
pub fn of_doubles_by_key(child: Node, name: &str, buffer: &[(&str, DataType)]) -> Node {
    let call = AggCall {
        name: name.to_owned(),
        mode: AggMode::Complete.into(),
        args: vec![column(1)],
        filter: None,
        r#type: Some(double()),
        input_types: vec![double()],
        buffer: Some(schema(buffer)),
        eval: plan::EvalMode::Legacy.into(),
        ..AggCall::default()
    };
    node(
        4,
        Op::Aggregate(Box::new(Aggregate {
            child: Some(Box::new(child)),
            grouping: vec![NamedExpr {
                name: "k".to_owned(),
                expr: Some(column(0)),
            }],
            calls: vec![call],
        })),
    )
}

/// One row for each of these projections.
pub fn expanded(child: Node, projections: Vec<Vec<Expr>>, schema: Schema) -> Node {
    let projections = projections.into_iter().map(|exprs| Projection { exprs });
    node(
        8,
        Op::Expand(Box::new(Expand {
            child: Some(Box::new(child)),
            projections: projections.collect(),
            schema: Some(schema),
        })),
    )
}

pub fn called(name: &str, args: Vec<Expr>, data_type: DataType) -> Expr {
    Expr {
        kind: Some(expr::Kind::Call(Call {
            name: name.to_owned(),
            args,
            r#type: Some(data_type),
            ..Call::default()
        })),
    }
}

fn fragment(root: Node, output: Schema, kind: sink::Kind) -> Fragment {
    Fragment {
        version: 1,
        root: Some(root),
        sink: Some(Sink { kind: Some(kind) }),
        output: Some(output),
        hiding: None,
    }
}

pub fn to_result(root: Node, output: Schema) -> Fragment {
    fragment(root, output, sink::Kind::Result(sink::Result {}))
}

pub fn to_broadcast(root: Node, output: Schema) -> Fragment {
    fragment(root, output, sink::Kind::Broadcast(sink::Broadcast {}))
}

pub fn to_hash(root: Node, output: Schema, partitions: u32) -> Fragment {
    exchange(
        root,
        output,
        partitioning::Kind::Hash(partitioning::Hash {
            exprs: vec![column(0)],
            partitions,
        }),
    )
}

/// Partitioned by the hash of another column than the first.
pub fn to_hash_by(root: Node, output: Schema, by: u32, partitions: u32) -> Fragment {
    exchange(
        root,
        output,
        partitioning::Kind::Hash(partitioning::Hash {
            exprs: vec![column(by)],
            partitions,
        }),
    )
}

pub fn to_round_robin(root: Node, output: Schema, partitions: u32) -> Fragment {
    exchange(
        root,
        output,
        partitioning::Kind::RoundRobin(partitioning::RoundRobin { partitions }),
    )
}

pub fn to_range(root: Node, output: Schema, partitions: u32, bounds_id: u32) -> Fragment {
    exchange(
        root,
        output,
        partitioning::Kind::Range(partitioning::Range {
            keys: vec![ascending(0)],
            partitions,
            bounds_id,
        }),
    )
}

pub fn to_sample(root: Node, output: Schema) -> Fragment {
    fragment(
        root,
        output,
        sink::Kind::Sample(sink::Sample {
            keys: vec![ascending(0)],
            size: 50,
            seed: 7,
        }),
    )
}

fn exchange(root: Node, output: Schema, kind: partitioning::Kind) -> Fragment {
    fragment(
        root,
        output,
        sink::Kind::Shuffle(Partitioning { kind: Some(kind) }),
    )
}

pub fn to_table(root: Node, output: Schema, partition_columns: Vec<u32>) -> Fragment {
    fragment(
        root,
        output,
        sink::Kind::Write(sink::Write { partition_columns }),
    )
}

/// The rows whose first column, a LONG, is the value of a subquery.
pub fn at_the_value(child: Node, subquery: u32) -> Node {
    let value = Expr {
        kind: Some(expr::Kind::Subquery(SubqueryValue {
            id: subquery,
            r#type: Some(long()),
        })),
    };
    Node {
        id: 30,
        op: Some(Op::Filter(Box::new(Filter {
            child: Some(Box::new(child)),
            condition: Some(called("equal_to", vec![column(0), value], boolean())),
        }))),
    }
}
