//! A record as a line of the file: `MAC in 64 hexadecimal digits ‖ space ‖ JSON ‖ newline`.
//!
//! The MAC is HMAC-SHA-256 over the JSON; the chain's hash is SHA-256 over the line without its
//! newline, MAC included.

use coffer_custody::AuditKey;
use coffer_format::Digest;

use crate::{AuditError, Flaw, Record};

const MAC_DIGITS: usize = 64;
/// The longest line, in bytes.
pub(crate) const LIMIT: u64 = 16 << 20;

/// A record that is authentic, and its place in the chain.
pub(crate) struct Line {
    pub(crate) record: Record,
    pub(crate) hash: Digest,
}

/// The line of a record, newline included, and its hash.
pub(crate) fn encode(key: &AuditKey, record: &Record) -> Result<(Vec<u8>, Digest), AuditError> {
    let json = serde_json::to_vec(record).map_err(|_| AuditError::TooLong)?;
    let mut line = hex::encode(key.mac(&json)?).into_bytes();
    line.push(b' ');
    line.extend_from_slice(&json);
    if u64::try_from(line.len()).unwrap_or(u64::MAX) >= LIMIT {
        return Err(AuditError::TooLong);
    }
    let hash = Digest::of(&line);
    line.push(b'\n');
    Ok((line, hash))
}

/// Reads a line without its newline. The MAC is checked before the JSON is looked at.
pub(crate) fn decode(key: &AuditKey, line: &[u8]) -> Result<Line, Flaw> {
    let (mac, rest) = line.split_at_checked(MAC_DIGITS).ok_or(Flaw::Malformed)?;
    let json = rest.strip_prefix(b" ").ok_or(Flaw::Malformed)?;
    let mac = hex::decode(mac).map_err(|_| Flaw::Malformed)?;
    if !key.is_mac(json, &mac) {
        return Err(Flaw::Altered);
    }
    let record = serde_json::from_slice(json).map_err(|_| Flaw::Malformed)?;
    Ok(Line {
        record,
        hash: Digest::of(line),
    })
}

/// Whether a record follows the one before.
pub(crate) fn check_follows(record: &Record, sequence: u64, previous: Digest) -> Result<(), Flaw> {
    match (
        record.sequence == sequence.saturating_add(1),
        record.previous == previous,
    ) {
        (true, true) => Ok(()),
        (false, _) => Err(Flaw::OutOfOrder(record.sequence)),
        (true, false) => Err(Flaw::Chain),
    }
}
