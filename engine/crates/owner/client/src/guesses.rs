//! What a user has had encrypted, counted.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

/// After so long a user's literals are counted from the beginning.
const DAY: Duration = Duration::from_secs(86_400);

/// What a user has had encrypted. A ciphertext under the key of a column is a guess at its values
/// that needs no engine: whoever holds the files compares. So each is counted, once, however often
/// it is asked for, by the key: columns of one link have one.
#[derive(Default)]
pub(crate) struct Guesses {
    since: Option<Instant>,
    by_key: HashMap<String, HashSet<[u8; 32]>>,
}

impl Guesses {
    /// Those of these literals that were not encrypted before.
    pub(crate) fn news(
        &mut self,
        key: &str,
        literals: &HashSet<[u8; 32]>,
        now: Instant,
    ) -> HashSet<[u8; 32]> {
        if self
            .since
            .is_none_or(|since| now.duration_since(since) >= DAY)
        {
            self.since = Some(now);
            self.by_key.clear();
        }
        match self.by_key.get(key) {
            Some(known) => literals.difference(known).copied().collect(),
            None => literals.clone(),
        }
    }

    pub(crate) fn count(&self, key: &str) -> usize {
        self.by_key.get(key).map_or(0, HashSet::len)
    }

    pub(crate) fn note(&mut self, key: &str, news: HashSet<[u8; 32]>) {
        self.by_key.entry(key.to_owned()).or_default().extend(news);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_counts_once_a_day_for_each_key() {
        let (mut guesses, start) = (Guesses::default(), Instant::now());
        let some = |bytes: &[u8]| bytes.iter().map(|byte| [*byte; 32]).collect::<HashSet<_>>();
        let news = guesses.news("k", &some(&[1, 2]), start);
        assert_eq!(news.len(), 2);
        guesses.note("k", news);
        assert_eq!(guesses.news("k", &some(&[2, 3]), start), some(&[3]));
        assert_eq!(guesses.news("other", &some(&[2, 3]), start).len(), 2);
        assert_eq!(guesses.count("k"), 2);
        // Another day.
        assert_eq!(guesses.news("k", &some(&[2, 3]), start + DAY).len(), 2);
        assert_eq!(guesses.count("k"), 0);
    }
}
