//! From the IR to physical expressions: names are looked up in the families' tables, types are
//! checked, and what is missing is refused with its name.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use coffer_protocol::plan::{self, EvalMode, FloatText, expr::Kind};
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{Column, Literal},
};

use crate::{
    Unsupported, aes, arithmetic, average, bloom, cast, cipher, conditional, datetime, decimal,
    elementary, encodings, formats,
    function::{CallInfo, Entry, Fallible, SparkFunction},
    hashes, instants, intervals, java_time, json, literal, math, nested, nested_key, predicate,
    regexps, repeatable, strings, texts, time_of_day, types, urls,
};

/// Gives the expression that stands for a subquery's value: a literal where it is known already,
/// else one that reads it when the task runs.
type SubqueryResolver = dyn Fn(u32, &DataType) -> Option<Arc<dyn PhysicalExpr>> + Send + Sync;

/// What compilation needs beside the expression and its input.
#[derive(Clone, Default)]
pub struct CompileContext {
    subqueries: Option<Arc<SubqueryResolver>>,
    /// In a lambda: how many columns there are outside of all lambdas; variables come after them.
    columns: Option<usize>,
}

impl CompileContext {
    /// A context in which subquery values come from `resolver`; the expression it returns must have
    /// the given type.
    pub fn with_subqueries(
        resolver: impl Fn(u32, &DataType) -> Option<Arc<dyn PhysicalExpr>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            subqueries: Some(Arc::new(resolver)),
            columns: None,
        }
    }

    /// The same for the body of a lambda, around which there are so many columns and variables.
    pub(crate) fn inside_lambda(&self, around: usize) -> Self {
        Self {
            subqueries: self.subqueries.clone(),
            columns: Some(self.columns.unwrap_or(around)),
        }
    }
}

/// Compiles one expression over the columns of `schema`.
pub fn compile(
    expr: &plan::Expr,
    schema: &SchemaRef,
    context: &CompileContext,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    let malformed = |what: &str| Unsupported::new(what, "the fragment leaves out a part of it");
    let sub = |expr: &plan::Expr| compile(expr, schema, context);
    match expr
        .kind
        .as_ref()
        .ok_or_else(|| malformed("an expression"))?
    {
        Kind::Literal(value) => Ok(Arc::new(Literal::new(literal::scalar(value)?))),
        Kind::Column(position) => {
            let index = usize::try_from(*position).unwrap_or(usize::MAX);
            let columns = context.columns.unwrap_or(schema.fields().len());
            let field = schema.fields().get(index).filter(|_| index < columns);
            let field = field.ok_or_else(|| {
                Unsupported::new(
                    format!("column {position}"),
                    format!("the input has {columns} columns"),
                )
            })?;
            Ok(Arc::new(Column::new(field.name(), index)))
        }
        Kind::Variable(variable) => {
            let place = usize::try_from(*variable).ok();
            let index = place.and_then(|index| index.checked_add(context.columns?));
            let index = index.filter(|index| *index < schema.fields().len());
            let index = index.ok_or_else(|| {
                Unsupported::new(format!("variable {variable}"), "no lambda has it")
            })?;
            Ok(Arc::new(Column::new("", index)))
        }
        Kind::Lambda(_) => Err(Unsupported::new(
            "lambda",
            "it is no argument of its function",
        )),
        Kind::Call(call) if nested::lambda::is_node(&call.name) => {
            listed(&call.name)?;
            nested::lambda::node(call, schema, context)
        }
        Kind::Call(call) => {
            let args = call.args.iter().map(sub).collect::<Result<Vec<_>, _>>()?;
            compile_call(call, args, schema)
        }
        Kind::Cast(cast) => {
            let child = sub(cast.child.as_deref().ok_or_else(|| malformed("cast"))?)?;
            let style = float_text("cast", cast.float_text)?;
            cast::compile(child, cast, (mode("cast", cast.mode)?, style), schema)
        }
        Kind::CaseWhen(case) => {
            let mut branches = Vec::with_capacity(case.branches.len());
            for branch in &case.branches {
                let when = branch.when.as_ref().ok_or_else(|| malformed("case_when"))?;
                let then = branch.then.as_ref().ok_or_else(|| malformed("case_when"))?;
                branches.push((sub(when)?, sub(then)?));
            }
            let otherwise = case.otherwise.as_deref().map(sub).transpose()?;
            let data_type = types::required(case.r#type.as_ref(), "case_when")?;
            conditional::case_when(branches, otherwise, &data_type, is_fallible(expr), schema)
        }
        Kind::InList(list) => {
            let value = sub(list.value.as_deref().ok_or_else(|| malformed("in_list"))?)?;
            let items = list.list.iter().map(sub).collect::<Result<Vec<_>, _>>()?;
            let fallible = list.list.iter().any(is_fallible);
            predicate::in_list(value, items, fallible, schema)
        }
        Kind::Subquery(value) => {
            let data_type = types::required(value.r#type.as_ref(), "a subquery's value")?;
            let resolved = context
                .subqueries
                .as_ref()
                .and_then(|resolve| resolve(value.id, &data_type));
            let resolved = resolved.ok_or_else(|| {
                Unsupported::new(format!("subquery {}", value.id), "its value was not given")
            })?;
            match type_of(&resolved, schema)? == data_type {
                true => Ok(resolved),
                false => Err(Unsupported::new(
                    format!("subquery {}", value.id),
                    "its value has another type",
                )),
            }
        }
    }
}

/// Whether evaluating the expression on a row may raise an error. Errs on the side of yes: a
/// fallible expression must not be evaluated on rows that Spark would not evaluate it on.
#[must_use]
pub fn is_fallible(expr: &plan::Expr) -> bool {
    let boxed = |expr: &Option<Box<plan::Expr>>| expr.as_deref().is_none_or(is_fallible);
    match &expr.kind {
        None => true,
        Some(Kind::Literal(_) | Kind::Column(_) | Kind::Subquery(_) | Kind::Variable(_)) => false,
        Some(Kind::Lambda(lambda)) => boxed(&lambda.body),
        Some(Kind::Call(call)) => call.args.iter().any(is_fallible) || call_is_fallible(call),
        Some(Kind::Cast(cast)) => boxed(&cast.child) || cast::is_fallible(cast),
        Some(Kind::CaseWhen(case)) => {
            case.otherwise.as_deref().is_some_and(is_fallible)
                || case.branches.iter().any(|branch| {
                    branch.when.as_ref().is_none_or(is_fallible)
                        || branch.then.as_ref().is_none_or(is_fallible)
                })
        }
        Some(Kind::InList(list)) => boxed(&list.value) || list.list.iter().any(is_fallible),
    }
}

/// Makes equal keys equal bit for bit: of a float, every NaN becomes one NaN and −0.0 becomes 0.0;
/// other types stay.
pub fn normalize_key(
    key: Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    let data_type = type_of(&key, schema)?;
    if !data_type.is_floating() {
        return Ok(key);
    }
    build_function(
        "normalize_nan_and_zero",
        vec![key],
        vec![data_type.clone()],
        &data_type,
        (EvalMode::Legacy, FloatText::Shortest),
        "",
    )
}

/// What two rows' keys are compared by, also for being equal: floats as in [`normalize_key`],
/// nested values as bytes in Spark's order. No NULL becomes a value, nor a value NULL.
pub fn order_key(
    key: Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    match type_of(&key, schema)?.is_nested() {
        true => bytes_key(key, schema, false),
        false => normalize_key(key, schema),
    }
}

/// What any two values that differ in a bit differ by, in whatever order.
pub fn exact_key(
    key: Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    match type_of(&key, schema)?.is_nested() {
        true => bytes_key(key, schema, true),
        false => Ok(key),
    }
}

fn bytes_key(
    key: Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    exact: bool,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    let data_type = type_of(&key, schema)?;
    let kernel = nested_key::kernel(&data_type, exact)?;
    let call = CallInfo {
        name: if exact { "exact_key" } else { "order_key" },
        args: &[key],
        types: &[data_type],
        ret: &DataType::Binary,
        mode: EvalMode::Legacy,
        float_text: FloatText::Shortest,
        zone: "",
    };
    Ok(Arc::new(SparkFunction::new(&call, kernel)))
}

pub(crate) fn type_of(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Result<DataType, Unsupported> {
    expr.data_type(schema)
        .map_err(|e| Unsupported::new(expr.to_string(), e.strip_backtrace()))
}

fn mode(what: &str, mode: i32) -> Result<EvalMode, Unsupported> {
    EvalMode::try_from(mode)
        .map_err(|_| Unsupported::new(what, format!("unknown evaluation mode {mode}")))
}

fn float_text(what: &str, style: i32) -> Result<FloatText, Unsupported> {
    FloatText::try_from(style)
        .map_err(|_| Unsupported::new(what, format!("unknown text of floats {style}")))
}

fn compile_call(
    call: &plan::Call,
    args: Vec<Arc<dyn PhysicalExpr>>,
    schema: &SchemaRef,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    let name = call.name.as_str();
    listed(name)?;
    let fallible: Vec<bool> = call.args.iter().map(is_fallible).collect();
    let data_type = types::required(call.r#type.as_ref(), name)?;
    if let Some(node) = predicate::node(name, &args, &fallible, schema) {
        return check_type(node?, &data_type, name, schema);
    }
    if let Some(node) = conditional::node(name, &args, &data_type, &fallible, schema) {
        return node;
    }
    let types = args
        .iter()
        .map(|arg| type_of(arg, schema))
        .collect::<Result<Vec<_>, _>>()?;
    let how = (mode(name, call.mode)?, float_text(name, call.float_text)?);
    build_function(name, args, types, &data_type, how, &call.time_zone)
}

fn listed(name: &str) -> Result<(), Unsupported> {
    match repeatable::is_listed(name) {
        true => Ok(()),
        false => Err(Unsupported::new(name, "the engine has no such function")),
    }
}

fn check_type(
    node: Arc<dyn PhysicalExpr>,
    data_type: &DataType,
    name: &str,
    schema: &SchemaRef,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    let found = type_of(&node, schema)?;
    if &found == data_type {
        return Ok(node);
    }
    Err(Unsupported::new(
        name,
        format!("the fragment says {data_type}, its arguments give {found}"),
    ))
}

fn build_function(
    name: &str,
    args: Vec<Arc<dyn PhysicalExpr>>,
    types: Vec<DataType>,
    ret: &DataType,
    (mode, float_text): (EvalMode, FloatText),
    zone: &str,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    // Markers of the optimiser: they say something of their argument and change nothing.
    if is_marker(name)
        && let ([arg], [data_type]) = (args.as_slice(), types.as_slice())
        && data_type == ret
    {
        return Ok(Arc::clone(arg));
    }
    let call = CallInfo {
        name,
        args: &args,
        types: &types,
        ret,
        mode,
        float_text,
        zone,
    };
    let entry =
        find(name).ok_or_else(|| Unsupported::new(name, "the engine has no such function"))?;
    let kernel = (entry.build)(&call)?;
    Ok(Arc::new(SparkFunction::new(&call, kernel)))
}

fn is_marker(name: &str) -> bool {
    matches!(
        name,
        "promote_precision"
            | "known_not_null"
            | "known_nullable"
            | "known_floating_point_normalized"
    )
}

fn call_is_fallible(call: &plan::Call) -> bool {
    if predicate::is_node(&call.name) || conditional::is_node(&call.name) || is_marker(&call.name) {
        return false;
    }
    if nested::lambda::is_node(&call.name) {
        return nested::lambda::fails_itself(&call.name);
    }
    match find(&call.name).map(|entry| entry.fallible) {
        Some(Fallible::Never) => false,
        Some(Fallible::Ansi) => call.mode == i32::from(EvalMode::Ansi),
        Some(Fallible::Always) | None => true,
    }
}

const FAMILIES: [&[Entry]; 24] = [
    aes::FUNCTIONS,
    arithmetic::FUNCTIONS,
    average::FUNCTIONS,
    bloom::FUNCTIONS,
    decimal::FUNCTIONS,
    math::FUNCTIONS,
    predicate::FUNCTIONS,
    strings::FUNCTIONS,
    datetime::FUNCTIONS,
    cast::FUNCTIONS,
    nested::FUNCTIONS,
    cipher::FUNCTIONS,
    elementary::FUNCTIONS,
    encodings::FUNCTIONS,
    hashes::FUNCTIONS,
    instants::FUNCTIONS,
    intervals::FUNCTIONS,
    java_time::FUNCTIONS,
    json::FUNCTIONS,
    formats::FUNCTIONS,
    urls::FUNCTIONS,
    regexps::FUNCTIONS,
    texts::FUNCTIONS,
    time_of_day::FUNCTIONS,
];

fn find(name: &str) -> Option<&'static Entry> {
    FAMILIES
        .into_iter()
        .flatten()
        .find(|entry| entry.name == name)
}

#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.into_iter().flatten().map(|entry| entry.name)
}

#[cfg(test)]
pub(crate) fn is_known(name: &str) -> bool {
    find(name).is_some()
        || predicate::is_node(name)
        || conditional::is_node(name)
        || is_marker(name)
        || nested::lambda::is_node(name)
}
