//! Footers of sealed files, opened only after their bytes were found to be the pinned ones.
//!
//! The order is the point: a Parquet reader with keys still accepts a file that is not encrypted at
//! all, and one with malformed modules panics. So length and digest come before parsing, and
//! afterwards each column must carry encryption metadata of this table.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bytes::Bytes;
use coffer_sealing::{KekId, KekSet, TableId};
use parquet::{
    DecodeResult,
    encryption::decrypt::{FileDecryptionProperties, KeyRetriever},
    file::{
        column_crypto_metadata::{ColumnCryptoMetaData, EncryptionWithColumnKey},
        metadata::{
            ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder,
            RowGroupMetaData,
        },
    },
    schema::types::{ColumnPath, SchemaDescriptor},
};

use crate::{
    Adopted, Digest, Error, FilePin, KekRetriever, KeyMaterial, adopted::AdoptedRetriever, lengths,
};

/// Bytes behind the footer: its length as u32 LE, then the magic of a file with an encrypted
/// footer.
pub const TAIL_LEN: u64 = 8;
const MAGIC: [u8; 4] = if coffer_sealing::OPEN_TABLES {
    CLEAR_MAGIC
} else {
    *b"PARE"
};
const CLEAR_MAGIC: [u8; 4] = *b"PAR1";

/// What must be known of a file before its footer is read. Comes from a manifest or a sealed
/// descriptor, never from the file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FooterPin {
    /// The table whose KEKs wrap the file's keys.
    pub table: TableId,
    /// Of the whole file.
    pub size: u64,
    /// Of the whole file.
    pub rows: u64,
    /// Of the whole file.
    pub aad_prefix: Vec<u8>,
    /// Without the trailing length word and magic.
    pub footer_length: u64,
    /// Of the footer without the trailing length word and magic.
    pub footer_sha256: Digest,
    /// Of a table with stored columns: the footer is in the clear, and not every column is
    /// encrypted.
    pub clear: bool,
    /// Of a file that another program wrote: its keys.
    pub adopted: Option<Adopted>,
}

impl FooterPin {
    /// The pin of one file of a table; `clear`: of one with stored columns.
    pub fn of(table: TableId, file: &FilePin, clear: bool) -> Self {
        Self {
            table,
            size: file.size,
            rows: file.rows,
            aad_prefix: file.aad_prefix.clone(),
            footer_length: file.footer_length,
            footer_sha256: file.footer_sha256,
            clear,
            adopted: file.adopted.clone(),
        }
    }

    /// Whether the footer lies in the clear.
    fn is_clear(&self) -> bool {
        self.adopted
            .as_ref()
            .map_or(self.clear, |adopted| adopted.clear_footer)
    }

    /// Which bytes of the file [`open`] wants: the footer and the 8 bytes behind it.
    pub fn range(&self) -> Result<std::ops::Range<u64>, Error> {
        let length = self
            .footer_length
            .checked_add(TAIL_LEN)
            .ok_or(Error::FooterMagic)?;
        let start = self.size.checked_sub(length).ok_or(Error::FooterMagic)?;
        Ok(start..self.size)
    }
}

/// A footer that passed every check.
#[derive(Debug, Clone)]
pub struct OpenedFooter {
    metadata: Arc<ParquetMetaData>,
    all_keys: bool,
}

impl OpenedFooter {
    /// Of an unverified input, whose columns need no keys.
    pub(crate) fn plain(metadata: ParquetMetaData) -> Self {
        Self {
            metadata: Arc::new(metadata),
            all_keys: true,
        }
    }

    /// The file's metadata, with the decryptor for its pages inside.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        &self.metadata
    }

    /// Whether the keys of all columns were held. The page index can be read only then.
    pub fn all_keys(&self) -> bool {
        self.all_keys
    }
}

/// Opens a footer. `bytes` are those of [`FooterPin::range`]; `columns` are those that will be
/// read, whose keys must be held. Encryption under a key of the pin's table is demanded of every
/// column, read or not; but with [`FooterPin::clear`] a column may be unencrypted, and then whoever
/// reads it must have the digests of its chunks.
pub fn open(
    bytes: Bytes,
    pin: &FooterPin,
    keks: &Arc<KekSet>,
    columns: &[&str],
) -> Result<OpenedFooter, Error> {
    let footer = check_bytes(&bytes, pin)?;
    if pin.is_clear() {
        lengths::check_footer(footer)?;
    } else if !coffer_sealing::OPEN_TABLES {
        lengths::check_sealed_footer(footer)?;
    }
    let metadata = if let Some(adopted) = &pin.adopted {
        let keys = AdoptedRetriever {
            table: pin.table,
            adopted: adopted.clone(),
            keks: Arc::clone(keks),
        };
        parse(bytes, pin.size, None, Arc::new(keys))?
    } else if pin.clear && !keks.contains(&KekId::footer(pin.table)) {
        // Nothing in it is encrypted for who holds no key; its digest is what makes it authentic.
        parse_clear(bytes, pin.size)?
    } else {
        let keys = KekRetriever::new(Arc::<KekSet>::clone(keks));
        parse(bytes, pin.size, Some(&pin.aad_prefix), Arc::new(keys))?
    };
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(u64::MAX);
    if rows != pin.rows {
        return Err(Error::FooterRows {
            want: pin.rows,
            got: rows,
        });
    }
    let all_keys = if let Some(adopted) = &pin.adopted {
        check_columns(&metadata, columns, |group, chunk, path| {
            Ok(foreign(pin.table, adopted, keks, chunk, path)? && is_open(group, chunk))
        })?
    } else if pin.clear {
        check_columns(&metadata, columns, |_, chunk, path| {
            stored(pin.table, keks, chunk, path)
        })?
    } else {
        check_columns(&metadata, columns, |group, chunk, path| {
            own(pin.table, group, chunk, path)
        })?
    };
    Ok(OpenedFooter {
        metadata: Arc::new(metadata),
        all_keys,
    })
}

/// Length, magic and digest, before a byte is parsed. Gives the footer without its tail.
fn check_bytes<'a>(bytes: &'a [u8], pin: &FooterPin) -> Result<&'a [u8], Error> {
    let want = pin.footer_length.saturating_add(TAIL_LEN);
    let got = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if got != want {
        return Err(Error::FooterLength {
            want: pin.footer_length,
            got: got.saturating_sub(TAIL_LEN),
        });
    }
    let (footer, tail) = bytes.split_last_chunk::<8>().ok_or(Error::FooterMagic)?;
    let (length, magic) = tail.split_first_chunk::<4>().ok_or(Error::FooterMagic)?;
    if magic != if pin.is_clear() { CLEAR_MAGIC } else { MAGIC } {
        return Err(Error::FooterMagic);
    }
    let length = u64::from(u32::from_le_bytes(*length));
    if length != pin.footer_length {
        return Err(Error::FooterLength {
            want: pin.footer_length,
            got: length,
        });
    }
    if Digest::of(footer) != pin.footer_sha256 {
        return Err(Error::FooterDigest);
    }
    Ok(footer)
}

/// Parses footer and tail. Without a prefix the one stored in the file is taken (foreign files
/// only).
pub fn parse(
    bytes: Bytes,
    size: u64,
    aad_prefix: Option<&[u8]>,
    keys: Arc<dyn KeyRetriever>,
) -> Result<ParquetMetaData, Error> {
    let mut keys = FileDecryptionProperties::with_key_retriever(keys);
    if let Some(prefix) = aad_prefix {
        keys = keys.with_aad_prefix(prefix.to_vec());
    }
    let keys = keys.build()?;
    let decoder = caught(|| {
        Ok(ParquetMetaDataPushDecoder::try_new(size)?
            .with_page_index_policy(PageIndexPolicy::Skip)
            .with_file_decryption_properties(Some(keys)))
    })?;
    decode(decoder, bytes, size)
}

fn parse_clear(bytes: Bytes, size: u64) -> Result<ParquetMetaData, Error> {
    let decoder =
        caught(|| {
            Ok(ParquetMetaDataPushDecoder::try_new(size)?
                .with_page_index_policy(PageIndexPolicy::Skip))
        })?;
    decode(decoder, bytes, size)
}

/// Has the Parquet reader decode a footer, of which these are all bytes.
pub fn decode(
    mut decoder: ParquetMetaDataPushDecoder,
    bytes: Bytes,
    size: u64,
) -> Result<ParquetMetaData, Error> {
    let start = size.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    caught(move || {
        decoder.push_range(start..size, bytes)?;
        match decoder.try_decode()? {
            DecodeResult::Data(metadata) => Ok(metadata),
            DecodeResult::NeedsData(_) | DecodeResult::Finished => Err(Error::FooterMagic),
        }
    })
}

/// The crate indexes into modules by lengths that it has not checked.
pub fn caught<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::ParquetPanic))
}

/// Every column of every row group is one that `held` accepts; those of `wanted` are there, and
/// their keys are held, which is what `held` says. Says whether all keys are.
fn check_columns(
    metadata: &ParquetMetaData,
    wanted: &[&str],
    held: impl Fn(&RowGroupMetaData, &ColumnChunkMetaData, &ColumnPath) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let schema = metadata.file_metadata().schema_descr();
    for name in wanted {
        if !schema
            .columns()
            .iter()
            .any(|leaf| root(leaf.path()) == *name)
        {
            return Err(Error::NoSuchColumn((*name).to_owned()));
        }
    }
    let mut all_keys = true;
    for group in metadata.row_groups() {
        for (chunk, column) in group.columns().iter().zip(schema.columns()) {
            let held = held(group, chunk, column.path())?;
            all_keys &= held;
            let name = root(column.path());
            if !held && wanted.contains(&name) {
                return Err(Error::ColumnKeyMissing(name.to_owned()));
            }
        }
    }
    Ok(all_keys)
}

/// The table's column that a leaf belongs to. Policies, rights and keys name columns, never leaves.
pub fn root(leaf: &ColumnPath) -> &str {
    leaf.parts().first().map_or("", String::as_str)
}

/// Where a leaf stands: in which of the file's columns, by place, and as which of how many leaves.
#[derive(Debug, Clone, Copy)]
pub struct LeafPlace {
    /// The column's place.
    pub column: usize,
    /// The leaf's place in the column.
    pub at: usize,
    /// Leaves of the column.
    pub of: usize,
}

/// The places of a schema's leaves, in order. Those of one column lie beside each other.
pub fn leaf_places(schema: &SchemaDescriptor) -> Vec<LeafPlace> {
    let columns: Vec<usize> = (0..schema.num_columns())
        .map(|leaf| schema.get_column_root_idx(leaf))
        .collect();
    let of_one = columns.chunk_by(|a, b| a == b);
    let places = of_one.flat_map(|leaves| {
        let of = leaves.len();
        let leaves = leaves.iter().enumerate();
        leaves.map(move |(at, column)| LeafPlace {
            column: *column,
            at,
            of,
        })
    });
    places.collect()
}

/// A chunk of a table without stored columns: encrypted with a key of its own, of this table.
fn own(
    table: TableId,
    group: &RowGroupMetaData,
    chunk: &ColumnChunkMetaData,
    path: &ColumnPath,
) -> Result<bool, Error> {
    match chunk.crypto_metadata() {
        Some(ColumnCryptoMetaData::ENCRYPTION_WITH_COLUMN_KEY(key)) => {
            own_key(table, key, path)?;
        }
        None if coffer_sealing::OPEN_TABLES => {}
        _ => return Err(Error::ColumnNotEncrypted(path.string())),
    }
    Ok(is_open(group, chunk))
}

/// A chunk whose key does not open keeps its metadata sealed, and says so by having no data; but in
/// a footer in the clear it looks like any other.
fn is_open(group: &RowGroupMetaData, chunk: &ColumnChunkMetaData) -> bool {
    chunk.num_values() > 0 || chunk.compressed_size() > 0 || group.num_rows() == 0
}

/// A chunk of a table with stored columns: if it is encrypted, then with a key of this table.
fn stored(
    table: TableId,
    keks: &KekSet,
    chunk: &ColumnChunkMetaData,
    path: &ColumnPath,
) -> Result<bool, Error> {
    match chunk.crypto_metadata() {
        Some(ColumnCryptoMetaData::ENCRYPTION_WITH_COLUMN_KEY(key)) => {
            let material = own_key(table, key, path)?;
            // In a footer in the clear a chunk whose key is not held looks like any other.
            Ok(keks.find(&material.kek_id).is_ok() && keks.contains(&KekId::footer(table)))
        }
        Some(ColumnCryptoMetaData::ENCRYPTION_WITH_FOOTER_KEY) => {
            Err(Error::ColumnNotEncrypted(path.string()))
        }
        None => Ok(true),
    }
}

/// A chunk of an adopted file: encrypted with one of the keys that the file had when it was
/// adopted.
fn foreign(
    table: TableId,
    adopted: &Adopted,
    keks: &KekSet,
    chunk: &ColumnChunkMetaData,
    path: &ColumnPath,
) -> Result<bool, Error> {
    match chunk.crypto_metadata() {
        Some(ColumnCryptoMetaData::ENCRYPTION_WITH_COLUMN_KEY(key)) => {
            if key.path_in_schema != path.parts() {
                return Err(Error::ColumnForeignKey(path.string()));
            }
            let known = adopted.find(key.key_metadata.as_deref().unwrap_or_default());
            Ok(known.is_some_and(|key| key.column != 0 && keks.contains(&key.kek(table))))
        }
        Some(ColumnCryptoMetaData::ENCRYPTION_WITH_FOOTER_KEY) => {
            Ok(keks.contains(&KekId::footer(table)))
        }
        None => Err(Error::ColumnNotEncrypted(path.string())),
    }
}

fn own_key(
    table: TableId,
    key: &EncryptionWithColumnKey,
    path: &ColumnPath,
) -> Result<KeyMaterial, Error> {
    let material = KeyMaterial::parse(key.key_metadata.as_deref().unwrap_or_default())?;
    if !belongs(&material.kek_id, table) || key.path_in_schema != path.parts() {
        return Err(Error::ColumnForeignKey(path.string()));
    }
    Ok(material)
}

fn belongs(kek_id: &str, table: TableId) -> bool {
    kek_id
        .split_once('.')
        .is_some_and(|(id, column)| id == table.to_string() && column != "footer")
}
