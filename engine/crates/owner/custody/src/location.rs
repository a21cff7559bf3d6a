//! Where a table or a file lies, as people and catalogs write it: a path, a `file:` URL, or the URL
//! of a storage that is reached through a port. One place has one name, by which policy and
//! register know it ([`of`]). What is neither is refused before anything is made; as a path,
//! `s3a:bucket` would be a folder below the working directory.
//!
//! What is a scheme is decided as Hadoop's `Path` does, so that a text means here what it means to
//! Spark. The plugin's half of this rule is `split/Locations.scala`; both read
//! `vectors/locations.json`.

use std::path::{Path, PathBuf};

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
    /// A URL that says who asks. What catalogs and logs show holds no credentials.
    #[error("a location of the scheme {0:?} holds a user's name or password")]
    Credentials(String),
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
            Self::Credentials(_) => "location_credentials",
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
            Self::Credentials(_) => {
                "give credentials to Spark's Hadoop configuration, or to the environment"
            }
        }
    }
}

/// A place, by the name under which it is compared with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location<'a> {
    /// A path of this machine, as it is written.
    Local(&'a str),
    /// `scheme://authority/path`, without `.`, `..`, repeated slashes and one at the end. Of
    /// schemes that mean one storage it has always the same; hosts are in lower case and end with
    /// no dot, and ports are numbers, left out where they go without saying. A second name or an
    /// address of a host is another place: nothing is looked up. A name service of HDFS is a host
    /// here, though its name is a key of Hadoop's configuration: whoever reaches it finds how it is
    /// written there.
    Remote(String),
}

/// What lies behind other storages' URLs, or behind none: a table there would have two names, or
/// cannot be written.
const NOT_STORAGE: [&str; 14] = [
    "viewfs",
    "har",
    "http",
    "https",
    "ftp",
    "sftp",
    "jar",
    "local",
    "raw",
    "data",
    "mailto",
    "javascript",
    "nullscan",
    "classpath",
];

/// The place that a location names. Nothing is decoded, made absolute, or looked at.
pub fn of(text: &str) -> Result<Location<'_>, LocationError> {
    match local(text) {
        Err(LocationError::Scheme { text, scheme }) => match remote(&text, &scheme)? {
            Some(url) => Ok(Location::Remote(url)),
            None => Err(LocationError::Scheme { text, scheme }),
        },
        local => local.map(Location::Local),
    }
}

/// The same as a path: a local one as it is written, or a URL.
pub fn path(text: &str) -> Result<PathBuf, LocationError> {
    Ok(match of(text)? {
        Location::Local(path) => path.into(),
        Location::Remote(url) => url.into(),
    })
}

/// The name of a place on other storage; none if it is not one that could be served.
fn remote(text: &str, scheme: &str) -> Result<Option<String>, LocationError> {
    let rest = text
        .get(scheme.len()..)
        .and_then(|rest| rest.strip_prefix("://"));
    let letters = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "+.-".contains(letter))
    };
    let (Some(rest), true) = (rest, letters(scheme)) else {
        return Ok(None);
    };
    let scheme = scheme.to_ascii_lowercase();
    if NOT_STORAGE.contains(&scheme.as_str()) {
        return Ok(None);
    }
    let scheme = match scheme.as_str() {
        "s3" | "s3n" => "s3a",
        "abfs" => "abfss",
        "wasb" => "wasbs",
        other => other,
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    // Of Azure's the part before is a container; of Oracle's a bucket, in a namespace.
    let named = match scheme {
        "abfss" | "wasbs" => true,
        "oci" => !authority.contains(':') && authority.matches('@').count() == 1,
        _ => false,
    };
    if authority.contains('@') && !named {
        return Err(LocationError::Credentials(scheme.to_owned()));
    }
    let spoiled = |letter: char| letter.is_whitespace() || letter.is_control();
    if authority.is_empty() || authority.contains(spoiled) || authority.contains('%') {
        return Ok(None);
    }
    let default = match scheme {
        "hdfs" => Some(8020),
        "webhdfs" => Some(9870),
        "swebhdfs" => Some(9871),
        "abfss" | "wasbs" => Some(443),
        _ => None,
    };
    let authority = match scheme {
        // A bucket is no host, and old ones have capitals.
        "s3a" | "gs" => Some(authority.to_owned()),
        "oci" => is_bucket_in_namespace(authority).then(|| authority.to_owned()),
        _ => server(authority, default),
    };
    let Some(authority) = authority else {
        return Ok(None);
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // Above the root there is the root.
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    // There HDFS has every file a second time, by inode or as it is stored.
    if matches!(scheme, "hdfs" | "webhdfs" | "swebhdfs") && parts.first() == Some(&".reserved") {
        return Ok(None);
    }
    let mut url = format!("{scheme}://{authority}");
    for part in parts {
        url.push('/');
        url.push_str(part);
    }
    Ok(Some(url))
}

fn is_bucket_in_namespace(authority: &str) -> bool {
    let parts = authority.split_once('@');
    parts.is_some_and(|(bucket, namespace)| !bucket.is_empty() && !namespace.is_empty())
}

/// A host, with what stands before its `@` and with its port, as one name has them; none where it
/// is no host. `default`: the port that goes without saying.
fn server(authority: &str, default: Option<u16>) -> Option<String> {
    let authority = authority.to_ascii_lowercase();
    let at = authority.rfind('@').map_or(0, |at| at.saturating_add(1));
    let (before, server) = authority.split_at_checked(at)?;
    let (host, port) = match server.rsplit_once(':') {
        // The colons of an IPv6 address.
        _ if server.ends_with(']') => (server, ""),
        Some(parts) => parts,
        None => (server, ""),
    };
    if !port.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let port = match port {
        "" => None,
        port => Some(port.parse::<u16>().ok()?).filter(|port| Some(*port) != default),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_address = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || host.ends_with('.') || host.contains(':') && !is_address {
        return None;
    }
    Some(match port {
        Some(port) => format!("{before}{host}:{port}"),
        None => format!("{before}{host}"),
    })
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

/// As [`path`], of a path that need not be text.
pub fn path_of(path: &Path) -> Result<PathBuf, LocationError> {
    match path.to_str() {
        Some(text) => self::path(text),
        None => local_path(path).map(Path::to_path_buf),
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
        /// Or the URL by which the place is known.
        remote: Option<String>,
        /// Or the refusal's code.
        refused: Option<String>,
    }

    #[test]
    fn vectors() {
        let vectors: Vec<Vector> =
            serde_json::from_str(include_str!("../vectors/locations.json")).unwrap();
        let mut codes = BTreeSet::new();
        for vector in &vectors {
            let got = of(&vector.text);
            match &got {
                Ok(Location::Local(path)) => {
                    assert_eq!(Some(*path), vector.local.as_deref(), "{}", vector.name);
                }
                Ok(Location::Remote(url)) => {
                    assert_eq!(
                        Some(url.as_str()),
                        vector.remote.as_deref(),
                        "{}",
                        vector.name
                    );
                    // A name names itself.
                    assert_eq!(
                        of(url),
                        Ok(Location::Remote(url.clone())),
                        "{}",
                        vector.name
                    );
                    assert!(local(&vector.text).is_err());
                }
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
        assert_eq!(codes.len(), 6, "each refusal has a vector");
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
