//! Refusals that somebody can cause as often as he likes: each record is a wait for the disk.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    time::{Duration, Instant},
};

use crate::Event;

/// How often refusals of one kind are recorded at most.
const EVERY: Duration = Duration::from_secs(60);
/// Kinds that are counted each for itself; all others together are one more.
const KINDS: usize = 1024;

/// Records one refusal of a kind in a while, with the number of those before it that were not.
#[derive(Debug)]
pub struct Seldom<K> {
    /// When a refusal was recorded last, and how many were not since.
    held: HashMap<Option<K>, (Instant, u64)>,
}

impl<K> Default for Seldom<K> {
    fn default() -> Self {
        Self {
            held: HashMap::new(),
        }
    }
}

impl<K: Eq + Hash> Seldom<K> {
    /// The event with the number of those that the log lacks, if this one is to be recorded now.
    pub fn record(&mut self, kind: K, event: Event) -> Option<Event> {
        match self.note(kind, Instant::now())? {
            0 => Some(event),
            missing => Some(event.detail("unrecorded_before", missing.to_string())),
        }
    }

    fn note(&mut self, kind: K, now: Instant) -> Option<u64> {
        let recent = |at: Instant| now.saturating_duration_since(at) < EVERY;
        self.held
            .retain(|_, (at, missing)| *missing > 0 || recent(*at));
        let kind = Some(kind);
        let counted = self.held.contains_key(&kind) || self.held.len() < KINDS;
        match self.held.entry(kind.filter(|_| counted)) {
            Entry::Vacant(new) => {
                new.insert((now, 0));
                Some(0)
            }
            Entry::Occupied(mut held) if recent(held.get().0) => {
                let missing = &mut held.get_mut().1;
                *missing = missing.saturating_add(1);
                None
            }
            Entry::Occupied(mut held) => Some(held.insert((now, 0)).1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_a_kind_are_recorded_once_in_a_while_and_all_are_counted() {
        let (mut seldom, start) = (Seldom::default(), Instant::now());
        assert_eq!(seldom.note(7, start), Some(0));
        assert_eq!(seldom.note(7, start), None);
        assert_eq!(seldom.note(7, start + EVERY / 2), None);
        assert_eq!(seldom.note(8, start), Some(0), "another kind");
        assert_eq!(seldom.note(7, start + EVERY), Some(2));
        assert_eq!(seldom.note(7, start + EVERY * 3), Some(0));
        // However many kinds there are, so many are held.
        for kind in 100..10_000_u32 {
            seldom.note(kind, start + EVERY * 3);
        }
        assert_eq!(seldom.held.len(), KINDS + 1);
        assert_eq!(seldom.note(9_999_999, start + EVERY * 3), None);
    }
}
