//! Why an engine is not trusted, or does not make evidence.

use crate::evidence::{EvidenceKind, VERSION};

/// One variant per cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// The engine speaks another protocol.
    #[error("the engine speaks protocol {theirs}, this is protocol {ours}")]
    OtherProtocol {
        /// Our protocol.
        ours: u32,
        /// The engine's.
        theirs: u32,
    },
    /// The engine is of another version.
    #[error("the engine is version {theirs:?}, this is {VERSION}")]
    OtherVersion {
        /// What the engine says.
        theirs: String,
    },
    /// The engine is a benchmark's build that seals nothing, this is not.
    #[error("the engine is an unsealed build, for benchmarks only")]
    Unsealed,
    /// A kind of evidence that does not exist.
    #[error("there is no evidence kind {0:?}")]
    UnknownKind(String),
    /// A kind that the policy does not accept.
    #[error("the policy does not accept {0} evidence")]
    NotAccepted(EvidenceKind),
    /// Two reports of one kind.
    #[error("{0} evidence is given twice")]
    Twice(EvidenceKind),
    /// A kind that this version cannot verify.
    #[error("{0} evidence cannot be verified yet")]
    NoVerifier(EvidenceKind),
    /// The verifiers of TEEs' evidence could not be asked, or did not answer as they must.
    #[error("the verifiers of evidence cannot be used: {0}")]
    Verifiers(String),
    /// A check of a TEE's report did not pass.
    #[error("{kind} evidence is refused: {check}: {found}")]
    Refused {
        /// The kind.
        kind: EvidenceKind,
        /// The first check that stands against it.
        check: String,
        /// What it found.
        found: String,
    },
    /// The policy demands that something is in a transparency log, and no proof shows it.
    #[error("the log does not show the {what}: {why}")]
    NotLogged {
        /// `release` or `policy`; `log`: the log itself.
        what: String,
        /// Why.
        why: String,
    },
    /// Asked of an engine: its hardware made no report.
    #[error("no {kind} evidence can be made: {reason}")]
    NotMade {
        /// The kind.
        kind: EvidenceKind,
        /// Why.
        reason: String,
    },
    /// Not a report of its kind.
    #[error("the engine's report is malformed")]
    MalformedReport,
    /// The report binds something else: another owner, engine key, kind or challenge.
    #[error("the engine's report is not for this owner, engine key and challenge")]
    WrongBinding,
    /// Not 32 bytes.
    #[error("the challenge is malformed")]
    MalformedChallenge,
    /// A challenge that was not handed out here, or was answered before.
    #[error("the challenge was not handed out here, or was answered before")]
    UnknownChallenge,
    /// Asked of an engine: it serves another owner already.
    #[error("this engine serves another owner")]
    OtherOwner,
    /// Asked of an engine: the application's name is too long.
    #[error("the application's name is too long")]
    ApplicationTooLong,
    /// Host engines, and a policy that does not accept what they return.
    #[error("the policy does not accept what host engines return")]
    HostNotAccepted,
    /// Random source or crypto library failed.
    #[error(transparent)]
    Sealing(#[from] coffer_sealing::Error),
}

const CHANGED_BETWEEN: &str = "someone between driver and engine changed the evidence, or it was \
    made for another application";

coffer_sealing::error_table! {
    EvidenceError: &'static str;
    Self::OtherProtocol { .. } => "other_protocol",
        "install the same version of Coffer on the driver and on every executor";
    Self::OtherVersion { .. } => "other_version",
        "install the same version of Coffer on the driver and on every executor";
    Self::Unsealed => "unsealed_engine",
        "install a released engine on every executor: this one would show the data to the host";
    Self::UnknownKind(_) => "unknown_evidence",
        "start the engine with a kind of evidence that this version can verify";
    Self::NotAccepted(EvidenceKind::Simulated) => "evidence_not_accepted",
        "for a trial, set accept = [\"simulated\"] under [attestation] in the policy: it proves \
            nothing";
    Self::NotAccepted(_) => "evidence_not_accepted",
        "list the kind under [attestation] accept in the policy";
    Self::Twice(_) => "evidence_twice", "name each kind of evidence once";
    Self::NoVerifier(_) => "evidence_not_verifiable",
        "start the engine with a kind of evidence that this version can verify";
    Self::Verifiers(_) => "verifiers",
        "coffer-attest must lie beside the program that asks it: install it with the others";
    Self::Refused { .. } => "evidence_refused",
        "coffer verify --engine ADDRESS shows every check; what must match is under [attestation] \
            in the policy";
    Self::NotLogged { .. } => "not_logged",
        "put it into the log, have the witnesses sign, and write the proofs that [log] in the \
            policy names anew (coffer-log; docs/reference/log.md)";
    Self::NotMade { .. } => "evidence_not_made",
        "docs/attestation says what the host must have; the engine needs rights to its device";
    Self::MalformedReport => "malformed_report", CHANGED_BETWEEN;
    Self::WrongBinding => "wrong_binding", CHANGED_BETWEEN;
    Self::MalformedChallenge => "malformed_challenge", CHANGED_BETWEEN;
    Self::UnknownChallenge => "unknown_challenge",
        "start the application again; if it recurs, evidence is being replayed";
    Self::OtherOwner => "other_owner", "an engine serves one owner for its life: restart it";
    Self::ApplicationTooLong => "application_too_long", "give the application a shorter name";
    Self::HostNotAccepted => "host_not_accepted",
        "without enclaves no result is verified: set host_results = \"accept\" in the policy if \
            that will do, or leave spark.coffer.enclave at required";
    Self::Sealing(error) => error.code(), error.hint();
}
