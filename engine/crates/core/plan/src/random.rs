//! Spark's generators of random numbers, number by number.

/// Marsaglia's xorshift (Journal of Statistical Software 8, 2003) with Spark's shifts and seeding.
pub(crate) struct XorShift(i64);

impl XorShift {
    pub(crate) fn new(seed: i64) -> Self {
        const ARRAY: u32 = 0x3c07_4a61;
        let bytes = seed.to_be_bytes();
        let low = murmur3(&bytes, ARRAY);
        let high = murmur3(&bytes, low);
        let state = (u64::from(high) << 32) | u64::from(low);
        Self(state.cast_signed())
    }

    fn next(&mut self, bits: u32) -> u64 {
        let mut next = self.0 ^ (self.0 << 21);
        next ^= (next.cast_unsigned() >> 35).cast_signed();
        next ^= next << 4;
        self.0 = next;
        next.cast_unsigned() & ((1 << bits) - 1)
    }

    /// A Latin digit or letter.
    pub(crate) fn letter(&mut self) -> u8 {
        let drawn = (self.next(32) as u32).cast_signed() % 62;
        match u8::try_from(drawn.unsigned_abs()).unwrap_or_default() {
            digit @ 0..10 => b'0' + digit,
            small @ 10..36 => b'a' + (small - 10),
            capital => b'A' + (capital - 36),
        }
    }

    /// From 0.0 on, below 1.0.
    pub(crate) fn double(&mut self) -> f64 {
        let bits = (self.next(26) << 27) + self.next(27);
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let bits = bits as f64;
        bits / 9_007_199_254_740_992.0
    }
}

/// The polar method (Knuth, The Art of Computer Programming, volume 2, 3.4.1), as
/// `java.util.Random` has it.
pub(crate) struct Normal {
    random: XorShift,
    next: Option<f64>,
}

impl Normal {
    pub(crate) fn new(seed: i64) -> Self {
        Self {
            random: XorShift::new(seed),
            next: None,
        }
    }

    pub(crate) fn double(&mut self) -> f64 {
        if let Some(next) = self.next.take() {
            return next;
        }
        loop {
            let first = 2.0 * self.random.double() - 1.0;
            let second = 2.0 * self.random.double() - 1.0;
            let square = first * first + second * second;
            if square < 1.0 && square != 0.0 {
                let factor = (-2.0 * coffer_expr::natural_log(square) / square).sqrt();
                self.next = Some(second * factor);
                return first * factor;
            }
        }
    }
}

/// The Mersenne Twister (Matsumoto and Nishimura, ACM Transactions on Modeling and Computer
/// Simulation 8, 1998), MT19937, seeded with an array of the seed's two halves.
pub(crate) struct Twister {
    state: Vec<u32>,
    at: usize,
}

impl Twister {
    const SIZE: usize = 624;
    const MIDDLE: usize = 397;

    pub(crate) fn new(seed: i64) -> Self {
        let bits = seed.cast_unsigned();
        let key = [(bits >> 32) as u32, bits as u32];
        let scrambled = |word: u32| word ^ (word >> 30);
        let mut state = Vec::with_capacity(Self::SIZE);
        let mut last = 19_650_218u32;
        state.push(last);
        for index in (1u32..).take(Self::SIZE - 1) {
            last = scrambled(last)
                .wrapping_mul(1_812_433_253)
                .wrapping_add(index);
            state.push(last);
        }
        let mut at = 1;
        let mut step = |at: &mut usize, mix: &dyn Fn(u32, u32, u32) -> u32| {
            let before = state.get(*at - 1).copied().unwrap_or_default();
            if let Some(word) = state.get_mut(*at) {
                let place = u32::try_from(*at).unwrap_or_default();
                *word = mix(*word, scrambled(before), place);
            }
            *at += 1;
            if *at == Self::SIZE {
                let last = state.last().copied().unwrap_or_default();
                state.splice(..1, [last]);
                *at = 1;
            }
        };
        for (index, half) in (0u32..2).zip(key).cycle().take(Self::SIZE) {
            step(&mut at, &|word, before, _| {
                (word ^ before.wrapping_mul(1_664_525))
                    .wrapping_add(half)
                    .wrapping_add(index)
            });
        }
        for _ in 1..Self::SIZE {
            step(&mut at, &|word, before, place| {
                (word ^ before.wrapping_mul(1_566_083_941)).wrapping_sub(place)
            });
        }
        state.splice(..1, [0x8000_0000]);
        Self {
            state,
            at: Self::SIZE,
        }
    }

    fn twist(&mut self) {
        let word = |state: &[u32], at: usize| state.get(at % Self::SIZE).copied().unwrap_or(0);
        for at in 0..Self::SIZE {
            let state = self.state.as_slice();
            let joined = (word(state, at) & 0x8000_0000) | (word(state, at + 1) & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            let made = word(state, at + Self::MIDDLE) ^ (joined >> 1) ^ odd;
            if let Some(word) = self.state.get_mut(at) {
                *word = made;
            }
        }
        self.at = 0;
    }

    fn next(&mut self) -> u32 {
        if self.at == Self::SIZE {
            self.twist();
        }
        let mut word = self.state.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    pub(crate) fn long(&mut self) -> u64 {
        (u64::from(self.next()) << 32) | u64::from(self.next())
    }

    /// From 0 on, below a bound that a positive `int` of Java's holds.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let mut bits = self.next() >> 1;
        if bound.is_power_of_two() {
            return ((u64::from(bound) * u64::from(bits)) >> 31) as u32;
        }
        // What is over the last whole multiple would make small numbers likelier.
        while bits - bits % bound + (bound - 1) > i32::MAX as u32 {
            bits = self.next() >> 1;
        }
        bits % bound
    }
}

/// MurmurHash3 (Appleby), 32 bits, of eight bytes.
fn murmur3(bytes: &[u8; 8], seed: u32) -> u32 {
    let mut hash = seed;
    for word in bytes.as_chunks::<4>().0 {
        let word = u32::from_le_bytes(*word)
            .wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593);
        hash = (hash ^ word)
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    hash ^= 8;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}
