//! Scans of files whose columns are stored under other protections than `tee`: without keys, and
//! with a host's changes.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow::array::{ArrayRef, AsArray, BinaryArray, Int32Array, Int64Array, RecordBatch};
use coffer_catalog::{NewColumns, TableWrite, VerifiedManifest};
use coffer_custody::{ConfigDir, Keyring, Passphrase, Vault};
use coffer_format::{Error, FilePin, StoredColumn, StoredEncoding, WriteOptions, parse_ddl};
use coffer_protocol::{
    plan::{Schema, TypeId},
    wire::{FileSlice, file_slice::ClearColumn},
};
use coffer_scan::{FooterCache, ScanFiles, TableFiles};
use coffer_schemes::Protection;
use coffer_sealing::KekSet;
use datafusion_common::DataFusionError;
use tempfile::TempDir;

use crate::support::{call, column, data_type, long, read, schema};

const ROWS: i64 = 1000;
const GROUP: i64 = 100;

struct Table {
    _folder: TempDir,
    table: VerifiedManifest,
}

/// A key that shows equality and order, an amount whose sums can be taken, and a secret; in the
/// order of the key.
fn table() -> Table {
    let folder = TempDir::new().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    let config_dir = ConfigDir::at(root.join("config"));
    config_dir.create().unwrap();
    let vault = Vault::from(
        Keyring::create(
            &config_dir.keyring(),
            &Passphrase::new("correct horse").unwrap(),
        )
        .unwrap(),
    );
    let policy = "[tables.t.columns]\nkey = \
        { protection = [\"det\", \"ope\"], domain = [0, 100000] }\namount = \"ashe\"";
    let policy = coffer_catalog::policy::replace(&config_dir, vault.keyring(), policy).unwrap();
    let new = NewColumns {
        columns: parse_ddl("key BIGINT, amount INT, secret BIGINT").unwrap(),
        ..NewColumns::default()
    };
    let write =
        TableWrite::create(&config_dir, &vault, &policy, "t", &root.join("t"), new).unwrap();
    let writer = write.writer(WriteOptions::default()).unwrap();
    let mut file = writer.file().unwrap();
    for from in (0..ROWS).step_by(GROUP as usize) {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + GROUP));
        let amounts: ArrayRef = Arc::new(Int32Array::from_iter_values(
            (from..from + GROUP).map(|i| i as i32),
        ));
        let arrays = vec![Arc::clone(&keys), amounts, keys];
        let batch = RecordBatch::try_new(Arc::clone(writer.schema()), arrays).unwrap();
        file.write(&batch).unwrap();
        file.end_row_group().unwrap();
    }
    let pin = file.finish().unwrap().pin;
    Table {
        table: write.publish(vec![pin]).unwrap(),
        _folder: folder,
    }
}

impl Table {
    fn pin(&self) -> &FilePin {
        &self.table.manifest().files[0]
    }

    fn path(&self) -> PathBuf {
        self.table.file_path(self.pin())
    }

    fn stored(&self, column: u32, encoding: StoredEncoding) -> &StoredColumn {
        let stored = &self.table.manifest().stored;
        stored
            .iter()
            .find(|stored| stored.column == column && stored.encoding == encoding)
            .unwrap()
    }

    /// As the client engine makes it.
    fn slice(&self, first: u32, end: u32, columns: &Schema) -> FileSlice {
        let pin = self.pin();
        let clear = self
            .table
            .manifest()
            .stored
            .iter()
            .filter(|stored| stored.encoding.is_clear());
        let clear_columns = clear
            .enumerate()
            .filter(|(_, stored)| {
                columns
                    .fields
                    .iter()
                    .any(|field| field.name == stored.name())
            })
            .map(|(at, stored)| ClearColumn {
                name: stored.name(),
                chunks: (first..end)
                    .map(|group| pin.chunks[group as usize][at].as_bytes().to_vec().into())
                    .collect(),
            });
        FileSlice {
            path: self.path().to_str().unwrap().to_owned(),
            size: pin.size,
            rows: pin.rows,
            aad_prefix: pin.aad_prefix.clone().into(),
            footer_length: pin.footer_length,
            footer_sha256: pin.footer_sha256.as_bytes().to_vec().into(),
            first_row_group: first,
            end_row_group: end,
            table: self.table.manifest().table.as_bytes().to_vec().into(),
            clear: true,
            clear_columns: clear_columns.collect(),
            plain: false,
            adopted: None,
        }
    }

    /// The key's two forms, and where sums are from.
    fn clear(&self) -> Schema {
        let (det, ope) = (
            self.stored(1, StoredEncoding::Of(Protection::Det)).name(),
            self.stored(1, StoredEncoding::Of(Protection::Ope)).name(),
        );
        let (ashe, row) = (
            self.stored(2, StoredEncoding::Of(Protection::Ashe)).name(),
            self.stored(0, StoredEncoding::Row).name(),
        );
        schema(&[
            (&row, data_type(TypeId::Long)),
            (&ope, data_type(TypeId::Long)),
            (&det, data_type(TypeId::Binary)),
            (&ashe, data_type(TypeId::Long)),
        ])
    }

    fn secret(&self) -> Schema {
        let (tee, row) = (
            self.stored(3, StoredEncoding::Of(Protection::Tee)).name(),
            self.stored(0, StoredEncoding::Row).name(),
        );
        schema(&[
            (&tee, data_type(TypeId::Long)),
            (&row, data_type(TypeId::Long)),
        ])
    }

    fn encrypted(&self, encoding: StoredEncoding, value: i64) -> ArrayRef {
        let codec = self.table.codec().unwrap();
        let at = codec.position(&self.stored(1, encoding).name()).unwrap();
        let values: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        codec.encrypt(at, &values).unwrap()
    }
}

fn files(slice: FileSlice, keys: KekSet) -> ScanFiles {
    ScanFiles {
        slices: vec![slice],
        keys: Arc::new(keys),
        footers: Arc::new(FooterCache::default()),
        store: Arc::new(TableFiles::default()),
        bytes_read: Arc::new(AtomicU64::new(0)),
        whole: None,
        limit: None,
    }
}

/// The table's own error in what a scan says.
fn table_error(error: &DataFusionError) -> String {
    let mut at: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref::<Error>() {
            return format!("{found:?}");
        }
        at = error.source();
    }
    error.to_string()
}

#[tokio::test]
async fn without_keys_stored_columns_are_read_whole_and_as_they_are() {
    let table = table();
    let wanted = table.clear();
    let rows = read(
        files(table.slice(0, 10, &wanted), KekSet::new()),
        &wanted,
        vec![],
    )
    .await
    .unwrap();
    let numbers: Vec<i64> = rows
        .column(0)
        .as_primitive::<arrow::datatypes::Int64Type>()
        .values()
        .to_vec();
    assert_eq!(numbers, (0..ROWS).collect::<Vec<_>>());
    let det = rows
        .column(2)
        .as_any()
        .downcast_ref::<BinaryArray>()
        .unwrap();
    let wanted_det = table.encrypted(StoredEncoding::Of(Protection::Det), 555);
    assert_eq!(det.value(555), wanted_det.as_binary::<i32>().value(0));
    assert_eq!(
        &rows.column(1).slice(7, 1),
        &table.encrypted(StoredEncoding::Of(Protection::Ope), 7)
    );
    // Some row groups only.
    let wanted = table.clear();
    let rows = read(
        files(table.slice(3, 5, &wanted), KekSet::new()),
        &wanted,
        vec![],
    )
    .await
    .unwrap();
    assert_eq!(rows.num_rows(), 200);
}

#[tokio::test]
async fn an_order_prunes_row_groups() {
    let table = table();
    let wanted = table.clear();
    let bound = table.encrypted(StoredEncoding::Of(Protection::Ope), 995);
    let bound = bound.as_primitive::<arrow::datatypes::Int64Type>().value(0);
    let at_least = call(
        "greater_than_or_equal",
        vec![column(1), long(bound)],
        TypeId::Boolean,
    );
    let all = files(table.slice(0, 10, &wanted), KekSet::new());
    let few = files(table.slice(0, 10, &wanted), KekSet::new());
    read(all.clone(), &wanted, vec![]).await.unwrap();
    let rows = read(few.clone(), &wanted, vec![at_least]).await.unwrap();
    let numbers: Vec<i64> = rows
        .column(0)
        .as_primitive::<arrow::datatypes::Int64Type>()
        .values()
        .to_vec();
    assert_eq!(numbers, [995, 996, 997, 998, 999]);
    let (all, few) = (
        all.bytes_read.load(Ordering::Relaxed),
        few.bytes_read.load(Ordering::Relaxed),
    );
    assert!(few * 2 < all, "{few} of {all} bytes");
}

#[tokio::test]
async fn what_is_encrypted_takes_its_keys() {
    let table = table();
    let wanted = table.secret();
    let error = read(
        files(table.slice(0, 10, &wanted), KekSet::new()),
        &wanted,
        vec![],
    )
    .await
    .unwrap_err();
    assert!(table_error(&error).contains("ColumnKeyMissing"), "{error}");
    let names = [wanted.fields[0].name.as_str()];
    let keks = table.table.stored_keks(names).unwrap();
    let pushed = vec![call(
        "greater_than_or_equal",
        vec![column(0), long(990)],
        TypeId::Boolean,
    )];
    let rows = read(files(table.slice(0, 10, &wanted), keks), &wanted, pushed)
        .await
        .unwrap();
    assert_eq!(rows.num_rows(), 10);
    assert_eq!(rows.column(0), rows.column(1));
}

#[tokio::test]
async fn chunks_are_the_pinned_ones_or_none() {
    let table = table();
    let wanted = table.clear();
    let whole = fs::read(table.path()).unwrap();
    let good = table.slice(0, 10, &wanted);
    // Any byte of any chunk that is read, the first and last ones of the file among them.
    let end = whole.len() - usize::try_from(table.pin().footer_length).unwrap() - 8;
    let mut found = 0;
    for at in (4..end).step_by(997) {
        let mut altered = whole.clone();
        altered[at] ^= 0x20;
        fs::write(table.path(), &altered).unwrap();
        match read(files(good.clone(), KekSet::new()), &wanted, vec![]).await {
            // Of a column that is not read, or an index.
            Ok(rows) => assert_eq!(rows.num_rows(), 1000),
            Err(error) => {
                assert!(table_error(&error).contains("ChunkDigest"), "{error}");
                found += 1;
            }
        }
    }
    assert!(found > 5, "{found}");
    fs::write(table.path(), &whole).unwrap();

    // A digest that is missing, altered, or another row group's.
    let slice = |change: &dyn Fn(&mut FileSlice)| {
        let mut slice = good.clone();
        change(&mut slice);
        files(slice, KekSet::new())
    };
    for (name, changed) in [
        ("no digests", slice(&|slice| slice.clear_columns.clear())),
        (
            "a column less",
            slice(&|slice| drop(slice.clear_columns.pop())),
        ),
        (
            "a group less",
            slice(&|slice| drop(slice.clear_columns[0].chunks.pop())),
        ),
        (
            "swapped",
            slice(&|slice| slice.clear_columns[1].chunks.swap(0, 1)),
        ),
        (
            "altered",
            slice(&|slice| slice.clear_columns[1].chunks[3] = vec![0; 32].into()),
        ),
    ] {
        let error = read(changed, &wanted, vec![]).await.expect_err(name);
        assert!(
            table_error(&error).contains("ChunkDigest"),
            "{name}: {error}"
        );
    }
    // Said to be a file of encrypted columns only, or what is encrypted said to be in the clear.
    let sealed = slice(&|slice| slice.clear = false);
    let error = read(sealed, &wanted, vec![]).await.unwrap_err();
    assert!(table_error(&error).contains("FooterMagic"), "{error}");
    let secret = table.secret();
    let mut clear = table.slice(0, 10, &secret);
    clear.clear_columns.push(ClearColumn {
        name: secret.fields[0].name.clone(),
        chunks: vec![vec![0; 32].into(); 10],
    });
    let keks = table
        .table
        .stored_keks([secret.fields[0].name.as_str()])
        .unwrap();
    let error = read(files(clear, keks), &secret, vec![]).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is encrypted where it should not be"),
        "{error}"
    );
}
