//! Seeds of fragments with nested types, generators, numbers and samples.

use coffer_protocol::plan::{
    DataType, Drawn, Expr, Field, Fragment, Generate, Literal, Node, Numbers, Placed, Schema,
    TypeId,
    expr::Kind,
    generate::{Copies, Explode, Generator, Stack},
    literal::{Nested, Value},
    node::Op,
    placed,
};
use prost::Message;

use super::{
    fragment::{column, input, kind, long, node, result, schema},
    seed,
};
use crate::Seed;

fn of(id: TypeId, children: Vec<DataType>) -> DataType {
    let field = |of| Field {
        name: "x".to_owned(),
        r#type: Some(of),
        nullable: true,
        ..Field::default()
    };
    DataType {
        id: id.into(),
        children: children.into_iter().map(field).collect(),
        ..DataType::default()
    }
}

fn longs() -> DataType {
    of(TypeId::Array, vec![kind(TypeId::Long)])
}

fn only(of: DataType) -> Schema {
    Schema {
        fields: vec![Field {
            name: "x".to_owned(),
            r#type: Some(of),
            nullable: true,
            ..Field::default()
        }],
    }
}

fn array(values: &[i64]) -> Expr {
    let values = values.iter().map(|value| Literal {
        r#type: Some(kind(TypeId::Long)),
        value: Some(Value::Int(*value)),
    });
    let nested = Nested {
        values: values.collect(),
    };
    Expr {
        kind: Some(Kind::Literal(Literal {
            r#type: Some(longs()),
            value: Some(Value::Nested(nested)),
        })),
    }
}

fn generate(generator: Generator) -> Fragment {
    let generate = Generate {
        child: Some(Box::new(input(1))),
        kept: vec![1, 0],
        generator: Some(generator),
        schema: Some(only(kind(TypeId::Long))),
        outer: true,
    };
    let mut output = schema();
    output.fields.reverse();
    output.fields.extend(only(kind(TypeId::Long)).fields);
    result(node(2, Op::Generate(Box::new(generate))), output)
}

fn explode(input: Expr) -> Fragment {
    generate(Generator::Explode(Explode {
        input: Some(input),
        ..Explode::default()
    }))
}

fn numbers(step: i64) -> Fragment {
    let numbers = Numbers {
        schema: Some(only(kind(TypeId::Long))),
        start: i64::MIN,
        end: i64::MAX,
        step,
        partitions: 3,
    };
    result(node(2, Op::Numbers(numbers)), only(kind(TypeId::Long)))
}

fn drawn(upper: f64) -> Fragment {
    let drawn = Drawn {
        child: Some(Box::new(input(1))),
        lower: 0.25,
        upper,
        replacement: false,
        seed: -1,
    };
    result(node(2, Op::Drawn(Box::new(drawn))), schema())
}

/// A column of each kind; the input is no array.
fn placed(at: placed::Kind) -> Fragment {
    let column = placed::Column {
        name: "made".to_owned(),
        kind: at.into(),
        seed: 42,
        length: 3,
        input: (at == placed::Kind::Shuffled).then(|| column(0)),
    };
    let placed = Placed {
        child: Some(Box::new(input(1))),
        columns: vec![column],
    };
    let mut output = schema();
    output.fields.extend(only(kind(TypeId::Double)).fields);
    result(node(2, Op::Placed(Box::new(placed))), output)
}

fn nested(of: DataType) -> Fragment {
    let read: Node = node(
        1,
        Op::Input(coffer_protocol::plan::Input {
            input_id: 1,
            schema: Some(only(of.clone())),
            ..Default::default()
        }),
    );
    result(read, only(of))
}

pub(super) fn seeds() -> Vec<Seed> {
    let map = of(TypeId::Map, vec![kind(TypeId::String), longs()]);
    let deep = (0..40).fold(kind(TypeId::Int), |inner, _| of(TypeId::Array, vec![inner]));
    let stack = |rows| {
        generate(Generator::Stack(Stack {
            rows,
            exprs: vec![column(0), long(4)],
        }))
    };
    let copies = Copies {
        count: Some(column(0)),
        exprs: vec![long(1)],
    };
    [
        ("explode", explode(array(&[3, -4]))),
        ("explode_no_array", explode(column(0))),
        ("stack", stack(2)),
        ("stack_no_rows", stack(0)),
        ("copies", generate(Generator::Copies(copies))),
        ("numbers", numbers(-7)),
        ("numbers_no_step", numbers(0)),
        ("drawn", drawn(0.5)),
        ("drawn_no_share", drawn(f64::NAN)),
        ("placed", placed(placed::Kind::Normal)),
        ("placed_no_array", placed(placed::Kind::Shuffled)),
        ("placed_no_kind", placed(placed::Kind::Unspecified)),
        (
            "struct_of_maps",
            nested(of(TypeId::Struct, vec![map.clone(), map])),
        ),
        ("map_of_nothing", nested(of(TypeId::Map, vec![]))),
        ("type_too_deep", nested(deep)),
    ]
    .into_iter()
    .map(|(name, fragment)| seed(name, fragment.encode_to_vec()))
    .collect()
}
