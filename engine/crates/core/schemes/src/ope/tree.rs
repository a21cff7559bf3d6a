//! The lazily sampled order-preserving function of Boldyreva, Chenette, Lee and O'Neill,
//! "Order-Preserving Symmetric Encryption" (EUROCRYPT 2009, section 4): a random increasing
//! function from 0..size into all strings of `bits` bits.
//!
//! A node halves the range; how many of its domain's values fall into the lower half is a
//! hypergeometric sample, whose coins a PRF makes of the node's place. Since ranges are halved, a
//! ciphertext is the path to it: its bits are the turns. Where one value is left, what remains of
//! its ciphertext is uniform, by the PRF too.
//!
//! Many values go down together, sorted, so that each node that any of them meets is sampled once.

use crate::SchemeError;
use crate::aes::Aes;
use crate::ope::hgd::{self, Coins};

/// A ciphertext: its bits from the highest of the first number on, then zeros. Compares as the
/// ciphertexts do.
pub(crate) type Path = [u128; 2];

/// The function.
pub(crate) struct Tree {
    size: u128,
    bits: u32,
    /// Makes a node's seed of its place: CBC-MAC over a fixed number of blocks.
    indexes: Aes,
    /// Makes coins of the seed.
    coins: Aes,
}

/// The values `low`..`low` + `size` under the first `level` bits of `path`.
#[derive(Clone, Copy)]
struct Node {
    low: u128,
    size: u128,
    path: Path,
    level: u32,
}

impl Tree {
    /// From 0..`size` into strings of `bits` bits: there must be at least as many, and at most 256
    /// bits.
    pub(crate) fn new(
        indexes: &[u8],
        coins: &[u8],
        size: u128,
        bits: u32,
    ) -> Result<Self, SchemeError> {
        Ok(Self {
            size,
            bits,
            indexes: Aes::new(indexes)?,
            coins: Aes::new(coins)?,
        })
    }

    /// The ciphertexts of `values`, which are ascending, distinct and below the size.
    pub(crate) fn encrypt(&self, values: &[u128]) -> Result<Vec<Path>, SchemeError> {
        let mut out = Vec::with_capacity(values.len());
        if !values.is_empty() {
            self.descend(self.root(), values, &mut out)?;
        }
        Ok(out)
    }

    /// The values of ciphertexts, which are ascending and distinct; none for what is no value's.
    pub(crate) fn decrypt(&self, paths: &[Path]) -> Result<Vec<Option<u128>>, SchemeError> {
        let mut out = Vec::with_capacity(paths.len());
        if !paths.is_empty() {
            self.climb(self.root(), paths, &mut out)?;
        }
        Ok(out)
    }

    fn root(&self) -> Node {
        Node {
            low: 0,
            size: self.size,
            path: [0; 2],
            level: 0,
        }
    }

    fn descend(
        &self,
        mut node: Node,
        mut values: &[u128],
        out: &mut Vec<Path>,
    ) -> Result<(), SchemeError> {
        loop {
            if node.size == 1 {
                out.push(self.leaf(&node)?);
                return Ok(());
            }
            let (lower, upper) = self.split(&node)?;
            let at = values.partition_point(|value| *value < upper.low);
            let (left, right) = values
                .split_at_checked(at)
                .ok_or(SchemeError::Internal("ope"))?;
            (node, values) = match (left.is_empty(), right.is_empty()) {
                (false, true) => (lower, left),
                (true, _) => (upper, right),
                (false, false) => {
                    self.descend(lower, left, out)?;
                    (upper, right)
                }
            };
        }
    }

    fn climb(
        &self,
        mut node: Node,
        mut paths: &[Path],
        out: &mut Vec<Option<u128>>,
    ) -> Result<(), SchemeError> {
        loop {
            if node.size == 0 {
                out.extend(paths.iter().map(|_| None));
                return Ok(());
            }
            if node.size == 1 {
                let leaf = self.leaf(&node)?;
                out.extend(paths.iter().map(|path| (*path == leaf).then_some(node.low)));
                return Ok(());
            }
            let (lower, upper) = self.split(&node)?;
            let at = paths.partition_point(|path| !bit(path, node.level));
            let (left, right) = paths
                .split_at_checked(at)
                .ok_or(SchemeError::Internal("ope"))?;
            (node, paths) = match (left.is_empty(), right.is_empty()) {
                (false, true) => (lower, left),
                (true, _) => (upper, right),
                (false, false) => {
                    self.climb(lower, left, out)?;
                    (upper, right)
                }
            };
        }
    }

    /// The two halves of a node of two values or more.
    fn split(&self, node: &Node) -> Result<(Node, Node), SchemeError> {
        let below = self
            .bits
            .checked_sub(node.level.saturating_add(1))
            .ok_or(SchemeError::Internal("ope range"))?;
        let lower = hgd::sample(node.size, below, &mut self.coins(node)?)?;
        let level = node.level.saturating_add(1);
        let mut upper_path = node.path;
        set(&mut upper_path, node.level);
        Ok((
            Node {
                size: lower,
                level,
                ..*node
            },
            Node {
                low: node.low.wrapping_add(lower),
                size: node.size.wrapping_sub(lower),
                path: upper_path,
                level,
            },
        ))
    }

    /// The path of a single value: the node's, then random bits to the end.
    fn leaf(&self, node: &Node) -> Result<Path, SchemeError> {
        let mut coins = self.coins(node)?;
        let mut path = node.path;
        for (part, start) in path.iter_mut().zip([0, 128]) {
            // Bits `level..bits` of the whole path, as a mask of this part's.
            let from = u128::MAX
                .checked_shr(node.level.saturating_sub(start))
                .unwrap_or(0);
            let to = u128::MAX
                .checked_shr(self.bits.saturating_sub(start))
                .unwrap_or(0);
            let mask = from & !to;
            if mask != 0 {
                *part |= coins.next()? & mask;
            }
        }
        Ok(path)
    }

    fn coins(&self, node: &Node) -> Result<NodeCoins<'_>, SchemeError> {
        // Level (16 bits) and path, in as many blocks as the longest path takes.
        let [high, low] = node.path;
        let positions = [
            (u128::from(node.level) << 112) | (high >> 16),
            (high << 112) | (low >> 16),
            low << 112,
        ];
        let blocks = usize::try_from(self.bits.saturating_add(16).div_ceil(128)).unwrap_or(3);
        let mut seed = 0_u128;
        for block in positions.into_iter().take(blocks) {
            seed = u128::from_be_bytes(self.indexes.block((block ^ seed).to_be_bytes())?);
        }
        Ok(NodeCoins {
            prf: &self.coins,
            seed,
            next: 0,
        })
    }
}

/// AES(seed ⊕ 0), AES(seed ⊕ 1), …
struct NodeCoins<'a> {
    prf: &'a Aes,
    seed: u128,
    next: u128,
}

impl Coins for NodeCoins<'_> {
    fn next(&mut self) -> Result<u128, SchemeError> {
        let block = (self.seed ^ self.next).to_be_bytes();
        self.next = self.next.wrapping_add(1);
        Ok(u128::from_be_bytes(self.prf.block(block)?))
    }
}

fn bit([high, low]: &Path, level: u32) -> bool {
    let (part, positions) = if level < 128 {
        (high, level)
    } else {
        (low, level.wrapping_sub(128))
    };
    part.wrapping_shl(positions) >> 127 == 1
}

fn set([high, low]: &mut Path, level: u32) {
    let (part, positions) = if level < 128 {
        (high, level)
    } else {
        (low, level.wrapping_sub(128))
    };
    *part |= (1 << 127) >> positions.min(127);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn tree(seed: u32, size: u128, bits: u32) -> Tree {
        let mut key = [3; 32];
        key[..4].copy_from_slice(&seed.to_be_bytes());
        let mut other = key;
        other[31] = 4;
        Tree::new(&key, &other, size, bits).unwrap()
    }

    fn number(path: &Path, bits: u32) -> u128 {
        path[0] >> (128 - bits)
    }

    /// All C(8, 3) = 56 increasing functions from 3 values into 8 are equally likely: the
    /// definition of the ideal object, by brute force over keys.
    #[test]
    fn every_increasing_function_is_as_likely() {
        for (size, bits, functions) in [(3_u128, 3, 56.0), (2, 4, 120.0), (4, 3, 70.0), (7, 3, 8.0)]
        {
            let keys = 20_000;
            let mut seen = BTreeMap::<Vec<u128>, f64>::new();
            let values: Vec<u128> = (0..size).collect();
            for seed in 0..keys {
                let paths = tree(seed, size, bits).encrypt(&values).unwrap();
                let function: Vec<u128> = paths.iter().map(|path| number(path, bits)).collect();
                assert!(function.is_sorted_by(|a, b| a < b));
                *seen.entry(function).or_default() += 1.0;
            }
            let expected = f64::from(keys) / functions;
            let chi: f64 = seen
                .values()
                .map(|count| (count - expected).powi(2) / expected)
                .sum();
            let freedom = functions - 1.0;
            assert_eq!(seen.len() as f64, functions);
            assert!(
                chi < freedom + 6.0 * (2.0 * freedom).sqrt(),
                "{size} into 2^{bits}: χ² {chi:.1}"
            );
        }
    }

    /// The ciphertext of value v of m in a range of n is an order statistic: its mean is (v +
    /// 1)(n + 1) / (m + 1) − 1. Kolmogorov–Smirnov against its distribution, P(c ≤ x) =
    /// P(hypergeometric(n, m, x + 1) > v).
    #[test]
    fn positions_are_order_statistics() {
        let (size, bits, keys) = (10_u128, 8, 4_000_u32);
        for value in [0_u128, 4, 9] {
            let mut indexes: Vec<u128> = (0..keys)
                .map(|seed| number(&tree(seed, size, bits).encrypt(&[value]).unwrap()[0], bits))
                .collect();
            indexes.sort_unstable();
            let choose = |n: u128, k: u128| {
                (0..k).fold(1.0, |c, i| c * (n as f64 - i as f64) / (i + 1) as f64)
            };
            let mut most = 0.0_f64;
            for x in 0..256_u128 {
                let ideal: f64 = (value + 1..=size)
                    .map(|k| choose(x + 1, k) * choose(255 - x, size - k) / choose(256, size))
                    .sum();
                let found =
                    indexes.partition_point(|positions| *positions <= x) as f64 / f64::from(keys);
                most = most.max((ideal - found).abs());
            }
            // 1.95 / √n is passed once in a thousand; the keys are fixed, so it is passed never or
            // always.
            assert!(
                most < 1.95 / f64::from(keys).sqrt(),
                "value {value}: {most}"
            );
        }
    }

    #[test]
    fn together_or_alone_is_the_same() {
        for (size, bits) in [
            (1_u128 << 32, 63),
            (1 << 64, 128),
            (3, 63),
            (u128::MAX / 3, 256),
        ] {
            let tree = tree(1, size, bits);
            let values: Vec<u128> = (0..50)
                .map(|i| i * (size / 50).max(1))
                .filter(|v| *v < size)
                .collect();
            let together = tree.encrypt(&values).unwrap();
            for (value, path) in values.iter().zip(&together) {
                assert_eq!(tree.encrypt(&[*value]).unwrap(), [*path]);
            }
            assert!(together.is_sorted_by(|a, b| a < b));
            let opened: Vec<u128> = tree
                .decrypt(&together)
                .unwrap()
                .into_iter()
                .flatten()
                .collect();
            assert_eq!(opened, values);
        }
    }

    #[test]
    fn a_full_range_is_the_identity() {
        let tree = tree(1, 64, 6);
        let values: Vec<u128> = (0..64).collect();
        let paths = tree.encrypt(&values).unwrap();
        assert_eq!(
            paths.iter().map(|path| number(path, 6)).collect::<Vec<_>>(),
            values
        );
    }

    proptest! {
        #[test]
        fn what_is_no_ciphertext_is_found(value in 0_u128..1_000_000, flip in 0_u32..40) {
            let tree = tree(1, 1_000_000, 40);
            let mut path = tree.encrypt(&[value]).unwrap()[0];
            path[0] ^= (1 << 127) >> flip;
            // A flipped bit may make the ciphertext of another value: never of the same, and mostly
            // of none.
            let opened = tree.decrypt(&[path]).unwrap()[0];
            if let Some(other) = opened {
                prop_assert_ne!(other, value);
                prop_assert_eq!(tree.encrypt(&[other]).unwrap()[0], path);
            }
        }
    }
}
