//! The manifest: what a table is, at one version.
//!
//! ```text
//! 0   magic "CFTM"          4   format u16 LE = 1       6   table id, 16 bytes
//! 22  version u64 LE        30  key-check, 16 bytes     46  length of the master's name u16 LE
//! 48  master's name
//! …   sealed blob (coffer-sealing) of the content, JSON
//! ```
//! Everything before the blob is the clear envelope; it goes into the derivation of the blob's key,
//! so that no bit of it can be changed. The key-check is derived from the table key: GCM does not
//! commit to its key.

use std::collections::HashSet;

use arrow::datatypes::Schema;
use coffer_custody::TableKey;
use coffer_format::{Column, Digest, Error as FormatError, FilePin, StoredColumn, partition};
use coffer_schemes::Protection;
use coffer_sealing::{Secret, TableId};
use serde::{Deserialize, Serialize};

use crate::{Error, stored};

/// The folder inside a table's folder that holds its manifests.
pub const MANIFEST_FOLDER: &str = "_coffer";
const MAGIC: [u8; 4] = *b"CFTM";
const FORMAT: u16 = 1;
const FIXED: usize = 48;
const MAX_COLUMNS: usize = 4096;

/// The file name of a version's manifest in [`MANIFEST_FOLDER`].
pub fn manifest_name(version: u64) -> String {
    format!("manifest-{version:010}")
}

/// What a table is, at one version. From storage it comes only as part of a
/// [`VerifiedManifest`](crate::VerifiedManifest).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    #[serde(with = "table_id")]
    /// Which table.
    pub table: TableId,
    /// From 1.
    pub version: u64,
    /// SHA-256 of the whole manifest file of the version before; none for version 1.
    pub parent: Option<Digest>,
    /// In order.
    pub columns: Vec<Column>,
    /// How the columns lie in the files, in order; empty: each as itself, encrypted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored: Vec<StoredColumn>,
    /// Ids of the columns that the table is partitioned by, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition_columns: Vec<u32>,
    /// The highest id that any version's columns had; 0: that of this one's.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) last_column_id: u32,
    /// In the order of their rows.
    pub files: Vec<FilePin>,
    /// The version before is under another key of the table, which this one's readers do not have.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) rekeyed: bool,
    /// Of such a version: the files of those before, for who clears them away. Nobody reads them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) retired: Vec<String>,
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl Manifest {
    /// The table's Arrow schema.
    pub fn schema(&self) -> Schema {
        Schema::new(self.columns.iter().map(Column::field).collect::<Vec<_>>())
    }

    /// Rows of all files.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The column of a name, exactly as written.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The columns that the table is partitioned by, in order.
    pub fn partitioned_by(&self) -> impl Iterator<Item = &Column> {
        let column = |id: &u32| self.columns.iter().find(|column| column.id == *id);
        self.partition_columns.iter().filter_map(column)
    }

    /// The names of the files' columns, in order.
    pub fn file_columns(&self) -> Vec<String> {
        if self.stored.is_empty() {
            self.columns
                .iter()
                .map(|column| column.name.clone())
                .collect()
        } else {
            self.stored.iter().map(StoredColumn::name).collect()
        }
    }

    /// The stored column of a name.
    pub fn stored_column(&self, name: &str) -> Option<&StoredColumn> {
        self.stored.iter().find(|stored| stored.name() == name)
    }

    /// The highest column id that was ever given.
    /// How many leaves a column has in files, by its id; none of a column that is not there.
    fn leaves(&self, id: u32) -> usize {
        let column = self.columns.iter().find(|column| column.id == id);
        column.map_or(0, |column| column.kind.leaves())
    }

    pub(crate) fn last_column_id(&self) -> u32 {
        let columns = self.columns.iter().map(|column| column.id);
        let now = columns
            .chain(self.stored.iter().map(|stored| stored.id))
            .max();
        self.last_column_id.max(now.unwrap_or(0))
    }

    /// Stored bytes of each column over all files: of a column that is stored in several ways, all
    /// of them.
    pub fn column_bytes(&self) -> Vec<u64> {
        let sums = self.file_column_bytes();
        if self.stored.is_empty() {
            return sums;
        }
        let of = |column: &Column| {
            let own = self
                .stored
                .iter()
                .zip(&sums)
                .filter(|(stored, _)| stored.column == column.id);
            own.map(|(_, bytes)| *bytes).sum()
        };
        self.columns.iter().map(of).collect()
    }

    /// Stored bytes of each of the files' columns over all files.
    pub fn file_column_bytes(&self) -> Vec<u64> {
        let mut sums = vec![0_u64; self.file_columns().len()];
        for file in &self.files {
            for (sum, bytes) in sums.iter_mut().zip(&file.column_bytes) {
                *sum = sum.saturating_add(*bytes);
            }
        }
        sums
    }

    /// The whole manifest file.
    pub fn seal(&self, master: &str, key: &TableKey) -> Result<Vec<u8>, Error> {
        let envelope = Envelope {
            table: self.table,
            version: self.version,
            key_check: key.key_check()?,
            master: master.to_owned(),
        };
        let mut bytes = envelope.encode()?;
        let content =
            serde_json::to_vec(self).map_err(|error| Error::ManifestContent(error.to_string()))?;
        let blob = key.manifest_key()?.seal(self.version, &bytes, &content)?;
        bytes.extend_from_slice(&blob);
        Ok(bytes)
    }

    /// Opens a manifest file. What it says is then authentic, not yet the newest:
    /// [`open_table`](crate::open_table) compares it with the register.
    pub fn open(bytes: &[u8], key: &TableKey) -> Result<Self, Error> {
        let (envelope, blob) = Envelope::parse(bytes)?;
        if !Secret::from_bytes(key.key_check()?).ct_eq(&Secret::from_bytes(envelope.key_check)) {
            return Err(Error::ManifestKey);
        }
        let clear = bytes
            .get(..bytes.len().saturating_sub(blob.len()))
            .unwrap_or_default();
        let content = key
            .manifest_key()?
            .open(envelope.version, clear, blob)
            .map_err(|_| Error::ManifestAltered)?;
        let manifest: Self = serde_json::from_slice(&content)
            .map_err(|error| Error::ManifestContent(error.to_string()))?;
        if manifest.table != envelope.table || manifest.version != envelope.version {
            return Err(Error::ManifestContent(
                "it differs from its envelope".into(),
            ));
        }
        manifest.check()
    }

    /// Authentic does not mean sane: a defect of ours must not become an open door either.
    pub(crate) fn check(self) -> Result<Self, Error> {
        let malformed = |what: &str| Err(Error::ManifestContent(what.to_owned()));
        check_names(self.columns.iter().map(|column| column.name.as_str()))?;
        let ids: HashSet<u32> = self.columns.iter().map(|column| column.id).collect();
        if ids.len() != self.columns.len() {
            return malformed("two columns have one id");
        }
        let mut nested = self.columns.iter().filter(|column| column.kind.is_nested());
        let odd = |column: &Column| {
            column.kind.unfit_names().is_some() || column.protection.as_slice() != [Protection::Tee]
        };
        if nested.any(odd) {
            return malformed("a nested column is none that a writer of ours makes");
        }
        let partitions: Vec<&Column> = self.partitioned_by().collect();
        if partitions.iter().any(|column| column.kind.is_nested()) {
            return malformed("it is partitioned by a nested column");
        }
        let distinct: HashSet<u32> = self.partition_columns.iter().copied().collect();
        if partitions.len() != self.partition_columns.len() || distinct.len() != partitions.len() {
            return malformed("its partition columns are not columns");
        }
        stored::check(&self.columns, &self.stored)?;
        if !self.stored.is_empty() && !partitions.is_empty() {
            return malformed("its stored columns are partitioned");
        }
        let open = |column: &&Column| column.is_in_paths() && !distinct.contains(&column.id);
        if self.stored.is_empty() && self.columns.iter().any(|column| open(&column)) {
            return malformed("a column is plain that is no partition column");
        }
        let in_files = self.file_columns().len();
        let clear = self
            .stored
            .iter()
            .filter(|stored| stored.encoding.is_clear())
            .count();
        let mut paths = HashSet::new();
        for file in &self.files {
            if file.partition.len() != partitions.len() {
                return malformed("a file has not one value for each partition column");
            }
            let folders = partition::folders(partitions.iter().copied().zip(&file.partition));
            if !file.path.strip_prefix(&folders).is_some_and(plain_name) {
                return Err(Error::FilePath);
            }
            if !paths.insert(file.path.as_str()) {
                return malformed("a file is named twice");
            }
            let rows = file
                .row_groups
                .iter()
                .try_fold(0_u64, |sum, group| sum.checked_add(group.rows));
            if file.column_bytes.len() != in_files || rows != Some(file.rows) {
                return malformed("a file's counts disagree");
            }
            let groups = if self.stored.is_empty() {
                0
            } else {
                file.row_groups.len()
            };
            if file.chunks.len() != groups || file.chunks.iter().any(|group| group.len() != clear) {
                return malformed("a file has not one digest for each column chunk in clear");
            }
        }
        let prefixed = |file: &FilePin| file.adopted.is_some() && !file.aad_prefix.is_empty();
        if self.files.iter().any(prefixed) {
            return malformed("an adopted file has an AAD prefix, which only our own have");
        }
        let adopted = self.files.iter().filter_map(|file| file.adopted.as_ref());
        if !adopted
            .clone()
            .all(|adopted| adopted.is_sane(|id| self.leaves(id)))
        {
            return malformed(
                "an adopted file has not one key for each column, or none for its footer",
            );
        }
        if adopted.count() > 0 && !(self.stored.is_empty() && partitions.is_empty()) {
            return malformed("a file is adopted where columns are stored or partitioned");
        }
        if self
            .retired
            .iter()
            .any(|path| paths.contains(path.as_str()))
        {
            return malformed("a file is retired and in use");
        }
        Ok(self)
    }
}

/// Whether a path is the name of a file right in the table's folder.
pub(crate) fn plain_name(path: &str) -> bool {
    !path.is_empty() && !path.starts_with(['.', '_']) && !path.contains(['/', '\\', '\0'])
}

/// Column names must differ, upper and lower case counting as one (Spark's default).
pub(crate) fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name.to_lowercase()) {
            return Err(Error::DuplicateColumn(name.to_owned()));
        }
    }
    match seen.len() {
        0 => Err(Error::NoColumns),
        1..=MAX_COLUMNS => Ok(()),
        _ => Err(FormatError::Limit("number of columns").into()),
    }
}

/// The clear part of a manifest file: a hint about which key opens it, believed only after it did.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// Which table.
    pub table: TableId,
    /// From 1.
    pub version: u64,
    /// Says whether a key is the one.
    pub key_check: [u8; 16],
    /// The master that wrapped the table's key when this version was written.
    pub master: String,
}

impl Envelope {
    /// Parses the envelope and gives the sealed rest.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        let fixed: &[u8; FIXED] = bytes
            .first_chunk()
            .ok_or(Error::Envelope("it is too short"))?;
        if part::<4>(fixed, 0)? != MAGIC {
            return Err(Error::Envelope("it does not begin with CFTM"));
        }
        let format = u16::from_le_bytes(part(fixed, 4)?);
        if format != FORMAT {
            return Err(Error::ManifestFormat(format));
        }
        let master_length = usize::from(u16::from_le_bytes(part(fixed, 46)?));
        let end = FIXED.saturating_add(master_length);
        let master = bytes
            .get(FIXED..end)
            .ok_or(Error::Envelope("it is too short"))?;
        let envelope = Self {
            table: TableId(part(fixed, 6)?),
            version: u64::from_le_bytes(part(fixed, 22)?),
            key_check: part(fixed, 30)?,
            master: std::str::from_utf8(master)
                .map_err(|_| Error::Envelope("the master's name"))?
                .to_owned(),
        };
        Ok((envelope, bytes.get(end..).unwrap_or_default()))
    }

    fn encode(&self) -> Result<Vec<u8>, Error> {
        let master_length =
            u16::try_from(self.master.len()).map_err(|_| FormatError::Limit("master's name"))?;
        let mut bytes = Vec::with_capacity(FIXED.saturating_add(self.master.len()));
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(self.table.as_bytes());
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&self.key_check);
        bytes.extend_from_slice(&master_length.to_le_bytes());
        bytes.extend_from_slice(self.master.as_bytes());
        Ok(bytes)
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Error> {
    let slice = bytes
        .get(at..at.saturating_add(N))
        .ok_or(Error::Envelope("it is too short"))?;
    slice
        .try_into()
        .map_err(|_| Error::Envelope("it is too short"))
}

/// A table's id as hex text.
pub(crate) mod table_id {
    use coffer_sealing::TableId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(id: &TableId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<TableId, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coffer_format::{Adopted, AdoptedKey, SparkType};

    #[test]
    fn an_adopted_file_has_no_prefix_of_ours() {
        let check = |aad_prefix: Vec<u8>| {
            let key = AdoptedKey {
                column: 0,
                metadata: Digest::of(b"footer"),
                wrapped: String::new(),
            };
            let file = FilePin {
                path: "a.parquet".to_owned(),
                size: 10,
                rows: 0,
                aad_prefix,
                footer_length: 1,
                footer_sha256: Digest::of(b"x"),
                row_groups: Vec::new(),
                column_bytes: vec![0],
                chunks: Vec::new(),
                adopted: Some(Adopted {
                    clear_footer: false,
                    keys: vec![key],
                }),
                partition: Vec::new(),
                host_chosen: false,
            };
            let manifest = Manifest {
                table: TableId([7; 16]),
                version: 1,
                parent: None,
                columns: vec![Column {
                    id: 1,
                    name: "a".to_owned(),
                    kind: SparkType::Long,
                    nullable: true,
                    protection: Protection::Tee.into(),
                }],
                stored: Vec::new(),
                partition_columns: Vec::new(),
                last_column_id: 0,
                files: vec![file],
                rekeyed: false,
                retired: Vec::new(),
            };
            manifest.check()
        };
        check(Vec::new()).unwrap();
        assert!(matches!(check(vec![1; 16]), Err(Error::ManifestContent(_))));
    }
}
