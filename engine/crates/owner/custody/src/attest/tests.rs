//! `vectors/evidence.json`: reports, and what they are held against. Keys and challenge are
//! repeated bytes.

use coffer_release::{EngineKey, ReleaseReceiver, Simulated};
use serde::{Deserialize, Serialize};

use super::*;
use crate::{
    Policy,
    vectors::{Case, check, flipped},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    protocol: u32,
    kind: String,
    engine: u8,
    version: String,
    owner: u8,
    challenge: u8,
    application: String,
    policy: String,
}

fn here() -> Context {
    Context {
        protocol: 1,
        kind: "simulated".into(),
        engine: 1,
        version: "this".into(),
        owner: 2,
        challenge: 3,
        application: "app-1".into(),
        policy: "[attestation]\naccept = [\"simulated\"]".into(),
    }
}

fn challenge(byte: u8) -> Challenge {
    Challenge::from_slice(&[byte; 32]).unwrap()
}

fn policy(text: &str) -> Policy {
    Policy::unsigned(text)
}

#[test]
fn evidence() {
    let bound = report_data(
        EvidenceKind::Simulated,
        &EnginePublicKey([1; 32]),
        &OwnerPublicKey([2; 32]),
        &challenge(3),
        "app-1",
    );
    let real = report_data(
        EvidenceKind::Sgx,
        &EnginePublicKey([1; 32]),
        &OwnerPublicKey([2; 32]),
        &challenge(3),
        "app-1",
    );
    let whole = simulated::report(&bound);
    let at =
        |name: &str, context: Context, outcome: &str| Case::new(name, context, &whole, outcome);
    let with = |name: &str, report: &[u8], outcome: &str| Case::new(name, here(), report, outcome);
    let cases = vec![
        at("evidence_whole", here(), "opens"),
        at(
            "evidence_for_other_owner",
            Context { owner: 9, ..here() },
            "wrong_binding",
        ),
        at(
            "evidence_of_other_engine_key",
            Context {
                engine: 9,
                ..here()
            },
            "wrong_binding",
        ),
        at(
            "evidence_for_other_challenge",
            Context {
                challenge: 9,
                ..here()
            },
            "wrong_binding",
        ),
        at(
            "evidence_for_other_application",
            Context {
                application: "app-2".into(),
                ..here()
            },
            "wrong_binding",
        ),
        at(
            "evidence_of_other_protocol",
            Context {
                protocol: 2,
                ..here()
            },
            "other_protocol",
        ),
        at(
            "evidence_of_other_version",
            Context {
                version: "0.0.0".into(),
                ..here()
            },
            "other_version",
        ),
        at(
            "evidence_of_unknown_kind",
            Context {
                kind: "none".into(),
                ..here()
            },
            "unknown_evidence",
        ),
        at(
            "evidence_claims_other_kind",
            Context {
                kind: "sgx".into(),
                ..here()
            },
            "evidence_not_accepted",
        ),
        at(
            "evidence_where_none_is_accepted",
            Context {
                policy: String::new(),
                ..here()
            },
            "evidence_not_accepted",
        ),
        with(
            "report_of_other_kind",
            &simulated::report(&real),
            "wrong_binding",
        ),
        with("report_flipped", &flipped(&whole, 8, 1), "wrong_binding"),
        with(
            "report_magic_changed",
            &flipped(&whole, 0, 1),
            "malformed_report",
        ),
        with("report_cut", &whole[..whole.len() - 1], "malformed_report"),
        with(
            "report_longer",
            &[whole.as_slice(), b"x"].concat(),
            "malformed_report",
        ),
        with("report_empty", &[], "malformed_report"),
    ];
    check("evidence.json", cases, |case| {
        let context = &case.context;
        // So that the vectors outlive a release of this crate.
        let engine_version = if context.version == "this" {
            VERSION.to_string()
        } else {
            context.version.clone()
        };
        let evidence = Evidence {
            protocol: context.protocol,
            kind: context.kind.clone(),
            engine_key: EnginePublicKey([context.engine; 32]),
            report: case.bytes(),
            engine_version,
        };
        attest(
            &policy(&context.policy),
            &OwnerPublicKey([context.owner; 32]),
            challenge(context.challenge),
            &context.application,
            &evidence,
            &NoTee,
        )
        .map_err(|error| error.code())
    });
}

#[test]
fn an_engine_serves_one_owner() {
    let mut engine = ReleaseReceiver::new(EngineKey::generate().unwrap(), Box::new(Simulated));
    let (mine, other) = (OwnerPublicKey([1; 32]), OwnerPublicKey([2; 32]));
    assert_eq!(
        engine
            .attest(2, mine, &challenge(1), "app")
            .unwrap_err()
            .code(),
        "other_protocol"
    );
    assert!(engine.attest(1, mine, &challenge(1), "app").is_ok());
    assert_eq!(
        engine.attest(1, other, &challenge(1), "app"),
        Err(EvidenceError::OtherOwner)
    );
    assert!(engine.attest(1, mine, &challenge(2), "app 2").is_ok());
    assert_eq!(
        engine.attest(1, mine, &challenge(2), &"x".repeat(1025)),
        Err(EvidenceError::ApplicationTooLong)
    );
}

#[test]
fn a_challenge_is_good_once() {
    let mut challenges = Challenges::new();
    let drawn = challenges.draw().unwrap();
    assert_eq!(
        challenges.take(&[0; 32]),
        Err(EvidenceError::UnknownChallenge)
    );
    assert_eq!(
        challenges.take(&[0; 31]),
        Err(EvidenceError::MalformedChallenge)
    );
    assert_eq!(challenges.take(drawn.as_bytes()), Ok(drawn.clone()));
    assert_eq!(
        challenges.take(drawn.as_bytes()),
        Err(EvidenceError::UnknownChallenge)
    );
}

/// A verifier of TEEs that finds what it is told to.
struct Finds(Checks);

impl Verifier for Finds {
    fn verify(
        &self,
        _kind: EvidenceKind,
        _policy: &crate::Attestation,
        _report: &[u8],
        _expected: &[u8; 32],
    ) -> Result<Checks, EvidenceError> {
        Ok(self.0.clone())
    }
}

#[test]
fn a_tee_is_attested_by_a_whole_verdict_only() {
    let owner = OwnerPublicKey([1; 32]);
    let evidence = Evidence {
        protocol: PROTOCOL,
        kind: "sgx".into(),
        engine_key: EnginePublicKey([2; 32]),
        report: vec![3; 9],
        engine_version: VERSION.into(),
    };
    let pinned = policy("[attestation]\naccept = [\"sgx\"]");
    let with = |policy: &Policy, tees: &dyn Verifier| {
        attest(policy, &owner, challenge(1), "app", &evidence, tees)
    };
    let mut checks = Checks::new();
    for name in Checks::required(EvidenceKind::Sgx) {
        assert_eq!(
            with(&pinned, &Finds(checks.clone())).unwrap_err().code(),
            "evidence_refused"
        );
        checks.note(name, true, "");
    }
    let attested = with(&pinned, &Finds(checks.clone())).unwrap();
    assert_eq!(
        (attested.kind(), attested.is_simulated()),
        (EvidenceKind::Sgx, false)
    );
    let refused = |policy: &Policy, tees: &dyn Verifier| with(policy, tees).unwrap_err().code();
    assert_eq!(refused(&pinned, &NoTee), "evidence_not_verifiable");
    for accepted in [
        "",
        "[attestation]\naccept = [\"simulated\"]",
        "[attestation]\naccept = [\"tdx\", \"tpm\"]",
    ] {
        assert_eq!(
            refused(&policy(accepted), &Finds(checks.clone())),
            "evidence_not_accepted"
        );
    }
    checks.note("another", false, "");
    assert_eq!(refused(&pinned, &Finds(checks)), "evidence_refused");
}
