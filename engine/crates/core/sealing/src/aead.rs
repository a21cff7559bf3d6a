//! AES-GCM: the only file that sets it up and builds nonces, whoever has the keys.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey,
};
use zeroize::Zeroizing;

use crate::{Error, Secret, fill_random};

/// Bytes of a tag.
pub(crate) const TAG_LEN: usize = 16;

/// A key under which each counter is used for one plaintext only: the callers in this crate see to
/// it.
pub(crate) struct Key(LessSafeKey);

impl Key {
    pub(crate) fn new(secret: &Secret<32>) -> Result<Self, Error> {
        set_up(secret.expose()).map(Self)
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

/// A key whose caller says which nonce is used, by a number: for plaintexts that have one of their
/// own under a key of their own, such as the rows of a file.
///
/// Insecure by itself: two plaintexts under one number show their difference, and tags can then be
/// forged.
pub struct InsecureNumberedKey(Key);

impl InsecureNumberedKey {
    /// Of these bytes.
    pub fn new(secret: &Secret<32>) -> Result<Self, Error> {
        Key::new(secret).map(Self)
    }

    /// Seals `in_out` where it lies and returns the tag, which goes behind it.
    pub fn seal(&self, number: u64, in_out: &mut [u8]) -> Result<[u8; TAG_LEN], Error> {
        let tag = self.0.seal(number, &[], in_out)?;
        tag.as_ref().try_into().map_err(|_| Error::Crypto)
    }

    /// Opens `in_out`, ciphertext and tag, where it lies, and returns how long the plaintext is,
    /// its first part.
    pub fn open(&self, number: u64, in_out: &mut [u8]) -> Result<usize, Error> {
        self.0.open(number, &[], in_out)?;
        Ok(in_out.len().saturating_sub(TAG_LEN))
    }
}

/// `nonce ‖ ciphertext ‖ tag` under a nonce that is drawn here: how the PME key tools wrap keys.
/// The key has 32 bytes; or 16, to open what others wrapped.
pub(crate) fn wrap(key: &[u8], aad: &[u8], plain: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut nonce = [0; NONCE_LEN];
    fill_random(&mut nonce)?;
    wrap_with(nonce, key, aad, plain)
}

/// The nonce is drawn above, always; only the making of test vectors gives one.
pub(crate) fn wrap_with(
    nonce: [u8; NONCE_LEN],
    key: &[u8],
    aad: &[u8],
    plain: &[u8],
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let length = plain
        .len()
        .saturating_add(NONCE_LEN)
        .saturating_add(TAG_LEN);
    let mut sealed = Zeroizing::new(Vec::with_capacity(length));
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(plain);
    let body = sealed.get_mut(NONCE_LEN..).unwrap_or_default();
    let tag = (set_up(key)?)
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), body)
        .map_err(|_| Error::Crypto)?;
    sealed.extend_from_slice(tag.as_ref());
    Ok(sealed)
}

/// What was wrapped so.
pub(crate) fn unwrap(key: &[u8], aad: &[u8], wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
    let need = NONCE_LEN;
    let short = Error::Truncated {
        need,
        got: wrapped.len(),
    };
    let (nonce, sealed) = wrapped.split_first_chunk::<NONCE_LEN>().ok_or(short)?;
    let mut plain = Zeroizing::new(sealed.to_vec());
    let length = (set_up(key)?)
        .open_in_place(
            Nonce::assume_unique_for_key(*nonce),
            Aad::from(aad),
            &mut plain,
        )
        .map_err(|_| Error::Unauthentic)?
        .len();
    plain.truncate(length);
    Ok(plain)
}

fn set_up(key: &[u8]) -> Result<LessSafeKey, Error> {
    let algorithm = if key.len() == 16 {
        &AES_128_GCM
    } else {
        &AES_256_GCM
    };
    let key = UnboundKey::new(algorithm, key).map_err(|_| Error::Crypto)?;
    Ok(LessSafeKey::new(key))
}

/// 96 bits: the counter, little-endian, then four zero bytes.
fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    for (to, from) in bytes.iter_mut().zip(counter.to_le_bytes()) {
        *to = from;
    }
    Nonce::assume_unique_for_key(bytes)
}
