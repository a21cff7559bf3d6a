//! The digits that Java wrote for a float up to JDK 18: the algorithm of Steele and White ("How to
//! print floating-point numbers accurately", 1990) with the shortcuts and stopping tests of the JDK
//! of those years.
//!
//! They are not always the shortest, nor the nearest (JDK-4511638): 2.0E-3 came right, 8.41E21 as
//! 8.409999999999999E21. Who compares texts with a Java of those years needs the same ones, so each
//! step here, wrapped products included, is one of its steps.

use std::cmp::Ordering;

use super::Digits;

/// Bits behind the point of a normalised double.
const FRACTION_BITS: i32 = 52;
/// From here on a whole number does not fit a long.
const LARGEST_LONG_EXPONENT: i32 = 62;
/// Bits of 5^n.
const BITS_OF_5: [i32; 27] = [
    0, 3, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28, 31, 33, 35, 38, 40, 42, 45, 47, 49, 52, 54, 56,
    59, 61,
];

/// Of a double that is finite and greater than 0.
pub(super) fn double(value: f64) -> Digits {
    let bits = value.to_bits();
    let fraction = bits & 0x000f_ffff_ffff_ffff;
    let exponent = (bits >> 52) as i32 & 0x7ff;
    if exponent > 0 {
        return digits(exponent - 1_023, fraction | 1 << 52, 53);
    }
    let zeros = fraction.leading_zeros() as i32;
    let shift = zeros - 11;
    digits(1 - shift - 1_023, fraction << shift, 64 - zeros)
}

/// Of a float that is finite and greater than 0.
pub(super) fn float(value: f32) -> Digits {
    let bits = value.to_bits();
    let fraction = bits & 0x007f_ffff;
    let exponent = (bits >> 23) as i32 & 0xff;
    let widened = |fraction: u32| u64::from(fraction) << 29;
    if exponent > 0 {
        return digits(exponent - 127, widened(fraction | 1 << 23), 24);
    }
    let zeros = fraction.leading_zeros() as i32;
    let shift = zeros - 8;
    digits(1 - shift - 127, widened(fraction << shift), 32 - zeros)
}

/// Of `fraction` × 2^(`exponent` − 52), whose first bit is bit 52; `significant` of its bits are
/// the value's.
fn digits(exponent: i32, fraction: u64, significant: i32) -> Digits {
    let tail = fraction.trailing_zeros() as i32;
    let bits = FRACTION_BITS + 1 - tail;
    let behind_point = (bits - exponent - 1).max(0);
    if behind_point == 0 && exponent <= LARGEST_LONG_EXPONENT {
        let insignificant = digits_below(exponent - significant - 1);
        let whole = match exponent >= FRACTION_BITS {
            true => fraction << (exponent - FRACTION_BITS),
            false => fraction >> (FRACTION_BITS - exponent),
        };
        return whole_number(whole, insignificant);
    }
    let estimate = estimate(fraction, exponent);
    let mut scale = Scale::new(estimate, exponent, bits, behind_point, significant);
    let fraction = fraction >> tail;
    let b_bits = bits + scale.b.two + bits_of_5(scale.b.five);
    let tens_bits = scale.s.two + 1 + bits_of_5(scale.s.five + 1);
    scale.exponent = estimate;
    if b_bits < 32 && tens_bits < 32 {
        in_ints(fraction as i32, &scale)
    } else if b_bits < 64 && tens_bits < 64 {
        in_longs(fraction as i64, &scale)
    } else {
        in_big_numbers(fraction, &scale)
    }
}

/// Decimal digits that 2^`power` has below its first one.
fn digits_below(power: i32) -> u32 {
    if power > 1 {
        (power as u32) * 30_103 / 100_000
    } else {
        0
    }
}

/// A whole number, of which so many digits say nothing. Zeros at its end are left out.
fn whole_number(mut value: u64, insignificant: u32) -> Digits {
    let mut exponent = 0;
    if insignificant != 0 {
        let unit = 10_u64.pow(insignificant);
        let rest = value % unit;
        value /= unit;
        exponent += insignificant as i32;
        if rest >= unit >> 1 {
            value += 1;
        }
    }
    while value != 0 && value.is_multiple_of(10) {
        value /= 10;
        exponent += 1;
    }
    let text = value.to_string();
    let mut out = Digits::new(exponent + text.len() as i32 - 1);
    text.bytes().for_each(|digit| out.push(digit - b'0'));
    out
}

/// The decimal exponent, at most one too large: the logarithm's tangent at 1.5, rounded down.
// The digits of the algorithm; more exact ones would be another algorithm.
#[allow(clippy::approx_constant)]
fn estimate(fraction: u64, exponent: i32) -> i32 {
    let mantissa = f64::from_bits(0x3ff0_0000_0000_0000 | fraction & 0x000f_ffff_ffff_ffff);
    let log = (mantissa - 1.5) * 0.289_529_654
        + 0.176_091_259
        + f64::from(exponent) * 0.301_029_995_663_981;
    log.floor() as i32
}

fn bits_of_5(power: i32) -> i32 {
    let known = usize::try_from(power)
        .ok()
        .and_then(|power| BITS_OF_5.get(power));
    known.copied().unwrap_or(power * 3)
}

/// 2^two × 5^five.
#[derive(Clone, Copy)]
struct Powers {
    two: i32,
    five: i32,
}

/// The value is b ÷ s × 10^exponent, b with the fraction as its factor; m is half of the distance
/// to the next double, scaled as b.
struct Scale {
    exponent: i32,
    b: Powers,
    s: Powers,
    m: Powers,
}

impl Scale {
    fn new(estimate: i32, exponent: i32, bits: i32, behind_point: i32, significant: i32) -> Self {
        let b_five = (-estimate).max(0);
        let s_five = estimate.max(0);
        let mut b = b_five + behind_point + exponent;
        let mut s = s_five + behind_point;
        let mut m = b - significant;
        b -= bits - 1;
        let common = b.min(s);
        b -= common;
        s -= common;
        m -= common;
        // Below a power of two the next number is half as far away.
        if bits == 1 {
            m -= 1;
        }
        if m < 0 {
            b -= m;
            s -= m;
            m = 0;
        }
        let powers = |two, five| Powers { two, five };
        Self {
            exponent: estimate,
            b: powers(b, b_five),
            s: powers(s, s_five),
            m: powers(m, b_five),
        }
    }

    /// The first digit, if it is one, and whether it may be the last: where an exponent is written
    /// a second one always is.
    fn first(&self, digit: u8, low: bool, high: bool) -> (Digits, bool, bool) {
        let mut out = Digits::new(self.exponent);
        if digit == 0 && !high {
            out.exponent -= 1;
        } else {
            out.push(digit);
        }
        match (-3..8).contains(&out.exponent) {
            true => (out, low, high),
            false => (out, false, false),
        }
    }
}

/// Rounds the last digit by why no more are needed: what is left is less than half of the distance
/// below, or above, or both; then `twice` says how twice what is left compares with one more.
fn ended(mut out: Digits, low: bool, high: bool, twice: Ordering) -> Digits {
    let up = match (high, low) {
        (false, _) => false,
        (true, false) => true,
        (true, true) => match twice {
            Ordering::Less => false,
            Ordering::Equal => out.last() % 2 == 1,
            Ordering::Greater => true,
        },
    };
    if up {
        out.round_up();
    }
    out
}

macro_rules! in_machine_numbers {
    ($name:ident, $int:ty) => {
        fn $name(fraction: $int, scale: &Scale) -> Digits {
            let power = |p: Powers| {
                (5 as $int)
                    .wrapping_pow(p.five as u32)
                    .wrapping_shl(p.two as u32)
            };
            let mut b = fraction
                .wrapping_mul((5 as $int).wrapping_pow(scale.b.five as u32))
                .wrapping_shl(scale.b.two as u32);
            let s = power(scale.s);
            let mut m = power(scale.m);
            let tens = s.wrapping_mul(10);
            let mut next = |b: &mut $int| {
                let digit = (*b / s) as u8;
                *b = (*b % s).wrapping_mul(10);
                m = m.wrapping_mul(10);
                (digit, m)
            };
            let (digit, m) = next(&mut b);
            let (mut out, mut low, mut high) = scale.first(digit, b < m, b.wrapping_add(m) > tens);
            while !low && !high {
                let (digit, m) = next(&mut b);
                // An m that has outgrown its type is more than any rest.
                (low, high) = match m > 0 {
                    true => (b < m, b.wrapping_add(m) > tens),
                    false => (true, true),
                };
                out.push(digit);
            }
            let twice = b.wrapping_shl(1).wrapping_sub(tens).cmp(&0);
            ended(out, low, high, twice)
        }
    };
}

in_machine_numbers!(in_ints, i32);
in_machine_numbers!(in_longs, i64);

fn in_big_numbers(fraction: u64, scale: &Scale) -> Digits {
    let mut b = Big::new(fraction, scale.b);
    let s = Big::new(1, scale.s);
    let mut m = Big::new(1, scale.m);
    m.times(10);
    let mut tens = s.clone();
    tens.times(10);
    let next = |b: &mut Big| {
        let digit = b.divide(&s);
        b.times(10);
        digit
    };
    let digit = next(&mut b);
    let high = |b: &Big, m: &Big| b.plus(m) >= tens;
    let (mut out, mut low, mut ends_high) = scale.first(digit, b < m, high(&b, &m));
    while !low && !ends_high {
        let digit = next(&mut b);
        m.times(10);
        (low, ends_high) = (b < m, high(&b, &m));
        out.push(digit);
    }
    b.times(2);
    ended(out, low, ends_high, b.cmp(&tens))
}

/// A natural number, 32 bits in each place, the least first, no zero at the end.
#[derive(Clone, PartialEq, Eq)]
struct Big(Vec<u32>);

impl Big {
    fn new(factor: u64, powers: Powers) -> Self {
        let mut made = Self(vec![factor as u32, (factor >> 32) as u32]);
        made.trim();
        (0..powers.five / 13).for_each(|_| made.times(1_220_703_125));
        made.times(5_u32.pow(powers.five as u32 % 13));
        (0..powers.two / 31).for_each(|_| made.times(1 << 31));
        made.times(1 << (powers.two % 31));
        made
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn times(&mut self, factor: u32) {
        let mut carry = 0_u64;
        for position in &mut self.0 {
            carry += u64::from(*position) * u64::from(factor);
            *position = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn plus(&self, other: &Self) -> Self {
        let (long, short) = if self.0.len() < other.0.len() {
            (other, self)
        } else {
            (self, other)
        };
        let mut sum = Vec::with_capacity(long.0.len() + 1);
        let mut carry = 0_u64;
        for (at, position) in long.0.iter().enumerate() {
            carry += u64::from(*position) + u64::from(short.0.get(at).copied().unwrap_or(0));
            sum.push(carry as u32);
            carry >>= 32;
        }
        if carry > 0 {
            sum.push(carry as u32);
        }
        Self(sum)
    }

    /// How often `other` is in it, at most nine times; it keeps the rest.
    fn divide(&mut self, other: &Self) -> u8 {
        let mut quotient = 0;
        while *self >= *other {
            let mut borrow = 0_i64;
            for (at, position) in self.0.iter_mut().enumerate() {
                let difference = i64::from(*position)
                    - i64::from(other.0.get(at).copied().unwrap_or(0))
                    + borrow;
                *position = difference as u32;
                borrow = difference >> 32;
            }
            self.trim();
            quotient += 1;
        }
        quotient
    }
}

impl Ord for Big {
    fn cmp(&self, other: &Self) -> Ordering {
        let positions = || self.0.iter().rev().cmp(other.0.iter().rev());
        self.0.len().cmp(&other.0.len()).then_with(positions)
    }
}

impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
