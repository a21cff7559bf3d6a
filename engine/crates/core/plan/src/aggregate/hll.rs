//! APPROX_COUNT_DISTINCT: Spark's HyperLogLog++, register for register. Buffer: words of ten
//! registers of six bits, as Spark packs them. A register is the greatest of what its values say,
//! so neither the order of the rows nor that of merging matters.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array},
    datatypes::{DataType, Int64Type},
};
use coffer_expr::xx_hash64;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::{
    hll_tables::{BIASES, RAW_ESTIMATES},
    state::{GroupState, column, each, live},
};

const SEED: i64 = 42;
const BITS: usize = 6;
const MASK: u64 = (1 << BITS) - 1;
const IN_WORD: usize = 64 / BITS;
/// The points between which a bias is interpolated.
const NEAREST: usize = 6;
/// Up to these estimates, by precision from 4, linear counting is the better.
const THRESHOLDS: [f64; 15] = [
    10.0, 20.0, 40.0, 80.0, 220.0, 400.0, 900.0, 1800.0, 3100.0, 6500.0, 15500.0, 20000.0, 50000.0,
    120_000.0, 350_000.0,
];

/// How many bits choose a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Precision(u32);

impl Precision {
    /// With more than 18 bits Spark leaves the tables; a group would take a megabyte.
    pub(super) fn new(bits: i64) -> Option<Self> {
        let bits = u32::try_from(bits).ok()?;
        (4..=18).contains(&bits).then_some(Self(bits))
    }

    fn registers(self) -> usize {
        1 << self.0
    }

    pub(super) fn words(self) -> usize {
        self.registers() / IN_WORD + 1
    }

    /// The register of a hash and what the hash says of it.
    fn place(self, hash: u64) -> (usize, u64) {
        let index = usize::try_from(hash >> (64 - self.0)).unwrap_or_default();
        let padded = (hash << self.0) | (1 << (self.0 - 1));
        (index, u64::from(padded.leading_zeros()) + 1)
    }

    #[expect(clippy::cast_precision_loss, reason = "Spark computes in doubles")]
    fn estimate(self, words: &[u64]) -> i64 {
        let (mut inverse, mut zeros) = (0.0, 0_u32);
        for index in 0..self.registers() {
            let register = (words[index / IN_WORD] >> (BITS * (index % IN_WORD))) & MASK;
            inverse += 1.0 / (1_u64 << register) as f64;
            zeros += u32::from(register == 0);
        }
        let m = self.registers() as f64;
        let alpha = match self.0 {
            4 => 0.673 * m * m,
            5 => 0.697 * m * m,
            6 => 0.709 * m * m,
            _ => (0.7213 / (1.0 + 1.079 / m)) * m * m,
        };
        let raw = alpha / inverse;
        let linear = (zeros > 0).then(|| m * (m / f64::from(zeros)).ln());
        let row = (self.0 - 4) as usize;
        let estimate = match linear {
            Some(linear) if linear <= THRESHOLDS[row] || raw <= 2.5 * m => linear,
            _ if raw < 5.0 * m => raw - bias(raw, RAW_ESTIMATES[row], BIASES[row]),
            _ => raw,
        };
        // `Math.round`: of two as near the greater.
        #[expect(clippy::cast_possible_truncation)]
        let rounded = (estimate + 0.5).floor() as i64;
        rounded
    }
}

#[expect(clippy::cast_precision_loss, reason = "of six")]
fn bias(raw: f64, estimates: &[f64], biases: &[f64]) -> f64 {
    let nearest = estimates.partition_point(|estimate| *estimate < raw);
    let distance = |place: usize| (raw - estimates[place]).powi(2);
    let mut low = (nearest + 1).saturating_sub(NEAREST);
    let mut high = (low + NEAREST).min(estimates.len());
    while high < estimates.len() && distance(high) < distance(low) {
        low += 1;
        high += 1;
    }
    let sum = biases[low..high].iter().fold(0.0, |sum, bias| sum + bias);
    sum / (high - low) as f64
}

pub(super) struct Distinct {
    precision: Precision,
    of: DataType,
    states: Vec<Option<Box<[u64]>>>,
    held: usize,
}

impl Distinct {
    pub(super) fn new(precision: Precision, of: DataType) -> Self {
        Self {
            precision,
            of,
            states: vec![],
            held: 0,
        }
    }

    fn words(&mut self, group: usize) -> &mut [u64] {
        let (words, held) = (self.precision.words(), &mut self.held);
        self.states[group].get_or_insert_with(|| {
            *held += 1;
            vec![0; words].into_boxed_slice()
        })
    }

    fn taken(&mut self, emit: EmitTo) -> Vec<Option<Box<[u64]>>> {
        let states = emit.take_needed(&mut self.states);
        self.held -= states.iter().flatten().count();
        states
    }
}

/// The greater of a register's two values.
fn raise(words: &mut [u64], index: usize, to: u64) {
    let (word, shift) = (&mut words[index / IN_WORD], BITS * (index % IN_WORD));
    if to > (*word >> shift) & MASK {
        *word = (*word & !(MASK << shift)) | (to << shift);
    }
}

impl GroupState for Distinct {
    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, None);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = column(values, 0, &self.of)?;
        let live = live(values.logical_nulls().as_ref(), filter);
        let hash = xx_hash64(&values, SEED);
        each(live.as_ref(), groups, |row, group| {
            let (index, to) = self.precision.place(hash(row).cast_unsigned());
            raise(self.words(group), index, to);
            Ok(())
        })
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let words = buffers
            .iter()
            .map(|words| words.as_primitive_opt::<Int64Type>())
            .collect::<Option<Vec<_>>>()
            .filter(|words| words.len() == self.precision.words())
            .ok_or_else(|| internal_datafusion_err!("registers are no LONGs"))?;
        let live = live(None, filter);
        let registers = self.precision.registers();
        each(live.as_ref(), groups, |row, group| {
            let into = self.words(group);
            for (word, column) in words.iter().enumerate() {
                let other = column.value(row).cast_unsigned();
                if other == 0 {
                    continue;
                }
                for place in 0..IN_WORD.min(registers.saturating_sub(word * IN_WORD)) {
                    let to = (other >> (BITS * place)) & MASK;
                    raise(into, word * IN_WORD + place, to);
                }
            }
            Ok(())
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let states = self.taken(emit);
        let of = |words: &Option<Box<[u64]>>| match words {
            Some(words) => self.precision.estimate(words),
            None => 0,
        };
        Ok(Arc::new(
            states
                .iter()
                .map(|words| Some(of(words)))
                .collect::<Int64Array>(),
        ))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.taken(emit);
        let word = |index: usize| {
            let of = |words: &Option<Box<[u64]>>| {
                words.as_ref().map_or(0, |words| words[index].cast_signed())
            };
            let column: Int64Array = states.iter().map(|words| Some(of(words))).collect();
            Arc::new(column) as ArrayRef
        };
        Ok((0..self.precision.words()).map(word).collect())
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<Option<Box<[u64]>>>()
            + self.held * self.precision.words() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Java's logarithm may differ from this one's in the last bit: no estimate is so near to where
    /// another would be rounded to, or counted otherwise.
    #[test]
    fn no_linear_estimate_hangs_on_a_last_bit() {
        for bits in 4..=18_u32 {
            let m = f64::from(1 << bits);
            for zeros in 1..=(1 << bits) {
                let linear = m * (m / f64::from(zeros)).ln();
                let half = (linear - linear.floor() - 0.5).abs();
                assert!(half > linear * 1e-14, "{bits} {zeros}");
                let from = (linear - THRESHOLDS[(bits - 4) as usize]).abs();
                assert!(from > linear * 1e-14, "{bits} {zeros}");
            }
        }
    }

    /// What Spark's HyperLogLogPlusPlus gave for BIGINTs from 0 on, at its default deviation.
    #[test]
    fn estimates_are_sparks() {
        for (count, expected) in include_str!("../../tests/golden/approx_count_distinct.txt")
            .lines()
            .map(|line| line.split_once(' ').unwrap())
        {
            let (of, count) = count.split_once(':').unwrap();
            let (of, count): (i64, i64) = (of.parse().unwrap(), count.parse().unwrap());
            let precision = Precision::new(of).unwrap();
            let mut halves = [0, 1].map(|_| Distinct::new(precision, DataType::Int64));
            let mut whole = Distinct::new(precision, DataType::Int64);
            whole.resize(1);
            for (half, state) in (0..).zip(&mut halves) {
                state.resize(1);
                let values: Int64Array = (0..count).filter(|v| v % 2 == half).map(Some).collect();
                let zeros = vec![0; values.len()];
                state.update(&[Arc::new(values)], &zeros, None).unwrap();
                let buffers = state.buffers(EmitTo::All).unwrap();
                whole.merge(&buffers, &[0], None).unwrap();
            }
            let found = whole.evaluate(EmitTo::All).unwrap();
            let found = found.as_primitive::<Int64Type>().value(0);
            assert_eq!(found.to_string(), expected, "{of}:{count}");
        }
    }
}
