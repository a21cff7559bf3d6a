//! The engine process: sessions, tasks, sealed frames over a socket.
//!
//! The library holds what the enclave binary (`coffer-engine`) is made of. The client engine (`coffer-client`) shares the
//! framing ([`wire`]), the listener ([`listen`], [`address`]) and the process's manners ([`hardening`], [`lifeline`]); it
//! does not share sessions or tasks. What this crate is not: it has no policy, verifies no evidence, calls no KMS and
//! never sees a table key; those live on the trusted site.

pub mod address;
mod channel;
pub mod hardening;
pub mod lifeline;
pub mod listen;
pub mod spill;
pub mod wire;
