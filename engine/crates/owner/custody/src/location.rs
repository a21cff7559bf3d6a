//! Where a table or a file lies, as people and catalogs write it: a path, or a `file:` URL.
//! Whatever names another storage is refused before anything is made; as a path, `s3a://bucket/t`
//! would be a folder `s3a:` below the working directory.
//!
//! What is a scheme is decided as Hadoop's `Path` does, so that a text means here what it means to
//! Spark. The plugin's half of this rule is `source/Locations.scala`; both read
//! `vectors/locations.json`.

use std::path::Path;

use thiserror::Error;

/// Why a location is none that can be served.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LocationError {
    /// Nothing is written there.
    #[error("a location is empty")]
    Empty,
    /// A character that no path has.
    #[error("the location {0:?} has a NUL character")]
    Nul(String),
    /// Another storage, or what reads as one.
    #[error("{text:?} names storage by the scheme {scheme:?}, which is not served")]
    Scheme {
        /// The location.
        text: String,
        /// What stands before its colon.
        scheme: String,
    },
    /// A path on another host.
    #[error("{0:?} names a host, and only files of this machine are served")]
    Host(String),
    /// A URL without an absolute path.
    #[error("{0:?} has a scheme and no absolute path")]
    Relative(String),
}

impl LocationError {
    /// A stable word for the cause.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "location_empty",
            Self::Nul(_) => "location_nul",
            Self::Scheme { .. } => "location_scheme",
            Self::Host(_) => "location_host",
            Self::Relative(_) => "location_relative",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::Nul(_) => "name a folder that driver and executors share",
            Self::Scheme { .. } => {
                "name a folder that driver and executors share, by its path or as file:/path; ./ \
                    before a relative path whose first name \
                 has a colon"
            }
            Self::Host(_) | Self::Relative(_) => "write /path or file:///path",
        }
    }
}

/// The path that a location names, as it is written there: nothing is decoded, made absolute, or
/// looked at.
pub fn local(text: &str) -> Result<&str, LocationError> {
    if text.chars().all(char::is_whitespace) {
        return Err(LocationError::Empty);
    }
    if text.contains('\0') {
        return Err(LocationError::Nul(text.to_owned()));
    }
    // As Hadoop does: a colon before the first slash ends a scheme, whatever its characters.
    let head = text.split('/').next().unwrap_or_default();
    let (scheme, rest) = match text.split_once(':') {
        Some(parts) if head.contains(':') => parts,
        // Hadoop reads //name/rest as a host and its path; of /// it keeps one slash.
        _ if is_host(text) => return Err(LocationError::Host(text.to_owned())),
        _ => return Ok(text),
    };
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(LocationError::Scheme {
            text: text.to_owned(),
            scheme: scheme.to_owned(),
        });
    }
    if is_host(rest) {
        return Err(LocationError::Host(text.to_owned()));
    }
    // The path of file:// is empty, not the root.
    if !rest.starts_with('/') || rest == "//" {
        return Err(LocationError::Relative(text.to_owned()));
    }
    Ok(rest)
}

/// The same of a path that need not be text.
pub fn local_path(path: &Path) -> Result<&Path, LocationError> {
    if let Some(text) = path.to_str() {
        return local(text).map(Path::new);
    }
    let text = path.to_string_lossy();
    match local(&text)?.len() == text.len() {
        true => Ok(path),
        // As a path it would be a folder `file:`.
        false => Err(LocationError::Relative(text.into_owned())),
    }
}

fn is_host(text: &str) -> bool {
    text.strip_prefix("//")
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Vector {
        name: String,
        text: String,
        /// The path.
        local: Option<String>,
        /// Or the refusal's code.
        refused: Option<String>,
    }

    #[test]
    fn vectors() {
        let vectors: Vec<Vector> =
            serde_json::from_str(include_str!("../vectors/locations.json")).unwrap();
        let mut codes = BTreeSet::new();
        for vector in &vectors {
            let got = local(&vector.text);
            match &got {
                Ok(path) => assert_eq!(Some(*path), vector.local.as_deref(), "{}", vector.name),
                Err(error) => {
                    assert_eq!(
                        Some(error.code()),
                        vector.refused.as_deref(),
                        "{}: {error}",
                        vector.name
                    );
                    assert!(!error.hint().is_empty());
                    codes.insert(error.code());
                }
            }
        }
        assert_eq!(codes.len(), 5, "each refusal has a vector");
        assert!(vectors.len() > 40);
    }

    /// A path that is no text and not without a colon: what it would be as text decides.
    #[cfg(unix)]
    #[test]
    fn a_path_that_is_no_text() {
        use std::os::unix::ffi::OsStrExt;
        let path = |bytes: &'static [u8]| Path::new(std::ffi::OsStr::from_bytes(bytes));
        assert_eq!(
            local_path(path(b"/data/\xff")).unwrap(),
            path(b"/data/\xff")
        );
        assert_eq!(
            local_path(path(b"s3a://b/\xff")).unwrap_err().code(),
            "location_scheme"
        );
        assert_eq!(
            local_path(path(b"file:/b/\xff")).unwrap_err().code(),
            "location_relative"
        );
    }
}
