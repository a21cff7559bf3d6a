//! What is asked of `coffer-attest` on its standard input, and what it answers on its output: one
//! JSON value each.

use coffer_protocol::EvidenceKind;
use serde::{Deserialize, Serialize};

use crate::{Attestation, Checks, policy::attestation::Hex};

/// A report, and all that it is to be judged by. The verifiers look at no clock and no file that is
/// not named here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The kind's name.
    pub kind: String,
    /// The policy's section.
    pub policy: Attestation,
    /// The report, in hexadecimal digits.
    pub report: String,
    /// What its report data must begin with; zeros must follow.
    pub expected: Hex<32>,
    /// The client site's clock: seconds since 1970.
    pub now: u64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The kind that was verified, again.
    pub kind: String,
    /// What was checked.
    pub checks: Checks,
}

impl Question {
    /// The kind, if it is one.
    pub fn kind(&self) -> Option<EvidenceKind> {
        EvidenceKind::from_name(&self.kind)
    }
}
