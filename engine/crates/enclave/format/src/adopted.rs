//! Files that another program wrote, as a manifest has them: their data keys, each wrapped anew
//! under the KEK of its column.
//!
//! The files stay as they are, so their key metadata names keys that only the owner's masters open.
//! Engines never ask a master; they get the KEKs of the columns that a query reads, as with our own
//! files, and with each file's pin its data keys under those KEKs.

use std::sync::Arc;

use coffer_sealing::{ColumnId, KekId, KekSet, TableId};
use parquet::{encryption::decrypt::KeyRetriever, errors::ParquetError};
use serde::{Deserialize, Serialize};

use crate::{Digest, Error};

/// Of one file that was adopted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adopted {
    /// The footer lies in the clear, with PME's signature.
    pub clear_footer: bool,
    /// One for the footer, and one for each column that has a key of its own; of a nested column
    /// one for each leaf, or for several.
    pub keys: Vec<AdoptedKey>,
}

/// One data key of an adopted file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdoptedKey {
    /// The column's id; 0: the footer's key, which is also that of columns without one of their
    /// own.
    pub column: u32,
    /// SHA-256 of the key metadata by which the file names the key.
    pub metadata: Digest,
    /// The key, wrapped under the KEK of that column or footer.
    pub wrapped: String,
}

impl AdoptedKey {
    /// The KEK that opens it.
    pub fn kek(&self, table: TableId) -> KekId {
        match self.column {
            0 => KekId::footer(table),
            id => KekId::column(table, ColumnId(id)),
        }
    }
}

impl Adopted {
    /// The keys that reading these columns takes: theirs and the footer's.
    pub fn of_columns(&self, ids: &[u32]) -> impl Iterator<Item = &AdoptedKey> {
        self.keys
            .iter()
            .filter(|key| key.column == 0 || ids.contains(&key.column))
    }

    /// Each column's as often as it may have one, and the footer's once; no key twice. `leaves`
    /// says how many leaves a column has, 0 of none.
    pub fn is_sane(&self, leaves: impl Fn(u32) -> usize) -> bool {
        let ids: Vec<u32> = self.keys.iter().map(|key| key.column).collect();
        let mut names: Vec<&[u8; 32]> = self
            .keys
            .iter()
            .map(|key| key.metadata.as_bytes())
            .collect();
        names.sort_unstable();
        names.dedup();
        let few = |id: &u32| {
            let most = if *id == 0 { 1 } else { leaves(*id) };
            ids.iter().filter(|other| *other == id).count() <= most
        };
        ids.contains(&0) && ids.iter().all(few) && names.len() == ids.len()
    }

    /// The key that a file's key metadata names.
    pub(crate) fn find(&self, metadata: &[u8]) -> Option<&AdoptedKey> {
        let digest = Digest::of(metadata);
        self.keys.iter().find(|key| key.metadata == digest)
    }
}

/// Opens the data keys of an adopted file whose KEKs are held, for the `parquet` crate.
pub(crate) struct AdoptedRetriever {
    pub(crate) table: TableId,
    pub(crate) adopted: Adopted,
    pub(crate) keks: Arc<KekSet>,
}

impl KeyRetriever for AdoptedRetriever {
    fn retrieve_key(&self, metadata: &[u8]) -> Result<Vec<u8>, ParquetError> {
        let unknown =
            Error::KeyMetadata("it names a key that the file did not have when it was adopted");
        let open = || -> Result<Vec<u8>, Error> {
            let key = self.adopted.find(metadata).ok_or(unknown)?;
            let dek = self.keks.get(&key.kek(self.table))?.unwrap(&key.wrapped)?;
            Ok(dek.to_vec())
        };
        open().map_err(|error| ParquetError::General(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use coffer_sealing::{Kek, Secret};

    use super::*;

    fn key(column: u32, metadata: &[u8]) -> AdoptedKey {
        AdoptedKey {
            column,
            metadata: Digest::of(metadata),
            wrapped: String::new(),
        }
    }

    #[test]
    fn each_key_is_of_one_column_and_the_footer_has_one() {
        let sane = |keys: Vec<AdoptedKey>| {
            let adopted = Adopted {
                clear_footer: false,
                keys,
            };
            adopted.is_sane(|id| match id {
                1 => 1,
                2 => 2,
                _ => 0,
            })
        };
        assert!(sane(vec![key(1, b"a"), key(2, b"b"), key(0, b"f")]));
        assert!(sane(vec![key(0, b"f")]));
        assert!(!sane(vec![]));
        assert!(!sane(vec![key(1, b"a")]), "no footer's");
        assert!(
            !sane(vec![key(0, b"f"), key(1, b"a"), key(1, b"b")]),
            "two of a column"
        );
        assert!(
            !sane(vec![key(0, b"f"), key(1, b"a"), key(2, b"a")]),
            "one of two columns"
        );
        assert!(!sane(vec![key(0, b"f"), key(3, b"a")]), "of no column");
        let two = vec![key(0, b"f"), key(2, b"a"), key(2, b"b")];
        assert!(sane(two.clone()), "of two leaves");
        let three = [two, vec![key(2, b"c")]].concat();
        assert!(!sane(three), "three of two leaves");
        assert!(!sane(vec![key(0, b"f"), key(0, b"g")]), "two footers'");
    }

    #[test]
    fn keys_open_by_their_metadata_and_their_columns_kek() {
        let table = TableId([7; 16]);
        let kek = |id, byte| {
            Kek::new(
                KekId::column(table, ColumnId(id)),
                Secret::from_bytes([byte; 32]),
            )
        };
        let (one, two) = (kek(1, 1), kek(2, 2));
        let retriever = |wrapped: String, keks: Vec<Kek>| AdoptedRetriever {
            table,
            adopted: Adopted {
                clear_footer: false,
                keys: vec![AdoptedKey {
                    wrapped,
                    ..key(1, b"a")
                }],
            },
            keks: Arc::new(keks.into_iter().collect()),
        };
        let held = vec![one.clone(), two.clone()];
        let good = retriever(one.wrap(&[5; 16]).unwrap(), held.clone());
        assert_eq!(good.retrieve_key(b"a").unwrap(), [5; 16]);
        assert!(
            good.retrieve_key(b"b").is_err(),
            "metadata that was not there"
        );
        let of_other = retriever(two.wrap(&[5; 16]).unwrap(), held);
        assert!(
            of_other.retrieve_key(b"a").is_err(),
            "under another column's KEK"
        );
        let not_held = retriever(one.wrap(&[5; 16]).unwrap(), vec![two]);
        assert!(not_held.retrieve_key(b"a").is_err(), "KEK not held");
    }
}
