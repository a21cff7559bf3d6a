//! The proleptic Gregorian calendar over days and microseconds since 1970-01-01, for every year
//! that 64 bits reach.

pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(crate) const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Year, month (1–12), day (1–31) of a day. (Hinnant, "chrono-compatible low-level date
/// algorithms".)
#[inline]
pub(crate) fn civil(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

/// The day of a year, month and day; `month` and `day` must be in range.
#[inline]
pub(crate) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let shifted_month = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

pub(crate) fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

pub(crate) fn month_length(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day, if there is such a date.
pub(crate) fn checked_date(year: i64, month: i64, day: i64) -> Option<i64> {
    let (month, day) = (u32::try_from(month).ok()?, u32::try_from(day).ok()?);
    let real = (1..=12).contains(&month) && (1..=month_length(year, month)).contains(&day);
    real.then(|| days_from_civil(year, month, day))
}

/// 1 = Monday … 7 = Sunday.
pub(crate) fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// ISO 8601 week: year that the week belongs to, and its number.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days + 4 - iso_weekday(days);
    let (year, _, _) = civil(thursday);
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

/// A wall-clock time: days since 1970-01-01 and microseconds of the day.
pub(crate) fn split_micros(micros: i64) -> (i64, i64) {
    (
        micros.div_euclid(MICROS_PER_DAY),
        micros.rem_euclid(MICROS_PER_DAY),
    )
}

/// `n` months later, the day cut to the month's length.
pub(crate) fn plus_months(days: i64, months: i64) -> i64 {
    let (year, month, day) = civil(days);
    let total = year * 12 + i64::from(month) - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    days_from_civil(year, month, day.min(month_length(year, month)))
}

#[cfg(test)]
mod tests {
    use chrono::{Datelike, NaiveDate};

    use super::*;

    #[test]
    fn agrees_with_chrono_over_two_thousand_years() {
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        let mut day = -720_000i64;
        while day < 720_000 {
            let date = epoch + chrono::Duration::days(day);
            assert_eq!(
                civil(day),
                (i64::from(date.year()), date.month(), date.day()),
                "{date}"
            );
            assert_eq!(
                days_from_civil(date.year().into(), date.month(), date.day()),
                day
            );
            assert_eq!(
                iso_weekday(day),
                i64::from(date.weekday().number_from_monday())
            );
            let week = date.iso_week();
            assert_eq!(
                iso_week(day),
                (i64::from(week.year()), i64::from(week.week()))
            );
            day += 97;
        }
    }

    #[test]
    fn extreme_days_round_trip() {
        for day in [i64::from(i32::MIN), i64::from(i32::MAX), -1, 0] {
            let (year, month, of_month) = civil(day);
            assert_eq!(days_from_civil(year, month, of_month), day);
        }
    }
}
