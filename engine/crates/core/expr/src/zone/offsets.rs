//! A region's offsets from UTC, looked up without a calendar.
//!
//! The tables of `chrono-tz` cannot be listed, so its answers are: each day from 1800 on is asked
//! for, and where two differ, the second of the change is searched for.

use std::sync::{LazyLock, OnceLock};

use chrono::{Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};

const DAY: i64 = 86_400;
/// 1800-01-01, before which no region changes its offset, in seconds.
const START: i64 = -62_091 * DAY;
/// Seconds of a bucket, as a power of two: 97 days, in which there is at most a change or two.
const BUCKET: u32 = 23;

/// The last year of which the zone tables hold every change, and its end in seconds.
pub(super) const LAST_YEAR: i64 = 2090;
pub(super) const END: i64 = 44_195 * DAY;

pub(crate) struct Offsets {
    tz: Tz,
    utc: Changes,
    wall: Changes,
    /// Seconds east of UTC: before the first change, and from each on.
    offsets: Vec<i64>,
}

impl Offsets {
    /// Made when a region is asked for the first time, and kept.
    pub(super) fn of(tz: Tz) -> &'static Self {
        static MADE: LazyLock<Vec<OnceLock<Offsets>>> =
            LazyLock::new(|| TZ_VARIANTS.iter().map(|_| OnceLock::new()).collect());
        static NONE: OnceLock<Offsets> = OnceLock::new();
        MADE.get(tz as usize)
            .unwrap_or(&NONE)
            .get_or_init(|| Self::new(tz))
    }

    fn new(tz: Tz) -> Self {
        let at = |seconds: i64| {
            let utc = chrono::DateTime::from_timestamp(seconds, 0)
                .map(|instant| instant.naive_utc())
                .unwrap_or_default();
            i64::from(tz.offset_from_utc_datetime(&utc).fix().local_minus_utc())
        };
        let (mut utc, mut offsets) = (Vec::new(), vec![at(START)]);
        let (mut now, mut before) = (START, at(START));
        while now < END {
            let (next, after) = (now + DAY, at(now + DAY));
            // Two changes in one day, too.
            while before != after {
                let (mut same, mut other) = (now, next);
                while other - same > 1 {
                    let middle = same + (other - same) / 2;
                    match at(middle) == before {
                        true => same = middle,
                        false => other = middle,
                    }
                }
                (now, before) = (other, at(other));
                utc.push(now);
                offsets.push(before);
            }
            now = next;
        }
        // What is skipped, and what comes twice, belongs to the offset before.
        let wall = utc
            .iter()
            .zip(offsets.windows(2))
            .map(|(change, pair)| change + pair.iter().max().copied().unwrap_or(0))
            .collect();
        Self {
            tz,
            utc: Changes::new(utc),
            wall: Changes::new(wall),
            offsets,
        }
    }

    /// At a second since the epoch, until the tables' last year.
    pub(super) fn at_instant(&self, seconds: i64) -> i64 {
        self.offset(self.utc.until(seconds))
    }

    /// At a second of the wall's clock: of those that are skipped and of those that come twice, the
    /// offset before.
    pub(super) fn at_wall(&self, seconds: i64) -> i64 {
        self.offset(self.wall.until(seconds))
    }

    fn offset(&self, changes: usize) -> i64 {
        self.offsets.get(changes).copied().unwrap_or(0)
    }
}

impl PartialEq for Offsets {
    fn eq(&self, other: &Self) -> bool {
        self.tz == other.tz
    }
}

impl Eq for Offsets {}

impl std::fmt::Debug for Offsets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.tz.name())
    }
}

/// Seconds in ascending order, and by bucket how many come before it.
struct Changes {
    seconds: Vec<i64>,
    buckets: Vec<usize>,
}

impl Changes {
    fn new(seconds: Vec<i64>) -> Self {
        let last = seconds.last().map_or(0, |last| (last - START) >> BUCKET);
        let buckets = (0..=last)
            .map(|bucket| seconds.partition_point(|s| *s < START + (bucket << BUCKET)))
            .collect();
        Self { seconds, buckets }
    }

    /// How many are not after this one.
    fn until(&self, second: i64) -> usize {
        let bucket = usize::try_from((second.saturating_sub(START)) >> BUCKET).unwrap_or(0);
        let before = self
            .buckets
            .get(bucket)
            .or(self.buckets.last())
            .copied()
            .unwrap_or(0);
        let rest = self.seconds.iter().skip(before);
        before + rest.take_while(|change| **change <= second).count()
    }
}

#[cfg(test)]
mod tests {
    use chrono::MappedLocalTime;

    use super::*;
    use crate::calendar;

    #[test]
    fn every_region_is_as_its_tables_say() {
        let year = |year: i64| calendar::days_from_civil(year, 1, 1) * DAY;
        assert_eq!((year(1800), year(LAST_YEAR + 1)), (START, END));
        for tz in TZ_VARIANTS {
            let offsets = Offsets::of(tz);
            let near = offsets.utc.seconds.iter().chain(&offsets.wall.seconds);
            let near: Vec<i64> = near.flat_map(|c| [c - 1, *c, c + 1, c + 1_800]).collect();
            let some = (year(1790)..END).step_by(4_000_037);
            for seconds in near.into_iter().chain(some) {
                let time = chrono::DateTime::from_timestamp(seconds, 0).unwrap();
                let time = time.naive_utc();
                let right = tz.offset_from_utc_datetime(&time).fix().local_minus_utc();
                assert_eq!(offsets.at_instant(seconds), i64::from(right), "{tz} {time}");
                let right = match tz.offset_from_local_datetime(&time) {
                    MappedLocalTime::Single(one) | MappedLocalTime::Ambiguous(one, _) => one.fix(),
                    MappedLocalTime::None => {
                        let before = time - chrono::Duration::days(1);
                        tz.offset_from_utc_datetime(&before).fix()
                    }
                };
                let right = i64::from(right.local_minus_utc());
                assert_eq!(offsets.at_wall(seconds), right, "{tz}, on the wall {time}");
            }
        }
    }
}
