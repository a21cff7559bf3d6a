//! SGX: quotes of version 3.

use coffer_custody::{Attestation, Checks, policy::attestation::Hex};
use coffer_protocol::EvidenceKind;
use dcap_qvl::quote::EnclaveReport;

use crate::{allowed, dcap};

/// Bits of ATTRIBUTES.FLAGS, first byte (Intel SDM volume 3D, table 35-3).
const INIT: u8 = 1;
const DEBUG: u8 = 2;

pub(crate) fn check(
    policy: &Attestation,
    report: &[u8],
    expected: &[u8; 64],
    now: u64,
    checks: &mut Checks,
) {
    let Some(quote) = dcap::parse(EvidenceKind::Sgx, report, checks) else {
        return;
    };
    dcap::platform(
        EvidenceKind::Sgx,
        policy,
        (&policy.sgx.tcb, policy.sgx.fmspc.as_ref()),
        (report, &quote),
        now,
        checks,
    );
    let Some(enclave) = quote.report.as_sgx() else {
        return;
    };
    let [flags, ..] = enclave.attributes;
    let sound = flags & INIT != 0 && flags & DEBUG == 0;
    checks.note(
        "debug",
        sound,
        if sound {
            "off"
        } else {
            "on: the host can read the enclave"
        },
    );
    code(policy, enclave, checks);
    allowed::report_data(checks, &enclave.report_data, expected);
}

/// By its measurement, or by its signer.
fn code(policy: &Attestation, enclave: &EnclaveReport, checks: &mut Checks) {
    let (measurement, signer) = (Hex(enclave.mr_enclave), Hex(enclave.mr_signer));
    let (product, svn) = (enclave.isv_prod_id, enclave.isv_svn);
    let measured = policy.sgx.mrenclave.contains(&measurement);
    let signed = policy
        .sgx
        .signers
        .iter()
        .any(|one| one.mrsigner == signer && one.product == product && svn >= one.min_svn);
    let found = format!("MRENCLAVE {measurement}, MRSIGNER {signer}, product {product}, SVN {svn}");
    let wanted = match (
        measured || signed,
        policy.sgx.mrenclave.len() + policy.sgx.signers.len(),
    ) {
        (true, _) => "",
        (false, 0) => ": the policy allows none",
        (false, _) => ": the policy does not allow it",
    };
    checks.note("code", measured || signed, format!("{found}{wanted}"));
}
