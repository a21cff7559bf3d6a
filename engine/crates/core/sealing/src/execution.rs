//! A sealed descriptor is preceded by its execution's number in clear: a hint, as stage and
//! partition in START are. All three are in the sealed message's identity.

use crate::ExecutionId;

const EXECUTION_LEN: usize = 8;

/// Puts the hint before a sealed descriptor.
#[must_use]
pub fn with_execution(execution: ExecutionId, sealed: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(EXECUTION_LEN + sealed.len());
    out.extend_from_slice(&execution.0.to_le_bytes());
    out.extend_from_slice(sealed);
    out
}

/// The hint, and the sealed descriptor behind it.
#[must_use]
pub fn split_execution(bytes: &[u8]) -> Option<(ExecutionId, &[u8])> {
    let (execution, sealed) = bytes.split_first_chunk::<EXECUTION_LEN>()?;
    Some((ExecutionId(u64::from_le_bytes(*execution)), sealed))
}
