//! The owner's X25519 key pair.

use coffer_protocol::{OwnerPublicKey, release::KeyPair};
use coffer_sealing::Secret;

/// The owner's key pair. Lives in the keyring.
#[derive(Clone)]
pub struct OwnerKey(KeyPair);

impl OwnerKey {
    /// A fresh pair, of an owner without a keyring: keyrings make their own.
    pub fn generate() -> Result<Self, coffer_sealing::Error> {
        Ok(Self(KeyPair::generate()?))
    }

    pub(crate) fn from_secret(secret: Secret<32>) -> Result<Self, coffer_sealing::Error> {
        Ok(Self(KeyPair::from_secret(secret)?))
    }

    /// The public half.
    pub fn public(&self) -> OwnerPublicKey {
        OwnerPublicKey(self.0.public)
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.0
    }
}
