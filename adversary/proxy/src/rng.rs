//! Numbers that look random and are the same for the same seed. Not for keys.

/// A generator; a copy of it draws the same numbers.
#[derive(Debug, Clone)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// The generator of that seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// One of `0..end`; 0 when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end.max(1))
    }

    /// True every other time.
    pub fn coin(&mut self) -> bool {
        self.0.bool()
    }

    /// One of these; none when there are none.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        among.get(self.below(among.len()))
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill(&mut bytes);
        bytes
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
