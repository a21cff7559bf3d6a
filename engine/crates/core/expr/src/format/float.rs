//! Floats as text. Which digits Java writes depends on its version: [`FloatText`] says which, the
//! notation is the same.

use coffer_protocol::plan::FloatText;

use super::{Digits, jdk18};

/// `java.lang.Double.toString`: plain between 10^−3 and 10^7, else with an exponent.
pub(crate) fn double(value: f64, style: FloatText, out: &mut String) {
    let magnitude = value.abs();
    match special(
        value.is_nan(),
        value.is_infinite(),
        value.is_sign_negative(),
        out,
    ) {
        true => {}
        false if magnitude == 0.0 => out.push_str("0.0"),
        false => double_digits(magnitude, style).java(out),
    }
}

/// `java.lang.Float.toString`, as [`double`].
pub(crate) fn float(value: f32, style: FloatText, out: &mut String) {
    let magnitude = value.abs();
    match special(
        value.is_nan(),
        value.is_infinite(),
        value.is_sign_negative(),
        out,
    ) {
        true => {}
        false if magnitude == 0.0 => out.push_str("0.0"),
        false => match style {
            FloatText::Jdk18 => jdk18::float(magnitude),
            FloatText::Shortest => shortest(magnitude, |text| text.parse() == Ok(magnitude)),
        }
        .java(out),
    }
}

/// The digits of `java.lang.Double.toString` as a text that reads as a number everywhere: what
/// `BigDecimal.valueOf` takes.
pub(crate) fn scientific(value: f64, style: FloatText) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value:e}");
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", double_digits(value.abs(), style).scientific())
}

/// Written out with so many digits behind the point, the last one rounded half up from the digits
/// of `java.lang.Double.toString`.
pub(crate) fn half_up(magnitude: f64, places: usize, style: FloatText) -> String {
    match magnitude == 0.0 {
        true => Digits::new(0).fixed(places),
        false => double_digits(magnitude, style).fixed(places),
    }
}

fn double_digits(magnitude: f64, style: FloatText) -> Digits {
    match style {
        FloatText::Jdk18 => jdk18::double(magnitude),
        FloatText::Shortest => shortest(magnitude, |text| text.parse() == Ok(magnitude)),
    }
}

/// Writes the sign, and what is no number; whether that was all.
fn special(nan: bool, infinite: bool, negative: bool, out: &mut String) -> bool {
    if nan {
        out.push_str("NaN");
        return true;
    }
    if negative {
        out.push('-');
    }
    if infinite {
        out.push_str("Infinity");
    }
    infinite
}

/// The shortest digits that read back as the same value, the nearest of those; where one digit
/// would do, of two. Between two that are as near the even one.
fn shortest(magnitude: impl std::fmt::LowerExp, reads_back: impl Fn(&str) -> bool) -> Digits {
    let two = format!("{magnitude:.1e}");
    let text = if reads_back(&two) {
        two
    } else {
        format!("{magnitude:e}")
    };
    let nearest = parsed(&text);
    let even = nearest.even_neighbour();
    let mut out =
        match even.filter(|even| halfway(&magnitude, even) && reads_back(&even.scientific())) {
            Some(even) => even,
            None => nearest,
        };
    out.without_last_zero();
    out
}

/// Whether the value is exactly half a place above these digits.
fn halfway(magnitude: &impl std::fmt::LowerExp, below: &Digits) -> bool {
    let mut half = below.clone();
    half.push(5);
    let exact = |positions: usize| parsed(&format!("{magnitude:.positions$e}"));
    let close = exact(half.positions());
    // A number of 53 bits that has so few decimal digits has nothing behind them, or something
    // before this end.
    close.is(&half)
        && format!("{magnitude:.200e}")
            .split_once('e')
            .is_some_and(|(mantissa, _)| {
                let mut behind = mantissa
                    .bytes()
                    .filter(u8::is_ascii_digit)
                    .skip(half.positions() + 1);
                behind.all(|digit| digit == b'0')
            })
}

fn parsed(text: &str) -> Digits {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let mut out = Digits::new(exponent.parse().unwrap_or(0));
    mantissa
        .bytes()
        .filter(u8::is_ascii_digit)
        .for_each(|digit| out.push(digit - b'0'));
    out
}
