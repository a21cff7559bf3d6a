//! X25519 keys: the owner's, which is the sender's in HPKE Auth mode and what evidence binds an
//! engine to, and an engine's.

use coffer_sealing::{Secret, fill_random};
use hpke::{Deserializable, Kem as _, Serializable, kem::X25519HkdfSha256};

/// The key encapsulation of releases.
pub type Kem = X25519HkdfSha256;
/// The private half of a pair.
pub type Private = <Kem as hpke::Kem>::PrivateKey;
/// The public half of a pair.
pub type Public = <Kem as hpke::Kem>::PublicKey;

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

/// An X25519 pair, of the owner or of an engine.
#[derive(Clone)]
pub struct KeyPair {
    /// The private half.
    pub secret: Secret<32>,
    /// The public half.
    pub public: [u8; 32],
}

impl KeyPair {
    /// A fresh pair.
    pub fn generate() -> Result<Self, coffer_sealing::Error> {
        let mut seed = zeroize::Zeroizing::new([0; 32]);
        fill_random(seed.as_mut_slice())?;
        Self::from_secret(Secret::from_bytes(*seed))
    }

    /// The pair of a private half.
    pub fn from_secret(secret: Secret<32>) -> Result<Self, coffer_sealing::Error> {
        let private =
            Private::from_bytes(secret.expose()).map_err(|_| coffer_sealing::Error::Crypto)?;
        let public = Kem::sk_to_pk(&private).to_bytes().into();
        Ok(Self { secret, public })
    }

    /// The private half, for HPKE.
    pub fn private(&self) -> Result<Private, hpke::HpkeError> {
        Private::from_bytes(self.secret.expose())
    }
}
