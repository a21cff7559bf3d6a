//! Keys and files that the targets share. The keyring and the wrapped table key are committed, so that sealed inputs of the corpus
//! open on every machine; what they protect is nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use coffer_keys::{ColumnId, KekSet, Keyring, Passphrase, TableId, TableKey, WrappedTableKey};
use coffer_sealing::{Secret, SessionId, SessionKey};
use coffer_table::{Column, SparkType, TableWriter, WriteId, WriteOptions};

pub(crate) const SESSION: SessionId = SessionId([1; 16]);
const MASTER: &str = "main";

pub(crate) fn session_key() -> SessionKey {
    SessionKey::from_secret(Secret::from_bytes([7; 32]))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/fixtures")
}

fn passphrase() -> Passphrase {
    Passphrase::new("nothing of worth is kept here").unwrap()
}

/// A folder for files that an input is written to; in memory where the system has such a place.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// Makes what is slow to make, so that the first input is not charged for it.
pub(crate) fn warm() {
    LazyLock::force(&TABLE_KEY);
    LazyLock::force(&FILE);
    LazyLock::force(&PLAIN);
}

/// The key of the fixtures' table. Opening its keyring takes Argon2 once for each process.
pub(crate) static TABLE_KEY: LazyLock<TableKey> = LazyLock::new(|| {
    let folder = folder();
    let (keyring, wrapped) = (folder.join("keyring"), folder.join("table-key"));
    if !keyring.exists() {
        fs::create_dir_all(&folder).unwrap();
        let made = Keyring::create(&keyring, &passphrase()).unwrap();
        let key = TableKey::generate(TableId([2; 16])).unwrap();
        fs::write(&wrapped, made.wrap(MASTER, &key).unwrap().to_bytes()).unwrap();
    }
    let wrapped = WrappedTableKey::from_bytes(&fs::read(&wrapped).unwrap()).unwrap();
    Keyring::open(&keyring, &passphrase())
        .unwrap()
        .unwrap(&wrapped)
        .unwrap()
});

/// The KEKs of both columns and the footer.
pub(crate) fn keks() -> Arc<KekSet> {
    let mut keks: KekSet = [1, 2]
        .map(|id| TABLE_KEY.kek(ColumnId(id)).unwrap())
        .into_iter()
        .collect();
    keks.insert(TABLE_KEY.footer_kek().unwrap());
    Arc::new(keks)
}

pub(crate) fn columns() -> Vec<Column> {
    [(1, "a", SparkType::Long), (2, "s", SparkType::String)]
        .map(|(id, name, kind)| Column {
            id,
            name: name.to_owned(),
            kind,
            nullable: true,
            protection: "tee".to_owned(),
        })
        .to_vec()
}

/// Rows of a BIGINT `a` and a STRING `s`, with NULLs.
pub(crate) fn rows(schema: arrow::datatypes::SchemaRef, count: i64) -> RecordBatch {
    let some = |i: i64| (i % 7 != 3).then_some(i);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter((0..count).map(some))),
        Arc::new(StringArray::from_iter(
            (0..count).map(|i| some(i).map(|i| format!("row {}", i % 5))),
        )),
    ];
    RecordBatch::try_new(schema, columns).unwrap()
}

/// A sealed file of two row groups, and what a manifest would pin of it.
pub(crate) struct SealedFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rows: u64,
    pub(crate) aad_prefix: Vec<u8>,
}

const ROWS: i64 = 80;

/// Committed too, since what is sealed inside its footer opens with its own AAD prefix only.
pub(crate) static FILE: LazyLock<SealedFile> = LazyLock::new(|| {
    let folder = folder();
    let (file, prefix) = (folder.join("sealed.parquet"), folder.join("sealed.aad-prefix"));
    if !file.exists() {
        let (bytes, aad_prefix) = sealed_file();
        fs::write(&file, bytes).unwrap();
        fs::write(&prefix, aad_prefix).unwrap();
    }
    SealedFile {
        rows: ROWS.unsigned_abs(),
        aad_prefix: fs::read(&prefix).unwrap(),
        bytes: fs::read(&file).unwrap(),
    }
});

fn sealed_file() -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let options = WriteOptions {
        row_group_rows: 40,
        ..WriteOptions::default()
    };
    let writer = TableWriter::new(
        folder.path().to_owned(),
        TABLE_KEY.table(),
        columns(),
        Vec::new(),
        keks(),
        WriteId::from_slice(&[3; 8]).unwrap(),
        options,
    )
    .unwrap();
    let mut file = writer.file().unwrap();
    file.write(&rows(Arc::clone(writer.schema()), ROWS)).unwrap();
    let pin = file.finish().unwrap().pin;
    (fs::read(folder.path().join(&pin.path)).unwrap(), pin.aad_prefix)
}

/// The same rows in an unencrypted file.
pub(crate) static PLAIN: LazyLock<Vec<u8>> =
    LazyLock::new(|| plain(parquet::file::properties::WriterVersion::PARQUET_1_0, true));

pub(crate) fn plain(version: parquet::file::properties::WriterVersion, dictionary: bool) -> Vec<u8> {
    let fields = columns().iter().map(Column::field).collect::<Vec<_>>();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_writer_version(version)
        .set_dictionary_enabled(dictionary)
        .set_compression(parquet::basic::Compression::SNAPPY)
        .set_max_row_group_row_count(Some(40))
        .build();
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, Arc::clone(&schema), Some(properties)).unwrap();
    writer.write(&rows(schema, ROWS)).unwrap();
    writer.close().unwrap();
    bytes
}

/// The footer and the eight bytes behind it.
pub(crate) fn footer_of(file: &[u8]) -> &[u8] {
    let (rest, _) = file.split_last_chunk::<4>().unwrap();
    let (_, length) = rest.split_last_chunk::<4>().unwrap();
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap();
    &file[file.len() - 8 - length..]
}
