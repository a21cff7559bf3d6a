//! The harness of `vectors/*.json`, which is that of `coffer-sealing`, and cases that are kept.

#[path = "../../../core/sealing/src/vectors.rs"]
mod harness;

use serde::Deserialize;

pub(crate) use harness::{Case, check, flipped};

/// The bytes of a stored case that cannot be made twice (it holds random parts), or when blessing
/// new ones.
pub(crate) fn base<P: for<'a> Deserialize<'a>>(
    file: &str,
    name: &str,
    make: impl FnOnce() -> Vec<u8>,
) -> Vec<u8> {
    if std::env::var_os("COFFER_BLESS").is_some() {
        return make();
    }
    kept::<P>(file, name)
}

/// The bytes of a stored case that this version no longer makes, and must go on opening; never made
/// anew.
pub(crate) fn kept<P: for<'a> Deserialize<'a>>(file: &str, name: &str) -> Vec<u8> {
    let cases = harness::stored::<P>(file);
    cases.iter().find(|case| case.name == name).unwrap().bytes()
}
