//! What every long-lived process of Coffer is made of: where it listens ([`address`], [`listen`]),
//! what ends it ([`lifeline`]), what keeps its memory and its values out of files and logs
//! ([`memory`], [`hardening`]), what it says to operators (`log`), and the programs that it asks
//! ([`helper`]).
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

pub mod address;
pub mod hardening;
pub mod helper;
pub mod lifeline;
pub mod listen;
#[cfg(feature = "log")]
pub mod log;
pub mod memory;
pub mod vsock;
