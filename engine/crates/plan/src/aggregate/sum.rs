//! SUM of integers and of floating point numbers. Buffer: `[sum]`, or `[sum, isEmpty]` where Spark tracks emptiness
//! (decimals and TRY; see Sum.scala).

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder, Decimal128Array, Float64Array, Int64Array},
    datatypes::{DataType, Decimal128Type, Float64Type, Int64Type},
};
use coffer_proto::plan::EvalMode;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::state::{GroupState, column, each, fold, live, overflow};

/// Sum of TINYINT to BIGINT outside of TRY: wraps, or fails under ANSI.
pub(super) struct SumLong {
    ansi: bool,
    sums: Vec<Option<i64>>,
}

impl SumLong {
    pub(super) fn new(eval: EvalMode) -> Self {
        Self {
            ansi: eval == EvalMode::Ansi,
            sums: vec![],
        }
    }
}

impl GroupState for SumLong {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, None);
    }

    fn update(&mut self, values: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        let values = column(values, 0, &DataType::Int64)?;
        let ansi = self.ansi;
        fold::<Int64Type, _>(&values, groups, filter, &mut self.sums, |sum, value| {
            let before = sum.unwrap_or(0);
            *sum = Some(match before.checked_add(value) {
                Some(after) => after,
                None if ansi => return Err(overflow("long overflow", "try_add")),
                None => before.wrapping_add(value),
            });
            Ok(())
        })
    }

    fn merge(&mut self, buffers: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        self.update(buffers, groups, filter)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(emit.take_needed(&mut self.sums))))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<Option<i64>>()
    }
}

/// Sum of FLOAT and DOUBLE.
#[derive(Default)]
pub(super) struct SumDouble {
    sums: Vec<Option<f64>>,
}

impl GroupState for SumDouble {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, None);
    }

    fn update(&mut self, values: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        let values = column(values, 0, &DataType::Float64)?;
        fold::<Float64Type, _>(&values, groups, filter, &mut self.sums, |sum, value| {
            *sum = Some(sum.unwrap_or(0.0) + value);
            Ok(())
        })
    }

    fn merge(&mut self, buffers: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        self.update(buffers, groups, filter)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(Float64Array::from(emit.take_needed(&mut self.sums))))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<Option<f64>>()
    }
}

/// Which sums track emptiness: the type they are kept in.
pub(super) enum Tracked {
    /// TRY over integers: overflow of a BIGINT is NULL.
    Long,
    /// Decimals of this precision and scale: what does not fit is NULL, and an error of the result under ANSI.
    Decimal(u8, i8),
}

/// A sum whose `sum` is NULL after an overflow, and whose `isEmpty` tells that from no rows.
pub(super) struct SumTracked {
    kind: Tracked,
    limit: i128,
    ansi: bool,
    sums: Vec<(Option<i128>, bool)>,
}

impl SumTracked {
    pub(super) fn new(kind: Tracked, eval: EvalMode) -> Self {
        let limit = match kind {
            Tracked::Long => i128::from(i64::MAX),
            Tracked::Decimal(precision, _) => 10i128.pow(u32::from(precision.min(38))) - 1,
        };
        Self {
            kind,
            limit,
            ansi: eval == EvalMode::Ansi,
            sums: vec![],
        }
    }

    fn data_type(&self) -> DataType {
        match self.kind {
            Tracked::Long => DataType::Int64,
            Tracked::Decimal(precision, scale) => DataType::Decimal128(precision, scale),
        }
    }

    /// Values as the sum's own integers.
    fn integers(&self, values: &[ArrayRef]) -> Result<ArrayRef> {
        match self.kind {
            // Any integer fits Decimal(19, 0) as its own unscaled value.
            Tracked::Long => column(&[column(values, 0, &DataType::Int64)?], 0, &DataType::Decimal128(19, 0)),
            // Same scale, more precision: unscaled values stay as they are.
            Tracked::Decimal(..) => column(values, 0, values.first().map_or(&DataType::Null, |v| v.data_type())),
        }
    }

    fn add(limit: i128, kind: &Tracked, sum: Option<i128>, value: i128) -> Option<i128> {
        let low = match kind {
            Tracked::Long => -limit - 1,
            Tracked::Decimal(..) => -limit,
        };
        sum?.checked_add(value).filter(|sum| (low..=limit).contains(sum))
    }

    fn array(&self, sums: Vec<Option<i128>>) -> Result<ArrayRef> {
        Ok(match self.kind {
            Tracked::Long => Arc::new(
                sums.into_iter()
                    .map(|sum| sum.and_then(|sum| i64::try_from(sum).ok()))
                    .collect::<Int64Array>(),
            ),
            Tracked::Decimal(precision, scale) => {
                Arc::new(Decimal128Array::from(sums).with_precision_and_scale(precision, scale)?)
            }
        })
    }
}

impl GroupState for SumTracked {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, (Some(0), true));
    }

    fn update(&mut self, values: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        let values = self.integers(values)?;
        let (limit, kind) = (self.limit, &self.kind);
        fold::<Decimal128Type, _>(&values, groups, filter, &mut self.sums, |(sum, is_empty), value| {
            *sum = Self::add(limit, kind, *sum, value);
            *is_empty = false;
            Ok(())
        })
    }

    fn merge(&mut self, buffers: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        let more = self.integers(buffers)?;
        let more = more.as_primitive::<Decimal128Type>();
        let empty = column(buffers, 1, &DataType::Boolean)?;
        let empty = empty.as_boolean();
        let live = live(None, filter);
        let (limit, kind, sums) = (self.limit, &self.kind, &mut self.sums);
        each(live.as_ref(), groups, |row, group| {
            let (sum, is_empty) = &mut sums[group];
            // A NULL sum is an overflow, unless nothing was added.
            let value = if more.is_valid(row) {
                Some(more.value(row))
            } else {
                None
            };
            let value_empty = empty.is_valid(row) && empty.value(row);
            *sum = match value {
                None if !value_empty => None,
                value => Self::add(limit, kind, *sum, value.unwrap_or(0)),
            };
            *is_empty &= value_empty;
            Ok(())
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let fails = self.ansi && matches!(self.kind, Tracked::Decimal(..));
        let sums = emit
            .take_needed(&mut self.sums)
            .into_iter()
            .map(|(sum, is_empty)| match sum {
                _ if is_empty => Ok(None),
                None if fails => Err(overflow("Overflow in sum of decimals", "try_sum")),
                sum => Ok(sum),
            })
            .collect::<Result<Vec<_>>>()?;
        self.array(sums)
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let taken = emit.take_needed(&mut self.sums);
        let mut empty = BooleanBuilder::with_capacity(taken.len());
        taken.iter().for_each(|(_, is_empty)| empty.append_value(*is_empty));
        let sums = self.array(taken.into_iter().map(|(sum, _)| sum).collect())?;
        if sums.data_type() != &self.data_type() {
            return Err(internal_datafusion_err!("a sum's buffer has type {}", sums.data_type()));
        }
        Ok(vec![sums, Arc::new(empty.finish())])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<(Option<i128>, bool)>()
    }
}
