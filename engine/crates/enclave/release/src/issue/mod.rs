//! Who signs this engine's report data: the TEE that it finds itself in.
//!
//! One module per interface: Gramine's pseudo-files (SGX), the kernel's configfs-tsm (TDX,
//! SEV-SNP), a program of ours (TPM). What they say of the machine is worth nothing by itself: the
//! owner's verifiers decide.

mod gramine;
mod issuer;
mod tpm;
mod tsm;

use std::path::PathBuf;

use coffer_protocol::{EvidenceError, EvidenceKind, EvidenceKinds};

pub use issuer::{Issuer, Simulated};

/// Where Gramine has its files.
const GRAMINE: &str = "/dev/attestation";
/// Where the kernel makes reports.
const TSM: &str = "/sys/kernel/config/tsm/report";
const TPM_PROGRAM: &str = "coffer-tpm-quote";
/// Both fields of report data of SGX, TDX and SEV-SNP have so many bytes.
const FIELD: usize = 64;

/// The interfaces' places. Others than the system's own are for tests.
#[derive(Debug, Clone)]
pub struct Interfaces {
    /// Gramine's folder.
    pub gramine: PathBuf,
    /// configfs-tsm's folder of reports.
    pub tsm: PathBuf,
    /// The program that has a TPM quote.
    pub tpm_program: PathBuf,
}

impl Default for Interfaces {
    fn default() -> Self {
        Self {
            gramine: GRAMINE.into(),
            tsm: TSM.into(),
            tpm_program: coffer_process::helper::beside(TPM_PROGRAM),
        }
    }
}

/// The issuers of these kinds, or with none named that of the kind that the machine has. A TPM must
/// be named: measured boot alone does not keep memory secret, and is not to be had by accident.
/// Without a TEE that is simulated evidence, which no policy accepts that does not say so.
pub fn issuers(
    kinds: Option<&EvidenceKinds>,
    interfaces: &Interfaces,
) -> Result<Vec<Box<dyn Issuer>>, EvidenceError> {
    let detected = || detect(interfaces).into();
    let kinds = kinds.cloned().unwrap_or_else(detected);
    kinds.iter().map(|kind| issuer(kind, interfaces)).collect()
}

fn issuer(kind: EvidenceKind, interfaces: &Interfaces) -> Result<Box<dyn Issuer>, EvidenceError> {
    Ok(match kind {
        EvidenceKind::Simulated => Box::new(Simulated),
        EvidenceKind::Sgx => Box::new(gramine::Gramine::open(&interfaces.gramine)?),
        EvidenceKind::Tdx | EvidenceKind::SevSnp => {
            Box::new(tsm::Tsm::open(kind, &interfaces.tsm)?)
        }
        EvidenceKind::Tpm => Box::new(tpm::Tpm::open(&interfaces.tpm_program)?),
    })
}

fn detect(interfaces: &Interfaces) -> EvidenceKind {
    if gramine::Gramine::open(&interfaces.gramine).is_ok() {
        return EvidenceKind::Sgx;
    }
    tsm::provider(&interfaces.tsm).unwrap_or(EvidenceKind::Simulated)
}

/// The field that a TEE signs: the report data, then zeros.
fn field(report_data: &[u8; 32]) -> [u8; FIELD] {
    let mut field = [0; FIELD];
    for (to, from) in field.iter_mut().zip(report_data) {
        *to = *from;
    }
    field
}

fn not_made(kind: EvidenceKind, reason: impl Into<String>) -> EvidenceError {
    EvidenceError::NotMade {
        kind,
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_tee_has_simulated_evidence_only() {
        let folder = tempfile::tempdir().unwrap();
        let interfaces = Interfaces {
            gramine: folder.path().join("gramine"),
            tsm: folder.path().join("tsm"),
            tpm_program: folder.path().join("program"),
        };
        let found = issuers(None, &interfaces).unwrap();
        let found: Vec<EvidenceKind> = found.iter().map(|issuer| issuer.kind()).collect();
        assert_eq!(found, [EvidenceKind::Simulated]);
        for kind in [
            EvidenceKind::Sgx,
            EvidenceKind::Tdx,
            EvidenceKind::SevSnp,
            EvidenceKind::Tpm,
        ] {
            let mut kinds = EvidenceKinds::from(EvidenceKind::Simulated);
            kinds.insert(kind);
            let refused = issuers(Some(&kinds), &interfaces).err().unwrap();
            assert_eq!(refused.code(), "evidence_not_made", "{kind}");
        }
    }
}
