//! What was used last, as far as it fits.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::Arc,
};

/// Values by key, of no more bytes in all than said. What was unused for longest goes first; one
/// that is larger than all may be is not kept.
pub(crate) struct Recent<K, V> {
    most: usize,
    bytes: usize,
    uses: u64,
    values: HashMap<Arc<K>, Held<V>>,
    /// By their last use.
    order: BTreeMap<u64, Arc<K>>,
}

struct Held<V> {
    value: V,
    bytes: usize,
    used: u64,
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    pub(crate) fn of(most: usize) -> Self {
        Self {
            most,
            bytes: 0,
            uses: 0,
            values: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        let held = self.values.get_mut(key)?;
        let key = self.order.remove(&held.used)?;
        self.uses = self.uses.saturating_add(1);
        held.used = self.uses;
        self.order.insert(held.used, key);
        Some(held.value.clone())
    }

    /// `bytes`: what it takes, the key included.
    pub(crate) fn keep(&mut self, key: K, value: V, bytes: usize) {
        if bytes > self.most {
            return;
        }
        let key = Arc::new(key);
        self.remove(&key);
        while self.bytes > self.most.saturating_sub(bytes)
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.remove(&oldest);
        }
        self.uses = self.uses.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.order.insert(self.uses, Arc::clone(&key));
        let used = self.uses;
        self.values.insert(key, Held { value, bytes, used });
    }

    fn remove(&mut self, key: &K) {
        if let Some(held) = self.values.remove(key) {
            self.order.remove(&held.used);
            self.bytes = self.bytes.saturating_sub(held.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_unused_for_longest_goes_first() {
        let mut recent = Recent::of(100);
        for key in 0..4 {
            recent.keep(key, key * 10, 25);
        }
        assert_eq!(recent.get(&0), Some(0));
        recent.keep(4, 40, 30);
        // Two had to go for it, and the first was used meanwhile.
        let there = |recent: &mut Recent<_, _>| -> Vec<i32> {
            (0..6).filter(|key| recent.get(key).is_some()).collect()
        };
        assert_eq!(there(&mut recent), [0, 3, 4]);
        assert_eq!((recent.bytes, recent.order.len()), (80, 3));
        // One in its own place, larger.
        recent.keep(4, 41, 45);
        assert_eq!(there(&mut recent), [0, 3, 4]);
        assert_eq!((recent.get(&4), recent.bytes), (Some(41), 95));
        // One that does not fit at all takes nothing's place.
        recent.keep(5, 50, 101);
        assert_eq!(there(&mut recent), [0, 3, 4]);
        recent.keep(5, 50, 100);
        assert_eq!(there(&mut recent), [5]);
        assert_eq!((recent.bytes, recent.order.len()), (100, 1));
    }
}
