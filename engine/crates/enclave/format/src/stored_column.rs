//! Stored columns: how a table's columns lie in its files where someone without keys may work on
//! some of them.
//!
//! A column has one stored column for each of its protections, named `c<id>` in the files. Those
//! that are `tee` are encrypted by Parquet's encryption, as every column of other tables is. The
//! values of the others are ciphertexts of a scheme (coffer-schemes), or in the clear; their column
//! chunks lie unencrypted, and the manifest pins a digest of each. The files' footers are in the
//! clear, signed for other readers and pinned for ours.

use std::fmt;

use arrow::datatypes::Field;
use coffer_schemes::{
    Capability, Opener, Protection, Setting, UnknownProtection, table::Treatment,
};
use coffer_sealing::{ColumnId, LinkId, TableId};
use serde::{Deserialize, Serialize};

use crate::SparkType;

/// Bytes of a file's id, which is its AAD prefix.
pub const FILE_ID: usize = 16;

/// What a stored column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum StoredEncoding {
    /// A column's values, under one of its protections.
    Of(Protection),
    /// The file's id, in each row, for values that say nothing without it.
    File,
    /// The row's number in its file, for values that say nothing without it.
    Row,
}

impl StoredEncoding {
    /// The protection that it is; none of a file's id and row numbers.
    pub fn protection(self) -> Option<Protection> {
        match self {
            Self::Of(protection) => Some(protection),
            Self::File | Self::Row => None,
        }
    }

    /// As in manifests and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Of(protection) => protection.name(),
            Self::File => "file",
            Self::Row => "row",
        }
    }

    /// Whether its column chunks lie unencrypted in the files.
    pub fn is_clear(self) -> bool {
        self.protection().is_none_or(Protection::is_host_readable)
    }

    /// Whether columns of one link share its key.
    pub fn is_linked(self) -> bool {
        self.uses(Setting::Link)
    }

    /// Whether its values say nothing without the file's id and the row's number.
    pub fn needs_position(self) -> bool {
        self.protection()
            .is_some_and(|protection| protection.row().needs_position)
    }

    /// Whether it uses what a policy may say of a column.
    pub fn uses(self, setting: Setting) -> bool {
        self.protection()
            .is_some_and(|protection| protection.uses(setting))
    }
}

impl From<StoredEncoding> for &'static str {
    fn from(encoding: StoredEncoding) -> Self {
        encoding.name()
    }
}

impl TryFrom<String> for StoredEncoding {
    type Error = UnknownProtection;

    fn try_from(name: String) -> Result<Self, UnknownProtection> {
        match name.as_str() {
            "file" => Ok(Self::File),
            "row" => Ok(Self::Row),
            other => match Protection::from_name(other) {
                Some(protection) => Ok(Self::Of(protection)),
                None => Err(UnknownProtection(name)),
            },
        }
    }
}

impl fmt::Display for StoredEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One protection of a column, as a column of the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredColumn {
    /// Unique in the table, among the ids of its columns too: a `tee` one has its column's, the
    /// others have none's.
    pub id: u32,
    /// Whose values it holds, by id; 0: no column's.
    pub column: u32,
    /// What it holds.
    #[serde(rename = "form")]
    pub encoding: StoredEncoding,
    /// Of what is stored.
    #[serde(rename = "type")]
    pub kind: SparkType,
    /// Whether NULL may occur.
    pub nullable: bool,
    /// `ope`, `ore`, `ashe`: the values that the column may have; none: those of its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<DomainPin>,
    /// `det`, `ope`, `ore`: the link whose key it has.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "link_id")]
    pub link: Option<LinkId>,
    /// `ope`, `ore` of texts: how many bytes are in the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<u32>,
    /// `ashe`: the table has at most so many rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

/// Least and greatest value of a domain: whole numbers, days, microseconds, or a decimal's unscaled
/// value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainPin {
    /// The least.
    #[serde(with = "number")]
    pub min: i128,
    /// The greatest.
    #[serde(with = "number")]
    pub max: i128,
}

impl StoredColumn {
    /// Its name in the files.
    pub fn name(&self) -> String {
        format!("c{}", self.id)
    }

    /// The id as a type.
    pub fn id(&self) -> ColumnId {
        ColumnId(self.id)
    }

    /// As an Arrow field.
    pub fn field(&self) -> Field {
        Field::new(self.name(), self.kind.to_arrow(), self.nullable)
    }

    /// What its protection does to the column's values; none of a file's id and row numbers.
    /// `texts`: whether they are strings or bytes, which a prefix says as well.
    pub fn treatment(&self, texts: bool) -> Option<Treatment> {
        let protection = self.encoding.protection()?;
        Some(protection.treatment(texts || self.prefix.is_some()))
    }

    /// Whether the column's values can be had from it.
    pub fn opens(&self) -> bool {
        (self.treatment(false)).is_some_and(|treatment| treatment.opened_by != Opener::Nobody)
    }

    /// Whether this can be done with it unopened.
    pub fn allows(&self, capability: Capability) -> bool {
        (self.treatment(false)).is_some_and(|treatment| treatment.allows.contains(&capability))
    }

    /// The group of stored columns, of whatever tables, with comparable ciphertexts; empty where
    /// there is none.
    pub fn group(&self, table: TableId) -> String {
        match self.link {
            Some(link) => link.to_string(),
            None if self.encoding.is_linked() => format!("{table}.{}", self.column),
            None => String::new(),
        }
    }
}

/// A number of up to 128 bits as text.
mod number {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        number: &i128,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<i128, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

/// A link's id as hex text.
mod link_id {
    use coffer_sealing::LinkId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        id: &Option<LinkId>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => serializer.collect_str(id),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<LinkId>, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map(Some)
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(id: u32, column: u32, encoding: &str) -> StoredColumn {
        let text = format!(
            r#"{{"id":{id},"column":{column},"form":"{encoding}","type":"{}","nullable":true}}"#,
            if encoding == "det" || encoding == "file" {
                "binary"
            } else {
                "bigint"
            },
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn as_text_and_back() {
        let mut one = stored(7, 1, "ope");
        one.domain = Some(DomainPin {
            min: -(10_i128.pow(38)) + 1,
            max: i128::from(u64::MAX),
        });
        one.link = Some(LinkId([0xab; 16]));
        one.rows = Some(9);
        let text = serde_json::to_string(&one).unwrap();
        assert!(text.contains(r#""max":"18446744073709551615""#), "{text}");
        assert_eq!(serde_json::from_str::<StoredColumn>(&text).unwrap(), one);
        for wrong in [
            text.replace("\"ope\"", "\"oped\""),
            text.replace("\"rows\"", "\"row\""),
            text.replace("abab", "xyxy"),
        ] {
            assert!(
                serde_json::from_str::<StoredColumn>(&wrong).is_err(),
                "{wrong}"
            );
        }
        // Of no link: its own column, in this table.
        one.link = None;
        assert_eq!(
            one.group(TableId([1; 16])),
            format!("{}.1", "01".repeat(16))
        );
    }
}
