//! Keyed hash partitioning.

use std::hash::{BuildHasher, Hasher};

use arrow::array::{Array, ArrayRef};
use datafusion_common::{Result, hash_utils::create_hashes_with_hasher};

/// SipHash-1-3 (Aumasson, Bernstein 2012) under a key of the session, so that the sizes of targets
/// tell nothing of the values in them. The same on every machine: tasks of one exchange run on
/// different ones.
#[derive(Clone, Copy)]
pub(super) struct KeyedHash {
    k0: u64,
    k1: u64,
    /// Mixed into each row's hash, whose NULLs and combination of columns are not keyed.
    finish: KeyedWord,
}

#[derive(Clone, Copy)]
struct KeyedWord {
    k0: u64,
    k1: u64,
}

impl KeyedHash {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        let mut words = key
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or_default();
        let (k0, k1) = (next(), next());
        Self {
            k0,
            k1,
            finish: KeyedWord {
                k0: next(),
                k1: next(),
            },
        }
    }

    /// Appends each row's target.
    pub(super) fn targets(
        &self,
        columns: &[ArrayRef],
        targets: u32,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        let mut hashes = vec![0u64; rows];
        create_hashes_with_hasher(columns, self, &mut hashes)?;
        out.extend(hashes.iter().map(|hash| {
            let mut last = Sip::new(self.finish.k0, self.finish.k1);
            last.word(*hash);
            // The high half of the product is below `targets`.
            let target = (u128::from(last.finish()) * u128::from(targets)) >> 64;
            u32::try_from(target).unwrap_or_default()
        }));
        Ok(())
    }
}

impl BuildHasher for KeyedHash {
    type Hasher = Sip;

    fn build_hasher(&self) -> Sip {
        Sip::new(self.k0, self.k1)
    }
}

pub(super) struct Sip {
    v: [u64; 4],
    tail: u64,
    length: u64,
}

impl Sip {
    fn new(k0: u64, k1: u64) -> Self {
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Self {
            v,
            tail: 0,
            length: 0,
        }
    }

    #[inline]
    fn round(v: &mut [u64; 4]) {
        let [mut a, mut b, mut c, mut d] = *v;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        *v = [a, b, c, d];
    }

    #[inline]
    fn absorb(&mut self, word: u64) {
        self.v[3] ^= word;
        Self::round(&mut self.v);
        self.v[0] ^= word;
    }

    /// Eight more bytes.
    #[inline]
    fn word(&mut self, word: u64) {
        let filled = (self.length % 8) * 8;
        if filled == 0 {
            self.absorb(word);
        } else {
            self.absorb(self.tail | (word << filled));
            self.tail = word >> (64 - filled);
        }
        self.length = self.length.wrapping_add(8);
    }
}

impl Hasher for Sip {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        for byte in rest {
            let filled = (self.length % 8) * 8;
            self.tail |= u64::from(*byte) << filled;
            self.length = self.length.wrapping_add(1);
            if self.length.is_multiple_of(8) {
                let tail = std::mem::take(&mut self.tail);
                self.absorb(tail);
            }
        }
    }

    // Integers are hashed as little endian bytes, whatever the machine's order.
    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    #[inline]
    fn write_i64(&mut self, value: i64) {
        self.word(value.cast_unsigned());
    }

    fn write_u32(&mut self, value: u32) {
        self.write(&value.to_le_bytes());
    }

    fn write_i32(&mut self, value: i32) {
        self.write(&value.to_le_bytes());
    }

    #[inline]
    fn finish(&self) -> u64 {
        let mut v = self.v;
        let last = (self.length << 56) | self.tail;
        v[3] ^= last;
        Self::round(&mut v);
        v[0] ^= last;
        v[2] ^= 0xff;
        for _ in 0..3 {
            Self::round(&mut v);
        }
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(deprecated)]
    fn it_is_siphash_with_one_and_three_rounds() {
        // The standard library's default hasher is SipHash-1-3 with a zero key.
        for length in 0..40u8 {
            let bytes: Vec<u8> = (0..length).collect();
            let mut ours = Sip::new(0, 0);
            let mut theirs = std::collections::hash_map::DefaultHasher::new();
            for part in bytes.chunks(5) {
                ours.write(part);
                theirs.write(part);
            }
            assert_eq!(ours.finish(), theirs.finish(), "{length} bytes");
        }
    }

    #[test]
    fn words_and_bytes_agree() {
        let mut bytes = Sip::new(1, 2);
        bytes.write(b"abc");
        bytes.write(&7u64.to_le_bytes());
        let mut words = Sip::new(1, 2);
        words.write(b"abc");
        words.write_u64(7);
        assert_eq!(bytes.finish(), words.finish());
    }
}
