//! Vectors, properties, and what the types must not allow.

mod messages;
mod properties;
mod sealers;
mod spills;
mod streams;

use serde::{Deserialize, Serialize};

use crate::{AttemptId, Secret, SessionId, SessionKey, stream::PREAMBLE_LEN};

/// One vector: what is opened, where, and what comes of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case<P> {
    name: String,
    context: P,
    bytes: String,
    /// Plaintexts when it opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plain: Option<Vec<String>>,
    /// [`crate::Error::code`] when it must not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl<P> Case<P> {
    fn opens(name: &str, context: P, bytes: &[u8], plain: &[&[u8]]) -> Self {
        let plain = plain.iter().map(hex::encode).collect();
        Self {
            name: name.into(),
            context,
            bytes: hex::encode(bytes),
            plain: Some(plain),
            error: None,
        }
    }

    fn fails(name: &str, context: P, bytes: &[u8], code: &str) -> Self {
        Self {
            name: name.into(),
            context,
            bytes: hex::encode(bytes),
            plain: None,
            error: Some(code.into()),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        hex::decode(&self.bytes).unwrap()
    }
}

/// Compares `made` with the file (`COFFER_BLESS=1` writes it instead), then holds every case of the
/// file to its word.
fn check_vectors<P>(
    file: &str,
    made: Vec<Case<P>>,
    open: impl Fn(&Case<P>) -> Result<Vec<Vec<u8>>, crate::Error>,
) where
    P: Serialize + for<'a> Deserialize<'a> + PartialEq + std::fmt::Debug,
{
    let path = crate::vectors::path(file);
    if std::env::var_os("COFFER_BLESS").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&made).unwrap() + "\n").unwrap();
    }
    let stored: Vec<Case<P>> =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(stored, made, "{file} is stale, or the format changed");

    let names: std::collections::HashSet<&str> =
        stored.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), stored.len(), "two vectors share a name");
    let failing = stored.iter().filter(|case| case.error.is_some()).count();
    assert!(failing * 2 > stored.len(), "most vectors must fail");
    for case in &stored {
        let got = open(case).map_err(|error| error.code().to_string());
        let want = match (&case.plain, &case.error) {
            (Some(plain), None) => Ok(plain
                .iter()
                .map(|bytes| hex::decode(bytes).unwrap())
                .collect()),
            (None, Some(code)) => Err(code.clone()),
            _ => panic!("{}: neither or both of plain and error", case.name),
        };
        assert_eq!(got, want, "{}", case.name);
    }
}

fn key(byte: u8) -> SessionKey {
    SessionKey::from_secret(Secret::from_bytes([byte; 32]))
}

fn session(byte: u8) -> SessionId {
    SessionId([byte; 16])
}

fn attempt(byte: u8) -> AttemptId {
    AttemptId([byte; 16])
}

/// Where each frame of a stream begins and ends, by its own headers.
fn frame_ranges(stream: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = PREAMBLE_LEN;
    while at < stream.len() {
        let end = at
            + crate::frame::FrameHeader::parse(&stream[at..])
                .unwrap()
                .frame_len()
                .unwrap();
        ranges.push(at..end);
        at = end;
    }
    ranges
}

/// `bytes` with the bits of `mask` flipped at `at`.
fn flipped(bytes: &[u8], at: usize, mask: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= mask;
    bytes
}
