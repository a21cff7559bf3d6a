//! The protections that a column can have. Engines know their names; what a policy says of them, they do not.

use std::fmt;

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

    /// As written in the policy.
    pub fn name(self) -> &'static str {
        match self {
            Protection::Plain => "plain",
            Protection::Std => "std",
            Protection::Det => "det",
            Protection::Ope => "ope",
            Protection::Ore => "ore",
            Protection::Ashe => "ashe",
            Protection::Tee => "tee",
        }
    }

    /// Whether someone without keys can work on what is stored.
    pub fn is_host_readable(self) -> bool {
        !matches!(self, Protection::Tee)
    }

    /// Whether a partition column may have it: `plain` puts the value into the files' paths.
    pub fn is_for_partitions(self) -> bool {
        matches!(self, Protection::Tee | Protection::Plain)
    }

    /// The protection of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protection| protection.name() == name)
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
