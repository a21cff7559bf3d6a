//! FIRST and LAST, with or without IGNORE NULLS. Buffer: `[value, valueSet]`.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, new_empty_array},
    datatypes::DataType,
};
use datafusion_common::{Result, ScalarValue, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::state::{GroupState, column, each, live};

pub(super) struct FirstLast {
    last: bool,
    ignore_nulls: bool,
    data_type: DataType,
    null: ScalarValue,
    states: Vec<(ScalarValue, bool)>,
    bytes: usize,
}

impl FirstLast {
    pub(super) fn new(last: bool, ignore_nulls: bool, data_type: DataType) -> Result<Self> {
        let null = ScalarValue::try_from(&data_type)?;
        Ok(Self {
            last,
            ignore_nulls,
            data_type,
            null,
            states: vec![],
            bytes: 0,
        })
    }

    /// The emitted groups, which no longer count as held.
    fn emitted(&mut self, emit: EmitTo) -> Vec<(ScalarValue, bool)> {
        let states = emit.take_needed(&mut self.states);
        let freed: usize = states
            .iter()
            .filter(|(_, set)| *set)
            .map(|(value, _)| value.size())
            .sum();
        self.bytes = self.bytes.saturating_sub(freed);
        states
    }

    fn values(&self, values: Vec<ScalarValue>) -> Result<ArrayRef> {
        if values.is_empty() {
            return Ok(new_empty_array(&self.data_type));
        }
        ScalarValue::iter_to_array(values)
    }

    /// Takes the deciding row of each group; `counts` says whether a row sets the value.
    fn take(
        &mut self,
        values: &ArrayRef,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        counts: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let live = live(None, filter);
        let (states, last) = (&self.states, self.last);
        if let [(_, set)] = states.as_slice() {
            let decides =
                |row: &usize| live.as_ref().is_none_or(|live| live.is_valid(*row)) && counts(*row);
            let row = match (last, set) {
                (true, _) => (0..groups.len()).rev().find(decides),
                (false, false) => (0..groups.len()).find(decides),
                (false, true) => None,
            };
            return row.map_or(Ok(()), |row| self.set(0, values, row));
        }
        let mut chosen: HashMap<usize, usize> = HashMap::new();
        each(live.as_ref(), groups, |row, group| {
            if (last || !states[group].1) && counts(row) {
                if last {
                    chosen.insert(group, row);
                } else {
                    chosen.entry(group).or_insert(row);
                }
            }
            Ok(())
        })?;
        chosen
            .into_iter()
            .try_for_each(|(group, row)| self.set(group, values, row))
    }

    fn set(&mut self, group: usize, values: &ArrayRef, row: usize) -> Result<()> {
        let mut value = ScalarValue::try_from_array(values, row)?;
        // Else a single row would keep its whole batch in memory.
        value.compact();
        self.bytes += value.size();
        let (held, set) = std::mem::replace(&mut self.states[group], (value, true));
        self.bytes = self.bytes.saturating_sub(if set { held.size() } else { 0 });
        Ok(())
    }
}

impl GroupState for FirstLast {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, (self.null.clone(), false));
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = column(values, 0, &self.data_type)?;
        let ignore_nulls = self.ignore_nulls;
        let nulls = values.logical_nulls();
        self.take(&values, groups, filter, |row| {
            !ignore_nulls || nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
        })
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = column(buffers, 0, &self.data_type)?;
        let set = column(buffers, 1, &DataType::Boolean)?;
        let set = set
            .as_boolean_opt()
            .ok_or_else(|| internal_datafusion_err!("valueSet is not a boolean"))?;
        self.take(&values, groups, filter, |row| {
            set.is_valid(row) && set.value(row)
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let values = self
            .emitted(emit)
            .into_iter()
            .map(|(value, _)| value)
            .collect();
        self.values(values)
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (values, set): (Vec<ScalarValue>, Vec<bool>) = self.emitted(emit).into_iter().unzip();
        Ok(vec![
            self.values(values)?,
            Arc::new(BooleanArray::from(set)),
        ])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<(ScalarValue, bool)>() + self.bytes
    }
}
