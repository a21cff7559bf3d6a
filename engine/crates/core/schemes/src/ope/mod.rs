//! `ope`: the order-preserving encryption of Boldyreva, Chenette, Lee and O'Neill (EUROCRYPT 2009):
//! the order of ciphertexts is the order of values, and the function is otherwise a random
//! increasing one.
//!
//! A domain of up to 2^32 values is stored as a BIGINT of 63 bits; a larger one as binary of twice
//! its bits (in whole bytes), whose unsigned order is the order. Of strings only a prefix counts,
//! and it alone is there: a column of strings needs another protection to be opened from.
//!
//! The work is done once for each distinct value of a batch, and values met before are remembered.
//! Opening follows the same path down and refuses what is no value's ciphertext; that is no
//! authentication, since an attacker who has many ciphertexts can put one in another's place.

mod hgd;
mod tree;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;

use crate::domain::Ordinals;
use crate::scheme::check_type;
use crate::{ColumnSpec, RowPositions, Scheme, SchemeError, SchemeKey, codec};
use tree::{Path, Tree};

const NAME: &str = "ope";
/// Bits of a ciphertext that is a BIGINT, never negative.
const NARROW: u32 = 63;
/// Domains of up to so many bits have such ciphertexts.
const NARROW_DOMAIN: u32 = 32;
/// Ordinals taken from a column at once.
const BATCH: usize = 8_192;
/// Values remembered between batches, each way: some 50 MB at most.
const KEPT: usize = 1 << 19;

/// Order-preserving encryption of a column.
pub struct Ope {
    ordinals: Ordinals,
    bits: u32,
    tree: Tree,
    /// What was computed before.
    sealed: Mutex<Fast<u128, Path>>,
    opened: Mutex<Fast<Path, u128>>,
}

type Fast<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

impl Ope {
    /// With the key of the column's link group. Columns of one group compare only if their domains
    /// are the same.
    pub fn new(key: &SchemeKey, column: &ColumnSpec) -> Result<Self, SchemeError> {
        let ordinals = Ordinals::new(NAME, column)?;
        let bits = if ordinals.bits() <= NARROW_DOMAIN && ordinals.exact() {
            NARROW
        } else {
            ordinals
                .bits()
                .saturating_mul(2)
                .div_ceil(8)
                .saturating_mul(8)
        };
        let root = key.root(NAME)?;
        let (indexes, coins) = (root.derive("places", &[])?, root.derive("coins", &[])?);
        Ok(Self {
            tree: Tree::new(indexes.expose(), coins.expose(), ordinals.size(), bits)?,
            ordinals,
            bits,
            sealed: Mutex::default(),
            opened: Mutex::default(),
        })
    }

    /// Bytes of a stored value.
    pub fn stored_len(&self) -> usize {
        usize::try_from(self.bits.div_ceil(8)).unwrap_or(usize::MAX)
    }

    fn narrow(&self) -> bool {
        self.bits == NARROW
    }

    /// Ciphertexts of distinct values, in the order they came.
    fn seal(&self, values: &[u128]) -> Result<Vec<Path>, SchemeError> {
        through(&self.sealed, values, |new| self.tree.encrypt(new))
    }

    /// Values of distinct ciphertexts, in the order they came; the place of the first that is
    /// none's.
    fn open(&self, paths: &[Path]) -> Result<Result<Vec<u128>, usize>, SchemeError> {
        let mut bad = None;
        let opened = through(&self.opened, paths, |new| {
            let opened = self.tree.decrypt(new)?;
            if let Some(none) = opened.iter().position(Option::is_none) {
                bad = new.get(none).copied();
                // Nothing of a batch with a bad value is to be remembered.
                return Err(SchemeError::Unauthentic { row: none });
            }
            Ok(opened.into_iter().flatten().collect())
        });
        match (opened, bad) {
            (Err(SchemeError::Unauthentic { .. }), Some(bad)) => {
                Ok(Err(paths.iter().position(|path| *path == bad).unwrap_or(0)))
            }
            (opened, _) => opened.map(Ok),
        }
    }
}

impl Scheme for Ope {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stored_type(&self) -> DataType {
        if self.narrow() {
            DataType::Int64
        } else {
            DataType::Binary
        }
    }

    fn encrypt(
        &self,
        column: &dyn Array,
        _positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        let mut distinct = Distinct::with_capacity(column.len());
        for start in (0..column.len()).step_by(BATCH) {
            let part = column.slice(start, BATCH.min(column.len().saturating_sub(start)));
            let ordinals = self
                .ordinals
                .of(&part)
                .map_err(|error| error.below(start))?;
            for (row, ordinal) in ordinals.into_iter().enumerate() {
                distinct.push(part.is_valid(row).then_some(ordinal))?;
            }
        }
        let paths = self.seal(&distinct.values)?;
        if self.narrow() {
            let narrow: Vec<i64> = paths.iter().map(to_narrow).collect();
            let values: Vec<i64> = distinct.rows(&narrow, 0);
            return Ok(Arc::new(Int64Array::new(
                ScalarBuffer::from(values),
                column.nulls().cloned(),
            )));
        }
        let width = self.stored_len();
        let mut data = Vec::with_capacity(
            column
                .len()
                .saturating_sub(column.null_count())
                .saturating_mul(width),
        );
        for positions in &distinct.index {
            if let Some(path) = distinct.at(&paths, *positions) {
                data.extend(path.iter().flat_map(|part| part.to_be_bytes()).take(width));
            }
        }
        let lengths = distinct.index.iter().map(|positions| {
            if *positions == Distinct::<u128>::NULL {
                0
            } else {
                width
            }
        });
        codec::binary(lengths, data, column.nulls().cloned())
    }

    fn decrypt(
        &self,
        stored: &dyn Array,
        _positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        if !self.ordinals.exact() {
            return Err(SchemeError::NotReversible { scheme: NAME });
        }
        check_type(stored, &self.stored_type())?;
        let (ordinals, index) = if self.narrow() {
            let array = stored.as_primitive::<Int64Type>();
            let mut distinct = Distinct::with_capacity(array.len());
            for (row, value) in array.iter().enumerate() {
                let value = value.map(|value| {
                    u64::try_from(value).map_err(|_| SchemeError::Unauthentic { row })
                });
                distinct.push(value.transpose()?)?;
            }
            let paths: Vec<Path> = distinct
                .values
                .iter()
                .map(|value| of_narrow(*value))
                .collect();
            (self.open(&paths)?, distinct.index)
        } else {
            let mut distinct = Distinct::with_capacity(stored.len());
            for (row, value) in stored.as_binary::<i32>().iter().enumerate() {
                let path =
                    value.map(|value| self.of_wide(value).ok_or(SchemeError::Unauthentic { row }));
                distinct.push(path.transpose()?)?;
            }
            (self.open(&distinct.values)?, distinct.index)
        };
        match ordinals {
            Ok(ordinals) => {
                let positions = |positions: &u32| {
                    usize::try_from(*positions)
                        .ok()
                        .and_then(|positions| ordinals.get(positions).copied())
                };
                let rows = index.iter().map(|at| positions(at).unwrap_or(0));
                self.ordinals.restore(rows, stored.nulls().cloned())
            }
            Err(bad) => {
                let row = index
                    .iter()
                    .position(|positions| usize::try_from(*positions) == Ok(bad))
                    .unwrap_or(0);
                Err(SchemeError::Unauthentic { row })
            }
        }
    }
}

impl Ope {
    fn of_wide(&self, value: &[u8]) -> Option<Path> {
        let mut bytes = [0; 32];
        bytes
            .get_mut(..self.stored_len())
            .filter(|head| head.len() == value.len())?
            .copy_from_slice(value);
        let (high, low) = bytes.split_first_chunk::<16>()?;
        Some([
            u128::from_be_bytes(*high),
            u128::from_be_bytes(*low.first_chunk()?),
        ])
    }
}

fn to_narrow([high, _]: &Path) -> i64 {
    i64::try_from(high >> (128 - NARROW)).unwrap_or(0)
}

fn of_narrow(value: u64) -> Path {
    [u128::from(value) << (128 - NARROW), 0]
}

/// The distinct values of a column, and which of them each row has.
struct Distinct<K> {
    indexes: Fast<K, u32>,
    values: Vec<K>,
    index: Vec<u32>,
}

impl<K: Copy + Eq + Hash> Distinct<K> {
    const NULL: u32 = u32::MAX;

    fn with_capacity(rows: usize) -> Self {
        Self {
            indexes: Fast::default(),
            values: Vec::new(),
            index: Vec::with_capacity(rows),
        }
    }

    fn push(&mut self, value: Option<K>) -> Result<(), SchemeError> {
        let Some(value) = value else {
            self.index.push(Self::NULL);
            return Ok(());
        };
        let next = u32::try_from(self.values.len()).unwrap_or(Self::NULL);
        if next == Self::NULL {
            return Err(SchemeError::Malformed(
                "a batch of more than four billion rows",
            ));
        }
        let positions = *self.indexes.entry(value).or_insert(next);
        if positions == next {
            self.values.push(value);
        }
        self.index.push(positions);
        Ok(())
    }

    /// What stands for the value at a place; none for NULL.
    fn at<'a, V>(&self, each: &'a [V], positions: u32) -> Option<&'a V> {
        each.get(usize::try_from(positions).ok()?)
    }

    fn rows<V: Copy>(&self, each: &[V], null: V) -> Vec<V> {
        self.index
            .iter()
            .map(|positions| self.at(each, *positions).copied().unwrap_or(null))
            .collect()
    }
}

/// Looks distinct `keys` up in `known`; what is missing is computed in one sorted batch, and
/// remembered while there is room. Other threads are not held up by the computing.
fn through<K: Copy + Ord + Hash, V: Copy>(
    known: &Mutex<Fast<K, V>>,
    keys: &[K],
    compute: impl FnOnce(&[K]) -> Result<Vec<V>, SchemeError>,
) -> Result<Vec<V>, SchemeError> {
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let mut out: Vec<Option<V>> = {
        let known = lock();
        keys.iter().map(|key| known.get(key).copied()).collect()
    };
    let missing = keys.iter().zip(&out).enumerate();
    let mut missing: Vec<(K, usize)> = missing
        .filter_map(|(positions, (key, found))| found.is_none().then_some((*key, positions)))
        .collect();
    missing.sort_unstable_by_key(|(key, _)| *key);
    let sorted: Vec<K> = missing.iter().map(|(key, _)| *key).collect();
    let computed = compute(&sorted)?;
    let mut known = lock();
    for ((key, positions), value) in missing.into_iter().zip(computed) {
        if let Some(out) = out.get_mut(positions) {
            *out = Some(value);
        }
        if known.len() < KEPT {
            known.insert(key, value);
        }
    }
    out.into_iter()
        .collect::<Option<Vec<V>>>()
        .ok_or(SchemeError::Internal("ope batch"))
}

/// A hash for values that we made ourselves: multiply and fold. Who chooses the values chooses the
/// collisions too, which costs the owner time at worst.
#[derive(Default)]
struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        let product =
            u128::from(self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let folded = (product ^ (product >> 64)) & u128::from(u64::MAX);
        self.0 = u64::try_from(folded).unwrap_or(0);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words
            .iter()
            .for_each(|word| self.mix(u64::from_ne_bytes(*word)));
        rest.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_u128(&mut self, number: u128) {
        self.write(&number.to_ne_bytes());
    }

    fn write_usize(&mut self, _length: usize) {
        // Lengths of arrays, which are all the same.
    }
}

#[cfg(test)]
mod tests;
