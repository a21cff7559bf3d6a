//! What a verifier looked at, one named check after the other, so that a person can follow it; and
//! the verdict over all of them.

use serde::{Deserialize, Serialize};

use coffer_protocol::evidence::{EvidenceError, EvidenceKind};

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// A stable word: see [`Checks::required`].
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// What was found, and if it did not pass what was wanted.
    pub found: String,
}

/// The checks over one report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Checks(pub Vec<Check>);

impl Checks {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a check, and says whether it passed.
    pub fn note(&mut self, name: &str, passed: bool, found: impl Into<String>) -> bool {
        self.0.push(Check {
            name: name.to_owned(),
            passed,
            found: found.into(),
        });
        passed
    }

    /// The checks without which there is no verdict for a kind. A verifier that left one out has
    /// not verified.
    pub fn required(kind: EvidenceKind) -> &'static [&'static str] {
        match kind {
            EvidenceKind::Simulated => &["form", "report_data"],
            EvidenceKind::Sgx => &[
                "form",
                "collateral",
                "signature",
                "collateral_age",
                "tcb",
                "advisories",
                "debug",
                "code",
                "report_data",
            ],
            EvidenceKind::Tdx => &[
                "form",
                "collateral",
                "signature",
                "collateral_age",
                "tcb",
                "advisories",
                "debug",
                "attributes",
                "xfam",
                "mrtd",
                "rtmr0",
                "rtmr1",
                "rtmr2",
                "rtmr3",
                "report_data",
            ],
            EvidenceKind::SevSnp => &[
                "form",
                "certificate",
                "signature",
                "tcb",
                "debug",
                "policy",
                "vmpl",
                "measurement",
                "host_data",
                "report_data",
            ],
            EvidenceKind::Tpm => &["form", "key", "signature", "quote", "pcrs", "report_data"],
        }
    }

    /// What code the report is of, in words: what was found by the checks that compare it with the
    /// policy's list. Empty if the kind says nothing of it.
    pub fn measurement(&self) -> String {
        let measures = |name: &str| {
            let register = name
                .strip_prefix("rtmr")
                .or_else(|| name.strip_prefix("pcr"));
            matches!(name, "code" | "mrtd" | "measurement")
                || register.is_some_and(|number| number.parse::<u8>().is_ok())
        };
        let found = self.0.iter().filter(|check| measures(&check.name));
        let words: Vec<String> = found
            .map(|check| format!("{} {}", check.name, check.found))
            .collect();
        words.join(", ")
    }

    /// Good if every required check is there and every check that is there passed; else the first
    /// that stands against it.
    pub fn verdict(&self, kind: EvidenceKind) -> Result<(), EvidenceError> {
        let refused = |check: &str, found: &str| EvidenceError::Refused {
            kind,
            check: check.to_owned(),
            found: found.to_owned(),
        };
        if let Some(failed) = self.0.iter().find(|check| !check.passed) {
            return Err(refused(&failed.name, &failed.found));
        }
        let missing = Self::required(kind)
            .iter()
            .find(|name| !self.0.iter().any(|check| check.name == **name));
        match missing {
            Some(name) => Err(refused(name, "not checked")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_what_was_compared_with_the_list() {
        let mut checks = Checks::new();
        for (name, found) in [
            ("form", "a quote"),
            ("pcr11", "ab"),
            ("pcrs", "as quoted"),
            ("rtmr0", "cd"),
            ("code", "ef"),
        ] {
            checks.note(name, true, found);
        }
        assert_eq!(checks.measurement(), "pcr11 ab, rtmr0 cd, code ef");
    }

    #[test]
    fn a_verdict_needs_every_check_and_no_failure() {
        for kind in EvidenceKind::ALL {
            assert!(
                Checks::new().verdict(kind).is_err(),
                "no check is no verdict"
            );
            let mut checks = Checks::new();
            for name in Checks::required(kind) {
                checks.note(name, true, "");
            }
            assert_eq!(checks.verdict(kind), Ok(()));
            for position in 0..checks.0.len() {
                let mut failed = checks.clone();
                failed.0[position].passed = false;
                assert!(
                    failed.verdict(kind).is_err(),
                    "{kind}: {}",
                    failed.0[position].name
                );
                let mut cut = checks.clone();
                cut.0.remove(position);
                assert!(cut.verdict(kind).is_err());
            }
            checks.note("another", false, "");
            assert!(checks.verdict(kind).is_err());
        }
    }
}
