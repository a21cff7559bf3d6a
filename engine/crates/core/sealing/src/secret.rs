//! Secret bytes as a type.

use aws_lc_rs::{constant_time::verify_slices_are_equal, rand};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::Error;

/// Fills `bytes` from the system's random source.
pub fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    rand::fill(bytes).map_err(|_| Error::Randomness)
}

/// `N` secret bytes: zeroed on drop, without `Debug` or `==`, read only by the searchable word
/// [`Secret::expose`].
///
/// Kept on the heap, so that moving the value leaves no copy behind.
pub struct Secret<const N: usize>(Box<Zeroizing<[u8; N]>>);

impl<const N: usize> Secret<N> {
    /// Fresh random bytes.
    pub fn generate() -> Result<Self, Error> {
        let mut secret = Self(Box::new(Zeroizing::new([0; N])));
        fill_random(secret.0.as_mut_slice())?;
        Ok(secret)
    }

    /// Takes the bytes over; the caller's copy is the caller's to zeroize.
    pub fn from_bytes(mut bytes: [u8; N]) -> Self {
        let secret = Self(Box::new(Zeroizing::new(bytes)));
        bytes.zeroize();
        secret
    }

    /// From a slice of exactly `N` bytes.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, Error> {
        let mut secret = Self(Box::new(Zeroizing::new([0; N])));
        if bytes.len() != N {
            return Err(Error::WrongLength {
                want: N,
                got: bytes.len(),
            });
        }
        secret.0.copy_from_slice(bytes);
        Ok(secret)
    }

    /// The bytes themselves.
    pub fn expose(&self) -> &[u8; N] {
        &self.0
    }

    /// Equality in time that does not depend on the contents.
    pub fn ct_eq(&self, other: &Self) -> bool {
        verify_slices_are_equal(self.0.as_slice(), other.0.as_slice()).is_ok()
    }
}

impl<const N: usize> ZeroizeOnDrop for Secret<N> {}

impl<const N: usize> Clone for Secret<N> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
