//! Simulated evidence: the bound fields without anyone's signature. It proves nothing, and stands
//! in for a TEE where there is none, so that all else is as with one. Accepted only where the
//! policy names it, and nothing beside it.

use crate::evidence::EvidenceError;

const MAGIC: &[u8; 8] = b"CFSIMREP";

/// The report: magic and report data.
pub fn report(report_data: &[u8; 32]) -> Vec<u8> {
    let mut report = MAGIC.to_vec();
    report.extend_from_slice(report_data);
    report
}

/// Checks that the report binds what it must. There is no more to check.
pub fn verify(report: &[u8], expected: &[u8; 32]) -> Result<(), EvidenceError> {
    match report.strip_prefix(MAGIC.as_slice()) {
        Some(bound) if bound == expected.as_slice() => Ok(()),
        Some(bound) if bound.len() == expected.len() => Err(EvidenceError::WrongBinding),
        _ => Err(EvidenceError::MalformedReport),
    }
}
