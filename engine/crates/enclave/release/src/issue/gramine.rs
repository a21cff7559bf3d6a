//! SGX under Gramine: an enclave's quote by two pseudo-files (Gramine's documentation, "Attestation
//! and Secret Provisioning").

use std::{
    fs,
    path::{Path, PathBuf},
};

use coffer_protocol::{EvidenceError, EvidenceKind};

use crate::{
    Issuer,
    issue::{field, not_made},
};

/// Gramine's `/dev/attestation`.
pub(super) struct Gramine(PathBuf);

impl Gramine {
    /// Only where Gramine was told to make quotes for DCAP.
    pub(super) fn open(folder: &Path) -> Result<Self, EvidenceError> {
        let failed = |what: String| not_made(EvidenceKind::Sgx, what);
        let file = folder.join("attestation_type");
        let kind = fs::read_to_string(&file)
            .map_err(|error| failed(format!("{}: {error}", file.display())))?;
        match kind.trim_end_matches(['\0', '\n']) {
            "dcap" => Ok(Self(folder.to_path_buf())),
            other => Err(failed(format!(
                "sgx.remote_attestation is {other:?} in the manifest, and must be \"dcap\""
            ))),
        }
    }
}

impl Issuer for Gramine {
    fn kind(&self) -> EvidenceKind {
        EvidenceKind::Sgx
    }

    fn report(&self, report_data: &[u8; 32]) -> Result<Vec<u8>, EvidenceError> {
        let failed = |what: &str, error: std::io::Error| {
            not_made(EvidenceKind::Sgx, format!("{what}: {error}"))
        };
        fs::write(self.0.join("user_report_data"), field(report_data))
            .map_err(|e| failed("user_report_data", e))?;
        let quote = fs::read(self.0.join("quote")).map_err(|error| failed("quote", error))?;
        if quote.is_empty() {
            return Err(not_made(EvidenceKind::Sgx, "the quote is empty"));
        }
        Ok(quote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_data_is_written_whole_and_the_quote_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("attestation_type"), "none").unwrap();
        assert!(Gramine::open(folder.path()).is_err());
        fs::write(file("attestation_type"), "dcap").unwrap();
        let gramine = Gramine::open(folder.path()).unwrap();
        assert_eq!(
            gramine.report(&[7; 32]).unwrap_err().code(),
            "evidence_not_made"
        );
        fs::write(file("quote"), b"").unwrap();
        assert!(gramine.report(&[7; 32]).is_err());
        fs::write(file("quote"), b"the quote").unwrap();
        assert_eq!(gramine.report(&[7; 32]).unwrap(), b"the quote");
        let written = fs::read(file("user_report_data")).unwrap();
        assert_eq!(written, [[7; 32], [0; 32]].concat());
    }
}
