//! Frames that are not sealed, for measuring what sealing costs: the build-time feature `unsealed`,
//! which no release has.
//!
//! The layout stays: header, plaintext, and sixteen zero bytes where the tag would be. Only frames
//! (streams and spill) are left open, and in tables written by such a build the Parquet pages;
//! messages, manifests and the release of keys are sealed as ever, since they cost nothing that
//! could be measured. With the feature `sealed-tables` the pages are sealed too, and only frames
//! are open.
//!
//! An unsealed program cannot stand in for a sealed one: its version and its kind of evidence have
//! names of their own, so programs of the two builds refuse each other, and a policy that one of
//! them takes is an error for the other.

use crate::{Error, Secret, aead::TAG_LEN};

/// Found in every program of an unsealed build, and in no other: releases are searched for it.
pub(crate) const WARNING: &str = "COFFER-UNSEALED-BUILD: UNSAFE, this program seals nothing";

/// In the place of a frame's key.
pub(crate) struct Key;

impl Key {
    pub(crate) fn new(_: &Secret<32>) -> Result<Self, Error> {
        Ok(Self)
    }

    pub(crate) fn seal(&self, _: u64, _: &[u8], _: &mut [u8]) -> Result<[u8; TAG_LEN], Error> {
        Ok([0; TAG_LEN])
    }

    /// A frame of a sealed build does not open here either.
    pub(crate) fn open(&self, _: u64, _: &[u8], in_out: &mut [u8]) -> Result<(), Error> {
        match in_out.last_chunk::<TAG_LEN>() {
            Some(tag) if tag.iter().all(|byte| *byte == 0) => Ok(()),
            _ => Err(Error::Unauthentic),
        }
    }
}
