//! Sealed tables at the owner's side: the encrypted manifest that pins every file of a table, and
//! the register in the config directory that knows which manifest is the newest.
//!
//! [`open_table`] gives a [`VerifiedManifest`], and nothing else does; [`TableWrite`] writes
//! versions of a table; [`verify`](mod@verify) and [`clean`] check and clear it. How the files
//! themselves are written and opened is `coffer-format`'s, which enclaves use too.
//!
//! Nothing here trusts storage: every path, length and byte of a table's folder comes from the
//! host. What this crate does not do: hide sizes, file counts or access patterns.
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

mod adopt;
pub mod clean;
pub mod convert;
mod destroy;
mod disk;
mod error;
mod find;
pub mod foreign;
mod journal;
mod kms;
mod lease;
mod manifest;
mod open;
pub mod plain;
pub mod policy;
mod publish;
mod read;
mod reencrypt;
mod register;
mod rewrap;
pub mod spelling;
pub mod stored;
mod table_file;
pub mod verify;
mod versions;
mod write;

pub use adopt::{AdoptAs, AdoptError, Adoption};
pub use destroy::Destroyed;
pub use disk::{FileWriter, Judged, TableWriter};
pub use error::Error;
pub use find::{Target, is_absent, is_unknown, unfinished_at};
pub use journal::{Journal, Noted, Resumed};
pub use kms::Kms;
pub use lease::{Lease, Use};
pub use manifest::{Envelope, MANIFEST_FOLDER, Manifest, manifest_name};
pub use open::{VerifiedManifest, open_table};
pub use plain::{ChunkPins, PlainFile, PlainTable};
pub use read::{FileReader, open_foreign};
pub use reencrypt::Reencryption;
pub use register::{AuditHead, HeldKey, LinkRecord, Register, TableRecord, Version};
pub use rewrap::{RewrapOptions, Rewrapped, Wrapping, rewrap};
pub use stored::{Codec, LinkKeys};
pub use write::{Change, NewColumns, TableWrite};
