//! The audit log: an append-only, hash-chained record, at the client site, of every release of keys
//! and every refusal.
//!
//! [`AuditLog::append`] returns only when the record is on the disk and the register knows it;
//! whoever releases something calls it first, and releases nothing if it fails.
//! [`AuditLog::verify`] says at which record the log was edited, reordered or cut.
//!
//! The log is for who has the keyring: a MAC under one of its keys is in each record, so nobody
//! else can add one. It does not protect against the owner, nor against who takes config directory
//! and register back together to an older state: that shows in the tables' versions only.
//!
//! Lock order: the log's lock, then the register's. Never append while the register is locked.
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

mod error;
mod line;
mod log;
mod record;
mod seldom;
mod verify;

pub use error::{AuditError, Flaw};
pub use log::{AuditLog, instant, now};
pub use record::{EngineUse, Event, Outcome, Query, Record, TableUse, Who};
pub use seldom::Seldom;
pub use verify::{Records, Report};
