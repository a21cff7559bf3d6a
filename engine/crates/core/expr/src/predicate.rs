//! Comparisons, IN, and the tests for NULL and NaN.
//!
//! Where DataFusion's own nodes mean the same they are used, since only those prune row groups and
//! pages. They do not for floats: Spark holds NaN equal to itself and above all else, and −0.0
//! equal to 0.0.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray},
    datatypes::{DataType, Float32Type, Float64Type, SchemaRef},
};
use coffer_protocol::plan::{EvalMode, FloatText};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{self, BinaryExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr},
};

use crate::{
    Unsupported, cast,
    compile::type_of,
    conditional,
    function::{CallInfo, Entry, Fallible, Kernel, SparkFunction, entry},
    nested::{Items, Ordered, is_nested, is_orderable},
    types::same_but_names,
    vector::{argument, compare, unary},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("is_nan", Fallible::Never, is_nan),
    entry(
        "normalize_nan_and_zero",
        Fallible::Never,
        normalize_nan_and_zero,
    ),
];

type Node = Result<Arc<dyn PhysicalExpr>, Unsupported>;

/// Whether [`node`] answers for this name.
pub(crate) fn is_node(name: &str) -> bool {
    operator(name).is_some() || matches!(name, "not" | "is_null" | "is_not_null" | "and" | "or")
}

/// The node for a predicate's name; none if the name is not one of a predicate.
pub(crate) fn node(
    name: &str,
    args: &[Arc<dyn PhysicalExpr>],
    fallible: &[bool],
    schema: &SchemaRef,
) -> Option<Node> {
    let wrong_arity = || Unsupported::new(name, format!("{} arguments", args.len()));
    if let Some(operator) = operator(name) {
        return Some(match args {
            [left, right] => comparison(name, operator, left, right, schema),
            _ => Err(wrong_arity()),
        });
    }
    Some(match (name, args) {
        ("and" | "or", [_, _, ..]) => conditional::logic(name == "and", args, fallible, schema),
        ("not", [arg]) => boolean(name, arg, schema).map(|arg| Arc::new(NotExpr::new(arg)) as _),
        ("is_null", [arg]) => Ok(Arc::new(IsNullExpr::new(Arc::clone(arg)))),
        ("is_not_null", [arg]) => Ok(Arc::new(IsNotNullExpr::new(Arc::clone(arg)))),
        ("and" | "or" | "not" | "is_null" | "is_not_null", _) => Err(wrong_arity()),
        _ => return None,
    })
}

/// The argument, if it is boolean.
pub(crate) fn boolean(name: &str, arg: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Node {
    match type_of(arg, schema)? {
        DataType::Boolean => Ok(Arc::clone(arg)),
        other => Err(Unsupported::new(
            name,
            format!("an argument is {other}, not boolean"),
        )),
    }
}

/// `value IN (items)`: true on a match, else NULL if value or any item is NULL.
pub(crate) fn in_list(
    value: Arc<dyn PhysicalExpr>,
    items: Vec<Arc<dyn PhysicalExpr>>,
    fallible: bool,
    schema: &SchemaRef,
) -> Node {
    let data_type = type_of(&value, schema)?;
    for item in &items {
        let found = type_of(item, schema)?;
        if !same_but_names(&found, &data_type) {
            return Err(Unsupported::new(
                "in_list",
                format!("a {found} in a list for {data_type}"),
            ));
        }
    }
    if items.is_empty() {
        return Ok(Arc::new(Literal::new(ScalarValue::Boolean(Some(false)))));
    }
    let literals = items.iter().all(|item| item.is::<Literal>());
    if literals && !data_type.is_floating() && !data_type.is_null() && !is_nested(&data_type) {
        return expressions::in_list(value, items, &false, schema)
            .map_err(|e| Unsupported::new("in_list", e.strip_backtrace()));
    }
    let tests = items
        .iter()
        .map(|item| comparison("in_list", Operator::Eq, &value, item, schema))
        .collect::<Result<Vec<_>, _>>()?;
    match tests.as_slice() {
        [test] => Ok(Arc::clone(test)),
        _ => conditional::logic(false, &tests, &vec![fallible; tests.len()], schema),
    }
}

/// Spark's order of doubles: −0.0 = 0.0, NaN = NaN, NaN above everything.
pub(crate) fn order_f64(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Spark's order of floats, as [`order_f64`].
pub(crate) fn order_f32(a: f32, b: f32) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn operator(name: &str) -> Option<Operator> {
    Some(match name {
        "eq" | "equal_to" => Operator::Eq,
        "lt" | "less_than" => Operator::Lt,
        "le" | "less_than_or_equal" => Operator::LtEq,
        "gt" | "greater_than" => Operator::Gt,
        "ge" | "greater_than_or_equal" => Operator::GtEq,
        "eq_null_safe" | "equal_null_safe" => Operator::IsNotDistinctFrom,
        _ => return None,
    })
}

fn comparison(
    name: &str,
    operator: Operator,
    left: &Arc<dyn PhysicalExpr>,
    right: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Node {
    let (left_type, right_type) = (type_of(left, schema)?, type_of(right, schema)?);
    if !same_but_names(&left_type, &right_type) {
        return Err(Unsupported::new(
            name,
            format!("it compares {left_type} with {right_type}"),
        ));
    }
    let how = (EvalMode::Legacy, FloatText::Shortest);
    let right = &cast::to_type(Arc::clone(right), &left_type, how, "", schema)?;
    if !is_orderable(&left_type) {
        return Err(Unsupported::new(name, "maps are not compared"));
    }
    if !left_type.is_floating() && !is_nested(&left_type) {
        return Ok(Arc::new(BinaryExpr::new(
            Arc::clone(left),
            operator,
            Arc::clone(right),
        )));
    }
    let kernel: Kernel = match left_type {
        DataType::Float32 => Arc::new(move |args, rows| {
            let result =
                compare::<Float32Type>(args, rows, |a, b| holds(operator, order_f32(a, b)))?;
            null_safe(operator, result, args, rows)
        }),
        _ if is_nested(&left_type) => Arc::new(move |args, rows| {
            let result = compare_nested(operator, args, rows)?;
            null_safe(operator, result, args, rows)
        }),
        _ => Arc::new(move |args, rows| {
            let result =
                compare::<Float64Type>(args, rows, |a, b| holds(operator, order_f64(a, b)))?;
            null_safe(operator, result, args, rows)
        }),
    };
    let call = CallInfo {
        name: operator_name(operator),
        args: &[Arc::clone(left), Arc::clone(right)],
        types: &[left_type.clone(), left_type],
        ret: &DataType::Boolean,
        mode: EvalMode::Legacy,
        float_text: FloatText::Shortest,
        zone: "",
    };
    Ok(Arc::new(SparkFunction::new(&call, kernel)))
}

fn compare_nested(operator: Operator, args: &[ColumnarValue], rows: usize) -> Result<BooleanArray> {
    let (left, right) = (
        Items::new(argument(args, 0)?)?,
        Items::new(argument(args, 1)?)?,
    );
    let [lefts, rights] = Ordered::of([&left.array, &right.array])?;
    Ok((0..rows)
        .map(|row| {
            if left.is_null(row) || right.is_null(row) {
                return None;
            }
            let order = lefts.get(left.at(row)).cmp(&rights.get(right.at(row)));
            Some(holds(operator, order))
        })
        .collect())
}

fn operator_name(operator: Operator) -> &'static str {
    match operator {
        Operator::Eq => "eq",
        Operator::Lt => "lt",
        Operator::LtEq => "le",
        Operator::Gt => "gt",
        Operator::GtEq => "ge",
        _ => "equal_null_safe",
    }
}

#[inline]
fn holds(operator: Operator, order: Ordering) -> bool {
    match operator {
        Operator::Lt => order.is_lt(),
        Operator::LtEq => order.is_le(),
        Operator::Gt => order.is_gt(),
        Operator::GtEq => order.is_ge(),
        _ => order.is_eq(),
    }
}

/// For `<=>`: two NULLs are equal, one is not.
fn null_safe(
    operator: Operator,
    result: BooleanArray,
    args: &[ColumnarValue],
    rows: usize,
) -> Result<ArrayRef> {
    if operator != Operator::IsNotDistinctFrom {
        return Ok(Arc::new(result));
    }
    let (left, right) = (
        argument(args, 0)?.to_array(rows)?,
        argument(args, 1)?.to_array(rows)?,
    );
    let equal = (0..rows).map(|row| match (left.is_null(row), right.is_null(row)) {
        (false, false) => result.value(row),
        (a, b) => a && b,
    });
    Ok(Arc::new(equal.map(Some).collect::<BooleanArray>()))
}

fn is_nan(call: &CallInfo<'_>) -> Result<Kernel, Unsupported> {
    // Spark: isnan(NULL) is false.
    match call.types {
        [DataType::Float32 | DataType::Float64] => Ok(Arc::new(|args, rows| {
            let array = argument(args, 0)?.to_array(rows)?;
            let values: BooleanArray = match array.data_type() {
                DataType::Float32 => array
                    .as_primitive::<Float32Type>()
                    .iter()
                    .map(|v| Some(v.is_some_and(f32::is_nan)))
                    .collect(),
                DataType::Float64 => array
                    .as_primitive::<Float64Type>()
                    .iter()
                    .map(|v| Some(v.is_some_and(f64::is_nan)))
                    .collect(),
                other => return internal_err!("is_nan of {other}"),
            };
            Ok(Arc::new(values) as ArrayRef)
        })),
        _ => Err(call.bad_types()),
    }
}

fn normalize_nan_and_zero(call: &CallInfo<'_>) -> Result<Kernel, Unsupported> {
    match call.types {
        [DataType::Float32] => Ok(Arc::new(|args, rows| {
            unary::<Float32Type, Float32Type>(args, rows, |v| {
                if v.is_nan() { f32::NAN } else { v + 0.0 }
            })
        })),
        [DataType::Float64] => Ok(Arc::new(|args, rows| {
            unary::<Float64Type, Float64Type>(args, rows, |v| {
                if v.is_nan() { f64::NAN } else { v + 0.0 }
            })
        })),
        _ => Err(call.bad_types()),
    }
}
