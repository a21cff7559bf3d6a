//! Engines: from a challenge over evidence to released keys.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use coffer_audit::EngineUse;
use coffer_custody::{
    AttestedEngine, Challenges, Policy, ReleaseSender, attest, attest_again, attest_host,
};
use coffer_protocol::{
    EnginePublicKey, Evidence,
    wire::{
        AdmitEngine, Admitted, Challenge, EngineEvidence, EngineRelease, KeysReleased, Release,
        ReleaseKeys,
    },
};
use coffer_sealing::SessionId;
use prost::Message;

use crate::{ClientError, Service, session::Session};

/// Challenges that wait for their evidence.
const DRAWN: usize = 4096;

/// Challenges that were handed out and wait for their evidence.
#[derive(Default)]
pub(crate) struct Waiting {
    challenges: Challenges,
    drawn: Drawn,
}

impl Waiting {
    fn draw(&mut self, life: Duration) -> Result<coffer_protocol::Challenge, ClientError> {
        let challenge = self.challenges.draw()?;
        self.drawn.note(*challenge.as_bytes(), Instant::now(), life);
        Ok(challenge)
    }

    /// The challenge, if it is one of ours and still fresh. It is good for one try.
    fn take(
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
    /// Whether all keys of a session were released to it, and so logged.
    fn has_all(&self, session: &Session) -> bool {
        self.released.get(&session.id) == Some(&session.keys.generation())
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

    fn release(&mut self, session: &Session) -> Result<Release, ClientError> {
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
    fn enter(&mut self, id: String, mut engine: Engine) {
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

/// How long a challenge waits for its evidence.
fn evidence_life(policy: &Policy) -> Duration {
    Duration::from_secs(policy.attestation().max_evidence_age_seconds.into())
}

impl Service {
    /// Whether a policy still takes what an engine proved.
    pub(crate) fn still_takes(
        &self,
        policy: &Policy,
        attested: &AttestedEngine,
        evidence: &Evidence,
    ) -> bool {
        let (application, hosts) = {
            let application = self.application.lock();
            (
                application.name.clone().unwrap_or_default(),
                application.hosts,
            )
        };
        hosts || attest_again(policy, attested, &application, evidence, &self.verifiers).is_ok()
    }

    pub(crate) fn new_challenge(&self) -> Result<Challenge, ClientError> {
        let life = evidence_life(&*self.policy_now()?);
        let challenge = self.challenges.lock().draw(life)?;
        Ok(Challenge {
            challenge: challenge.as_bytes().to_vec().into(),
        })
    }

    /// Verifies evidence. Keys go to the engine only after this.
    pub(crate) fn admit(&self, request: &AdmitEngine) -> Result<Admitted, ClientError> {
        let wire = EngineEvidence::decode(request.evidence.clone())
            .map_err(|_| ClientError::Malformed("evidence"))?;
        let engine_key = <[u8; 32]>::try_from(wire.engine_key.as_ref())
            .map(EnginePublicKey)
            .map_err(|_| ClientError::Malformed("evidence"))?;
        let evidence = Evidence {
            protocol: wire.protocol,
            kind: wire.kind,
            engine_key,
            report: wire.report.to_vec(),
            engine_version: wire.engine_version,
        };
        let policy = self.policy_now()?;
        // Taken before anything is checked.
        let life = evidence_life(&policy);
        let challenge = self.challenges.lock().take(&request.challenge, life)?;
        let owner = self.vault.keyring().owner_key();
        // No lock is held from here on: queries go on while evidence is verified.
        let (application, hosts) = {
            let application = self.application.lock();
            let name = application.name.clone();
            (name.ok_or(ClientError::NotGreeted)?, application.hosts)
        };
        let public = owner.public();
        let attested = match hosts {
            true => attest_host(&policy, &public, challenge, &application, &evidence)?,
            false => attest(
                &policy,
                &public,
                challenge,
                &application,
                &evidence,
                &self.verifiers,
            )?,
        };
        let sender = ReleaseSender::new(&attested, owner, &application)?;
        let admitted = Admitted {
            engine_id: attested.engine_id(),
            simulated: attested.is_simulated() && !hosts,
        };
        let kind = match hosts {
            true => "host",
            false => attested.kind().name(),
        };
        let proof = EngineUse {
            id: attested.engine_id(),
            kind: kind.to_owned(),
            measurement: attested.measurement().to_owned(),
            evidence: hex::encode(attested.evidence_hash()),
        };
        self.live.lock().engines.enter(
            admitted.engine_id.clone(),
            Engine {
                sender,
                attested,
                evidence,
                since: Instant::now(),
                sessions: HashSet::new(),
                proof,
                admitted: Instant::now(),
                released: HashMap::new(),
            },
        );
        self.entered(&policy, &admitted.engine_id)?;
        Ok(admitted)
    }

    pub(crate) fn release_keys(&self, request: &ReleaseKeys) -> Result<KeysReleased, ClientError> {
        let session = self.session(&request.session)?;
        let mut session = session.lock();
        let unknown = || ClientError::EngineUnknown(request.engine_id.clone());
        let logged = {
            let live = self.live.lock();
            let engine = live.engines.0.get(&request.engine_id);
            let engine = engine.ok_or_else(unknown)?;
            let recorded = engine.has_all(&session) && session.uses.are_recorded();
            (!recorded).then(|| engine.proof.clone())
        };
        if let Some(engine) = logged {
            self.audit_release(&session, vec![engine])?;
            session.uses.recorded();
        }
        let mut live = self.live.lock();
        let engine = live.engines.0.get_mut(&request.engine_id);
        let engine = engine.ok_or_else(unknown)?;
        Ok(KeysReleased {
            release: Some(engine.release(&session)?),
        })
    }

    /// Releases for the admitted engines that have not all keys of the session yet. What a stage
    /// uses without another key is recorded too; before the first engine is there, nobody can do
    /// the work.
    pub(crate) fn releases(
        &self,
        session: &mut Session,
    ) -> Result<(Vec<EngineRelease>, Duration), ClientError> {
        let mut audited = Duration::ZERO;
        let (lacking, any): (Vec<EngineUse>, bool) = {
            let live = self.live.lock();
            let engines = (live.engines.0.values()).filter(|engine| !engine.has_all(session));
            let lacking = engines.map(|engine| engine.proof.clone()).collect();
            (lacking, !live.engines.0.is_empty())
        };
        if !lacking.is_empty() || (any && !session.uses.are_recorded()) {
            let began = Instant::now();
            self.audit_release(session, lacking.clone())?;
            session.uses.recorded();
            audited = began.elapsed();
        }
        let mut live = self.live.lock();
        let mut releases = Vec::new();
        for (id, engine) in &mut live.engines.0 {
            // One that was admitted meanwhile is not in the record; it asks for its keys.
            if lacking.iter().any(|proof| proof.id == *id) {
                releases.push(EngineRelease {
                    engine_id: id.clone(),
                    release: Some(engine.release(session)?),
                });
            }
        }
        Ok((releases, audited))
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
