//! From slices of a descriptor to files for DataFusion's Parquet source.

use std::{ops::Range, sync::Arc};

use arrow::datatypes::{Schema, SchemaRef};
use coffer_format::{Adopted, AdoptedKey, Digest, FooterPin, PlainPin, footer, plain};
use coffer_protocol::wire::{
    FileSlice,
    file_slice::{AdoptedFile, DataKey},
};
use coffer_sealing::TableId;
use datafusion_common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource_parquet::ParquetAccessPlan;
use parquet::{arrow::parquet_to_arrow_schema, file::metadata::ParquetMetaData};

use crate::{
    ScanFiles,
    footers::{Footer, Pin},
    reader::{Chunk, Kind, SealedFile, read_range},
};

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
    for slice in &task.slices {
        let path: Arc<str> = slice.path.as_str().into();
        let pin = pin(slice)?;
        let footer = match task.footers.get(&pin, schema, &task.keys) {
            Some(footer) => footer,
            None => {
                let bytes = match task.footers.raw(&path, &pin) {
                    Some(bytes) => bytes,
                    None => {
                        let (store, range) = (task.store.as_ref(), pin.range()?);
                        read_range(store, &path, range, &task.bytes_read).await?
                    }
                };
                task.footers.open(&path, bytes, pin, schema, &task.keys)?
            }
        };
        opened.all_keys &= footer.all_keys();
        opened.files.push(file(slice, path, &footer)?);
    }
    Ok(opened)
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
