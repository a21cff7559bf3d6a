//! Fields of CSV as values of Spark's types: exactly, or refused with file, record and column.

use std::{path::Path, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, StringArray},
    compute::{CastOptions, cast_with_options},
};
use coffer_format::SparkType;

use crate::failure::{Exit, Failure};

/// Where a batch of one column stands.
pub(crate) struct CsvPosition<'a> {
    pub(crate) file: &'a Path,
    pub(crate) column: &'a str,
    pub(crate) first_record: u64,
}

/// Parses a column. `null` stands for NULL (the reader has turned those into nulls); an empty field
/// of another type than STRING is NULL too.
pub(crate) fn parse(
    texts: &StringArray,
    kind: &SparkType,
    null: &str,
    nullable: bool,
    position: &CsvPosition<'_>,
) -> Result<ArrayRef, Failure> {
    let emptied;
    let texts = if kind.is_text() || null.is_empty() {
        texts
    } else {
        emptied = StringArray::from_iter(
            texts
                .iter()
                .map(|text| text.filter(|text| !text.is_empty())),
        );
        &emptied
    };
    let fault = |row: usize, what: &str| {
        let record = position
            .first_record
            .saturating_add(u64::try_from(row).unwrap_or(0));
        let position = format!(
            "{}, record {record}, column `{}`",
            position.file.display(),
            position.column
        );
        Failure::new(Exit::Check, format!("{position}: {what} {kind}"))
    };
    if !nullable && let Some(row) = (0..texts.len()).find(|row| texts.is_null(*row)) {
        return Err(fault(row, "NULL in a column that is NOT NULL:"));
    }
    let array: ArrayRef = match kind {
        kind if kind.is_text() => return Ok(Arc::new(texts.clone())),
        SparkType::Binary => Arc::new(BinaryArray::from_iter(
            texts.iter().map(|text| text.map(str::as_bytes)),
        )),
        SparkType::Boolean => Arc::new(BooleanArray::from_iter(
            texts.iter().map(|text| text.and_then(boolean)),
        )),
        SparkType::Decimal { precision, scale } => {
            let values = texts
                .iter()
                .map(|text| text.and_then(|text| decimal(text, *precision, *scale)));
            let scale = i8::try_from(*scale).unwrap_or(i8::MAX);
            let array = values
                .collect::<Decimal128Array>()
                .with_precision_and_scale(*precision, scale);
            Arc::new(array.map_err(|error| fault(0, &error.to_string()))?)
        }
        _ => {
            let options = CastOptions {
                safe: true,
                ..CastOptions::default()
            };
            cast_with_options(texts, &kind.to_arrow(), &options)
                .map_err(|error| fault(0, &error.to_string()))?
        }
    };
    // What did not parse became NULL where the text was not.
    match array.null_count() == texts.null_count() {
        true => Ok(array),
        false => {
            let row = (0..texts.len()).find(|row| array.is_null(*row) && !texts.is_null(*row));
            Err(fault(row.unwrap_or(0), "the field is not a")
                .hint("give the types with --schema, or correct the file"))
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// Exactly: no digit is rounded away.
fn decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let scale = usize::from(scale);
    let kept = fraction.get(..scale.min(fraction.len()))?;
    if fraction
        .get(kept.len()..)?
        .bytes()
        .any(|digit| digit != b'0')
    {
        return None;
    }
    let zeros = std::iter::repeat_n(b'0', scale.saturating_sub(kept.len()));
    let mut value = 0_i128;
    for digit in whole.bytes().chain(kept.bytes()).chain(zeros) {
        let digit = digit
            .is_ascii_digit()
            .then(|| i128::from(digit.saturating_sub(b'0')))?;
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    let limit = 10_i128.checked_pow(u32::from(precision))?;
    (value < limit).then(|| {
        if negative {
            value.saturating_neg()
        } else {
            value
        }
    })
}

/// What a column's values could all be.
#[derive(Clone)]
pub(crate) struct Guess {
    seen: bool,
    boolean: bool,
    int: bool,
    long: bool,
    double: bool,
    date: bool,
    zoned: bool,
    wall_clock: bool,
}

impl Default for Guess {
    fn default() -> Self {
        let yes = true;
        Self {
            seen: false,
            boolean: yes,
            int: yes,
            long: yes,
            double: yes,
            date: yes,
            zoned: yes,
            wall_clock: yes,
        }
    }
}

impl Guess {
    pub(crate) fn see(&mut self, text: &str) {
        self.seen = true;
        self.boolean = self.boolean && boolean(text).is_some();
        self.int = self.int && text.parse::<i32>().is_ok();
        self.long = self.long && text.parse::<i64>().is_ok();
        self.double = self.double
            && text.bytes().any(|byte| byte.is_ascii_digit())
            && text.parse::<f64>().is_ok();
        self.date = self.date && is_date(text);
        let time = text
            .get(..10)
            .is_some_and(is_date)
            .then(|| text.get(10..))
            .flatten();
        let rest = time
            .and_then(|rest| rest.strip_prefix([' ', 'T']))
            .filter(|rest| rest.contains(':'));
        let zone = rest.is_some_and(|rest| rest.ends_with('Z') || rest.contains(['+', '-']));
        self.zoned = self.zoned && rest.is_some() && zone;
        self.wall_clock = self.wall_clock && rest.is_some() && !zone;
    }

    pub(crate) fn kind(&self) -> SparkType {
        match self {
            Self { seen: false, .. } => SparkType::String,
            Self { boolean: true, .. } => SparkType::Boolean,
            Self { int: true, .. } => SparkType::Int,
            Self { long: true, .. } => SparkType::Long,
            Self { double: true, .. } => SparkType::Double,
            Self { date: true, .. } => SparkType::Date,
            Self { zoned: true, .. } => SparkType::Timestamp,
            Self {
                wall_clock: true, ..
            } => SparkType::TimestampNtz,
            _ => SparkType::String,
        }
    }
}

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| {
            if at == 4 || at == 7 {
                byte == b'-'
            } else {
                byte.is_ascii_digit()
            }
        });
    let number = |from, to| {
        text.get(from..to)
            .and_then(|part| part.parse::<u32>().ok())
            .unwrap_or(0)
    };
    shape && (1..=12).contains(&number(5, 7)) && (1..=31).contains(&number(8, 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal("-12.5", 5, 2), Some(-1250));
        assert_eq!(decimal("12.500", 5, 2), Some(1250));
        assert_eq!(decimal("12.505", 5, 2), None);
        assert_eq!(decimal("1000", 5, 2), None);
        assert_eq!(
            decimal("99999999999999999999999999999999999999", 38, 0),
            Some(10_i128.pow(38) - 1)
        );
        for bad in ["", ".", "-", "1e3", "1,5", "é"] {
            assert_eq!(decimal(bad, 10, 2), None, "{bad}");
        }
    }

    #[test]
    fn guesses() {
        let guess = |texts: &[&str]| {
            let mut guess = Guess::default();
            texts.iter().for_each(|text| guess.see(text));
            guess.kind()
        };
        assert_eq!(guess(&["1", "-2"]), SparkType::Int);
        assert_eq!(guess(&["1", "3000000000"]), SparkType::Long);
        assert_eq!(guess(&["1", "2.5"]), SparkType::Double);
        assert_eq!(guess(&["2020-01-31"]), SparkType::Date);
        assert_eq!(guess(&["2020-01-31 10:00:00"]), SparkType::TimestampNtz);
        assert_eq!(guess(&["2020-01-31T10:00:00Z"]), SparkType::Timestamp);
        assert_eq!(guess(&["true", "FALSE"]), SparkType::Boolean);
        assert_eq!(guess(&["1", "x"]), SparkType::String);
        assert_eq!(guess(&[]), SparkType::String);
    }
}
