//! The engines of an application: challenges that wait for evidence, and engines that were
//! admitted, each with the keys that it has.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use coffer_audit::EngineUse;
use coffer_custody::{AttestedEngine, Challenges, ReleaseSender};
use coffer_protocol::{Evidence, EvidenceKinds, wire::Release};
use coffer_sealing::SessionId;

use crate::{ClientError, session::Session};

/// The kinds of evidence that tables want together, by table.
pub(crate) type Wanted = [(String, EvidenceKinds)];

/// Challenges that wait for their evidence.
const DRAWN: usize = 4096;

/// Challenges that were handed out and wait for their evidence.
#[derive(Default)]
pub(crate) struct Waiting {
    challenges: Challenges,
    drawn: Drawn,
}

impl Waiting {
    pub(crate) fn draw(
        &mut self,
        life: Duration,
    ) -> Result<coffer_protocol::Challenge, ClientError> {
        let challenge = self.challenges.draw()?;
        self.drawn.note(*challenge.as_bytes(), Instant::now(), life);
        Ok(challenge)
    }

    /// The challenge, if it is one of ours and still fresh. It is good for one try.
    pub(crate) fn take(
        &mut self,
        challenge: &[u8],
        life: Duration,
    ) -> Result<coffer_protocol::Challenge, ClientError> {
        let challenge = self.challenges.take(challenge)?;
        match (self.drawn).take(challenge.as_bytes(), Instant::now(), life) {
            true => Ok(challenge),
            false => Err(ClientError::ChallengeExpired),
        }
    }
}

/// When challenges were handed out. How long one may wait for its evidence is the policy's word, at
/// the client site's clock.
#[derive(Default)]
struct Drawn(HashMap<[u8; 32], Instant>);

impl Drawn {
    /// Whoever holds an executor may ask for as many as it likes: the oldest go first.
    fn note(&mut self, challenge: [u8; 32], now: Instant, life: Duration) {
        self.0.retain(|_, drawn| now.duration_since(*drawn) < life);
        if self.0.len() >= DRAWN
            && let Some(oldest) = self
                .0
                .iter()
                .min_by_key(|(_, drawn)| **drawn)
                .map(|(oldest, _)| *oldest)
        {
            self.0.remove(&oldest);
        }
        self.0.insert(challenge, now);
    }

    /// Whether the challenge is still fresh; it is asked once.
    fn take(&mut self, challenge: &[u8; 32], now: Instant, life: Duration) -> bool {
        self.0
            .remove(challenge)
            .is_some_and(|drawn| now.duration_since(drawn) < life)
    }
}

/// An engine that was admitted: the way to release keys to it, and which it has.
pub(crate) struct Engine {
    sender: ReleaseSender,
    /// What it proved, and by what: a policy that changes may see it otherwise.
    attested: AttestedEngine,
    evidence: Evidence,
    /// When it proved it last.
    since: Instant,
    /// Whose keys it was ever given. A new admission does not take them back.
    sessions: HashSet<SessionId>,
    /// For the audit log.
    proof: EngineUse,
    /// When its evidence was verified: what it counts leases by.
    admitted: Instant,
    /// By session: the generation of keys that was released last.
    released: HashMap<SessionId, u32>,
}

impl Engine {
    /// One that has just proved itself.
    pub(crate) fn new(
        sender: ReleaseSender,
        attested: AttestedEngine,
        evidence: Evidence,
        proof: EngineUse,
    ) -> Self {
        Self {
            sender,
            attested,
            evidence,
            since: Instant::now(),
            sessions: HashSet::new(),
            proof,
            admitted: Instant::now(),
            released: HashMap::new(),
        }
    }

    /// For the audit log.
    pub(crate) fn used(&self) -> EngineUse {
        self.proof.clone()
    }

    /// Whether all keys of a session were released to it, and so logged.
    pub(crate) fn has_all(&self, session: &Session) -> bool {
        self.released.get(&session.id) == Some(&session.keys.generation())
    }

    /// Whether it was ever given keys of a session.
    pub(crate) fn has_some(&self, session: SessionId) -> bool {
        self.sessions.contains(&session)
    }

    /// Errors unless it showed all kinds of evidence that are wanted.
    pub(crate) fn shows(&self, wanted: &Wanted) -> Result<(), ClientError> {
        let shown = self.attested.kinds();
        match wanted.iter().find(|(_, kinds)| !shown.includes(kinds)) {
            None => Ok(()),
            Some((table, kinds)) => Err(ClientError::MoreEvidence {
                table: table.clone(),
                wanted: kinds.clone(),
                engine: self.attested.engine_id(),
                shown: shown.clone(),
            }),
        }
    }

    fn forget(&mut self, session: SessionId) {
        self.released.remove(&session);
        self.sessions.remove(&session);
    }

    pub(crate) fn is_older_than(&self, life: Duration, now: Instant) -> bool {
        now.duration_since(self.since) >= life
    }

    /// What tells one admission of it from another.
    pub(crate) fn proof(&self) -> (AttestedEngine, Evidence) {
        (self.attested.clone(), self.evidence.clone())
    }

    /// Whether it is still the one that proved this.
    pub(crate) fn proved(&self, attested: &AttestedEngine) -> bool {
        self.attested == *attested
    }

    pub(crate) fn release(&mut self, session: &Session) -> Result<Release, ClientError> {
        let sealed = self
            .sender
            .release(&session.payload(self.admitted.elapsed()))?;
        self.released.insert(session.id, session.keys.generation());
        self.sessions.insert(session.id);
        Ok(Release {
            encapsulated: sealed.encapsulated.to_vec().into(),
            sequence: sealed.sequence,
            ciphertext: sealed.ciphertext.into(),
        })
    }
}

/// The engines that were admitted, by id.
#[derive(Default)]
pub(crate) struct Engines(BTreeMap<String, Engine>);

impl Engines {
    pub(crate) fn get(&self, id: &str) -> Option<&Engine> {
        self.0.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut Engine> {
        self.0.get_mut(id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Engine> {
        self.0.values()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = (&String, &mut Engine)> {
        self.0.iter_mut()
    }

    /// What each proved.
    pub(crate) fn proofs(&self) -> Vec<(String, (AttestedEngine, Evidence))> {
        let engines = self.0.iter();
        engines
            .map(|(id, engine)| (id.clone(), engine.proof()))
            .collect()
    }

    /// What one proved.
    pub(crate) fn proof(&self, id: &str) -> Option<(AttestedEngine, Evidence)> {
        self.0.get(id).map(Engine::proof)
    }

    /// Those that proved themselves longer ago than that.
    pub(crate) fn older_than(&self, life: Duration, now: Instant) -> Vec<String> {
        let old = self.0.iter();
        let old = old.filter(|(_, engine)| engine.is_older_than(life, now));
        old.map(|(id, _)| id.clone()).collect()
    }

    /// Takes one out, if it is still the one that is meant: the sessions that it has keys of.
    pub(crate) fn take_if(
        &mut self,
        id: &str,
        is_it: impl Fn(&Engine) -> bool,
    ) -> Option<HashSet<SessionId>> {
        if !self.0.get(id).is_some_and(is_it) {
            return None;
        }
        self.0.remove(id).map(|engine| engine.sessions)
    }

    /// One that has proved itself, maybe again: what it was given it still has.
    pub(crate) fn enter(&mut self, id: String, mut engine: Engine) {
        if let Some(before) = self.0.remove(&id) {
            engine.sessions = before.sessions;
        }
        self.0.insert(id, engine);
    }

    /// A session that has ended.
    pub(crate) fn forget(&mut self, session: SessionId) {
        for engine in self.0.values_mut() {
            engine.forget(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_good_once_and_not_for_long() {
        let (mut drawn, start) = (Drawn::default(), Instant::now());
        let life = Duration::from_secs(60);
        drawn.note([1; 32], start, life);
        assert!(!drawn.take(&[2; 32], start, life), "never drawn");
        assert!(drawn.take(&[1; 32], start, life));
        assert!(!drawn.take(&[1; 32], start, life), "twice");
        drawn.note([3; 32], start, life);
        assert!(!drawn.take(&[3; 32], start + life, life), "too late");

        for number in 0..=DRAWN {
            let mut challenge = [4; 32];
            challenge[..8].copy_from_slice(&number.to_le_bytes());
            drawn.note(
                challenge,
                start + Duration::from_micros(number as u64),
                life,
            );
        }
        assert_eq!(
            drawn.0.len(),
            DRAWN,
            "there are no more of them than can be answered"
        );
    }
}
