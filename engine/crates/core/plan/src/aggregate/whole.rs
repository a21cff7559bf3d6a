//! Whole numbers of 192 bits: sums of decimals and of integers that cannot overflow on the way.
//! Whether the sum fits its type is asked of the result alone, so it does not depend on the order
//! and grouping of the rows.

use datafusion_common::{Result, internal_datafusion_err};

/// `high` · 2^128 + `low`. With 2^64 numbers of 128 bits it is in range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whole {
    low: u128,
    high: i64,
}

impl Whole {
    #[inline]
    pub(super) fn add(&mut self, value: i128) {
        let (low, carry) = self.low.overflowing_add(value.cast_unsigned());
        self.low = low;
        self.high += i64::from(carry) - i64::from(value < 0);
    }

    pub(super) fn merge(&mut self, other: Self) {
        let (low, carry) = self.low.overflowing_add(other.low);
        self.low = low;
        self.high = self
            .high
            .wrapping_add(other.high)
            .wrapping_add(carry.into());
    }

    /// The number, if 128 bits hold it.
    pub(super) fn narrow(self) -> Option<i128> {
        let low = self.low.cast_signed();
        (self.high == i64::from(low < 0).wrapping_neg()).then_some(low)
    }

    /// 16 bytes where they hold the number, else 24: little endian, two's complement.
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.low.to_le_bytes());
        if self.narrow().is_none() {
            out.extend_from_slice(&self.high.to_le_bytes());
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let malformed = || internal_datafusion_err!("a partial sum of decimals is malformed");
        let (low, high) = bytes.split_first_chunk::<16>().ok_or_else(malformed)?;
        let low = u128::from_le_bytes(*low);
        let high = match high.is_empty() {
            true => i64::from(low.cast_signed() < 0).wrapping_neg(),
            false => i64::from_le_bytes(high.try_into().map_err(|_| malformed())?),
        };
        Ok(Self { low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_pass_the_limits_of_128_bits_and_come_back() {
        let values = [
            i128::MAX,
            i128::MAX,
            7,
            i128::MIN,
            i128::MIN,
            i128::MIN,
            i128::MAX,
            -5,
            1,
        ];
        let mut orders = vec![values.to_vec(), values.iter().rev().copied().collect()];
        orders.push([&values[4..], &values[..4]].concat());
        for order in orders {
            let (mut left, mut right, mut bytes) = (Whole::default(), Whole::default(), vec![]);
            order[..4].iter().for_each(|value| left.add(*value));
            order[4..].iter().for_each(|value| right.add(*value));
            right.encode(&mut bytes);
            left.merge(Whole::decode(&bytes).unwrap());
            assert_eq!(left.narrow(), Some(0));
            left.add(i128::MAX);
            left.add(1);
            assert_eq!(left.narrow(), None);
            left.encode(&mut bytes);
            assert_eq!((bytes.len(), Whole::decode(&bytes).unwrap()), (24, left));
        }
        for malformed in [&[0u8; 15][..], &[0; 17], &[0; 25], &[]] {
            Whole::decode(malformed).unwrap_err();
        }
    }
}
