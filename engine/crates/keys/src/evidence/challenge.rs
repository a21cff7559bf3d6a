//! Challenges make evidence fresh: each is drawn here, and good for one engine.

use std::collections::VecDeque;

use coffer_sealing::fill_random;

use super::EvidenceError;

/// How many challenges may wait for evidence; the oldest is forgotten first.
const WAITING: usize = 4096;

/// 32 random bytes. Not secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Challenge([u8; 32]);

impl Challenge {
    /// From the bytes of a message.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, EvidenceError> {
        Ok(Self(bytes.try_into().map_err(|_| EvidenceError::MalformedChallenge)?))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The challenges handed out by this process and not yet answered.
#[derive(Debug, Default)]
pub struct Challenges(VecDeque<Challenge>);

impl Challenges {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A fresh challenge.
    pub fn draw(&mut self) -> Result<Challenge, EvidenceError> {
        let mut bytes = [0; 32];
        fill_random(&mut bytes)?;
        if self.0.len() >= WAITING {
            self.0.pop_front();
        }
        self.0.push_back(Challenge(bytes));
        Ok(Challenge(bytes))
    }

    /// The challenge of these bytes, if it was drawn here and not taken before.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Challenge, EvidenceError> {
        let challenge = Challenge::from_slice(bytes)?;
        let place = self
            .0
            .iter()
            .position(|waiting| *waiting == challenge)
            .ok_or(EvidenceError::UnknownChallenge)?;
        self.0.remove(place).ok_or(EvidenceError::UnknownChallenge)
    }
}
