//! The targets, one module for each kind of bytes.

mod ashe_sum;
mod codec;
mod evidence;
mod file_key;
mod footer;
#[cfg(feature = "engine")]
mod fragment;
mod frames;
#[cfg(feature = "engine")]
mod generators;
#[cfg(feature = "engine")]
mod intervals;
mod key_metadata;
mod manifest;
mod messages;
mod plain;
mod policy;
#[cfg(feature = "engine")]
mod scans;
#[cfg(feature = "engine")]
mod tasks;
mod wire;

use crate::{Seed, Target};

/// All targets of this build.
pub fn targets() -> Vec<Target> {
    let light = [
        frames::TARGET,
        messages::TARGET,
        wire::TARGET,
        codec::TARGET,
        manifest::TARGET,
        key_metadata::TARGET,
        file_key::TARGET,
        footer::SEALED,
        footer::PLAINTEXT,
        footer::ADOPTED,
        plain::TARGET,
        evidence::TARGET,
        policy::TARGET,
        ashe_sum::TARGET,
    ];
    #[cfg(feature = "engine")]
    let heavy = [
        fragment::TARGET,
        tasks::DESCRIPTOR,
        tasks::OBJECT,
        tasks::STREAM,
        tasks::PAYLOAD,
        scans::SEALED,
        scans::PLAIN,
    ];
    #[cfg(not(feature = "engine"))]
    let heavy = [];
    light.into_iter().chain(heavy).collect()
}

fn seed(name: &'static str, bytes: impl Into<Vec<u8>>) -> Seed {
    Seed {
        name,
        bytes: bytes.into(),
    }
}

/// A copy with some bytes at a place written over.
fn with(bytes: &[u8], at: usize, patch: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + patch.len()].copy_from_slice(patch);
    bytes
}

/// A copy of a text with one place changed, which it must have.
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

/// A changed copy of a message, encoded.
fn encoded<M: prost::Message + Clone>(message: &M, change: impl FnOnce(&mut M)) -> Vec<u8> {
    let mut message = message.clone();
    change(&mut message);
    message.encode_to_vec()
}

/// A copy without its last bytes.
fn cut(bytes: &[u8], by: usize) -> Vec<u8> {
    bytes[..bytes.len() - by].to_vec()
}
