//! `ashe_sum`: the sum of values under Seabed's additively symmetric encryption, for engines that
//! hold no key of them. Buffer and result: the state of [`AsheSum`], which says which rows it took.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Int64Array},
    datatypes::{DataType, Int64Type},
};
use coffer_schemes::{AsheSum, FileIds, SchemeError};
use datafusion_common::{DataFusionError, Result, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::state::{GroupState, column, each, live};

/// Sums, one for each group.
#[derive(Default)]
pub(super) struct Sums {
    groups: Vec<AsheSum>,
}

fn refused(error: SchemeError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl GroupState for Sums {
    fn resize(&mut self, groups: usize) {
        self.groups.resize_with(groups, AsheSum::default);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let stored = column(values, 0, &DataType::Int64)?;
        let stored = stored.as_primitive::<Int64Type>();
        let files = values
            .get(1)
            .ok_or_else(|| internal_datafusion_err!("a sum without files"))?;
        let files = FileIds::resolve(files).map_err(refused)?;
        let rows = column(values, 2, &DataType::Int64)?;
        let rows = rows.as_primitive::<Int64Type>();
        let live = live(stored.nulls(), filter);
        let missing =
            || internal_datafusion_err!("a value under ashe came without its file and row");
        each(live.as_ref(), groups, |row, group| {
            let file = files.at(row).ok_or_else(missing)?;
            let number = u64::try_from(rows.value(row)).map_err(|_| missing())?;
            self.groups[group]
                .add(stored.value(row), &file, number)
                .map_err(refused)
        })
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let states = column(buffers, 0, &DataType::Binary)?;
        let states = states.as_binary::<i32>();
        let live = live(states.nulls(), filter);
        each(live.as_ref(), groups, |row, group| {
            let sum = AsheSum::decode(states.value(row)).map_err(refused)?;
            self.groups[group].merge(sum).map_err(refused)
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let groups = emit.take_needed(&mut self.groups);
        let states: BinaryArray = groups.iter().map(|sum| Some(sum.encode())).collect();
        Ok(Arc::new(states))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn size(&self) -> usize {
        self.groups.iter().map(AsheSum::memory).sum()
    }
}

/// How many values each state has: rows of a BINARY column of states of `ashe_sum`.
pub fn ashe_counts(states: &ArrayRef) -> Result<ArrayRef> {
    let states = column(std::slice::from_ref(states), 0, &DataType::Binary)?;
    let counts = states.as_binary::<i32>().iter().map(|state| match state {
        Some(state) => {
            let count = AsheSum::decode(state).map_err(refused)?.count();
            Ok(i64::try_from(count).unwrap_or(i64::MAX))
        }
        None => Ok(0),
    });
    Ok(Arc::new(counts.collect::<Result<Int64Array>>()?))
}
