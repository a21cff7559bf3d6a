//! A table's key and what is derived from it. The table key and the manifest key never leave the
//! client site.

use coffer_sealing::{
    ColumnId, DerivationKey, Error, Kek, KekId, Secret, TableId, open_blob, seal_blob,
};

/// A table's key. In the register it lies wrapped by a master ([`crate::Keyring::wrap`]).
#[derive(Clone)]
pub struct TableKey {
    table: TableId,
    secret: Secret<32>,
    root: DerivationKey,
}

impl TableKey {
    /// A fresh key for a table.
    pub fn generate(table: TableId) -> Result<Self, Error> {
        Ok(Self::from_secret(table, Secret::generate()?))
    }

    pub(crate) fn from_secret(table: TableId, secret: Secret<32>) -> Self {
        Self {
            table,
            root: DerivationKey::new("table", &secret),
            secret,
        }
    }

    pub(crate) fn secret(&self) -> &Secret<32> {
        &self.secret
    }

    pub(crate) fn root(&self) -> &DerivationKey {
        &self.root
    }

    /// Whose key it is.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// The KEK of a column.
    pub fn kek(&self, column: ColumnId) -> Result<Kek, Error> {
        let secret = self.root.derive(
            "column kek",
            &[self.table.as_bytes(), &column.0.to_le_bytes()],
        )?;
        Ok(Kek::new(KekId::column(self.table, column), secret))
    }

    /// The KEK of the files' footers.
    pub fn footer_kek(&self) -> Result<Kek, Error> {
        let secret = self.root.derive("footer kek", &[self.table.as_bytes()])?;
        Ok(Kek::new(KekId::footer(self.table), secret))
    }

    /// The key of the table's manifests.
    pub fn manifest_key(&self) -> Result<ManifestKey, Error> {
        let secret = self.root.derive("manifest", &[self.table.as_bytes()])?;
        Ok(ManifestKey {
            table: self.table,
            root: DerivationKey::new("manifest", &secret),
        })
    }

    /// A value that tells this key from every other, and nothing else of it: GCM alone does not
    /// commit to its key.
    pub fn key_check(&self) -> Result<[u8; 16], Error> {
        check_value(&self.root, self.table.as_bytes())
    }
}

/// The key-check value of a root, bound to a context.
pub(crate) fn check_value(root: &DerivationKey, context: &[u8]) -> Result<[u8; 16], Error> {
    let check = root.derive("key check", &[context])?;
    check
        .expose()
        .first_chunk::<16>()
        .copied()
        .ok_or(Error::Crypto)
}

/// Seals the manifests of one table, each for its version.
#[derive(Clone)]
pub struct ManifestKey {
    table: TableId,
    root: DerivationKey,
}

impl ManifestKey {
    /// Seals the manifest of a version; `envelope` is what lies in the clear before it, and is
    /// authenticated.
    pub fn seal(&self, version: u64, envelope: &[u8], plain: &[u8]) -> Result<Vec<u8>, Error> {
        seal_blob(
            &self.root,
            "manifest",
            &[self.table.as_bytes(), &version.to_le_bytes(), envelope],
            plain,
        )
    }

    /// Opens the manifest of a version.
    pub fn open(&self, version: u64, envelope: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Error> {
        open_blob(
            &self.root,
            "manifest",
            &[self.table.as_bytes(), &version.to_le_bytes(), envelope],
            sealed,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableId {
        TableId([7; 16])
    }

    #[test]
    fn every_column_has_a_key_of_its_own() {
        let key = TableKey::from_secret(table(), Secret::from_bytes([1; 32]));
        let other = TableKey::from_secret(TableId([8; 16]), Secret::from_bytes([1; 32]));
        let keks = [
            key.kek(ColumnId(0)),
            key.kek(ColumnId(1)),
            key.footer_kek(),
            other.kek(ColumnId(0)),
            other.footer_kek(),
        ];
        let distinct: std::collections::HashSet<[u8; 32]> =
            keks.into_iter().map(|kek| *kek.unwrap().expose()).collect();
        assert_eq!(distinct.len(), 5);
        assert_ne!(key.key_check().unwrap(), other.key_check().unwrap());
    }

    #[test]
    fn manifests_open_at_their_version_only() {
        let key = TableKey::generate(table()).unwrap().manifest_key().unwrap();
        let sealed = key.seal(3, b"envelope", b"files").unwrap();
        assert_eq!(key.open(3, b"envelope", &sealed).unwrap(), b"files");
        assert!(key.open(2, b"envelope", &sealed).is_err());
        assert!(key.open(3, b"other", &sealed).is_err());
        let other = TableKey::generate(table()).unwrap().manifest_key().unwrap();
        assert!(other.open(3, b"envelope", &sealed).is_err());
    }
}
