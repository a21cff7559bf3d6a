//! Text as values, as Spark's cast from string reads it. None where Spark gives NULL or, in ANSI
//! mode, an error.

use crate::{
    calendar::{self, MICROS_PER_DAY, MICROS_PER_SECOND},
    decimal::{fits, power},
    zone::Zone,
};

/// Java's white space and control characters among ASCII: what Spark trims around numbers, dates
/// and booleans.
fn is_blank(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

fn trim_all(text: &[u8]) -> &[u8] {
    let start = text
        .iter()
        .position(|b| !is_blank(*b))
        .unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|b| !is_blank(*b))
        .map_or(start, |last| last + 1);
    text.get(start..end).unwrap_or_default()
}

/// The text without what Spark trims.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii() && is_blank(c as u8))
}

/// `String.trim`: everything up to the space.
fn trim_java(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

pub(crate) fn boolean(text: &str) -> Option<bool> {
    let trimmed = std::str::from_utf8(trim_all(text.as_bytes())).ok()?;
    let is = |words: &[&str]| words.iter().any(|word| trimmed.eq_ignore_ascii_case(word));
    if is(&["t", "true", "y", "yes", "1"]) {
        Some(true)
    } else if is(&["f", "false", "n", "no", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// A 64 bit integer; `decimals`: a fraction may follow and is dropped (LEGACY only).
pub(crate) fn long(text: &str, decimals: bool) -> Option<i64> {
    let mut bytes = trim_all(text.as_bytes());
    let negative = bytes.first() == Some(&b'-');
    if negative || bytes.first() == Some(&b'+') {
        bytes = bytes.get(1..)?;
    }
    if bytes.is_empty() {
        return None;
    }
    let mut value = 0i64;
    let mut rest = bytes.iter();
    for byte in rest.by_ref() {
        match byte {
            b'0'..=b'9' => value = value.checked_mul(10)?.checked_sub(i64::from(byte - b'0'))?,
            b'.' if decimals => break,
            _ => return None,
        }
    }
    if !rest.all(u8::is_ascii_digit) {
        return None;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

/// What a text may be as a floating point number.
pub(crate) enum Float<T> {
    Value(T),
    Invalid,
    /// Java reads it and we do not.
    Hexadecimal,
}

/// `Double.parseDouble`, then Spark's spellings of infinity and NaN.
pub(crate) fn float<T: std::str::FromStr>(text: &str, special: [T; 3]) -> Float<T> {
    let trimmed = trim_java(text);
    let [infinity, negative_infinity, nan] = special;
    let unsigned = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if unsigned == "NaN" {
        return Float::Value(nan);
    }
    match trimmed.to_ascii_lowercase().as_str() {
        "inf" | "+inf" | "infinity" | "+infinity" => return Float::Value(infinity),
        "-inf" | "-infinity" => return Float::Value(negative_infinity),
        "nan" => return Float::Value(nan),
        _ => {}
    }
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        return Float::Hexadecimal;
    }
    let number = trimmed
        .strip_suffix(['d', 'D', 'f', 'F'])
        .unwrap_or(trimmed);
    // Rust reads the same decimal grammar as Java, and a few words more.
    let plain = number
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    match number.parse() {
        Ok(value) if plain && number.bytes().any(|b| b.is_ascii_digit()) => Float::Value(value),
        _ => Float::Invalid,
    }
}

/// What a text may be as a decimal.
pub(crate) enum Decimal {
    Value(i128),
    /// Not a number.
    Invalid,
    /// A number, but of more than 38 digits before the point.
    TooLarge,
    /// A number that the precision does not hold.
    Misfit,
    /// Java also reads the digits of other scripts, and we do not.
    ForeignDigits,
}

/// `new BigDecimal(text.trim())`, rounded half up to the scale.
pub(crate) fn decimal(text: &str, precision: u8, scale: i8) -> Decimal {
    let Some((negative, digits, own_scale)) = big_decimal(trim_java(text)) else {
        let foreign = text.chars().any(|c| !c.is_ascii() && c.is_numeric());
        return if foreign {
            Decimal::ForeignDigits
        } else {
            Decimal::Invalid
        };
    };
    let significant = digits.trim_start_matches('0');
    let length = i64::try_from(significant.len().max(1)).unwrap_or(i64::MAX);
    if length - own_scale > 38 {
        return Decimal::TooLarge;
    }
    // Digits to keep: those down to the target's scale.
    let keep = length - own_scale + i64::from(scale);
    let value = if significant.is_empty() || keep < 0 {
        Some(0)
    } else {
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let (kept, dropped) = significant.split_at(keep.min(significant.len()));
        let zeros = u32::try_from(keep - kept.len()).unwrap_or(u32::MAX);
        // No power: more digits than any decimal has.
        let unit = Some(power(zeros)).filter(|unit| *unit != 0);
        let up = dropped
            .as_bytes()
            .first()
            .is_some_and(|digit| *digit >= b'5');
        let whole = if kept.is_empty() {
            Some(0)
        } else {
            kept.parse::<i128>().ok()
        };
        whole
            .and_then(|v| v.checked_mul(unit?))
            .and_then(|v| v.checked_add(i128::from(up)))
    };
    match value.filter(|v| fits(*v, precision)) {
        Some(value) => Decimal::Value(if negative { -value } else { value }),
        None => Decimal::Misfit,
    }
}

/// Sign, digits and scale of Java's grammar `[+-] digits [. digits] [e [+-] digits]`.
fn big_decimal(text: &str) -> Option<(bool, String, i64)> {
    let negative = text.starts_with('-');
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let plain = !digits.is_empty()
                && digits.len() <= 10
                && digits.bytes().all(|b| b.is_ascii_digit());
            (
                mantissa,
                plain.then(|| exponent.parse::<i64>().ok()).flatten()?,
            )
        }
        None => (body, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let scale = i64::try_from(fraction.len()).ok()? - exponent;
    i32::try_from(scale).ok()?;
    Some((negative, digits, scale))
}

/// `[+-]y{4,7}[-m[m][-d[d][( |T)…]]]`.
pub(crate) fn date(text: &str) -> Option<i32> {
    if let Some((year, month, day)) = whole_date(text.as_bytes()) {
        return i32::try_from(calendar::checked_date(year, month, day)?).ok();
    }
    let bytes = trim_all(text.as_bytes());
    let (sign, bytes) = match bytes.first()? {
        b'-' => (-1, bytes.get(1..)?),
        b'+' => (1, bytes.get(1..)?),
        _ => (1, bytes),
    };
    let mut segments = [1i64; 3];
    let (mut segment, mut value, mut digits) = (0usize, 0i64, 0usize);
    let valid = |segment: usize, digits: usize| match segment {
        0 => (4..=7).contains(&digits),
        _ => (1..=2).contains(&digits),
    };
    let mut rest = bytes.iter().peekable();
    while let Some(byte) = rest.peek() {
        match byte {
            b' ' | b'T' => break,
            b'-' if segment < 2 => {
                if !valid(segment, digits) {
                    return None;
                }
                *segments.get_mut(segment)? = value;
                (segment, value, digits) = (segment + 1, 0, 0);
            }
            b'0'..=b'9' if digits < 8 => {
                value = value * 10 + i64::from(**byte - b'0');
                digits += 1;
            }
            _ => return None,
        }
        rest.next();
    }
    // `yyyy` and `yyyy-mm` must be all there is.
    if !valid(segment, digits) || (segment < 2 && rest.peek().is_some()) {
        return None;
    }
    *segments.get_mut(segment)? = value;
    let [year, month, day] = segments;
    i32::try_from(calendar::checked_date(sign * year, month, day)?).ok()
}

/// Of `yyyy-mm-dd` and nothing else, which is what most texts of dates are.
fn whole_date(text: &[u8]) -> Option<(i64, i64, i64)> {
    let &[a, b, c, d, b'-', e, f, b'-', g, h] = text else {
        return None;
    };
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0, |number, digit| {
            let digit = digit.wrapping_sub(b'0');
            (digit < 10).then_some(10 * number + i64::from(digit))
        })
    };
    Some((number(&[a, b, c, d])?, number(&[e, f])?, number(&[g, h])?))
}

/// A text as a point in time.
pub(crate) enum Timestamp {
    /// Wall clock in microseconds, and the zone if the text names one.
    Local(i64, Option<Zone>),
    /// A time of day without a date: Spark takes today's, which differs from task to task.
    TimeOnly {
        /// Microseconds since midnight.
        of_day: i64,
        /// The text names a zone.
        zoned: bool,
    },
}

/// Spark's `parseTimestampString` and the calendar checks after it.
pub(crate) fn timestamp(text: &str) -> Option<Timestamp> {
    let bytes = trim_all(text.as_bytes());
    let mut segments = [1i64, 1, 1, 0, 0, 0, 0, 0, 0];
    let mut sign = None;
    let mut at = 0usize;
    match bytes.first()? {
        b'-' => (sign, at) = (Some(-1), 1),
        b'+' => (sign, at) = (Some(1), 1),
        _ => {}
    }
    let valid = |segment: usize, digits: usize| match segment {
        6 => true,
        0 => (4..=6).contains(&digits),
        7 => digits <= 2,
        _ => (1..=2).contains(&digits),
    };
    let (mut segment, mut value, mut digits, mut fraction_digits) = (0usize, 0i64, 0usize, 0u32);
    let mut time_only = false;
    let mut zone = None;
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii_digit() {
            fraction_digits += u32::from(segment == 6);
            if segment != 6 || digits < 6 {
                value = value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
            }
            digits += 1;
            at += 1;
            continue;
        }
        // The start of the text that Spark saw is the untrimmed one's.
        if at == 0 && *byte == b'T' && text.as_bytes().first() == Some(&b'T') {
            time_only = true;
            segment += 3;
            at += 1;
            continue;
        }
        let closes = match (segment, byte) {
            (0 | 1, b'-') | (2, b' ' | b'T') | (3 | 4, b':') | (5, _) | (6, _) => true,
            (0, b':') if sign.is_none() => {
                if !valid(3, digits) {
                    return None;
                }
                time_only = true;
                segments[3] = value;
                (segment, value, digits) = (4, 0, 0);
                at += 1;
                continue;
            }
            (7, b':' | b' ') => true,
            _ => false,
        };
        if !closes || !valid(segment, digits) {
            return None;
        }
        *segments.get_mut(segment)? = value;
        let (was, point) = (segment, *byte == b'.');
        (segment, value, digits) = (segment + 1, 0, 0);
        if matches!(was, 5 | 6) && !(point && was == 5) {
            zone = Some(std::str::from_utf8(bytes.get(at..)?).ok()?);
            at = bytes.len();
        } else {
            at += 1;
        }
        if segment == 6 && !point {
            segment += 1;
        }
    }
    if !valid(segment, digits) {
        return None;
    }
    *segments.get_mut(segment)? = value;
    let zone = match zone {
        Some(name) => Some(Zone::parse(trim_java(name))?),
        None => None,
    };
    let [year, month, day, hour, minute, second, fraction, ..] = segments;
    let fraction = fraction * 10i64.pow(6u32.saturating_sub(fraction_digits));
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let of_day = (hour * 3_600 + minute * 60 + second) * MICROS_PER_SECOND + fraction;
    if time_only {
        let zoned = zone.is_some();
        return Some(Timestamp::TimeOnly { of_day, zoned });
    }
    let days = calendar::checked_date(sign.unwrap_or(1) * year, month, day)?;
    Some(Timestamp::Local(
        days.checked_mul(MICROS_PER_DAY)?.checked_add(of_day)?,
        zone,
    ))
}

/// A time of day, of 24 hours or with AM or PM behind it, without a date or a zone.
pub(crate) fn time_of_day(text: &str) -> Option<i64> {
    const HOUR: i64 = 3_600 * MICROS_PER_SECOND;
    let trimmed = text.trim_end_matches(' ');
    let half = match trimmed.as_bytes() {
        [_, .., half @ (b'A' | b'a' | b'P' | b'p'), b'M' | b'm'] => Some(half.to_ascii_uppercase()),
        _ => None,
    };
    let clock = match half {
        Some(_) => trimmed.get(..trimmed.len().checked_sub(2)?)?,
        None => trimmed,
    };
    let of_day = match timestamp(clock)? {
        Timestamp::TimeOnly {
            of_day,
            zoned: false,
        } => of_day,
        _ => return None,
    };
    match (half, of_day / HOUR) {
        (None, _) => Some(of_day),
        (Some(b'A'), 12) => Some(of_day - 12 * HOUR),
        (Some(b'A'), 1..12) | (Some(_), 12) => Some(of_day),
        (Some(_), 1..12) => Some(of_day + 12 * HOUR),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        assert_eq!(long(" 12\n", false), Some(12));
        assert_eq!(long("-9223372036854775808", false), Some(i64::MIN));
        assert_eq!(long("9223372036854775808", false), None);
        assert_eq!(long("1.9", true), Some(1));
        for text in ["", " ", "+", "1.5", "1 2", "0x1", "1e3"] {
            assert_eq!(long(text, false), None, "{text}");
        }
        assert_eq!(long("1.x", true), None);
    }

    #[test]
    fn decimals() {
        let value = |text, p, s| match decimal(text, p, s) {
            Decimal::Value(v) => Some(v),
            _ => None,
        };
        assert_eq!(value("1.005", 5, 2), Some(101));
        assert_eq!(value("-0.5", 3, 0), Some(-1));
        assert_eq!(value("0.04", 3, 1), Some(0));
        assert_eq!(value("0.05", 3, 1), Some(1));
        assert_eq!(value("1e3", 4, 0), Some(1_000));
        assert_eq!(value("9.995", 3, 2), None);
        assert_eq!(value("1e37", 5, 2), None);
        assert!(matches!(decimal("1e39", 38, 0), Decimal::TooLarge));
        assert!(matches!(decimal("0e100", 38, 0), Decimal::TooLarge));
        assert!(matches!(decimal("1.2.3", 38, 0), Decimal::Invalid));
        assert!(matches!(decimal("", 38, 0), Decimal::Invalid));
    }

    #[test]
    fn dates() {
        assert_eq!(date("1970-1-2"), Some(1));
        assert_eq!(date(" 1970-01-02T whatever"), Some(1));
        assert_eq!(date("2020"), Some(18_262));
        for text in [
            "2021-02-29",
            "70-01-01",
            "2020-01-01x",
            "2020 ",
            "2020-13-01",
            "12345678",
        ] {
            assert_eq!(date(text).is_some(), text == "2020 ", "{text}");
        }
    }
}
