//! The statistics of doubles: sums of powers and products, from which a result is made. Buffer:
//! `[n, Σ…, …]` in the place of Spark's averages and central moments: the count as DOUBLE and exact
//! sums as BINARY. Results are rounded from those, so they depend on no order.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, new_null_array},
    buffer::NullBuffer,
    datatypes::{DataType, Float64Type},
};
use coffer_protocol::plan::EvalMode;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::{
    exact::ExactSum,
    state::{GroupState, binary, column, each, fold, live},
    sum::{encoded, memory},
};

/// What is made of `A` columns of doubles, by `N` sums. Rows that have all of them count.
pub(super) trait Statistic<const A: usize, const N: usize>: Copy + Send + Sync {
    /// The sums that the buffer has: the first so many.
    fn sent(self) -> usize {
        N
    }

    /// Columns of Spark's buffer that nothing is in.
    fn spare(self) -> usize {
        0
    }

    /// Adds a row to the sums; bytes that those take are added to `more`.
    fn add(self, row: [f64; A], sums: &mut [ExactSum; N], more: &mut isize);

    /// The result of a group.
    fn result(self, of: &GroupSums<N>, eval: EvalMode) -> Result<Option<f64>>;

    /// The buffer's types.
    fn buffer(self) -> Vec<DataType> {
        let sums = std::iter::repeat_n(DataType::Binary, self.sent() + self.spare());
        std::iter::once(DataType::Float64).chain(sums).collect()
    }
}

/// A group: how many rows, and their sums.
#[derive(Clone)]
pub(super) struct GroupSums<const N: usize> {
    pub(super) n: u64,
    pub(super) sums: [ExactSum; N],
}

impl<const N: usize> Default for GroupSums<N> {
    fn default() -> Self {
        Self {
            n: 0,
            sums: std::array::from_fn(|_| ExactSum::default()),
        }
    }
}

pub(super) struct SumStates<S, const A: usize, const N: usize> {
    of: S,
    pub(super) eval: EvalMode,
    states: Vec<GroupSums<N>>,
    /// Bytes of sums that two doubles do not hold.
    more: isize,
}

impl<S, const A: usize, const N: usize> SumStates<S, A, N> {
    pub(super) fn of(of: S, eval: EvalMode) -> Self {
        Self {
            of,
            eval,
            states: vec![],
            more: 0,
        }
    }

    fn emitted(&mut self, emit: EmitTo) -> Vec<GroupSums<N>> {
        let states = emit.take_needed(&mut self.states);
        self.more -= memory(states.iter().flat_map(|state| &state.sums));
        states
    }
}

impl<S: Statistic<A, N>, const A: usize, const N: usize> GroupState for SumStates<S, A, N> {
    fn resize(&mut self, groups: usize) {
        self.states.resize_with(groups, GroupSums::default);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let none = || internal_datafusion_err!("a column of doubles is none");
        let mut valid = None;
        let mut columns = Vec::with_capacity(A);
        for index in 0..A {
            let column = column(values, index, &DataType::Float64)?;
            valid = NullBuffer::union(valid.as_ref(), column.nulls());
            let column = column.as_primitive_opt::<Float64Type>().ok_or_else(none)?;
            columns.push(column.values().clone());
        }
        let columns: [_; A] = columns.try_into().map_err(|_| none())?;
        let (of, states, more) = (self.of, &mut self.states, &mut self.more);
        each(
            live(valid.as_ref(), filter).as_ref(),
            groups,
            |row, group| {
                let state = &mut states[group];
                state.n += 1;
                of.add(
                    columns.each_ref().map(|column| column[row]),
                    &mut state.sums,
                    more,
                );
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
        let (states, more) = (&mut self.states, &mut self.more);
        let counts = column(buffers, 0, &DataType::Float64)?;
        fold::<Float64Type, _>(&counts, groups, filter, states, |state, n| {
            // A whole number: it was one when it was sent.
            state.n = state.n.saturating_add(n as u64);
            Ok(())
        })?;
        for sum in 0..self.of.sent() {
            let encoded = binary(buffers, sum + 1)?;
            let live = live(encoded.nulls(), filter);
            each(live.as_ref(), groups, |row, group| {
                states[group].sums[sum].merge_encoded(encoded.value(row), more)
            })?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (of, eval) = (self.of, self.eval);
        let states = self.emitted(emit);
        let results = states.iter().map(|state| of.result(state, eval));
        Ok(Arc::new(results.collect::<Result<Float64Array>>()?))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.emitted(emit);
        let counts = states.iter().map(|state| Some(state.n as f64));
        let counts: ArrayRef = Arc::new(counts.collect::<Float64Array>());
        let sums = (0..self.of.sent()).map(|sum| encoded(states.iter().map(|s| &s.sums[sum])));
        let spare = (0..self.of.spare()).map(|_| new_null_array(&DataType::Binary, states.len()));
        Ok(std::iter::once(counts).chain(sums).chain(spare).collect())
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<GroupSums<N>>() + usize::try_from(self.more).unwrap_or(0)
    }
}
