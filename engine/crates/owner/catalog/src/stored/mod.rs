//! Stored columns at the client site: who lays them out, encrypts and opens them.

mod check;
mod codec;
mod domain;
mod layout;
mod read;

pub(crate) use check::check;
pub use codec::{Codec, LinkKeys};
pub(crate) use layout::{Links, is_needed, lay_out};
pub(crate) use read::StoredReader;
