//! Sessions: one query's keys in this engine, and everything that hangs on them.
//!
//! A session comes with a key release and goes on the driver's word, when its lease runs out, or
//! with the process. One that the driver ended never opens again. Plans, footers and keys live in
//! it and in no other place, so nothing of one query is ever found by another.
//!
//! A lease counts from what the client site last sealed for the session: releases and descriptors
//! say by its clock when that was. What a host does (a START without more, an old descriptor again,
//! a message held back for hours, an input that never comes) neither renews a lease nor keeps a
//! session beyond it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use coffer_plan::Plan;
use coffer_scan::{FooterCache, RawFooters};
use coffer_sealing::{AttemptId, KekId, KekSet, Secret, SessionId, SessionIssuer, SessionKey};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;

use crate::{broadcast::Broadcasts, exchange::Exchanges, horizon::Horizon, task::Check};

/// A plan is shared by tasks of the same fragment, with the same objects and broadcasts, over the
/// same number of partitions.
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
    /// The release was held back until the lease that it brings was over.
    #[error("the lease that the release brings has run out")]
    Stale,
    /// The key schedule failed.
    #[error("the session's keys cannot be derived")]
    Derivation,
}

/// How long a release lets an engine keep a session.
#[derive(Debug, Clone, Copy)]
pub struct Grant {
    /// When the client site sealed the release, by this engine's clock; rather too early than too
    /// late.
    pub issued: Instant,
    /// How old the session was then, by the client site's clock.
    pub session_age: Duration,
    /// From then on.
    pub lease: Duration,
}

/// A session's lease, as it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    /// Of the newest release.
    grant: Grant,
    until: Instant,
    /// By the driver's word.
    pub(crate) ended: bool,
}

impl Lease {
    fn begin(grant: Grant) -> Self {
        Self {
            grant,
            until: grant.issued + grant.lease,
            ended: false,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.ended || now >= self.until
    }

    /// When a task that goes on should ask the client site to renew it.
    pub(crate) fn due(&self) -> Instant {
        self.until
            .checked_sub(self.patience())
            .unwrap_or(self.until)
    }

    /// How long such a task waits for the answer.
    pub(crate) fn patience(&self) -> Duration {
        self.grant.lease / 2
    }

    fn grant(&mut self, grant: Grant) {
        self.until = self.until.max(grant.issued + grant.lease);
        if grant.session_age >= self.grant.session_age {
            self.grant = grant;
        }
    }

    /// The client site sealed something for the session when it was so old.
    fn hear(&mut self, session_age: Duration) {
        if let Some(later) = session_age.checked_sub(self.grant.session_age)
            && let Some(until) = self
                .grant
                .issued
                .checked_add(later.saturating_add(self.grant.lease))
        {
            self.until = self.until.max(until);
        }
    }
}

/// What of a session outlives its keys in this engine, until it has ended: an engine never goes
/// back to older attempts, and tasks that hold the keys hear of a lease that another release has
/// renewed.
struct Lasting {
    epochs: Mutex<Epochs>,
    lease: watch::Sender<Lease>,
}

/// A query's keys in this engine.
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) key: SessionKey,
    /// Keys hash partitioning, so that equal values of two queries fall differently.
    pub(crate) partitioning_key: Secret<32>,
    pub(crate) footers: Arc<FooterCache>,
    pub(crate) broadcasts: Broadcasts,
    /// Shared with the inputs that read them.
    pub(crate) exchanges: Arc<Exchanges>,
    state: Mutex<State>,
    lasting: Arc<Lasting>,
}

struct State {
    keks: Arc<KekSet>,
    plans: HashMap<PlanKey, Arc<Plan>>,
}

type Epochs = HashMap<u32, (u32, Arc<Vec<AttemptId>>)>;

impl Session {
    /// The column and footer keys released so far.
    pub(crate) fn keks(&self) -> Arc<KekSet> {
        Arc::clone(&self.state.lock().keks)
    }

    /// What was opened under the session's key was sealed when the session was so old: its lease
    /// counts from there, if from nothing later.
    pub(crate) fn hear(&self, session_age: Duration) {
        self.lasting
            .lease
            .send_modify(|lease| lease.hear(session_age));
    }

    pub(crate) fn lease(&self) -> Lease {
        *self.lasting.lease.borrow()
    }

    /// Resolves when the driver has ended the session.
    pub(crate) async fn ended(&self) {
        let mut lease = self.lasting.lease.subscribe();
        // The sender lives in self, so this cannot fail.
        let _ = lease.wait_for(|lease| lease.ended).await;
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

    /// Drops a plan in which a task failed. What its tasks share (the build side of a broadcast
    /// join) may have failed with it, and would fail for every task to come.
    pub(crate) fn forget_plan(&self, key: &PlanKey, plan: &Arc<Plan>) {
        let mut state = self.state.lock();
        if state
            .plans
            .get(key)
            .is_some_and(|held| Arc::ptr_eq(held, plan))
        {
            state.plans.remove(key);
        }
    }

    /// Drops plans and broadcasts that no task uses, and with them the build sides of joins. A task
    /// that needs one later makes it again.
    fn relieve(&self) {
        self.state
            .lock()
            .plans
            .retain(|_, plan| Arc::strong_count(plan) > 1);
        self.broadcasts.drop_idle();
    }

    /// Notes a stage's list of attempts. A later epoch replaces an earlier one; going back is
    /// refused, and so is a second list of the same epoch.
    pub(crate) fn accept_attempts(
        &self,
        stage: u32,
        epoch: u32,
        attempts: Vec<AttemptId>,
    ) -> Result<Arc<Vec<AttemptId>>, Check> {
        let mut epochs = self.lasting.epochs.lock();
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
    /// As they lie on storage: no session's secret.
    raw_footers: Arc<RawFooters>,
}

#[derive(Default)]
struct Inner {
    live: HashMap<SessionId, Arc<Session>>,
    /// What client engines have said of their sessions. Only what opened under a session's key is
    /// entered.
    horizons: HashMap<SessionIssuer, Horizon>,
    /// Named one by one.
    ended: HashSet<SessionId>,
    lasting: HashMap<SessionId, Arc<Lasting>>,
}

impl Inner {
    fn has_ended(&self, id: SessionId) -> bool {
        let horizon = self.horizons.get(&id.issuer());
        horizon.is_some_and(|horizon| horizon.has_ended(id.number())) || self.ended.contains(&id)
    }

    fn drop_ended(&mut self) {
        let ended: Vec<SessionId> = self
            .lasting
            .keys()
            .copied()
            .filter(|id| self.has_ended(*id))
            .collect();
        for id in ended {
            self.live.remove(&id);
            if let Some(lasting) = self.lasting.remove(&id) {
                lasting.lease.send_modify(|lease| lease.ended = true);
            }
        }
    }
}

impl Sessions {
    /// Takes keys that were released just now to a session as old as nothing; see
    /// [`Sessions::accept_granted`].
    pub fn accept(
        &self,
        id: SessionId,
        key: SessionKey,
        keks: &KekSet,
        lease: Duration,
        now: Instant,
    ) -> Result<(), SessionError> {
        let grant = Grant {
            issued: now,
            session_age: Duration::ZERO,
            lease,
        };
        self.accept_granted(id, key, keks, grant, now)
    }

    /// Takes released keys: a new session, or more column keys for one that is there.
    pub fn accept_granted(
        &self,
        id: SessionId,
        key: SessionKey,
        keks: &KekSet,
        grant: Grant,
        now: Instant,
    ) -> Result<(), SessionError> {
        let mut inner = self.inner.lock();
        if inner.has_ended(id) {
            return Err(SessionError::Ended);
        }
        if Lease::begin(grant).is_over(now) {
            return Err(SessionError::Stale);
        }
        if let Some(session) = inner.live.get(&id) {
            // Both come from the owner, sealed for this engine; that they agree shows that none is
            // of another query.
            let held = Secret::from_bytes(*session.key.expose());
            if !held.ct_eq(&Secret::from_bytes(*key.expose())) {
                return Err(SessionError::KeyChanged);
            }
            Arc::make_mut(&mut session.state.lock().keks).extend(keks);
            session
                .lasting
                .lease
                .send_modify(|lease| lease.grant(grant));
            return Ok(());
        }
        let partitioning_key = key
            .partitioning_key(id)
            .map_err(|_| SessionError::Derivation)?;
        let lasting = inner.lasting.entry(id).or_insert_with(|| {
            Arc::new(Lasting {
                epochs: Mutex::default(),
                lease: watch::Sender::new(Lease::begin(grant)),
            })
        });
        lasting.lease.send_modify(|lease| lease.grant(grant));
        let session = Session {
            id,
            key,
            partitioning_key,
            footers: Arc::new(FooterCache::sharing(Arc::clone(&self.raw_footers))),
            broadcasts: Broadcasts::default(),
            exchanges: Arc::default(),
            state: Mutex::new(State {
                keks: Arc::new(keks.clone()),
                plans: HashMap::new(),
            }),
            lasting: Arc::clone(lasting),
        };
        inner.live.insert(id, Arc::new(session));
        Ok(())
    }

    /// The session, if its keys are here and its lease is not over. Whoever asks has proved
    /// nothing: this renews no lease.
    pub fn get(&self, id: SessionId, now: Instant) -> Option<Arc<Session>> {
        let inner = self.inner.lock();
        let session = inner.live.get(&id)?;
        (!session.lease().is_over(now)).then(|| Arc::clone(session))
    }

    /// Whether the driver ended this session.
    pub fn has_ended(&self, id: SessionId) -> bool {
        self.inner.lock().has_ended(id)
    }

    /// Takes what a client engine says of its sessions, which opened under the key of one of them.
    /// Those that have ended are dropped, and never open again.
    pub fn learn(&self, issuer: SessionIssuer, horizon: Horizon) {
        let mut inner = self.inner.lock();
        inner.horizons.entry(issuer).or_default().learn(horizon);
        inner.drop_ended();
    }

    /// Drops sessions by their ids. They never open again.
    pub fn end(&self, ids: impl IntoIterator<Item = SessionId>) {
        let mut inner = self.inner.lock();
        inner.ended.extend(ids);
        inner.drop_ended();
    }

    /// Drops sessions whose lease has run out, whoever holds them: a task that goes on lets go of
    /// the keys when it is over, and no other begins with them. The client engine can release them
    /// again.
    pub fn expire(&self, now: Instant) {
        self.inner
            .lock()
            .live
            .retain(|_, session| !session.lease().is_over(now));
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

    fn accept(
        sessions: &Sessions,
        id: SessionId,
        key: u8,
        now: Instant,
    ) -> Result<(), SessionError> {
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
    fn asking_for_a_session_does_not_renew_its_lease_nor_does_holding_it() {
        let (sessions, id, start) = (Sessions::default(), SessionId([1; 16]), Instant::now());
        accept(&sessions, id, 1, start).unwrap();
        for quarter in 0..4 {
            assert!(sessions.get(id, start + LEASE * quarter / 4).is_some());
        }
        let held = sessions.get(id, start).unwrap();
        assert!(
            sessions.get(id, start + LEASE).is_none(),
            "over, though it is held and not swept away yet"
        );
        sessions.expire(start + LEASE);
        assert!(sessions.is_empty(), "whoever holds it");
        drop(held);
        accept(&sessions, id, 1, start + LEASE * 2).unwrap();
        assert!(sessions.get(id, start + LEASE * 5 / 2).is_some());
    }

    #[test]
    fn only_what_was_sealed_later_renews_a_lease() {
        let (sessions, id, start) = (Sessions::default(), SessionId([1; 16]), Instant::now());
        accept(&sessions, id, 1, start).unwrap();
        let session = sessions.get(id, start).unwrap();
        session.hear(LEASE / 2);
        let renewed = session.lease().until;
        assert_eq!(renewed, start + LEASE * 3 / 2);
        // The same again, an older one, and however late they come.
        for old in [LEASE / 2, LEASE / 4, Duration::ZERO] {
            session.hear(old);
            assert_eq!(session.lease().until, renewed);
        }
        session.hear(Duration::MAX);
        assert_eq!(session.lease().until, renewed, "a time that there is not");
        sessions.expire(renewed);
        assert!(sessions.is_empty());
    }

    #[test]
    fn a_lease_counts_from_when_its_release_was_sealed() {
        let (sessions, id, now) = (
            Sessions::default(),
            SessionId([1; 16]),
            Instant::now() + LEASE,
        );
        let key = || SessionKey::from_secret(Secret::from_bytes([1; 32]));
        let grant = |issued, session_age| Grant {
            issued,
            session_age,
            lease: LEASE,
        };
        let held_back = grant(now - LEASE, Duration::ZERO);
        let refused = sessions.accept_granted(id, key(), &KekSet::new(), held_back, now);
        assert_eq!(refused, Err(SessionError::Stale));
        assert!(sessions.is_empty());
        let late = grant(now - LEASE * 3 / 4, Duration::from_secs(1));
        sessions
            .accept_granted(id, key(), &KekSet::new(), late, now)
            .unwrap();
        assert!(sessions.get(id, now + LEASE / 8).is_some());
        assert!(sessions.get(id, now + LEASE / 4).is_none());
        // The same held-back release would not shorten what a newer one brought.
        let fresh = grant(now, Duration::from_secs(100));
        sessions
            .accept_granted(id, key(), &KekSet::new(), fresh, now)
            .unwrap();
        sessions
            .accept_granted(id, key(), &KekSet::new(), late, now)
            .unwrap();
        assert_eq!(sessions.get(id, now).unwrap().lease().until, now + LEASE);
    }

    #[test]
    fn a_session_below_the_horizon_never_opens_again_however_many_ended_since() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let issuer = SessionIssuer([7; 8]);
        let early = issuer.session(3);
        accept(&sessions, early, 1, now).unwrap();
        let held = sessions.get(early, now).unwrap();
        // A thousand queries later; a long one, number 1, still runs.
        sessions.learn(issuer, Horizon::new(1000, [1, 999]).unwrap());
        assert!(sessions.is_empty());
        assert!(held.lease().ended, "its tasks hear of it");
        assert_eq!(accept(&sessions, early, 1, now), Err(SessionError::Ended));
        // An older statement, which still has it.
        sessions.learn(issuer, Horizon::new(5, [1, 3]).unwrap());
        assert_eq!(accept(&sessions, early, 1, now), Err(SessionError::Ended));
        accept(&sessions, issuer.session(1), 1, now).unwrap();
        accept(&sessions, issuer.session(1000), 1, now).unwrap();
        accept(&sessions, SessionIssuer([8; 8]).session(3), 1, now).unwrap();
        assert_eq!(
            sessions.len(),
            3,
            "another client engine's numbers are its own"
        );
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
