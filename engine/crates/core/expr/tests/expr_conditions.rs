//! What runs on which rows: an argument that may raise is not evaluated where Spark would not
//! evaluate it.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array},
    datatypes::{DataType, Field, Float64Type, Int64Type, Schema},
    record_batch::RecordBatch,
};
use coffer_expr::{CompileContext, SparkError, compile, is_fallible, normalize_key};
use coffer_protocol::plan::{self, EvalMode, Expr, TypeId, expr::Kind, literal::Value};
use datafusion_common::Result;

fn of(id: TypeId) -> Option<plan::DataType> {
    Some(plan::DataType {
        id: id.into(),
        ..plan::DataType::default()
    })
}

fn column(index: u32) -> Expr {
    Expr {
        kind: Some(Kind::Column(index)),
    }
}

fn long(value: i64) -> Expr {
    Expr {
        kind: Some(Kind::Literal(plan::Literal {
            r#type: of(TypeId::Long),
            value: Some(Value::Int(value)),
        })),
    }
}

fn call(name: &str, id: TypeId, mode: EvalMode, args: Vec<Expr>) -> Expr {
    let call = plan::Call {
        name: name.into(),
        args,
        r#type: of(id),
        mode: mode.into(),
        time_zone: String::new(),
        ..plan::Call::default()
    };
    Expr {
        kind: Some(Kind::Call(call)),
    }
}

fn test(name: &str, args: Vec<Expr>) -> Expr {
    call(name, TypeId::Boolean, EvalMode::Ansi, args)
}

/// 10 DIV b, which raises for 0.
fn quotient() -> Expr {
    call(
        "integral_divide",
        TypeId::Long,
        EvalMode::Ansi,
        vec![long(10), column(0)],
    )
}

fn nonzero() -> Expr {
    test("not", vec![test("eq", vec![column(0), long(0)])])
}

fn big() -> Expr {
    test("gt", vec![quotient(), long(4)])
}

fn evaluate(expr: &Expr) -> Result<ArrayRef> {
    let schema = Arc::new(Schema::new(vec![Field::new("b", DataType::Int64, true)]));
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), Some(1), Some(5), None]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values])?;
    compile(expr, &schema, &CompileContext::default())
        .unwrap()
        .evaluate(&batch)?
        .into_array(4)
}

fn longs(array: &ArrayRef) -> Vec<Option<i64>> {
    array.as_primitive::<Int64Type>().iter().collect()
}

#[test]
fn the_right_side_of_and_runs_where_the_left_is_not_false() {
    let result = evaluate(&test("and", vec![nonzero(), big()])).unwrap();
    assert_eq!(
        result.as_boolean(),
        &BooleanArray::from(vec![Some(false), Some(true), Some(false), None])
    );
}

#[test]
fn the_right_side_of_or_runs_where_the_left_is_not_true() {
    let zero = test("eq", vec![column(0), long(0)]);
    let result = evaluate(&test("or", vec![zero, big()])).unwrap();
    assert_eq!(
        result.as_boolean(),
        &BooleanArray::from(vec![Some(true), Some(true), Some(false), None])
    );
}

#[test]
fn the_left_side_always_runs() {
    for name in ["and", "or"] {
        let error = evaluate(&test(name, vec![big(), nonzero()])).unwrap_err();
        assert_eq!(
            SparkError::find(&error).unwrap().class,
            "DIVIDE_BY_ZERO",
            "{name}"
        );
    }
}

#[test]
fn only_the_chosen_branch_runs() {
    let expected = vec![Some(-1), Some(10), Some(2), Some(-1)];
    let result = evaluate(&call(
        "if",
        TypeId::Long,
        EvalMode::Ansi,
        vec![nonzero(), quotient(), long(-1)],
    ))
    .unwrap();
    assert_eq!(longs(&result), expected);
    let case = plan::CaseWhen {
        branches: vec![plan::case_when::Branch {
            when: Some(nonzero()),
            then: Some(quotient()),
        }],
        otherwise: Some(Box::new(long(-1))),
        r#type: of(TypeId::Long),
    };
    let case = Expr {
        kind: Some(Kind::CaseWhen(Box::new(case))),
    };
    assert!(is_fallible(&case));
    assert_eq!(longs(&evaluate(&case).unwrap()), expected);
}

#[test]
fn coalesce_stops_at_the_first_value() {
    let result = evaluate(&call(
        "coalesce",
        TypeId::Long,
        EvalMode::Ansi,
        vec![column(0), quotient()],
    ))
    .unwrap();
    assert_eq!(longs(&result), vec![Some(0), Some(1), Some(5), None]);
    assert!(
        evaluate(&call(
            "coalesce",
            TypeId::Long,
            EvalMode::Ansi,
            vec![quotient(), column(0)]
        ))
        .is_err()
    );
}

#[test]
fn a_match_ends_an_in_list() {
    let list = |items| Expr {
        kind: Some(Kind::InList(Box::new(plan::InList {
            value: Some(Box::new(column(0))),
            list: items,
        }))),
    };
    let result = evaluate(&list(vec![long(0), quotient()])).unwrap();
    assert_eq!(
        result.as_boolean(),
        &BooleanArray::from(vec![Some(true), Some(false), Some(false), None])
    );
    assert!(evaluate(&list(vec![quotient(), long(0)])).is_err());
}

#[test]
fn without_rows_nothing_raises() {
    let schema = Arc::new(Schema::empty());
    let expr = call(
        "integral_divide",
        TypeId::Long,
        EvalMode::Ansi,
        vec![long(1), long(0)],
    );
    let compiled = compile(&expr, &schema, &CompileContext::default()).unwrap();
    let options = arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(0));
    let batch = RecordBatch::try_new_with_options(schema, vec![], &options).unwrap();
    assert_eq!(
        compiled
            .evaluate(&batch)
            .unwrap()
            .into_array(0)
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn what_may_raise_is_known() {
    assert!(!is_fallible(&nonzero()));
    assert!(is_fallible(&big()));
    assert!(!is_fallible(&call(
        "add",
        TypeId::Long,
        EvalMode::Legacy,
        vec![column(0), long(1)]
    )));
    assert!(is_fallible(&call(
        "add",
        TypeId::Long,
        EvalMode::Ansi,
        vec![column(0), long(1)]
    )));
    assert!(is_fallible(&call(
        "no_such_function",
        TypeId::Long,
        EvalMode::Legacy,
        vec![]
    )));
}

#[test]
fn equal_float_keys_become_equal_bits() {
    let schema = Arc::new(Schema::new(vec![Field::new("d", DataType::Float64, true)]));
    let other_nan = f64::from_bits(0xfff8_0000_0000_0001);
    let values: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 0.0, f64::NAN, other_nan]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values]).unwrap();
    let key = compile(&column(0), &schema, &CompileContext::default()).unwrap();
    let result = normalize_key(key, &schema)
        .unwrap()
        .evaluate(&batch)
        .unwrap()
        .into_array(4)
        .unwrap();
    let bits: Vec<u64> = result
        .as_primitive::<Float64Type>()
        .values()
        .iter()
        .map(|v| v.to_bits())
        .collect();
    assert_eq!(bits[0], bits[1]);
    assert_eq!(bits[2], bits[3]);
}

#[test]
fn a_missing_function_is_refused_by_name() {
    let schema = Arc::new(Schema::empty());
    let expr = call("soundex", TypeId::String, EvalMode::Legacy, vec![]);
    let refused = compile(&expr, &schema, &CompileContext::default()).unwrap_err();
    assert_eq!(refused.what, "soundex");
}
