//! A table that was opened: what may be asked of its files, and the keys that they take.

use std::ops::Range;

use coffer_catalog::{ChunkPins, Manifest, PlainFile, PlainTable, VerifiedManifest};
use coffer_format::{AdoptedKey, Digest, FilePin, SparkType};
use coffer_protocol::{
    plan::Field,
    wire::{
        FileSlice,
        file_slice::{AdoptedFile, ClearColumn, DataKey},
    },
};
use coffer_sealing::KekSet;

use crate::{ClientError, types::spark_type};

/// What stands behind a handle.
pub(crate) enum Opened {
    Sealed(Box<VerifiedManifest>),
    /// Unverified inputs that the policy lists.
    Plain(PlainTable),
}

impl Opened {
    /// The type of one of the files' columns: of a table with stored columns, of a stored one.
    pub(crate) fn column(&self, name: &str) -> Option<SparkType> {
        match self {
            Self::Sealed(table) if !table.manifest().stored.is_empty() => table
                .manifest()
                .stored_column(name)
                .map(|stored| stored.kind.clone()),
            Self::Sealed(table) => table
                .manifest()
                .column(name)
                .map(|column| column.kind.clone()),
            Self::Plain(table) => table
                .columns
                .iter()
                .find(|column| column.0 == name)
                .map(|column| column.1.clone()),
        }
    }

    /// Whether a plan's column is one of the files' columns, by name and type.
    pub(crate) fn has(&self, field: &Field) -> bool {
        let values = self.column(&field.name).map(|kind| kind.of_values());
        values.is_some() && values == field.r#type.as_ref().and_then(spark_type)
    }

    /// The column whose values one of the files' columns holds; none of those that say where a row
    /// is, and of plain files.
    pub(crate) fn column_of(&self, name: &str) -> Option<&str> {
        let Self::Sealed(table) = self else {
            return None;
        };
        let manifest = table.manifest();
        let column = match manifest.stored.is_empty() {
            true => manifest.column(name),
            false => {
                let id = manifest.stored_column(name)?.column;
                manifest.columns.iter().find(|column| column.id == id)
            }
        };
        column.map(|column| column.name.as_str())
    }

    /// The KEKs that reading these of the files' columns takes.
    pub(crate) fn keks<'a>(
        &self,
        columns: impl IntoIterator<Item = &'a str>,
    ) -> Result<KekSet, ClientError> {
        match self {
            Self::Sealed(table) => Ok(table.stored_keks(columns)?),
            Self::Plain(_) => Ok(KekSet::new()),
        }
    }

    /// Whether nobody vouches for what is in it.
    pub(crate) fn is_unverified(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Whether the host may have chosen rows of it: of a sealed table, when they were written.
    pub(crate) fn is_host_chosen(&self) -> bool {
        match self {
            Self::Sealed(table) => table.manifest().files.iter().any(|file| file.host_chosen),
            Self::Plain(_) => true,
        }
    }

    /// How many files there are.
    pub(crate) fn files(&self) -> u32 {
        let files = match self {
            Self::Sealed(table) => table.manifest().files.len(),
            Self::Plain(table) => table.files.len(),
        };
        u32::try_from(files).unwrap_or(u32::MAX)
    }

    /// How many row groups a file has.
    pub(crate) fn row_groups(&self, file: u32) -> Option<usize> {
        let file = usize::try_from(file).ok()?;
        match self {
            Self::Sealed(table) => table
                .manifest()
                .files
                .get(file)
                .map(|file| file.row_groups.len()),
            Self::Plain(table) => table.files.get(file).map(|file| file.row_groups.len()),
        }
    }

    /// Row groups of a file, as engines are told of them to read these columns; none if there is no
    /// such file, or its path is no text, or a column of an unverified input is not pinned.
    pub(crate) fn slice(
        &self,
        file: u32,
        groups: Range<u32>,
        columns: &[String],
        chunks: &ChunkPins,
    ) -> Option<FileSlice> {
        let file = usize::try_from(file).ok()?;
        let (first_row_group, end_row_group) = (groups.start, groups.end);
        match self {
            Self::Sealed(table) => {
                let file = table.manifest().files.get(file)?;
                Some(FileSlice {
                    path: table.file_path(file).to_str()?.to_owned(),
                    size: file.size,
                    rows: file.rows,
                    aad_prefix: file.aad_prefix.clone().into(),
                    footer_length: file.footer_length,
                    footer_sha256: file.footer_sha256.as_bytes().to_vec().into(),
                    first_row_group,
                    end_row_group,
                    table: table.manifest().table.as_bytes().to_vec().into(),
                    plain: false,
                    clear: !table.manifest().stored.is_empty(),
                    clear_columns: clear_columns(table.manifest(), file, &groups, columns)?,
                    adopted: adopted(table.manifest(), file, columns),
                })
            }
            Self::Plain(table) => {
                let file = table.files.get(file)?;
                Some(FileSlice {
                    path: file.path.to_str()?.to_owned(),
                    size: file.pin.size,
                    rows: file.pin.rows,
                    footer_length: file.pin.footer_length,
                    footer_sha256: file.pin.footer_sha256.as_bytes().to_vec().into(),
                    first_row_group,
                    end_row_group,
                    plain: true,
                    clear_columns: plain_columns(table, file, &groups, columns, chunks)?,
                    ..FileSlice::default()
                })
            }
        }
    }

    /// Whether this is the same version of the same table, in the same place.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sealed(a), Self::Sealed(b)) => a.hash() == b.hash() && a.folder() == b.folder(),
            (Self::Plain(a), Self::Plain(b)) => a.digest() == b.digest(),
            _ => false,
        }
    }
}

/// Of a file that was adopted: the keys that reading these columns takes.
fn adopted(manifest: &Manifest, file: &FilePin, columns: &[String]) -> Option<AdoptedFile> {
    let adopted = file.adopted.as_ref()?;
    let read = manifest
        .columns
        .iter()
        .filter(|column| columns.contains(&column.name));
    let ids: Vec<u32> = read.map(|column| column.id).collect();
    let key = |key: &AdoptedKey| DataKey {
        column: key.column,
        metadata_sha256: key.metadata.as_bytes().to_vec().into(),
        wrapped: key.wrapped.clone(),
    };
    Some(AdoptedFile {
        clear_footer: adopted.clear_footer,
        keys: adopted.of_columns(&ids).map(key).collect(),
    })
}

/// Of the columns those that lie unencrypted, with the digests of their chunks.
fn clear_columns(
    manifest: &Manifest,
    file: &FilePin,
    groups: &Range<u32>,
    columns: &[String],
) -> Option<Vec<ClearColumn>> {
    let groups = usize::try_from(groups.start).ok()?..usize::try_from(groups.end).ok()?;
    let chunks = match manifest.stored.is_empty() {
        true => return Some(Vec::new()),
        false => file.chunks.get(groups)?,
    };
    let clear = manifest
        .stored
        .iter()
        .filter(|stored| stored.encoding.is_clear());
    clear
        .enumerate()
        .filter(|(_, stored)| columns.contains(&stored.name()))
        .map(|(at, stored)| {
            let digest = |group: &Vec<Digest>| Some(group.get(at)?.as_bytes().to_vec().into());
            Some(ClearColumn {
                name: stored.name(),
                chunks: chunks.iter().map(digest).collect::<Option<_>>()?,
            })
        })
        .collect()
}

/// The columns, with the digests of their chunks as the query first read them.
fn plain_columns(
    table: &PlainTable,
    file: &PlainFile,
    groups: &Range<u32>,
    columns: &[String],
    pins: &ChunkPins,
) -> Option<Vec<ClearColumn>> {
    let groups = usize::try_from(groups.start).ok()?..usize::try_from(groups.end).ok()?;
    let pinned = |name: &String| {
        let chunks = pins.of(table, file, groups.clone(), name)?;
        Some(ClearColumn {
            name: name.clone(),
            chunks: chunks
                .iter()
                .map(|chunk| chunk.as_bytes().to_vec().into())
                .collect(),
        })
    };
    columns.iter().map(pinned).collect()
}
