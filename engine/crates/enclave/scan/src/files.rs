//! From slices of a descriptor to files for DataFusion's Parquet source.

use std::{collections::HashSet, ops::Range, sync::Arc};

use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use coffer_format::{Adopted, AdoptedKey, Digest, FooterPin, PlainPin, footer, plain};
use coffer_protocol::wire::{
    FileSlice,
    file_slice::{AdoptedFile, DataKey},
};
use coffer_sealing::TableId;
use datafusion_common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource_parquet::ParquetAccessPlan;
use futures::{
    FutureExt,
    stream::{self, StreamExt, TryStreamExt},
};
use parquet::{arrow::parquet_to_arrow_schema, file::metadata::ParquetMetaData};

use crate::{
    ScanFiles,
    footers::{Footer, Pin},
    reader::{Chunk, Kind, SealedFile, read_range},
};

/// Footers that are read at the same time.
const FOOTERS: usize = 4;

pub(crate) struct OpenedFiles {
    pub(crate) files: Vec<PartitionedFile>,
    /// Whether the keys of all columns of all files are held.
    pub(crate) all_keys: bool,
    /// Whether columns of some file may lie unencrypted: their chunks are pinned whole, and so read
    /// whole, without page indexes.
    pub(crate) clear: bool,
}

/// Opens the footers of all slices, checked for reading the columns of `schema`.
pub(crate) async fn open(task: &ScanFiles, schema: &SchemaRef) -> Result<OpenedFiles> {
    let mut opened = OpenedFiles {
        files: Vec::with_capacity(task.slices.len()),
        all_keys: true,
        clear: task.slices.iter().any(|slice| slice.clear || slice.plain),
    };
    // Of a file that is here twice the footer is read once.
    let mut seen = HashSet::new();
    let reading = task.slices.iter().map(|slice| {
        let is_first = seen.insert(&slice.path);
        read_early(task, schema, slice, is_first).boxed()
    });
    let reading: Vec<_> = reading.collect();
    let mut read = stream::iter(reading).buffered(FOOTERS);
    while let Some((slice, pin, read)) = read.try_next().await? {
        let path: Arc<str> = slice.path.as_str().into();
        let footer = match task.footers.get(&pin, schema, &task.keys) {
            Some(footer) => footer,
            None => {
                let bytes = match read.or_else(|| task.footers.raw(&path, &pin)) {
                    Some(bytes) => bytes,
                    None => read_footer(task, slice, &pin).await?,
                };
                task.footers.open(&path, bytes, pin, schema, &task.keys)?
            }
        };
        opened.all_keys &= footer.all_keys();
        opened.files.push(file(slice, path, &footer)?);
    }
    Ok(opened)
}

/// A slice's pin, and its footer's bytes where they are far away and nobody has them.
async fn read_early<'a>(
    task: &ScanFiles,
    schema: &SchemaRef,
    slice: &'a FileSlice,
    is_first: bool,
) -> Result<(&'a FileSlice, Pin, Option<Bytes>)> {
    let pin = pin(slice)?;
    let is_here = || {
        task.footers.get(&pin, schema, &task.keys).is_some()
            || task.footers.raw(&slice.path, &pin).is_some()
    };
    if !is_first || !task.store.is_far(&slice.path) || is_here() {
        return Ok((slice, pin, None));
    }
    let read = read_footer(task, slice, &pin).await?;
    Ok((slice, pin, Some(read)))
}

async fn read_footer(task: &ScanFiles, slice: &FileSlice, pin: &Pin) -> Result<Bytes> {
    let (store, of) = (task.store.as_ref(), (slice.path.as_str(), slice.size));
    read_range(store, of, pin.range()?, &task.bytes_read).await
}

fn file(slice: &FileSlice, path: Arc<str>, footer: &Footer) -> Result<PartitionedFile> {
    let metadata = footer.metadata();
    let mut plan = ParquetAccessPlan::new_none(metadata.num_row_groups());
    for group in row_groups(slice, metadata)? {
        plan.scan(group);
    }
    let size = slice.size;
    Ok(PartitionedFile::new(path.to_string(), size)
        .with_extension(plan)
        .with_extension(SealedFile {
            path,
            size,
            metadata: Arc::clone(metadata),
            kind: kind(slice, metadata)?,
        }))
}

/// What the bytes of a file are, by its slice.
fn kind(slice: &FileSlice, metadata: &ParquetMetaData) -> Result<Kind> {
    if !slice.clear && !slice.plain {
        return Ok(Kind::Sealed);
    }
    let groups = row_groups(slice, metadata)?;
    let places = footer::leaf_places(metadata.file_metadata().schema_descr());
    let mut chunks = Vec::new();
    for (group, number) in metadata.row_groups().iter().zip(0_usize..) {
        for (chunk, place) in group.columns().iter().zip(&places) {
            let sealed = chunk.crypto_metadata().is_some();
            let name = footer::root(chunk.column_path());
            let clear = slice
                .clear_columns
                .iter()
                .find(|column| column.name == name);
            let digest = clear
                .zip(number.checked_sub(groups.start))
                .and_then(|(column, group)| {
                    let at = group.checked_mul(place.of)?.checked_add(place.at)?;
                    column.chunks.get(at)
                });
            let (start, length) = chunk.byte_range();
            chunks.push(Chunk {
                range: start..start.saturating_add(length),
                digest: match digest {
                    // What the descriptor says is unencrypted is nothing else.
                    Some(_) if sealed => {
                        return exec_err!("column {name} is encrypted where it should not be");
                    }
                    Some(digest) => Some(Digest::try_from(digest.as_ref()).map_err(external)?),
                    None => None,
                },
                sealed,
            });
        }
    }
    chunks.sort_by_key(|chunk| chunk.range.start);
    Ok(match slice.plain {
        true => Kind::Plain(chunks.into()),
        false => Kind::Stored(chunks.into()),
    })
}

pub(crate) fn row_groups(slice: &FileSlice, metadata: &ParquetMetaData) -> Result<Range<usize>> {
    let groups = usize::try_from(slice.first_row_group)
        .and_then(|first| Ok(first..usize::try_from(slice.end_row_group)?))
        .map_err(|_| exec_datafusion_err!("row groups of a slice are out of range"))?;
    if groups.start > groups.end || groups.end > metadata.num_row_groups() {
        return exec_err!(
            "a slice names row groups {groups:?} of a file that has {}",
            metadata.num_row_groups()
        );
    }
    Ok(groups)
}

fn pin(slice: &FileSlice) -> Result<Pin> {
    let footer_sha256 = Digest::try_from(slice.footer_sha256.as_ref()).map_err(external)?;
    if slice.plain {
        if slice.adopted.is_some() {
            return exec_err!("a slice says that a plain file was adopted");
        }
        return Ok(Pin::Plain(PlainPin {
            size: slice.size,
            rows: slice.rows,
            footer_length: slice.footer_length,
            footer_sha256,
        }));
    }
    Ok(Pin::Sealed(FooterPin {
        table: TableId::from_slice(&slice.table).map_err(external)?,
        size: slice.size,
        rows: slice.rows,
        aad_prefix: slice.aad_prefix.to_vec(),
        footer_length: slice.footer_length,
        footer_sha256,
        clear: slice.clear,
        adopted: slice
            .adopted
            .as_ref()
            .map(|file| adopted(slice, file))
            .transpose()?,
    }))
}

/// The keys of a file that another program wrote.
fn adopted(slice: &FileSlice, file: &AdoptedFile) -> Result<Adopted> {
    // Each word says something else of the footer, or of where its AAD prefix comes from.
    if slice.clear || !slice.aad_prefix.is_empty() {
        return exec_err!("a slice says of an adopted file what only our own have");
    }
    let key = |key: &DataKey| {
        Ok(AdoptedKey {
            column: key.column,
            metadata: Digest::try_from(key.metadata_sha256.as_ref()).map_err(external)?,
            wrapped: key.wrapped.clone(),
        })
    };
    Ok(Adopted {
        clear_footer: file.clear_footer,
        keys: file.keys.iter().map(key).collect::<Result<_>>()?,
    })
}

/// The columns' types in the file must be the declared ones: DataFusion would cast, and give NULLs
/// for a missing column. Of a file that another program wrote those may be cast that Spark reads as
/// the declared ones, all of whose values fit them.
pub(crate) fn check_types(
    metadata: &ParquetMetaData,
    schema: &Schema,
    of_others: bool,
) -> Result<()> {
    let file = metadata.file_metadata();
    let found = if of_others {
        plain::arrow_schema(metadata).map_err(external)?
    } else {
        parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())?
    };
    for wanted in schema.fields() {
        let mut same_name = found
            .fields()
            .iter()
            .filter(|field| field.name() == wanted.name());
        match (same_name.next(), same_name.next()) {
            (Some(field), None) if field.data_type() == wanted.data_type() => {}
            // Also our own files call a map's entries otherwise than plans do.
            (Some(field), None)
                if (of_others || wanted.data_type().is_nested())
                    && plain::reads_as(field.data_type(), wanted.data_type()) => {}
            (Some(field), None) => {
                return exec_err!(
                    "column {} is {} in a file, the fragment reads {}",
                    wanted.name(),
                    field.data_type(),
                    wanted.data_type()
                );
            }
            (None, _) => {
                return exec_err!("column {} is not in a file of the table", wanted.name());
            }
            (Some(_), Some(_)) => {
                return exec_err!("column {} is twice in a file of the table", wanted.name());
            }
        }
    }
    Ok(())
}

pub(crate) fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
