//! BITMAP_CONSTRUCT_AGG, BITMAP_OR_AGG and BITMAP_AND_AGG. Buffer: `[bitmap]`, 4,096 bytes.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray},
    datatypes::{DataType, Int64Type},
};
use coffer_expr::SparkError;
use datafusion_common::{DataFusionError, Result};
use datafusion_expr::EmitTo;

use super::state::{GroupState, binary, column, each, live};

const BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bitmap {
    /// The bits at these positions.
    Construct,
    Or,
    And,
}

impl Bitmap {
    pub(super) fn named(name: &str) -> Option<(Self, DataType)> {
        match name {
            "bitmap_construct_agg" => Some((Self::Construct, DataType::Int64)),
            "bitmap_or_agg" => Some((Self::Or, DataType::Binary)),
            "bitmap_and_agg" => Some((Self::And, DataType::Binary)),
            _ => None,
        }
    }

    /// The bytes of a bitmap of nothing.
    fn start(self) -> u8 {
        match self {
            Self::Construct | Self::Or => 0,
            Self::And => u8::MAX,
        }
    }
}

pub(super) struct Bitmaps {
    of: Bitmap,
    states: Vec<Option<Box<[u8]>>>,
    held: usize,
}

impl Bitmaps {
    pub(super) fn new(of: Bitmap) -> Self {
        Self {
            of,
            states: vec![],
            held: 0,
        }
    }

    fn bytes(&mut self, group: usize) -> &mut [u8] {
        let (start, held) = (self.of.start(), &mut self.held);
        self.states[group].get_or_insert_with(|| {
            *held += 1;
            vec![start; BYTES].into_boxed_slice()
        })
    }
}

impl GroupState for Bitmaps {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, None);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        if self.of != Bitmap::Construct {
            return self.merge(values, groups, filter);
        }
        let values = column(values, 0, &DataType::Int64)?;
        let positions = values.as_primitive::<Int64Type>();
        let live = live(positions.nulls(), filter);
        each(live.as_ref(), groups, |row, group| {
            let position = positions.value(row);
            let place = usize::try_from(position).ok();
            match place.filter(|place| *place < BYTES * 8) {
                Some(place) => {
                    self.bytes(group)[place / 8] |= 1 << (place % 8);
                    Ok(())
                }
                None => Err(DataFusionError::External(Box::new(SparkError {
                    class: "INVALID_BITMAP_POSITION",
                    message: format!(
                        "The 0-indexed bitmap position {position} is out of bounds. The bitmap \
                            has {} bits ({BYTES} bytes).",
                        BYTES * 8
                    ),
                }))),
            }
        })
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let bitmaps = binary(buffers, 0)?;
        let live = live(bitmaps.nulls(), filter);
        let and = self.of == Bitmap::And;
        each(live.as_ref(), groups, |row, group| {
            let other = bitmaps.value(row);
            let (both, beyond) = self.bytes(group).split_at_mut(other.len().min(BYTES));
            let pairs = both.iter_mut().zip(other);
            // Where the other is shorter its bits are 0.
            if and {
                pairs.for_each(|(byte, other)| *byte &= other);
                beyond.fill(0);
            } else {
                pairs.for_each(|(byte, other)| *byte |= other);
            }
            Ok(())
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let states = emit.take_needed(&mut self.states);
        self.held -= states.iter().flatten().count();
        let nothing = [self.of.start(); BYTES];
        let bytes = states
            .iter()
            .map(|state| state.as_deref().unwrap_or(&nothing));
        Ok(Arc::new(BinaryArray::from_iter_values(bytes)))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<Option<Box<[u8]>>>() + self.held * BYTES
    }
}
