//! Reports of TEEs, which a host may make up. The first byte says of which kind, the rest is the
//! report; the corpus is real reports, whose collateral is at hand, so that certificates and
//! signatures are reached. The policy pins nothing: nothing may pass.
#![no_main]

use std::{path::Path, sync::OnceLock};

use coffer_custody::Attestation;
use coffer_protocol::EvidenceKind;
use coffer_verifiers::check;
use tempfile::TempDir;

/// June 2025, when the recorded collateral was in force.
const NOW: u64 = 1_750_420_000;
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/quotes");
const VECTORS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../helpers/verifiers/tests/vectors"
);
const COLLATERAL: [(&str, &str); 3] = [
    ("sgx", "sgx_quote_collateral.json"),
    ("tdx", "tdx_quote_collateral.json"),
    ("snp", "vcek_milan.der"),
];

/// A policy that pins nothing, over a folder with the collateral of the corpus under the names that
/// the verifiers look for.
fn policy() -> &'static Attestation {
    static POLICY: OnceLock<(Attestation, TempDir)> = OnceLock::new();
    let (policy, _) = POLICY.get_or_init(|| {
        let folder = TempDir::new().expect("a temporary folder");
        let policy = Attestation {
            collateral: Some(folder.path().to_path_buf()),
            ..Attestation::default()
        };
        for (report, collateral) in COLLATERAL {
            let input = std::fs::read(Path::new(CORPUS).join(report)).expect("a recorded report");
            let (kind, report) = split(&input).expect("a kind and a report");
            let asked = check(kind, &policy, report, &[0; 64], NOW);
            let mut words = asked
                .0
                .iter()
                .flat_map(|check| check.found.split([' ', ':']));
            let name = words.find(|word| word.ends_with(".json") || word.ends_with(".der"));
            let name = name.expect("collateral is looked for by its name");
            std::fs::copy(
                Path::new(VECTORS).join(collateral),
                folder.path().join(name),
            )
            .expect("the collateral is copied");
            let again = check(kind, &policy, report, &[0; 64], NOW);
            assert!(
                again
                    .0
                    .iter()
                    .any(|check| check.name == "signature" && check.passed),
                "{again:?}"
            );
        }
        (policy, folder)
    });
    policy
}

fn split(input: &[u8]) -> Option<(EvidenceKind, &[u8])> {
    let (first, report) = input.split_first()?;
    Some((*EvidenceKind::ALL.get(usize::from(*first))?, report))
}

libfuzzer_sys::fuzz_target!(init: { policy(); }, |input: &[u8]| {
    let Some((kind, report)) = split(input) else {
        return;
    };
    assert!(check(kind, policy(), report, &[0; 64], NOW).verdict(kind).is_err());
});
