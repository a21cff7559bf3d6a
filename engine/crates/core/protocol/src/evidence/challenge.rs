//! Challenges make evidence fresh.

use coffer_sealing::fill_random;

use crate::evidence::EvidenceError;

/// 32 random bytes. Not secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Challenge([u8; 32]);

impl Challenge {
    /// A fresh one.
    pub fn draw() -> Result<Self, EvidenceError> {
        let mut bytes = [0; 32];
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// From the bytes of a message.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, EvidenceError> {
        Ok(Self(
            bytes
                .try_into()
                .map_err(|_| EvidenceError::MalformedChallenge)?,
        ))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}
