//! AES-256-GCM for this crate: the only file that builds nonces.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};

use crate::{Error, Secret};

/// Bytes of a tag.
pub(crate) const TAG_LEN: usize = 16;

/// A key under which each counter is used for one plaintext only: the callers in this crate see to it.
pub(crate) struct Key(LessSafeKey);

impl Key {
    pub(crate) fn new(secret: &Secret<32>) -> Result<Self, Error> {
        let key = UnboundKey::new(&AES_256_GCM, secret.expose()).map_err(|_| Error::Crypto)?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Seals `in_out` where it lies and returns the tag.
    pub(crate) fn seal(&self, counter: u64, aad: &[u8], in_out: &mut [u8]) -> Result<Tag, Error> {
        self.0
            .seal_in_place_separate_tag(nonce(counter), Aad::from(aad), in_out)
            .map_err(|_| Error::Crypto)
    }

    /// Opens `in_out`, ciphertext and tag, where it lies; the plaintext is its first part.
    pub(crate) fn open(&self, counter: u64, aad: &[u8], in_out: &mut [u8]) -> Result<(), Error> {
        match self.0.open_in_place(nonce(counter), Aad::from(aad), in_out) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Unauthentic),
        }
    }
}

/// 96 bits: the counter, little-endian, then four zero bytes.
fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    for (to, from) in bytes.iter_mut().zip(counter.to_le_bytes()) {
        *to = from;
    }
    Nonce::assume_unique_for_key(bytes)
}
