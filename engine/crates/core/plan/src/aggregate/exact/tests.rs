//! The same numbers in any order, in any grouping, sent or not: the same bytes and the same double.

use fastrand::Rng;

use super::*;

/// A way to draw numbers.
type Kind = fn(&mut Rng) -> f64;

const KINDS: [(&str, Kind); 6] = [
    ("any bits that are finite", |draw| {
        loop {
            let value = f64::from_bits(draw.u64(..));
            if value.is_finite() {
                break value;
            }
        }
    }),
    ("prices", |draw| draw.u64(..10_000_000) as f64 / 100.0),
    ("from 0 to 1", |draw| draw.u64(..) as f64 / u64::MAX as f64),
    ("large ones that cancel", |draw| {
        let size = [1e300, 1.0, 1e-300, 3e16, f64::MAX][draw.u64(..5) as usize];
        if draw.bool() { size } else { -size }
    }),
    ("the smallest there are", |draw| {
        f64::from_bits(draw.u64(..1 << 54) | (draw.u64(..2) << 63))
    }),
    (
        "zeros of both signs",
        |draw| if draw.bool() { 0.0 } else { -0.0 },
    ),
];

fn sum_of(values: &[f64]) -> ExactSum {
    let (mut sum, mut grown) = (ExactSum::default(), 0);
    values.iter().for_each(|value| sum.add(*value, &mut grown));
    assert_eq!(
        usize::try_from(grown),
        Ok(sum.memory()),
        "what it says it has grown by"
    );
    sum
}

fn bytes(sum: &ExactSum) -> Vec<u8> {
    let mut out = vec![];
    sum.encode(&mut out);
    out
}

/// The numbers cut into groups at random, each summed and half of them sent, and those merged in
/// any order, some of them twice over.
fn in_pieces(draw: &mut Rng, values: &[f64], add: fn(&mut ExactSum, f64, &mut isize)) -> ExactSum {
    let (mut parts, mut grown) = (vec![], 0);
    let mut left = values;
    while !left.is_empty() {
        let length = usize::try_from(draw.u64(..left.len() as u64) + 1).unwrap();
        let (now, later) = left.split_at(length);
        let mut part = ExactSum::default();
        now.iter()
            .for_each(|value| add(&mut part, *value, &mut grown));
        parts.push(part);
        left = later;
    }
    draw.shuffle(&mut parts);
    let mut whole = ExactSum::default();
    for part in parts {
        if draw.bool() {
            whole.merge(&part, &mut grown);
        } else {
            whole.merge_encoded(&bytes(&part), &mut grown).unwrap();
        }
        if draw.u64(..4) == 0 {
            // Spilled and read again.
            let spilled = bytes(&whole);
            whole = ExactSum::default();
            whole.merge_encoded(&spilled, &mut grown).unwrap();
        }
    }
    whole
}

#[test]
fn any_order_and_any_grouping_give_the_same_bits() {
    let mut draw = Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    let ways: [fn(&mut ExactSum, f64, &mut isize); 2] = [ExactSum::add, ExactSum::add_square];
    for round in 0..3000u64 {
        let mixed = round % 7 == 0;
        let (name, kind) = KINDS[usize::try_from(round).unwrap() % KINDS.len()];
        let count = draw.u64(1..=if round % 50 == 0 { 3000 } else { 30 });
        let mut values: Vec<f64> = (0..count)
            .map(|_| match mixed {
                true => KINDS[draw.u64(..6) as usize].1(&mut draw),
                false => kind(&mut draw),
            })
            .collect();
        for way in ways {
            let (mut one, mut grown) = (ExactSum::default(), 0);
            values
                .iter()
                .for_each(|value| way(&mut one, *value, &mut grown));
            let expected = (bytes(&one), one.rounded().to_bits());
            for _ in 0..4 {
                draw.shuffle(&mut values);
                let again = in_pieces(&mut draw, &values, way);
                assert_eq!(
                    (bytes(&again), again.rounded().to_bits()),
                    expected,
                    "{name}: {values:?}"
                );
            }
        }
    }
}

/// Against whole numbers, which Rust itself rounds to the nearest double.
#[test]
fn sums_are_rounded_to_the_nearest() {
    let mut draw = Rng::with_seed(7);
    for _ in 0..20_000 {
        // Multiples of 2^-30, up to 2^90.
        let wholes: Vec<i128> = (0..draw.u64(1..=20))
            .map(|_| {
                let sign = if draw.bool() { 1 } else { -1 };
                (sign * i128::from(draw.u64(..1 << 53))) << draw.u64(..67)
            })
            .collect();
        let unit = 2f64.powi(-30);
        let values: Vec<f64> = wholes.iter().map(|whole| *whole as f64 * unit).collect();
        let expected = wholes.iter().sum::<i128>() as f64 * unit;
        let sum = sum_of(&values);
        assert_eq!(
            sum.rounded().to_bits(),
            (expected + 0.0).to_bits(),
            "{values:?}"
        );
        assert_eq!(
            sum.finite().unwrap().rounded().to_bits(),
            (expected + 0.0).to_bits()
        );
    }
}

/// Cases of Python's `math.fsum`, with its answers.
#[test]
fn known_sums() {
    let past_half = 2f64.powi(53);
    let half_of_the_last = 2f64.powi(970);
    let cases: [(&[f64], f64); 12] = [
        (&[], 0.0),
        (&[0.0], 0.0),
        (&[1e100, 1.0, -1e100, 1e-100, 1e50, -1.0, -1e50], 1e-100),
        (&[past_half, -0.5, -2f64.powi(-54)], past_half - 1.0),
        (&[past_half, 1.0, 2f64.powi(-100)], past_half + 2.0),
        (&[past_half + 10.0, 1.0, 2f64.powi(-100)], past_half + 12.0),
        (&[past_half - 4.0, 0.5, 2f64.powi(-54)], past_half - 3.0),
        (&[1e16, 1.0, 1e-16], 10_000_000_000_000_002.0),
        (
            &[
                1e16 - 2.0,
                1.0 - 2f64.powi(-53),
                -(1e16 - 2.0),
                -(1.0 - 2f64.powi(-53)),
            ],
            0.0,
        ),
        (&[f64::MAX, f64::MAX, -f64::MAX], f64::MAX),
        (&[f64::MAX, half_of_the_last], f64::INFINITY),
        (&[f64::MAX, half_of_the_last, -5e-324], f64::MAX),
    ];
    for (values, expected) in cases {
        assert_eq!(sum_of(values).rounded(), expected, "{values:?}");
        let reversed: Vec<f64> = values.iter().rev().copied().collect();
        assert_eq!(
            sum_of(&reversed).rounded(),
            expected,
            "{values:?}, reversed"
        );
    }
    let tenths = sum_of(&[0.1; 10]);
    assert_eq!(tenths.rounded(), 1.0);
    assert_eq!(sum_of(&[-0.0, -0.0]).rounded().to_bits(), 0.0f64.to_bits());
    assert_eq!(sum_of(&[1.0, -1.0]).rounded().to_bits(), 0.0f64.to_bits());
}

#[test]
fn what_is_not_finite_stays() {
    let (inf, nan, odd) = (
        f64::INFINITY,
        f64::NAN,
        f64::from_bits(0xfff8_0000_0000_0007),
    );
    let far = [1e300, 1e-300];
    let cases: [(&[f64], f64); 8] = [
        (&[inf, 1.0, f64::MAX], inf),
        (&[-inf, far[0], far[1]], -inf),
        (&[inf, -inf], nan),
        (&[odd, 1.0], nan),
        (&[nan, inf], nan),
        (&[inf, inf], inf),
        (&[inf, -inf, inf, 3.0], nan),
        (&[far[0], far[1], 1.0, odd, inf, -inf], nan),
    ];
    let mut draw = Rng::with_seed(3);
    for (values, expected) in cases {
        let mut values = values.to_vec();
        for _ in 0..20 {
            draw.shuffle(&mut values);
            let sums = [
                sum_of(&values),
                in_pieces(&mut draw, &values, ExactSum::add),
            ];
            for sum in sums {
                assert_eq!(sum.rounded().to_bits(), expected.to_bits(), "{values:?}");
                assert_eq!(bytes(&sum), expected.to_le_bytes());
                assert!(sum.finite().is_none());
            }
        }
    }
}

#[test]
fn nothing_is_not_zero() {
    assert!(ExactSum::default().is_empty());
    for values in [
        &[0.0][..],
        &[-0.0],
        &[1.0, -1.0],
        &[1e300, 1e-300, -1e300, -1e-300],
    ] {
        assert!(!sum_of(values).is_empty(), "{values:?}");
        assert_eq!(bytes(&sum_of(values)), 0.0f64.to_le_bytes());
    }
}

#[test]
fn most_sums_are_short() {
    assert_eq!(bytes(&sum_of(&[1.0, 2.0, 4.5])).len(), 8);
    let mut draw = Rng::with_seed(11);
    let prices: Vec<f64> = (0..100_000)
        .map(|_| draw.u64(..10_000_000) as f64 / 100.0)
        .collect();
    let sum = sum_of(&prices);
    assert_eq!((sum.memory(), bytes(&sum).len()), (0, 16));
    assert_eq!(size_of::<ExactSum>(), 24);
    // Two doubles again, once what was between them has gone.
    let back = sum_of(&[1e300, 1.0, 1e-300, -1.0]);
    assert!(back.memory() > 0);
    assert_eq!(
        bytes(&back),
        [1e300f64.to_le_bytes(), 1e-300f64.to_le_bytes()].concat()
    );
}

#[test]
fn carries_go_on_for_ever() {
    let (mut digits, mut grown) = (Digits::default(), ExactSum::default());
    for _ in 0..70 {
        let more = digits.clone();
        digits.merge(&more);
        digits.add(-1.0);
        grown.merge(&grown.clone(), &mut 0);
        grown.add(-1.0, &mut 0);
    }
    // 1 − 2^70, less than nothing by all the bits.
    assert_eq!(digits.rounded(), -(2f64.powi(70)));
    assert_eq!(grown.rounded(), digits.rounded());
    digits.add(2f64.powi(70));
    assert_eq!(digits.rounded(), 1.0);
}

#[test]
fn products_are_exact() {
    let mut draw = Rng::with_seed(5);
    for _ in 0..5000 {
        let (a, b) = (draw.i32(..), draw.i32(..));
        let (mut x, mut y) = (Digits::default(), Digits::default());
        x.add(f64::from(a));
        y.add(f64::from(b));
        let whole = i128::from(a) * i128::from(b);
        assert_eq!(x.times(&y).rounded(), whole as f64);
        let by = draw.u64(..) >> draw.u64(..60);
        assert_eq!(
            x.multiplied(by).rounded(),
            (i128::from(a) * i128::from(by)) as f64
        );
        let Rounded { mantissa, exponent } = x.times(&y).unbounded();
        assert_eq!(mantissa * 2f64.powi(exponent), whole as f64);
    }
}

#[test]
fn malformed_sums_are_refused() {
    let long = [&[0, 0, 0][..], &vec![1; 4 * 2000]].concat();
    let malformed: [&[u8]; 7] = [
        &[],
        &[0],
        &[0; 9],
        &[2, 0, 0, 1, 0, 0, 0],
        &[0, 0xff, 0x7f, 1, 0, 0, 0],
        &[0, 0, 0x80, 1, 0, 0, 0],
        &long,
    ];
    for bytes in malformed {
        assert!(
            ExactSum::default().merge_encoded(bytes, &mut 0).is_err(),
            "{} bytes",
            bytes.len()
        );
    }
}
