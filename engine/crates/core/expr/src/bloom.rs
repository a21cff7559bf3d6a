//! Bloom filters of BIGINTs, in the layout of Spark's `BloomFilterImpl`, version 1. What Spark asks
//! of a join's keys before it shuffles the other side.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, new_null_array},
    datatypes::{DataType, Int64Type},
};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::ColumnarValue;

use crate::{
    Unsupported,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    murmur3, rows,
};

pub(crate) const FUNCTIONS: &[Entry] = &[entry("might_contain", Fallible::Never, might_contain)];

const VERSION: i32 = 1;
/// Bits of the largest filter, as by Spark's default limit: 8 MiB.
const MOST_BITS: i64 = 8 << 23;

/// How large a filter is, and how many bits stand for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BloomShape {
    hashes: u32,
    words: u32,
}

impl BloomShape {
    /// Bytes before the words: version, number of hash functions, number of words.
    pub const HEAD: usize = 12;

    /// For so many items, of so many bits. None of numbers that no filter has.
    #[must_use]
    pub fn new(items: i64, bits: i64) -> Option<Self> {
        if items <= 0 || bits <= 0 || bits > MOST_BITS {
            return None;
        }
        let words = u32::try_from((bits + 63) / 64).ok()?;
        // Spark's formula, m / n · ln 2, rounded; with more bits than this one looks in vain.
        let hashes = (1..=64).find(|hashes| {
            // round(x) ≤ h is x < h + ½
            let twice = u64::from(*hashes) * 2 + 1;
            2.0 * ratio(bits, items) * std::f64::consts::LN_2 < f64_of(twice)
        });
        Some(Self {
            hashes: hashes.unwrap_or(64),
            words,
        })
    }

    /// Words of 64 bits.
    #[must_use]
    pub fn words(self) -> usize {
        usize::try_from(self.words).unwrap_or(usize::MAX)
    }

    /// What comes before the words.
    #[must_use]
    pub fn head(self) -> [u8; Self::HEAD] {
        let mut head = [0; Self::HEAD];
        let numbers = [VERSION.cast_unsigned(), self.hashes, self.words];
        for (bytes, number) in head.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *bytes = number.to_be_bytes();
        }
        head
    }

    /// The shape of a filter, and its words.
    #[must_use]
    pub fn parse(filter: &[u8]) -> Option<(Self, &[[u8; 8]])> {
        let (head, words) = filter.split_first_chunk::<{ Self::HEAD }>()?;
        let (numbers, _) = head.as_chunks::<4>();
        let [version, hashes, count] = <[_; 3]>::try_from(numbers).ok()?;
        let shape = Self {
            hashes: u32::from_be_bytes(hashes),
            words: u32::from_be_bytes(count),
        };
        let (words, rest) = words.as_chunks::<8>();
        let known = i32::from_be_bytes(version) == VERSION
            && (1..=64).contains(&shape.hashes)
            && !words.is_empty()
            && words.len() == shape.words()
            && rest.is_empty();
        known.then_some((shape, words))
    }

    /// The bits of an item: word, and bit in it.
    pub fn places(self, item: i64) -> impl Iterator<Item = (usize, u32)> {
        let bytes = item.to_le_bytes();
        let first = murmur3(&bytes, 0);
        let second = murmur3(&bytes, first);
        let bits = u64::from(self.words) * 64;
        (1..=self.hashes).map(move |at| {
            let hash = first.wrapping_add(at.cast_signed().wrapping_mul(second));
            let hash = if hash < 0 { !hash } else { hash };
            let place = u64::from(hash.cast_unsigned()) % bits;
            let word = usize::try_from(place / 64).unwrap_or(usize::MAX);
            (word, u32::try_from(place % 64).unwrap_or_default())
        })
    }

    fn has(self, words: &[[u8; 8]], item: i64) -> bool {
        self.places(item).all(|(word, bit)| {
            let word = words.get(word).map(|word| u64::from_be_bytes(*word));
            word.is_some_and(|word| word >> bit & 1 == 1)
        })
    }
}

fn ratio(bits: i64, items: i64) -> f64 {
    f64_of(bits.unsigned_abs()) / f64_of(items.unsigned_abs())
}

#[allow(clippy::as_conversions, clippy::cast_precision_loss)]
fn f64_of(number: u64) -> f64 {
    number as f64
}

fn might_contain(call: &CallInfo<'_>) -> Result<Kernel, Unsupported> {
    rows::takes(
        call,
        &[DataType::Binary, DataType::Int64],
        &DataType::Boolean,
    )?;
    Ok(Arc::new(|args, rows| {
        let [ColumnarValue::Scalar(ScalarValue::Binary(filter)), items] = args else {
            return exec_err!("one filter is for all rows");
        };
        let Some(filter) = filter else {
            return Ok(new_null_array(&DataType::Boolean, rows));
        };
        let Some((shape, words)) = BloomShape::parse(filter) else {
            return exec_err!("this is no Bloom filter");
        };
        let items = items.to_array(rows)?;
        let items = items.as_primitive::<Int64Type>();
        let found = items.values().iter();
        let found = found.map(|item| shape.has(words, *item)).collect();
        let found = BooleanArray::new(found, items.nulls().cloned());
        Ok(Arc::new(found) as ArrayRef)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constructor of `org.apache.spark.util.sketch.BloomFilterImpl` gives these.
    #[test]
    fn shapes_are_sparks() {
        let hashes = |items, bits| BloomShape::new(items, bits).map(|shape| shape.hashes);
        assert_eq!(hashes(1_000_000, 8_388_608), Some(6));
        assert_eq!(hashes(4_000_000, 8_388_608), Some(1));
        assert_eq!(hashes(100, 64), Some(1));
        assert_eq!(hashes(1, 1 << 20), Some(64));
        assert_eq!(hashes(0, 64), None);
        assert_eq!(hashes(1, MOST_BITS + 1), None);
    }

    #[test]
    fn what_was_put_in_is_found() {
        let shape = BloomShape::new(100, 1000).unwrap();
        let mut words = vec![0_u64; shape.words()];
        for item in (0..100).map(|at| at * 7919 - 400_000) {
            for (word, bit) in shape.places(item) {
                words[word] |= 1 << bit;
            }
        }
        let mut filter = shape.head().to_vec();
        filter.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        let (read, words) = BloomShape::parse(&filter).unwrap();
        assert_eq!(read, shape);
        assert!((0..100).all(|at| shape.has(words, at * 7919 - 400_000)));
        let others = (0..10_000).filter(|at| shape.has(words, *at)).count();
        assert!(others < 300, "{others} of 10,000");
    }

    #[test]
    fn what_is_no_filter_is_told() {
        let shape = BloomShape::new(10, 128).unwrap();
        let mut filter = shape.head().to_vec();
        filter.extend([0; 16]);
        assert!(BloomShape::parse(&filter).is_some());
        for length in 0..filter.len() {
            assert!(BloomShape::parse(&filter[..length]).is_none());
        }
        for at in 0..BloomShape::HEAD {
            let mut other = filter.clone();
            other[at] ^= 0x80;
            assert!(BloomShape::parse(&other).is_none(), "byte {at}");
        }
    }
}
