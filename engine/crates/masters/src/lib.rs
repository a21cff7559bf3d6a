//! Masters outside of the keyring, for the trusted site: network clients and HSM modules that wrap table keys and link keys.
//!
//! Not for enclaves, which never ask a KMS: only the client engine and the command line link this crate. An address comes from the
//! policy alone, never from a table's files.
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::as_conversions
    )
)]

use coffer_keys::{KeyContext, MasterError, MasterKeys, MasterState, MasterUri, Masters, Policy};
use coffer_sealing::Secret;

/// The masters of a policy. Nobody is asked yet.
pub fn of(policy: &Policy) -> Masters {
    Masters::of(policy, |_, uri| open(uri))
}

fn open(uri: &MasterUri) -> Box<dyn MasterKeys> {
    Box::new(NoClient(uri.to_string()))
}

/// A kind of master that this version cannot ask.
struct NoClient(String);

impl NoClient {
    fn refuse<T>(&self) -> Result<T, MasterError> {
        Err(MasterError::Settings {
            of: self.0.clone(),
            reason: "this version has no client for it".to_owned(),
        })
    }
}

impl MasterKeys for NoClient {
    fn describe(&self) -> String {
        self.0.clone()
    }

    fn wrap(&self, _: &KeyContext, _: &Secret<32>) -> Result<Vec<u8>, MasterError> {
        self.refuse()
    }

    fn unwrap(&self, _: &KeyContext, _: &[u8]) -> Result<Secret<32>, MasterError> {
        self.refuse()
    }

    fn version_of(&self, _: &[u8]) -> Result<String, MasterError> {
        self.refuse()
    }

    fn state(&self) -> Result<MasterState, MasterError> {
        self.refuse()
    }
}
