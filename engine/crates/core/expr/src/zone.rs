//! Time zones as Java's `ZoneId` has them: region, fixed offset, or Java's three-letter short ids.

mod offsets;

use chrono_tz::Tz;

use self::offsets::{END, LAST_YEAR, Offsets};
use crate::{
    Unsupported,
    calendar::{self, MICROS_PER_SECOND},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Seconds east of UTC.
    Fixed(i64),
    Region(&'static Offsets),
}

impl Zone {
    pub(crate) const UTC: Self = Self::Fixed(0);

    /// The zone that a call or cast names.
    pub(crate) fn of(id: &str) -> Result<Self, Unsupported> {
        Self::parse(id).ok_or_else(|| {
            Unsupported::new(format!("time zone {id:?}"), "the engine does not know it")
        })
    }

    /// Spark's `getZoneId`; none where Java throws.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        if let Some(seconds) = offset(id) {
            return Some(Self::Fixed(seconds));
        }
        for prefix in ["UTC", "GMT", "UT"] {
            match id.strip_prefix(prefix) {
                Some("") => return Some(Self::UTC),
                Some(rest) if rest.starts_with(['+', '-']) => return offset(rest).map(Self::Fixed),
                _ => {}
            }
        }
        match short(id) {
            Some(long) => Self::parse(long),
            None => {
                let tz: Tz = id.parse().ok()?;
                Some(Self::Region(Offsets::of(tz)))
            }
        }
    }

    /// Seconds east of UTC at an instant in microseconds.
    #[inline]
    pub(crate) fn offset_at(&self, micros: i64) -> i64 {
        match self {
            Self::Fixed(seconds) => *seconds,
            Self::Region(offsets) => {
                offsets.at_instant(of_tables(micros.div_euclid(MICROS_PER_SECOND)))
            }
        }
    }

    /// The wall-clock time at an instant, both in microseconds.
    #[inline]
    pub(crate) fn to_local(self, micros: i64) -> i64 {
        micros.saturating_add(self.offset_at(micros) * MICROS_PER_SECOND)
    }

    /// The instant of a wall-clock time; in a gap it moves on by the gap's length, in an overlap it
    /// is the earlier. None where Java overflows.
    pub(crate) fn to_instant(self, local: i64) -> Option<i64> {
        let seconds = match self {
            Self::Fixed(seconds) => seconds,
            Self::Region(offsets) => {
                offsets.at_wall(of_tables(local.div_euclid(MICROS_PER_SECOND)))
            }
        };
        local.checked_sub(seconds * MICROS_PER_SECOND)
    }
}

/// Seconds since the epoch as the tables have them. Years past the tables move to one of theirs
/// with the same calendar (28 years repeat within a century), since rules of the last year go on
/// for ever.
#[inline]
fn of_tables(seconds: i64) -> i64 {
    if seconds < END {
        return seconds;
    }
    let (year, month, day) = calendar::civil(seconds.div_euclid(86_400));
    let weekday = calendar::iso_weekday(calendar::days_from_civil(year, 1, 1));
    let like = (LAST_YEAR - 27..=LAST_YEAR).find(|candidate| {
        calendar::is_leap(*candidate) == calendar::is_leap(year)
            && calendar::iso_weekday(calendar::days_from_civil(*candidate, 1, 1)) == weekday
    });
    let days = calendar::days_from_civil(like.unwrap_or(LAST_YEAR), month, day);
    days * 86_400 + seconds.rem_euclid(86_400)
}

/// `Z`, `±h`, `±hh`, `±h:mm`, `±hh:m`, `±hh:mm`, `±hhmm`, `±hh:mm:ss`, `±hhmmss`, at most 18 hours.
fn offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, text.get(1..)?),
        b'-' => (-1, text.get(1..)?),
        _ => return None,
    };
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse::<i64>().ok()).flatten()
    };
    let parts: Vec<&str> = rest.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [h] if matches!(h.len(), 1 | 2) => (number(h)?, 0, 0),
        [all] if all.len() == 4 && all.is_ascii() => {
            (number(all.get(..2)?)?, number(all.get(2..)?)?, 0)
        }
        [all] if all.len() == 6 && all.is_ascii() => (
            number(all.get(..2)?)?,
            number(all.get(2..4)?)?,
            number(all.get(4..)?)?,
        ),
        [h, m] if matches!(h.len(), 1 | 2) && matches!(m.len(), 1 | 2) => {
            (number(h)?, number(m)?, 0)
        }
        [h, m, s] if matches!(h.len(), 1 | 2) && m.len() == 2 && s.len() == 2 => {
            (number(h)?, number(m)?, number(s)?)
        }
        _ => return None,
    };
    let total = hours * 3_600 + minutes * 60 + seconds;
    (minutes < 60 && seconds < 60 && total <= 18 * 3_600).then_some(sign * total)
}

/// `java.time.ZoneId.SHORT_IDS`.
fn short(id: &str) -> Option<&'static str> {
    Some(match id {
        "ACT" => "Australia/Darwin",
        "AET" => "Australia/Sydney",
        "AGT" => "America/Argentina/Buenos_Aires",
        "ART" => "Africa/Cairo",
        "AST" => "America/Anchorage",
        "BET" => "America/Sao_Paulo",
        "BST" => "Asia/Dhaka",
        "CAT" => "Africa/Harare",
        "CNT" => "America/St_Johns",
        "CST" => "America/Chicago",
        "CTT" => "Asia/Shanghai",
        "EAT" => "Africa/Addis_Ababa",
        "ECT" => "Europe/Paris",
        "IET" => "America/Indiana/Indianapolis",
        "IST" => "Asia/Kolkata",
        "JST" => "Asia/Tokyo",
        "MIT" => "Pacific/Apia",
        "NET" => "Asia/Yerevan",
        "NST" => "Pacific/Auckland",
        "PLT" => "Asia/Karachi",
        "PNT" => "America/Phoenix",
        "PRT" => "America/Puerto_Rico",
        "PST" => "America/Los_Angeles",
        "SST" => "Pacific/Guadalcanal",
        "VST" => "Asia/Ho_Chi_Minh",
        "EST" => "-05:00",
        "MST" => "-07:00",
        "HST" => "-10:00",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_as_java_reads_them() {
        for (text, seconds) in [
            ("+1", 3_600),
            ("-01:30", -5_400),
            ("+0530", 19_800),
            ("+1:5", 3_900),
            ("Z", 0),
        ] {
            assert_eq!(Zone::parse(text), Some(Zone::Fixed(seconds)), "{text}");
        }
        assert_eq!(Zone::parse("GMT+8"), Some(Zone::Fixed(28_800)));
        for text in ["+19:00", "+01:60", "+123", "01:00", "", "Mars/Olympus"] {
            assert_eq!(Zone::parse(text), None, "{text}");
        }
    }

    #[test]
    fn summer_time_goes_on_after_the_tables_end() {
        let zone = Zone::parse("Europe/Paris").unwrap();
        for year in [2026, 2099, 2500, 9999] {
            let july = calendar::days_from_civil(year, 7, 1) * calendar::MICROS_PER_DAY;
            let january = calendar::days_from_civil(year, 1, 10) * calendar::MICROS_PER_DAY;
            assert_eq!(
                (zone.offset_at(july), zone.offset_at(january)),
                (7_200, 3_600),
                "{year}"
            );
        }
    }

    #[test]
    fn gap_and_overlap() {
        let zone = Zone::parse("America/Los_Angeles").unwrap();
        let at = |day, hour: i64, minute: i64| {
            calendar::days_from_civil(2020, 3, day) * calendar::MICROS_PER_DAY
                + (hour * 60 + minute) * 60_000_000
        };
        // 02:30 on 8 March does not exist: it becomes 03:30 (UTC−7).
        assert_eq!(zone.to_instant(at(8, 2, 30)), Some(at(8, 10, 30)));
        let overlap =
            calendar::days_from_civil(2020, 11, 1) * calendar::MICROS_PER_DAY + 90 * 60_000_000;
        assert_eq!(zone.to_instant(overlap), Some(overlap + 7 * 3_600_000_000));
    }
}
