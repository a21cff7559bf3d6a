//! A TPM's quote, by the program `coffer-tpm-quote`: the TPM's library is no part of the enclave.

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use coffer_protocol::{EvidenceError, EvidenceKind};

use crate::{Issuer, issue::not_made};

/// A quote with its key and 24 PCRs has some 1,500 bytes.
const MAX_EVIDENCE: u64 = 64 << 10;

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
        let failed = |error: std::io::Error| not_made(EvidenceKind::Tpm, format!("{}: {error}", self.0.display()));
        // What it says on stderr goes where the engine's own log goes.
        let mut child = Command::new(&self.0)
            .arg("quote")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let wrote = child.stdin.take().map(|mut stdin| stdin.write_all(report_data));
        let mut evidence = Vec::new();
        let read = child
            .stdout
            .take()
            .map(|stdout| stdout.take(MAX_EVIDENCE).read_to_end(&mut evidence));
        let status = child.wait().map_err(failed)?;
        wrote.transpose().map_err(failed)?;
        read.transpose().map_err(failed)?;
        if !status.success() || evidence.is_empty() {
            return Err(not_made(
                EvidenceKind::Tpm,
                "coffer-tpm-quote failed; its error is in the engine's log",
            ));
        }
        Ok(evidence)
    }
}
