//! Intervals as text: as Spark writes them, and read as its casts do.

use std::{fmt::Write, sync::LazyLock};

use regex::Regex;

use crate::{SparkError, parse, types::Interval};

pub(crate) const MONTHS_PER_YEAR: i32 = 12;
/// Microseconds of a day, an hour, a minute, a second.
pub(crate) const UNITS: [i64; 4] = [86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000];

/// Microseconds of a field of DAY to SECOND.
pub(crate) fn unit(field: u8) -> i64 {
    let [.., second] = UNITS;
    UNITS.get(usize::from(field)).copied().unwrap_or(second)
}

/// `INTERVAL '1-2' YEAR TO MONTH`, `INTERVAL '-1 02:03:04.5' DAY TO SECOND`.
pub(crate) fn write(value: i64, of: Interval, out: &mut String) {
    out.push_str("INTERVAL '");
    if value < 0 {
        out.push('-');
    }
    let rest = value.unsigned_abs();
    match of.months {
        true => months(rest, of, out),
        false => fields(rest, of, out),
    }
    let _ = write!(out, "' {}", of.fields());
}

fn months(months: u64, of: Interval, out: &mut String) {
    let year = u64::from(MONTHS_PER_YEAR.unsigned_abs());
    let _ = match (of.first, of.last) {
        (0, 0) => write!(out, "{}", months / year),
        (0, _) => write!(out, "{}-{}", months / year, months % year),
        _ => write!(out, "{months}"),
    };
}

fn fields(mut rest: u64, of: Interval, out: &mut String) {
    for field in of.first..=of.last {
        let unit = unit(field).unsigned_abs();
        let leads = field == of.first;
        if !leads {
            out.push(if field == 1 { ' ' } else { ':' });
        }
        let whole = rest / unit;
        rest %= unit;
        let _ = match field {
            0 => write!(out, "{whole}"),
            _ => write!(out, "{whole:02}"),
        };
        if field == 3 && rest != 0 {
            let digits = format!("{rest:06}");
            let _ = write!(out, ".{}", digits.trim_end_matches('0'));
        }
    }
}

/// The text forms of an interval of two or more fields, by first and last field: without and with
/// the words of a literal around it.
struct Form {
    bare: Regex,
    literal: Regex,
}

impl Form {
    /// Java's classes of characters are those of ASCII.
    fn new(fields: &str, words: &str) -> Option<Self> {
        let bare = format!("^([+|-])?{fields}$");
        let words = words.replace(' ', "[ \\t\\n\\x0B\\f\\r]+");
        let literal = format!(
            "^(?i-u:INTERVAL)[ \\t\\n\\x0B\\f\\r]+([+|-])?'([+|-])?{fields}'[ \\t\\n\\x0B\\f\\r]+\
             (?i-u:{words})$"
        );
        Some(Self {
            bare: Regex::new(&bare).ok()?,
            literal: Regex::new(&literal).ok()?,
        })
    }

    /// Whether it is below zero, and its fields.
    fn read<'t>(&self, text: &'t str) -> Option<(bool, Vec<Option<&'t str>>)> {
        let (found, signs) = match self.bare.captures(text) {
            Some(found) => (found, 1),
            None => (self.literal.captures(text)?, 2),
        };
        let group = |at: usize| found.get(at).map(|group| group.as_str());
        let minus = (1..=signs).filter(|at| group(*at) == Some("-")).count();
        let fields = (signs + 1..found.len()).map(group).collect();
        Some((minus == 1, fields))
    }
}

const TWO: &str = "([0-9]{1,2})";
const MICROS: &str = "(\\.[0-9]{1,9})?";

/// By first and last field.
type Forms = Vec<((bool, u8, u8), Form)>;

static FORMS: LazyLock<Forms> = LazyLock::new(|| {
    let day = "([0-9]{1,9})";
    let hour = "([0-9]{1,10})";
    let minute = "([0-9]{1,12})";
    let second = "([0-9]{1,13})";
    let forms = [
        ((true, 0, 1), "([0-9]+)-([0-9]+)".into(), "YEAR TO MONTH"),
        ((true, 0, 0), "([0-9]+)".into(), "(YEAR|MONTH)"),
        ((false, 0, 1), format!("{day} {TWO}"), "DAY TO HOUR"),
        ((false, 0, 2), format!("{day} {TWO}:{TWO}"), "DAY TO MINUTE"),
        (
            (false, 0, 3),
            format!("{day} {TWO}:{TWO}:{TWO}{MICROS}"),
            "DAY TO SECOND",
        ),
        ((false, 1, 2), format!("{hour}:{TWO}"), "HOUR TO MINUTE"),
        (
            (false, 1, 3),
            format!("{hour}:{TWO}:{TWO}{MICROS}"),
            "HOUR TO SECOND",
        ),
        (
            (false, 2, 3),
            format!("{minute}:{TWO}{MICROS}"),
            "MINUTE TO SECOND",
        ),
        (
            (false, 0, 0),
            format!("{second}{MICROS}"),
            "(DAY|HOUR|MINUTE|SECOND)",
        ),
    ];
    let made = forms.into_iter();
    made.filter_map(|(key, fields, words)| Some((key, Form::new(&fields, words)?)))
        .collect()
});

fn form(key: (bool, u8, u8)) -> Option<&'static Form> {
    FORMS
        .iter()
        .find(|(of, _)| *of == key)
        .map(|(_, form)| form)
}

/// The interval that a text is: in every mode a text that is none raises.
pub(crate) fn read(input: &str, of: Interval) -> Result<i64, SparkError> {
    let text = parse::trim(input);
    if of.first != of.last
        && let Some((minus, fields)) =
            form((of.months, of.first, of.last)).and_then(|form| form.read(text))
    {
        return match of.months {
            true => years_and_months(text, minus, &fields),
            false => fields_of(text, of, minus, &fields),
        };
    }
    let Some((minus, fields)) = form((of.months, 0, 0)).and_then(|form| form.read(text)) else {
        return Err(unmatched(input, of));
    };
    if of.first != of.last {
        return Err(unmatched(input, of));
    }
    let mut parts = fields.into_iter().flatten();
    let digits = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    let fraction = rest.iter().find(|part| part.starts_with('.')).copied();
    let word = rest.iter().find(|part| !part.starts_with('.'));
    if word.is_some_and(|word| !word.eq_ignore_ascii_case(of.field(of.first))) {
        return Err(unmatched(input, of));
    }
    let found = match of.months {
        true => one_of_months(of, minus, digits),
        false => match one_of_day(of, minus, digits, fraction) {
            Some(found) => found,
            None => return Err(unmatched(input, of)),
        },
    };
    found.ok_or_else(|| unparsed(text, of))
}

fn signed(minus: bool, value: i64) -> i64 {
    if minus { -value } else { value }
}

fn years_and_months(text: &str, minus: bool, fields: &[Option<&str>]) -> Result<i64, SparkError> {
    let number = |at: usize, most: i64| {
        let digits = fields.get(at).copied().flatten()?;
        digits.parse::<i64>().ok().filter(|n| *n <= most)
    };
    let year = i64::from(MONTHS_PER_YEAR);
    let total = number(0, i64::from(i32::MAX) / year)
        .zip(number(1, year - 1))
        .map(|(years, months)| signed(minus, years * year + months));
    total
        .filter(|total| i32::try_from(*total).is_ok())
        .ok_or_else(|| parsing(text, "year-month"))
}

/// Years or months alone.
fn one_of_months(of: Interval, minus: bool, digits: &str) -> Option<i64> {
    let value = digits.parse::<i64>().ok()?;
    let months = match of.last {
        // Spark multiplies first, without a check, and gives the sign last.
        0 => signed(
            minus,
            i32::try_from(value.wrapping_mul(MONTHS_PER_YEAR.into()))
                .ok()?
                .into(),
        ),
        _ => signed(minus, value),
    };
    i32::try_from(months).ok().map(i64::from)
}

/// One of days, hours, minutes and seconds; none: the text is not of the form, inner none: it has
/// no value.
fn one_of_day(
    of: Interval,
    minus: bool,
    digits: &str,
    fraction: Option<&str>,
) -> Option<Option<i64>> {
    let most = match of.first {
        0 => 9,
        1 => 10,
        2 => 12,
        _ => 13,
    };
    if digits.len() > most || (fraction.is_some() && of.first != 3) {
        return None;
    }
    Some(digits.parse::<i64>().ok().and_then(|value| {
        let value = signed(minus, value);
        match of.first {
            // Of seconds the fraction has the sign of the whole ones: of none it is above zero.
            3 => seconds(value, i64::MIN / unit(3), i64::MAX / unit(3), fraction),
            // Spark does not check it.
            field => Some(value.wrapping_mul(unit(field))),
        }
    }))
}

/// Seconds within bounds, and the fraction that is written behind the point.
fn seconds(value: i64, least: i64, most: i64, fraction: Option<&str>) -> Option<i64> {
    let whole = Some(value).filter(|value| (least..=most).contains(value))? * unit(3);
    let digits = fraction.and_then(|f| f.strip_prefix('.')).unwrap_or("0");
    let nanos = format!("{digits:0<9}").parse::<i64>().ok()?;
    let micros = nanos / 1_000;
    whole.checked_add(signed(whole < 0, micros))
}

fn fields_of(
    text: &str,
    of: Interval,
    minus: bool,
    fields: &[Option<&str>],
) -> Result<i64, SparkError> {
    let mut micros = 0i64;
    let overflow = SparkError::long_overflow;
    for (at, field) in (of.first..=of.last).enumerate() {
        let digits = fields.get(at).copied().flatten().unwrap_or("0");
        let most = match (at, field) {
            (0, field) => i64::MAX / unit(field),
            (_, 1) => 23,
            _ => 59,
        };
        let value = digits.parse::<i64>().ok().filter(|value| *value <= most);
        let value = value.ok_or_else(|| out_of_range(text, of.field(field), digits, most))?;
        let part = match field {
            3 => {
                let fraction = fields.get(at + 1).copied().flatten();
                seconds(value, 0, 59, fraction).ok_or_else(overflow)?
            }
            field => value.checked_mul(unit(field)).ok_or_else(overflow)?,
        };
        micros = micros
            .checked_add(signed(minus, part))
            .ok_or_else(overflow)?;
    }
    Ok(micros)
}

// ---- errors -------------------------------------------------------------------------------------

fn main(input: &str, more: &str) -> String {
    format!(
        "Error parsing '{input}' to interval. Please ensure that the value provided is in a valid \
         format for defining an interval. You can reference the documentation for the correct \
         format. {more}"
    )
}

fn parsing(text: &str, kind: &str) -> SparkError {
    SparkError::new(
        "INVALID_INTERVAL_FORMAT.INTERVAL_PARSING",
        main(text, &format!("Error parsing interval {kind} string.")),
    )
}

fn unparsed(text: &str, of: Interval) -> SparkError {
    parsing(text, if of.months { "year-month" } else { "day-time" })
}

/// Java's own, which Spark gives no condition.
fn out_of_range(text: &str, field: &str, digits: &str, most: i64) -> SparkError {
    let field = field.to_ascii_lowercase();
    let digits = digits.trim_start_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    let what = format!("requirement failed: {field} {digits} outside range [0, {most}]");
    SparkError::new(
        "INVALID_INTERVAL_FORMAT.DAY_TIME_PARSING",
        main(
            text,
            &format!("Error parsing interval day-time string: {what}."),
        ),
    )
}

fn unmatched(input: &str, of: Interval) -> SparkError {
    let fields = of.fields();
    let bare: String = (of.first..=of.last)
        .map(|field| sign_of(of, field))
        .collect();
    let supported = format!("`[+|-]{bare}`, `INTERVAL [+|-]'[+|-]{bare}' {fields}`");
    let kind = if of.months { "year-month" } else { "day-time" };
    let what = format!(
        "Interval string does not match {kind} format of {supported} when cast to interval {}: \
         {input}.",
        fields.to_ascii_lowercase()
    );
    match of.months {
        true => SparkError::new(
            "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING",
            main(input, &what),
        ),
        false => SparkError::new(
            "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING_WITH_NOTICE",
            main(
                input,
                &format!(
                    "{what} Set \"spark.sql.legacy.fromDayTimeString.enabled\" to \"true\" to \
                     restore the behavior before Spark 3.0."
                ),
            ),
        ),
    }
}

/// A field in Spark's description of a form, with what stands before it.
fn sign_of(of: Interval, field: u8) -> &'static str {
    match (of.months, field, field == of.first) {
        (true, 0, _) => "y",
        (true, _, true) => "m",
        (true, ..) => "-m",
        (false, 0, _) => "d",
        (false, 1, true) => "h",
        (false, 1, _) => " h",
        (false, 2, true) => "m",
        (false, 2, _) => ":m",
        (false, _, true) => "s.n",
        (false, ..) => ":s.n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(months: bool, first: u8, last: u8) -> Interval {
        Interval {
            months,
            first,
            last,
        }
    }

    fn text(value: i64, of: Interval) -> String {
        let mut out = String::new();
        write(value, of, &mut out);
        out
    }

    #[test]
    fn every_form_is_there() {
        assert_eq!(FORMS.len(), 9);
    }

    #[test]
    fn the_least_intervals_have_a_text() {
        assert_eq!(
            text(i64::MIN, of(false, 0, 3)),
            "INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND"
        );
        assert_eq!(
            text(i64::MIN, of(false, 3, 3)),
            "INTERVAL '-9223372036854.775808' SECOND"
        );
        assert_eq!(
            text(i32::MIN.into(), of(true, 0, 1)),
            "INTERVAL '-178956970-8' YEAR TO MONTH"
        );
    }

    #[test]
    fn what_is_written_is_read() {
        for (value, of) in [
            (-14, of(true, 0, 1)),
            (24, of(true, 0, 0)),
            (-7, of(true, 1, 1)),
            (-90_061_000_001, of(false, 0, 3)),
            (5_400_000_000, of(false, 1, 2)),
            (-61_500_000, of(false, 2, 3)),
            (1_500_000, of(false, 3, 3)),
        ] {
            assert_eq!(read(&text(value, of), of).unwrap(), value);
        }
    }
}
