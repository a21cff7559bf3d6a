//! SEV-SNP: an attestation report of 1,184 bytes, and behind it, if the host gave them, the chip's
//! certificates.
//!
//! The report is signed by a key of the chip, the VCEK, whose certificate AMD signed for this chip
//! and these versions of firmware. It comes with the report, or is in the policy's folder as
//! `vcek-CHIP-TCB.der`, both in hexadecimal digits as they are in the report. Roots for Milan,
//! Genoa and Turin are built in.
//!
//! A key that AMD lent to a cloud provider, a VLEK, signs where the policy lists that provider. Its
//! certificate is the host's too or `vlek-TCB.der`, that of AMD's above it `asvk-PRODUCT.pem`.
//! AMD's list of revoked certificates is `crl-PRODUCT.der`.
//!
//! AMD's names and layouts: SEV Secure Nested Paging Firmware ABI (56860), Versioned Chip
//! Endorsement Key Certificate and KDS Interface (57230).

mod certificate;
mod revoked;

pub use certificate::Root;

use coffer_custody::{
    Attestation, Checks,
    policy::attestation::{Hex, SevSnp, SnpTcb},
};
use sev::{
    certs::snp::Verifiable,
    firmware::{guest::AttestationReport, host::TcbVersion},
    parser::ByteParser,
};

use crate::allowed;

const LENGTH: usize = 1184;
/// Both numbers of the signature have 72 bytes, least significant first, of which P-384 needs 48.
const SIGNATURE_ENDS: [std::ops::Range<usize>; 2] = [0x2d0..0x2e8, 0x318..0x330];

pub(crate) fn check(
    policy: &Attestation,
    evidence: &[u8],
    expected: &[u8; 64],
    roots: &[Root],
    now: u64,
    checks: &mut Checks,
) {
    let Some((raw, table)) = evidence.split_at_checked(LENGTH) else {
        checks.note("form", false, "too short for a report");
        return;
    };
    // The parser reads four bytes to find the version, and refuses those that it does not know.
    let report = match AttestationReport::from_bytes(raw) {
        Ok(report) => report,
        Err(_) => {
            checks.note("form", false, "not a report");
            return;
        }
    };
    // What is signed is what was parsed, written again: a byte that parsing drops would else be
    // nobody's.
    let written_again = report.to_bytes().is_ok_and(|again| again.as_slice() == raw);
    let zeros = |range: std::ops::Range<usize>| {
        raw.get(range)
            .is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
    };
    if !written_again || !SIGNATURE_ENDS.into_iter().all(zeros) {
        checks.note("form", false, "a report with bytes in reserved places");
        return;
    }
    checks.note(
        "form",
        true,
        format!("report of version {}", report.version),
    );
    match certificate::find(policy, raw, table, &report, roots, now) {
        Ok(found) => {
            checks.note("certificate", true, found.words);
            let signed = (&found.certificate, &report).verify().is_ok();
            checks.note(
                "signature",
                signed,
                if signed {
                    "by that key"
                } else {
                    "not by that key"
                },
            );
        }
        Err(why) => {
            checks.note("certificate", false, why);
        }
    }
    let pins = &policy.sev_snp;
    tcb(pins.min_tcb.as_ref(), &report, checks);
    let debug = report.policy.debug_allowed();
    checks.note(
        "debug",
        !debug,
        if debug {
            "on: the host can read the machine"
        } else {
            "off"
        },
    );
    guest_policy(pins, &report, checks);
    if let Some(chips) = &pins.chips {
        allowed::one_of(checks, "chip", &report.chip_id, chips);
    }
    checks.note(
        "vmpl",
        report.vmpl <= pins.max_vmpl,
        format!("{}, at most {}", report.vmpl, pins.max_vmpl),
    );
    allowed::one_of(
        checks,
        "measurement",
        &report.measurement,
        &pins.measurement,
    );
    let zeros = vec![Hex([0; 32])];
    allowed::one_of(
        checks,
        "host_data",
        &report.host_data,
        pins.host_data.as_ref().unwrap_or(&zeros),
    );
    allowed::report_data(checks, &report.report_data, expected);
}

/// The versions under which the report was signed, those that firmware cannot go below, and those
/// at launch.
fn tcb(least: Option<&SnpTcb>, report: &AttestationReport, checks: &mut Checks) {
    let Some(least) = least else {
        checks.note(
            "tcb",
            false,
            "the policy has no min_tcb, so none is accepted",
        );
        return;
    };
    let enough = |found: &TcbVersion| {
        found.bootloader >= least.bootloader
            && found.tee >= least.tee
            && found.snp >= least.snp
            && found.microcode >= least.microcode
            && found.fmc.unwrap_or_default() >= least.fmc
    };
    let found = &report.reported_tcb;
    let passed = enough(found) && enough(&report.committed_tcb) && enough(&report.launch_tcb);
    let words = format!(
        "boot loader {}, TEE {}, SNP {}, microcode {}{}",
        found.bootloader,
        found.tee,
        found.snp,
        found.microcode,
        if passed {
            ""
        } else {
            "; these, those at launch or the committed ones are too old"
        },
    );
    checks.note("tcb", passed, words);
}

/// What the host may do with the machine.
fn guest_policy(pins: &SevSnp, report: &AttestationReport, checks: &mut Checks) {
    let policy = &report.policy;
    let wrong = [
        (
            true,
            policy.migrate_ma_allowed(),
            "a migration agent may move it",
        ),
        (
            pins.forbid_smt,
            policy.smt_allowed(),
            "simultaneous multithreading is allowed",
        ),
        (
            pins.forbid_cxl,
            policy.cxl_allowed(),
            "memory behind CXL is allowed",
        ),
        (
            pins.require_single_socket,
            !policy.single_socket_required(),
            "more than one socket is allowed",
        ),
        (
            pins.require_aes_256_xts,
            !policy.mem_aes_256_xts(),
            "memory under AES-128-XEX is allowed",
        ),
        (
            pins.require_rapl_disabled,
            !policy.rapl_dis(),
            "the host may read the power meter",
        ),
        (
            pins.require_ciphertext_hiding,
            !policy.ciphertext_hiding(),
            "the host may read ciphertext of its memory",
        ),
        (
            pins.require_page_swap_disabled,
            !policy.page_swap_disabled(),
            "the host may move and swap its pages",
        ),
    ];
    let wrong: Vec<&str> = wrong
        .into_iter()
        .filter_map(|(asked, wrong, words)| (asked && wrong).then_some(words))
        .collect();
    let found = format!("{:#x} {}", u64::from(*policy), wrong.join(", "));
    checks.note("policy", wrong.is_empty(), found.trim_end());
}
