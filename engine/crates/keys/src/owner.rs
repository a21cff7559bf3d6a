//! The owner's X25519 key: the sender's key in HPKE Auth mode, and what evidence binds an engine to.

use coffer_sealing::{Secret, fill_random};
use hpke::{Deserializable, Kem as _, Serializable, kem::X25519HkdfSha256};

pub(crate) type Kem = X25519HkdfSha256;
pub(crate) type Private = <Kem as hpke::Kem>::PrivateKey;
pub(crate) type Public = <Kem as hpke::Kem>::PublicKey;

/// The owner's public key, 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerPublicKey(pub [u8; 32]);

impl OwnerPublicKey {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Display for OwnerPublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl std::fmt::Debug for OwnerPublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnerPublicKey({self})")
    }
}

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

/// An X25519 pair, of the owner or of an engine.
#[derive(Clone)]
pub(crate) struct KeyPair {
    pub(crate) secret: Secret<32>,
    pub(crate) public: [u8; 32],
}

impl KeyPair {
    pub(crate) fn generate() -> Result<Self, coffer_sealing::Error> {
        let mut seed = zeroize::Zeroizing::new([0; 32]);
        fill_random(seed.as_mut_slice())?;
        Self::from_secret(Secret::from_bytes(*seed))
    }

    pub(crate) fn from_secret(secret: Secret<32>) -> Result<Self, coffer_sealing::Error> {
        let private = Private::from_bytes(secret.expose()).map_err(|_| coffer_sealing::Error::Crypto)?;
        let public = Kem::sk_to_pk(&private).to_bytes().into();
        Ok(Self { secret, public })
    }

    pub(crate) fn private(&self) -> Result<Private, hpke::HpkeError> {
        Private::from_bytes(self.secret.expose())
    }
}
