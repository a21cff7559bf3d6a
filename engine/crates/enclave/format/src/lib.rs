//! The files of sealed tables: standard Parquet under Parquet Modular Encryption, as an enclave
//! reads and writes them.
//!
//! There is neither manifest nor master here. Who uses this crate is given [`FooterPin`]s and
//! column KEKs, opens files through [`footer::open`] with a [`KekRetriever`], and writes them with
//! a [`TableWriter`]. Where columns are stored as ciphertexts of the owner's schemes, the owner's
//! side hands the writer a [`RowEncoder`].
//!
//! Nothing here trusts storage: every path, length and byte of a file comes from the host.
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

mod adopted;
pub mod char_varchar;
pub mod digests;
mod encoder;
mod error;
pub mod files;
pub mod folder;
pub mod footer;
pub mod lengths;
mod order;
pub mod output;
mod own_bytes;
pub mod partition;
mod pins;
pub mod plain;
pub mod pme;
mod spark_type;
pub mod stored_column;
pub mod writer;

pub use adopted::{Adopted, AdoptedKey};
pub use encoder::RowEncoder;
pub use error::{Error, Fault, NotAFile, io_code, parquet_code};
pub use files::{Direct, Disk};
pub use footer::{FooterPin, OpenedFooter};
pub use order::ColumnOrder;
pub use partition::{PartitionValue, can_partition, partition_value};
pub use pins::{Column, Digest, FilePin, RowGroupPin, hex_bytes};
pub use plain::PlainPin;
pub use pme::{KekRetriever, KeyMaterial};
pub use spark_type::{SparkType, UnsupportedType, parse_ddl};
pub use stored_column::{StoredColumn, StoredEncoding};
pub use writer::{FileGuard, FileWriter, TableWriter, WriteId, WriteOptions, WrittenFile};
