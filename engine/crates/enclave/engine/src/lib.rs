//! The engine process: sessions, tasks, sealed frames over a socket.
//!
//! The library holds what the enclave binary (`coffer-engine`) is made of: [`connection`] speaks
//! the task protocol, [`enclave`] is one engine's state, [`session`] one query's keys in it,
//! [`task`] one task from START to DONE. It has no policy, verifies no evidence, calls no KMS and
//! never sees a table key: those live on the owner's side, which no crate of an enclave may depend
//! on.
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod attest;
mod broadcast;
mod channel;
pub mod connection;
pub mod enclave;
mod exchange;
pub mod horizon;
pub mod session;
pub mod size;
pub mod task;

pub use attest::AttestError;
