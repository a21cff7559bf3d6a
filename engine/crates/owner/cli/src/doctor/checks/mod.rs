//! The checks, by what they are about. A new one is an entry in a list, and a function that says
//! what it found.

mod coffer;
mod logs;
mod network;
mod pages;
mod site;
mod tables;

use super::posture::Posture;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Values, keys or the driver itself are open to whoever gets there; or Coffer does not start.
    High,
    /// What Coffer relies on others for is weak.
    Medium,
    /// A second line of defence is missing.
    Low,
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Severity::High => "high",
            Severity::Medium => "medium",
            Severity::Low => "low",
        }
    }
}

/// One thing that is looked at.
pub(crate) struct Check {
    /// Stable: scripts accept findings by it.
    pub(crate) id: &'static str,
    pub(crate) severity: Severity,
    /// Why it matters.
    pub(crate) why: &'static str,
    /// The setting that mends it.
    pub(crate) set: &'static str,
    /// What is wrong in this configuration, or None.
    pub(crate) find: fn(&Posture) -> Option<String>,
}

/// All checks, in the order of reports.
pub(crate) const ALL: &[&[Check]] = &[
    coffer::CHECKS,
    network::CHECKS,
    pages::CHECKS,
    logs::CHECKS,
    site::CHECKS,
    tables::CHECKS,
];

/// Words if it is so.
fn found(so: bool, words: impl Into<String>) -> Option<String> {
    so.then(|| words.into())
}
