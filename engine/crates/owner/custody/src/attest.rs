//! The owner's side: from evidence to an [`AttestedEngine`].
//!
//! The verifiers of real TEEs are not in this crate: they are handed in.

mod challenges;
mod checks;

use std::time::SystemTime;

use coffer_protocol::{
    OwnerPublicKey,
    evidence::{
        Challenge, EnginePublicKey, Evidence, EvidenceError, EvidenceKind, EvidenceKinds, PROTOCOL,
        Report, VERSION, report_data, simulated,
    },
};

use crate::{Attestation, Policy, policy::Logged};

pub use challenges::Challenges;
pub use checks::{Check, Checks};

/// Checks the reports of TEEs.
///
/// What an implementation guarantees: checks that all passed mean that the TEE of this kind, in a
/// state that the policy accepts, signed `expected` as its report data, from inside the code that
/// the policy pins. It judges nothing but the report.
pub trait Verifier {
    /// Checks a report, whose bytes a host may have made up. An error means that nothing could be
    /// checked.
    fn verify(
        &self,
        kind: EvidenceKind,
        policy: &Attestation,
        report: &[u8],
        expected: &[u8; 32],
    ) -> Result<Checks, EvidenceError>;
}

/// Verifies no TEE's reports: where simulated evidence is all there can be.
pub struct NoTee;

impl Verifier for NoTee {
    fn verify(
        &self,
        kind: EvidenceKind,
        _policy: &Attestation,
        _report: &[u8],
        _expected: &[u8; 32],
    ) -> Result<Checks, EvidenceError> {
        Err(EvidenceError::NoVerifier(kind))
    }
}

/// An engine whose evidence passed. Only [`attest`] makes one; only to one can keys be released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttestedEngine {
    key: EnginePublicKey,
    kinds: EvidenceKinds,
    owner: OwnerPublicKey,
    challenge: Challenge,
    evidence_hash: [u8; 32],
    measurement: String,
}

impl AttestedEngine {
    fn of(
        kinds: EvidenceKinds,
        owner: &OwnerPublicKey,
        challenge: Challenge,
        evidence: &Evidence,
        measurement: String,
        _: &Logged,
    ) -> Self {
        Self {
            key: evidence.engine_key,
            kinds,
            owner: *owner,
            challenge,
            evidence_hash: evidence.hash(),
            measurement,
        }
    }

    /// Its public key.
    pub fn key(&self) -> &EnginePublicKey {
        &self.key
    }

    /// Its id in logs and messages.
    pub fn engine_id(&self) -> String {
        self.key.engine_id()
    }

    /// What proved it: each of these by itself.
    pub fn kinds(&self) -> &EvidenceKinds {
        &self.kinds
    }

    /// Whether nothing proved it, and the policy accepts that.
    pub fn is_simulated(&self) -> bool {
        self.kinds.contains(EvidenceKind::Simulated)
    }

    pub(crate) fn owner(&self) -> &OwnerPublicKey {
        &self.owner
    }

    pub(crate) fn challenge(&self) -> &Challenge {
        &self.challenge
    }

    /// What code its evidence says it is, in words ([`Checks::measurement`]); empty for evidence
    /// that does not say.
    pub fn measurement(&self) -> &str {
        &self.measurement
    }

    /// SHA-256 of its evidence.
    pub fn evidence_hash(&self) -> &[u8; 32] {
        &self.evidence_hash
    }
}

/// Takes an engine that proves nothing: a host engine, which is to get a session key and no other.
/// The caller sees to it that no other key is released to it; what is sealed under that session key
/// is as good as in clear. Protocol, version and the binding of its key are checked all the same,
/// so that what goes wrong by accident has a name.
pub fn attest_host(
    policy: &Policy,
    owner: &OwnerPublicKey,
    challenge: Challenge,
    application: &str,
    evidence: &Evidence,
) -> Result<AttestedEngine, EvidenceError> {
    if !policy.accepts_host_results() {
        return Err(EvidenceError::HostNotAccepted);
    }
    check_build(evidence)?;
    let kind = EvidenceKind::Simulated;
    let expected = report_data(kind, &evidence.engine_key, owner, &challenge, application);
    let [report] = evidence.reports.as_slice() else {
        return Err(EvidenceError::MalformedReport);
    };
    simulated::verify(&report.bytes, &expected)?;
    // Nothing of the owner's code or policy is relied on here, and no kind of evidence.
    Ok(AttestedEngine::of(
        EvidenceKinds::default(),
        owner,
        challenge,
        evidence,
        String::new(),
        &Logged::NOT_ASKED,
    ))
}

/// Checks evidence against the policy. `challenge` is one that this process handed out
/// ([`crate::Challenges::take`]), `application` the one that it serves, and `tees` verifies every
/// kind but simulated evidence.
pub fn attest(
    policy: &Policy,
    owner: &OwnerPublicKey,
    challenge: Challenge,
    application: &str,
    evidence: &Evidence,
    tees: &dyn Verifier,
) -> Result<AttestedEngine, EvidenceError> {
    check_build(evidence)?;
    let mut kinds = EvidenceKinds::default();
    let mut reports = Vec::with_capacity(EvidenceKind::ALL.len());
    // Before any is verified: there are no more than there are kinds.
    for report in &evidence.reports {
        let kind = EvidenceKind::from_name(&report.kind)
            .ok_or_else(|| EvidenceError::UnknownKind(shorten(&report.kind)))?;
        if !policy.accepted_evidence().contains(&kind) {
            return Err(EvidenceError::NotAccepted(kind));
        }
        if !kinds.insert(kind) {
            return Err(EvidenceError::Twice(kind));
        }
        reports.push((kind, report));
    }
    if reports.is_empty() {
        return Err(EvidenceError::MalformedReport);
    }
    let mut measurements = Vec::new();
    for (kind, report) in reports {
        let expected = report_data(kind, &evidence.engine_key, owner, &challenge, application);
        measurements.extend(measured(kind, policy, report, &expected, tees)?);
    }
    let logged = policy.logged(SystemTime::now())?;
    Ok(AttestedEngine::of(
        kinds,
        owner,
        challenge,
        evidence,
        measurements.join(", "),
        &logged,
    ))
}

/// What code a report is of, once it has passed.
fn measured(
    kind: EvidenceKind,
    policy: &Policy,
    report: &Report,
    expected: &[u8; 32],
    tees: &dyn Verifier,
) -> Result<Option<String>, EvidenceError> {
    match kind {
        EvidenceKind::Simulated => {
            simulated::verify(&report.bytes, expected)?;
            Ok(None)
        }
        EvidenceKind::Sgx | EvidenceKind::Tdx | EvidenceKind::SevSnp | EvidenceKind::Tpm => {
            let checks = tees.verify(kind, policy.attestation(), &report.bytes, expected)?;
            checks.verdict(kind)?;
            Ok(Some(checks.measurement()))
        }
    }
}

/// Checks the evidence of an engine that was admitted once more, against a policy that has changed
/// since: its bytes are as good as they were, and the policy's word on them may be another.
pub fn attest_again(
    policy: &Policy,
    engine: &AttestedEngine,
    application: &str,
    evidence: &Evidence,
    tees: &dyn Verifier,
) -> Result<AttestedEngine, EvidenceError> {
    attest(
        policy,
        &engine.owner,
        engine.challenge.clone(),
        application,
        evidence,
        tees,
    )
}

/// An engine of this very build's protocol and version, and none of an unsealed build.
fn check_build(evidence: &Evidence) -> Result<(), EvidenceError> {
    if evidence.protocol != PROTOCOL {
        return Err(EvidenceError::OtherProtocol {
            ours: PROTOCOL,
            theirs: evidence.protocol,
        });
    }
    if !coffer_sealing::UNSEALED && evidence.engine_version.ends_with("+unsealed") {
        return Err(EvidenceError::Unsealed);
    }
    if evidence.engine_version != VERSION {
        return Err(EvidenceError::OtherVersion {
            theirs: shorten(&evidence.engine_version),
        });
    }
    Ok(())
}

/// A peer's word, short enough and plain enough to be shown.
fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests;
