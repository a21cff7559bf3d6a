//! How much a scan may read.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// How many stored bytes a scan may read; it remembers whether more were wanted.
#[derive(Debug)]
pub struct ReadLimit {
    left: AtomicU64,
    passed: AtomicBool,
}

impl ReadLimit {
    /// At most so many bytes.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Self {
            left: AtomicU64::new(most),
            passed: AtomicBool::new(false),
        }
    }

    /// Whether a read was refused.
    #[must_use]
    pub fn was_passed(&self) -> bool {
        self.passed.load(Ordering::Acquire)
    }

    /// What may still be read.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// Whether these may be read too; asked before they are.
    pub(crate) fn allows(&self, ranges: &[Range<u64>]) -> bool {
        let wanted = ranges
            .iter()
            .map(|range| range.end.saturating_sub(range.start));
        let wanted = wanted.fold(0, u64::saturating_add);
        let taken = self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                left.checked_sub(wanted)
            });
        if taken.is_err() {
            self.passed.store(true, Ordering::Release);
        }
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init)] // they are ranges of bytes
    fn what_would_pass_a_limit_is_not_read_and_is_remembered() {
        let limit = ReadLimit::new(10);
        assert!(limit.allows(&[0..4, 100..103]));
        assert!(!limit.was_passed());
        assert!(!limit.allows(&[0..4]));
        assert!(limit.was_passed());
        assert!(limit.allows(&[7..10]), "what still fits is not refused");
        assert!(!limit.allows(&[0..u64::MAX, 0..u64::MAX]));
    }
}
