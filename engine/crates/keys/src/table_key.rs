//! A table's key and what is derived from it. The table key and the manifest key never leave the trusted site.

use std::{fmt, str::FromStr};

use coffer_sealing::{DerivationKey, Error, Secret, fill_random, open_blob, seal_blob};

use crate::{Kek, KekId};

/// A table, whatever it is called: 128 random bits, not secret. Written as hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub [u8; 16]);

impl TableId {
    /// A new table's id.
    pub fn draw() -> Result<Self, Error> {
        let mut bytes = [0; 16];
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// From the 16 bytes of a message or file.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, Error> {
        Ok(Self(bytes.try_into().map_err(|_| Error::WrongLength {
            want: 16,
            got: bytes.len(),
        })?))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableId({self})")
    }
}

impl FromStr for TableId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| Error::WrongLength {
            want: 16,
            got: text.len() / 2,
        })?;
        Ok(Self(bytes))
    }
}

/// A column of a table: given once, never used again for another column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

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
        let secret = self
            .root
            .derive("column kek", &[self.table.as_bytes(), &column.0.to_le_bytes()])?;
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

    /// A value that tells this key from every other, and nothing else of it: GCM alone does not commit to its key.
    pub fn key_check(&self) -> Result<[u8; 16], Error> {
        check_value(&self.root, self.table.as_bytes())
    }
}

/// The key-check value of a root, bound to a context.
pub(crate) fn check_value(root: &DerivationKey, context: &[u8]) -> Result<[u8; 16], Error> {
    let check = root.derive("key check", &[context])?;
    check.expose().first_chunk::<16>().copied().ok_or(Error::Crypto)
}

/// Seals the manifests of one table, each for its version.
#[derive(Clone)]
pub struct ManifestKey {
    table: TableId,
    root: DerivationKey,
}

impl ManifestKey {
    /// Seals the manifest of a version; `envelope` is what lies in the clear before it, and is authenticated.
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
