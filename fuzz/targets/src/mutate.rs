//! Seeded mutations, for the smoke run. libFuzzer has its own.

/// The same seed gives the same mutations everywhere.
pub struct Random(fastrand::Rng);

impl Random {
    /// From a seed and a name, so that targets differ.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a of the name.
        let mixed = name
            .bytes()
            .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self(fastrand::Rng::with_seed(mixed))
    }

    /// Below `end`; 0 when that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end.max(1))
    }
}

/// Lengths and counts that tend to go wrong.
const NUMBERS: [u32; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0xffff,
    1 << 24,
    (64 << 20) + 1,
    i32::MAX as u32,
    1 << 31,
    u32::MAX - 3,
    u32::MAX,
];

/// Changes an input in one to four ways; `other` is one to take pieces of.
pub fn mutate(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let length = 1 + random.below(16);
        match random.below(9) {
            0 | 1 => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= 1 << random.below(8)),
            2 => {
                let to = [0, 1, 0x7f, 0x80, 0xfe, 0xff][random.below(6)];
                bytes
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte = to);
            }
            3 => {
                let number = NUMBERS[random.below(NUMBERS.len())];
                let number = if random.below(2) == 0 {
                    number.to_le_bytes()
                } else {
                    number.to_be_bytes()
                };
                bytes
                    .iter_mut()
                    .skip(at)
                    .zip(number)
                    .for_each(|(to, from)| *to = from);
            }
            4 => bytes.truncate(at),
            5 => drop(bytes.drain(at..bytes.len().min(at + length))),
            6 => {
                let again: Vec<u8> = bytes.iter().skip(at).take(length * 4).copied().collect();
                bytes.splice(at..at, again);
            }
            7 => {
                let from = random.below(other.len());
                let piece: Vec<u8> = other.iter().skip(from).take(length * 4).copied().collect();
                let end = bytes
                    .len()
                    .min(at + if random.below(2) == 0 { 0 } else { piece.len() });
                bytes.splice(at..end, piece);
            }
            _ => bytes.extend((0..length).map(|_| random.below(256) as u8)),
        }
    }
    bytes
}
