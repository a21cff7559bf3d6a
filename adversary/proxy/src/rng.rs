//! Numbers that look random and are the same for the same seed (SplitMix64, Steele et al. 2014). Not for keys.

/// A generator; a copy of it draws the same numbers.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The generator of that seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..end`; 0 when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.bits() % end).unwrap_or(0)
    }

    /// True every other time.
    pub fn coin(&mut self) -> bool {
        self.bits() & 1 == 1
    }

    /// One of these; none when there are none.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        among.get(self.below(among.len()))
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.bits().to_le_bytes()[0]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_numbers_again() {
        let draw = |seed| (0..4).map(|_| Rng::new(seed).bits()).collect::<Vec<_>>();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut rng = Rng::new(3);
        assert!((0..100).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.bytes(9).len(), 9);
    }
}
