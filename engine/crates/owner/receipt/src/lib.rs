//! Receipts: what a query read, by which code, under which policy, and what came of it, as a signed
//! file that is checked without a cluster.
//!
//! A [`Receipt`] is what the client engine itself knows of one session, and the names of the
//! operators that the driver says it ran over what it was given. It is signed in an [`Envelope`],
//! and results are in it by their [`ResultDigest`].
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

mod envelope;
mod receipt;
mod result;

pub use envelope::{Envelope, EnvelopeError};
pub use receipt::{
    AtClient, Input, Plan, Query, RECEIPT_TYPE, Receipt, ReceiptError, ResultPart, Written,
};
pub use result::{ResultDigest, ResultError};
