//! Signed statements, as files that are checked without a cluster.
//!
//! A [`Receipt`] says of a query what it read, by which code, under which policy, and what came of
//! it: what the client engine itself knows of one session, and the names of the operators that the
//! driver says it ran over what it was given. Results are in it by their [`ResultDigest`].
//!
//! A [`Release`](coffer_custody::Release) says which files are Coffer's, and what they were made
//! from.
//!
//! Both are signed in an [`Envelope`].
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
