//! Frames, streams and the key schedule of a query: what makes bytes that cross a host safe to
//! believe.
//!
//! Three shapes of sealed bytes, all AES-256-GCM under keys that HKDF-SHA-256 derives from a
//! [`SessionKey`] (or, for spill, from a key of the file's own):
//! * a **stream** of frames ([`stream`]): shuffle, broadcast, result, sample. Counted, with a last
//!   frame;
//! * a **message** ([`message`]): fragment, descriptor, objects, commit record, metrics, error. One
//!   piece, random id;
//! * a **spill file** ([`spill`]): a stream whose key never leaves the process.
//!
//! What the crate guarantees: nobody outside can alter, reorder, cut, repeat or move a frame or
//! message to another place without an error here, and no caller ever picks a nonce, but of the one
//! key that is named for it. A stream's key includes the attempt id, which [`Attempt`] draws
//! itself, and each target of an attempt can be sealed once only.
//!
//! What it does not do: I/O, replay across streams (which attempt counts is decided by the commit
//! records, one layer up), hiding of lengths, and no meaning of the plaintext. It knows neither
//! Arrow nor Spark.
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

mod aead;
pub mod blob;
mod bytes;
mod digest;
mod error;
mod execution;
pub mod fields;
pub mod frame;
mod ids;
pub mod kek;
pub mod message;
pub mod object;
mod reader;
mod schedule;
mod secret;
pub mod spill;
pub mod stream;
mod table;
#[cfg(feature = "unsealed")]
mod unsealed;

pub use aead::InsecureNumberedKey;
pub use blob::{open_blob, seal_blob};
pub use digest::sha256;
pub use error::{Error, Fault, RefusedBy};
pub use execution::{split_execution, with_execution};
pub use frame::{MAX_FRAME_LEN, OpenedFrame};
pub use ids::{
    AttemptId, ColumnId, ExecutionId, LinkId, MessageId, Partition, RunId, SessionId,
    SessionIssuer, StageId, TableId,
};
pub use kek::{Kek, KekError, KekId, KekSet};
pub use message::{MessageIdentity, Purpose, identity, open_message, seal_message};
pub use object::{ObjectKind, open_object, seal_object};
pub use reader::{OpenedStream, SealedFrame, StreamReader};
pub use schedule::{DerivationKey, SessionKey};
pub use secret::{Secret, fill_random};
pub use spill::{SpillKey, SpillReader, SpillWriter};
pub use stream::{
    Attempt, StreamIdentity, StreamOpener, StreamPreamble, StreamSealer, StreamTarget,
};
pub use table::Hint;

#[cfg(not(feature = "unsealed"))]
use aead::Key as FrameKey;
#[cfg(feature = "unsealed")]
use unsealed::Key as FrameKey;

/// Whether this is the unsafe build for benchmarks that leaves frames open.
pub const UNSEALED: bool = cfg!(feature = "unsealed");
/// Whether such a build leaves the pages of tables open too.
pub const OPEN_TABLES: bool = UNSEALED && !cfg!(feature = "sealed-tables");
/// What every program of such a build says first.
#[cfg(feature = "unsealed")]
pub const UNSEALED_WARNING: Option<&str> = Some(unsealed::WARNING);
/// What every program of an unsealed build says first; this is none.
#[cfg(not(feature = "unsealed"))]
pub const UNSEALED_WARNING: Option<&str> = None;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
