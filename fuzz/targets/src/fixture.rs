//! Keys and files that the targets share. The keyring and the wrapped table key are committed, so
//! that sealed inputs of the corpus open on every machine; what they protect is nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use coffer_custody::{
    ConfigDir, FileKeys, Keyring, Passphrase, Policy, TableKey, Vault, WrappedTableKey,
};
use coffer_format::{Column, SparkType, TableWriter, WriteId, WriteOptions};
use coffer_sealing::{ColumnId, KekSet, Secret, SessionId, SessionKey, TableId};
use parquet::{
    encryption::encrypt::FileEncryptionProperties,
    file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion},
};

pub(crate) const SESSION: SessionId = SessionId([1; 16]);
pub(crate) const MASTER: &str = "main";

pub(crate) fn session_key() -> SessionKey {
    SessionKey::from_secret(Secret::from_bytes([7; 32]))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
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
    LazyLock::force(&FOREIGN);
    LazyLock::force(&FILE_KEYS);
}

/// Opening the keyring takes Argon2, once for each process.
static VAULT: LazyLock<Arc<Vault>> = LazyLock::new(|| {
    let folder = folder();
    let keyring = folder.join("keyring");
    if !keyring.exists() {
        fs::create_dir_all(&folder).unwrap();
        let made = Keyring::create(&keyring, &passphrase()).unwrap();
        let key = TableKey::generate(TableId([2; 16])).unwrap();
        fs::write(
            folder.join("table-key"),
            made.wrap(MASTER, &key).unwrap().to_bytes(),
        )
        .unwrap();
    }
    Arc::new(Vault::from(Keyring::open(&keyring, &passphrase()).unwrap()))
});

/// A policy that the fixtures' keyring signed.
pub(crate) fn policy(text: &str) -> Policy {
    let folder = scratch();
    coffer_catalog::policy::replace(&ConfigDir::at(folder.path()), VAULT.keyring(), text).unwrap()
}

/// The key of the fixtures' table.
pub(crate) static TABLE_KEY: LazyLock<TableKey> = LazyLock::new(|| {
    let wrapped = fs::read(folder().join("table-key")).unwrap();
    let wrapped = WrappedTableKey::from_bytes(&wrapped).unwrap();
    VAULT.keyring().unwrap(&wrapped).unwrap()
});

/// Of other programs' files.
pub(crate) static FILE_KEYS: LazyLock<FileKeys> =
    LazyLock::new(|| FileKeys::new(Arc::clone(&VAULT)));

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
            protection: coffer_schemes::Protection::Tee.into(),
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
    let (file, prefix) = (
        folder.join("sealed.parquet"),
        folder.join("sealed.aad-prefix"),
    );
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
    file.write(&rows(Arc::clone(writer.schema()), ROWS))
        .unwrap();
    let pin = file.finish().unwrap().pin;
    (
        fs::read(folder.path().join(&pin.path)).unwrap(),
        pin.aad_prefix,
    )
}

/// Data keys of the files below, by the column's id (0: the footer) and the key metadata that names
/// them.
pub(crate) const FOREIGN_KEYS: [(u32, &[u8], [u8; 16]); 3] = [
    (0, b"footer", [10; 16]),
    (1, b"a", [11; 16]),
    (2, b"s", [12; 16]),
];

/// The same rows as another program may have written them, with a footer that is sealed, and one
/// that is signed. Committed too.
pub(crate) static FOREIGN: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    [
        ("foreign-sealed.parquet", false),
        ("foreign-signed.parquet", true),
    ]
    .map(|(name, signed)| {
        let file = folder().join(name);
        if !file.exists() {
            fs::write(&file, foreign(signed)).unwrap();
        }
        fs::read(&file).unwrap()
    })
});

fn foreign(signed: bool) -> Vec<u8> {
    let [(_, footer, key), (_, a, key_a), (_, s, key_s)] = FOREIGN_KEYS;
    let encryption = FileEncryptionProperties::builder(key.to_vec())
        .with_plaintext_footer(signed)
        .with_footer_key_metadata(footer.to_vec())
        .with_column_key_and_metadata("a", key_a.to_vec(), a.to_vec())
        .with_column_key_and_metadata("s", key_s.to_vec(), s.to_vec())
        .build()
        .unwrap();
    parquet_file(WriterProperties::builder().with_file_encryption_properties(encryption))
}

/// The same rows in an unencrypted file.
pub(crate) static PLAIN: LazyLock<Vec<u8>> =
    LazyLock::new(|| plain(WriterVersion::PARQUET_1_0, true));

pub(crate) fn plain(version: WriterVersion, dictionary: bool) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_dictionary_enabled(dictionary);
    parquet_file(properties)
}

fn parquet_file(properties: WriterPropertiesBuilder) -> Vec<u8> {
    let fields = columns().iter().map(Column::field).collect::<Vec<_>>();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let properties = properties
        .set_compression(parquet::basic::Compression::SNAPPY)
        .set_max_row_group_row_count(Some(40))
        .build();
    let mut bytes = Vec::new();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(&mut bytes, Arc::clone(&schema), Some(properties))
            .unwrap();
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
