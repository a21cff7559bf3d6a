//! How many values a column may have, as far as types and domains tell.

use arrow::{array::types::Date32Type, compute::kernels::cast_utils::Parser};
use coffer_custody::Domain;
use coffer_format::SparkType;

use super::CheckedColumn;

/// The number of values from the least to the greatest; none where neither domain nor type bounds
/// them, or where it takes the type to tell and that is unknown.
pub(super) fn of(column: &CheckedColumn) -> Option<u128> {
    if let Some(seen) = &column.seen {
        let pinned = seen.stored.iter().find_map(|stored| stored.domain);
        let pinned = pinned.and_then(|pin| between(pin.min, pin.max));
        return pinned.or_else(|| of_type(&seen.kind));
    }
    column.rules.domain().and_then(of_words)
}

fn of_type(kind: &SparkType) -> Option<u128> {
    match kind {
        SparkType::Boolean => Some(2),
        SparkType::Byte => Some(1 << 8),
        SparkType::Short => Some(1 << 16),
        SparkType::Int | SparkType::Date | SparkType::YearMonth { .. } => Some(1 << 32),
        SparkType::Long
        | SparkType::Timestamp
        | SparkType::TimestampNtz
        | SparkType::DayTime { .. } => Some(1 << 64),
        SparkType::Time { digits } => Some(86_400 * 10_u128.checked_pow((*digits).into())?),
        SparkType::Decimal { precision, .. } => {
            let most = 10_u128.checked_pow((*precision).into())?;
            most.checked_mul(2)?.checked_sub(1)
        }
        SparkType::Float | SparkType::Double | SparkType::Binary => None,
        SparkType::String | SparkType::Char { .. } | SparkType::Varchar { .. } => None,
        SparkType::Array { .. } | SparkType::Struct { .. } | SparkType::Map { .. } => None,
    }
}

/// Of a domain as the policy writes it: whole numbers, decimals (to the digits that are written),
/// or dates.
fn of_words(domain: &Domain) -> Option<u128> {
    let (min, max) = (domain.min.trim(), domain.max.trim());
    let digits = |text: &str| {
        text.split_once('.')
            .map_or(0, |(_, fraction)| fraction.len())
    };
    let scale = digits(min).max(digits(max));
    let number = |text: &str| {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        format!("{whole}{fraction:0<scale$}").parse::<i128>().ok()
    };
    if let (Some(min), Some(max)) = (number(min), number(max)) {
        return between(min, max);
    }
    let day = |text: &str| Date32Type::parse(text).map(i128::from);
    between(day(min)?, day(max)?)
}

fn between(min: i128, max: i128) -> Option<u128> {
    (min <= max).then(|| max.abs_diff(min).saturating_add(1))
}

/// How many rows a sum may be of, so that it surely fits 64 bits, where the column has so many
/// values.
pub(super) fn most_rows(size: u128) -> u128 {
    let greatest = size.saturating_sub(1).max(1);
    u128::from(u64::MAX).checked_div(greatest).unwrap_or(0)
}

/// "1234567" as "1,234,567".
pub(super) fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len().saturating_sub(at)) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_as_they_are_written() {
        let size = |min: &str, max: &str| {
            of_words(&Domain {
                min: min.into(),
                max: max.into(),
            })
        };
        assert_eq!(size("0", "150"), Some(151));
        assert_eq!(size("-5", "5"), Some(11));
        assert_eq!(size("0", "1.25"), Some(126));
        assert_eq!(size("1992-01-01", "1992-12-31"), Some(366));
        assert_eq!(size("5", "4"), None);
        assert_eq!(size("1992-01-01 00:00:00", "soon"), None);
    }

    #[test]
    fn sums_fit_64_bits() {
        assert_eq!(most_rows(2), u128::from(u64::MAX));
        assert_eq!(
            most_rows(1 << 32),
            u128::from(u64::MAX) / u128::from(u32::MAX)
        );
        assert_eq!(grouped(4_294_967_297_u64), "4,294,967,297");
        assert_eq!(grouped(999), "999");
    }
}
