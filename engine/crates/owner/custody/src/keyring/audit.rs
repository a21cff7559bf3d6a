//! The key of the audit log: authenticates its records, and seals the texts of queries in it.

use aws_lc_rs::hmac;
use coffer_sealing::{DerivationKey, Error as SealingError, open_blob, seal_blob};

/// Authenticates records of the audit log.
#[derive(Clone)]
pub struct AuditKey(pub(super) DerivationKey);

impl AuditKey {
    /// HMAC-SHA-256 of a record.
    pub fn mac(&self, record: &[u8]) -> Result<[u8; 32], SealingError> {
        let tag = hmac::sign(&self.hmac()?, record);
        tag.as_ref().try_into().map_err(|_| SealingError::Crypto)
    }

    /// Whether that is a record's MAC. Compared in constant time.
    pub fn is_mac(&self, record: &[u8], mac: &[u8]) -> bool {
        self.hmac()
            .is_ok_and(|key| hmac::verify(&key, record, mac).is_ok())
    }

    /// Seals the text of a query.
    pub fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, SealingError> {
        seal_blob(&self.0, "audit query", &[], plain)
    }

    /// Opens what [`AuditKey::seal`] made.
    pub fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, SealingError> {
        open_blob(&self.0, "audit query", &[], sealed)
    }

    fn hmac(&self) -> Result<hmac::Key, SealingError> {
        let key = self.0.derive("audit mac", &[])?;
        Ok(hmac::Key::new(hmac::HMAC_SHA256, key.expose()))
    }
}

#[cfg(test)]
mod tests {
    use coffer_sealing::Secret;

    use super::*;

    #[test]
    fn only_the_key_makes_macs_and_opens_texts() {
        let key = |byte| AuditKey(DerivationKey::new("audit", &Secret::from_bytes([byte; 32])));
        let (one, other) = (key(1), key(2));
        let mac = one.mac(b"record").unwrap();
        assert!(one.is_mac(b"record", &mac));
        assert!(
            !one.is_mac(b"Record", &mac)
                && !other.is_mac(b"record", &mac)
                && !one.is_mac(b"record", &mac[..31])
        );
        let sealed = one.seal(b"SELECT 1").unwrap();
        assert_eq!(one.open(&sealed).unwrap(), b"SELECT 1");
        assert!(other.open(&sealed).is_err());
    }
}
