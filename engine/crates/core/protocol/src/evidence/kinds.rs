//! Kinds of evidence.

use std::{collections::BTreeSet, fmt, str::FromStr};

use crate::evidence::EvidenceError;

/// What made the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvidenceKind {
    /// Nothing: the engine merely says so. For trials.
    Simulated,
    /// Intel SGX.
    Sgx,
    /// Intel TDX.
    Tdx,
    /// AMD SEV-SNP.
    SevSnp,
    /// A TPM: measured boot, not secret memory.
    Tpm,
}

impl EvidenceKind {
    /// All of them.
    pub const ALL: [EvidenceKind; 5] = [
        EvidenceKind::Simulated,
        EvidenceKind::Sgx,
        EvidenceKind::Tdx,
        EvidenceKind::SevSnp,
        EvidenceKind::Tpm,
    ];

    /// As written in the policy and in messages.
    pub fn name(self) -> &'static str {
        match self {
            // No policy of one build is a policy of the other.
            EvidenceKind::Simulated if coffer_sealing::UNSEALED => "unsealed",
            EvidenceKind::Simulated => "simulated",
            EvidenceKind::Sgx => "sgx",
            EvidenceKind::Tdx => "tdx",
            EvidenceKind::SevSnp => "sev-snp",
            EvidenceKind::Tpm => "tpm",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .filter(|kind| !coffer_sealing::UNSEALED || *kind == EvidenceKind::Simulated)
            .find(|kind| kind.name() == name)
    }
}

impl fmt::Display for EvidenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Several kinds, each once; written "tdx+tpm".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EvidenceKinds(BTreeSet<EvidenceKind>);

impl EvidenceKinds {
    /// One more; whether it was not among them.
    pub fn insert(&mut self, kind: EvidenceKind) -> bool {
        self.0.insert(kind)
    }

    /// Those of both.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend(&others.0);
    }

    /// Whether it is among them.
    pub fn contains(&self, kind: EvidenceKind) -> bool {
        self.0.contains(&kind)
    }

    /// Whether all of `wanted` are among them.
    pub fn includes(&self, wanted: &Self) -> bool {
        self.0.is_superset(&wanted.0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = EvidenceKind> {
        self.0.iter().copied()
    }
}

impl From<EvidenceKind> for EvidenceKinds {
    fn from(kind: EvidenceKind) -> Self {
        Self(BTreeSet::from([kind]))
    }
}

impl fmt::Display for EvidenceKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, kind) in self.iter().enumerate() {
            let between = if at == 0 { "" } else { "+" };
            write!(f, "{between}{kind}")?;
        }
        Ok(())
    }
}

impl FromStr for EvidenceKinds {
    type Err = EvidenceError;

    fn from_str(text: &str) -> Result<Self, EvidenceError> {
        let mut kinds = Self::default();
        for name in text.split('+') {
            let kind = EvidenceKind::from_name(name)
                .ok_or_else(|| EvidenceError::UnknownKind(name.to_owned()))?;
            if !kinds.insert(kind) {
                return Err(EvidenceError::Twice(kind));
            }
        }
        Ok(kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_each_once() {
        let kinds: EvidenceKinds = "tpm+sev-snp".parse().unwrap();
        assert_eq!(kinds.to_string(), "sev-snp+tpm");
        assert!(kinds.contains(EvidenceKind::Tpm) && !kinds.contains(EvidenceKind::Sgx));
        assert!(
            kinds.includes(&EvidenceKind::Tpm.into()) && kinds.includes(&EvidenceKinds::default())
        );
        assert!(!EvidenceKinds::from(EvidenceKind::Tpm).includes(&kinds));
        for (text, code) in [
            ("", "unknown_evidence"),
            ("tpm+", "unknown_evidence"),
            ("tdx, tpm", "unknown_evidence"),
            ("tpm+tpm", "evidence_twice"),
        ] {
            assert_eq!(
                text.parse::<EvidenceKinds>().unwrap_err().code(),
                code,
                "{text}"
            );
        }
    }
}
