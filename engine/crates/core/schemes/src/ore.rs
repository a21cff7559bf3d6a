//! `ore`: the order-revealing encryption of Chenette, Lewi, Weis and Wu, "Practical Order-Revealing
//! Encryption with Limited Leakage" (FSE 2016, section 3): two ciphertexts show which is greater
//! and the first bit in which their values differ, and nothing else.
//!
//! Bit i of a value becomes u_i = F(k, (i, bits before i)) + bit (mod 3), written in two bits,
//! first bit first. F takes sixteen bytes of AES for four bits of the value: those under one
//! 4-bit-aligned prefix share a block, whose 128 bits, read as a fraction in base 3, are fifteen
//! digits, one for each node of the little tree under that prefix (the digits' bias is below
//! 2^-60).
//!
//! Values are not authenticated; opening checks that each digit is one of the two that the key
//! allows.

use std::cmp::Ordering;

use arrow_array::{Array, ArrayRef, BinaryArray, cast::AsArray};
use arrow_schema::DataType;

use crate::aes::{Aes, BLOCK};
use crate::codec;
use crate::domain::Ordinals;
use crate::scheme::check_type;
use crate::{ColumnSpec, RowPositions, Scheme, SchemeError, SchemeKey};

const NAME: &str = "ore";
/// Values whose AES blocks are made together.
const BATCH: usize = 512;

/// Order-revealing encryption of a column.
pub struct Ore {
    ordinals: Ordinals,
    /// Groups of four bits, and so bytes of a ciphertext.
    groups: usize,
    prf: Aes,
}

impl Ore {
    /// With the key of the column's link group.
    pub fn new(key: &SchemeKey, column: &ColumnSpec) -> Result<Self, SchemeError> {
        let ordinals = Ordinals::new(NAME, column)?;
        let groups = usize::try_from(ordinals.bits().div_ceil(4))
            .map_err(|_| SchemeError::Internal("bits"))?;
        let secret = key.root(NAME)?.derive("prf", &[])?;
        Ok(Self {
            ordinals,
            groups,
            prf: Aes::new(secret.expose())?,
        })
    }

    /// Bytes of a stored value.
    pub fn stored_len(&self) -> usize {
        self.groups
    }

    /// The fractions that the prefixes of four-bit group `group` select.
    fn fractions(
        &self,
        values: &[u128],
        group: usize,
        blocks: &mut Vec<u8>,
    ) -> Result<(), SchemeError> {
        blocks.clear();
        let shift = self.shift(group)?.saturating_add(4);
        // A one bit in front makes prefixes of all lengths different numbers.
        let sentinel = u32::try_from(group.saturating_mul(4))
            .ok()
            .and_then(|bits| 1_u128.checked_shl(bits))
            .ok_or(SchemeError::Internal("group"))?;
        for value in values {
            let prefix = value.checked_shr(shift).unwrap_or(0) | sentinel;
            blocks.extend_from_slice(&prefix.to_be_bytes());
        }
        self.prf.blocks(blocks)
    }

    /// By how many bits the group is above the lowest.
    fn shift(&self, group: usize) -> Result<u32, SchemeError> {
        self.groups
            .checked_sub(group.saturating_add(1))
            .and_then(|below| u32::try_from(below.saturating_mul(4)).ok())
            .ok_or(SchemeError::Internal("group"))
    }
}

impl Scheme for Ore {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stored_type(&self) -> DataType {
        DataType::Binary
    }

    fn encrypt(
        &self,
        column: &dyn Array,
        _positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        let values = self.ordinals.of(column)?;
        let mut out = vec![0_u8; values.len().saturating_mul(self.groups)];
        let mut blocks = Vec::with_capacity(BATCH.saturating_mul(BLOCK));
        for (values, out) in values
            .chunks(BATCH)
            .zip(out.chunks_mut(BATCH.saturating_mul(self.groups)))
        {
            for group in 0..self.groups {
                self.fractions(values, group, &mut blocks)?;
                let shift = self.shift(group)?;
                let bytes = out.iter_mut().skip(group).step_by(self.groups);
                for ((value, block), byte) in
                    values.iter().zip(blocks.as_chunks::<BLOCK>().0).zip(bytes)
                {
                    *byte =
                        encrypt_group(u128::from_be_bytes(*block), value.wrapping_shr(shift) & 15);
                }
            }
        }
        with_nulls(self.groups, out, column)
    }

    fn decrypt(
        &self,
        stored: &dyn Array,
        _positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        if !self.ordinals.exact() {
            return Err(SchemeError::NotReversible { scheme: NAME });
        }
        check_type(stored, &DataType::Binary)?;
        let array = stored.as_binary::<i32>();
        let mut ordinals = Vec::with_capacity(array.len());
        let mut blocks = Vec::with_capacity(BATCH.saturating_mul(BLOCK));
        for first in (0..array.len()).step_by(BATCH) {
            let rows = array.slice(first, BATCH.min(array.len().saturating_sub(first)));
            let mut values = vec![0_u128; rows.len()];
            let mut bad = None;
            for group in 0..self.groups {
                self.fractions(&values, group, &mut blocks)?;
                let shift = self.shift(group)?;
                let blocks = blocks.as_chunks::<BLOCK>().0;
                for (row, ((value, block), sealed)) in
                    values.iter_mut().zip(blocks).zip(rows.iter()).enumerate()
                {
                    let Some(sealed) = sealed else { continue };
                    let byte = sealed.get(group).filter(|_| sealed.len() == self.groups);
                    match byte.and_then(|byte| decrypt_group(u128::from_be_bytes(*block), *byte)) {
                        Some(bits) => *value |= bits.wrapping_shl(shift),
                        None => bad = bad.or(Some(row)),
                    }
                }
            }
            bad = bad.or_else(|| {
                values
                    .iter()
                    .position(|value| *value >= self.ordinals.size())
            });
            if let Some(bad) = bad {
                return Err(SchemeError::Unauthentic {
                    row: first.saturating_add(bad),
                });
            }
            ordinals.append(&mut values);
        }
        self.ordinals
            .restore(ordinals.into_iter(), array.nulls().cloned())
    }
}

/// Compares two ciphertexts of one column: `None` if they are not of one length, or not
/// ciphertexts.
///
/// Where they first differ, the value with the one bit has the next digit modulo 3.
pub fn compare(left: &[u8], right: &[u8]) -> Option<Ordering> {
    if left.len() != right.len() {
        return None;
    }
    let Some((l, r)) = left.iter().zip(right).find(|(l, r)| l != r) else {
        return Some(Ordering::Equal);
    };
    let shift = (l ^ r).leading_zeros() / 2;
    let digit = |byte: u8| byte.wrapping_shl(shift.wrapping_mul(2)) >> 6;
    match (digit(*l), digit(*r)) {
        (1, 0) | (2, 1) | (0, 2) => Some(Ordering::Greater),
        (0, 1) | (1, 2) | (2, 0) => Some(Ordering::Less),
        _ => None,
    }
}

/// The index (from 0, the most significant first) of the first bit in which the values of two
/// ciphertexts differ; none if they are equal. It is what the scheme leaks, for tests and for
/// saying so.
pub fn first_differing_bit(left: &[u8], right: &[u8]) -> Option<usize> {
    let positions = left.iter().zip(right).position(|(l, r)| l != r)?;
    let byte = left.get(positions)? ^ right.get(positions)?;
    let within = usize::try_from(byte.leading_zeros() / 2).ok()?;
    positions.checked_mul(4)?.checked_add(within)
}

/// Compares two columns row by row: `None` where one is NULL. The error names the row of what is no
/// ciphertext.
pub fn compare_columns(
    left: &BinaryArray,
    right: &BinaryArray,
) -> Result<Vec<Option<Ordering>>, SchemeError> {
    if left.len() != right.len() {
        return Err(SchemeError::WrongLength {
            left: left.len(),
            right: right.len(),
        });
    }
    left.iter()
        .zip(right)
        .enumerate()
        .map(|(row, pair)| match pair {
            (Some(left), Some(right)) => compare(left, right)
                .map(Some)
                .ok_or(SchemeError::Unauthentic { row }),
            _ => Ok(None),
        })
        .collect()
}

/// Compares a column with one ciphertext, as [`compare_columns`].
pub fn compare_with(
    left: &BinaryArray,
    right: &[u8],
) -> Result<Vec<Option<Ordering>>, SchemeError> {
    left.iter()
        .enumerate()
        .map(|(row, left)| {
            left.map(|left| compare(left, right).ok_or(SchemeError::Unauthentic { row }))
                .transpose()
        })
        .collect()
}

/// Powers of 3: the digit at a node is read by moving the point there.
const POWERS: [u64; 15] = {
    let mut powers = [1; 15];
    let mut next = 1_u64;
    let mut rest: &mut [u64] = &mut powers;
    while let Some((first, others)) = rest.split_first_mut() {
        *first = next;
        next *= 3;
        rest = others;
    }
    powers
};

/// The digit of a node: 0, 1 or 2, uniform.
fn digit(fraction: u128, node: usize) -> u8 {
    let power = POWERS.get(node).copied().unwrap_or(1);
    let [.., high] = split(fraction.wrapping_mul(u128::from(power)));
    let [.., digit] = split(u128::from(high).wrapping_mul(3));
    u8::try_from(digit).unwrap_or(0)
}

/// Low and high half.
fn split(number: u128) -> [u64; 2] {
    let low = u64::try_from(number & u128::from(u64::MAX)).unwrap_or(0);
    [low, u64::try_from(number >> 64).unwrap_or(0)]
}

/// Nodes of the little tree are numbered level by level: the root, its two children, …
fn encrypt_group(fraction: u128, bits: u128) -> u8 {
    let bits = u8::try_from(bits).unwrap_or(0);
    let mut byte = 0;
    for depth in 0..4_u32 {
        let before = usize::from(bits >> (4 - depth));
        let node = before.wrapping_add((1 << depth) - 1);
        let bit = (bits >> (3 - depth)) & 1;
        let sum = digit(fraction, node).wrapping_add(bit);
        byte = (byte << 2) | if sum == 3 { 0 } else { sum };
    }
    byte
}

/// None if a digit is neither the node's nor the next.
fn decrypt_group(fraction: u128, byte: u8) -> Option<u128> {
    let mut bits = 0_u8;
    for depth in 0..4_u32 {
        let node = usize::from(bits).wrapping_add((1 << depth) - 1);
        let found = (byte >> (6 - 2 * depth)) & 3;
        let bit = match (found.wrapping_add(3).wrapping_sub(digit(fraction, node))) % 3 {
            bit @ (0 | 1) if found < 3 => bit,
            _ => return None,
        };
        bits = (bits << 1) | bit;
    }
    Some(u128::from(bits))
}

/// The binary column of values of `width` bytes, those of NULL left out.
fn with_nulls(width: usize, values: Vec<u8>, column: &dyn Array) -> Result<ArrayRef, SchemeError> {
    if column.null_count() == 0 {
        return codec::binary(std::iter::repeat_n(width, column.len()), values, None);
    }
    let mut kept = Vec::with_capacity(values.len());
    let mut lengths = Vec::with_capacity(column.len());
    for (row, value) in values.chunks_exact(width).enumerate() {
        let value = if column.is_valid(row) { value } else { &[] };
        kept.extend_from_slice(value);
        lengths.push(value.len());
    }
    codec::binary(lengths, kept, column.nulls().cloned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, Int64Array, StringArray};
    use proptest::prelude::*;

    use super::*;
    use crate::{Domain, testing};

    fn ore(spec: &ColumnSpec) -> Ore {
        Ore::new(&SchemeKey::from_bytes(&[7; 32]), spec).unwrap()
    }

    #[test]
    fn every_type_comes_back() {
        for column in testing::integer_columns()
            .iter()
            .chain(&testing::float_columns())
        {
            testing::round_trip(
                &ore(&ColumnSpec::new(column.data_type().clone())),
                column,
                RowPositions::Anywhere,
            );
        }
    }

    #[test]
    fn two_bits_for_each_bit() {
        assert_eq!(ore(&ColumnSpec::new(DataType::Int64)).stored_len(), 16);
        let small = ColumnSpec::new(DataType::Int64).with_domain(Domain::new(0, 4_095).unwrap());
        assert_eq!(ore(&small).stored_len(), 3);
    }

    #[test]
    fn foreign_values_are_refused() {
        let scheme = ore(&ColumnSpec::new(DataType::Int64));
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..64));
        let stored = scheme.encrypt(&column, RowPositions::Anywhere).unwrap();
        let other = Ore::new(
            &SchemeKey::from_bytes(&[8; 32]),
            &ColumnSpec::new(DataType::Int64),
        )
        .unwrap();
        assert!(matches!(
            other.decrypt(&stored, RowPositions::Anywhere),
            Err(SchemeError::Unauthentic { .. })
        ));
        assert_eq!(compare(&[3], &[1]), None);
        assert_eq!(compare(&[3], &[1, 1]), None);
    }

    #[test]
    fn digits_are_uniform() {
        let scheme = ore(&ColumnSpec::new(DataType::Int32));
        let values: Vec<u128> = (0..60_000_u128).map(|v| v << 12).collect();
        let mut blocks = Vec::new();
        scheme.fractions(&values, 5, &mut blocks).unwrap();
        for node in 0..15 {
            let mut counts = [0_f64; 3];
            for block in blocks.as_chunks::<16>().0 {
                counts[usize::from(digit(u128::from_be_bytes(*block), node))] += 1.0;
            }
            let chi: f64 = counts
                .iter()
                .map(|count| (count - 20_000.0).powi(2) / 20_000.0)
                .sum();
            // 2 degrees of freedom: exceeded once in 20,000 keys
            assert!(chi < 20.0, "node {node}: {counts:?}");
        }
    }

    proptest! {
        #[test]
        fn it_shows_order_and_the_first_differing_bit_only(a: i64, b: i64, near in 0_u32..64) {
            let scheme = ore(&ColumnSpec::new(DataType::Int64));
            let close = a ^ (1_i64 << near);
            for (left, right) in [(a, b), (a, close), (a, a)] {
                let stored = scheme.encrypt(&Int64Array::from(vec![left, right]),
                    RowPositions::Anywhere).unwrap();
                let stored = stored.as_binary::<i32>();
                prop_assert_eq!(compare(stored.value(0), stored.value(1)), Some(left.cmp(&right)));
                let differ = left ^ right;
                let expected = (differ != 0).then(|| differ.leading_zeros() as usize);
                prop_assert_eq!(first_differing_bit(stored.value(0), stored.value(1)), expected);
            }
        }

        #[test]
        fn columns_compare_as_their_values(pairs in prop::collection::vec(any::<(Option<i32>,
            Option<i32>)>(), 0..50)) {
            let scheme = ore(&ColumnSpec::new(DataType::Int32));
            let (left, right): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
            let stored = |values: Vec<Option<i32>>|
                scheme.encrypt(&Int32Array::from(values), RowPositions::Anywhere).unwrap();
            let found = compare_columns(stored(left).as_binary(),
                stored(right).as_binary()).unwrap();
            for ((left, right), found) in pairs.into_iter().zip(found) {
                prop_assert_eq!(found, left.zip(right).map(|(l, r)| l.cmp(&r)));
            }
        }

        #[test]
        fn strings_compare_by_their_prefix(a in ".{0,6}", b in ".{0,6}") {
            let scheme = ore(&ColumnSpec::new(DataType::Utf8).with_prefix(5));
            let stored = scheme.encrypt(&StringArray::from(vec![a.as_str(), b.as_str()]),
                RowPositions::Anywhere).unwrap();
            let stored = stored.as_binary::<i32>();
            let prefix = |text: &str| text.as_bytes().iter().copied().take(5).collect::<Vec<_>>();
            prop_assert_eq!(compare(stored.value(0), stored.value(1)),
                Some(prefix(&a).cmp(&prefix(&b))));
            let opened = scheme.decrypt(stored, RowPositions::Anywhere);
            prop_assert!(matches!(opened, Err(SchemeError::NotReversible { scheme: "ore" })),
                "a prefix does not come back");
        }
    }
}
