//! The engine process: sessions, tasks, sealed frames over a socket.
//!
//! The library holds what the enclave binary (`coffer-engine`) is made of: [`connection`] speaks the task protocol,
//! [`enclave`] is one engine's state, [`session`] one query's keys in it, [`task`] one task from START to DONE. The client
//! engine (`coffer-client`) shares the framing ([`wire`]), the listener ([`listen`], [`address`]) and the process's manners
//! ([`hardening`], [`lifeline`]). What this crate is not: it has no policy, verifies no evidence, calls no KMS and never
//! sees a table key; those live on the trusted site.
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod address;
mod attest;
mod broadcast;
mod channel;
pub mod connection;
pub mod enclave;
pub mod hardening;
pub mod horizon;
pub mod issue;
pub mod lifeline;
pub mod listen;
pub mod session;
pub mod size;
pub mod spill;
pub mod storage;
pub mod task;
pub mod wire;

pub use attest::AttestError;
