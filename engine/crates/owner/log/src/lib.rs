//! Transparency logs of what a data owner relies on: releases, and the owner's own policies.
//!
//! A log is a Merkle tree that only grows ([`tree`], RFC 9162). Who keeps it signs its size and
//! root, a [`Checkpoint`]; *witnesses* sign that too, each only if the tree grew from what it
//! signed before. So who has a checkpoint with signatures of enough witnesses, and a
//! [proof](Trust::verify) that an entry is in its tree, knows that everybody else can see that
//! entry too: a release that was made for one victim alone is in no log, or in one that its
//! maker's peers can read.
//!
//! Formats are those of C2SP: signed notes ([`note`]), checkpoints, cosignatures
//! (`tlog-cosignature`), proofs as files (`tlog-proof`), and tiles for the log itself
//! ([`keeper`], `tlog-tiles`).
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

mod checkpoint;
mod entry;
mod error;
pub mod keeper;
pub mod note;
mod proof;
pub mod tree;
mod trust;
pub mod whole;
mod witness;

pub use checkpoint::{Checkpoint, MOST_BYTES};
pub use entry::Entry;
pub use error::LogError;
pub use proof::Proof;
pub use trust::{Included, Trust};
pub use witness::cosign;
