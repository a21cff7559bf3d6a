//! AES-256 (and AES-128, for RFC 5297's vectors) as a block function and as a keystream.

use aws_lc_rs::cipher::{AES_128, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;

use crate::SchemeError;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 16;

/// The block function: a pseudo-random permutation.
pub(crate) struct Aes(EncryptingKey);

impl Aes {
    /// From 16 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Result<Self, SchemeError> {
        Ok(Self(
            EncryptingKey::ecb(unbound(key)?).map_err(|_| SchemeError::Crypto)?,
        ))
    }

    /// Encrypts each block of `blocks` for itself; a multiple of 16 bytes.
    pub(crate) fn blocks(&self, blocks: &mut [u8]) -> Result<(), SchemeError> {
        self.0.encrypt(blocks).map_err(|_| SchemeError::Crypto)?;
        Ok(())
    }

    /// One block.
    pub(crate) fn block(&self, mut block: [u8; BLOCK]) -> Result<[u8; BLOCK], SchemeError> {
        self.blocks(&mut block)?;
        Ok(block)
    }
}

/// The counter mode: block number t of the stream is AES(start + t).
pub(crate) struct Keystream(EncryptingKey);

impl Keystream {
    pub(crate) fn new(key: &[u8]) -> Result<Self, SchemeError> {
        Ok(Self(
            EncryptingKey::ctr(unbound(key)?).map_err(|_| SchemeError::Crypto)?,
        ))
    }

    /// XORs the stream that starts at `counter` into `bytes`.
    pub(crate) fn apply(&self, counter: [u8; BLOCK], bytes: &mut [u8]) -> Result<(), SchemeError> {
        let context = EncryptionContext::Iv128(FixedLength::from(counter));
        self.0
            .less_safe_encrypt(bytes, context)
            .map_err(|_| SchemeError::Crypto)?;
        Ok(())
    }
}

fn unbound(key: &[u8]) -> Result<UnboundCipherKey, SchemeError> {
    let algorithm = if key.len() == 16 { &AES_128 } else { &AES_256 };
    UnboundCipherKey::new(algorithm, key).map_err(|_| SchemeError::Crypto)
}
