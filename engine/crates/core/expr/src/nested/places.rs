//! Values of one row that were met already, in the order in which they came first.

use std::collections::{HashMap, hash_map::Entry};

use super::order::Key;

/// So many values are compared one by one, which for few is less work than to hash them.
const FEW: usize = 16;
/// A larger table is not kept for the next row, as to empty it takes longer than to make a new one.
const KEPT: usize = 1 << 10;

/// By value, how many others came first before it.
#[derive(Default)]
pub(super) struct Places<'a> {
    /// Empty once there are many.
    few: Vec<Key<'a>>,
    many: HashMap<Key<'a>, usize>,
}

impl<'a> Places<'a> {
    /// Before the values of another row.
    pub(super) fn clear(&mut self) {
        self.few.clear();
        match self.many.capacity() > KEPT {
            true => self.many = HashMap::new(),
            false => self.many.clear(),
        }
    }

    /// The place of a value, if it was met.
    pub(super) fn find(&self, key: &Key<'a>) -> Option<usize> {
        match self.many.is_empty() {
            true => self.few.iter().position(|met| met == key),
            false => self.many.get(key).copied(),
        }
    }

    /// The place of a value, and whether it is new.
    pub(super) fn meet(&mut self, key: Key<'a>) -> (usize, bool) {
        if self.many.is_empty() {
            if let Some(at) = self.find(&key) {
                return (at, false);
            }
            if self.few.len() < FEW {
                self.few.push(key);
                return (self.few.len() - 1, true);
            }
            let few = self.few.drain(..).enumerate();
            self.many.extend(few.map(|(at, key)| (key, at)));
        }
        let at = self.many.len();
        match self.many.entry(key) {
            Entry::Occupied(met) => (*met.get(), false),
            Entry::Vacant(place) => (*place.insert(at), true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_places_at_which_they_came_first() {
        let mut met = Places::default();
        for distinct in [3, FEW, FEW + 1, 5 * KEPT, 2] {
            met.clear();
            for round in [true, false] {
                for value in 0..distinct {
                    let key = || Key::Long(i64::try_from(value).ok());
                    assert_eq!(met.find(&key()), (!round).then_some(value));
                    assert_eq!(met.meet(key()), (value, round));
                }
            }
            assert_eq!(met.find(&Key::Long(None)), None);
            assert_eq!(met.meet(Key::Long(None)), (distinct, true));
        }
    }
}
