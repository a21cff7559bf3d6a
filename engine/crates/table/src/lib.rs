//! Sealed tables: a folder of standard Parquet files under Parquet Modular Encryption, an encrypted manifest that pins
//! every one of them, and the register at home that knows which manifest is the newest.
//!
//! Two sites use this crate. The trusted site opens tables ([`open_table`] gives a [`VerifiedManifest`], and nothing else
//! does), writes versions of them ([`TableWrite`]), checks and cleans them ([`verify`](mod@verify), [`clean`]). An enclave has neither
//! keyring nor manifest: it is given [`FooterPin`]s and column KEKs, opens files through [`footer::open`] with a [`KekRetriever`], and
//! writes them with a [`TableWriter`].
//!
//! Nothing here trusts storage: every path, length and byte of a table's folder comes from the host.
//! What this crate does not do: hide sizes, file counts or access patterns.
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
mod adopted;
pub mod char_varchar;
pub mod clean;
pub mod convert;
mod destroy;
mod disk;
mod error;
mod find;
mod folder;
pub mod footer;
mod kms;
mod lease;
pub mod lengths;
mod manifest;
mod open;
mod order;
mod own_bytes;
mod partition;
pub mod plain;
pub mod pme;
pub mod policy;
mod publish;
mod read;
mod reencrypt;
mod register;
mod rewrap;
mod spark_type;
pub mod spelling;
pub mod stored;
pub mod verify;
mod write;
mod writer;

pub use adopt::{AdoptAs, AdoptError, Adoption};
pub use adopted::{Adopted, AdoptedKey};
pub use destroy::Destroyed;
pub use error::{Error, Fault, NotAFile, io_code, parquet_code};
pub use find::{Target, is_absent, is_unknown, unfinished_at};
pub use footer::{FooterPin, OpenedFooter};
pub use kms::Kms;
pub use lease::{Lease, Use};
pub use manifest::{Column, Digest, Envelope, FilePin, MANIFEST_FOLDER, Manifest, RowGroupPin, manifest_name};
pub use open::{VerifiedManifest, open_table};
pub use order::ColumnOrder;
pub use partition::{PartitionValue, can_partition, partition_value};
pub use plain::{ChunkPins, PlainFile, PlainPin, PlainTable};
pub use pme::{KekRetriever, KeyMaterial};
pub use read::{FileReader, open_foreign};
pub use reencrypt::Reencryption;
pub use register::{AuditHead, HeldKey, LinkRecord, Register, TableRecord, Version};
pub use rewrap::{RewrapOptions, Rewrapped, Wrapping, rewrap};
pub use spark_type::{SparkType, UnsupportedType, parse_ddl};
pub use stored::{Codec, Form, LinkKeys, StoredColumn};
pub use write::{Change, NewColumns, TableWrite};
pub use writer::{FileGuard, FileWriter, TableWriter, WriteId, WriteOptions, WrittenFile};
