//! The key schedule: one root per session (or table, or keyring), every other key derived from it
//! by HKDF-SHA-256 (RFC 5869). `info` is the label and then the parts of the identity, each behind
//! its length as u32 LE, so that no two different lists of parts read the same.

use aws_lc_rs::hkdf;

use crate::{Error, Secret, SessionId};

/// A root of derivation. Seals nothing itself.
///
/// Roots of different domains derive unrelated keys even from equal bytes.
#[derive(Clone)]
pub struct DerivationKey(hkdf::Prk);

impl DerivationKey {
    /// The root for `domain`, such as `"session"` or `"table"`.
    pub fn new(domain: &str, secret: &Secret<32>) -> Self {
        let salt = format!("coffer/1/{domain}");
        Self(hkdf::Salt::new(hkdf::HKDF_SHA256, salt.as_bytes()).extract(secret.expose()))
    }

    /// The key for one purpose (`label`) and one identity (`parts`).
    pub fn derive(&self, label: &str, parts: &[&[u8]]) -> Result<Secret<32>, Error> {
        let mut info = Vec::with_capacity(128);
        append_part(&mut info, label.as_bytes())?;
        for part in parts {
            append_part(&mut info, part)?;
        }
        let mut key = zeroize::Zeroizing::new([0; 32]);
        self.0
            .expand(&[&info], hkdf::HKDF_SHA256)
            .and_then(|okm| okm.fill(key.as_mut_slice()))
            .map_err(|_| Error::Crypto)?;
        Ok(Secret::from_bytes(*key))
    }
}

fn append_part(info: &mut Vec<u8>, part: &[u8]) -> Result<(), Error> {
    let length = u32::try_from(part.len()).map_err(|_| Error::TooLong { length: part.len() })?;
    info.extend_from_slice(&length.to_le_bytes());
    info.extend_from_slice(part);
    Ok(())
}

/// The key of one session: drawn by the client engine, released to attested engines, root of all
/// the query's keys.
#[derive(Clone)]
pub struct SessionKey {
    secret: Secret<32>,
    root: DerivationKey,
}

impl SessionKey {
    /// A fresh key.
    pub fn generate() -> Result<Self, Error> {
        Ok(Self::from_secret(Secret::generate()?))
    }

    /// The key that a release brought.
    pub fn from_secret(secret: Secret<32>) -> Self {
        Self {
            root: DerivationKey::new("session", &secret),
            secret,
        }
    }

    /// The key of a session whose rows are cached: from the application's cache key, so that what
    /// another application cached never opens.
    pub fn of_cache(application: &DerivationKey, session: SessionId) -> Result<Self, Error> {
        let secret = application.derive("cache session", &[session.as_bytes()])?;
        Ok(Self::from_secret(secret))
    }

    /// The bytes, for a release.
    pub fn expose(&self) -> &[u8; 32] {
        self.secret.expose()
    }

    /// The key that hash partitioning mixes into its hash: one for a session, so that both sides of
    /// a join agree.
    pub fn partitioning_key(&self, session: SessionId) -> Result<Secret<32>, Error> {
        self.root.derive("partitioning", &[session.as_bytes()])
    }

    /// The root, for the crate's own streams and messages.
    pub(crate) fn root(&self) -> &DerivationKey {
        &self.root
    }
}
