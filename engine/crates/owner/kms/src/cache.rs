//! Keeps what a master unwrapped, so that a query asks it once for each table's key.
//!
//! Staleness: a key that its master no longer gives out (disabled, destroyed, denied) can still be
//! had from here for as long as the master's `cache` option says, counted from the call that
//! brought it, and by this process alone. Size: at most [`CAPACITY`] keys of 32 bytes for each
//! master; the oldest goes first. All are zeroed when they go. Failures are not kept.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use aws_lc_rs::digest;
use coffer_custody::{KeyContext, MasterError, MasterKeys, MasterState};
use coffer_sealing::Secret;

/// Keys that are kept at most.
const CAPACITY: usize = 1024;

/// SHA-256 of the context and the wrapped key.
type Name = [u8; 32];

struct Kept {
    since: Instant,
    secret: Secret<32>,
}

/// One key: who holds the lock is asking for it, and the others wait for the answer instead of
/// asking too.
type Slot = Arc<Mutex<Option<Kept>>>;

/// A master with a cache before it.
pub(crate) struct Cached<M> {
    master: M,
    life: Duration,
    slots: Mutex<HashMap<Name, (Instant, Slot)>>,
}

impl<M: MasterKeys> Cached<M> {
    pub(crate) fn new(master: M, life: Duration) -> Self {
        Self {
            master,
            life,
            slots: Mutex::default(),
        }
    }

    /// The slot of a name, made where there is none; then the oldest goes if there are too many.
    fn slot(&self, name: Name) -> Slot {
        let mut slots = lock(&self.slots);
        if !slots.contains_key(&name) && slots.len() >= CAPACITY {
            slots.retain(|_, (since, _)| since.elapsed() < self.life);
            let oldest = slots
                .iter()
                .min_by_key(|(_, (since, _))| *since)
                .map(|(name, _)| *name);
            if let (true, Some(oldest)) = (slots.len() >= CAPACITY, oldest) {
                slots.remove(&oldest);
            }
        }
        let (_, slot) = slots
            .entry(name)
            .or_insert_with(|| (Instant::now(), Slot::default()));
        Arc::clone(slot)
    }

    fn keep(&self, name: Name, secret: &Secret<32>) {
        if !self.life.is_zero() {
            *lock(&self.slot(name)) = Some(Kept {
                since: Instant::now(),
                secret: secret.clone(),
            });
        }
    }
}

impl<M: MasterKeys> MasterKeys for Cached<M> {
    fn describe(&self) -> String {
        self.master.describe()
    }

    fn wrap(&self, context: &KeyContext, secret: &Secret<32>) -> Result<Vec<u8>, MasterError> {
        let wrapped = self.master.wrap(context, secret)?;
        self.keep(name(context, &wrapped), secret);
        Ok(wrapped)
    }

    fn unwrap(&self, context: &KeyContext, wrapped: &[u8]) -> Result<Secret<32>, MasterError> {
        if self.life.is_zero() {
            return self.master.unwrap(context, wrapped);
        }
        let slot = self.slot(name(context, wrapped));
        let mut kept = lock(&slot);
        if let Some(kept) = kept
            .as_ref()
            .filter(|kept| kept.since.elapsed() < self.life)
        {
            return Ok(kept.secret.clone());
        }
        *kept = None;
        let secret = self.master.unwrap(context, wrapped)?;
        *kept = Some(Kept {
            since: Instant::now(),
            secret: secret.clone(),
        });
        Ok(secret)
    }

    fn rewrap(&self, context: &KeyContext, wrapped: &[u8]) -> Result<Vec<u8>, MasterError> {
        self.master.rewrap(context, wrapped)
    }

    fn version_of(&self, wrapped: &[u8]) -> Result<String, MasterError> {
        self.master.version_of(wrapped)
    }

    fn state(&self) -> Result<MasterState, MasterError> {
        self.master.state()
    }

    fn create(&self) -> Result<MasterState, MasterError> {
        self.master.create()
    }

    fn rotate(&self) -> Result<MasterState, MasterError> {
        self.master.rotate()
    }
}

fn name(context: &KeyContext, wrapped: &[u8]) -> Name {
    let mut hash = digest::Context::new(&digest::SHA256);
    // Labels have unlike lengths, ids one length.
    for part in [context.label().as_bytes(), context.id(), wrapped] {
        hash.update(part);
    }
    let mut name = [0; 32];
    name.copy_from_slice(hash.finish().as_ref());
    name
}

/// A panic elsewhere leaves no half-made entry behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use coffer_sealing::TableId;

    use super::*;

    /// Wraps by turning bits around, and counts.
    #[derive(Default)]
    struct Counting {
        asked: AtomicUsize,
        down: bool,
    }

    impl MasterKeys for Counting {
        fn describe(&self) -> String {
            "counting".into()
        }

        fn wrap(&self, _: &KeyContext, secret: &Secret<32>) -> Result<Vec<u8>, MasterError> {
            Ok(secret.expose().iter().map(|byte| !byte).collect())
        }

        fn unwrap(&self, _: &KeyContext, wrapped: &[u8]) -> Result<Secret<32>, MasterError> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            if self.down {
                return Err(MasterError::Unreachable {
                    of: self.describe(),
                    reason: "down".into(),
                });
            }
            let bytes: Vec<u8> = wrapped.iter().map(|byte| !byte).collect();
            Ok(Secret::from_slice(&bytes)?)
        }

        fn version_of(&self, _: &[u8]) -> Result<String, MasterError> {
            Ok("1".into())
        }

        fn state(&self) -> Result<MasterState, MasterError> {
            Err(MasterError::Malformed(TABLE))
        }
    }

    const TABLE: KeyContext = KeyContext::Table(TableId([1; 16]));

    #[test]
    fn asks_once_even_when_many_want_it_at_once() {
        let cached = Cached::new(Counting::default(), Duration::from_secs(60));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    assert_eq!(cached.unwrap(&TABLE, &[9; 32]).unwrap().expose(), &[!9; 32])
                });
            }
        });
        assert_eq!(cached.master.asked.load(Ordering::SeqCst), 1);
        // The same bytes for another table are another key.
        cached
            .unwrap(&KeyContext::Table(TableId([2; 16])), &[9; 32])
            .unwrap();
        assert_eq!(cached.master.asked.load(Ordering::SeqCst), 2);
        // What was wrapped here is known.
        let wrapped = cached.wrap(&TABLE, &Secret::from_bytes([5; 32])).unwrap();
        assert_eq!(cached.unwrap(&TABLE, &wrapped).unwrap().expose(), &[5; 32]);
        assert_eq!(cached.master.asked.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn nothing_is_kept_longer_than_said_and_failures_not_at_all() {
        let cached = Cached::new(Counting::default(), Duration::from_millis(50));
        cached.unwrap(&TABLE, &[9; 32]).unwrap();
        std::thread::sleep(Duration::from_millis(60));
        cached.unwrap(&TABLE, &[9; 32]).unwrap();
        assert_eq!(cached.master.asked.load(Ordering::SeqCst), 2);
        let none = Cached::new(Counting::default(), Duration::ZERO);
        for _ in 0..2 {
            none.unwrap(&TABLE, &[9; 32]).unwrap();
        }
        assert_eq!(none.master.asked.load(Ordering::SeqCst), 2);
        let down = Counting {
            down: true,
            ..Counting::default()
        };
        let down = Cached::new(down, Duration::from_secs(60));
        for _ in 0..2 {
            assert!(down.unwrap(&TABLE, &[9; 32]).is_err());
        }
        assert_eq!(down.master.asked.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn has_a_size() {
        let cached = Cached::new(Counting::default(), Duration::from_secs(60));
        for at in 0..CAPACITY + 10 {
            let mut secret = [0; 32];
            secret[..8].copy_from_slice(&at.to_le_bytes());
            cached.wrap(&TABLE, &Secret::from_bytes(secret)).unwrap();
        }
        assert_eq!(lock(&cached.slots).len(), CAPACITY);
    }
}
