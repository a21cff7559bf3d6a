//! Runs `coffer-attest` for one report.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use coffer_process::helper;
use coffer_protocol::{EvidenceError, EvidenceKind};

use crate::{
    Attestation, Checks, Verifier,
    policy::attestation::Hex,
    verifiers::{Answer, Question},
};

const PROGRAM: &str = "coffer-attest";
/// Verifying takes some ten milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// An answer has a few lines for each check.
const MAX_ANSWER: u64 = 1 << 20;

/// The verifiers: the program `coffer-attest`.
#[derive(Debug, Clone)]
pub struct Verifiers {
    program: PathBuf,
    now: Option<u64>,
}

impl Verifiers {
    /// The program that was installed beside this one.
    pub fn beside_this_program() -> Self {
        Self {
            program: helper::beside(PROGRAM),
            now: None,
        }
    }

    /// A program at another place, and a time that stands still. For tests.
    pub fn at(program: &Path, now: Option<u64>) -> Self {
        Self {
            program: program.to_path_buf(),
            now,
        }
    }

    /// Asks, and takes what comes back. The verdict is for the caller to draw.
    pub fn ask(&self, question: &Question) -> Result<Answer, EvidenceError> {
        let failed =
            |what: &str| EvidenceError::Verifiers(format!("{}: {what}", self.program.display()));
        let asked = serde_json::to_vec(question).map_err(|error| failed(&error.to_string()))?;
        // It gets nothing of this process's surroundings: no passphrase that stands in the
        // environment.
        let mut program = Command::new(&self.program);
        let answer = helper::ask(
            program.env_clear().stderr(Stdio::null()),
            asked,
            MAX_ANSWER,
            PATIENCE,
        )
        .map_err(|error| failed(&error.to_string()))?;
        let answer: Answer =
            serde_json::from_slice(&answer).map_err(|_| failed("its answer is malformed"))?;
        if answer.kind != question.kind {
            return Err(failed("its answer is to another question"));
        }
        Ok(answer)
    }

    fn now(&self) -> u64 {
        let clock = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map(|passed| passed.as_secs())
        };
        self.now.or_else(|| clock().ok()).unwrap_or_default()
    }
}

impl Verifier for Verifiers {
    fn verify(
        &self,
        kind: EvidenceKind,
        policy: &Attestation,
        report: &[u8],
        expected: &[u8; 32],
    ) -> Result<Checks, EvidenceError> {
        let question = Question {
            kind: kind.name().to_owned(),
            policy: policy.clone(),
            report: report.iter().map(|byte| format!("{byte:02x}")).collect(),
            expected: Hex(*expected),
            now: self.now(),
        };
        Ok(self.ask(&question)?.checks)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn ask(script: Option<&str>) -> Result<Checks, EvidenceError> {
        let folder = std::env::temp_dir().join(format!("coffer-attest-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let name = script.map_or(0, str::len).to_string();
        let program = folder.join(name);
        if let Some(script) = script {
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        let policy = Attestation {
            accept: vec!["sgx".to_owned()],
            ..Attestation::default()
        };
        let checks = Verifiers::at(&program, Some(1)).verify(
            EvidenceKind::Sgx,
            &policy,
            &[7; 100_000],
            &[1; 32],
        );
        std::fs::remove_file(&program).ok();
        std::fs::remove_dir(&folder).ok();
        checks
    }

    #[test]
    fn a_verifier_that_is_away_or_broken_verifies_nothing() {
        for script in [
            None,
            Some("exit 1"),
            Some("cat >/dev/null; echo '{\"kind\":\"sgx\",\"checks\":[]}'; exit 3"),
            Some("cat >/dev/null; echo nonsense"),
            Some("cat >/dev/null; echo '{\"kind\":\"tdx\",\"checks\":[]}'"),
            Some("cat >/dev/null; echo '{\"kind\":\"sgx\",\"checks\":[],\"more\":1}'"),
        ] {
            assert_eq!(ask(script).unwrap_err().code(), "verifiers", "{script:?}");
        }
        let empty = ask(Some(
            "cat >/dev/null; echo '{\"kind\":\"sgx\",\"checks\":[]}'",
        ))
        .unwrap();
        assert!(
            empty.verdict(EvidenceKind::Sgx).is_err(),
            "no check is no verdict"
        );
    }
}
