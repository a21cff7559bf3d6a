//! The protections of a column: one module for each scheme, behind one trait, over whole Arrow
//! columns.
//!
//! What each of them shows to whoever holds the files, what it allows without a key and what it
//! costs is in one place,
//! [`table`]: a new scheme is a module and a row there.
//!
//! No I/O and no key management here: a caller brings a [`SchemeKey`] and a [`ColumnSpec`], and
//! says with a [`RowPositions`] where rows lie for the schemes that need it. NULL stays NULL in
//! every stored column, and the host sees it. docs/reference/schemes.md says what each scheme is
//! worth.
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

mod aes;
pub mod ashe;
pub mod char_text;
mod codec;
pub mod det;
mod domain;
mod error;
pub mod ope;
pub mod ore;
pub mod plain;
mod positions;
mod protection;
mod scheme;
mod siv;
pub mod standard;
pub mod table;
pub mod tee;

pub use ashe::{Ashe, AsheSum, SumOpening};
pub use det::Det;
pub use domain::{Domain, Ordinals};
pub use error::{SchemeError, SealingError, Side};
pub use ope::Ope;
pub use ore::Ore;
pub use plain::Plain;
pub use positions::{FileId, FileIds, RowPositions};
pub use protection::{Protection, Protections, UnknownProtection};
pub use scheme::{ColumnSpec, Scheme, SchemeKey};
pub use standard::Standard;
pub use table::{Capability, Leakage, Opener, Setting};
pub use tee::Tee;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod vectors;
