//! SUM of integers, decimals and floating point numbers. Buffer: `[sum]`, or `[sum, isEmpty]` where
//! Spark tracks emptiness (decimals and TRY; see Sum.scala); with `sum` as BINARY where a sum of
//! Spark's type depends on the order of the rows ([`ExactSum`], [`Whole`]).

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BinaryBuilder, BooleanArray, BooleanBuilder, Decimal128Array,
        Float64Array, Int64Array,
    },
    datatypes::{DataType, Decimal128Type, Float64Type, Int64Type},
};
use coffer_protocol::plan::EvalMode;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::{
    exact::ExactSum,
    state::{GroupState, binary, column, each, fold, live, overflow},
    whole::Whole,
};

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

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
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

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
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

/// Sum of FLOAT and DOUBLE: exact, rounded at the end.
#[derive(Default)]
pub(super) struct SumDouble {
    sums: Vec<ExactSum>,
    /// Bytes of sums that two doubles do not hold.
    more: isize,
}

impl SumDouble {
    fn emitted(&mut self, emit: EmitTo) -> Vec<ExactSum> {
        let sums = emit.take_needed(&mut self.sums);
        self.more -= memory(&sums);
        sums
    }
}

/// Bytes beside the sums themselves.
pub(super) fn memory<'a>(sums: impl IntoIterator<Item = &'a ExactSum>) -> isize {
    let bytes = sums.into_iter().map(ExactSum::memory).sum::<usize>();
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

/// Sums as a column of their encodings; NULL for none.
pub(super) fn encoded<'a>(sums: impl ExactSizeIterator<Item = &'a ExactSum>) -> ArrayRef {
    let mut column = BinaryBuilder::with_capacity(sums.len(), sums.len() * 8);
    let mut bytes = Vec::new();
    for sum in sums {
        match sum.is_empty() {
            true => column.append_null(),
            false => {
                sum.encode(&mut bytes);
                column.append_value(&bytes);
            }
        }
    }
    Arc::new(column.finish())
}

impl GroupState for SumDouble {
    fn resize(&mut self, groups: usize) {
        self.sums.resize_with(groups, ExactSum::default);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = column(values, 0, &DataType::Float64)?;
        let more = &mut self.more;
        fold::<Float64Type, _>(&values, groups, filter, &mut self.sums, |sum, value| {
            sum.add(value, more);
            Ok(())
        })
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let (sums, more) = (&mut self.sums, &mut self.more);
        let column = binary(buffers, 0)?;
        let live = live(column.nulls(), filter);
        each(live.as_ref(), groups, |row, group| {
            sums[group].merge_encoded(column.value(row), more)
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let sums = self.emitted(emit);
        let sums = sums
            .iter()
            .map(|sum| (!sum.is_empty()).then(|| sum.rounded()));
        Ok(Arc::new(sums.collect::<Float64Array>()))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![encoded(self.emitted(emit).iter())])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<ExactSum>() + usize::try_from(self.more).unwrap_or(0)
    }
}

/// Which sums track emptiness: the type they are kept in.
#[derive(Clone, Copy)]
pub(super) enum Tracked {
    /// TRY over integers: overflow of a BIGINT is NULL.
    Long,
    /// Decimals of this precision and scale: what does not fit is NULL, and an error of the result
    /// under ANSI.
    Decimal(u8, i8),
}

impl Tracked {
    fn fits(self, sum: i128) -> bool {
        match self {
            Self::Long => i64::try_from(sum).is_ok(),
            Self::Decimal(precision, _) => {
                sum.unsigned_abs() < 10u128.pow(u32::from(precision.min(38)))
            }
        }
    }
}

/// A sum that is NULL if it does not fit, and whose `isEmpty` tells that from no rows.
pub(super) struct SumTracked {
    kind: Tracked,
    /// The buffer's sum is a number of its own rather than of Spark's type, which does not hold
    /// every sum on the way.
    wide: bool,
    ansi: bool,
    sums: Vec<(Whole, bool)>,
}

impl SumTracked {
    pub(super) fn new(kind: Tracked, wide: bool, eval: EvalMode) -> Self {
        Self {
            kind,
            wide,
            ansi: eval == EvalMode::Ansi,
            sums: vec![],
        }
    }

    /// Values as the sum's own integers.
    fn integers(&self, values: &[ArrayRef]) -> Result<ArrayRef> {
        match self.kind {
            // Any integer fits Decimal(19, 0) as its own unscaled value.
            Tracked::Long => column(
                &[column(values, 0, &DataType::Int64)?],
                0,
                &DataType::Decimal128(19, 0),
            ),
            // Same scale, more precision: unscaled values stay as they are.
            Tracked::Decimal(..) => column(
                values,
                0,
                values.first().map_or(&DataType::Null, |v| v.data_type()),
            ),
        }
    }
}

/// Sums that Spark's own type holds, if not more rows than there can be were added.
pub(super) fn narrow(
    sums: impl Iterator<Item = Whole>,
    precision: u8,
    scale: i8,
) -> Result<ArrayRef> {
    let sums = sums.map(|sum| {
        sum.narrow()
            .ok_or_else(|| overflow("A partial sum of decimals has too many rows", ""))
    });
    let sums = sums.collect::<Result<Vec<i128>>>()?;
    Ok(Arc::new(
        Decimal128Array::from(sums).with_precision_and_scale(precision, scale)?,
    ))
}

/// Sums as a column of their encodings.
pub(super) fn wide(sums: impl Iterator<Item = Whole>) -> ArrayRef {
    let mut column = BinaryBuilder::new();
    let mut bytes = Vec::new();
    for sum in sums {
        sum.encode(&mut bytes);
        column.append_value(&bytes);
    }
    Arc::new(column.finish())
}

impl GroupState for SumTracked {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, (Whole::default(), true));
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = self.integers(values)?;
        fold::<Decimal128Type, _>(
            &values,
            groups,
            filter,
            &mut self.sums,
            |(sum, is_empty), value| {
                sum.add(value);
                *is_empty = false;
                Ok(())
            },
        )
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let empty = column(buffers, 1, &DataType::Boolean)?;
        let empty = empty.as_boolean();
        let sums = &mut self.sums;
        merge_whole(buffers, self.wide, groups, filter, |row, group, more| {
            let (sum, is_empty) = &mut sums[group];
            sum.merge(more);
            *is_empty &= empty.is_valid(row) && empty.value(row);
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let kind = self.kind;
        let fails = self.ansi && matches!(kind, Tracked::Decimal(..));
        let sums = emit
            .take_needed(&mut self.sums)
            .into_iter()
            .map(
                |(sum, is_empty)| match sum.narrow().filter(|sum| kind.fits(*sum)) {
                    _ if is_empty => Ok(None),
                    None if fails => Err(overflow("Overflow in sum of decimals", "try_sum")),
                    sum => Ok(sum),
                },
            )
            .collect::<Result<Vec<_>>>()?;
        Ok(match kind {
            Tracked::Long => {
                let longs = sums
                    .into_iter()
                    .map(|sum| sum.and_then(|sum| i64::try_from(sum).ok()));
                Arc::new(longs.collect::<Int64Array>())
            }
            Tracked::Decimal(precision, scale) => {
                Arc::new(Decimal128Array::from(sums).with_precision_and_scale(precision, scale)?)
            }
        })
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let taken = emit.take_needed(&mut self.sums);
        let mut empty = BooleanBuilder::with_capacity(taken.len());
        taken
            .iter()
            .for_each(|(_, is_empty)| empty.append_value(*is_empty));
        let sums = taken.into_iter().map(|(sum, _)| sum);
        let sums = match self.kind {
            Tracked::Decimal(precision, scale) if !self.wide => narrow(sums, precision, scale)?,
            _ => wide(sums),
        };
        Ok(vec![sums, Arc::new(empty.finish())])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<(Whole, bool)>()
    }
}

/// Calls `f(row, group, sum)` with the sums in the first of the buffers' columns.
pub(super) fn merge_whole(
    buffers: &[ArrayRef],
    wide: bool,
    groups: &[usize],
    filter: Option<&BooleanArray>,
    mut f: impl FnMut(usize, usize, Whole),
) -> Result<()> {
    let live = live(None, filter);
    if wide {
        let sums = binary(buffers, 0)?;
        return each(live.as_ref(), groups, |row, group| {
            f(row, group, Whole::decode(sums.value(row))?);
            Ok(())
        });
    }
    let sums = column(
        buffers,
        0,
        buffers
            .first()
            .map_or(&DataType::Null, |sums| sums.data_type()),
    )?;
    let sums = sums
        .as_primitive_opt::<Decimal128Type>()
        .ok_or_else(|| internal_datafusion_err!("a sum's buffer has type {}", sums.data_type()))?;
    each(live.as_ref(), groups, |row, group| {
        let mut sum = Whole::default();
        if sums.is_valid(row) {
            sum.add(sums.value(row));
        }
        f(row, group, sum);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// What `SumDouble` was before it was exact: to compare with.
    #[derive(Default)]
    struct Rounding(Vec<Option<f64>>);

    impl GroupState for Rounding {
        fn resize(&mut self, groups: usize) {
            self.0.resize(groups, None);
        }
        fn update(
            &mut self,
            values: &[ArrayRef],
            groups: &[usize],
            filter: Option<&BooleanArray>,
        ) -> Result<()> {
            let values = column(values, 0, &DataType::Float64)?;
            fold::<Float64Type, _>(&values, groups, filter, &mut self.0, |sum, value| {
                *sum = Some(sum.unwrap_or(0.0) + value);
                Ok(())
            })
        }
        fn merge(
            &mut self,
            buffers: &[ArrayRef],
            groups: &[usize],
            filter: Option<&BooleanArray>,
        ) -> Result<()> {
            self.update(buffers, groups, filter)
        }
        fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
            Ok(Arc::new(Float64Array::from(emit.take_needed(&mut self.0))))
        }
        fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
            Ok(vec![self.evaluate(emit)?])
        }
        fn size(&self) -> usize {
            0
        }
    }

    /// Nanoseconds for a row of updates, for a group of buffers, and for a group that is merged.
    fn timed(state: &mut dyn GroupState, values: &ArrayRef, groups: usize) -> [f64; 3] {
        const BATCH: usize = 8192;
        let rows: Vec<Vec<usize>> = (0..values.len() / BATCH)
            .map(|batch| {
                (0..BATCH)
                    .map(|row| (batch * BATCH + row) * 7919 % groups)
                    .collect()
            })
            .collect();
        state.resize(groups);
        let start = Instant::now();
        for (batch, rows) in rows.iter().enumerate() {
            state
                .update(&[values.slice(batch * BATCH, BATCH)], rows, None)
                .unwrap();
        }
        let updated = start.elapsed().as_nanos() as f64 / (rows.len() * BATCH) as f64;
        let start = Instant::now();
        let buffers = state.buffers(EmitTo::All).unwrap();
        let sent = start.elapsed().as_nanos() as f64 / groups as f64;
        let all: Vec<usize> = (0..groups).collect();
        state.resize(groups);
        let start = Instant::now();
        state.merge(&buffers, &all, None).unwrap();
        [
            updated,
            sent,
            start.elapsed().as_nanos() as f64 / groups as f64,
        ]
    }

    /// `cargo test --release … -- --ignored --nocapture what_exact_sums_cost`
    #[test]
    #[ignore = "it measures"]
    fn what_exact_sums_cost() {
        type Kind = fn(u32) -> f64;
        let rows = 1u32 << 22;
        let draw = |row: u32| row.wrapping_mul(2_654_435_761) >> 8;
        let kinds: [(&str, Kind); 4] = [
            ("whole numbers", |drawn| f64::from(drawn % 1000)),
            ("prices", |drawn| f64::from(drawn % 10_000_000) / 100.0),
            ("from 0 to 1", |drawn| {
                f64::from(drawn) / f64::from(1 << 24) / 1.1
            }),
            ("of all sizes", |drawn| {
                f64::from(drawn % 1000 + 1) * 10f64.powi((drawn % 200).cast_signed() - 100)
            }),
        ];
        for (name, kind) in kinds {
            let values: ArrayRef = Arc::new(Float64Array::from_iter_values(
                (0..rows).map(|row| kind(draw(row))),
            ));
            for groups in [1, 1000, 100_000, 1_000_000] {
                let before = timed(&mut Rounding::default(), &values, groups);
                let now = timed(&mut SumDouble::default(), &values, groups);
                println!(
                    "{name:>14}, {groups:>7} groups: rounding {before:6.2?}, exact {now:6.2?} ns"
                );
            }
        }
        let values: ArrayRef = Arc::new(
            Decimal128Array::from_iter_values(
                (0..rows).map(|row| i128::from(draw(row)) * 1_000_003),
            )
            .with_precision_and_scale(38, 6)
            .unwrap(),
        );
        for groups in [4, 100_000] {
            let now = timed(
                &mut SumTracked::new(Tracked::Decimal(38, 6), true, EvalMode::Ansi),
                &values,
                groups,
            );
            println!("   DECIMAL(38), {groups:>7} groups: {now:6.2?} ns");
        }
    }
}
