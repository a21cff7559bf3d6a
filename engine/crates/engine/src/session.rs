//! Sessions: one query's keys in this engine, and everything that hangs on them.
//!
//! A session comes with a key release and goes on the driver's word, when its lease runs out, or with the process. One
//! that the driver ended never opens again. Plans, footers and keys live in it and in no other place, so nothing of
//! one query is ever found by another.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use coffer_keys::{KekId, KekSet};
use coffer_plan::{FooterCache, Plan};
use coffer_sealing::{AttemptId, Secret, SessionId, SessionKey};
use parking_lot::Mutex;
use thiserror::Error;

use crate::{broadcast::Broadcasts, task::Check};

/// A plan is shared by tasks of the same fragment, with the same objects and broadcasts, over the same number of partitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PlanKey {
    pub(crate) fragment: [u8; 32],
    pub(crate) objects: Vec<[u8; 32]>,
    /// By input id: what the sides are built from that the tasks share.
    pub(crate) broadcasts: Vec<(u32, Arc<Vec<AttemptId>>)>,
    pub(crate) partitions: u32,
}

/// Why a session's keys are not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The driver ended it.
    #[error("the session has ended")]
    Ended,
    /// Another key than the one the session has.
    #[error("the session has another key already")]
    KeyChanged,
    /// The key schedule failed.
    #[error("the session's keys cannot be derived")]
    Derivation,
}

/// A query's keys in this engine.
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) key: SessionKey,
    /// Keys hash partitioning, so that equal values of two queries fall differently.
    pub(crate) partitioning_key: Secret<32>,
    pub(crate) footers: Arc<FooterCache>,
    pub(crate) broadcasts: Broadcasts,
    state: Mutex<State>,
    /// Outlives the session's lease: an engine never goes back to older attempts.
    epochs: Arc<Mutex<Epochs>>,
}

struct State {
    keks: Arc<KekSet>,
    plans: HashMap<PlanKey, Arc<Plan>>,
    lease: Duration,
    used: Instant,
}

type Epochs = HashMap<u32, (u32, Arc<Vec<AttemptId>>)>;

impl Session {
    /// The column and footer keys released so far.
    pub(crate) fn keks(&self) -> Arc<KekSet> {
        Arc::clone(&self.state.lock().keks)
    }

    pub(crate) fn holds(&self, keks: &[KekId]) -> bool {
        let held = self.keks();
        keks.iter().all(|id| held.contains(id))
    }

    pub(crate) fn plan(&self, key: &PlanKey) -> Option<Arc<Plan>> {
        self.state.lock().plans.get(key).map(Arc::clone)
    }

    pub(crate) fn keep_plan(&self, key: PlanKey, plan: Arc<Plan>) -> Arc<Plan> {
        Arc::clone(self.state.lock().plans.entry(key).or_insert(plan))
    }

    /// Drops a plan in which a task failed. What its tasks share (the build side of a broadcast join) may have failed with
    /// it, and would fail for every task to come.
    pub(crate) fn forget_plan(&self, key: &PlanKey, plan: &Arc<Plan>) {
        let mut state = self.state.lock();
        if state.plans.get(key).is_some_and(|held| Arc::ptr_eq(held, plan)) {
            state.plans.remove(key);
        }
    }

    /// Drops plans and broadcasts that no task uses, and with them the build sides of joins. A task that needs one later
    /// makes it again.
    fn relieve(&self) {
        self.state.lock().plans.retain(|_, plan| Arc::strong_count(plan) > 1);
        self.broadcasts.drop_idle();
    }

    /// Notes a stage's list of attempts. A later epoch replaces an earlier one; going back is refused, and so is a second
    /// list of the same epoch.
    pub(crate) fn accept_attempts(
        &self,
        stage: u32,
        epoch: u32,
        attempts: Vec<AttemptId>,
    ) -> Result<Arc<Vec<AttemptId>>, Check> {
        let mut epochs = self.epochs.lock();
        let stale = |seen| Check::AttemptsStale {
            stage,
            got: epoch,
            seen,
        };
        match epochs.get(&stage) {
            Some((seen, _)) if *seen > epoch => return Err(stale(*seen)),
            Some((seen, held)) if *seen == epoch => {
                return if **held == attempts {
                    Ok(Arc::clone(held))
                } else {
                    Err(stale(*seen))
                };
            }
            _ => {}
        }
        let attempts = Arc::new(attempts);
        epochs.insert(stage, (epoch, Arc::clone(&attempts)));
        Ok(attempts)
    }
}

/// The sessions of one engine.
#[derive(Default)]
pub struct Sessions {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    live: HashMap<SessionId, Arc<Session>>,
    ended: HashSet<SessionId>,
    epochs: HashMap<SessionId, Arc<Mutex<Epochs>>>,
}

impl Sessions {
    /// Takes released keys: a new session, or more column keys for one that is there.
    pub fn accept(
        &self,
        id: SessionId,
        key: SessionKey,
        keks: &KekSet,
        lease: Duration,
        now: Instant,
    ) -> Result<(), SessionError> {
        let mut inner = self.inner.lock();
        if inner.ended.contains(&id) {
            return Err(SessionError::Ended);
        }
        if let Some(session) = inner.live.get(&id) {
            // Both come from the owner, sealed for this engine; that they agree shows that none is of another query.
            let held = Secret::from_bytes(*session.key.expose());
            if !held.ct_eq(&Secret::from_bytes(*key.expose())) {
                return Err(SessionError::KeyChanged);
            }
            let mut state = session.state.lock();
            Arc::make_mut(&mut state.keks).extend(keks);
            state.lease = lease;
            state.used = now;
            return Ok(());
        }
        let partitioning_key = key.partitioning_key(id).map_err(|_| SessionError::Derivation)?;
        let epochs = Arc::clone(inner.epochs.entry(id).or_default());
        let session = Session {
            id,
            key,
            partitioning_key,
            footers: Arc::new(FooterCache::default()),
            broadcasts: Broadcasts::default(),
            state: Mutex::new(State {
                keks: Arc::new(keks.clone()),
                plans: HashMap::new(),
                lease,
                used: now,
            }),
            epochs,
        };
        inner.live.insert(id, Arc::new(session));
        Ok(())
    }

    /// The session, its lease renewed; `None` when its keys are not here.
    pub fn get(&self, id: SessionId, now: Instant) -> Option<Arc<Session>> {
        let inner = self.inner.lock();
        let session = inner.live.get(&id)?;
        session.state.lock().used = now;
        Some(Arc::clone(session))
    }

    /// Whether the driver ended this session.
    pub fn has_ended(&self, id: SessionId) -> bool {
        self.inner.lock().ended.contains(&id)
    }

    /// Drops sessions on the driver's word. They never open again.
    pub fn end(&self, ids: impl IntoIterator<Item = SessionId>) {
        let mut inner = self.inner.lock();
        for id in ids {
            inner.live.remove(&id);
            inner.epochs.remove(&id);
            inner.ended.insert(id);
        }
    }

    /// Drops sessions whose lease has run out. The client engine can release them again.
    pub fn expire(&self, now: Instant) {
        self.inner.lock().live.retain(|_, session| {
            let state = session.state.lock();
            // A session that a task holds is in use, however long the task takes.
            Arc::strong_count(session) > 1 || now.duration_since(state.used) < state.lease
        });
    }

    /// Gives memory back that no task uses: what earlier stages built for joins, of all sessions.
    pub(crate) fn relieve(&self) {
        let live: Vec<Arc<Session>> = self.inner.lock().live.values().map(Arc::clone).collect();
        live.iter().for_each(|session| session.relieve());
    }

    /// How many are live.
    pub fn len(&self) -> usize {
        self.inner.lock().live.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn accept(sessions: &Sessions, id: SessionId, key: u8, now: Instant) -> Result<(), SessionError> {
        let key = SessionKey::from_secret(Secret::from_bytes([key; 32]));
        sessions.accept(id, key, &KekSet::new(), LEASE, now)
    }

    #[test]
    fn an_ended_session_never_opens_again() {
        let (sessions, id, now) = (Sessions::default(), SessionId([1; 16]), Instant::now());
        accept(&sessions, id, 1, now).unwrap();
        assert!(sessions.get(id, now).is_some());
        sessions.end([id]);
        assert!(sessions.get(id, now).is_none());
        assert_eq!(accept(&sessions, id, 1, now), Err(SessionError::Ended));
        assert!(sessions.is_empty());
    }

    #[test]
    fn a_session_keeps_its_key() {
        let (sessions, id, now) = (Sessions::default(), SessionId([1; 16]), Instant::now());
        accept(&sessions, id, 1, now).unwrap();
        accept(&sessions, id, 1, now).unwrap();
        assert_eq!(accept(&sessions, id, 2, now), Err(SessionError::KeyChanged));
    }

    #[test]
    fn an_idle_lease_runs_out_and_use_renews_it() {
        let (sessions, id, start) = (Sessions::default(), SessionId([1; 16]), Instant::now());
        accept(&sessions, id, 1, start).unwrap();
        sessions.get(id, start + LEASE / 2).unwrap();
        sessions.expire(start + LEASE);
        assert_eq!(sessions.len(), 1);
        let held = sessions.get(id, start + LEASE / 2).unwrap();
        sessions.expire(start + LEASE * 2);
        assert_eq!(sessions.len(), 1, "a task holds it");
        drop(held);
        sessions.expire(start + LEASE * 2);
        assert!(sessions.is_empty());
        accept(&sessions, id, 1, start).unwrap();
    }

    #[test]
    fn attempts_never_go_back_even_over_a_lease() {
        let (sessions, id, now) = (Sessions::default(), SessionId([1; 16]), Instant::now());
        accept(&sessions, id, 1, now).unwrap();
        let list = |byte| vec![AttemptId([byte; 16])];
        let session = sessions.get(id, now).unwrap();
        session.accept_attempts(7, 1, list(1)).unwrap();
        session.accept_attempts(7, 1, list(1)).unwrap();
        assert!(session.accept_attempts(7, 1, list(2)).is_err());
        session.accept_attempts(7, 2, list(2)).unwrap();
        assert!(session.accept_attempts(7, 1, list(1)).is_err());
        session.accept_attempts(8, 1, list(1)).unwrap();

        drop(session);
        sessions.expire(now + LEASE * 2);
        accept(&sessions, id, 1, now).unwrap();
        let session = sessions.get(id, now).unwrap();
        assert!(session.accept_attempts(7, 1, list(1)).is_err());
    }
}
