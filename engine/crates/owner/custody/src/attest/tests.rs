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
            engine_key: EnginePublicKey([context.engine; 32]),
            reports: vec![Report {
                kind: context.kind.clone(),
                bytes: case.bytes(),
            }],
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
    let mut engine =
        ReleaseReceiver::new(EngineKey::generate().unwrap(), vec![Box::new(Simulated)]);
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
        engine_key: EnginePublicKey([2; 32]),
        reports: vec![report("sgx", 3)],
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
        (attested.kinds(), attested.is_simulated()),
        (&EvidenceKind::Sgx.into(), false)
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

fn report(kind: &str, byte: u8) -> Report {
    Report {
        kind: kind.to_owned(),
        bytes: vec![byte; 9],
    }
}

/// Reports of these kinds pass where they are what their engine's key is bound by.
struct Passes(&'static [EvidenceKind]);

impl Verifier for Passes {
    fn verify(
        &self,
        kind: EvidenceKind,
        _policy: &crate::Attestation,
        bytes: &[u8],
        expected: &[u8; 32],
    ) -> Result<Checks, EvidenceError> {
        let mut checks = Checks::new();
        for name in Checks::required(kind) {
            let passed = *name != "report_data" || bytes == expected;
            checks.note(name, passed && self.0.contains(&kind), "");
        }
        Ok(checks)
    }
}

#[test]
fn each_of_several_reports_must_pass_and_bind_the_engine() {
    use EvidenceKind::{Tdx, Tpm};
    let owner = OwnerPublicKey([1; 32]);
    let of = |kinds: &[(&str, EvidenceKind)], engine: u8| Evidence {
        protocol: PROTOCOL,
        engine_key: EnginePublicKey([2; 32]),
        reports: (kinds.iter())
            .map(|(name, kind)| Report {
                kind: (*name).to_owned(),
                bytes: report_data(
                    *kind,
                    &EnginePublicKey([engine; 32]),
                    &owner,
                    &challenge(1),
                    "app",
                )
                .to_vec(),
            })
            .collect(),
        engine_version: VERSION.into(),
    };
    let both = policy("[attestation]\naccept = [\"tdx\", \"tpm\"]");
    let with = |policy: &Policy, evidence: &Evidence, passes: &'static [EvidenceKind]| {
        let verifier = Passes(passes);
        attest(policy, &owner, challenge(1), "app", evidence, &verifier)
    };
    let shown = of(&[("tpm", Tpm), ("tdx", Tdx)], 2);
    let attested = with(&both, &shown, &[Tdx, Tpm]).unwrap();
    assert_eq!(attested.kinds().to_string(), "tdx+tpm");
    assert_eq!(attested.evidence_hash(), &shown.hash());

    let code = |policy: &Policy, evidence: &Evidence, passes| {
        with(policy, evidence, passes).unwrap_err().code()
    };
    // Either one that does not pass stands against it.
    assert_eq!(code(&both, &shown, &[Tdx]), "evidence_refused");
    assert_eq!(code(&both, &shown, &[Tpm]), "evidence_refused");
    let mut of_two_engines = shown.clone();
    of_two_engines.reports[1] = of(&[("tdx", Tdx)], 3).reports.remove(0);
    assert_eq!(
        code(&both, &of_two_engines, &[Tdx, Tpm]),
        "evidence_refused"
    );
    // One kind's report is not another's.
    let swapped = of(&[("tpm", Tdx), ("tdx", Tpm)], 2);
    assert_eq!(code(&both, &swapped, &[Tdx, Tpm]), "evidence_refused");
    let twice = of(&[("tdx", Tdx), ("tdx", Tdx)], 2);
    assert_eq!(code(&both, &twice, &[Tdx, Tpm]), "evidence_twice");
    let one = policy("[attestation]\naccept = [\"tdx\"]");
    assert_eq!(code(&one, &shown, &[Tdx, Tpm]), "evidence_not_accepted");
    let unknown = of(&[("tdx", Tdx), ("better", Tpm)], 2);
    assert_eq!(code(&both, &unknown, &[Tdx, Tpm]), "unknown_evidence");
    assert_eq!(code(&both, &of(&[], 2), &[Tdx, Tpm]), "malformed_report");

    // What was left out, added or changed places is other evidence to a release.
    let mut hashes = vec![shown.hash()];
    for other in [
        of(&[("tdx", Tdx), ("tpm", Tpm)], 2),
        of(&[("tpm", Tpm)], 2),
        of(&[("tpm", Tpm), ("tdx", Tdx), ("sgx", Tdx)], 2),
    ] {
        assert!(!hashes.contains(&other.hash()));
        hashes.push(other.hash());
    }
}
