//! COUNT: rows whose arguments are all not NULL. Buffer: `[count LONG]`.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray, Int64Array},
    buffer::NullBuffer,
    datatypes::Int64Type,
};
use datafusion_common::Result;
use datafusion_expr::EmitTo;

use super::state::{GroupState, each, fold, live};

#[derive(Default)]
pub(super) struct Count {
    counts: Vec<i64>,
}

impl GroupState for Count {
    fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let valid = values
            .iter()
            .fold(None, |valid: Option<NullBuffer>, column| {
                NullBuffer::union(valid.as_ref(), column.logical_nulls().as_ref())
            });
        let live = live(valid.as_ref(), filter);
        let counts = &mut self.counts;
        each(live.as_ref(), groups, |_, group| {
            counts[group] += 1;
            Ok(())
        })
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let Some(counts) = buffers.first() else {
            return Ok(());
        };
        fold::<Int64Type, _>(counts, groups, filter, &mut self.counts, |count, more| {
            *count = count.wrapping_add(more);
            Ok(())
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(
            emit.take_needed(&mut self.counts),
        )))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn size(&self) -> usize {
        self.counts.capacity() * size_of::<i64>()
    }
}
