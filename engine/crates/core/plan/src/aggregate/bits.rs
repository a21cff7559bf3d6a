//! BIT_AND, BIT_OR and BIT_XOR of integers. Buffer: `[bit]`, NULL as long as there was no value.

use arrow::{
    array::{ArrayRef, BooleanArray, Int64Array},
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use datafusion_common::Result;
use datafusion_expr::EmitTo;

use super::state::{GroupState, column, fold};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bits {
    And,
    Or,
    Xor,
}

impl Bits {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "bit_and" => Some(Self::And),
            "bit_or" => Some(Self::Or),
            "bit_xor" => Some(Self::Xor),
            _ => None,
        }
    }
}

pub(super) struct BitState {
    of: Bits,
    data_type: DataType,
    // Narrower numbers keep their sign: the upper bits are copies of it under all three.
    states: Vec<Option<i64>>,
}

impl BitState {
    pub(super) fn new(of: Bits, data_type: DataType) -> Self {
        Self {
            of,
            data_type,
            states: vec![],
        }
    }
}

impl GroupState for BitState {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, None);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = column(values, 0, &DataType::Int64)?;
        let of = self.of;
        fold::<Int64Type, _>(&values, groups, filter, &mut self.states, |state, value| {
            *state = Some(match (*state, of) {
                (None, _) => value,
                (Some(before), Bits::And) => before & value,
                (Some(before), Bits::Or) => before | value,
                (Some(before), Bits::Xor) => before ^ value,
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
        let states = emit.take_needed(&mut self.states);
        let values: Int64Array = states.into_iter().collect();
        Ok(cast(&values, &self.data_type)?)
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<Option<i64>>()
    }
}
