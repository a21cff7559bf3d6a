//! A whole number of units of a power of two, with as many digits as it takes: sums that two
//! doubles cannot hold.

use datafusion_common::{Result, internal_datafusion_err};

/// Bits of a digit.
const BITS: i32 = 32;
const MASK: i64 = 0xffff_ffff;

/// So many additions leave each digit's carries within its 64 bits.
const ADDITIONS: u32 = 1 << 29;

/// No sum of so few numbers as there can be has digits further from 2^0 than this, nor has a
/// product of two sums.
const FURTHEST: i32 = 1 << 10;

/// The bits of a double: its digits, with the bit that is not stored.
const MANTISSA: i32 = 53;
/// The lowest bit of all doubles.
const LOWEST: i32 = -1074;

/// The sum of `digits[i]` · 2^(32 · (first + i)). Digits have signs, and are more than 32 bits
/// while carries are pending.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Digits {
    first: i32,
    digits: Vec<i64>,
    additions: u32,
}

/// Digits without signs and without zeros at either end.
struct Magnitude {
    negative: bool,
    first: i32,
    digits: Vec<u32>,
}

/// `mantissa` · 2^`exponent`: a double whose exponent has no bounds. The mantissa is 0, or from 1
/// up to 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Rounded {
    pub(in super::super) mantissa: f64,
    pub(in super::super) exponent: i32,
}

/// A finite double as sign, whole number and power of two.
fn parts(value: f64) -> (bool, u64, i32) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
    let (whole, exponent) = match exponent {
        0 => (fraction, LOWEST),
        _ => (fraction | (1 << 52), exponent + LOWEST - 1),
    };
    (bits >> 63 == 1, whole, exponent)
}

impl Digits {
    pub(in super::super) fn memory(&self) -> usize {
        size_of::<Self>() + self.digits.capacity() * size_of::<i64>()
    }

    /// Adds a finite number.
    pub(in super::super) fn add(&mut self, value: f64) {
        let (negative, whole, exponent) = parts(value);
        self.put(negative, whole.into(), exponent);
    }

    /// Adds the square of a finite number.
    pub(in super::super) fn add_square(&mut self, value: f64) {
        let (_, whole, exponent) = parts(value);
        let square = u128::from(whole) * u128::from(whole);
        self.put(false, square & u128::from(u64::MAX), 2 * exponent);
        self.put(false, square >> 64, 2 * exponent + 64);
    }

    /// Adds ± `whole` · 2^`exponent`; `whole` has 64 bits at most.
    fn put(&mut self, negative: bool, whole: u128, exponent: i32) {
        if whole == 0 {
            return;
        }
        let mut left = whole << exponent.rem_euclid(BITS);
        let from = exponent.div_euclid(BITS);
        self.reach(from, from + 3);
        let at = usize::try_from(from - self.first).unwrap_or(0);
        for digit in self.digits.iter_mut().skip(at) {
            if left == 0 {
                break;
            }
            let part = i64::try_from(left & 0xffff_ffff).unwrap_or(0);
            *digit += if negative { -part } else { part };
            left >>= BITS;
        }
        self.added();
    }

    pub(in super::super) fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        other.carry();
        self.carry();
        self.reach(other.first, other.end());
        let at = usize::try_from(other.first - self.first).unwrap_or(0);
        for (digit, more) in self.digits.iter_mut().skip(at).zip(&other.digits) {
            *digit += more;
        }
        self.added();
    }

    pub(in super::super) fn negate(&mut self) {
        for digit in &mut self.digits {
            *digit = -*digit;
        }
    }

    fn end(&self) -> i32 {
        self.first + i32::try_from(self.digits.len()).unwrap_or(0)
    }

    /// Makes room for the digits from `from` up to `end`.
    fn reach(&mut self, from: i32, end: i32) {
        if self.digits.is_empty() {
            self.first = from;
        }
        let below = usize::try_from(self.first - from).unwrap_or(0);
        if below > 0 {
            self.digits.splice(0..0, std::iter::repeat_n(0, below));
            self.first = from;
        }
        let length = usize::try_from(end - self.first).unwrap_or(0);
        if length > self.digits.len() {
            self.digits.resize(length, 0);
        }
    }

    fn added(&mut self) {
        self.additions += 1;
        if self.additions >= ADDITIONS {
            self.carry();
        }
    }

    /// Brings all digits but the last to 0..2^32, and the last below 2^32 in size.
    fn carry(&mut self) {
        self.additions = 0;
        let Some(last) = self.digits.len().checked_sub(1) else {
            return;
        };
        let mut carry = 0;
        for digit in self.digits.iter_mut().take(last) {
            let whole = *digit + carry;
            *digit = whole & MASK;
            carry = whole >> BITS;
        }
        if let Some(digit) = self.digits.last_mut() {
            *digit += carry;
            if !(-MASK..=MASK).contains(digit) {
                let above = *digit >> BITS;
                *digit &= MASK;
                self.digits.push(above);
            }
        }
    }

    fn magnitude(&self) -> Magnitude {
        let mut whole = self.clone();
        whole.carry();
        let negative = whole
            .digits
            .iter()
            .rev()
            .find(|digit| **digit != 0)
            .is_some_and(|digit| *digit < 0);
        if negative {
            whole.negate();
            whole.carry();
        }
        let digits: Vec<u32> = whole
            .digits
            .iter()
            .map(|digit| u32::try_from(*digit).unwrap_or(0))
            .collect();
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        let length = digits
            .iter()
            .rposition(|digit| *digit != 0)
            .map_or(0, |last| last + 1);
        Magnitude {
            negative,
            first: whole.first + i32::try_from(zeros).unwrap_or(0),
            digits: digits.get(zeros..length).unwrap_or_default().to_vec(),
        }
    }

    /// The nearest double; an infinity past the largest.
    pub(in super::super) fn rounded(&self) -> f64 {
        let whole = self.magnitude();
        let Some(top) = whole.top() else { return 0.0 };
        let lowest = (top - (MANTISSA - 1)).max(LOWEST);
        let (bits, up) = whole.cut(lowest);
        // The exponent's field counts from the lowest bit of all; its first step is the bit that is
        // not stored.
        let field = u64::try_from(lowest - LOWEST).unwrap_or(0);
        let bits = (field.min(0x7ff) << 52)
            .saturating_add(bits)
            .saturating_add(up.into());
        let size = f64::from_bits(bits.min(f64::INFINITY.to_bits()));
        if whole.negative { -size } else { size }
    }

    /// As a double without bounds on its exponent.
    pub(in super::super) fn unbounded(&self) -> Rounded {
        let whole = self.magnitude();
        let Some(top) = whole.top() else {
            return Rounded {
                mantissa: 0.0,
                exponent: 0,
            };
        };
        let (bits, up) = whole.cut(top - (MANTISSA - 1));
        // 53 bits, or 2^53 after rounding up: exact either way.
        let size = (bits + u64::from(up)) as f64 / (1u64 << (MANTISSA - 1)) as f64;
        Rounded {
            mantissa: if whole.negative { -size } else { size },
            exponent: top,
        }
    }

    /// The number as its double and what is left, if that is a double too.
    pub(super) fn as_pair(&self) -> Option<(f64, f64)> {
        let head = self.rounded();
        if !head.is_finite() {
            return None;
        }
        let mut left = self.clone();
        left.carry();
        left.add(-head);
        let tail = left.rounded();
        if !tail.is_finite() {
            return None;
        }
        left.add(-tail);
        left.magnitude().digits.is_empty().then_some((head, tail))
    }

    pub(in super::super) fn multiplied(&self, by: u64) -> Self {
        let low = Self::small(by & u64::from(u32::MAX));
        let mut high = Self::small(by >> BITS);
        high.first = 1;
        let mut product = self.times(&low);
        product.merge(&self.times(&high));
        product
    }

    fn small(digit: u64) -> Self {
        Self {
            first: 0,
            digits: vec![i64::try_from(digit).unwrap_or(0)],
            additions: 0,
        }
    }

    /// The product.
    pub(in super::super) fn times(&self, other: &Self) -> Self {
        let (a, b) = (self.magnitude(), other.magnitude());
        let mut product = vec![0u32; a.digits.len() + b.digits.len()];
        for (position, x) in a.digits.iter().enumerate() {
            let mut carry = 0u64;
            let mut over = product.iter_mut().skip(position);
            for y in b.digits.iter().chain(std::iter::once(&0)) {
                let Some(digit) = over.next() else { break };
                let whole = u64::from(*x) * u64::from(*y) + u64::from(*digit) + carry;
                *digit = u32::try_from(whole & u64::from(u32::MAX)).unwrap_or(0);
                carry = whole >> BITS;
            }
        }
        let mut result = Self {
            first: a.first + b.first,
            digits: product.into_iter().map(i64::from).collect(),
            additions: 0,
        };
        if a.negative != b.negative {
            result.negate();
        }
        result
    }

    /// Sign, place and digits; an odd number of bytes, so neither 8 nor 16.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let whole = self.magnitude();
        out.push(whole.negative.into());
        out.extend_from_slice(&i16::try_from(whole.first).unwrap_or(i16::MAX).to_le_bytes());
        for digit in whole.digits {
            out.extend_from_slice(&digit.to_le_bytes());
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let malformed = || internal_datafusion_err!("a partial sum of doubles is malformed");
        let (sign, rest) = bytes.split_first().ok_or_else(malformed)?;
        let (first, digits) = rest.split_first_chunk::<2>().ok_or_else(malformed)?;
        let first = i32::from(i16::from_le_bytes(*first));
        let most = usize::try_from(FURTHEST).unwrap_or(0);
        if *sign > 1 || first.abs() > FURTHEST || digits.len() % 4 != 0 || digits.len() / 4 > most {
            return Err(malformed());
        }
        let digits = digits
            .chunks_exact(4)
            .filter_map(|digit| digit.try_into().ok());
        let mut sum = Self {
            first,
            digits: digits
                .map(|digit| i64::from(u32::from_le_bytes(digit)))
                .collect(),
            additions: 0,
        };
        if *sign == 1 {
            sum.negate();
        }
        Ok(sum)
    }
}

impl Magnitude {
    /// The exponent of the highest bit.
    fn top(&self) -> Option<i32> {
        let highest = self.digits.last()?;
        let below = i32::try_from(self.digits.len()).unwrap_or(0) - 1;
        let bit = 31 - i32::try_from(highest.leading_zeros()).unwrap_or(0);
        Some(BITS * (self.first + below) + bit)
    }

    /// The bits from 2^`lowest` up, at most 53 of them, and whether what is below rounds them up.
    fn cut(&self, lowest: i32) -> (u64, bool) {
        let (mut bits, mut half, mut below) = (0u64, false, false);
        for (position, digit) in (self.first..).zip(&self.digits) {
            let shift = BITS * position - lowest;
            let digit = u64::from(*digit);
            match shift {
                0.. => {
                    bits |= digit
                        .checked_shl(u32::try_from(shift).unwrap_or(64))
                        .unwrap_or(0)
                }
                // Across the cut: part of it above, the bit just below, the rest.
                -31..0 => {
                    let down = u32::try_from(-shift).unwrap_or(0);
                    bits |= digit >> down;
                    half = (digit >> (down - 1)) & 1 == 1;
                    below |= digit & ((1 << (down - 1)) - 1) != 0;
                }
                -32 => {
                    half = digit >> 31 == 1;
                    below |= digit & 0x7fff_ffff != 0;
                }
                _ => below |= digit != 0,
            }
        }
        (bits, half && (below || bits & 1 == 1))
    }
}
