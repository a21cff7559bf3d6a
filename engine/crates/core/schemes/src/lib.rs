//! The protections of a column: one module for each scheme, behind one trait, over whole Arrow columns.
//!
//! | module | stored | the host learns |
//! |---|---|---|
//! | [`plain`] | the column | everything |
//! | [`tee`] | the column, which Parquet's encryption seals | sizes |
//! | [`standard`] | AES-256-GCM for each value | which values are NULL, lengths |
//! | [`det`] | AES-SIV (RFC 5297) | equality, which values are NULL, lengths |
//! | [`ope`] | Boldyreva et al. 2009 | order, about the upper half of the bits, which values are NULL |
//! | [`ore`] | Chenette, Lewi, Weis, Wu 2016 | order, the first differing bit of each pair, which values are NULL |
//! | [`ashe`] | Seabed's additively symmetric encryption | which rows each sum took, which values are NULL |
//!
//! No I/O and no key management here: a caller brings a [`SchemeKey`] and a [`ColumnSpec`], and says with a [`Place`] where
//! rows lie for the schemes that need it. NULL stays NULL in every stored column, and
//! the host sees it. docs/reference/schemes.md says what each scheme is worth.
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
mod place;
pub mod plain;
mod protection;
mod scheme;
mod siv;
pub mod standard;
pub mod tee;

pub use ashe::{Ashe, AsheSum, SumOpening};
pub use det::Det;
pub use domain::{Domain, Ordinals};
pub use error::{SchemeError, SealingError, Side};
pub use ope::Ope;
pub use ore::Ore;
pub use place::{FileId, FileIds, Place};
pub use plain::Plain;
pub use protection::Protection;
pub use scheme::{ColumnSpec, Computable, Scheme, SchemeKey};
pub use standard::Standard;
pub use tee::Tee;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod vectors;
