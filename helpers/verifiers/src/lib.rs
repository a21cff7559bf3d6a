//! The verifiers of TEEs' evidence: one module per kind, each from a report that a host may have
//! made up to a list of named checks.
//!
//! Quotes of SGX and TDX are checked by `dcap-qvl`, reports of SEV-SNP by `sev`, a TPM's quotes
//! here, with `ring`'s signatures. Nothing is fetched: certificates, lists of revoked ones and TCB
//! levels come from the policy's folder of collateral, the time from who asks. Each module checks
//! all that it can, so that a person sees the whole picture; what was not checked is missing from
//! the list, and `Checks::verdict` refuses a list that misses anything. Not here: whether a kind is
//! accepted, and whether a challenge is fresh.
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::as_conversions
    )
)]

mod allowed;
mod dcap;
mod sgx;
mod snp;
mod tdx;
mod tpm;

pub use snp::Root;

use coffer_custody::{
    Attestation, Checks,
    verifiers::{Answer, Question},
};
use coffer_protocol::EvidenceKind;

/// A report is at most this long: the largest, quotes with certificates, have some 10 KB.
const MAX_REPORT: usize = 128 << 10;

/// Answers a question.
pub fn answer(question: &Question) -> Result<Answer, &'static str> {
    answer_under(&Root::amd(), question)
}

/// The same, with other roots of SEV-SNP's certificates.
pub fn answer_under(roots: &[Root], question: &Question) -> Result<Answer, &'static str> {
    let kind = question.kind().ok_or("there is no such kind of evidence")?;
    let report =
        hex::decode(&question.report).map_err(|_| "the report is not in hexadecimal digits")?;
    let mut expected = [0; 64];
    for (to, from) in expected.iter_mut().zip(question.expected.0) {
        *to = from;
    }
    Ok(Answer {
        kind: question.kind.clone(),
        checks: check_under(
            roots,
            kind,
            &question.policy,
            &report,
            &expected,
            question.now,
        ),
    })
}

/// Checks a report. `expected` is the whole field of report data, as the TEE has it; a TPM signs
/// its first 32 bytes. `now` is in seconds since 1970.
pub fn check(
    kind: EvidenceKind,
    policy: &Attestation,
    report: &[u8],
    expected: &[u8; 64],
    now: u64,
) -> Checks {
    check_under(&Root::amd(), kind, policy, report, expected, now)
}

fn check_under(
    roots: &[Root],
    kind: EvidenceKind,
    policy: &Attestation,
    report: &[u8],
    expected: &[u8; 64],
    now: u64,
) -> Checks {
    let mut checks = Checks::new();
    if report.len() > MAX_REPORT {
        checks.note(
            "form",
            false,
            format!("{} bytes are no report", report.len()),
        );
        return checks;
    }
    match kind {
        EvidenceKind::Sgx => sgx::check(policy, report, expected, now, &mut checks),
        EvidenceKind::Tdx => tdx::check(policy, report, expected, now, &mut checks),
        EvidenceKind::SevSnp => snp::check(policy, report, expected, roots, now, &mut checks),
        EvidenceKind::Tpm => tpm::check(policy, report, expected, &mut checks),
        EvidenceKind::Simulated => {
            checks.note("form", false, "simulated evidence has nothing to verify");
        }
    }
    checks
}
