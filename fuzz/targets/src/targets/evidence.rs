//! What an engine says of itself, as the client engine takes it: the protobuf message, then the
//! check against the policy.

use std::sync::LazyLock;

use coffer_custody::{NoTee, Policy, attest};
use coffer_protocol::{
    Challenge, Evidence, OwnerPublicKey,
    wire::{EngineEvidence, engine_evidence::Further},
};
use coffer_release::{EngineKey, ReleaseReceiver, Simulated};
use prost::Message;

use super::{cut, encoded, seed};
use crate::{Outcome, Seed, Target, fixture, outcome};

pub(super) const TARGET: Target = Target {
    name: "evidence",
    about: "evidence of engines",
    memory: |input| 16 * input + (64 << 10),
    smoke: 20_000,
    run,
    seeds,
};

const OWNER: OwnerPublicKey = OwnerPublicKey([9; 32]);
const CHALLENGE: [u8; 32] = [8; 32];
const APPLICATION: &str = "application_1";

static POLICY: LazyLock<Policy> =
    LazyLock::new(|| fixture::policy("[attestation]\naccept = [\"simulated\"]\n"));

fn run(input: &[u8]) -> Outcome {
    let Ok(wire) = EngineEvidence::decode(input) else {
        return "Malformed".to_owned();
    };
    let Some(evidence) = Evidence::from_wire(wire) else {
        return "EngineKey".to_owned();
    };
    outcome(attest(
        &POLICY,
        &OWNER,
        Challenge::from_slice(&CHALLENGE).unwrap(),
        APPLICATION,
        &evidence,
        &NoTee,
    ))
}

fn evidence() -> EngineEvidence {
    let mut engine =
        ReleaseReceiver::new(EngineKey::generate().unwrap(), vec![Box::new(Simulated)]);
    let challenge = Challenge::from_slice(&CHALLENGE).unwrap();
    let evidence = engine.attest(1, OWNER, &challenge, APPLICATION).unwrap();
    evidence.to_wire()
}

fn further(kind: &str, count: usize) -> Vec<Further> {
    let one = Further {
        kind: kind.to_owned(),
        report: vec![7; 40].into(),
    };
    vec![one; count]
}

fn seeds() -> Vec<Seed> {
    let good = evidence();
    let changed = |change: &dyn Fn(&mut EngineEvidence)| encoded(&good, change);
    vec![
        seed("simulated", good.encode_to_vec()),
        seed("nothing", []),
        seed("cut", cut(&good.encode_to_vec(), 3)),
        seed("another_protocol", changed(&|e| e.protocol = 2)),
        seed("kind_unknown", changed(&|e| e.kind = "better".to_owned())),
        seed("kind_not_accepted", changed(&|e| e.kind = "sgx".to_owned())),
        seed("kind_long", changed(&|e| e.kind = "x".repeat(5000))),
        seed(
            "another_version",
            changed(&|e| e.engine_version = "99.0".to_owned()),
        ),
        seed(
            "unsealed_version",
            changed(&|e| e.engine_version += "+unsealed"),
        ),
        seed("key_short", changed(&|e| e.engine_key.truncate(31))),
        seed(
            "another_key",
            changed(&|e| e.engine_key = vec![1; 32].into()),
        ),
        seed("report_empty", changed(&|e| e.report.clear())),
        seed("report_short", changed(&|e| e.report.truncate(9))),
        seed(
            "kind_twice",
            changed(&|e| e.further = further("simulated", 1)),
        ),
        seed(
            "further_not_accepted",
            changed(&|e| e.further = further("tpm", 1)),
        ),
        seed(
            "further_many",
            changed(&|e| e.further = further("sgx", 400)),
        ),
        seed("report_long", changed(&|e| e.report = vec![3; 9000].into())),
    ]
}
