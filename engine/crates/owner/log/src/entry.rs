//! What is logged.

use std::fmt;

/// An entry: what a file is, and SHA-256 of its bytes. The log shows no more of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A release's `release.json`.
    Release([u8; 32]),
    /// A policy, in the bytes that its owner signed.
    Policy([u8; 32]),
}

impl Entry {
    /// The bytes that are hashed as a leaf of the tree: its text and an end of line.
    pub fn bytes(&self) -> Vec<u8> {
        format!("{self}\n").into_bytes()
    }

    /// What kind of thing it is, as a policy names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Release(_) => "release",
            Self::Policy(_) => "policy",
        }
    }

    /// SHA-256 of the file.
    pub fn digest(&self) -> &[u8; 32] {
        match self {
            Self::Release(digest) | Self::Policy(digest) => digest,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "coffer {} sha256 {}",
            self.kind(),
            hex::encode(self.digest())
        )
    }
}
