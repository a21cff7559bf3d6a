//! Arrays, structs, maps and lambdas, by the text that `show()` has of them.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, Float64Array, Int32Array, StringArray},
    datatypes::{DataType, Field, Schema},
    record_batch::RecordBatch,
};
use coffer_expr::{
    CompileContext, SparkError, compile, is_fallible,
    types::{list_of, map_of, of_arrow, struct_of},
};
use coffer_protocol::plan::{self, EvalMode, Expr, expr::Kind, literal::Value};
use datafusion_common::Result;

fn typed(of: &DataType) -> Option<plan::DataType> {
    of_arrow(of)
}

fn column(position: u32) -> Expr {
    Expr {
        kind: Some(Kind::Column(position)),
    }
}

fn variable(position: u32) -> Expr {
    Expr {
        kind: Some(Kind::Variable(position)),
    }
}

fn literal(of: DataType, value: Option<Value>) -> Expr {
    let r#type = typed(&of);
    Expr {
        kind: Some(Kind::Literal(plan::Literal { r#type, value })),
    }
}

fn int(value: i64) -> Expr {
    literal(DataType::Int32, Some(Value::Int(value)))
}

fn text(value: &str) -> Expr {
    literal(DataType::Utf8, Some(Value::String(value.to_owned())))
}

fn double(value: f64) -> Expr {
    literal(DataType::Float64, Some(Value::Double(value)))
}

fn flag(value: bool) -> Expr {
    literal(DataType::Boolean, Some(Value::Bool(value)))
}

fn null(of: DataType) -> Expr {
    literal(of, None)
}

fn in_mode(mode: EvalMode, name: &str, args: Vec<Expr>, of: &DataType) -> Expr {
    Expr {
        kind: Some(Kind::Call(plan::Call {
            name: name.to_owned(),
            args,
            r#type: typed(of),
            mode: mode.into(),
            time_zone: "UTC".to_owned(),
            ..plan::Call::default()
        })),
    }
}

fn call(name: &str, args: Vec<Expr>, of: &DataType) -> Expr {
    in_mode(EvalMode::Ansi, name, args, of)
}

fn lambda(parameters: &[DataType], body: Expr) -> Expr {
    Expr {
        kind: Some(Kind::Lambda(Box::new(plan::Lambda {
            parameters: parameters.iter().filter_map(typed).collect(),
            body: Some(Box::new(body)),
        }))),
    }
}

/// The columns `k` (1, NULL, 0), `s` ("a", "ï", NULL), `f` (NaN, −0.0, 1.5).
fn batch() -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("k", DataType::Int32, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("f", DataType::Float64, true),
    ]);
    let columns: Vec<Arc<dyn Array>> = vec![
        Arc::new(Int32Array::from(vec![Some(1), None, Some(0)])),
        Arc::new(StringArray::from(vec![Some("a"), Some("ï"), None])),
        Arc::new(Float64Array::from(vec![f64::NAN, -0.0, 1.5])),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn rows(expr: Expr) -> Result<Vec<String>> {
    let pretty = call("to_pretty_string", vec![expr], &DataType::Utf8);
    let batch = batch();
    let compiled = compile(&pretty, &batch.schema(), &CompileContext::default()).unwrap();
    let values = compiled.evaluate(&batch)?.into_array(3)?;
    let values = values.as_string::<i32>();
    Ok(values.iter().map(|v| v.unwrap().to_owned()).collect())
}

fn shown(expr: Expr) -> Vec<String> {
    rows(expr).unwrap()
}

fn error(expr: Expr) -> &'static str {
    SparkError::find(&rows(expr).unwrap_err()).unwrap().class
}

const INT: DataType = DataType::Int32;
const TEXT: DataType = DataType::Utf8;
const DOUBLE: DataType = DataType::Float64;
const BOOL: DataType = DataType::Boolean;

/// `array(k, 1, NULL, k)`, NULL in the second row.
fn ints() -> Expr {
    let list = call(
        "create_array",
        vec![column(0), int(1), null(INT), column(0)],
        &list_of(INT),
    );
    let missing = call("is_null", vec![column(0)], &BOOL);
    call("if", vec![missing, null(list_of(INT)), list], &list_of(INT))
}

/// `array(f, 0.0, -0.0)`.
fn floats() -> Expr {
    call(
        "create_array",
        vec![column(2), double(0.0), double(-0.0)],
        &list_of(DOUBLE),
    )
}

/// `map('x', k, 'y', NULL)`.
fn map() -> Expr {
    call(
        "create_map",
        vec![flag(false), text("x"), column(0), text("y"), null(INT)],
        &map_of(TEXT, INT),
    )
}

#[test]
fn values_are_made_and_shown() {
    assert_eq!(
        shown(ints()),
        ["[1, 1, NULL, 1]", "NULL", "[0, 1, NULL, 0]"]
    );
    let of = struct_of([("a", INT), ("b", TEXT)]);
    let row = call("create_named_struct", vec![column(0), column(1)], &of);
    assert_eq!(shown(row), ["{1, a}", "{NULL, ï}", "{0, NULL}"]);
    assert_eq!(
        shown(map()),
        [
            "{x -> 1, y -> NULL}",
            "{x -> NULL, y -> NULL}",
            "{x -> 0, y -> NULL}"
        ]
    );
}

#[test]
fn keys_are_unique_and_never_null() {
    let of = map_of(INT, INT);
    let twice = |last| {
        let args = vec![flag(last), int(1), int(2), int(1), int(3)];
        call("create_map", args, &of)
    };
    assert_eq!(error(twice(false)), "DUPLICATED_MAP_KEY");
    assert_eq!(shown(twice(true)), ["{1 -> 3}"; 3]);
    let null_key = call("create_map", vec![flag(true), column(0), int(2)], &of);
    assert_eq!(error(null_key), "NULL_MAP_KEY");
    let zeros = vec![flag(true), double(-0.0), int(1), double(0.0), int(2)];
    let zeros = call("create_map", zeros, &map_of(DOUBLE, INT));
    assert_eq!(shown(zeros), ["{0.0 -> 2}"; 3]);
}

#[test]
fn items() {
    let item = |mode, index| in_mode(mode, "get_array_item", vec![ints(), int(index)], &INT);
    assert_eq!(shown(item(EvalMode::Ansi, 0)), ["1", "NULL", "0"]);
    assert_eq!(shown(item(EvalMode::Legacy, 9)), ["NULL"; 3]);
    assert_eq!(error(item(EvalMode::Ansi, 4)), "INVALID_ARRAY_INDEX");
    let at = |mode, index| in_mode(mode, "element_at", vec![ints(), int(index)], &INT);
    assert_eq!(shown(at(EvalMode::Ansi, -4)), ["1", "NULL", "0"]);
    assert_eq!(shown(at(EvalMode::Legacy, 5)), ["NULL"; 3]);
    assert_eq!(
        error(at(EvalMode::Ansi, -5)),
        "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"
    );
    assert_eq!(error(at(EvalMode::Legacy, 0)), "INVALID_INDEX_OF_ZERO");
    let of_map = call("get_map_value", vec![map(), text("x")], &INT);
    assert_eq!(shown(of_map), ["1", "NULL", "0"]);
}

#[test]
fn arrays_are_searched_as_spark_compares() {
    let contains = |value| call("array_contains", vec![ints(), value], &BOOL);
    assert_eq!(shown(contains(int(1))), ["true", "NULL", "true"]);
    assert_eq!(shown(contains(int(7))), ["NULL"; 3]);
    let zero = call(
        "array_position",
        vec![floats(), double(-0.0)],
        &DataType::Int64,
    );
    assert_eq!(shown(zero), ["2", "1", "2"]);
    let distinct = |list, of: &DataType| call("array_distinct", vec![list], of);
    assert_eq!(
        shown(distinct(ints(), &list_of(INT))),
        ["[1, NULL]", "NULL", "[0, 1, NULL]"]
    );
    assert_eq!(
        shown(distinct(floats(), &list_of(DOUBLE))),
        ["[NaN, 0.0, -0.0]", "[-0.0, 0.0]", "[1.5, 0.0, -0.0]"]
    );
    let most = call("array_max", vec![floats()], &DOUBLE);
    assert_eq!(shown(most), ["NaN", "-0.0", "1.5"]);
    let sorted = call("array_sort", vec![ints()], &list_of(INT));
    assert_eq!(
        shown(sorted),
        ["[1, 1, 1, NULL]", "NULL", "[0, 0, 1, NULL]"]
    );
}

#[test]
fn arrays_are_cut_and_joined() {
    let list = list_of(INT);
    let slice = call("slice", vec![ints(), int(-3), int(2)], &list);
    assert_eq!(shown(slice), ["[1, NULL]", "NULL", "[1, NULL]"]);
    let insert = |at| {
        call(
            "array_insert",
            vec![ints(), int(at), int(9), flag(false)],
            &list,
        )
    };
    assert_eq!(shown(insert(6))[0], "[1, 1, NULL, 1, NULL, 9]");
    assert_eq!(shown(insert(-1))[0], "[1, 1, NULL, 1, 9]");
    assert_eq!(shown(insert(-7))[0], "[9, NULL, NULL, 1, 1, NULL, 1]");
    assert_eq!(error(insert(0)), "INVALID_INDEX_OF_ZERO");
    let pair = struct_of([("0", INT), ("1", DOUBLE)]);
    let zip = call("arrays_zip", vec![ints(), floats()], &list_of(pair));
    assert_eq!(
        shown(zip)[0],
        "[{1, NaN}, {1, 0.0}, {NULL, -0.0}, {1, NULL}]"
    );
    let down = call("sequence", vec![int(5), int(-1), int(-3)], &list);
    assert_eq!(shown(down), ["[5, 2, -1]"; 3]);
    let split = call(
        "string_split",
        vec![text("a,,b,"), text(","), int(-1)],
        &list_of(TEXT),
    );
    assert_eq!(shown(split), ["[a, , b, ]"; 3]);
}

#[test]
fn lambdas_see_columns_and_outer_variables() {
    let list = list_of(INT);
    let one_more = call("add", vec![variable(0), variable(1)], &INT);
    let body = call("coalesce", vec![one_more, column(0)], &INT);
    let with_index = call(
        "array_transform",
        vec![ints(), lambda(&[INT, INT], body)],
        &list,
    );
    assert_eq!(shown(with_index), ["[1, 2, 1, 4]", "NULL", "[0, 2, 0, 3]"]);

    // transform(array(array(k, 1)), x -> transform(x, y -> array_contains(x, y) and k = y))
    let nested = list_of(list.clone());
    let inner = call("create_array", vec![column(0), int(1)], &list);
    let outer = call("create_array", vec![inner], &nested);
    let both = call(
        "and",
        vec![
            call("array_contains", vec![variable(0), variable(1)], &BOOL),
            call("eq", vec![column(0), variable(1)], &BOOL),
        ],
        &BOOL,
    );
    let each = call(
        "array_transform",
        vec![variable(0), lambda(&[INT], both)],
        &list_of(BOOL),
    );
    let deep = call(
        "array_transform",
        vec![outer, lambda(std::slice::from_ref(&list), each)],
        &list_of(list_of(BOOL)),
    );
    assert_eq!(
        shown(deep),
        ["[[true, true]]", "[[NULL, NULL]]", "[[true, false]]"]
    );
}

#[test]
fn a_body_sees_no_element_that_spark_would_not_give_it() {
    // 10 div x, of arrays with 0 under NULL, or after the first that decides.
    let long = DataType::Int64;
    let longs = |values: &[i64]| {
        let values = values
            .iter()
            .map(|v| literal(long.clone(), Some(Value::Int(*v))));
        call("create_array", values.collect(), &list_of(long.clone()))
    };
    let quotient = call(
        "integral_divide",
        vec![literal(long.clone(), Some(Value::Int(10))), variable(0)],
        &long,
    );
    let one = literal(long.clone(), Some(Value::Int(10)));
    let is_ten = call("eq", vec![quotient, one], &BOOL);
    assert!(is_fallible(&is_ten));
    let exists = |list| {
        let body = lambda(std::slice::from_ref(&long), is_ten.clone());
        call("array_exists", vec![list, flag(true), body], &BOOL)
    };
    assert_eq!(shown(exists(longs(&[5, 1, 0]))), ["true"; 3]);
    assert_eq!(error(exists(longs(&[5, 0, 1]))), "DIVIDE_BY_ZERO");
    let missing = call("is_not_null", vec![column(0)], &BOOL);
    let some = call(
        "if",
        vec![missing, longs(&[1]), null(list_of(long.clone()))],
        &list_of(long.clone()),
    );
    assert_eq!(shown(exists(some)), ["true", "NULL", "true"]);
}

#[test]
fn lambdas_fold_filter_and_zip() {
    let merge = call(
        "coalesce",
        vec![
            call("add", vec![variable(0), variable(1)], &INT),
            variable(0),
        ],
        &INT,
    );
    let finish = call("multiply", vec![variable(0), int(10)], &INT);
    let sum = call(
        "array_aggregate",
        vec![
            ints(),
            int(0),
            lambda(&[INT, INT], merge),
            lambda(&[INT], finish),
        ],
        &INT,
    );
    assert_eq!(shown(sum), ["30", "NULL", "10"]);
    let given = call("is_not_null", vec![variable(0)], &BOOL);
    let filter = call(
        "array_filter",
        vec![ints(), lambda(&[INT], given)],
        &list_of(INT),
    );
    assert_eq!(shown(filter), ["[1, 1, 1]", "NULL", "[0, 1, 0]"]);
    let pair = struct_of([("a", INT), ("b", DOUBLE)]);
    let zipped = call("create_named_struct", vec![variable(0), variable(1)], &pair);
    let zip = call(
        "zip_with",
        vec![ints(), floats(), lambda(&[INT, DOUBLE], zipped)],
        &list_of(pair),
    );
    assert_eq!(
        shown(zip)[2],
        "[{0, 1.5}, {1, 0.0}, {NULL, -0.0}, {0, NULL}]"
    );
}

#[test]
fn lambdas_over_maps() {
    let of = map_of(TEXT, INT);
    let key = call("concat", vec![variable(0), text("!")], &TEXT);
    let keys = call(
        "transform_keys",
        vec![flag(false), map(), lambda(&[TEXT, INT], key)],
        &of,
    );
    assert_eq!(shown(keys)[0], "{x! -> 1, y! -> NULL}");
    let same = call(
        "transform_keys",
        vec![flag(false), map(), lambda(&[TEXT, INT], text("z"))],
        &of,
    );
    assert!(is_fallible(&same));
    assert_eq!(error(same), "DUPLICATED_MAP_KEY");
    let given = call("is_not_null", vec![variable(1)], &BOOL);
    let filter = call("map_filter", vec![map(), lambda(&[TEXT, INT], given)], &of);
    assert_eq!(shown(filter), ["{x -> 1}", "{}", "{x -> 0}"]);
    let other = call("create_map", vec![flag(false), text("z"), int(7)], &of);
    let either = call("coalesce", vec![variable(1), variable(2)], &INT);
    let zip = call(
        "map_zip_with",
        vec![map(), other, lambda(&[TEXT, INT, INT], either)],
        &of,
    );
    assert_eq!(shown(zip)[0], "{x -> 1, y -> NULL, z -> 7}");
}

#[test]
fn nested_values_compare() {
    let list = |a| call("create_array", vec![a], &list_of(DOUBLE));
    let eq = call("eq", vec![list(column(2)), list(double(0.0))], &BOOL);
    assert_eq!(shown(eq), ["false", "true", "false"]);
    let gt = call(
        "gt",
        vec![list(column(2)), list(double(f64::INFINITY))],
        &BOOL,
    );
    assert_eq!(shown(gt), ["true", "false", "false"]);
    // Whatever the fields are called.
    let row = |name: &str| {
        call(
            "create_named_struct",
            vec![column(0)],
            &struct_of([(name, INT)]),
        )
    };
    let same = call("eq", vec![row("a"), row("b")], &BOOL);
    assert_eq!(shown(same), ["true"; 3]);
}

#[test]
fn what_has_no_meaning_is_refused() {
    let refused =
        |expr: &Expr| compile(expr, &batch().schema(), &CompileContext::default()).is_err();
    assert!(refused(&variable(0)));
    assert!(refused(&lambda(&[INT], variable(0))));
    assert!(refused(&call("eq", vec![map(), map()], &BOOL)));
    let beyond = lambda(&[INT], variable(1));
    assert!(refused(&call(
        "array_transform",
        vec![ints(), beyond],
        &list_of(INT)
    )));
    let column_beyond = lambda(&[INT], column(3));
    assert!(refused(&call(
        "array_transform",
        vec![ints(), column_beyond],
        &list_of(INT)
    )));
    let wrong = lambda(&[DOUBLE], variable(0));
    assert!(refused(&call(
        "array_transform",
        vec![ints(), wrong],
        &list_of(DOUBLE)
    )));
}
