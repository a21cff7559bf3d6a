//! A TPM's evidence: as recorded, held against other policies, cut, flipped, and under other keys.

use std::{collections::BTreeMap, path::Path};

use coffer_custody::{
    Attestation,
    policy::attestation::{Hex, Tpm},
};
use coffer_protocol::EvidenceKind;
use coffer_verifiers::check;

fn vector(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/vectors")
            .join(name),
    )
    .unwrap()
}

fn pins() -> Tpm {
    serde_json::from_slice(&vector("tpm_pins.json")).unwrap()
}

/// 0, 1, … 31, then zeros.
fn expected() -> [u8; 64] {
    let mut expected = [0; 64];
    for (value, byte) in (0_u8..32).zip(&mut expected) {
        *byte = value;
    }
    expected
}

/// The checks that fail.
fn failures(report: &[u8], tpm: Tpm, expected: &[u8; 64]) -> Vec<String> {
    let policy = Attestation {
        tpm,
        ..Attestation::default()
    };
    let checks = check(EvidenceKind::Tpm, &policy, report, expected, 0);
    let failed: Vec<String> = checks
        .0
        .iter()
        .filter(|check| !check.passed)
        .map(|check| check.name.clone())
        .collect();
    assert_eq!(
        failed.is_empty(),
        checks.verdict(EvidenceKind::Tpm).is_ok(),
        "{checks:?}"
    );
    failed
}

#[test]
fn what_is_recorded_passes_a_policy_that_pins_it() {
    assert_eq!(failures(&vector("tpm_quote"), pins(), &expected()), [""; 0]);
}

#[test]
fn each_pin_counts() {
    let report = vector("tpm_quote");
    let with = |change: &dyn Fn(&mut Tpm)| {
        let mut tpm = pins();
        change(&mut tpm);
        failures(&report, tpm, &expected())
    };
    assert_eq!(with(&|tpm| tpm.ak.clear()), ["key"]);
    assert_eq!(with(&|tpm| tpm.ak[0].0[0] ^= 1), ["key"]);
    assert_eq!(with(&|tpm| tpm.pcrs = BTreeMap::new()), ["pcrs"]);
    for number in ["0", "7", "17"] {
        let check = format!("pcr{number}");
        assert_eq!(
            with(&|tpm| tpm.pcrs.get_mut(number).unwrap().clear()),
            [check.as_str()]
        );
        assert_eq!(
            with(&|tpm| tpm.pcrs.get_mut(number).unwrap()[0].0[31] ^= 1),
            [check.as_str()]
        );
    }
    for position in 0..32 {
        let mut other = expected();
        other[position] ^= 1;
        assert_eq!(failures(&report, pins(), &other), ["report_data"]);
    }
}

/// Every byte is signed, hashed, or a length.
#[test]
fn no_flipped_or_cut_quote_passes() {
    let report = vector("tpm_quote");
    for position in 0..report.len() {
        for bit in 0..8 {
            let mut flipped = report.clone();
            flipped[position] ^= 1 << bit;
            assert_ne!(
                failures(&flipped, pins(), &expected()),
                [""; 0],
                "byte {position}, bit {bit}"
            );
        }
        assert_ne!(
            failures(&report[..position], pins(), &expected()),
            [""; 0],
            "{position} bytes"
        );
    }
    let longer = [report.as_slice(), &[0]].concat();
    assert_eq!(failures(&longer, pins(), &expected()), ["form"]);
}

/// SHA-256 of the first part: the key's public area.
fn key_of(report: &[u8]) -> Hex<32> {
    let length = usize::try_from(u32::from_be_bytes(report[8..12].try_into().unwrap())).unwrap();
    let hash = ring::digest::digest(&ring::digest::SHA256, &report[12..12 + length]);
    Hex(hash.as_ref().try_into().unwrap())
}

#[test]
fn rsa_keys_sign_too_and_keys_that_sign_anything_do_not_count() {
    let of = |name: &str, number: &str| {
        let report = vector(name);
        let tpm = Tpm {
            ak: vec![key_of(&report)],
            pcrs: BTreeMap::from([(number.to_owned(), vec![Hex([0; 32])])]),
        };
        failures(&report, tpm, &expected())
    };
    assert_eq!(of("tpm_quote_rsa", "3"), [""; 0]);
    assert_eq!(of("tpm_quote_rsa", "8"), ["pcr8"], "not in the quote");
    assert_eq!(of("tpm_quote_unrestricted", "3"), ["key"]);
    let mut flipped = vector("tpm_quote_rsa");
    let signature = flipped.len() - 8 * 33 - 40;
    flipped[signature] ^= 1;
    let tpm = Tpm {
        ak: vec![key_of(&flipped)],
        ..pins()
    };
    assert!(failures(&flipped, tpm, &expected()).contains(&"signature".to_owned()));
}
