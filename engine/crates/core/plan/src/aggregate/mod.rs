//! Aggregate: one DataFusion aggregation for one Aggregate node.
//!
//! Spark gives every *call* its mode, DataFusion every *operator*. So the modes live in our
//! functions: a call that merges has buffer columns for arguments, and its accumulator merges where
//! others update. What is left for the operator is whether it may give up reducing:
//! * a node of PARTIAL calls alone runs as `Partial`, which hands rows on when they hardly reduce,
//!   and early when memory is short;
//! * all others run as `Single`, which spills instead and yields every group once. Spark's plans
//!   for DISTINCT rely on that for nodes without calls and for PARTIAL_MERGE. Buffers leave it as
//!   one struct for each call, unpacked by a projection.

mod ashe;
mod average;
mod bitmap;
mod bits;
mod bloom;
mod by;
mod collect;
mod count;
mod count_min;
mod exact;
mod extreme;
mod first_last;
mod frames;
mod function;
mod histogram;
mod hll;
mod hll_tables;
mod in_runs;
mod intervals;
mod joined;
mod moments;
mod most_frequent;
mod pair;
mod pivot;
mod shape;
mod state;
mod sum;
mod summary;
mod sums;
mod udaf;
mod unpack;
mod whole;

use std::sync::Arc;

pub use ashe::ashe_counts;
pub(crate) use frames::{OverFrames, Partial, over_frames, taken};

use arrow::datatypes::{DataType, SchemaRef};
use coffer_expr::types;
use coffer_protocol::plan::{AggCall, AggMode, Aggregate};
use datafusion_expr::AggregateUDF;
use datafusion_physical_expr::{
    aggregate::{AggregateExprBuilder, AggregateFunctionExpr},
    expressions::{Column, lit},
};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    ExecutionPlan,
    aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy},
    projection::ProjectionExec,
};

use crate::{Unsupported, expressions::Expressions};
pub use function::DependsOn;
use function::Function;
use in_runs::PartialExec;
use udaf::{Call, Udaf};
use unpack::BufferColumn;

/// What a call is named by: its step and its function.
fn mode_of(call: &AggCall) -> String {
    match AggMode::try_from(call.mode) {
        Ok(mode) => format!("{}_{}", mode.as_str_name().to_ascii_lowercase(), call.name),
        Err(_) => call.name.clone(),
    }
}

/// The operators of an Aggregate node, the top one first.
pub(crate) fn plan(
    node: u32,
    aggregate: &Aggregate,
    input: Arc<dyn ExecutionPlan>,
    expressions: &Expressions,
) -> Result<Vec<Arc<dyn ExecutionPlan>>, Unsupported> {
    let operators = |source| Unsupported::Operators { node, source };
    if aggregate.grouping.is_empty() && aggregate.calls.is_empty() {
        return one_row(input).map_err(operators);
    }
    let modes = aggregate
        .calls
        .iter()
        .map(|call| {
            AggMode::try_from(call.mode).map_err(|_| Unsupported::Malformed {
                node,
                what: "aggregate mode",
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let yields_buffers = modes
        .iter()
        .any(|mode| matches!(mode, AggMode::Partial | AggMode::PartialMerge));
    if yields_buffers
        && modes
            .iter()
            .any(|mode| matches!(mode, AggMode::Final | AggMode::Complete))
    {
        return Err(Unsupported::Malformed {
            node,
            what: "an aggregate that yields both buffers and results",
        });
    }
    let may_give_up = !modes.is_empty() && modes.iter().all(|mode| *mode == AggMode::Partial);

    let schema = input.schema();
    let grouping = aggregate
        .grouping
        .iter()
        .map(|named| {
            let expr = named.expr.as_ref().ok_or(Unsupported::Malformed {
                node,
                what: "a grouping without expression",
            })?;
            Ok((expressions.key(node, expr, &schema)?, named.name.clone()))
        })
        .collect::<Result<Vec<_>, Unsupported>>()?;
    let mut calls = Vec::with_capacity(modes.len());
    let mut functions = Vec::with_capacity(modes.len());
    let mut filters = Vec::with_capacity(modes.len());
    for (position, (call, mode)) in aggregate.calls.iter().zip(&modes).enumerate() {
        let translated = translate(node, position, call, *mode, yields_buffers && !may_give_up)?;
        let filter = match (&call.filter, translated.merges) {
            (None, _) => None,
            (Some(_), true) => {
                return Err(Unsupported::Malformed {
                    node,
                    what: "FILTER on buffers",
                });
            }
            (Some(filter), false) => Some(expressions.boolean(node, filter, &schema)?),
        };
        functions.push(Arc::new(expression(
            node,
            position,
            call,
            &translated,
            &input,
            expressions,
        )?));
        filters.push(filter);
        calls.push(translated);
    }

    let groups = grouping.len();
    let mode = if may_give_up {
        AggregateMode::Partial
    } else {
        AggregateMode::Single
    };
    let operator = Arc::new(
        AggregateExec::try_new(
            mode,
            PhysicalGroupBy::new_single(grouping),
            functions,
            filters,
            input,
            schema,
        )
        .map_err(operators)?,
    );
    if may_give_up {
        let buffers = calls.iter().flat_map(|call| &call.function.buffer);
        return Ok(vec![PartialExec::of(operator, buffers).map_err(operators)?]);
    }
    let operator: Arc<dyn ExecutionPlan> = operator;
    if !yields_buffers {
        return Ok(vec![operator]);
    }
    let unpacked = unpack(&operator, groups, &calls).map_err(operators)?;
    Ok(vec![unpacked, operator])
}

/// What the result of a call depends on; none if there is no such function.
pub fn depends_on(call: &AggCall) -> Option<DependsOn> {
    let inputs = call
        .input_types
        .iter()
        .map(types::to_arrow)
        .collect::<Result<Vec<_>, _>>()
        .ok()?;
    let function = Function::resolve(call, &inputs).ok()?;
    Some(function.depends_on())
}

/// One row without columns, whatever comes in: the rows are counted and the count is dropped.
fn one_row(
    input: Arc<dyn ExecutionPlan>,
) -> datafusion_common::Result<Vec<Arc<dyn ExecutionPlan>>> {
    let call = AggCall {
        name: "count".to_owned(),
        ..AggCall::default()
    };
    let function = Function::resolve(&call, &[])
        .map_err(|reason| datafusion_common::internal_datafusion_err!("count {reason}"))?;
    let names = vec!["count".to_owned()];
    let call = Call {
        function,
        merges: false,
        yields_buffers: false,
        names,
    };
    let schema = input.schema();
    let count = AggregateExprBuilder::new(
        Arc::new(AggregateUDF::from(Udaf::new(call))),
        vec![lit(true)],
    )
    .schema(Arc::clone(&schema))
    .alias("count")
    .build()?;
    let counted: Arc<dyn ExecutionPlan> = Arc::new(AggregateExec::try_new(
        AggregateMode::Single,
        PhysicalGroupBy::new_single(vec![]),
        vec![Arc::new(count)],
        vec![None],
        input,
        schema,
    )?);
    let nothing: [(Arc<dyn PhysicalExpr>, String); 0] = [];
    Ok(vec![
        Arc::new(ProjectionExec::try_new(nothing, Arc::clone(&counted))?),
        counted,
    ])
}

/// The call's function, with what the fragment declares of it held against what the function is.
fn translate(
    node: u32,
    position: usize,
    call: &AggCall,
    mode: AggMode,
    as_struct: bool,
) -> Result<Call, Unsupported> {
    let expression = |source| Unsupported::Expression { node, source };
    let refuse = |reason: String| Unsupported::Aggregate {
        node,
        name: call.name.clone(),
        reason,
    };
    let inputs = call
        .input_types
        .iter()
        .map(types::to_arrow)
        .collect::<Result<Vec<_>, _>>()
        .map_err(expression)?;
    let function = Function::resolve(call, &inputs).map_err(refuse)?;

    let declared = match &call.buffer {
        Some(buffer) => types::schema_to_arrow(buffer).map_err(expression)?,
        None if mode == AggMode::Complete => Arc::new(arrow::datatypes::Schema::empty()),
        None => {
            return Err(Unsupported::Malformed {
                node,
                what: "an aggregate call without buffer",
            });
        }
    };
    let buffer: Vec<&DataType> = declared
        .fields()
        .iter()
        .map(|field| field.data_type())
        .collect();
    if call.buffer.is_some() && buffer != function.buffer.iter().collect::<Vec<_>>() {
        return Err(refuse(format!(
            "its buffer is {:?}, the fragment declares {buffer:?}",
            function.buffer
        )));
    }
    if let Some(result) = &call.r#type {
        let result = types::to_arrow(result).map_err(expression)?;
        if result != function.result {
            return Err(refuse(format!(
                "its result is {}, the fragment declares {result}",
                function.result
            )));
        }
    }
    let merges = matches!(mode, AggMode::PartialMerge | AggMode::Final);
    let names = (0..function.buffer.len())
        .map(|part| match declared.fields().get(part) {
            Some(field) => format!("{position}.{}", field.name()),
            None => format!("{position}.{part}"),
        })
        .collect();
    Ok(Call {
        function,
        merges,
        yields_buffers: as_struct,
        names,
    })
}

fn expression(
    node: u32,
    position: usize,
    call: &AggCall,
    translated: &Call,
    input: &Arc<dyn ExecutionPlan>,
    expressions: &Expressions,
) -> Result<AggregateFunctionExpr, Unsupported> {
    let schema = input.schema();
    let mut arguments = arguments(node, call, translated, &schema, expressions)?;
    if arguments.is_empty() {
        // COUNT() of rows; DataFusion wants an argument, and takes its length for the number of
        // rows.
        arguments.push(lit(true));
    }
    AggregateExprBuilder::new(
        Arc::new(AggregateUDF::from(Udaf::new(translated.clone()))),
        arguments,
    )
    .schema(schema)
    .alias(format!("{position}.{}", mode_of(call)))
    .build()
    .map_err(|source| Unsupported::Operators { node, source })
}

/// What the call is made over, with the types that the fragment declares held against it.
fn arguments(
    node: u32,
    call: &AggCall,
    translated: &Call,
    schema: &SchemaRef,
    expressions: &Expressions,
) -> Result<Vec<Arc<dyn PhysicalExpr>>, Unsupported> {
    let arguments = call
        .args
        .iter()
        .map(|argument| expressions.compile(node, argument, schema))
        .collect::<Result<Vec<Arc<dyn PhysicalExpr>>, _>>()?;
    let found = arguments
        .iter()
        .map(|argument| argument.data_type(schema))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| Unsupported::Operators { node, source })?;
    let declared: Vec<DataType> = if translated.merges {
        translated.function.buffer.clone()
    } else {
        call.input_types
            .iter()
            .map(types::to_arrow)
            .collect::<Result<_, _>>()
            .map_err(|source| Unsupported::Expression { node, source })?
    };
    if found != declared {
        return Err(Unsupported::Aggregate {
            node,
            name: call.name.clone(),
            reason: format!("its arguments are {found:?}, the fragment declares {declared:?}"),
        });
    }
    Ok(arguments)
}

/// Grouping columns as they are, then every call's struct as its parts.
fn unpack(
    operator: &Arc<dyn ExecutionPlan>,
    groups: usize,
    calls: &[Call],
) -> datafusion_common::Result<Arc<dyn ExecutionPlan>> {
    let schema = operator.schema();
    let mut columns: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::new();
    for (index, field) in schema.fields().iter().enumerate() {
        match index
            .checked_sub(groups)
            .and_then(|position| calls.get(position))
        {
            None => columns.push((
                Arc::new(Column::new(field.name(), index)),
                field.name().clone(),
            )),
            Some(call) => {
                for (part, (name, data_type)) in
                    call.names.iter().zip(&call.function.buffer).enumerate()
                {
                    columns.push((
                        Arc::new(BufferColumn::new(index, part, data_type.clone())),
                        name.clone(),
                    ));
                }
            }
        }
    }
    Ok(Arc::new(ProjectionExec::try_new(
        columns,
        Arc::clone(operator),
    )?))
}
