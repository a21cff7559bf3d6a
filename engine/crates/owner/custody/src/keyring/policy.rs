//! The key that the policy is authenticated with.

use aws_lc_rs::hmac;
use coffer_sealing::{DerivationKey, Error as SealingError};

/// Signs the owner's policy. Who has it has the keyring's passphrase.
#[derive(Clone)]
pub struct PolicyKey(pub(super) DerivationKey);

impl PolicyKey {
    /// HMAC-SHA-256 of a version of the policy.
    pub(crate) fn mac(&self, version: u64, text: &[u8]) -> Result<[u8; 32], SealingError> {
        let tag = hmac::sign(&self.hmac()?, &message(version, text));
        tag.as_ref().try_into().map_err(|_| SealingError::Crypto)
    }

    /// Whether that is the MAC. Compared in constant time.
    pub(crate) fn is_mac(&self, version: u64, text: &[u8], mac: &[u8]) -> bool {
        self.hmac()
            .is_ok_and(|key| hmac::verify(&key, &message(version, text), mac).is_ok())
    }

    fn hmac(&self) -> Result<hmac::Key, SealingError> {
        let key = self.0.derive("policy mac", &[])?;
        Ok(hmac::Key::new(hmac::HMAC_SHA256, key.expose()))
    }
}

/// The version has a fixed length, so no two pairs have the same bytes.
fn message(version: u64, text: &[u8]) -> Vec<u8> {
    [version.to_le_bytes().as_slice(), text].concat()
}

#[cfg(test)]
mod tests {
    use coffer_sealing::Secret;

    use super::*;

    #[test]
    fn a_mac_is_of_one_key_one_version_and_one_text() {
        let key = |byte| {
            PolicyKey(DerivationKey::new(
                "policy",
                &Secret::from_bytes([byte; 32]),
            ))
        };
        let (one, other) = (key(1), key(2));
        let mac = one.mac(3, b"text").unwrap();
        assert!(one.is_mac(3, b"text", &mac));
        assert!(
            !one.is_mac(4, b"text", &mac)
                && !one.is_mac(3, b"texts", &mac)
                && !other.is_mac(3, b"text", &mac)
        );
        assert!(!one.is_mac(3, b"text", &mac[..31]));
    }
}
