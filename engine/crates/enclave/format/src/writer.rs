//! Writing the Parquet files of a table. One [`FileWriter`] per thread or task; nothing is shared
//! between them, so as many run at once as the caller has cores and memory for.

use std::{
    collections::HashSet,
    io::BufWriter,
    marker::PhantomData,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use coffer_protocol::{storage::Storage, wire};
use coffer_schemes::Capability;
use coffer_sealing::{KekId, KekSet, TableId};
use parquet::{
    arrow::{ArrowSchemaConverter, ArrowWriter, arrow_writer::ArrowWriterOptions},
    basic::{Compression, Encoding, Type},
    encryption::encrypt::FileEncryptionProperties,
    errors::ParquetError,
    file::{
        metadata::ParquetMetaData,
        properties::{EnabledStatistics, WriterProperties},
    },
    schema::types::{ColumnDescPtr, ColumnPath},
};
use serde::{Deserialize, Serialize};

use crate::{
    Column, ColumnOrder, Error, FilePin, PartitionValue, RowEncoder, RowGroupPin, StoredEncoding,
    char_varchar,
    files::{self, Direct, Disk},
    folder::Folder,
    footer,
    order::OrderWatch,
    output::Output,
    own_bytes::OwnBytes,
    partition, partition_value, pme,
    stored_column::FILE_ID,
};

mod file;

/// Bytes that the distinct ciphertexts of a column may take in a row group, and still be stored
/// once each.
const SCHEME_DICTIONARY: usize = 16 << 20;

/// Bytes that the distinct whole numbers of a column may take in a row group, and still be stored
/// once each. What has more is stored by differences, which are read sooner than a dictionary that
/// leaves the processor's nearest cache, and take less.
const NUMBERS_DICTIONARY: usize = 128 << 10;

/// So many rows are encrypted at once, at least, where there are as many.
const SCHEME_ROWS: usize = 1 << 17;

/// What a writer may be told.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Rows of a row group at most.
    pub row_group_rows: usize,
    /// Bytes that the encoded, unwritten row group may take before it is closed early.
    pub row_group_bytes: usize,
    /// Mix the rows of each row group.
    pub shuffle_rows: bool,
    /// Compress, put repeated values into dictionaries, and note the least and greatest ones. False
    /// where the host may have chosen some of the bytes: from the lengths it would learn how they
    /// go together with those that are secret.
    pub packed: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            row_group_rows: 1 << 20,
            row_group_bytes: 256 << 20,
            shuffle_rows: false,
            packed: true,
        }
    }
}

/// A write of a table, by the files that it makes: random, and no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct WriteId([u8; 8]);

impl From<WriteId> for String {
    fn from(id: WriteId) -> Self {
        hex::encode(id.0)
    }
}

impl TryFrom<String> for WriteId {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut bytes = [0; 8];
        hex::decode_to_slice(text, &mut bytes).map(|()| Self(bytes))
    }
}

impl WriteId {
    /// A new write's.
    pub fn draw() -> Result<Self, Error> {
        let mut bytes = [0; 8];
        coffer_sealing::fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// From the 8 bytes of a message.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }

    /// Whether a file, by its relative path, is named as those of this write are.
    pub fn named(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        name_parts(name) == Some(*self)
    }
}

/// The write that a data file's name tells of, if it is such a name:
/// `part-<write><8 random bytes>.parquet`, in hex.
pub fn name_parts(name: &str) -> Option<WriteId> {
    let hex = name.strip_prefix("part-")?.strip_suffix(".parquet")?;
    let mut bytes = [0; 16];
    hex::decode_to_slice(hex, &mut bytes).ok()?;
    bytes.first_chunk().copied().map(WriteId)
}

/// Removes a file when dropped, unless it is let go.
#[derive(Debug)]
pub struct FileGuard<D: Disk = Direct>(Option<(Folder<D>, PathBuf)>);

impl<D: Disk> FileGuard<D> {
    /// From now on the file stays.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl<D: Disk> Drop for FileGuard<D> {
    fn drop(&mut self) {
        if let Some((folder, file)) = self.0.take() {
            // What cannot be removed now is a leftover, as after a crash.
            let _ = folder.remove(&file);
        }
    }
}

/// Makes the files of one write of a table. Cheap to clone and to share.
#[derive(Clone)]
pub struct TableWriter<D: Disk = Direct> {
    folder: PathBuf,
    table: TableId,
    columns: Arc<[Column]>,
    partition_columns: Arc<[usize]>,
    schema: SchemaRef,
    keks: Arc<KekSet>,
    write: WriteId,
    options: WriteOptions,
    /// Of a table with stored columns; at the client site only.
    encoder: Option<Arc<dyn RowEncoder>>,
    /// By which a folder that is a URL is reached.
    storage: Option<Arc<dyn Storage>>,
    disk: PhantomData<D>,
}

impl TableWriter {
    /// Into this folder, which must be there; `keks` must hold the footer's KEK and every column's.
    /// `partition_columns` are positions.
    pub fn new(
        folder: PathBuf,
        table: TableId,
        columns: Vec<Column>,
        partition_columns: Vec<usize>,
        keks: Arc<KekSet>,
        write: WriteId,
        options: WriteOptions,
    ) -> Result<Self, Error> {
        Self::on(
            folder,
            table,
            columns,
            partition_columns,
            keks,
            write,
            options,
        )
    }
}

impl<D: Disk> TableWriter<D> {
    /// The same, by another way to the disk.
    pub fn on(
        folder: PathBuf,
        table: TableId,
        columns: Vec<Column>,
        partition_columns: Vec<usize>,
        keks: Arc<KekSet>,
        write: WriteId,
        options: WriteOptions,
    ) -> Result<Self, Error> {
        if partition_columns.iter().any(|at| *at >= columns.len()) {
            return Err(Error::NoSuchColumn("of the partition".into()));
        }
        let fields: Vec<_> = columns.iter().map(Column::field).collect();
        Ok(Self {
            folder,
            table,
            columns: columns.into(),
            partition_columns: partition_columns.into(),
            schema: Arc::new(Schema::new(fields)),
            keks,
            write,
            options,
            encoder: None,
            storage: None,
            disk: PhantomData,
        })
    }

    /// The same, for a table with stored columns.
    #[must_use]
    pub fn storing(mut self, encoder: Arc<dyn RowEncoder>) -> Self {
        self.encoder = Some(encoder);
        self
    }

    /// The same, for a folder that is a URL.
    #[must_use]
    pub fn reaching(mut self, storage: Option<Arc<dyn Storage>>) -> Self {
        self.storage = storage;
        self
    }

    /// The values of the partition columns in one row of a batch.
    pub fn partition_of(
        &self,
        batch: &RecordBatch,
        row: usize,
    ) -> Result<Vec<PartitionValue>, Error> {
        let value = |at: &usize| {
            let (Some(column), Some(array)) = (self.columns.get(*at), batch.columns().get(*at))
            else {
                return Err(Error::NoSuchColumn("of the partition".into()));
            };
            partition_value(column, array.as_ref(), row)
        };
        self.partition_columns.iter().map(value).collect()
    }

    /// Where its files lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What batches must look like.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows with CHAR and VARCHAR values as Spark stores them, or the error that Spark has too.
    pub fn fit(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        char_varchar::stored(batch, &self.columns)
    }

    /// Begins a file of a table without partitions.
    pub fn file(&self) -> Result<FileWriter<D>, Error> {
        self.file_of(Vec::new())
    }

    /// Begins a file whose rows all have these values in the partition columns.
    pub fn file_of(&self, partition: Vec<PartitionValue>) -> Result<FileWriter<D>, Error> {
        if partition.len() != self.partition_columns.len() {
            return Err(Error::BatchSchema("the partition's values".into()));
        }
        let partitioned = self
            .partition_columns
            .iter()
            .filter_map(|at| self.columns.get(*at));
        let inner = partition::folders(partitioned.zip(&partition));
        let folder = Folder::at(&self.folder, self.storage.as_ref())?;
        if !inner.is_empty() {
            folder.make_folders(Path::new(&inner))?;
        }
        let name = format!(
            "{inner}part-{}{}.parquet",
            hex::encode(self.write.0),
            files::random_hex::<8>()?
        );
        let path = self.folder.join(&name);
        let mut aad_prefix = [0; FILE_ID];
        coffer_sealing::fill_random(&mut aad_prefix)?;
        let (schema, properties) = match self.encoder.as_deref() {
            None => (&self.schema, self.properties(&aad_prefix)?),
            Some(encoder) => (
                encoder.schema(),
                self.stored_properties(encoder, &aad_prefix)?,
            ),
        };
        let file = folder.create(Path::new(&name))?;
        let guard = FileGuard(Some((folder, PathBuf::from(&name))));
        let writer = ArrowWriter::try_new_with_options(
            OwnBytes::new(
                BufWriter::with_capacity(1 << 20, file),
                self.encoder.is_some(),
            ),
            Arc::clone(schema),
            ArrowWriterOptions::new()
                .with_properties(properties)
                .with_skip_arrow_metadata(true),
        )?;
        Ok(FileWriter {
            writer,
            guard,
            name,
            path,
            partition,
            aad_prefix,
            schema: Arc::clone(&self.schema),
            options: self.options.clone(),
            watch: OrderWatch::new(&self.schema),
            encoder: self.encoder.clone(),
            rows: 0,
            waiting: Vec::new(),
            waiting_rows: 0,
            waiting_bytes: 0,
        })
    }

    /// A key of its own for each column that is encrypted here, and a signed footer in the clear.
    /// What statistics say of the others is what their values show anyway: the least and greatest
    /// of each row group where the order shows, else nothing.
    fn stored_properties(
        &self,
        encoder: &dyn RowEncoder,
        aad_prefix: &[u8; FILE_ID],
    ) -> Result<WriterProperties, Error> {
        let mut builder = WriterProperties::builder()
            .set_compression(Compression::LZ4_RAW)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_coerce_types(true)
            .set_max_row_group_row_count(Some(self.options.row_group_rows));
        let leaves = leaves(encoder.schema())?;
        let mut keys = Vec::new();
        for stored in encoder.stored() {
            let path = ColumnPath::from(stored.name());
            let ordered = [
                Capability::Everything,
                Capability::Order,
                Capability::PrefixOrder,
            ];
            builder = match stored.encoding {
                encoding if !encoding.is_clear() => {
                    for leaf in leaves.iter().filter(|leaf| leaf.column == stored.name()) {
                        let kek = KekId::column(self.table, stored.id());
                        let key = pme::new_data_key(&kek, &self.keks, false)?;
                        keys.push((leaf.path.string(), key));
                        let path = leaf.path.clone();
                        builder =
                            builder.set_column_statistics_enabled(path, EnabledStatistics::Chunk);
                    }
                    builder
                }
                _ if ordered.into_iter().any(|order| stored.allows(order)) => {
                    builder.set_column_statistics_enabled(path, EnabledStatistics::Chunk)
                }
                StoredEncoding::Row => builder
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
                // No two values are equal, and none packs.
                encoding if encoding.needs_position() => builder
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_compression(path, Compression::UNCOMPRESSED),
                // A ciphertext is three times as long as most values: it pays to store each once.
                StoredEncoding::Of(_) => {
                    builder.set_column_dictionary_page_size_limit(path, SCHEME_DICTIONARY)
                }
                StoredEncoding::File => builder,
            };
        }
        // Without a column key this library would encrypt all columns with the footer's.
        if keys.is_empty() || coffer_sealing::OPEN_TABLES {
            return Ok(builder.build());
        }
        let (key, metadata) = pme::new_data_key(&KekId::footer(self.table), &self.keks, true)?;
        let mut encryption = FileEncryptionProperties::builder(key.to_vec())
            .with_plaintext_footer(true)
            .with_footer_key_metadata(metadata)
            .with_aad_prefix(aad_prefix.to_vec())
            .with_aad_prefix_storage(true);
        for (name, (key, metadata)) in keys {
            encryption = encryption.with_column_key_and_metadata(&name, key.to_vec(), metadata);
        }
        Ok(builder
            .with_file_encryption_properties(encryption.build()?)
            .build())
    }

    /// AES-GCM for everything, an encrypted footer, a key for each column. No bloom filters: they
    /// would lie in the clear.
    fn properties(&self, aad_prefix: &[u8]) -> Result<WriterProperties, Error> {
        let (key, metadata) = pme::new_data_key(&KekId::footer(self.table), &self.keks, true)?;
        // Stored in the file too, since other readers have no manifest to take it from.
        let mut encryption = FileEncryptionProperties::builder(key.to_vec())
            .with_footer_key_metadata(metadata)
            .with_aad_prefix(aad_prefix.to_vec())
            .with_aad_prefix_storage(true);
        let leaves = leaves(&self.schema)?;
        for leaf in &leaves {
            let column = self
                .columns
                .iter()
                .find(|column| column.name == leaf.column);
            let column = column.ok_or_else(|| Error::NoSuchColumn(leaf.column.clone()))?;
            let (key, metadata) =
                pme::new_data_key(&KekId::column(self.table, column.id()), &self.keks, false)?;
            encryption = encryption.with_column_key_and_metadata(
                &leaf.path.string(),
                key.to_vec(),
                metadata,
            );
        }
        let plain = match self.options.packed {
            true => {
                let packed = WriterProperties::builder()
                    .set_compression(Compression::LZ4_RAW)
                    .set_dictionary_enabled(true)
                    .set_statistics_enabled(EnabledStatistics::Page);
                leaves
                    .into_iter()
                    .fold(packed, |packed, leaf| match leaf.kind {
                        Type::INT32 | Type::INT64 => packed
                            .set_column_dictionary_page_size_limit(
                                leaf.path.clone(),
                                NUMBERS_DICTIONARY,
                            )
                            .set_column_encoding(leaf.path, Encoding::DELTA_BINARY_PACKED),
                        Type::BYTE_ARRAY => {
                            packed.set_column_encoding(leaf.path, Encoding::DELTA_LENGTH_BYTE_ARRAY)
                        }
                        _ => packed,
                    })
            }
            // Also no statistics: the least of two texts has the length of one of them. The offset
            // index has lengths of pages only.
            false => WriterProperties::builder()
                .set_compression(Compression::UNCOMPRESSED)
                .set_dictionary_enabled(false)
                .set_statistics_enabled(EnabledStatistics::None),
        };
        let plain = plain
            .set_coerce_types(true)
            .set_key_value_metadata(
                char_varchar::row_metadata(&self.columns).map(|note| vec![note]),
            )
            .set_max_row_group_row_count(Some(self.options.row_group_rows));
        Ok(if coffer_sealing::OPEN_TABLES {
            plain.build()
        } else {
            plain
                .with_file_encryption_properties(encryption.build()?)
                .build()
        })
    }
}

/// One file being written. Dropped before [`FileWriter::finish`], it is removed.
pub struct FileWriter<D: Disk = Direct> {
    writer: ArrowWriter<OwnBytes<BufWriter<Output>>>,
    guard: FileGuard<D>,
    name: String,
    path: PathBuf,
    partition: Vec<PartitionValue>,
    aad_prefix: [u8; FILE_ID],
    schema: SchemaRef,
    options: WriteOptions,
    watch: OrderWatch,
    encoder: Option<Arc<dyn RowEncoder>>,
    /// Encoded so far.
    rows: u64,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    waiting_bytes: usize,
}

/// A file that is complete and durable.
#[derive(Debug, Clone)]
pub struct WrittenFile {
    /// For the manifest.
    pub pin: FilePin,
    /// By column: the order in which its values lie, if any.
    pub order: Vec<Option<ColumnOrder>>,
}

impl From<WrittenFile> for wire::WrittenFile {
    fn from(written: WrittenFile) -> Self {
        let pin = written.pin;
        let order = |order: &Option<ColumnOrder>| match order {
            None => 0,
            Some(ColumnOrder::Ascending) => 1,
            Some(ColumnOrder::Descending) => -1,
        };
        Self {
            path: pin.path,
            size: pin.size,
            rows: pin.rows,
            aad_prefix: pin.aad_prefix.into(),
            footer_length: pin.footer_length,
            footer_sha256: pin.footer_sha256.as_bytes().to_vec().into(),
            row_groups: pin
                .row_groups
                .iter()
                .map(|group| wire::written_file::RowGroup {
                    rows: group.rows,
                    bytes: group.bytes,
                })
                .collect(),
            column_bytes: pin.column_bytes,
            partition: pin
                .partition
                .into_iter()
                .map(|value| wire::PartitionValue { value })
                .collect(),
            order: written.order.iter().map(order).collect(),
        }
    }
}

/// What the Parquet writer could not write, a full disk for one, is the file's error and not the
/// format's.
fn failed(path: &Path) -> impl FnOnce(ParquetError) -> Error {
    move |error| match error {
        ParquetError::External(inner) => match inner.downcast() {
            Ok(inner) => Error::io("write", path)(*inner),
            Err(inner) => ParquetError::External(inner).into(),
        },
        error => error.into(),
    }
}

/// What a manifest says of a file's row groups.
pub fn row_groups(metadata: &ParquetMetaData) -> Vec<RowGroupPin> {
    let pin = |group: &parquet::file::metadata::RowGroupMetaData| RowGroupPin {
        rows: count(group.num_rows()),
        bytes: count(group.compressed_size()),
    };
    metadata.row_groups().iter().map(pin).collect()
}

/// A leaf of a column, which has column chunks and a data key of its own.
struct Leaf {
    column: String,
    path: ColumnPath,
    /// Whole numbers are integers, dates, times, decimals of up to 18 digits.
    kind: Type,
}

/// The leaves of columns as they lie in files. Encryption names them by their paths' parts with
/// dots between, so no two may be called the same: one would be under the other's key.
fn leaves(schema: &Schema) -> Result<Vec<Leaf>, Error> {
    let parquet = ArrowSchemaConverter::new()
        .with_coerce_types(true)
        .convert(schema)?;
    let mut seen = HashSet::new();
    let leaf = |leaf: &ColumnDescPtr| {
        let path = leaf.path().clone();
        match seen.insert(path.string()) {
            true => Ok(Leaf {
                column: footer::root(&path).to_owned(),
                path,
                kind: leaf.physical_type(),
            }),
            false => Err(Error::SameLeaf(path.string())),
        }
    };
    parquet.columns().iter().map(leaf).collect()
}

/// Whether files can hold such columns.
pub fn check_leaves(schema: &Schema) -> Result<(), Error> {
    leaves(schema).map(|_| ())
}

/// Stored bytes of each column of a file.
pub fn column_bytes(metadata: &ParquetMetaData, columns: usize) -> Vec<u64> {
    let mut sums = vec![0_u64; columns];
    let places = footer::leaf_places(metadata.file_metadata().schema_descr());
    for group in metadata.row_groups() {
        for (chunk, place) in group.columns().iter().zip(&places) {
            if let Some(sum) = sums.get_mut(place.column) {
                *sum = sum.saturating_add(count(chunk.compressed_size()));
            }
        }
    }
    sums
}

/// A count that Parquet has signed.
pub fn count(signed: i64) -> u64 {
    u64::try_from(signed).unwrap_or(0)
}
