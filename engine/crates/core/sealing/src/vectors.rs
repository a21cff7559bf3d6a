//! The harness of `vectors/*.json`: what is opened, where, and what comes of it. `COFFER_BLESS=1`
//! writes the files. The tests of `coffer-custody` compile this file too, over the vectors of their
//! own crate.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case<P> {
    pub(crate) name: String,
    pub(crate) context: P,
    /// Hex.
    pub(crate) bytes: String,
    /// `"opens"`, or the `code()` of the error.
    pub(crate) outcome: String,
}

impl<P> Case<P> {
    pub(crate) fn new(name: &str, context: P, bytes: &[u8], outcome: &str) -> Self {
        Self {
            name: name.into(),
            context,
            bytes: hex::encode(bytes),
            outcome: outcome.into(),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        hex::decode(&self.bytes).unwrap()
    }
}

/// Tests run in the crate's folder; what was compiled may be another clone's.
pub(crate) fn path(file: &str) -> PathBuf {
    PathBuf::from("vectors").join(file)
}

pub(crate) fn stored<P: for<'a> Deserialize<'a>>(file: &str) -> Vec<Case<P>> {
    serde_json::from_str(&std::fs::read_to_string(path(file)).unwrap()).unwrap()
}

/// Compares `made` with the file, then holds every case of the file to its word.
pub(crate) fn check<P, T>(
    file: &str,
    made: Vec<Case<P>>,
    open: impl Fn(&Case<P>) -> Result<T, &'static str>,
) where
    P: Serialize + for<'a> Deserialize<'a> + PartialEq + std::fmt::Debug,
{
    if std::env::var_os("COFFER_BLESS").is_some() {
        std::fs::write(
            path(file),
            serde_json::to_string_pretty(&made).unwrap() + "\n",
        )
        .unwrap();
    }
    let stored = stored::<P>(file);
    assert_eq!(stored, made, "{file} is stale, or the format changed");
    let names: std::collections::HashSet<&str> =
        stored.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), stored.len(), "two vectors share a name");
    assert!(
        stored.iter().filter(|case| case.outcome != "opens").count() * 2 > stored.len(),
        "most must fail"
    );
    for case in &stored {
        let got = open(case).map_or_else(|code| code, |_| "opens");
        assert_eq!(got, case.outcome, "{}", case.name);
    }
}

/// `bytes` with the bits of `mask` flipped at `at`.
pub(crate) fn flipped(bytes: &[u8], at: usize, mask: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= mask;
    bytes
}
