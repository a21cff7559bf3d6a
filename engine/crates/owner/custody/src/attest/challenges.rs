//! The challenges that wait for evidence: each is drawn here, and good for one engine.

use std::collections::VecDeque;

use coffer_protocol::evidence::{Challenge, EvidenceError};

/// How many challenges may wait for evidence; the oldest is forgotten first.
const WAITING: usize = 4096;

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
        let challenge = Challenge::draw()?;
        if self.0.len() >= WAITING {
            self.0.pop_front();
        }
        self.0.push_back(challenge.clone());
        Ok(challenge)
    }

    /// The challenge of these bytes, if it was drawn here and not taken before.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Challenge, EvidenceError> {
        let challenge = Challenge::from_slice(bytes)?;
        let position = self
            .0
            .iter()
            .position(|waiting| *waiting == challenge)
            .ok_or(EvidenceError::UnknownChallenge)?;
        self.0
            .remove(position)
            .ok_or(EvidenceError::UnknownChallenge)
    }
}
