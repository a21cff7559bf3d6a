//! Samples of the symmetric hypergeometric distribution: of 2k balls m are white; how many white
//! ones are among k drawn?
//!
//! Halving the range of an order-preserving function asks just this question at every node (k =
//! 2^bits), so no other parameters come up. By complement m ≤ k. Three ways, by size:
//!
//! * 2k ≤ 64: exact integers, by inversion;
//! * m ≤ 4,096: inversion outwards from the middle, where Kachitvichyanukul & Schmeiser ("Computer
//!   generation of hypergeometric random variates", J. Stat. Comput. Simul. 22, 1985) invert from
//!   the end: the distribution is symmetric, so one recurrence serves both sides and a coin picks
//!   one;
//! * else the ratio of uniforms with the table-mountain hat of Stadlober ("The ratio of uniforms
//!   approach for generating discrete random variates", J. Comput. Appl. Math. 31, 1990), which
//!   needs no set-up that depends on the node, unlike their H2PE.
//!
//! Logarithms of probabilities are taken relative to the middle's, in the deviance form of Loader
//! ("Fast and accurate computation of binomial probabilities", 2000), in which nothing cancels:
//! their error is below 1e-11 for all sizes, and what comes out is as far from the distribution at
//! most. Only IEEE 754's exactly rounded operations and the `libm` crate are used, so every machine
//! draws the same numbers.
#![allow(
    clippy::as_conversions,
    reason = "conversions between integers and doubles are what this module does, each with its \
        bound beside it"
)]

use std::sync::LazyLock;

use crate::SchemeError;

/// Random bits for one sample: block after block, the same for the same node.
pub(crate) trait Coins {
    /// The next 128 bits.
    fn next(&mut self) -> Result<u128, SchemeError>;
}

/// Up to so many white balls by inversion.
const INVERTED: u64 = 4_096;
/// Populations of up to so many balls exactly.
const EXACT_HALF: u32 = 5;
/// Rounds of the ratio of uniforms; each is rejected with a probability below 0.3.
const ROUNDS: usize = 1_000;

/// How many of `white` ≤ 2^(`bits` + 1) are among the 2^`bits` drawn of 2^(`bits` + 1).
pub(crate) fn sample(white: u128, bits: u32, coins: &mut impl Coins) -> Result<u128, SchemeError> {
    // More than half of the balls are white: ask for the others.
    if let Some(half) = 1_u128.checked_shl(bits)
        && white > half
    {
        let other = half.wrapping_sub(white.wrapping_sub(half));
        let drawn = sample_small_half(other, bits, coins)?;
        return Ok(half.wrapping_sub(drawn));
    }
    sample_small_half(white, bits, coins)
}

fn sample_small_half(white: u128, bits: u32, coins: &mut impl Coins) -> Result<u128, SchemeError> {
    if white == 0 {
        return Ok(0);
    }
    if white == 1 {
        return Ok(coins.next()? >> 127);
    }
    if bits <= EXACT_HALF {
        return exact(white as u64, 1 << bits, coins);
    }
    match u64::try_from(white) {
        Ok(white) if white <= INVERTED => invert(white, bits, coins).map(u128::from),
        _ => ratio_of_uniforms(white, bits, coins),
    }
}

/// By inversion in integers: each count gets its probability to within 2^-63.
fn exact(white: u64, half: u64, coins: &mut impl Coins) -> Result<u128, SchemeError> {
    let total = choose(half.wrapping_mul(2), white);
    let mut rest = (coins.next()? >> 64).wrapping_mul(total) >> 64;
    for x in 0..=white {
        let ways = choose(half, x).wrapping_mul(choose(half, white.wrapping_sub(x)));
        if rest < ways {
            return Ok(u128::from(x));
        }
        rest = rest.wrapping_sub(ways);
    }
    Err(SchemeError::Internal("hypergeometric sum"))
}

/// Binomial coefficients of n ≤ 64.
fn choose(n: u64, k: u64) -> u128 {
    if k > n {
        return 0;
    }
    (0..k).fold(1_u128, |ways, i| {
        ways.wrapping_mul(u128::from(n.wrapping_sub(i))) / u128::from(i.wrapping_add(1))
    })
}

/// P(middle) of a fair binomial with n ≤ [`INVERTED`] trials.
static MIDDLES: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let mut middles = vec![1.0_f64];
    let mut last = 1.0_f64;
    for n in 1..=INVERTED {
        // C(2m, m) / 4^m → C(2m + 1, m) / (2 · 4^m) and on to C(2m + 2, m + 1) / 4^(m + 1).
        last = if n % 2 == 1 {
            last * (n as f64) / ((n + 1) as f64)
        } else {
            last
        };
        middles.push(last);
    }
    middles
});

/// P(x) where x is `white` / 2, rounded down: the greatest probability.
fn middle(white: u64, bits: u32) -> f64 {
    let half = power_of_two(bits);
    let x = (white / 2) as f64;
    let binomial = MIDDLES.get(white as usize).copied().unwrap_or(0.0);
    // dbinom(k - x; 2k - m, 1/2) / dbinom(k; 2k, 1/2), by Stirling's series and deviances: all
    // arguments are ≥ 16.
    let (black_in, black_out) = (half - x, half - (white as f64 - x));
    let black = 2.0 * half - white as f64;
    let errors = stirling(black) - stirling(black_in) - stirling(black_out) - stirling(2.0 * half)
        + 2.0 * stirling(half);
    let off = if white % 2 == 1 { 1.0 / black } else { 0.0 };
    let ratio = (black / (2.0 * half)) / ((black_in / half) * (black_out / half));
    binomial * ratio.sqrt() * libm::exp(errors - 0.5 * black * deviance(off))
}

fn invert(white: u64, bits: u32, coins: &mut impl Coins) -> Result<u64, SchemeError> {
    let coin = coins.next()?;
    let upwards = coin & 1 == 1;
    let mut rest = unit((coin >> 64) as u64);
    let half = power_of_two(bits);
    let m = white as f64;
    let low = white / 2;
    let odd = white % 2 == 1;
    let mut probability = middle(white, bits);
    // An even number's middle stands alone; every other value has a twin on the other side.
    let mut x = low;
    if !odd {
        rest -= probability;
        if rest < 0.0 {
            return Ok(low);
        }
        probability = below(probability, x as f64, m, half);
        x -= 1;
    }
    loop {
        rest -= 2.0 * probability;
        if rest < 0.0 || x == 0 {
            return Ok(if upwards { white - x } else { x });
        }
        probability = below(probability, x as f64, m, half);
        x -= 1;
    }
}

/// P(x − 1) of P(x).
fn below(probability: f64, x: f64, white: f64, half: f64) -> f64 {
    probability * ((x * (half - white + x)) / ((white - x + 1.0) * (half - x + 1.0)))
}

fn ratio_of_uniforms(white: u128, bits: u32, coins: &mut impl Coins) -> Result<u128, SchemeError> {
    let half = power_of_two(bits);
    let m = white as f64;
    let odd = white & 1 == 1;
    let middle = white >> 1;
    let shape = Shape {
        white: m / 2.0,
        black: half - m / 2.0,
    };
    // Variance of the distribution: m (2k − m) / (4 (2k − 1)), and k is far greater than 1.
    let spread = (m * (1.0 - m / (2.0 * half)) / 4.0 + 0.5).sqrt();
    // Beyond 2^40 standard deviations' worth of integers a double would skip some: the lowest bits
    // are drawn apart, from cells so small that the hat widened by one of them still covers.
    let extra = (u128::BITS - white.leading_zeros())
        .div_ceil(2)
        .saturating_sub(40);
    let cell = power_of_two(extra);
    // 2 √(2/e) and 3 − 2 √(3/e).
    let width = 1.715_527_769_921_413_5 * spread + 0.898_916_162_058_898_8 * cell;
    let offset = if odd { 0.5 } else { 0.0 };
    let top = shape.fall(offset);
    let farthest = 16.0 * spread;
    for _ in 0..ROUNDS {
        let coin = coins.next()?;
        let u = unit((coin >> 64) as u64);
        let v = unit(coin as u64);
        let w = offset + 0.5 + width * (v - 0.5) / u;
        if w.abs() >= farthest {
            continue;
        }
        // |w| < 16 · 2^63, and the cells are whole numbers.
        let mut distance = ((w / cell).floor() * cell) as i128;
        if extra > 0 {
            let low = coins.next()? & ((1_u128 << extra) - 1);
            distance += low.cast_signed();
        }
        // ln(P(x) / P(middle)) ≤ 0
        let log = top - shape.fall(distance as f64 - offset);
        let quick = u * (4.0 - u) - 3.0 <= log;
        if quick || (u * (u - log) < 1.0 && 2.0 * libm::log(u) <= log) {
            return middle
                .checked_add_signed(distance)
                .filter(|x| *x <= white)
                .ok_or(SchemeError::Internal("hypergeometric sample"));
        }
    }
    Err(SchemeError::Internal("hypergeometric rounds"))
}

/// The means of white and black balls among those drawn.
struct Shape {
    white: f64,
    black: f64,
}

impl Shape {
    /// −ln P at a distance from the mean, up to a constant: P = C(2w, w + d) · C(2b, b − d) / C(2k,
    /// k).
    fn fall(&self, distance: f64) -> f64 {
        half_fall(self.white, distance) + half_fall(self.black, distance)
    }
}

/// −ln C(2n, n + d) up to a constant, for |d| ≤ n / 4.
fn half_fall(n: f64, distance: f64) -> f64 {
    let e = distance / n;
    n * deviance(e) + 0.5 * libm::log1p(-e * e) + stirling(n + distance) + stirling(n - distance)
}

/// (1 + e) ln(1 + e) + (1 − e) ln(1 − e) = Σ e^2j / (j (2j − 1)), for |e| ≤ 1/4: what is left out
/// is below 1e-17 of it.
fn deviance(e: f64) -> f64 {
    let square = e * e;
    let mut sum = 0.0;
    for j in (1..=14_u32).rev() {
        let j = f64::from(j);
        sum = sum * square + 1.0 / (j * (2.0 * j - 1.0));
    }
    sum * square
}

/// ln n! minus Stirling's formula, for n ≥ 16: what is left out is below 1e-16.
fn stirling(n: f64) -> f64 {
    let inverse = 1.0 / n;
    let square = inverse * inverse;
    let tail = 1.0 / 1_260.0 - square * (1.0 / 1_680.0 - square / 1_188.0);
    inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * tail))
}

/// 2^`bits`, for bits ≤ 255.
fn power_of_two(bits: u32) -> f64 {
    f64::from_bits(u64::from(bits + 1_023) << 52)
}

/// A number in (0, 1), of 52 bits and a half.
fn unit(coin: u64) -> f64 {
    ((coin >> 12) as f64 + 0.5) * power_of_two_inverse()
}

fn power_of_two_inverse() -> f64 {
    f64::from_bits((1_023 - 52) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64, twice for each draw. Written out, since the samples below were recorded with it,
    /// and libraries may change what a seed gives.
    struct Stream(u64);

    impl Coins for Stream {
        fn next(&mut self) -> Result<u128, SchemeError> {
            let mut word = || {
                self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = self.0;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                u128::from(z ^ (z >> 31))
            };
            Ok(word() << 64 | word())
        }
    }

    /// ln C(n, k) by summing logarithms, for n up to some ten thousand.
    fn ln_choose(n: u64, k: u64) -> f64 {
        let mut terms: Vec<f64> = (0..k)
            .map(|i| libm::log((n - i) as f64 / (i + 1) as f64))
            .collect();
        terms.sort_by(f64::total_cmp);
        terms.iter().sum()
    }

    fn probability(x: u64, white: u64, half: u64) -> f64 {
        if x > half || white - x > half {
            return 0.0;
        }
        libm::exp(ln_choose(half, x) + ln_choose(half, white - x) - ln_choose(2 * half, white))
    }

    /// Against exact fractions of integers.
    #[test]
    fn the_middle_is_right() {
        let exact = [
            (2, 6, 0.5039370078740157),
            (3, 6, 0.3779527559055118),
            (64, 6, 0.1402234045955993),
            (63, 6, 0.13809880755627202),
            (100, 10, 0.08160600578280203),
            (4096, 12, 0.017629310400429282),
            (4095, 13, 0.014393466487984868),
            (17, 20, 0.18547128857268566),
        ];
        for (white, bits, expected) in exact {
            let found = middle(white, bits);
            assert!(
                (found / expected - 1.0).abs() < 1e-12,
                "{white} of 2^{bits}: {found} {expected}"
            );
        }
        // A population so large that the draws are coin tosses.
        assert!((middle(4, 200) - 0.375).abs() < 1e-15);
    }

    /// ln(P(middle + away) / P(middle)), against exact fractions of integers.
    #[test]
    fn falls_are_right() {
        let exact: [(u32, u32, u32, f64); 12] = [
            (5000, 13, 1, -0.0005755897626658295),
            (5000, 13, 10, -0.05755909074881912),
            (5000, 13, 100, -5.75705458396762),
            (5000, 13, 400, -92.39327138397776),
            (8191, 13, 1, 0.0),
            (8191, 13, 10, -0.04393998866719636),
            (8191, 13, 100, -4.833869782274984),
            (8191, 13, 400, -78.04416020399506),
            (6000, 20, 1, -0.000334234200292176),
            (6000, 20, 10, -0.033423481110055484),
            (6000, 20, 100, -3.342959190899128),
            (6000, 20, 400, -53.636550364278285),
        ];
        for (white, bits, away, expected) in exact {
            let half = power_of_two(bits);
            let shape = Shape {
                white: f64::from(white) / 2.0,
                black: half - f64::from(white) / 2.0,
            };
            let offset = if white % 2 == 1 { 0.5 } else { 0.0 };
            let found = shape.fall(offset) - shape.fall(f64::from(away) - offset);
            assert!(
                (found - expected).abs() < 1e-11,
                "{white} of 2^{bits} at {away}: {found} {expected}"
            );
        }
    }

    /// Pearson's χ² of samples against exact probabilities; rare values pooled.
    fn chi_square(white: u64, bits: u32, samples: u32) -> (f64, f64) {
        let half = 1_u64 << bits;
        let mut counts = vec![0_u32; white as usize + 1];
        let mut coins = Stream(u64::from(bits) * 1_000_003 + white);
        for _ in 0..samples {
            counts[sample(u128::from(white), bits, &mut coins).unwrap() as usize] += 1;
        }
        let (mut chi, mut cells, mut rare, mut rare_found) = (0.0, 0.0, 0.0, 0.0);
        for (x, count) in counts.iter().enumerate() {
            // Beyond fifteen standard deviations there is nothing, and logarithms are slow to sum.
            let far = (x as f64 - white as f64 / 2.0).abs() > 7.5 * (white as f64).sqrt() + 1.0;
            let likely = if far {
                0.0
            } else {
                probability(x as u64, white, half)
            };
            let expected = likely * f64::from(samples);
            if expected < 10.0 {
                rare += expected;
                rare_found += f64::from(*count);
            } else {
                chi += (f64::from(*count) - expected).powi(2) / expected;
                cells += 1.0;
            }
        }
        if rare > 1.0 {
            chi += (rare_found - rare).powi(2) / rare;
            cells += 1.0;
        } else {
            assert!(
                rare_found < 10.0,
                "{white} of 2^{bits}: {rare_found} impossible values"
            );
        }
        (chi, cells - 1.0)
    }

    #[test]
    fn samples_are_hypergeometric() {
        // Each of the three ways, at its edges, and populations nearly all white.
        let cases: [(u64, u32); 18] = [
            (1, 0),
            (2, 0),
            (1, 8),
            (3, 2),
            (5, 3),
            (16, 5),
            (33, 5),
            (60, 5),
            (2, 6),
            (7, 6),
            (64, 6),
            (100, 6),
            (1_000, 12),
            (4_096, 12),
            (4_097, 14),
            (9_999, 14),
            (16_384, 14),
            (20_000, 14),
        ];
        for (white, bits) in cases {
            let (chi, freedom) = chi_square(white, bits, 40_000);
            // Mean f, variance 2f: six standard deviations and a bit for the skew of few degrees.
            let most = freedom + 6.0 * (2.0 * freedom).sqrt() + 12.0;
            assert!(
                chi < most,
                "{white} of 2^{bits}: χ² {chi:.1} with {freedom} degrees of freedom"
            );
        }
    }

    #[test]
    fn large_samples_have_mean_variance_and_low_bits() {
        for (white, bits) in [
            (1_u128 << 32, 62),
            (1 << 64, 127),
            ((1 << 64) - 1, 135),
            (1 << 100, 200),
            (u128::MAX / 3, 255),
        ] {
            let mut coins = Stream(white as u64 ^ u64::from(bits));
            let deviation = (white as f64).sqrt() / 2.0;
            let (mut sum, mut squares, mut low, samples) = (0.0, 0.0, [0_u32; 16], 20_000);
            for _ in 0..samples {
                let x = sample(white, bits, &mut coins).unwrap();
                let z = (x.cast_signed() - (white / 2).cast_signed()) as f64 / deviation;
                sum += z;
                squares += z * z;
                low[(x & 15) as usize] += 1;
            }
            let n = f64::from(samples);
            assert!(
                (sum / n).abs() < 6.0 / n.sqrt(),
                "mean of {white}: {}",
                sum / n
            );
            assert!(
                (squares / n - 1.0).abs() < 6.0 * (2.0 / n).sqrt(),
                "variance of {white}: {}",
                squares / n
            );
            let expected = n / 16.0;
            let chi: f64 = low
                .iter()
                .map(|c| (f64::from(*c) - expected).powi(2) / expected)
                .sum();
            assert!(
                chi < 15.0 + 6.0 * 30_f64.sqrt(),
                "low bits of {white}: {low:?}"
            );
        }
    }

    /// The same coins give the same samples on every machine: these were drawn on x86-64.
    #[test]
    fn samples_are_the_same_everywhere() {
        let mut coins = Stream(1);
        let mut digest = 0_u128;
        for bits in 6..250_u32 {
            let white = (u128::MAX >> (128 - (bits / 2).max(3))) - u128::from(bits);
            digest = digest.rotate_left(7) ^ sample(white, bits, &mut coins).unwrap();
        }
        assert_eq!(
            digest, 0xb12a_61ed_b621_1e4c_eac7_d3ea_943a_56fb,
            "{digest:#x}"
        );
    }
}
