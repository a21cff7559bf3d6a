//! Seeds of fragments with intervals and times of day, which Arrow's types do not tell all of.

use coffer_protocol::plan::{
    Cast, DataType, EvalMode, Expr, Field, Fragment, Literal, NamedExpr, Project, Schema, TypeId,
    expr::Kind, literal::Value, node::Op,
};
use prost::Message;

use super::{
    fragment::{call, column, input, kind, long, node, result},
    seed,
};
use crate::Seed;

fn of(id: TypeId, precision: u32, scale: u32) -> DataType {
    DataType {
        id: id.into(),
        precision,
        scale,
        ..DataType::default()
    }
}

fn only(expr: Expr, of: DataType) -> Fragment {
    let project = Project {
        child: Some(Box::new(input(1))),
        exprs: vec![NamedExpr {
            name: "x".to_owned(),
            expr: Some(expr),
        }],
    };
    let field = Field {
        name: "x".to_owned(),
        r#type: Some(of),
        nullable: true,
        ..Field::default()
    };
    let output = Schema {
        fields: vec![field],
    };
    result(node(2, Op::Project(Box::new(project))), output)
}

fn cast(child: Expr, from: Option<DataType>, to: DataType) -> Expr {
    let cast = Cast {
        child: Some(Box::new(child)),
        to: Some(to),
        mode: EvalMode::Ansi.into(),
        from,
        ..Cast::default()
    };
    Expr {
        kind: Some(Kind::Cast(Box::new(cast))),
    }
}

fn literal(of: DataType, value: i64) -> Expr {
    Expr {
        kind: Some(Kind::Literal(Literal {
            r#type: Some(of),
            value: Some(Value::Int(value)),
        })),
    }
}

pub(super) fn seeds() -> Vec<Seed> {
    let (months, micros) = (TypeId::YearMonthInterval, TypeId::DayTimeInterval);
    let string = || kind(TypeId::String);
    let seconds = || of(micros, 0, 3);
    let time = |digits| of(TypeId::Time, digits, 0);
    let add = |a, b| call("interval_add", vec![a, b], micros);
    [
        (
            "interval_of_text",
            only(cast(column(1), None, seconds()), seconds()),
        ),
        (
            "interval_as_text",
            only(cast(column(0), Some(seconds()), string()), string()),
        ),
        (
            "interval_from_another_type",
            only(cast(column(1), Some(seconds()), string()), string()),
        ),
        (
            "interval_fields_reversed",
            only(cast(column(1), None, of(micros, 3, 0)), seconds()),
        ),
        (
            "interval_fields_unknown",
            only(literal(of(months, 0, 7), 1), of(months, 0, 7)),
        ),
        ("intervals_added", only(add(column(0), long(7)), seconds())),
        (
            "intervals_of_two_kinds",
            only(add(column(0), literal(of(months, 0, 1), 7)), seconds()),
        ),
        (
            "months_too_many",
            only(literal(of(months, 0, 1), i64::MAX), of(months, 0, 1)),
        ),
        (
            "time_of_text",
            only(cast(column(1), None, time(3)), time(3)),
        ),
        ("time_digits", only(literal(time(9), 1), time(9))),
        (
            "time_beyond_the_day",
            only(literal(time(6), 86_400_000_000), time(6)),
        ),
        (
            "time_truncated",
            only(
                cast(literal(time(6), 1_234_567), Some(time(6)), time(0)),
                time(0),
            ),
        ),
    ]
    .into_iter()
    .map(|(name, fragment)| seed(name, fragment.encode_to_vec()))
    .collect()
}
