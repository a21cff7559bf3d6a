//! Casts in the three modes; of nested types, element by element. `is_fallible` says which may
//! raise.
//!
//! LEGACY: NULL for a text that is not a value, wrapping for integers. ANSI: an error. TRY: as
//! ANSI, with NULL for the error.

mod intervals;
mod nested;
mod numbers;
mod text;
mod times;

pub(crate) use intervals::half_up;

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use coffer_protocol::plan::{self, EvalMode, FloatText, TypeId};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::{PhysicalExpr, expressions::Literal};

use crate::{
    SparkError, Unsupported,
    compile::type_of,
    function::{CallInfo, Entry, Fallible, Kernel, SparkFunction, entry},
    literal,
    nested::is_nested,
    types::{self, Interval, sql_name},
    zone::Zone,
};

pub(crate) const FUNCTIONS: &[Entry] = &[entry(
    "to_pretty_string",
    Fallible::Always,
    text::to_pretty_string,
)];

/// The IR's types that are cast from and to.
type Logical<'a> = (Option<&'a plan::DataType>, Option<&'a plan::DataType>);

/// What a cast's kernel is chosen by.
pub(crate) struct CastInfo<'a> {
    from: &'a DataType,
    to: &'a DataType,
    mode: EvalMode,
    float_text: FloatText,
    zone: &'a str,
    /// None of both but where one is not all told by Arrow's (`types::is_open_in_arrow`).
    logical: Logical<'a>,
}

impl CastInfo<'_> {
    /// The intervals that are cast from and to.
    fn intervals(&self) -> (Option<Interval>, Option<Interval>) {
        let (from, to) = self.logical;
        (from.and_then(Interval::of), to.and_then(Interval::of))
    }

    /// Whether the types are one, also to whom Arrow's do not tell all.
    fn is_same(&self) -> bool {
        self.from == self.to && self.logical.0 == self.logical.1
    }

    /// ANSI's conversions: an error (or with TRY, NULL) instead of a wrapped number.
    fn strict(&self) -> bool {
        self.mode != EvalMode::Legacy
    }

    fn raises(&self) -> bool {
        self.mode == EvalMode::Ansi
    }

    fn zone(&self) -> Result<Zone, Unsupported> {
        Zone::of(self.zone)
    }

    fn unsupported(&self) -> Unsupported {
        Unsupported::new(
            "cast",
            format!(
                "no cast from {} to {}",
                sql_name(self.from),
                sql_name(self.to)
            ),
        )
    }
}

/// Casts `child`; the same expression if it has the type already.
pub(crate) fn compile(
    child: Arc<dyn PhysicalExpr>,
    cast: &plan::Cast,
    (mode, float_text): (EvalMode, FloatText),
    schema: &SchemaRef,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    let to = types::required(cast.to.as_ref(), "cast")?;
    let logical = logical(cast, &type_of(&child, schema)?)?;
    cast_by(
        child,
        &to,
        logical,
        (mode, float_text),
        &cast.time_zone,
        schema,
    )
}

/// The same between types that Arrow tells all of.
pub(crate) fn to_type(
    child: Arc<dyn PhysicalExpr>,
    to: &DataType,
    how: (EvalMode, FloatText),
    zone: &str,
    schema: &SchemaRef,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    cast_by(child, to, (None, None), how, zone, schema)
}

fn cast_by(
    child: Arc<dyn PhysicalExpr>,
    to: &DataType,
    logical: Logical<'_>,
    (mode, float_text): (EvalMode, FloatText),
    zone: &str,
    schema: &SchemaRef,
) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
    let from = type_of(&child, schema)?;
    if from.is_null() && child.downcast_ref::<Literal>().is_some() {
        return Ok(Arc::new(Literal::new(literal::typed_null(to)?)));
    }
    let info = CastInfo {
        from: &from,
        to,
        mode,
        float_text,
        zone,
        logical,
    };
    if info.is_same() {
        return Ok(child);
    }
    // What has no value but NULL may still raise an error: it is evaluated.
    let kernel = match from.is_null() {
        true => null_kernel(to)?,
        false => kernel(&info)?,
    };
    // Two calls are one if name, arguments and type are.
    let name = match info.logical {
        (None, None) => format!("cast_{}", sql_name(to).to_ascii_lowercase()),
        (from, to) => format!("cast_{}_{}", written(from), written(to)),
    };
    let types = [from.clone()];
    let call = CallInfo {
        name: &name,
        args: &[child],
        types: &types,
        ret: to,
        mode,
        float_text,
        zone,
    };
    Ok(Arc::new(SparkFunction::new(&call, kernel)))
}

/// The IR's types of a cast, where one is not all told by Arrow's.
fn logical<'a>(cast: &'a plan::Cast, from: &DataType) -> Result<Logical<'a>, Unsupported> {
    if let Some(said) = &cast.from
        && types::to_arrow(said)? != *from
    {
        return Err(Unsupported::new("cast", "its child has another type"));
    }
    let has = |of: &Option<plan::DataType>| of.as_ref().is_some_and(types::is_open_in_arrow);
    Ok(match has(&cast.from) || has(&cast.to) {
        true => (cast.from.as_ref(), cast.to.as_ref()),
        false => (None, None),
    })
}

/// A type as a name tells it from others.
fn written(of: Option<&plan::DataType>) -> String {
    of.map_or_else(String::new, |of| {
        let inner = of
            .children
            .iter()
            .map(|field| written(field.r#type.as_ref()));
        let inner: Vec<String> = inner.collect();
        format!(
            "{}.{}.{}[{}]",
            of.id,
            of.precision,
            of.scale,
            inner.join(",")
        )
    })
}

fn kernel(info: &CastInfo<'_>) -> Result<Kernel, Unsupported> {
    match info.intervals() {
        (None, None) => {}
        _ => return intervals::cast(info),
    }
    match (info.from, info.to) {
        (_, DataType::Utf8) => text::to_text(info),
        (from, to) if is_nested(from) || is_nested(to) => nested::cast(info),
        (DataType::Utf8, _) => text::from_text(info),
        (DataType::Time64(_), _) => times::of_day(info),
        (DataType::Date32 | DataType::Timestamp(..), _)
        | (_, DataType::Date32 | DataType::Timestamp(..)) => times::cast(info),
        _ => numbers::cast(info),
    }
}

/// Whether the cast may raise an error, as far as the types tell without the input's schema.
pub(crate) fn is_fallible(cast: &plan::Cast) -> bool {
    let to = cast.to.as_ref().and_then(|to| TypeId::try_from(to.id).ok());
    let said = cast
        .from
        .as_ref()
        .and_then(|from| TypeId::try_from(from.id).ok());
    let from = said.or_else(|| cast.child.as_deref().and_then(static_type));
    // Raising is not of the mode there.
    let interval = |id| {
        matches!(
            id,
            Some(TypeId::YearMonthInterval | TypeId::DayTimeInterval)
        )
    };
    if interval(to) || interval(from) && to != Some(TypeId::String) {
        return true;
    }
    let nested = |id| matches!(id, Some(TypeId::Array | TypeId::Struct | TypeId::Map));
    if nested(to) || nested(from) {
        return true;
    }
    // Binary that is not UTF-8 has no Arrow string.
    if to == Some(TypeId::String) {
        return !matches!(from, Some(from) if from != TypeId::Binary);
    }
    // A text may be something that only Java reads.
    if matches!(to, Some(TypeId::Float | TypeId::Double | TypeId::Timestamp))
        && !matches!(from, Some(from) if from != TypeId::String)
    {
        return true;
    }
    let widening = matches!(
        (from, to),
        (
            Some(TypeId::Date),
            Some(TypeId::TimestampNtz | TypeId::Timestamp)
        ) | (
            Some(TypeId::Timestamp | TypeId::TimestampNtz),
            Some(TypeId::Date)
        ) | (
            Some(TypeId::Byte),
            Some(TypeId::Short | TypeId::Int | TypeId::Long | TypeId::Float | TypeId::Double)
        ) | (
            Some(TypeId::Short),
            Some(TypeId::Int | TypeId::Long | TypeId::Float | TypeId::Double)
        ) | (
            Some(TypeId::Int),
            Some(TypeId::Long | TypeId::Float | TypeId::Double)
        ) | (Some(TypeId::Long), Some(TypeId::Float | TypeId::Double))
            | (Some(TypeId::Float), Some(TypeId::Double))
            | (Some(TypeId::Decimal), Some(TypeId::Float | TypeId::Double))
    );
    cast.mode == i32::from(EvalMode::Ansi) && !widening
}

fn static_type(expr: &plan::Expr) -> Option<TypeId> {
    use plan::expr::Kind;
    let data_type = match expr.kind.as_ref()? {
        Kind::Literal(v) => v.r#type.as_ref(),
        Kind::Call(v) => v.r#type.as_ref(),
        Kind::Cast(v) => v.to.as_ref(),
        Kind::CaseWhen(v) => v.r#type.as_ref(),
        Kind::Subquery(v) => v.r#type.as_ref(),
        Kind::InList(_) => return Some(TypeId::Boolean),
        Kind::Column(_) | Kind::Variable(_) | Kind::Lambda(_) => None,
    };
    TypeId::try_from(data_type?.id).ok()
}

/// A text that is not a value of the type.
fn invalid_input(text: &str, to: &DataType) -> SparkError {
    SparkError::new(
        "CAST_INVALID_INPUT",
        format!(
            "The value '{text}' of the type \"STRING\" cannot be cast to \"{}\" because it is \
                malformed. Correct the \
             value as per the syntax, or change its target type. Use `try_cast` to tolerate \
             malformed input and return \
             NULL instead.",
            sql_name(to)
        ),
    )
}

/// A value outside the target type.
fn overflow(value: &str, from: &DataType, to: &DataType) -> SparkError {
    overflow_between(value, &sql_name(from), &sql_name(to))
}

/// The same of types by their names.
fn overflow_between(value: &str, from: &str, to: &str) -> SparkError {
    SparkError::new(
        "CAST_OVERFLOW",
        format!(
            "The value {value} of the type \"{from}\" cannot be cast to \"{to}\" due to an \
             overflow. Use `try_cast` to tolerate overflow and return NULL instead."
        ),
    )
}

/// NULL in every row: what LEGACY makes of casts that have no meaning.
fn null_kernel(to: &DataType) -> Result<Kernel, Unsupported> {
    let null: ScalarValue = literal::typed_null(to)?;
    Ok(Arc::new(move |_, rows| null.to_array_of_size(rows)))
}
