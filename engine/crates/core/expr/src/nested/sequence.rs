//! `sequence`: integers by a step, and dates by months and days.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, Date32Array, Int64Array},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Date32Type, Int64Type},
};
use datafusion_common::{Result, ScalarValue};

use super::{arrays::within, build::Ends, element};
use crate::{
    SparkError, Unsupported, calendar,
    function::{CallInfo, Kernel},
    vector::{argument, array},
};

type Built = Result<Kernel, Unsupported>;

pub(super) fn sequence(call: &CallInfo<'_>) -> Built {
    let of = element(call.ret).ok_or_else(|| call.bad_types())?;
    match call.types {
        [start, stop] | [start, stop, _] if start == of && stop == of && of.is_signed_integer() => {
            match call.types.get(2) {
                Some(step) if step != of => Err(call.bad_types()),
                _ => integers(of.clone()),
            }
        }
        [DataType::Date32, DataType::Date32] if *of == DataType::Date32 => Ok(dates(None)),
        [
            DataType::Date32,
            DataType::Date32,
            DataType::Int32,
            DataType::Int32,
        ] if *of == DataType::Date32 => match (call.literal(2)?, call.literal(3)?) {
            (ScalarValue::Int32(Some(months)), ScalarValue::Int32(Some(days)))
                if estimate(*months, *days) != 0 =>
            {
                Ok(dates(Some((*months, *days))))
            }
            _ => Err(call.bad_types()),
        },
        _ => Err(call.bad_types()),
    }
}

fn illegal(start: i64, stop: i64, step: impl std::fmt::Display) -> SparkError {
    SparkError::new(
        "_LEGACY_ERROR_TEMP_3243",
        format!("Illegal sequence boundaries: {start} to {stop} by {step}"),
    )
}

/// (start, stop) by 1 or −1, or (start, stop, step).
fn integers(of: DataType) -> Built {
    Ok(Arc::new(move |args, rows| {
        let wide = |index: usize| {
            let exact = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            cast_with_options(
                &array(argument(args, index)?, rows)?,
                &DataType::Int64,
                &exact,
            )
            .map_err(datafusion_common::DataFusionError::from)
        };
        let (starts, stops) = (wide(0)?, wide(1)?);
        let (starts, stops) = (
            starts.as_primitive::<Int64Type>(),
            stops.as_primitive::<Int64Type>(),
        );
        let steps = (args.len() == 3).then(|| wide(2)).transpose()?;
        let steps = steps
            .as_ref()
            .map(|steps| steps.as_primitive::<Int64Type>());
        let (mut values, mut ends) = (Vec::new(), Ends::with_capacity(rows));
        for row in 0..rows {
            let null = starts.is_null(row)
                || stops.is_null(row)
                || steps.is_some_and(|steps| steps.is_null(row));
            if null {
                ends.null(values.len())?;
                continue;
            }
            let (start, stop) = (starts.value(row), stops.value(row));
            let default = if start <= stop { 1 } else { -1 };
            let step = steps.map_or(default, |steps| steps.value(row));
            let legal = (step > 0 && start <= stop)
                || (step < 0 && start >= stop)
                || (step == 0 && start == stop);
            if !legal {
                return Err(illegal(start, stop, step).into());
            }
            let span = i128::from(stop) - i128::from(start);
            let len = if span == 0 {
                1
            } else {
                span / i128::from(step) + 1
            };
            within(values.len(), usize::try_from(len).unwrap_or(usize::MAX))?;
            let mut next = start;
            for _ in 0..len {
                values.push(next);
                // Past the last one it may not fit.
                next = next.wrapping_add(step);
            }
            ends.row(values.len())?;
        }
        let values = arrow::compute::cast(&Int64Array::from(values), &of)?;
        ends.list(values)
    }))
}

/// Days of a step, where a month has 28: Spark's estimate, by which a sequence goes up or down.
fn estimate(months: i32, days: i32) -> i64 {
    i64::from(months) * 28 + i64::from(days)
}

/// (start, stop) by a day up or down, or (start, stop, months, days): the i-th is i times as many
/// months and days after the start.
fn dates(step: Option<(i32, i32)>) -> Kernel {
    Arc::new(move |args, rows| {
        let (starts, stops) = (
            array(argument(args, 0)?, rows)?,
            array(argument(args, 1)?, rows)?,
        );
        let starts = starts.as_primitive::<Date32Type>();
        let stops = stops.as_primitive::<Date32Type>();
        let (mut values, mut ends) = (Vec::new(), Ends::with_capacity(rows));
        for row in 0..rows {
            if starts.is_null(row) || stops.is_null(row) {
                ends.null(values.len())?;
                continue;
            }
            let (start, stop) = (starts.value(row), stops.value(row));
            let default = (0, if start <= stop { 1 } else { -1 });
            let (months, days) = step.unwrap_or(default);
            let up = estimate(months, days) > 0;
            if start != stop && up != (start < stop) {
                let step = format!("{months} months {days} days");
                return Err(illegal(start.into(), stop.into(), step).into());
            }
            for i in 0.. {
                let Some(next) = after(start, i, (months, days)) else {
                    break;
                };
                if if up { next > stop } else { next < stop } {
                    break;
                }
                within(values.len(), 1)?;
                values.push(next);
            }
            ends.row(values.len())?;
        }
        ends.list(Arc::new(Date32Array::from(values)))
    })
}

fn after(start: i32, i: i64, (months, days): (i32, i32)) -> Option<i32> {
    let months = i64::from(months).checked_mul(i)?;
    let moved = calendar::plus_months(start.into(), months);
    i32::try_from(moved.checked_add(i64::from(days).checked_mul(i)?)?).ok()
}
