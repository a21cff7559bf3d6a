//! What a release says of itself: which files are Coffer's, what they were made from, and what
//! evidence of its engines shows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The type of what is signed.
pub const RELEASE_TYPE: &str = "application/vnd.coffer.release+json";

/// A release: `release.json`. Shapes of the file: docs/reference/releases.md.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// 1.
    pub format: u32,
    /// As programs say it.
    pub version: String,
    /// What it was made from.
    pub source: Source,
    /// What made it: the words of each tool on its version.
    pub toolchain: BTreeMap<String, String>,
    /// The files, beside `release.json` and its signature; by path from there.
    pub files: BTreeMap<String, File>,
    /// The programs inside of wheel and jar, as they are installed; by name.
    pub programs: BTreeMap<String, File>,
    /// By kind of evidence, what a policy pins. A kind of which the release has no image is not
    /// there.
    pub measurements: BTreeMap<String, BTreeMap<String, String>>,
}

/// What a release was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Git's name of the commit.
    pub commit: String,
    /// Git's name of its tree.
    pub tree: String,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// In bytes.
    pub size: u64,
    /// In hexadecimal.
    pub sha256: String,
}

/// Why a release cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// It does not say what it must.
    #[error("it is no release that this version reads: {0}")]
    Contents(#[from] serde_json::Error),
    /// A newer format.
    #[error("it has format {0}; this version reads 1")]
    Format(u32),
}

impl Release {
    /// Reads one. Nothing is checked against files.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReleaseError> {
        let release: Self = serde_json::from_slice(bytes)?;
        match release.format {
            1 => Ok(release),
            other => Err(ReleaseError::Format(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_format_and_unknown_fields_are_refused() {
        let text = r#"{"format": 1, "version": "0.1.0", "source": {"commit": "a", "tree": "b"},
            "toolchain": {}, "files": {"x": {"size": 1, "sha256": "00"}}, "programs": {},
            "measurements": {}}"#;
        assert_eq!(Release::parse(text.as_bytes()).unwrap().files["x"].size, 1);
        let newer = text.replacen('1', "2", 1);
        assert!(matches!(
            Release::parse(newer.as_bytes()),
            Err(ReleaseError::Format(2))
        ));
        let more = text.replacen("\"toolchain\"", "\"signer\": 1, \"toolchain\"", 1);
        assert!(matches!(
            Release::parse(more.as_bytes()),
            Err(ReleaseError::Contents(_))
        ));
    }
}
