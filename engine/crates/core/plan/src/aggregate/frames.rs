//! Aggregates of ranges of rows: of whole window partitions, or of the frame of each row.
//!
//! The functions are those of the aggregate operator, which merge partial results: a frame is put
//! together of the nodes of a tree over the rows, each the partial result of two below it. So a
//! result costs the logarithm of its frame's length, whatever the function, and is as exact as that
//! of a group. COUNT and SUM of integers are differences of running totals.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, UInt64Array},
    buffer::NullBuffer,
    compute::take,
    datatypes::{DataType, Int64Type, SchemaRef},
    record_batch::RecordBatch,
};
use coffer_protocol::plan::{AggCall, AggMode, EvalMode};
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::EmitTo;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

use super::{
    arguments,
    collect::Of,
    function::{Function, Kind},
    state::{GroupState, column, overflow},
    translate,
};
use crate::{Unsupported, expressions::Expressions};

/// An aggregate function, with the arguments it has for each row.
#[derive(Debug, Clone)]
pub(crate) struct OverFrames {
    function: Function,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
}

/// The call of a window; none is made over buffers, and none has a filter.
pub(crate) fn over_frames(
    node: u32,
    position: usize,
    call: &AggCall,
    schema: &SchemaRef,
    expressions: &Expressions,
) -> Result<OverFrames, Unsupported> {
    let refuse = |reason: &str| Unsupported::Aggregate {
        node,
        name: call.name.clone(),
        reason: reason.to_owned(),
    };
    if AggMode::try_from(call.mode) != Ok(AggMode::Complete) {
        return Err(refuse("over a window it takes rows and gives results"));
    }
    if call.filter.is_some() {
        return Err(refuse("FILTER over a window"));
    }
    let translated = translate(node, position, call, AggMode::Complete, false)?;
    if matches!(translated.function.kind, Kind::AsheSum) {
        return Err(refuse("not over a window"));
    }
    let arguments = arguments(node, call, &translated, schema, expressions)?;
    Ok(OverFrames {
        function: translated.function,
        arguments,
    })
}

impl OverFrames {
    pub(crate) fn data_type(&self) -> &DataType {
        &self.function.result
    }

    /// For each row the result over all rows of its window partition; `partitions` cover the batch.
    pub(crate) fn whole(
        &self,
        batch: &RecordBatch,
        partitions: &[Range<usize>],
    ) -> Result<ArrayRef> {
        let values = self.values(batch)?;
        let groups: Vec<usize> = partitions
            .iter()
            .enumerate()
            .flat_map(|(group, rows)| std::iter::repeat_n(group, rows.len()))
            .collect();
        let mut state = self.function.state()?;
        state.resize(partitions.len());
        state.update(&values, &groups, None)?;
        let results = state.evaluate(EmitTo::All)?;
        taken(&results, groups.into_iter().map(Some))
    }

    /// For each row the result over the rows of its frame.
    pub(crate) fn each(&self, batch: &RecordBatch, frames: &[Range<usize>]) -> Result<ArrayRef> {
        self.beside(batch, frames, None, None)
    }

    /// The same, of frames that have more rows: those that `before` is made of before their own,
    /// those of `after` after them.
    pub(crate) fn beside(
        &self,
        batch: &RecordBatch,
        frames: &[Range<usize>],
        before: Option<&Partial>,
        after: Option<&Partial>,
    ) -> Result<ArrayRef> {
        let values = self.values(batch)?;
        let whole = before.is_none() && after.is_none();
        let one = || {
            let value = values.first();
            value.ok_or_else(|| internal_datafusion_err!("an aggregate without argument"))
        };
        match &self.function.kind {
            Kind::FirstLast { last, ignore_nulls } => {
                let ends = ends(one()?, frames, *last, *ignore_nulls);
                match whole {
                    true => taken(one()?, ends.into_iter()),
                    false => self.ends_beside(one()?, &ends, before, after),
                }
            }
            Kind::Count if whole => Ok(counts(&values, batch.num_rows(), frames)),
            Kind::SumLong => {
                let ansi = self.function.eval == EvalMode::Ansi;
                sums(one()?, frames, ansi, sum_of(before)?, sum_of(after)?)
            }
            // The tree does not put a frame together in the order of its rows.
            Kind::Collect {
                of: Of::List | Of::Set | Of::Joined(_),
                ..
            } => self.listed(&values, frames),
            _ => self.merged(&values, batch.num_rows(), frames, before, after),
        }
    }

    /// Whether results can be put together of partial results: lists would grow with their rows.
    pub(crate) fn has_partials(&self) -> bool {
        !matches!(self.function.kind, Kind::Collect { .. })
    }

    /// The partial result over all rows.
    pub(crate) fn partial(&self, batch: &RecordBatch) -> Result<Partial> {
        let values = self.values(batch)?;
        if matches!(self.function.kind, Kind::SumLong) {
            let mut sum = Sum::default();
            let values = longs(&values)?;
            values.iter().flatten().for_each(|value| sum.add(value));
            return Ok(Partial::Sum(sum));
        }
        let mut state = self.function.state()?;
        state.resize(1);
        state.update(&values, &vec![0; batch.num_rows()], None)?;
        Ok(Partial::Buffers(state.buffers(EmitTo::All)?))
    }

    /// The partial result over the rows of both, in this order.
    pub(crate) fn joined(&self, first: &Partial, second: &Partial) -> Result<Partial> {
        Ok(match (first, second) {
            (Partial::Sum(first), Partial::Sum(second)) => Partial::Sum(first.then(*second)),
            _ => {
                let mut state = self.function.state()?;
                state.resize(1);
                state.merge(first.buffers()?, &[0], None)?;
                state.merge(second.buffers()?, &[0], None)?;
                Partial::Buffers(state.buffers(EmitTo::All)?)
            }
        })
    }

    /// The result over the rows of a partial result: one row.
    pub(crate) fn result(&self, partial: &Partial) -> Result<ArrayRef> {
        match partial {
            Partial::Sum(sum) => {
                let value = sum.result(self.function.eval == EvalMode::Ansi)?;
                Ok(Arc::new(Int64Array::from(vec![value])))
            }
            Partial::Buffers(buffers) => {
                let mut state = self.function.state()?;
                state.resize(1);
                state.merge(buffers, &[0], None)?;
                state.evaluate(EmitTo::All)
            }
        }
    }

    /// FIRST and LAST: at most one row of each frame, and what lies beyond.
    fn ends_beside(
        &self,
        values: &ArrayRef,
        ends: &[Option<usize>],
        before: Option<&Partial>,
        after: Option<&Partial>,
    ) -> Result<ArrayRef> {
        let mut state = self.function.state()?;
        state.resize(ends.len());
        merge_to_all(state.as_mut(), ends.len(), before)?;
        let (groups, rows): (Vec<usize>, Vec<Option<usize>>) = ends
            .iter()
            .enumerate()
            .filter(|(_, row)| row.is_some())
            .map(|(frame, row)| (frame, *row))
            .unzip();
        state.update(&[taken(values, rows.into_iter())?], &groups, None)?;
        merge_to_all(state.as_mut(), ends.len(), after)?;
        state.evaluate(EmitTo::All)
    }

    fn values(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.arguments
            .iter()
            .map(|argument| argument.evaluate(batch)?.into_array(batch.num_rows()))
            .collect()
    }

    /// Row by row.
    fn listed(&self, values: &[ArrayRef], frames: &[Range<usize>]) -> Result<ArrayRef> {
        let (rows, groups): (Vec<_>, Vec<_>) = frames
            .iter()
            .enumerate()
            .flat_map(|(group, frame)| frame.clone().map(move |row| (Some(row), group)))
            .unzip();
        let values = values
            .iter()
            .map(|values| taken(values, rows.iter().copied()));
        let values = values.collect::<Result<Vec<_>>>()?;
        let mut state = self.function.state()?;
        state.resize(frames.len());
        state.update(&values, &groups, None)?;
        state.evaluate(EmitTo::All)
    }

    /// By the tree: of each level the nodes that frames need, and then the level above it.
    fn merged(
        &self,
        values: &[ArrayRef],
        rows: usize,
        frames: &[Range<usize>],
        before: Option<&Partial>,
        after: Option<&Partial>,
    ) -> Result<ArrayRef> {
        // Rows with the same frame share its result.
        let mut of_row = Vec::with_capacity(frames.len());
        let mut distinct: Vec<Range<usize>> = vec![];
        for frame in frames {
            if distinct.last() != Some(frame) {
                distinct.push(frame.clone());
            }
            of_row.push(Some(distinct.len() - 1));
        }
        let mut results = self.function.state()?;
        let count = distinct.len();
        results.resize(count);
        merge_to_all(results.as_mut(), count, before)?;

        let mut tree = self.function.state()?;
        let mut nodes = rows;
        tree.resize(nodes);
        tree.update(values, &(0..nodes).collect::<Vec<_>>(), None)?;
        let mut level = tree.buffers(EmitTo::All)?;
        // What is left of each frame, in nodes of the level.
        let mut left = distinct;
        let (mut needed, mut of) = (Vec::new(), Vec::new());
        loop {
            needed.clear();
            of.clear();
            let mut more = false;
            for (frame, rest) in left.iter_mut().enumerate() {
                if rest.start < rest.end && rest.start % 2 == 1 {
                    needed.push(Some(rest.start));
                    of.push(frame);
                    rest.start += 1;
                }
                if rest.start < rest.end && rest.end % 2 == 1 {
                    rest.end -= 1;
                    needed.push(Some(rest.end));
                    of.push(frame);
                }
                *rest = rest.start / 2..rest.end / 2;
                more |= rest.start < rest.end;
            }
            if !of.is_empty() {
                let parts = level
                    .iter()
                    .map(|buffer| taken(buffer, needed.iter().copied()))
                    .collect::<Result<Vec<_>>>()?;
                results.merge(&parts, &of, None)?;
            }
            if !more {
                break;
            }
            let above = nodes.div_ceil(2);
            tree.resize(above);
            tree.merge(
                &level,
                &(0..nodes).map(|node| node / 2).collect::<Vec<_>>(),
                None,
            )?;
            level = tree.buffers(EmitTo::All)?;
            nodes = above;
        }
        merge_to_all(results.as_mut(), count, after)?;
        let results = results.evaluate(EmitTo::All)?;
        taken(&results, of_row.into_iter())
    }
}

/// What an aggregate keeps of rows that are not there any more, or not yet.
#[derive(Debug, Clone)]
pub(crate) enum Partial {
    /// Of a sum of integers, which overflows where adding row by row does.
    Sum(Sum),
    /// One row of the function's buffers.
    Buffers(Vec<ArrayRef>),
}

impl Partial {
    fn buffers(&self) -> Result<&[ArrayRef]> {
        match self {
            Self::Buffers(buffers) => Ok(buffers),
            Self::Sum(_) => Err(internal_datafusion_err!("a sum for another function")),
        }
    }

    /// Bytes held.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Sum(_) => 0,
                Self::Buffers(buffers) => {
                    let buffers = buffers.iter();
                    buffers.map(|buffer| buffer.get_array_memory_size()).sum()
                }
            }
    }
}

/// Merges the partial result into each of so many groups.
fn merge_to_all(
    state: &mut dyn GroupState,
    groups: usize,
    partial: Option<&Partial>,
) -> Result<()> {
    let Some(partial) = partial else {
        return Ok(());
    };
    let parts = partial.buffers()?.iter();
    let parts = parts.map(|buffer| taken(buffer, std::iter::repeat_n(Some(0), groups)));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    state.merge(&parts, &(0..groups).collect::<Vec<_>>(), None)
}

/// A sum of integers, and how far it went on the way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    any: bool,
    total: i128,
    least: i128,
    most: i128,
}

impl Sum {
    fn add(&mut self, value: i64) {
        self.any = true;
        self.total += i128::from(value);
        self.least = self.least.min(self.total);
        self.most = self.most.max(self.total);
    }

    fn then(self, next: Self) -> Self {
        Self {
            any: self.any || next.any,
            total: self.total + next.total,
            least: self.least.min(self.total + next.least),
            most: self.most.max(self.total + next.most),
        }
    }

    fn fits(self) -> bool {
        i64::try_from(self.least).is_ok() && i64::try_from(self.most).is_ok()
    }

    /// NULL for no value. Without ANSI it wraps to the low 64 bits.
    fn result(self, ansi: bool) -> Result<Option<i64>> {
        if ansi && !self.fits() {
            return Err(overflow("long overflow", "try_add"));
        }
        Ok(self.any.then_some(self.total as i64))
    }
}

fn sum_of(partial: Option<&Partial>) -> Result<Sum> {
    match partial {
        None => Ok(Sum::default()),
        Some(Partial::Sum(sum)) => Ok(*sum),
        Some(Partial::Buffers(_)) => Err(internal_datafusion_err!("no sum of integers")),
    }
}

fn longs(values: &[ArrayRef]) -> Result<Int64Array> {
    let values = column(values, 0, &DataType::Int64)?;
    let longs = values.as_primitive_opt::<Int64Type>();
    let longs = longs
        .ok_or_else(|| internal_datafusion_err!("a sum of integers of {}", values.data_type()))?;
    Ok(longs.clone())
}

/// The values at those rows; NULL for none.
pub(crate) fn taken(
    values: &ArrayRef,
    rows: impl Iterator<Item = Option<usize>>,
) -> Result<ArrayRef> {
    let rows: UInt64Array = rows
        .map(|row| row.and_then(|row| u64::try_from(row).ok()))
        .collect();
    Ok(take(values, &rows, None)?)
}

/// FIRST and LAST: the row at one end of the frame, or nearest to it whose value is not NULL.
fn ends(
    values: &ArrayRef,
    frames: &[Range<usize>],
    last: bool,
    ignore_nulls: bool,
) -> Vec<Option<usize>> {
    let frames = frames.iter();
    let nulls = values.logical_nulls().filter(|_| ignore_nulls);
    let Some(nulls) = nulls else {
        let ends = frames.map(|frame| match last {
            _ if frame.is_empty() => None,
            true => frame.end.checked_sub(1),
            false => Some(frame.start),
        });
        return ends.collect();
    };
    let valid: Vec<usize> = nulls.valid_indices().collect();
    let ends = frames.map(|frame| {
        let found = match last {
            true => valid.partition_point(|row| *row < frame.end).checked_sub(1),
            false => Some(valid.partition_point(|row| *row < frame.start)),
        };
        valid.get(found?).copied().filter(|row| frame.contains(row))
    });
    ends.collect()
}

/// How many rows there are before each row, and after the last, whose values are all not NULL.
fn running(nulls: Option<&NullBuffer>, rows: usize) -> Vec<i64> {
    let mut total = 0;
    let mut totals = Vec::with_capacity(rows + 1);
    totals.push(0);
    totals.extend((0..rows).map(|row| {
        total += i64::from(nulls.is_none_or(|nulls| nulls.is_valid(row)));
        total
    }));
    totals
}

fn counts(values: &[ArrayRef], rows: usize, frames: &[Range<usize>]) -> ArrayRef {
    let nulls = values.iter().fold(None, |nulls, column| {
        NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
    });
    let totals = running(nulls.as_ref(), rows);
    let counts = frames
        .iter()
        .map(|frame| totals[frame.end] - totals[frame.start]);
    Arc::new(Int64Array::from_iter_values(counts))
}

/// SUM of integers, NULL for none. It wraps; under ANSI it fails, where adding the rows of a frame
/// one by one overflows.
fn sums(
    values: &ArrayRef,
    frames: &[Range<usize>],
    ansi: bool,
    before: Sum,
    after: Sum,
) -> Result<ArrayRef> {
    let values = longs(std::slice::from_ref(values))?;
    let known = running(values.nulls(), values.len());
    let mut total = 0i128;
    let mut totals = vec![0];
    for row in 0..values.len() {
        if values.is_valid(row) {
            total += i128::from(values.value(row));
        }
        totals.push(total);
    }
    let fits = |sum: i128| i64::try_from(sum).is_ok();
    let least = totals.iter().min().copied().unwrap_or_default();
    let most = totals.iter().max().copied().unwrap_or_default();
    let beyond = [before.least, after.least, before.most, after.most];
    let safe = !ansi || beyond == [0; 4] && fits(most - least) && fits(least - most);
    let sums = frames.iter().map(|frame| {
        let start = totals[frame.start];
        if !safe
            && totals[frame.clone()]
                .iter()
                .skip(1)
                .chain([&totals[frame.end]])
                .any(|total| !fits(before.total + total - start))
        {
            return Err(overflow("long overflow", "try_add"));
        }
        let total = totals[frame.end] - start;
        let own = Sum {
            any: known[frame.end] > known[frame.start],
            total,
            least: total.min(0),
            most: total.max(0),
        };
        before.then(own).then(after).result(ansi)
    });
    Ok(Arc::new(sums.collect::<Result<Int64Array>>()?))
}

#[cfg(test)]
mod tests;
