//! A TPM's quote, by the program `coffer-tpm-quote`: the TPM's library is no part of the enclave.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use coffer_process::helper::{self, HelperError};
use coffer_protocol::{EvidenceError, EvidenceKind};

use crate::{Issuer, issue::not_made};

/// A quote with its key and 24 PCRs has some 1,500 bytes.
const MAX_EVIDENCE: u64 = 64 << 10;
/// A TPM makes the key first, which takes some of them seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const FAILED: &str = "coffer-tpm-quote failed; its error is in the engine's log";

/// The program.
pub(super) struct Tpm(PathBuf);

impl Tpm {
    pub(super) fn open(program: &Path) -> Result<Self, EvidenceError> {
        if !program.is_file() {
            let reason = format!(
                "{} is missing; docs/attestation/tpm.md says how to build it",
                program.display()
            );
            return Err(not_made(EvidenceKind::Tpm, reason));
        }
        Ok(Self(program.to_path_buf()))
    }
}

impl Issuer for Tpm {
    fn kind(&self) -> EvidenceKind {
        EvidenceKind::Tpm
    }

    fn report(&self, report_data: &[u8; 32]) -> Result<Vec<u8>, EvidenceError> {
        // What it says on stderr goes where the engine's own log goes.
        let asked = helper::ask(
            Command::new(&self.0).arg("quote"),
            report_data.to_vec(),
            MAX_EVIDENCE,
            PATIENCE,
        );
        let evidence = asked.map_err(|error| match error {
            HelperError::Failed(_) => not_made(EvidenceKind::Tpm, FAILED),
            error => not_made(EvidenceKind::Tpm, format!("{}: {error}", self.0.display())),
        })?;
        if evidence.is_empty() {
            return Err(not_made(EvidenceKind::Tpm, FAILED));
        }
        Ok(evidence)
    }
}
