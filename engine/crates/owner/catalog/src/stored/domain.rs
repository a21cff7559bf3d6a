//! Domains from the policy's words to the numbers that schemes work on.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, StringArray},
    compute::{CastOptions, cast_with_options},
    datatypes::{Date32Type, TimestampMicrosecondType},
};
use coffer_custody::Domain;
use coffer_format::{SparkType, stored_column::DomainPin};

use crate::Error;

/// The values that a column of this type may have at all; none for types that are no numbers to a
/// scheme.
pub(super) fn of_type(kind: &SparkType) -> Option<DomainPin> {
    let signed = |bits: u32| {
        let max = 1_i128
            .wrapping_shl(bits.saturating_sub(1))
            .saturating_sub(1);
        DomainPin { min: !max, max }
    };
    Some(match kind {
        SparkType::Boolean => DomainPin { min: 0, max: 1 },
        SparkType::Byte => signed(8),
        SparkType::Short => signed(16),
        SparkType::Int | SparkType::Date | SparkType::YearMonth { .. } => signed(32),
        SparkType::Long
        | SparkType::Timestamp
        | SparkType::TimestampNtz
        | SparkType::DayTime { .. } => signed(64),
        SparkType::Decimal { precision, .. } => {
            let max = 10_i128
                .saturating_pow((*precision).into())
                .saturating_sub(1);
            DomainPin {
                min: max.saturating_neg(),
                max,
            }
        }
        SparkType::Time { .. } => return None,
        SparkType::Float | SparkType::Double | SparkType::Binary => return None,
        SparkType::String | SparkType::Char { .. } | SparkType::Varchar { .. } => return None,
        SparkType::Array { .. } | SparkType::Struct { .. } | SparkType::Map { .. } => return None,
    })
}

/// A column's domain as the policy writes it. `reason`s name no value but the policy's own.
pub(super) fn parse(column: &str, kind: &SparkType, written: &Domain) -> Result<DomainPin, Error> {
    let refuse = |reason: String| Error::Domain {
        column: column.to_owned(),
        reason,
    };
    let all = of_type(kind).ok_or_else(|| refuse(format!("a {kind} has none")))?;
    let bound = |text: &str| {
        number(kind, text.trim())
            .filter(|number| (all.min..=all.max).contains(number))
            .ok_or_else(|| refuse(format!("\"{text}\" is not a {kind}")))
    };
    let domain = DomainPin {
        min: bound(&written.min)?,
        max: bound(&written.max)?,
    };
    if domain.min > domain.max {
        return Err(refuse(format!("{written} is empty")));
    }
    Ok(domain)
}

/// What is left of a default domain in a column of a narrower type.
pub(super) fn within(domain: DomainPin, kind: &SparkType) -> DomainPin {
    match of_type(kind) {
        Some(all) => DomainPin {
            min: domain.min.clamp(all.min, all.max),
            max: domain.max.clamp(all.min, all.max),
        },
        None => domain,
    }
}

/// As [`parse`], but a decimal's default may have more digits than the column.
pub(super) fn parse_default(
    column: &str,
    kind: &SparkType,
    written: &Domain,
) -> Result<DomainPin, Error> {
    let wide = match kind {
        SparkType::Decimal { scale, .. } => SparkType::Decimal {
            precision: 38,
            scale: *scale,
        },
        kind => kind.clone(),
    };
    parse(column, &wide, written).map(|domain| within(domain, kind))
}

fn number(kind: &SparkType, text: &str) -> Option<i128> {
    match kind {
        SparkType::Decimal { scale, .. } => decimal(text, (*scale).into()),
        SparkType::Date => {
            let days = cast(text, kind)?;
            Some(days.as_primitive_opt::<Date32Type>()?.value(0).into())
        }
        SparkType::Timestamp | SparkType::TimestampNtz => {
            let micros = cast(text, kind)?;
            Some(
                micros
                    .as_primitive_opt::<TimestampMicrosecondType>()?
                    .value(0)
                    .into(),
            )
        }
        _ => text.parse().ok(),
    }
}

fn cast(text: &str, kind: &SparkType) -> Option<ArrayRef> {
    let array: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(&array, &kind.to_arrow(), &options).ok()
}

/// Digits with a point, and at most `scale` of them behind it: nothing is rounded.
fn decimal(text: &str, scale: usize) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > scale {
        return None;
    }
    format!("{whole}{fraction:0<scale$}")
        .parse::<i128>()
        .ok()?
        .checked_mul(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(kind: SparkType, min: &str, max: &str) -> Result<(i128, i128), String> {
        let written = Domain {
            min: min.to_owned(),
            max: max.to_owned(),
        };
        parse("a", &kind, &written)
            .map(|domain| (domain.min, domain.max))
            .map_err(|error| error.to_string())
    }

    const MONEY: SparkType = SparkType::Decimal {
        precision: 12,
        scale: 2,
    };

    #[test]
    fn in_the_columns_own_terms() {
        assert_eq!(domain(SparkType::Int, "-5", "7"), Ok((-5, 7)));
        assert_eq!(domain(MONEY, "-0.5", "104949.50"), Ok((-50, 10_494_950)));
        assert_eq!(domain(MONEY, "0", "7.000"), Ok((0, 700)));
        assert_eq!(
            domain(SparkType::Date, "1970-01-02", "1992-01-01"),
            Ok((1, 8035))
        );
        assert_eq!(
            domain(
                SparkType::TimestampNtz,
                "1970-01-01 00:00:00",
                "1970-01-01 00:00:01.5"
            ),
            Ok((0, 1_500_000))
        );
    }

    #[test]
    fn nothing_is_guessed() {
        for (kind, min, max) in [
            (SparkType::Int, "0", "0.5"),
            (SparkType::Byte, "0", "128"),
            (SparkType::Int, "", "1"),
            (MONEY, "0", "0.005"),
            (MONEY, "0", "1e3"),
            (MONEY, ".5", "1"),
            (MONEY, "0", "10000000000.00"),
            (SparkType::Date, "0", "01/02/1992"),
            (SparkType::String, "a", "b"),
            (SparkType::Double, "0", "1"),
            (SparkType::Int, "2", "1"),
        ] {
            let error = domain(kind, min, max).unwrap_err();
            assert!(error.contains("`a`"), "{error}");
        }
    }

    #[test]
    fn a_default_is_cut_to_the_column() {
        let written = Domain {
            min: "-1000000.00".into(),
            max: "1000000".into(),
        };
        let small = SparkType::Decimal {
            precision: 4,
            scale: 2,
        };
        let domain = parse_default("a", &small, &written).unwrap();
        assert_eq!((domain.min, domain.max), (-9999, 9999));
    }
}
