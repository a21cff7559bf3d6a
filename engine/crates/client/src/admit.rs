//! Engines: from a challenge over evidence to released keys.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use coffer_audit::EngineUse;
use coffer_keys::{EnginePublicKey, Evidence, ReleasePayload, ReleaseSender, attest, attest_host};
use coffer_proto::wire::{
    AdmitEngine, Admitted, Challenge, EngineEvidence, EngineRelease, KeysReleased, Release, ReleaseKeys,
};
use coffer_sealing::SessionId;
use prost::Message;

use crate::{ClientError, Service, session::Session};

/// When challenges were handed out. How long one may wait for its evidence is the policy's word, on the trusted site's clock.
#[derive(Default)]
pub(crate) struct Drawn(HashMap<[u8; 32], Instant>);

impl Drawn {
    fn note(&mut self, challenge: [u8; 32], now: Instant, life: Duration) {
        self.0.retain(|_, drawn| now.duration_since(*drawn) < life);
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
    /// For the audit log.
    proof: EngineUse,
    /// By session: the generation of keys that was released last.
    released: HashMap<SessionId, u32>,
}

impl Engine {
    /// Whether all keys of a session were released to it, and so logged.
    fn has_all(&self, session: &Session) -> bool {
        self.released.get(&session.id) == Some(&session.generation())
    }

    pub(crate) fn forget(&mut self, session: SessionId) {
        self.released.remove(&session);
    }

    fn release(&mut self, payload: &ReleasePayload, generation: u32) -> Result<Release, ClientError> {
        let sealed = self.sender.release(payload)?;
        self.released.insert(payload.session, generation);
        Ok(Release {
            encapsulated: sealed.encapsulated.to_vec().into(),
            sequence: sealed.sequence,
            ciphertext: sealed.ciphertext.into(),
        })
    }
}

impl Service {
    pub(crate) fn new_challenge(&self) -> Result<Challenge, ClientError> {
        let mut inner = self.inner.lock();
        let challenge = inner.challenges.draw()?;
        inner
            .drawn
            .note(*challenge.as_bytes(), Instant::now(), self.evidence_life());
        Ok(Challenge {
            challenge: challenge.as_bytes().to_vec().into(),
        })
    }

    fn evidence_life(&self) -> Duration {
        Duration::from_secs(self.policy.attestation().max_evidence_age_seconds.into())
    }

    /// Verifies evidence. Keys go to the engine only after this.
    pub(crate) fn admit(&self, request: &AdmitEngine) -> Result<Admitted, ClientError> {
        let wire = EngineEvidence::decode(request.evidence.clone()).map_err(|_| ClientError::Malformed("evidence"))?;
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
        let mut inner = self.inner.lock();
        // Taken before anything is checked: a challenge is good for one try.
        let challenge = inner.challenges.take(&request.challenge)?;
        if !inner
            .drawn
            .take(challenge.as_bytes(), Instant::now(), self.evidence_life())
        {
            return Err(ClientError::ChallengeExpired);
        }
        let owner = self.vault.keyring().owner_key();
        let application = inner.application.clone().ok_or(ClientError::NotGreeted)?;
        let hosts = inner.hosts;
        // Queries go on while evidence is verified.
        drop(inner);
        let public = owner.public();
        let attested = match hosts {
            true => attest_host(&self.policy, &public, challenge, &application, &evidence)?,
            false => attest(
                &self.policy,
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
        self.inner.lock().engines.insert(
            admitted.engine_id.clone(),
            Engine {
                sender,
                proof,
                released: HashMap::new(),
            },
        );
        Ok(admitted)
    }

    pub(crate) fn release_keys(&self, request: &ReleaseKeys) -> Result<KeysReleased, ClientError> {
        let session = self.session(&request.session)?;
        let mut session = session.lock();
        let unknown = || ClientError::EngineUnknown(request.engine_id.clone());
        let logged = {
            let inner = self.inner.lock();
            let engine = inner.engines.get(&request.engine_id).ok_or_else(unknown)?;
            let recorded = engine.has_all(&session) && !session.unrecorded;
            (!recorded).then(|| engine.proof.clone())
        };
        if let Some(engine) = logged {
            self.audit_release(&session, vec![engine])?;
            session.unrecorded = false;
        }
        let mut inner = self.inner.lock();
        let engine = inner.engines.get_mut(&request.engine_id).ok_or_else(unknown)?;
        Ok(KeysReleased {
            release: Some(engine.release(&session.payload(), session.generation())?),
        })
    }

    /// Releases for the admitted engines that have not all keys of the session yet. What a stage uses without another key is
    /// recorded too; before the first engine is there, nobody can do the work.
    pub(crate) fn releases(&self, session: &mut Session) -> Result<Vec<EngineRelease>, ClientError> {
        let (lacking, any): (Vec<EngineUse>, bool) = {
            let inner = self.inner.lock();
            let engines = inner.engines.values().filter(|engine| !engine.has_all(session));
            let lacking = engines.map(|engine| engine.proof.clone()).collect();
            (lacking, !inner.engines.is_empty())
        };
        if !lacking.is_empty() || (any && session.unrecorded) {
            self.audit_release(session, lacking.clone())?;
            session.unrecorded = false;
        }
        let mut inner = self.inner.lock();
        let mut releases = Vec::new();
        for (id, engine) in &mut inner.engines {
            // One that was admitted meanwhile is not in the record; it asks for its keys.
            if lacking.iter().any(|proof| proof.id == *id) {
                releases.push(EngineRelease {
                    engine_id: id.clone(),
                    release: Some(engine.release(&session.payload(), session.generation())?),
                });
            }
        }
        Ok(releases)
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
    }
}
