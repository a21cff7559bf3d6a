//! A running application follows the policy: what it no longer allows ends, and so does what
//! engines proved too long ago.
//!
//! Looked at with every request. A policy that cannot be used, since somebody changed it and its
//! owner did not sign that, is not replaced by the one before: then nothing is admitted, released
//! or opened. What engines have the keys of already comes to its end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use coffer_custody::{Attestation, LogPolicy, MasterUri, Policy, PolicyDigest};
use coffer_protocol::{EvidenceError, wire::ClientMessage};
use parking_lot::Mutex;

use crate::{ClientError, Revoked, Service, uses::Uses};

/// The policy whose changes were last acted upon.
struct Followed {
    version: u64,
    digest: PolicyDigest,
    attestation: Attestation,
    demanded: Option<(LogPolicy, Option<PolicyDigest>)>,
    masters: Vec<(String, MasterUri)>,
}

impl Followed {
    fn of(policy: &Policy) -> Self {
        let masters = policy.masters();
        Self {
            version: policy.head().version,
            digest: policy.digest(),
            attestation: policy.attestation().clone(),
            demanded: policy.demanded(),
            masters: masters
                .map(|(name, uri)| (name.to_owned(), uri.clone()))
                .collect(),
        }
    }
}

/// The policy that is followed, and whose turn it is to replace it.
pub(crate) struct Following {
    turn: Mutex<()>,
    /// Never held for longer than it takes to read it: who has a session locked asks for it.
    now: Mutex<Arc<Followed>>,
}

impl Following {
    pub(crate) fn of(policy: &Policy) -> Self {
        Self {
            turn: Mutex::new(()),
            now: Mutex::new(Arc::new(Followed::of(policy))),
        }
    }

    fn now(&self) -> Arc<Followed> {
        Arc::clone(&self.now.lock())
    }

    /// The digest of the policy that is followed, as the audit log has it.
    pub(crate) fn digest(&self) -> String {
        self.now().digest.to_string()
    }
}

/// Whether a request only carries on what keys were released for, or ends it.
fn goes_on(kind: ClientMessage) -> bool {
    matches!(
        kind,
        ClientMessage::AcceptCommits
            | ClientMessage::OpenResult
            | ClientMessage::PickBounds
            | ClientMessage::SealValue
            | ClientMessage::OpenError
            | ClientMessage::OpenMetrics
            | ClientMessage::DescribeFragment
            | ClientMessage::CheckSettings
            | ClientMessage::AbortWrite
            | ClientMessage::EndSession
    )
}

impl Service {
    /// Before a request is answered.
    pub(crate) fn follow_for(&self, kind: ClientMessage) -> Result<(), ClientError> {
        match self.follow() {
            Err(_) if matches!(kind, ClientMessage::AbortWrite | ClientMessage::EndSession) => {
                Ok(())
            }
            Err(error) if error.is_of_policy() && goes_on(kind) => Ok(()),
            followed => followed,
        }
    }

    pub(crate) fn follow(&self) -> Result<(), ClientError> {
        let policy = self.policy_now()?;
        self.act_upon(&policy);
        let life = Duration::from_secs(
            policy
                .attestation()
                .renew_evidence_after_seconds
                .get()
                .into(),
        );
        self.end_old_engines(life, Instant::now());
        let (cluster, hosts) = {
            let application = self.application.lock();
            (application.cluster, application.hosts)
        };
        if cluster && !policy.trusts_cluster_deploy_mode() {
            return Err(ClientError::ClusterDeployMode);
        }
        if hosts && !policy.accepts_host_results() {
            return Err(EvidenceError::HostNotAccepted.into());
        }
        Ok(())
    }

    fn end_refused_engines(&self, policy: &Arc<Policy>) {
        let engines = self.live.lock().engines.proofs();
        for (id, (attested, evidence)) in engines {
            if !self.still_takes(policy, &attested, &evidence) {
                self.end_engine(&id, Revoked::Engine, |engine| engine.proved(&attested));
            }
        }
    }

    /// Engines that proved themselves longer ago than that.
    pub(crate) fn end_old_engines(&self, life: Duration, now: Instant) {
        let old = self.live.lock().engines.older_than(life, now);
        for id in old {
            self.end_engine(&id, Revoked::Age, |engine| engine.is_older_than(life, now));
        }
    }

    /// Whether an engine that was just entered is one by the policy of now: this may have changed,
    /// and been followed, while its evidence was verified.
    pub(crate) fn entered(&self, before: &Policy, id: &str) -> Result<(), ClientError> {
        let policy = self.policy_now()?;
        // It may have shown less than the last time.
        self.end_short_sessions(&policy);
        if policy.digest() == before.digest() {
            return Ok(());
        }
        let entered = self.live.lock().engines.proof(id);
        if let Some((attested, evidence)) = entered
            && !self.still_takes(&policy, &attested, &evidence)
        {
            self.end_engine(id, Revoked::Engine, |engine| engine.proved(&attested));
            return Err(ClientError::EngineUnknown(id.to_owned()));
        }
        Ok(())
    }

    fn end_engine(&self, id: &str, why: Revoked, is_it: impl Fn(&crate::engines::Engine) -> bool) {
        let mut live = self.live.lock();
        let Some(sessions) = live.engines.take_if(id, is_it) else {
            return;
        };
        tracing::warn!(engine = id, sessions = sessions.len(), reason = %why, "an engine is no \
            longer trusted");
        for session in sessions {
            live.revoke(session, why);
        }
    }

    /// Ends what a newer policy does not allow.
    fn act_upon(&self, policy: &Arc<Policy>) {
        let _turn = self.followed.turn.lock();
        let before = self.followed.now();
        // Of two requests the slower one may have read the older policy.
        if before.version >= policy.head().version {
            return;
        }
        let now = Followed::of(policy);
        // A table more in the policy is no reason to ask verifiers and KMS again.
        if before.masters != now.masters {
            self.vault.follow(coffer_kms::of(policy));
            self.known.lock().note_masters(policy);
        }
        if (&before.attestation, &before.demanded) != (&now.attestation, &now.demanded) {
            self.end_refused_engines(policy);
        }
        self.end_refused_uses();
        self.end_short_sessions(policy);
        *self.followed.now.lock() = Arc::new(now);
    }

    /// Ends the sessions of which an engine has keys that showed less evidence than they want.
    fn end_short_sessions(&self, policy: &Policy) {
        let sessions = self.live.lock().sessions.all();
        for (id, session) in sessions {
            let wanted = session.lock().wanted(policy);
            let mut live = self.live.lock();
            let short = (live.engines.all())
                .any(|engine| engine.has_some(id) && engine.shows(&wanted).is_err());
            if short {
                live.revoke(id, Revoked::Engine);
            }
        }
    }

    fn end_refused_uses(&self) {
        if self.user.is_none() {
            return;
        }
        // Who is no user any more has nothing.
        let rights = self.rights().ok();
        let sessions = self.live.lock().sessions.all();
        for (id, session) in sessions {
            let allowed = |uses: &Uses| {
                rights
                    .as_ref()
                    .is_some_and(|rights| uses.are_within(rights))
            };
            let refused = !allowed(&session.lock().uses);
            if refused {
                self.live.lock().revoke(id, Revoked::User);
            }
        }
    }
}
