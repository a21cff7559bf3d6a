//! fdlibm's own algorithms, which Java's `StrictMath` has, where `libm` has later ones that differ
//! in a last bit. (Sun Microsystems, "Freely Distributable LIBM", 5.3.)

fn high(x: f64) -> u32 {
    (x.to_bits() >> 32) as u32
}

fn with_high(x: f64, high: u32) -> f64 {
    f64::from_bits(u64::from(high) << 32 | x.to_bits() & 0xffff_ffff)
}

/// The largest |x| of which e^x ÷ 2 does not overflow.
const OVERFLOW: f64 = 710.475_860_073_943_9;

pub(crate) fn sinh(x: f64) -> f64 {
    if !x.is_finite() {
        return x + x;
    }
    let half = if x.is_sign_negative() { -0.5 } else { 0.5 };
    let size = x.abs();
    let bits = high(size);
    if bits < 0x4036_0000 {
        if bits < 0x3e30_0000 {
            return x;
        }
        let t = libm::expm1(size);
        return match bits < 0x3ff0_0000 {
            true => half * (2.0 * t - t * t / (t + 1.0)),
            false => half * (t + t / (t + 1.0)),
        };
    }
    large(size, half).unwrap_or(x * 1.0e307)
}

pub(crate) fn cosh(x: f64) -> f64 {
    if !x.is_finite() {
        return x * x;
    }
    let size = x.abs();
    let bits = high(size);
    if bits < 0x3fd6_2e43 {
        let t = libm::expm1(size);
        let w = 1.0 + t;
        return if bits < 0x3c80_0000 {
            w
        } else {
            1.0 + (t * t) / (w + w)
        };
    }
    if bits < 0x4036_0000 {
        let t = libm::exp(size);
        return 0.5 * t + 0.5 / t;
    }
    large(size, 0.5).unwrap_or(f64::INFINITY)
}

fn large(size: f64, half: f64) -> Option<f64> {
    if high(size) < 0x4086_2e42 {
        return Some(half * libm::exp(size));
    }
    (size <= OVERFLOW).then(|| {
        let w = libm::exp(0.5 * size);
        half * w * w
    })
}

pub(crate) fn tanh(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let size = x.abs();
    let bits = high(size);
    let z = if bits < 0x4036_0000 {
        if bits < 0x3c80_0000 {
            return x * (1.0 + x);
        }
        if bits >= 0x3ff0_0000 {
            1.0 - 2.0 / (libm::expm1(2.0 * size) + 2.0)
        } else {
            let t = libm::expm1(-2.0 * size);
            -t / (t + 2.0)
        }
    } else {
        1.0
    };
    if x.is_sign_negative() { -z } else { z }
}

pub(crate) fn cbrt(x: f64) -> f64 {
    if !x.is_finite() || x == 0.0 {
        return x + x;
    }
    let size = x.abs();
    let mut t = match high(size) {
        bits if bits < 0x0010_0000 => {
            let t = f64::from_bits(0x4350_0000 << 32) * size;
            with_high(t, high(t) / 3 + 696_219_795)
        }
        bits => with_high(0.0, bits / 3 + 715_094_163),
    };
    let r = t * t / size;
    let s = 19.0 / 35.0 + r * t;
    t *= 5.0 / 14.0 + 45.0 / 28.0 / (s + 99.0 / 70.0 + -864.0 / 1_225.0 / s);
    t = with_high(0.0, high(t) + 1);
    let s = t * t;
    let r = size / s;
    let w = t + t;
    let r = (r - t) / (w + r);
    let t = t + t * r;
    if x.is_sign_negative() { -t } else { t }
}

pub(crate) fn hypot(x: f64, y: f64) -> f64 {
    let (x, y) = (x.abs(), y.abs());
    if x.is_infinite() || y.is_infinite() {
        return f64::INFINITY;
    }
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    let (mut a, mut b) = if high(y) > high(x) { (y, x) } else { (x, y) };
    let (mut ha, mut hb) = (high(a), high(b));
    if ha - hb > 0x03c0_0000 {
        return a + b;
    }
    let mut k = 0i32;
    if ha > 0x5f30_0000 {
        (ha, hb, k) = (ha - 0x2580_0000, hb - 0x2580_0000, k + 600);
        (a, b) = (with_high(a, ha), with_high(b, hb));
    }
    if hb < 0x20b0_0000 {
        if hb <= 0x000f_ffff {
            if b == 0.0 {
                return a;
            }
            let scale = f64::from_bits(0x7fd0_0000 << 32);
            (a, b, k) = (a * scale, b * scale, k - 1022);
            // Scaling may have changed which of them is the larger one's exponent.
            (ha, hb) = (high(a), high(b));
        } else {
            (ha, hb, k) = (ha + 0x2580_0000, hb + 0x2580_0000, k - 600);
            (a, b) = (with_high(a, ha), with_high(b, hb));
        }
    }
    let w = a - b;
    let w = if w > b {
        let t1 = with_high(0.0, ha);
        let t2 = a - t1;
        (t1 * t1 - (b * -b - t2 * (a + t1))).sqrt()
    } else {
        let a = a + a;
        let y1 = with_high(0.0, hb);
        let y2 = b - y1;
        let t1 = with_high(0.0, ha + 0x0010_0000);
        let t2 = a - t1;
        (t1 * y1 - (w * -w - (t1 * y2 + t2 * b))).sqrt()
    };
    match k {
        0 => w,
        k => with_high(1.0, high(1.0).wrapping_add_signed(k << 20)) * w,
    }
}

const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Coefficients of log's polynomial, and log1p's.
const LG: [f64; 7] = [
    6.666_666_666_666_735e-1,
    3.999_999_999_940_942e-1,
    2.857_142_874_366_239e-1,
    2.222_219_843_214_978_4e-1,
    1.818_357_216_161_805e-1,
    1.531_383_769_920_937_3e-1,
    1.479_819_860_511_658_6e-1,
];

pub fn log(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_infinite() {
        return x;
    }
    let (x, mut k) = match high(x) < 0x0010_0000 {
        true => (x * f64::from_bits(0x4350_0000 << 32), -54),
        false => (x, 0),
    };
    let exponent = high(x).cast_signed();
    k += (exponent >> 20) - 1023;
    let hx = exponent & 0x000f_ffff;
    let i = (hx + 0x95f64) & 0x0010_0000;
    let x = with_high(x, (hx | (i ^ 0x3ff0_0000)).cast_unsigned());
    k += i >> 20;
    let f = x - 1.0;
    let dk = f64::from(k);
    if 0x000f_ffff & (2 + hx) < 3 {
        if f == 0.0 {
            return if k == 0 {
                0.0
            } else {
                dk * LN2_HIGH + dk * LN2_LOW
            };
        }
        let r = f * f * (0.5 - 0.333_333_333_333_333_3 * f);
        return match k {
            0 => f - r,
            _ => dk * LN2_HIGH - ((r - dk * LN2_LOW) - f),
        };
    }
    let [lg1, lg2, lg3, lg4, lg5, lg6, lg7] = LG;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let t1 = w * (lg2 + w * (lg4 + w * lg6));
    let t2 = z * (lg1 + w * (lg3 + w * (lg5 + w * lg7)));
    let r = t2 + t1;
    if (hx - 0x6147a) | (0x6b851 - hx) > 0 {
        let half = 0.5 * f * f;
        match k {
            0 => f - (half - s * (half + r)),
            _ => dk * LN2_HIGH - ((half - (s * (half + r) + dk * LN2_LOW)) - f),
        }
    } else {
        match k {
            0 => f - s * (f - r),
            _ => dk * LN2_HIGH - ((s * (f - r) - dk * LN2_LOW) - f),
        }
    }
}

pub(crate) fn log1p(x: f64) -> f64 {
    let hx = high(x).cast_signed();
    let ax = hx & 0x7fff_ffff;
    if x.is_nan() || x < -1.0 {
        return f64::NAN;
    }
    if x == -1.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_infinite() {
        return x;
    }
    let (mut k, mut f, mut hu, mut c) = (1, 0.0, 1, 0.0);
    if hx < 0x3fda_827a {
        if ax < 0x3e20_0000 {
            return if ax < 0x3c90_0000 { x } else { x - x * x * 0.5 };
        }
        if hx > 0 || hx <= 0xbfd2_bec3u32.cast_signed() {
            (k, f, hu) = (0, x, 1);
        }
    }
    if k != 0 {
        let u = match hx < 0x4340_0000 {
            true => {
                let u = 1.0 + x;
                hu = high(u).cast_signed();
                k = (hu >> 20) - 1023;
                c = if k > 0 { 1.0 - (u - x) } else { x - (u - 1.0) } / u;
                u
            }
            false => {
                hu = hx;
                k = (hu >> 20) - 1023;
                x
            }
        };
        hu &= 0x000f_ffff;
        let u = match hu < 0x6a09e {
            true => with_high(u, (hu | 0x3ff0_0000).cast_unsigned()),
            false => {
                k += 1;
                let u = with_high(u, (hu | 0x3fe0_0000).cast_unsigned());
                hu = (0x0010_0000 - hu) >> 2;
                u
            }
        };
        f = u - 1.0;
    }
    let half = 0.5 * f * f;
    let dk = f64::from(k);
    if hu == 0 {
        if f == 0.0 {
            return if k == 0 {
                0.0
            } else {
                dk * LN2_HIGH + (c + dk * LN2_LOW)
            };
        }
        let r = half * (1.0 - 0.666_666_666_666_666_6 * f);
        return match k {
            0 => f - r,
            _ => dk * LN2_HIGH - ((r - (dk * LN2_LOW + c)) - f),
        };
    }
    let s = f / (2.0 + f);
    let z = s * s;
    let r = LG.iter().rev().fold(0.0, |sum, lp| z * (lp + sum));
    match k {
        0 => f - (half - s * (half + r)),
        _ => dk * LN2_HIGH - ((half - (s * (half + r) + (dk * LN2_LOW + c))) - f),
    }
}

/// `libm`'s, but for the case in which it has no part of π's second half.
pub(crate) fn atan2(y: f64, x: f64) -> f64 {
    let exponent = |v: f64| i64::from(high(v.abs()) >> 20);
    let finite = y.is_finite() && x.is_finite() && y != 0.0;
    if finite && x < 0.0 && exponent(y) - exponent(x) > 60 {
        let low = 1.224_646_799_147_353_2e-16;
        let z = std::f64::consts::FRAC_PI_2 + 0.5 * low;
        return match y < 0.0 {
            true => (z - low) - std::f64::consts::PI,
            false => std::f64::consts::PI - (z - low),
        };
    }
    libm::atan2(y, x)
}
