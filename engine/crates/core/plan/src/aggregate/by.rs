//! MAX_BY and MIN_BY: the value of the row whose other value is the largest or smallest; of several
//! the last. Buffer: `[valueWithExtremumOrdering, extremumOrdering]` (MaxByAndMinBy.scala), both
//! NULL as long as no row had something to go by.

use arrow::{
    array::{Array, ArrayRef, BooleanArray, new_empty_array, new_null_array},
    compute::cast,
    datatypes::DataType,
    row::{RowConverter, SortField},
};
use coffer_expr::comparable;
use datafusion_common::{Result, ScalarValue, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::state::{GroupState, column, each, live};

pub(super) struct By {
    largest: bool,
    value: DataType,
    order: DataType,
    rows: RowConverter,
    null: ScalarValue,
    states: Vec<Option<Best>>,
    bytes: usize,
}

/// What a group has: the bytes of what its rows are ordered by, which compare as it does.
#[derive(Clone)]
struct Best {
    order: Box<[u8]>,
    value: ScalarValue,
}

impl Best {
    fn size(&self) -> usize {
        self.order.len() + self.value.size()
    }
}

impl By {
    pub(super) fn new(largest: bool, value: DataType, order: DataType) -> Result<Self> {
        Ok(Self {
            largest,
            rows: RowConverter::new(vec![SortField::new(order.clone())])?,
            null: ScalarValue::try_from(&value)?,
            value,
            order,
            states: vec![],
            bytes: 0,
        })
    }

    fn take(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = column(columns, 0, &self.value)?;
        let order = comparable(&column(columns, 1, &self.order)?)?;
        let rows = self.rows.convert_columns(std::slice::from_ref(&order))?;
        let live = live(order.logical_nulls().as_ref(), filter);
        let (states, bytes, largest) = (&mut self.states, &mut self.bytes, self.largest);
        each(live.as_ref(), groups, |row, group| {
            let new = rows.row(row);
            let stays = states[group].as_ref().is_some_and(|best| {
                let before: &[u8] = &best.order;
                if largest {
                    before > new.as_ref()
                } else {
                    before < new.as_ref()
                }
            });
            if !stays {
                let mut value = ScalarValue::try_from_array(&values, row)?;
                // Else a single row would keep its whole batch in memory.
                value.compact();
                let best = Best {
                    order: new.as_ref().into(),
                    value,
                };
                *bytes += best.size();
                let before = states[group].replace(best);
                *bytes = bytes.saturating_sub(before.map_or(0, |before| before.size()));
            }
            Ok(())
        })
    }

    fn emitted(&mut self, emit: EmitTo) -> Vec<Option<Best>> {
        let states = emit.take_needed(&mut self.states);
        let freed: usize = states.iter().flatten().map(Best::size).sum();
        self.bytes = self.bytes.saturating_sub(freed);
        states
    }

    fn values(&self, states: &[Option<Best>]) -> Result<ArrayRef> {
        if states.is_empty() {
            return Ok(new_empty_array(&self.value));
        }
        ScalarValue::iter_to_array(states.iter().map(|state| match state {
            Some(best) => best.value.clone(),
            None => self.null.clone(),
        }))
    }

    /// What the states are ordered by, as a column.
    fn orders(&self, states: &[Option<Best>]) -> Result<ArrayRef> {
        let parser = self.rows.parser();
        let known = states
            .iter()
            .flatten()
            .map(|best| parser.parse(&best.order));
        let known = self.rows.convert_rows(known)?.pop();
        let known =
            known.ok_or_else(|| internal_datafusion_err!("rows of one column have none"))?;
        let nothing = new_null_array(&self.order, 1);
        let mut next = 0;
        let positions: Vec<(usize, usize)> = states
            .iter()
            .map(|state| match state {
                Some(_) => {
                    next += 1;
                    (0, next - 1)
                }
                None => (1, 0),
            })
            .collect();
        Ok(arrow::compute::interleave(&[&known, &nothing], &positions)?)
    }
}

impl GroupState for By {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, None);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        self.take(values, groups, filter)
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        self.take(buffers, groups, filter)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let states = self.emitted(emit);
        self.values(&states)
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.emitted(emit);
        let orders = cast(&self.orders(&states)?, &self.order)?;
        Ok(vec![self.values(&states)?, orders])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<Option<Best>>() + self.bytes + self.rows.size()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Float64Array, Int64Array};

    use std::sync::Arc;

    use super::*;

    fn of(largest: bool, values: &[i64], orders: &[Option<f64>]) -> Option<i64> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(values.to_vec())),
            Arc::new(Float64Array::from(orders.to_vec())),
        ];
        let state = || {
            let mut state = By::new(largest, DataType::Int64, DataType::Float64).unwrap();
            state.resize(1);
            state
        };
        let result = |state: &mut By| {
            let result = state.evaluate(EmitTo::All).unwrap();
            let result = result.as_primitive::<arrow::datatypes::Int64Type>();
            result.is_valid(0).then(|| result.value(0))
        };
        let mut whole = state();
        let groups = vec![0; values.len()];
        whole.update(&columns, &groups, None).unwrap();
        let mut merged = state();
        for row in 0..values.len() {
            let mut one = state();
            let columns: Vec<ArrayRef> = columns.iter().map(|c| c.slice(row, 1)).collect();
            one.update(&columns, &[0], None).unwrap();
            let buffers = one.buffers(EmitTo::All).unwrap();
            merged.merge(&buffers, &[0], None).unwrap();
        }
        let whole = result(&mut whole);
        assert_eq!(result(&mut merged), whole);
        whole
    }

    #[test]
    fn the_last_of_the_best() {
        let orders = [Some(1.0), Some(3.0), None, Some(3.0), Some(-1.0)];
        assert_eq!(of(true, &[1, 2, 3, 4, 5], &orders), Some(4));
        assert_eq!(of(false, &[1, 2, 3, 4, 5], &orders), Some(5));
        assert_eq!(of(true, &[1, 2], &[None, None]), None);
    }

    #[test]
    fn nan_is_the_largest_and_zeros_are_one() {
        let other_nan = f64::from_bits(0xfff8_0000_0000_0001);
        let orders = [Some(f64::NAN), Some(f64::INFINITY), Some(other_nan)];
        assert_eq!(of(true, &[1, 2, 3], &orders), Some(3));
        assert_eq!(of(false, &[1, 2], &[Some(-0.0), Some(0.0)]), Some(2));
    }
}
