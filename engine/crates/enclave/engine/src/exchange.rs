//! Rows of exchanges that are read in the engine that wrote them, and stay in its memory.
//!
//! The host gets a stream all the same, sealed and checked as any other: its last frame says how
//! many rows it stands for. So which attempt counts, and whether a reader has all streams of its
//! list, is decided as it is for rows that travel. What the stream stands for is found by the
//! identity that its seal proves, in the session that wrote it, and nowhere else.
//!
//! Rows here count in the memory pool, and take at most a part of it ([`PART`]); a task that does
//! not get that seals its rows as if there were no such thing. Rows of a query that runs here whole
//! go as soon as they are read, and have a part of their own ([`PART_IN_QUERY`]): what other
//! queries keep for as long as their sessions live is not in their way.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow::array::RecordBatch;
use coffer_sealing::AttemptId;
use datafusion_execution::memory_pool::MemoryReservation;
use parking_lot::Mutex;

/// One part in so many of the pool.
const PART: usize = 3;
const PART_IN_QUERY: usize = 2;

/// Which task's rows: stage, partition, and the attempt that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WrittenBy {
    pub(crate) stage: u32,
    pub(crate) partition: u32,
    pub(crate) attempt: AttemptId,
}

/// The kept exchanges of one session. They go with it.
#[derive(Default)]
pub(crate) struct Exchanges(Mutex<HashMap<WrittenBy, Arc<Kept>>>);

/// What one task wrote.
pub(crate) struct Kept {
    /// By target, each batch of the boundary's schema.
    targets: Vec<Vec<RecordBatch>>,
    _room: Room,
    _reservation: MemoryReservation,
}

/// How much of the pool all kept rows of an engine take.
#[derive(Debug, Default)]
pub(crate) struct Rooms(AtomicUsize);

/// A claim to some of it, given back on drop.
pub(crate) struct Room {
    all: Arc<Rooms>,
    most: usize,
    claimed: usize,
}

impl Exchanges {
    pub(crate) fn keep(&self, by: WrittenBy, kept: Kept) {
        self.0.lock().insert(by, Arc::new(kept));
    }

    /// Drops what all tasks of a stage wrote.
    pub(crate) fn forget(&self, stage: u32) {
        self.0.lock().retain(|by, _| by.stage != stage);
    }

    /// All rows that a task wrote; `None` if they are not here.
    pub(crate) fn all_rows(&self, by: WrittenBy) -> Option<Vec<RecordBatch>> {
        let kept = self.0.lock().get(&by).map(Arc::clone)?;
        Some(kept.targets.iter().flatten().cloned().collect())
    }

    /// The rows that a task wrote for a target; `None` if they are not here.
    pub(crate) fn rows(&self, by: WrittenBy, target: u32) -> Option<Vec<RecordBatch>> {
        let kept = self.0.lock().get(&by).map(Arc::clone)?;
        kept.targets.get(usize::try_from(target).ok()?).cloned()
    }
}

impl Kept {
    pub(crate) fn new(
        targets: Vec<Vec<RecordBatch>>,
        room: Room,
        reservation: MemoryReservation,
    ) -> Self {
        Self {
            targets,
            _room: room,
            _reservation: reservation,
        }
    }
}

impl Room {
    /// Nothing yet, of an engine whose pool has so many bytes.
    pub(crate) fn of(all: &Arc<Rooms>, memory: usize) -> Self {
        Self::part(all, memory / PART)
    }

    /// The same, for queries that run here whole.
    pub(crate) fn in_query(all: &Arc<Rooms>, memory: usize) -> Self {
        Self::part(all, memory / PART_IN_QUERY)
    }

    fn part(all: &Arc<Rooms>, most: usize) -> Self {
        Self {
            all: Arc::clone(all),
            most,
            claimed: 0,
        }
    }

    /// So much more, if there is room for it.
    pub(crate) fn claim(&mut self, bytes: usize) -> bool {
        let grown = self
            .all
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                held.checked_add(bytes).filter(|all| *all <= self.most)
            });
        if grown.is_ok() {
            self.claimed += bytes;
        }
        grown.is_ok()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.claimed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_a_part_of_the_pool_and_comes_back() {
        let all = Arc::new(Rooms::default());
        let (mut one, mut other) = (Room::of(&all, 300), Room::of(&all, 300));
        assert!(one.claim(60));
        assert!(!other.claim(41), "of all tasks together");
        assert!(other.claim(40));
        drop(one);
        assert!(other.claim(60));
        assert!(!other.claim(usize::MAX));
        drop(other);
        assert_eq!(all.0.load(Ordering::Relaxed), 0);
    }
}
