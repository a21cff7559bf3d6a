//! What pins the files of a table: digests, columns, and what is known of each file before it is
//! opened.

use arrow::datatypes::Field;
use aws_lc_rs::digest::{SHA256, digest};
use coffer_schemes::{Opener, Protection, Protections};
use coffer_sealing::ColumnId;
use serde::{Deserialize, Serialize};

use crate::{Adopted, Error, PartitionValue, SparkType};

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of nothing: before the first of a chain.
    pub const ZERO: Self = Self([0; 32]);

    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::try_from(digest(&SHA256, bytes).as_ref()).unwrap_or(Self([0; 32]))
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl TryFrom<&[u8]> for Digest {
    type Error = Error;

    fn try_from(bytes: &[u8]) -> Result<Self, Error> {
        Ok(Self(bytes.try_into().map_err(|_| Error::DigestLength)?))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hex_bytes::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = hex_bytes::deserialize(deserializer)?;
        Self::try_from(bytes.as_slice()).map_err(serde::de::Error::custom)
    }
}

/// A column of a table. Its id is its KEK's identity and never reused, whatever the column's name
/// or place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Unique in the table, from 1.
    pub id: u32,
    /// As in Spark.
    pub name: String,
    /// As in Spark.
    #[serde(rename = "type")]
    pub kind: SparkType,
    /// Whether NULL may occur.
    pub nullable: bool,
    /// As the policy has it: "tee", "det+ope"; of a partition column "tee" or "plain": its values
    /// are in paths then. What lies in the files, the manifest's stored columns say.
    #[serde(with = "as_text")]
    pub protection: Protections,
}

impl Column {
    /// The id as a type.
    pub fn id(&self) -> ColumnId {
        ColumnId(self.id)
    }

    /// Whether its values are in its files' paths, if the table is partitioned by it.
    pub fn is_in_paths(&self) -> bool {
        let open = |protection: &Protection| protection.row().numbers.opened_by == Opener::Anyone;
        self.protection.as_slice().iter().all(open)
    }

    /// As an Arrow field.
    pub fn field(&self) -> Field {
        Field::new(&self.name, self.kind.to_arrow(), self.nullable)
    }
}

/// What is known of one row group without opening its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowGroupPin {
    /// Rows.
    pub rows: u64,
    /// Stored bytes of all its columns.
    pub bytes: u64,
}

/// What the manifest pins of one Parquet file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilePin {
    /// A plain file name in the table's folder, behind `name=value/` for each plain partition
    /// column.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Rows.
    pub rows: u64,
    /// Random, one for each file; part of the associated data of every module of the file.
    #[serde(with = "hex_bytes")]
    pub aad_prefix: Vec<u8>,
    /// Bytes of the footer, without the trailing length word and magic.
    pub footer_length: u64,
    /// Of those bytes.
    pub footer_sha256: Digest,
    /// In order.
    pub row_groups: Vec<RowGroupPin>,
    /// Stored bytes of each column of the file, in order.
    pub column_bytes: Vec<u64>,
    /// SHA-256 of each column chunk that lies unencrypted: by row group, and then by stored column,
    /// in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Vec<Digest>>,
    /// Of a file that another program wrote: its keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Adopted>,
    /// The value of each partition column, which is that of all its rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition: Vec<PartitionValue>,
    /// Whether the host may have chosen some of its rows: they came from a plain input.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_chosen: bool,
}

/// Protections as one text, "det+ope".
mod as_text {
    use coffer_schemes::Protections;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        protections: &Protections,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(protections)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Protections, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Bytes as hex text.
pub mod hex_bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    /// As text.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(bytes))
    }

    /// And back.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        hex::decode(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
