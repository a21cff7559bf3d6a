//! Which sessions of a client engine have ended, in a form that no number of them outgrows.
//!
//! A client engine numbers its sessions, and says in every descriptor which of them live: of the
//! numbers below `next` those that are listed, and no others. What lives is bounded by what the
//! client engine itself holds; what has ended takes no space, for all below the first that lives
//! have ended, and so have all gaps.
//!
//! Sessions only ever end. So of two statements each is true of the numbers that it covers,
//! whichever was made first, and an old one that a host delivers late, or again, brings nothing
//! back.

use std::collections::BTreeSet;

/// What one client engine has said of its sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Horizon {
    /// The number of the session that begins next: nothing is said of it, nor of those after it.
    next: u64,
    /// All below `next`.
    live: BTreeSet<u64>,
}

impl Horizon {
    /// A statement; none if it lists a session that has not begun.
    pub fn new(next: u64, live: impl IntoIterator<Item = u64>) -> Option<Self> {
        let live: BTreeSet<u64> = live.into_iter().collect();
        live.last()
            .is_none_or(|last| *last < next)
            .then_some(Self { next, live })
    }

    /// Whether a session has ended, as far as is known here.
    pub fn has_ended(&self, number: u64) -> bool {
        number < self.next && !self.live.contains(&number)
    }

    /// Takes a statement of the same client engine, an older or a newer one: what either says has
    /// ended has ended.
    pub fn learn(&mut self, other: Self) {
        let (older, mut newer) = if other.next < self.next {
            (other, std::mem::take(self))
        } else {
            (std::mem::take(self), other)
        };
        newer.live.retain(|number| !older.has_ended(*number));
        *self = newer;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(next: u64, live: &[u64]) -> Horizon {
        Horizon::new(next, live.iter().copied()).unwrap()
    }

    #[test]
    fn what_is_not_listed_has_ended_and_what_has_not_begun_has_not() {
        let horizon = message(100, &[7, 90]);
        for ended in [0, 6, 8, 89, 91, 99] {
            assert!(horizon.has_ended(ended), "{ended}");
        }
        for other in [7, 90, 100, u64::MAX] {
            assert!(!horizon.has_ended(other), "{other}");
        }
        assert_eq!(Horizon::new(7, [7]), None);
    }

    #[test]
    fn an_old_statement_brings_nothing_back() {
        let (old, new) = (message(3, &[0, 1, 2]), message(200, &[150]));
        for statements in [[old.clone(), new.clone()], [new.clone(), old.clone()]] {
            let mut horizon = Horizon::default();
            for statement in statements {
                horizon.learn(statement);
            }
            assert_eq!(horizon, new);
        }
    }

    proptest! {
        /// A client engine's life: sessions begin and end, and it says so in between; an engine
        /// hears any of it, in any order, again and again.
        #[test]
        fn nothing_that_was_said_to_have_ended_lives(
            ends in prop::collection::vec((0_u64..40, any::<bool>()), 1..40),
            order in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
        ) {
            let (mut next, mut live, mut statements) = (0, BTreeSet::new(), Vec::new());
            for (which, begins) in ends {
                if begins {
                    live.insert(next);
                    next += 1;
                } else {
                    live.remove(&which);
                }
                statements.push(Horizon::new(next, live.iter().copied()).unwrap());
            }
            let mut engine = Horizon::default();
            let mut ended = BTreeSet::new();
            for at in order {
                let statement = statements[at.index(statements.len())].clone();
                ended.extend((0..50).filter(|number| statement.has_ended(*number)));
                engine.learn(statement);
                for number in 0..50 {
                    prop_assert_eq!(engine.has_ended(number), ended.contains(&number));
                }
            }
        }
    }
}
