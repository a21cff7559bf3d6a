//! COUNT_MIN_SKETCH: Spark's CountMinSketch. Buffer and result: `[sketch]`, its bytes. Counts are
//! added up, so no order matters.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray},
    datatypes::{DataType, Int64Type},
};
use coffer_expr::murmur3;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::state::{GroupState, binary, column, each, live};

/// Counters of a sketch that a group may have.
const MOST: i64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sketch {
    depth: i32,
    width: i32,
    seed: i32,
}

impl Sketch {
    pub(super) fn new(depth: i64, width: i64, seed: i64) -> Option<Self> {
        let fits = depth > 0 && width > 0 && depth.checked_mul(width)? <= MOST;
        Some(Self {
            depth: i32::try_from(depth).ok().filter(|_| fits)?,
            width: i32::try_from(width).ok()?,
            seed: i32::try_from(seed).ok()?,
        })
    }

    /// The factors of its hash functions: `java.util.Random.nextInt(Integer.MAX_VALUE)`.
    fn factors(self) -> Vec<i64> {
        const MULTIPLIER: u64 = 0x5_deec_e66d;
        const MASK: u64 = (1 << 48) - 1;
        let mut state = (i64::from(self.seed).cast_unsigned() ^ MULTIPLIER) & MASK;
        let mut next = || {
            state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xb) & MASK;
            i64::from((state >> 17) as u32)
        };
        let bound = i64::from(i32::MAX);
        let mut factor = || {
            loop {
                // Of 2^31 numbers the last one has no place.
                let drawn = next();
                if drawn < bound {
                    return drawn;
                }
            }
        };
        (0..self.depth).map(|_| factor()).collect()
    }

    fn cells(self) -> usize {
        usize::try_from(i64::from(self.depth) * i64::from(self.width)).unwrap_or_default()
    }
}

/// How many values, and the counters row by row.
type Counts = (i64, Box<[i64]>);

pub(super) struct Sketches {
    sketch: Sketch,
    factors: Vec<i64>,
    of: DataType,
    states: Vec<Option<Counts>>,
    held: usize,
}

impl Sketches {
    pub(super) fn new(sketch: Sketch, of: DataType) -> Self {
        Self {
            sketch,
            factors: sketch.factors(),
            of,
            states: vec![],
            held: 0,
        }
    }

    fn counts(&mut self, group: usize) -> &mut Counts {
        let (cells, held) = (self.sketch.cells(), &mut self.held);
        self.states[group].get_or_insert_with(|| {
            *held += 1;
            (0, vec![0; cells].into_boxed_slice())
        })
    }

    fn count(&mut self, group: usize, bucket: impl Fn(usize, i64) -> i32) {
        let width = usize::try_from(self.sketch.width).unwrap_or_default();
        let factors = std::mem::take(&mut self.factors);
        let (total, cells) = self.counts(group);
        *total += 1;
        for (row, factor) in factors.iter().enumerate() {
            let bucket = usize::try_from(bucket(row, *factor)).unwrap_or_default();
            cells[row * width + bucket] += 1;
        }
        self.factors = factors;
    }

    fn head(&self) -> Vec<u8> {
        let mut head = Vec::new();
        head.extend(self.sketch.depth.to_be_bytes());
        head.extend(self.sketch.width.to_be_bytes());
        for factor in &self.factors {
            head.extend(factor.to_be_bytes());
        }
        head
    }
}

impl GroupState for Sketches {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, None);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let width = self.sketch.width;
        if matches!(self.of, DataType::Utf8 | DataType::Binary) {
            let values = column(values, 0, &DataType::Binary)?;
            let values = values.as_binary::<i32>();
            let live = live(values.nulls(), filter);
            return each(live.as_ref(), groups, |row, group| {
                let first = murmur3(values.value(row), 0);
                let second = murmur3(values.value(row), first);
                self.count(group, |at, _| {
                    let at = i32::try_from(at).unwrap_or_default();
                    (first.wrapping_add(at.wrapping_mul(second)) % width).wrapping_abs()
                });
                Ok(())
            });
        }
        let values = column(values, 0, &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>();
        let live = live(values.nulls(), filter);
        each(live.as_ref(), groups, |row, group| {
            let value = values.value(row);
            self.count(group, |_, factor| {
                let hash = factor.wrapping_mul(value);
                let hash = hash.wrapping_add(hash >> 32) & i64::from(i32::MAX);
                i32::try_from(hash).unwrap_or_default() % width
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
        let sketches = binary(buffers, 0)?;
        let live = live(sketches.nulls(), filter);
        let head = self.head();
        each(live.as_ref(), groups, |row, group| {
            let long = |bytes: &[u8; 8]| i64::from_be_bytes(*bytes);
            let bytes = sketches.value(row).strip_prefix(&1_i32.to_be_bytes());
            let parts = bytes.and_then(|bytes| {
                let (total, rest) = bytes.split_first_chunk::<8>()?;
                let (cells, more) = rest.strip_prefix(head.as_slice())?.as_chunks::<8>();
                more.is_empty().then_some((long(total), cells))
            });
            let (total, other) = parts
                .filter(|(_, cells)| cells.len() == self.sketch.cells())
                .ok_or_else(|| internal_datafusion_err!("a sketch of another kind"))?;
            let (sum, cells) = self.counts(group);
            *sum = sum.wrapping_add(total);
            for (cell, other) in cells.iter_mut().zip(other) {
                *cell = cell.wrapping_add(long(other));
            }
            Ok(())
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let states = emit.take_needed(&mut self.states);
        self.held -= states.iter().flatten().count();
        let (head, cells) = (self.head(), self.sketch.cells());
        let sketches = states.into_iter().map(|state| {
            let (total, cells) = state.unwrap_or_else(|| (0, vec![0; cells].into_boxed_slice()));
            let mut bytes = 1_i32.to_be_bytes().to_vec();
            bytes.extend(total.to_be_bytes());
            bytes.extend(&head);
            for cell in &cells {
                bytes.extend(cell.to_be_bytes());
            }
            bytes
        });
        Ok(Arc::new(BinaryArray::from_iter_values(sketches)))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<Option<Counts>>()
            + self.held * self.sketch.cells() * size_of::<i64>()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};

    use super::*;

    fn hex(array: &ArrayRef) -> String {
        let bytes = array.as_binary::<i32>().value(0).iter();
        bytes.map(|byte| format!("{byte:02X}")).collect()
    }

    /// Spark's documentation has this one.
    #[test]
    fn a_sketch_is_sparks() {
        let mut state = Sketches::new(Sketch::new(1, 4, 1).unwrap(), DataType::Int64);
        state.resize(1);
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 1]));
        state.update(&[values], &[0; 3], None).unwrap();
        assert_eq!(
            hex(&state.evaluate(EmitTo::All).unwrap()),
            "0000000100000000000000030000000100000004000000005D8D6AB9000000000000000000000000000000\
             0200000000000000010000000000000000"
        );
    }

    #[test]
    fn sketches_merge_to_what_rows_give() {
        let of = Sketch::new(3, 7, -5).unwrap();
        let texts: Vec<String> = (0..50).map(|i| format!("text {i}")).collect();
        let one = |texts: &[String]| {
            let mut state = Sketches::new(of, DataType::Utf8);
            state.resize(1);
            let values: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
            state
                .update(&[values], &vec![0; texts.len()], None)
                .unwrap();
            state.evaluate(EmitTo::All).unwrap()
        };
        let mut merged = Sketches::new(of, DataType::Utf8);
        merged.resize(1);
        for half in texts.chunks(20) {
            merged.merge(&[one(half)], &[0], None).unwrap();
        }
        assert_eq!(
            hex(&merged.evaluate(EmitTo::All).unwrap()),
            hex(&one(&texts))
        );
    }
}
