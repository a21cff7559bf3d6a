//! Keys of the schemes of host-readable columns, and the links that let columns share them.
//!
//! `det`, `ope` and `ore` keys are a column's, or a link's: columns of one link have comparable
//! ciphertexts, whatever table they are in. `ashe` and `std` keys are a stored column's; the
//! schemes derive a key for each file from them, because each of their pads and nonces must be used
//! once. None of them leaves the client site.

use coffer_schemes::Protection;
use coffer_sealing::{ColumnId, DerivationKey, Error, LinkId, Secret};

use crate::TableKey;

/// A link's key. In the register it lies wrapped by a master ([`crate::Keyring::wrap_link`]).
#[derive(Clone)]
pub struct LinkKey {
    link: LinkId,
    secret: Secret<32>,
    root: DerivationKey,
}

impl LinkKey {
    /// A fresh key for a link.
    pub fn generate(link: LinkId) -> Result<Self, Error> {
        Ok(Self::from_secret(link, Secret::generate()?))
    }

    pub(crate) fn from_secret(link: LinkId, secret: Secret<32>) -> Self {
        Self {
            link,
            root: DerivationKey::new("link", &secret),
            secret,
        }
    }

    pub(crate) fn secret(&self) -> &Secret<32> {
        &self.secret
    }

    /// Whose key it is.
    pub fn link(&self) -> LinkId {
        self.link
    }

    /// The key of a scheme (`det`, `ope` or `ore`) for all columns of the link.
    pub fn scheme_key(&self, scheme: Protection) -> Result<Secret<32>, Error> {
        self.root
            .derive("scheme", &[self.link.as_bytes(), scheme.name().as_bytes()])
    }
}

impl TableKey {
    /// The key of a scheme: `det`, `ope` or `ore` for a column of no link; `ashe` or `std` for a
    /// stored column, by its own id.
    pub fn scheme_key(&self, scheme: Protection, column: ColumnId) -> Result<Secret<32>, Error> {
        self.root().derive(
            "scheme",
            &[
                self.table().as_bytes(),
                scheme.name().as_bytes(),
                &column.0.to_le_bytes(),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coffer_sealing::TableId;

    #[test]
    fn every_scheme_column_and_link_has_its_own_key() {
        let table = TableKey::from_secret(TableId([1; 16]), Secret::from_bytes([9; 32]));
        let other = TableKey::from_secret(TableId([2; 16]), Secret::from_bytes([9; 32]));
        let link = LinkKey::from_secret(LinkId([1; 16]), Secret::from_bytes([9; 32]));
        let mut keys = Vec::new();
        for scheme in [Protection::Det, Protection::Ope, Protection::Ore] {
            keys.push(link.scheme_key(scheme).unwrap());
            for column in [ColumnId(1), ColumnId(2)] {
                keys.push(table.scheme_key(scheme, column).unwrap());
                keys.push(other.scheme_key(scheme, column).unwrap());
            }
        }
        for scheme in [Protection::Ashe, Protection::Std] {
            keys.push(table.scheme_key(scheme, ColumnId(1)).unwrap());
        }
        let distinct: std::collections::HashSet<[u8; 32]> =
            keys.iter().map(|key| *key.expose()).collect();
        assert_eq!(distinct.len(), keys.len());
        let again = table.scheme_key(Protection::Det, ColumnId(1)).unwrap();
        assert!(again.ct_eq(&keys[1]));
    }

    /// The derivation is part of the format: data files depend on it.
    #[test]
    fn derivations_are_fixed() {
        let table = TableKey::from_secret(TableId([1; 16]), Secret::from_bytes([9; 32]));
        let link = LinkKey::from_secret(LinkId([1; 16]), Secret::from_bytes([9; 32]));
        let hex = |key: Secret<32>| hex::encode(key.expose());
        assert_eq!(
            [
                hex(table.scheme_key(Protection::Det, ColumnId(3)).unwrap()),
                hex(link.scheme_key(Protection::Ope).unwrap()),
            ],
            [
                "2a510a66ca6940e88c51099cf97edab93162fe3b40d6166a3f67a8e5459f2be6",
                "e7965a8c433ad36b9630b1bbd58ed40edf615128dff06bbe3a43991add90b01e"
            ]
        );
    }
}
