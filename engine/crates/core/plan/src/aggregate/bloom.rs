//! `bloom_filter_agg`, which Spark plans below a join: a Bloom filter of BIGINTs. Buffer and
//! result: `[filter]`, its bytes; NULL of none.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray},
    datatypes::{DataType, Int64Type},
};
use coffer_expr::BloomShape;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::state::{GroupState, binary, column, each, live};

pub(super) struct Blooms {
    shape: BloomShape,
    states: Vec<Option<Box<[u64]>>>,
    held: usize,
}

impl Blooms {
    pub(super) fn new(shape: BloomShape) -> Self {
        Self {
            shape,
            states: vec![],
            held: 0,
        }
    }

    fn words(&mut self, group: usize) -> &mut [u64] {
        let (words, held) = (self.shape.words(), &mut self.held);
        self.states[group].get_or_insert_with(|| {
            *held += 1;
            vec![0; words].into_boxed_slice()
        })
    }
}

impl GroupState for Blooms {
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
        let values = values.as_primitive::<Int64Type>();
        let live = live(values.nulls(), filter);
        let shape = self.shape;
        each(live.as_ref(), groups, |row, group| {
            let words = self.words(group);
            for (word, bit) in shape.places(values.value(row)) {
                words[word] |= 1 << bit;
            }
            Ok(())
        })
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let filters = binary(buffers, 0)?;
        let live = live(filters.nulls(), filter);
        let shape = self.shape;
        each(live.as_ref(), groups, |row, group| {
            let (_, other) = BloomShape::parse(filters.value(row))
                .filter(|(of, _)| *of == shape)
                .ok_or_else(|| internal_datafusion_err!("a filter of another shape"))?;
            for (word, other) in self.words(group).iter_mut().zip(other) {
                *word |= u64::from_be_bytes(*other);
            }
            Ok(())
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let states = emit.take_needed(&mut self.states);
        self.held -= states.iter().flatten().count();
        let head = self.shape.head();
        let filters = states.into_iter().map(|state| {
            state.map(|words| {
                let mut filter = Vec::with_capacity(head.len() + words.len() * 8);
                filter.extend(head);
                filter.extend(words.iter().flat_map(|word| word.to_be_bytes()));
                filter
            })
        });
        Ok(Arc::new(BinaryArray::from_iter(filters)))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<Option<Box<[u64]>>>()
            + self.held * self.shape.words() * size_of::<u64>()
    }
}
