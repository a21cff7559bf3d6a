//! An engine's half of attestation: it has its TEE sign who it is ([`issue`]), and opens the keys
//! that an owner releases on the strength of that ([`ReleaseReceiver`]).
//!
//! What evidence and releases look like is `coffer-protocol`'s; who checks and sends them is the
//! owner's side, which no enclave has code of.
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

pub mod issue;
mod receiver;

pub use issue::{Issuer, Simulated};
pub use receiver::{EngineKey, ReleaseReceiver};
