//! Handing keys to an attested engine: HPKE (RFC 9180) in Auth mode with X25519, HKDF-SHA-256 and
//! AES-256-GCM.
//!
//! One context for each engine and application. Its `info` holds protocol, evidence hash, challenge
//! and application. Each release has a sequence number and is sealed under a key exported from the
//! context for that number, so releases may arrive in any order; the engine accepts each once. Auth
//! mode proves to the engine that the owner it serves sent the keys; the engine's key in the
//! evidence proves to the owner who can read them.

mod error;
mod keys;
mod payload;

use coffer_sealing::{DerivationKey, Error as SealingError, Secret, fields::Writer};

use crate::evidence::PROTOCOL;

pub use error::ReleaseError;
pub use keys::{Kem, KeyPair, OwnerPublicKey, Private, Public};
pub use payload::ReleasePayload;

/// The suite's AEAD: its id goes into HPKE's key schedule, and nothing is sealed by it. Releases
/// are blobs of core/sealing, under keys that the context exports.
pub type Aead = hpke::aead::AesGcm256;
/// The key derivation of releases.
pub type Kdf = hpke::kdf::HkdfSha256;

const LABEL: &[u8] = b"coffer/1/release";
/// The longest name of an application, in bytes: it goes into `info`.
pub const MAX_APPLICATION: usize = 1024;

/// One release on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedRelease {
    /// HPKE's `enc`: the same for all releases of one context.
    pub encapsulated: [u8; 32],
    /// Its number, from 0.
    pub sequence: u64,
    /// The sealed payload.
    pub ciphertext: Vec<u8>,
}

/// The `info` of an engine's context.
pub fn info(evidence_hash: &[u8; 32], challenge: &[u8; 32], application: &str) -> Vec<u8> {
    let mut writer = Writer::with_capacity(128 + application.len());
    writer.string(LABEL).string(&PROTOCOL.to_le_bytes());
    writer
        .string(evidence_hash)
        .string(challenge)
        .string(application.as_bytes());
    writer.finish().to_vec()
}

/// The root under which the release of this number is sealed.
pub fn release_root(
    sequence: u64,
    export: impl FnOnce(&[u8], &mut [u8]) -> Result<(), hpke::HpkeError>,
) -> Result<DerivationKey, SealingError> {
    let mut writer = Writer::with_capacity(64);
    writer.string(LABEL).string(&sequence.to_le_bytes());
    let mut exported = zeroize::Zeroizing::new([0; 32]);
    export(&writer.finish(), exported.as_mut_slice()).map_err(|_| SealingError::Crypto)?;
    Ok(DerivationKey::new(
        "release",
        &Secret::from_bytes(*exported),
    ))
}

/// Of the sealed payload.
pub const BLOB_LABEL: &str = "release";
