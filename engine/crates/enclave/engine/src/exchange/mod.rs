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
//! queries keep for as long as their sessions live is not in their way. What does not fit there
//! goes to a scratch file, sealed ([`Spilled`]).

mod spilled;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use coffer_sealing::AttemptId;
use datafusion_common::Result;
use datafusion_execution::memory_pool::MemoryReservation;
use parking_lot::Mutex;

use spilled::Reading;
pub(crate) use spilled::{Spilled, Spilling};

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
    schema: SchemaRef,
    rows: Rows,
    _room: Room,
    _reservation: MemoryReservation,
}

/// Where they are.
pub(crate) enum Rows {
    /// By target, each batch of the boundary's schema.
    Held(Vec<Vec<RecordBatch>>),
    Spilled(Arc<Spilled>),
}

/// What one task wrote for a target.
pub(crate) enum KeptRows {
    Held(Vec<RecordBatch>),
    Spilled(Reading),
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

    /// What a task wrote; `None` if it is not here.
    pub(crate) fn of(&self, by: WrittenBy) -> Option<Arc<Kept>> {
        self.0.lock().get(&by).map(Arc::clone)
    }

    /// The rows that a task wrote for a target; `None` if they are not here.
    pub(crate) fn rows(&self, by: WrittenBy, target: u32) -> Option<KeptRows> {
        self.of(by)?.rows(usize::try_from(target).ok()?)
    }
}

impl Kept {
    /// `schema` is the boundary's.
    pub(crate) fn new(
        schema: SchemaRef,
        rows: Rows,
        room: Room,
        reservation: MemoryReservation,
    ) -> Self {
        Self {
            schema,
            rows,
            _room: room,
            _reservation: reservation,
        }
    }

    /// How many rows.
    pub(crate) fn count(&self) -> usize {
        match &self.rows {
            Rows::Held(targets) => targets.iter().flatten().map(RecordBatch::num_rows).sum(),
            Rows::Spilled(spilled) => spilled.count(),
        }
    }

    /// Those of all targets.
    pub(crate) fn all(&self) -> impl Iterator<Item = Result<RecordBatch>> {
        let targets = match &self.rows {
            Rows::Held(targets) => targets.len(),
            Rows::Spilled(spilled) => spilled.targets(),
        };
        (0..targets)
            .filter_map(|target| self.rows(target))
            .flatten()
    }

    fn rows(&self, target: usize) -> Option<KeptRows> {
        match &self.rows {
            Rows::Held(targets) => targets.get(target).cloned().map(KeptRows::Held),
            Rows::Spilled(spilled) => spilled.rows(target, &self.schema).map(KeptRows::Spilled),
        }
    }
}

impl IntoIterator for KeptRows {
    type Item = Result<RecordBatch>;
    type IntoIter = Box<dyn Iterator<Item = Self::Item> + Send>;

    fn into_iter(self) -> Self::IntoIter {
        match self {
            Self::Held(rows) => Box::new(rows.into_iter().map(Ok)),
            Self::Spilled(reading) => Box::new(reading),
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

    /// Gives all of it back.
    pub(crate) fn release(&mut self) {
        self.all.0.fetch_sub(self.claimed, Ordering::Relaxed);
        self.claimed = 0;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.release();
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
