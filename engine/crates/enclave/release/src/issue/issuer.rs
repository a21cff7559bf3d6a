//! The engine's side: who makes its reports.

use coffer_protocol::evidence::{EvidenceError, EvidenceKind, simulated};

/// Has a TEE sign report data. Issuers of real kinds belong to the engine's process, which knows
/// its machine.
pub trait Issuer: Send {
    /// The kind it makes.
    fn kind(&self) -> EvidenceKind;

    /// A report over these bytes; where the TEE signs 64, the rest are zeros.
    fn report(&self, report_data: &[u8; 32]) -> Result<Vec<u8>, EvidenceError>;
}

/// No TEE at all.
pub struct Simulated;

impl Issuer for Simulated {
    fn kind(&self) -> EvidenceKind {
        EvidenceKind::Simulated
    }

    fn report(&self, report_data: &[u8; 32]) -> Result<Vec<u8>, EvidenceError> {
        Ok(simulated::report(report_data))
    }
}
