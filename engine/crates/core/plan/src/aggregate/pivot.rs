//! PIVOT_FIRST: of each of several named values of the first argument the second one. Buffer: one
//! column for each of them.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, BooleanArray, ListArray, new_empty_array},
    buffer::OffsetBuffer,
    datatypes::DataType,
};
use coffer_expr::types::element_field;
use datafusion_common::{Result, ScalarValue, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::state::{GroupState, column, each, live};

pub(super) struct PivotFirst {
    key: DataType,
    value: DataType,
    named: HashMap<ScalarValue, usize>,
    null: ScalarValue,
    /// Of each group so many as there are named values.
    states: Vec<ScalarValue>,
    groups: usize,
    bytes: usize,
}

impl PivotFirst {
    pub(super) fn new(key: DataType, value: DataType, named: &[ScalarValue]) -> Result<Self> {
        let null = ScalarValue::try_from(&value)?;
        let named: HashMap<_, _> = named.iter().cloned().zip(0..).collect();
        Ok(Self {
            key,
            value,
            named,
            null,
            states: vec![],
            groups: 0,
            bytes: 0,
        })
    }

    fn set(&mut self, group: usize, place: usize, values: &ArrayRef, row: usize) -> Result<()> {
        let mut value = ScalarValue::try_from_array(values, row)?;
        // Else a single row would keep its whole batch in memory.
        value.compact();
        self.bytes += value.size();
        let state = self.states.get_mut(group * self.named.len() + place);
        let state = state.ok_or_else(|| internal_datafusion_err!("a pivot of no such group"))?;
        *state = value;
        Ok(())
    }

    fn emitted(&mut self, emit: EmitTo) -> Vec<ScalarValue> {
        let groups = match emit {
            EmitTo::All => self.groups,
            EmitTo::First(groups) => groups.min(self.groups),
        };
        self.groups -= groups;
        let rest = self.states.split_off(groups * self.named.len());
        std::mem::replace(&mut self.states, rest)
    }

    fn array(&self, values: Vec<ScalarValue>) -> Result<ArrayRef> {
        match values.is_empty() {
            true => Ok(new_empty_array(&self.value)),
            false => ScalarValue::iter_to_array(values),
        }
    }
}

impl GroupState for PivotFirst {
    fn resize(&mut self, groups: usize) {
        self.groups = groups;
        self.states
            .resize(groups * self.named.len(), self.null.clone());
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let keys = column(values, 0, &self.key)?;
        let values = column(values, 1, &self.value)?;
        let live = live(values.logical_nulls().as_ref(), filter);
        each(live.as_ref(), groups, |row, group| {
            let key = ScalarValue::try_from_array(&keys, row)?;
            match self.named.get(&key).copied() {
                Some(place) => self.set(group, place, &values, row),
                None => Ok(()),
            }
        })
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        for place in 0..self.named.len() {
            let values = column(buffers, place, &self.value)?;
            let live = live(values.logical_nulls().as_ref(), filter);
            each(live.as_ref(), groups, |row, group| {
                self.set(group, place, &values, row)
            })?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let states = self.emitted(emit);
        let width = self.named.len();
        let groups = states.len().checked_div(width).unwrap_or(0);
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(width, groups));
        let field = element_field(self.value.clone());
        let values = self.array(states)?;
        Ok(Arc::new(ListArray::try_new(field, offsets, values, None)?))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.emitted(emit);
        let width = self.named.len().max(1);
        let column = |place| states.iter().skip(place).step_by(width).cloned().collect();
        (0..self.named.len())
            .map(|place| self.array(column(place)))
            .collect()
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<ScalarValue>() + self.bytes
    }
}
