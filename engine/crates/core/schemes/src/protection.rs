//! The protections that a column can have, by name. Engines know these; what a policy says of them,
//! they do not. What each of them shows and allows is in [`crate::table`].

use std::{fmt, str::FromStr};

/// How a column is stored (see the design's section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protection {
    /// As it is.
    Plain,
    /// Encrypted; the key never goes to an enclave.
    Std,
    /// Deterministic: equality shows.
    Det,
    /// Order-preserving: order shows.
    Ope,
    /// Order-revealing.
    Ore,
    /// Additively homomorphic.
    Ashe,
    /// Encrypted; attested enclaves get the key.
    Tee,
}

impl Protection {
    /// All of them.
    pub const ALL: [Protection; 7] = [
        Protection::Plain,
        Protection::Std,
        Protection::Det,
        Protection::Ope,
        Protection::Ore,
        Protection::Ashe,
        Protection::Tee,
    ];

    /// The protection of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protection| protection.name() == name)
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The protections of one column, in the order in which they were given: "tee+ope" as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Protections(Vec<Protection>);

impl Protections {
    /// Of a list.
    pub fn new(all: impl Into<Vec<Protection>>) -> Self {
        Self(all.into())
    }

    /// As a list.
    pub fn as_slice(&self) -> &[Protection] {
        &self.0
    }

    /// Whether this is one of them.
    pub fn has(&self, protection: Protection) -> bool {
        self.0.contains(&protection)
    }
}

impl From<Protection> for Protections {
    fn from(protection: Protection) -> Self {
        Self(vec![protection])
    }
}

impl fmt::Display for Protections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, protection) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("+")?;
            }
            f.write_str(protection.name())?;
        }
        Ok(())
    }
}

/// A text names a protection that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no protection {0:?}")]
pub struct UnknownProtection(pub String);

impl FromStr for Protections {
    type Err = UnknownProtection;

    fn from_str(text: &str) -> Result<Self, UnknownProtection> {
        let known = |name: &str| {
            let unknown = || UnknownProtection(name.chars().take(80).collect());
            Protection::from_name(name).ok_or_else(unknown)
        };
        text.split('+')
            .map(known)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protections_as_text_and_back() {
        for text in ["tee", "det+ope", "ope+det"] {
            assert_eq!(text.parse::<Protections>().unwrap().to_string(), text);
        }
        assert_eq!(
            "tee".parse::<Protections>().unwrap(),
            Protection::Tee.into()
        );
        for text in ["", "tee+", "TEE", "det, ope", "paillier"] {
            assert!(text.parse::<Protections>().is_err(), "{text:?}");
        }
    }
}
