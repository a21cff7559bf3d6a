//! Values as text, as Spark's cast to string writes them.

mod digits;
mod float;
mod jdk18;

use std::fmt::Write;

use digits::Digits;
pub(crate) use float::{double, float, half_up, scientific};

use crate::{
    calendar::{self, MICROS_PER_SECOND},
    decimal::plain,
};

/// `java.math.BigDecimal.toString`: scientific when the first digit is after the sixth place behind
/// the point.
pub(crate) fn big_decimal(unscaled: i128, scale: i8, out: &mut String) {
    let digits = unscaled.unsigned_abs().to_string();
    let exponent = i32::try_from(digits.len()).unwrap_or(0) - 1 - i32::from(scale);
    if scale == 0 || exponent >= -6 {
        out.push_str(&plain(unscaled, scale));
        return;
    }
    if unscaled < 0 {
        out.push('-');
    }
    let (first, rest) = digits.split_at(1);
    out.push_str(first);
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    let _ = write!(out, "E{exponent}");
}

/// `yyyy-MM-dd`; years of more than four digits get a sign.
pub(crate) fn date(days: i64, out: &mut String) {
    let (year, month, day) = calendar::civil(days);
    let sign = match year {
        ..0 => "-",
        10_000.. => "+",
        _ => "",
    };
    let _ = write!(out, "{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs());
}

/// `yyyy-MM-dd HH:mm:ss` and the fraction without trailing zeros.
pub(crate) fn local_timestamp(micros: i64, out: &mut String) {
    let (days, of_day) = calendar::split_micros(micros);
    date(days, out);
    out.push(' ');
    time_of_day(of_day, out);
}

/// `HH:mm:ss` and the fraction without trailing zeros.
pub(crate) fn time_of_day(of_day: i64, out: &mut String) {
    let (seconds, fraction) = (of_day / MICROS_PER_SECOND, of_day % MICROS_PER_SECOND);
    let _ = write!(
        out,
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    );
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

/// `[97, -2]`: bytes as Java's.
pub(crate) fn signed_bytes(bytes: &[u8], out: &mut String) {
    out.push('[');
    for (index, byte) in bytes.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let _ = write!(out, "{comma}{}", byte.cast_signed());
    }
    out.push(']');
}

/// The digits of [`hex_digits`].
pub(crate) const LOWER: &[u8; 16] = b"0123456789abcdef";
pub(crate) const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Two hexadecimal digits for each byte.
pub(crate) fn hex_digits(bytes: &[u8], digits: &[u8; 16], out: &mut String) {
    let mut text = [0; 2 * 32];
    for some in bytes.chunks(32) {
        let (pairs, _) = text.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(some) {
            *pair = [byte >> 4, byte & 15].map(|half| digits[usize::from(half)]);
        }
        let text = text.get(..2 * some.len()).unwrap_or_default();
        out.push_str(str::from_utf8(text).unwrap_or_default());
    }
}

/// `[61 62]`: how `show()` writes binary.
pub(crate) fn hex_bytes(bytes: &[u8], out: &mut String) {
    out.push('[');
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        hex_digits(&[*byte], UPPER, out);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use coffer_protocol::plan::FloatText;

    use super::*;

    fn text(f: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        f(&mut out);
        out
    }

    #[test]
    fn doubles_as_java_writes_them() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.001, "0.001"),
            (0.00012, "1.2E-4"),
            (1234567.0, "1234567.0"),
            (12345678.0, "1.2345678E7"),
            (1e7, "1.0E7"),
            (-1.5e300, "-1.5E300"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (5e-324, "4.9E-324"),
            (2e-323, "2.0E-323"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            for style in [FloatText::Shortest, FloatText::Jdk18] {
                assert_eq!(text(|out| double(value, style, out)), expected);
            }
        }
        for style in [FloatText::Shortest, FloatText::Jdk18] {
            assert_eq!(text(|out| float(0.1, style, out)), "0.1");
            assert_eq!(text(|out| float(16_777_216.0, style, out)), "1.6777216E7");
        }
        for (style, expected) in [
            (FloatText::Shortest, "8.41E21"),
            (FloatText::Jdk18, "8.409999999999999E21"),
        ] {
            assert_eq!(text(|out| double(8.41e21, style, out)), expected);
        }
    }

    #[test]
    fn decimals_as_java_writes_them() {
        for (unscaled, scale, expected) in [
            (1, 7, "1E-7"),
            (0, 8, "0E-8"),
            (123, 9, "1.23E-7"),
            (-1, 6, "-0.000001"),
            (12_345, 2, "123.45"),
        ] {
            assert_eq!(text(|out| big_decimal(unscaled, scale, out)), expected);
        }
    }

    #[test]
    fn dates_outside_four_digits() {
        let day = |y, m, d| calendar::days_from_civil(y, m, d);
        assert_eq!(text(|out| date(day(10_000, 1, 1), out)), "+10000-01-01");
        assert_eq!(text(|out| date(day(-44, 3, 15), out)), "-0044-03-15");
        assert_eq!(
            text(|out| local_timestamp(-1, out)),
            "1969-12-31 23:59:59.999999"
        );
    }
}
