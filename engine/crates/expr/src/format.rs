//! Values as text, as Spark's cast to string writes them.

use std::fmt::Write;

use crate::{
    calendar::{self, MICROS_PER_SECOND},
    decimal::plain,
};

/// `java.lang.Double.toString`: shortest digits that read back as the same value, plain between 10^−3 and 10^7.
pub(crate) fn double(value: f64, out: &mut String) {
    let magnitude = value.abs();
    // Where one digit would do Java writes the nearest two.
    let two = format!("{magnitude:.1e}");
    let digits = if two.parse() == Ok(magnitude) {
        two
    } else {
        format!("{magnitude:e}")
    };
    java_float(
        value.is_nan(),
        value.is_infinite(),
        value.is_sign_negative(),
        &digits,
        out,
    );
}

/// `java.lang.Float.toString`, as [`double`].
pub(crate) fn float(value: f32, out: &mut String) {
    let magnitude = value.abs();
    let two = format!("{magnitude:.1e}");
    let digits = if two.parse() == Ok(magnitude) {
        two
    } else {
        format!("{magnitude:e}")
    };
    java_float(
        value.is_nan(),
        value.is_infinite(),
        value.is_sign_negative(),
        &digits,
        out,
    );
}

fn java_float(nan: bool, infinite: bool, negative: bool, scientific: &str, out: &mut String) {
    if nan {
        out.push_str("NaN");
        return;
    }
    if negative {
        out.push('-');
    }
    if infinite {
        out.push_str("Infinity");
        return;
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mut digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if digits.len() == 2 && digits.ends_with('0') {
        digits.pop();
    }
    if digits.bytes().all(|b| b == b'0') {
        out.push_str("0.0");
    } else if (-3..7).contains(&exponent) {
        point(&digits, exponent, out);
    } else {
        point(&digits, 0, out);
        let _ = write!(out, "E{exponent}");
    }
}

/// `d.ddd × 10^exponent` written out, with at least one digit on each side of the point.
fn point(digits: &str, exponent: i32, out: &mut String) {
    if exponent < 0 {
        out.push_str("0.");
        (1..-exponent).for_each(|_| out.push('0'));
        out.push_str(digits);
        return;
    }
    let whole = usize::try_from(exponent).unwrap_or(0) + 1;
    let padded = format!("{digits:0<whole$}");
    let (before, after) = padded.split_at(whole);
    out.push_str(before);
    out.push('.');
    out.push_str(if after.is_empty() { "0" } else { after });
}

/// `java.math.BigDecimal.toString`: scientific when the first digit is after the sixth place behind the point.
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
    let (seconds, fraction) = (of_day / MICROS_PER_SECOND, of_day % MICROS_PER_SECOND);
    let _ = write!(
        out,
        " {:02}:{:02}:{:02}",
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

/// `[61 62]`: how `show()` writes binary.
pub(crate) fn hex_bytes(bytes: &[u8], out: &mut String) {
    out.push('[');
    for (index, byte) in bytes.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        let _ = write!(out, "{space}{byte:02X}");
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
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
            assert_eq!(text(|out| double(value, out)), expected);
        }
        assert_eq!(text(|out| float(0.1, out)), "0.1");
        assert_eq!(text(|out| float(16_777_216.0, out)), "1.6777216E7");
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
        assert_eq!(text(|out| local_timestamp(-1, out)), "1969-12-31 23:59:59.999999");
    }
}
