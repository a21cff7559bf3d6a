//! Engines: from a challenge over evidence to released keys.

use std::time::{Duration, Instant};

use coffer_audit::EngineUse;
use coffer_custody::{AttestedEngine, Policy, ReleaseSender, attest, attest_again, attest_host};
use coffer_protocol::{
    Evidence,
    wire::{
        AdmitEngine, Admitted, Challenge, EngineEvidence, EngineRelease, KeysReleased, ReleaseKeys,
    },
};
use prost::Message;

use crate::{ClientError, Service, engines::Engine, session::Session};

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
        let wire = EngineEvidence::decode(request.evidence.clone()).ok();
        let evidence = wire.and_then(Evidence::from_wire);
        let evidence = evidence.ok_or(ClientError::Malformed("evidence"))?;
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
            true => "host".to_owned(),
            false => attested.kinds().to_string(),
        };
        let proof = EngineUse {
            id: attested.engine_id(),
            kind,
            measurement: attested.measurement().to_owned(),
            evidence: hex::encode(attested.evidence_hash()),
        };
        self.live.lock().engines.enter(
            admitted.engine_id.clone(),
            Engine::new(sender, attested, evidence, proof),
        );
        self.entered(&policy, &admitted.engine_id)?;
        Ok(admitted)
    }

    pub(crate) fn release_keys(&self, request: &ReleaseKeys) -> Result<KeysReleased, ClientError> {
        let session = self.session(&request.session)?;
        let mut session = session.lock();
        let unknown = || ClientError::EngineUnknown(request.engine_id.clone());
        let wanted = session.wanted(&*self.policy_now()?);
        let (used, logged) = {
            let live = self.live.lock();
            let engine = live.engines.get(&request.engine_id);
            let engine = engine.ok_or_else(unknown)?;
            engine.shows(&wanted)?;
            let recorded = engine.has_all(&session) && session.uses.are_recorded();
            (engine.used(), (!recorded).then(|| engine.used()))
        };
        if let Some(engine) = logged {
            self.audit_release(&session, vec![engine])?;
            session.uses.recorded();
        }
        note(&mut session, std::slice::from_ref(&used));
        let mut live = self.live.lock();
        let engine = live.engines.get_mut(&request.engine_id);
        let engine = engine.ok_or_else(unknown)?;
        Ok(KeysReleased {
            release: Some(engine.release(&session)?),
        })
    }

    /// Releases for the admitted engines that have not all keys of the session yet. What a stage
    /// uses without another key is recorded too; before the first engine is there, nobody can do
    /// the work. Errors where an engine that has keys of the session showed less evidence than what
    /// it uses now wants, and where no engine showed enough.
    pub(crate) fn releases(
        &self,
        session: &mut Session,
    ) -> Result<(Vec<EngineRelease>, Duration), ClientError> {
        let mut audited = Duration::ZERO;
        let wanted = session.wanted(&*self.policy_now()?);
        let (lacking, any): (Vec<EngineUse>, bool) = {
            let live = self.live.lock();
            let (mut lacking, mut able, mut short) = (Vec::new(), false, None);
            for engine in live.engines.all() {
                match engine.shows(&wanted) {
                    Err(error) if engine.has_some(session.id) => return Err(error),
                    Err(error) => short = Some(error),
                    Ok(()) => {
                        able = true;
                        if !engine.has_all(session) {
                            lacking.push(engine.used());
                        }
                    }
                }
            }
            match short {
                Some(error) if !able => return Err(error),
                _ => (lacking, able),
            }
        };
        if !lacking.is_empty() || (any && !session.uses.are_recorded()) {
            let began = Instant::now();
            self.audit_release(session, lacking.clone())?;
            session.uses.recorded();
            audited = began.elapsed();
        }
        note(session, &lacking);
        let mut live = self.live.lock();
        let mut releases = Vec::new();
        for (id, engine) in live.engines.all_mut() {
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

/// Notes engines that get keys of a session in its receipt.
fn note(session: &mut Session, engines: &[EngineUse]) {
    if let Some(draft) = &mut session.receipt {
        engines.iter().for_each(|engine| draft.engine(engine));
    }
}
