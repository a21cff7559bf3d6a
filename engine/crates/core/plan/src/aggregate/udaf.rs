//! A call as a DataFusion aggregate function, over the state of a Spark function.

use std::{fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, BooleanArray, StructArray},
    datatypes::{DataType, Field, FieldRef, Fields},
};
use datafusion_common::{Result, ScalarValue, internal_datafusion_err};
use datafusion_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
    function::{AccumulatorArgs, StateFieldsArgs},
};

use super::{function::Function, state::GroupState};

/// One call: the function, what comes in (rows, or buffers to merge) and what goes out of a
/// DataFusion stage that evaluates (results, or buffers as one struct).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Call {
    pub(super) function: Function,
    pub(super) merges: bool,
    pub(super) yields_buffers: bool,
    /// Names of the buffer columns.
    pub(super) names: Vec<String>,
}

impl Call {
    fn fields(&self) -> Fields {
        self.names
            .iter()
            .zip(&self.function.buffer)
            .map(|(name, data_type)| Arc::new(Field::new(name, data_type.clone(), true)))
            .collect()
    }

    pub(super) fn output(&self) -> DataType {
        if self.yields_buffers {
            DataType::Struct(self.fields())
        } else {
            self.function.result.clone()
        }
    }

    fn groups(&self) -> Result<Groups> {
        Ok(Groups {
            call: self.clone(),
            state: self.function.state()?,
        })
    }
}

/// The call in DataFusion's clothes.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(super) struct Udaf {
    call: Call,
    signature: Signature,
}

impl Udaf {
    pub(super) fn new(call: Call) -> Self {
        Self {
            call,
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for Udaf {
    fn name(&self) -> &str {
        &self.call.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.call.output())
    }

    fn state_fields(&self, _: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(self.call.fields().iter().cloned().collect())
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let mut groups = self.call.groups()?;
        groups.state.resize(1);
        Ok(Box::new(OneGroup {
            groups,
            zeros: vec![],
        }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(self.call.groups()?))
    }
}

struct Groups {
    call: Call,
    state: Box<dyn GroupState>,
}

impl Groups {
    fn output(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        if !self.call.yields_buffers {
            return self.state.evaluate(emit);
        }
        let buffers = self.state.buffers(emit)?;
        Ok(Arc::new(StructArray::try_new(
            self.call.fields(),
            buffers,
            None,
        )?))
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.state.resize(total_num_groups);
        if self.call.merges {
            self.state.merge(values, group_indices, opt_filter)
        } else {
            self.state.update(values, group_indices, opt_filter)
        }
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.output(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.state.buffers(emit_to)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.state.resize(total_num_groups);
        self.state.merge(values, group_indices, None)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        // Every row is a group of its own.
        let rows = values
            .first()
            .map(|column| column.len())
            .or_else(|| opt_filter.map(arrow::array::Array::len))
            .ok_or_else(|| internal_datafusion_err!("an aggregate got no columns"))?;
        let mut state = self.call.function.state()?;
        state.resize(rows);
        let groups: Vec<usize> = (0..rows).collect();
        if self.call.merges {
            state.merge(values, &groups, opt_filter)?;
        } else {
            state.update(values, &groups, opt_filter)?;
        }
        state.buffers(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.state.size()
    }
}

/// Aggregation without grouping: the same state with one group.
struct OneGroup {
    groups: Groups,
    zeros: Vec<usize>,
}

impl fmt::Debug for OneGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneGroup")
            .field("call", &self.groups.call)
            .finish_non_exhaustive()
    }
}

impl OneGroup {
    fn zeros(&mut self, columns: &[ArrayRef]) -> usize {
        let rows = columns.first().map_or(0, |column| column.len());
        if self.zeros.len() < rows {
            self.zeros.resize(rows, 0);
        }
        rows
    }
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = self.zeros(values);
        self.groups
            .update_batch(values, &self.zeros[..rows], None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = self.zeros(states);
        self.groups.merge_batch(states, &self.zeros[..rows], 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.groups.output(EmitTo::All)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let buffers = self.groups.state.buffers(EmitTo::All)?;
        buffers
            .iter()
            .map(|buffer| ScalarValue::try_from_array(buffer, 0))
            .collect()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.groups.size() + self.zeros.capacity() * size_of::<usize>()
    }
}
