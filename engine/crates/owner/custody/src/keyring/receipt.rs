//! The key that receipts are signed with. It is the only one of the keyring's whose public half
//! others are given, to check signatures by.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use coffer_sealing::{DerivationKey, Error as SealingError, Secret};

/// Why nothing was signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The key was not derived.
    #[error(transparent)]
    Sealing(#[from] SealingError),
    /// The library took no key of these bytes.
    #[error("the key is no Ed25519 key")]
    Key,
}

/// Signs receipts: Ed25519 (RFC 8032), derived from the keyring.
#[derive(Clone)]
pub struct ReceiptKey(pub(super) DerivationKey);

impl ReceiptKey {
    /// Of a secret that is no keyring's, for tests of signatures.
    pub fn of_secret(secret: &[u8; 32]) -> Self {
        Self(DerivationKey::new("receipt", &Secret::from_bytes(*secret)))
    }

    /// The public half, which checks signatures.
    pub fn public(&self) -> Result<[u8; 32], SignError> {
        let pair = self.pair()?;
        pair.public_key()
            .as_ref()
            .try_into()
            .map_err(|_| SignError::Key)
    }

    /// The public half and the signature of a message.
    pub fn sign(&self, message: &[u8]) -> Result<([u8; 32], [u8; 64]), SignError> {
        let signature = self.pair()?.sign(message);
        let signature = signature.as_ref().try_into().map_err(|_| SignError::Key)?;
        Ok((self.public()?, signature))
    }

    fn pair(&self) -> Result<Ed25519KeyPair, SignError> {
        let seed = self.0.derive("receipt signature", &[])?;
        Ed25519KeyPair::from_seed_unchecked(seed.expose()).map_err(|_| SignError::Key)
    }
}
