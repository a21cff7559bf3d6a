//! Footers of plain Parquet files, which are not verified, opened only where their bytes are those
//! that the client site pinned.

use std::ops::Range;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit};
use bytes::Bytes;
use parquet::{
    arrow::parquet_to_arrow_schema,
    basic::Type,
    file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder},
};

use crate::{
    Digest, Error, OpenedFooter, SparkType,
    footer::{TAIL_LEN, caught, decode},
    lengths,
};

/// The end of a plain file.
pub const MAGIC: [u8; 4] = *b"PAR1";
/// The longest footer that is read. The length is the host's word, and the footer is held in memory
/// to be digested.
pub const MAX_FOOTER: u64 = 64 << 20;
/// What the client site found of a plain file's footer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlainPin {
    /// Of the whole file.
    pub size: u64,
    /// Of the whole file.
    pub rows: u64,
    /// Without the trailing length word and magic.
    pub footer_length: u64,
    /// Of the footer without the trailing length word and magic.
    pub footer_sha256: Digest,
}

/// Opens a plain file's footer: `bytes` are the footer and the 8 bytes behind it. Length and digest
/// come before parsing.
pub fn open_footer(bytes: Bytes, pin: &PlainPin) -> Result<OpenedFooter, Error> {
    let same = split(&bytes).is_ok_and(|(footer, length)| {
        length == pin.footer_length && Digest::of(footer) == pin.footer_sha256
    });
    if !same {
        return Err(Error::PlainChanged);
    }
    let metadata = parse(bytes, pin.size)?;
    Ok(OpenedFooter::plain(metadata))
}

impl PlainPin {
    /// Which bytes of the file [`open_footer`] wants.
    pub fn range(&self) -> Result<Range<u64>, Error> {
        let length = self
            .footer_length
            .checked_add(TAIL_LEN)
            .ok_or(Error::PlainMagic)?;
        Ok(self.size.checked_sub(length).ok_or(Error::PlainMagic)?..self.size)
    }
}

/// Whether a column of a file is what a table's column says, for the few types that Parquet has and
/// Spark has not, and the names that writers give to the parts of lists and maps.
pub fn reads_as(found: &DataType, declared: &DataType) -> bool {
    SparkType::from_arrow("", found).is_ok_and(|kind| kind.to_arrow() == *declared)
}

/// The file's columns as Arrow has them, by Parquet's types alone: what writers noted beside them
/// plays no part. An INT96 is an instant, as Spark reads it, in microseconds, which have Spark's
/// range.
pub fn arrow_schema(metadata: &ParquetMetaData) -> Result<Schema, Error> {
    let parquet = metadata.file_metadata().schema_descr();
    let schema = parquet_to_arrow_schema(parquet, None)?;
    let leaves = parquet.columns().iter();
    let mut int96 = leaves.map(|leaf| leaf.physical_type() == Type::INT96);
    Ok(Schema::new(instants(schema.fields(), &mut int96)))
}

/// The fields, whose leaves are those of Parquet, in the same order.
fn instants(fields: &Fields, int96: &mut impl Iterator<Item = bool>) -> Fields {
    fields.iter().map(|field| instant(field, int96)).collect()
}

fn instant(field: &FieldRef, int96: &mut dyn Iterator<Item = bool>) -> FieldRef {
    let mut int96 = int96;
    let data_type = match field.data_type() {
        DataType::List(element) => DataType::List(instant(element, int96)),
        DataType::LargeList(element) => DataType::LargeList(instant(element, int96)),
        DataType::FixedSizeList(element, size) => {
            DataType::FixedSizeList(instant(element, int96), *size)
        }
        DataType::Struct(fields) => DataType::Struct(instants(fields, &mut int96)),
        DataType::Map(entries, sorted) => DataType::Map(instant(entries, int96), *sorted),
        flat => match int96.next() {
            Some(true) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            _ => flat.clone(),
        },
    };
    match data_type == *field.data_type() {
        true => FieldRef::clone(field),
        false => Field::clone(field).with_data_type(data_type).into(),
    }
}

/// The footer without its tail, and the length that the tail says.
pub fn split(bytes: &[u8]) -> Result<(&[u8], u64), Error> {
    let (footer, tail) = bytes.split_last_chunk::<8>().ok_or(Error::PlainMagic)?;
    let length = tail_length(tail)?;
    if u64::try_from(footer.len()) != Ok(length) {
        return Err(Error::PlainMagic);
    }
    Ok((footer, length))
}

/// The footer's length, as the file's last 8 bytes say it.
pub fn tail_length(tail: &[u8]) -> Result<u64, Error> {
    match tail.split_first_chunk::<4>() {
        Some((length, magic)) if magic == MAGIC => match u64::from(u32::from_le_bytes(*length)) {
            long if long > MAX_FOOTER => Err(Error::PlainFooter(long)),
            length => Ok(length),
        },
        _ => Err(Error::PlainMagic),
    }
}

/// Parses a footer; one with encrypted columns is none of an unverified input.
pub fn parse(bytes: Bytes, size: u64) -> Result<ParquetMetaData, Error> {
    lengths::check_footer(split(&bytes)?.0)?;
    let decoder =
        caught(|| {
            Ok(ParquetMetaDataPushDecoder::try_new(size)?
                .with_page_index_policy(PageIndexPolicy::Skip))
        })?;
    let metadata = decode(decoder, bytes, size)?;
    let mut chunks = metadata
        .row_groups()
        .iter()
        .flat_map(|group| group.columns());
    if chunks.any(|chunk| chunk.crypto_metadata().is_some()) {
        return Err(Error::PlainMagic);
    }
    Ok(metadata)
}
