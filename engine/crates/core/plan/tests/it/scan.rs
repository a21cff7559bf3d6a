//! Scans of sealed files: what is read, and files that must be refused.

use std::{
    fs,
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use coffer_custody::TableKey;
use coffer_format::{Column, Digest, FilePin, SparkType, TableWriter, WriteId, WriteOptions};
use coffer_plan::boundary_schema;
use coffer_protocol::{
    plan::{Expr, Join, JoinType, Scan, Schema, TypeId, join, literal::Value, node::Op},
    wire::{
        FileSlice,
        file_slice::{AdoptedFile, DataKey},
    },
};
use coffer_scan::{FooterCache, ScanFiles, read_rest};
use coffer_sealing::{ColumnId, KekSet, TableId};
use datafusion_common::DataFusionError;
use parquet::{
    arrow::ArrowWriter, encryption::encrypt::FileEncryptionProperties,
    file::properties::WriterProperties,
};
use tempfile::TempDir;

use crate::support::{
    MemoryIo, body, broadcast, call, column, data_type, decimal, fragment, literal, long, node,
    read, run, schema, sorted,
};

pub(crate) struct Table {
    folder: TempDir,
    key: TableKey,
    pin: FilePin,
}

const ROWS: i64 = 1000;
const GROUP: usize = 100;

fn columns() -> Vec<Column> {
    let kinds = [
        ("id", SparkType::Long),
        ("name", SparkType::String),
        (
            "price",
            SparkType::Decimal {
                precision: 12,
                scale: 2,
            },
        ),
        ("ratio", SparkType::Double),
        ("at", SparkType::Timestamp),
    ];
    (1..)
        .zip(kinds)
        .map(|(id, (name, kind))| Column {
            id,
            name: name.to_owned(),
            kind,
            nullable: true,
            protection: coffer_schemes::Protection::Tee.into(),
        })
        .collect()
}

fn keks(key: &TableKey, columns: impl IntoIterator<Item = u32>) -> KekSet {
    let mut keks: KekSet = columns
        .into_iter()
        .map(|id| key.kek(ColumnId(id)).unwrap())
        .collect();
    keks.insert(key.footer_kek().unwrap());
    keks
}

pub(crate) fn table() -> Table {
    let folder = TempDir::new().unwrap();
    let key = TableKey::generate(TableId::draw().unwrap()).unwrap();
    let options = WriteOptions {
        row_group_rows: GROUP,
        ..WriteOptions::default()
    };
    let writer = TableWriter::new(
        folder.path().to_owned(),
        key.table(),
        columns(),
        Vec::new(),
        Arc::new(keks(&key, 1..=5)),
        WriteId::from_slice(&[7; 8]).unwrap(),
        options,
    )
    .unwrap();
    let some = |i: i64| (i % 7 != 0).then_some(i);
    let price = Decimal128Array::from_iter((0..ROWS).map(|i| some(i).map(i128::from)));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..ROWS)),
        Arc::new(StringArray::from_iter(
            (0..ROWS).map(|i| some(i).map(|i| format!("name {i}"))),
        )),
        Arc::new(price.with_precision_and_scale(12, 2).unwrap()),
        Arc::new(Float64Array::from_iter(
            (0..ROWS).map(|i| Some(if i % 100 == 5 { f64::NAN } else { i as f64 })),
        )),
        Arc::new(TimestampMicrosecondArray::from_iter((0..ROWS).map(some)).with_timezone("UTC")),
    ];
    let rows = RecordBatch::try_new(Arc::clone(writer.schema()), arrays).unwrap();
    let mut file = writer.file().unwrap();
    file.write(&rows).unwrap();
    let pin = file.finish().unwrap().pin;
    Table { folder, key, pin }
}

impl Table {
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join(&self.pin.path)
    }

    pub(crate) fn slice(&self, first: u32, end: u32) -> FileSlice {
        FileSlice {
            path: self.path().to_str().unwrap().to_owned(),
            size: self.pin.size,
            rows: self.pin.rows,
            aad_prefix: self.pin.aad_prefix.clone().into(),
            footer_length: self.pin.footer_length,
            footer_sha256: self.pin.footer_sha256.as_bytes().to_vec().into(),
            first_row_group: first,
            end_row_group: end,
            table: self.key.table().as_bytes().to_vec().into(),
            ..FileSlice::default()
        }
    }

    pub(crate) fn files(
        &self,
        slices: Vec<FileSlice>,
        columns: impl IntoIterator<Item = u32>,
    ) -> ScanFiles {
        ScanFiles {
            slices,
            keys: Arc::new(keks(&self.key, columns)),
            footers: Arc::new(FooterCache::default()),
            store: Arc::new(coffer_scan::TableFiles::default()),
            bytes_read: Arc::new(AtomicU64::new(0)),
            whole: None,
            limit: None,
        }
    }
}

pub(crate) fn wanted() -> Schema {
    schema(&[("price", decimal(12, 2)), ("id", data_type(TypeId::Long))])
}

pub(crate) fn at_least(position: u32, value: i64) -> Expr {
    call(
        "greater_than_or_equal",
        vec![column(position), long(value)],
        TypeId::Boolean,
    )
}

#[tokio::test]
async fn columns_are_read_by_name_in_the_order_asked_for() {
    let table = table();
    let files = table.files(vec![table.slice(0, 10)], [1, 3]);
    let rows = read(files.clone(), &wanted(), vec![]).await.unwrap();
    assert_eq!(rows.num_rows(), 1000);
    assert_eq!(body(&rows.slice(6, 3)), ["0.06 6", " 7", "0.08 8"]);
    assert!(files.bytes_read.load(Ordering::Relaxed) > 0);

    let at = schema(&[
        ("at", data_type(TypeId::Timestamp)),
        ("name", data_type(TypeId::String)),
    ]);
    let rows = read(table.files(vec![table.slice(0, 1)], 1..=5), &at, vec![])
        .await
        .unwrap();
    assert_eq!(
        body(&rows.slice(1, 1)),
        ["1970-01-01T00:00:00.000001Z name 1"]
    );
}

#[tokio::test]
async fn only_the_row_groups_of_the_slice_are_read() {
    let table = table();
    let files = table.files(
        vec![table.slice(9, 10), table.slice(2, 4), table.slice(5, 5)],
        [1, 3],
    );
    let rows = read(files, &wanted(), vec![]).await.unwrap();
    let ids: Vec<String> = body(&rows)
        .iter()
        .map(|l| l.split(' ').next_back().unwrap().to_owned())
        .collect();
    let expected: Vec<String> = (900..1000).chain(200..400).map(|i| i.to_string()).collect();
    assert_eq!(ids, expected);
    assert_eq!(
        read(table.files(vec![], [1, 3]), &wanted(), vec![])
            .await
            .unwrap()
            .num_rows(),
        0
    );
}

#[tokio::test]
async fn rows_without_columns_are_counted() {
    let table = table();
    let rows = read(
        table.files(vec![table.slice(0, 3)], []),
        &schema(&[]),
        vec![],
    )
    .await;
    assert_eq!(rows.unwrap().num_rows(), 300);
}

#[tokio::test]
async fn pushed_conjuncts_prune_and_are_exact() {
    let table = table();
    for keys in [vec![1, 3], vec![1, 2, 3, 4, 5]] {
        let all = table.files(vec![table.slice(0, 10)], keys.clone());
        let few = table.files(vec![table.slice(0, 10)], keys);
        read(all.clone(), &wanted(), vec![]).await.unwrap();
        let rows = read(few.clone(), &wanted(), vec![at_least(1, 995)])
            .await
            .unwrap();
        assert_eq!(
            body(&rows),
            ["9.95 995", "9.96 996", "9.97 997", "9.98 998", "9.99 999"]
        );
        let (all, few) = (
            all.bytes_read.load(Ordering::Relaxed),
            few.bytes_read.load(Ordering::Relaxed),
        );
        assert!(few < all, "{few} of {all} bytes");
    }
    let none = read(
        table.files(vec![table.slice(0, 10)], [1, 3]),
        &wanted(),
        vec![at_least(1, 5000)],
    )
    .await
    .unwrap();
    assert_eq!(none.num_rows(), 0);
}

/// A join of a scan with a broadcast of these keys, by the scan's `id`; its rows, and the bytes
/// that were read of all row groups.
async fn joined(kind: JoinType, keys: &[Option<i64>]) -> (Vec<String>, u64) {
    let table = table();
    let files = table.files(vec![table.slice(0, 10)], [1, 3]);
    let key = schema(&[("k", data_type(TypeId::Long))]);
    let scan = Scan {
        scan_id: 0,
        schema: Some(wanted()),
        pushed: vec![],
    };
    let join = Join {
        left: Some(Box::new(node(1, Op::Scan(scan)))),
        right: Some(Box::new(broadcast(2, &key))),
        left_keys: vec![column(1)],
        right_keys: vec![column(0)],
        r#type: kind.into(),
        strategy: join::Strategy::Hash.into(),
        broadcast: true,
        ..Join::default()
    };
    let out = match kind {
        JoinType::LeftSemi | JoinType::LeftAnti => wanted(),
        _ => schema(&[
            ("price", decimal(12, 2)),
            ("id", data_type(TypeId::Long)),
            ("k", data_type(TypeId::Long)),
        ]),
    };
    let fragment = fragment(node(3, Op::Join(Box::new(join))), out);
    let column: ArrayRef = Arc::new(Int64Array::from_iter(keys.iter().copied()));
    let batch = RecordBatch::try_new(boundary_schema(&key).unwrap(), vec![column]).unwrap();
    let mut io = MemoryIo::default().input(2, vec![vec![batch]]);
    io.scans.insert(0, files.clone());
    let rows = run(&fragment, io).await.unwrap();
    (sorted(&rows), files.bytes_read.load(Ordering::Relaxed))
}

#[tokio::test]
async fn what_a_broadcast_has_bounds_what_is_read() {
    let all: Vec<Option<i64>> = (0..ROWS).map(Some).collect();
    let (rows, whole) = joined(JoinType::Inner, &all).await;
    assert_eq!(rows.len(), 1000);
    // One row group of ten, and what is read to know what there is.
    let (_, one) = joined(JoinType::Inner, &[Some(215)]).await;
    for kind in [JoinType::Inner, JoinType::LeftSemi] {
        // In one row group, in its neighbour, and NULL, which matches nothing.
        let (rows, few) = joined(kind, &[Some(215), None, Some(307), Some(215)]).await;
        let inner = kind == JoinType::Inner;
        assert_eq!(rows.len(), if inner { 3 } else { 2 }, "{rows:?}");
        // Two of them: the other eight are most of what is left.
        assert!(
            one < few && (few - one) * 5 < whole - few,
            "{one}, {few} of {whole} bytes"
        );
        for keys in [&[][..], &[None][..], &[Some(5000)][..]] {
            let (rows, none) = joined(kind, keys).await;
            assert!(rows.is_empty() && none < few, "{none} of {few} bytes");
        }
    }
    // Between the bounds lie all row groups; the other column is read of those two that have a key.
    let (rows, ends) = joined(JoinType::Inner, &[Some(5), Some(995)]).await;
    assert_eq!(rows.len(), 2);
    assert!(ends * 8 < whole * 7, "{ends} of {whole} bytes");
    // Rows without match come out of these.
    for kind in [JoinType::LeftOuter, JoinType::LeftAnti] {
        let (rows, read) = joined(kind, &[Some(215)]).await;
        let anti = kind == JoinType::LeftAnti;
        assert_eq!(rows.len(), if anti { 999 } else { 1000 });
        assert_eq!(read, whole);
    }
}

/// Bytes of storage that a scan reads which must not show what its rows are.
async fn whole(table: &Table, pushed: Option<Vec<Expr>>) -> u64 {
    let mut files = table.files(vec![table.slice(0, 10)], 1..=5);
    files.whole = Some(Arc::default());
    if let Some(pushed) = pushed {
        let hidden = read(files.clone(), &wanted(), pushed.clone())
            .await
            .unwrap();
        let open = table.files(vec![table.slice(0, 10)], 1..=5);
        assert_eq!(
            body(&hidden),
            body(&read(open, &wanted(), pushed).await.unwrap())
        );
    }
    read_rest(&boundary_schema(&wanted()).unwrap(), &files)
        .await
        .unwrap();
    files.bytes_read.load(Ordering::Relaxed)
}

#[tokio::test]
async fn what_is_read_whole_does_not_depend_on_the_rows() {
    let table = table();
    let all = whole(&table, Some(vec![])).await;
    assert_eq!(whole(&table, Some(vec![at_least(1, 995)])).await, all);
    assert_eq!(whole(&table, Some(vec![at_least(1, 5000)])).await, all);
    // Nor on whether the plan took any of them.
    assert_eq!(whole(&table, None).await, all);
    let pruned = table.files(vec![table.slice(0, 10)], 1..=5);
    read(pruned.clone(), &wanted(), vec![at_least(1, 995)])
        .await
        .unwrap();
    assert!(pruned.bytes_read.load(Ordering::Relaxed) < all);
}

#[tokio::test]
async fn pruning_knows_that_nan_is_above_all() {
    let table = table();
    let s = schema(&[
        ("ratio", data_type(TypeId::Double)),
        ("id", data_type(TypeId::Long)),
    ]);
    let above = call(
        "greater_than",
        vec![column(0), literal(TypeId::Double, Value::Double(1e9))],
        TypeId::Boolean,
    );
    let rows = read(
        table.files(vec![table.slice(0, 10)], 1..=5),
        &s,
        vec![above],
    )
    .await
    .unwrap();
    let ids: Vec<String> = (0..10).map(|i| format!("NaN {}", i * 100 + 5)).collect();
    assert_eq!(body(&rows), ids);
}

async fn refused(files: ScanFiles, schema: &Schema) -> String {
    match read(files, schema, vec![]).await {
        Ok(_) => panic!("the file was read"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn files_that_must_be_refused() {
    let table = table();
    let spoil = |change: fn(&mut FileSlice)| {
        let mut slice = table.slice(0, 10);
        change(&mut slice);
        table.files(vec![slice], 1..=5)
    };
    type Case = (&'static str, fn(&mut FileSlice));
    let cases: [Case; 9] = [
        ("digest", |s| s.footer_sha256 = vec![0; 32].into()),
        ("digest_short", |s| s.footer_sha256 = vec![0; 31].into()),
        ("footer_length", |s| s.footer_length -= 1),
        ("size", |s| s.size -= 1),
        ("rows", |s| s.rows += 1),
        ("aad_prefix", |s| s.aad_prefix = vec![0; 16].into()),
        ("row_groups_beyond_end", |s| s.end_row_group = 11),
        ("row_groups_backwards", |s| s.first_row_group = 11),
        ("table_foreign", |s| s.table = vec![1; 16].into()),
    ];
    for (name, change) in cases {
        let error = refused(spoil(change), &wanted()).await;
        assert!(!error.is_empty(), "{name}");
    }
    refused(table.files(vec![table.slice(0, 10)], [2, 4]), &wanted()).await;
    let missing = schema(&[("nothing", data_type(TypeId::Long))]);
    refused(table.files(vec![table.slice(0, 10)], 1..=5), &missing).await;
    let other_case = schema(&[("ID", data_type(TypeId::Long))]);
    refused(table.files(vec![table.slice(0, 10)], 1..=5), &other_case).await;
    let other_type = schema(&[("id", data_type(TypeId::Int))]);
    let error = refused(table.files(vec![table.slice(0, 10)], 1..=5), &other_type).await;
    assert!(error.contains("Int64"), "{error}");
}

/// A file that another program wrote, of one column `id`, all under one key.
fn adopted(key: &TableKey) -> (TempDir, FileSlice) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.parquet");
    let (dek, metadata) = (vec![9; 16], b"names the key".to_vec());
    let encryption = FileEncryptionProperties::builder(dek.clone())
        .with_footer_key_metadata(metadata.clone())
        .build()
        .unwrap();
    let properties = WriterProperties::builder().with_file_encryption_properties(encryption);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let rows = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let file = fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties.build())).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let bytes = fs::read(&path).unwrap();
    let (body, tail) = bytes.split_last_chunk::<8>().unwrap();
    let length = u32::from_le_bytes(*tail.first_chunk().unwrap());
    let footer = &body[body.len() - length as usize..];
    let slice = FileSlice {
        path: path.to_str().unwrap().to_owned(),
        size: bytes.len() as u64,
        rows: ROWS as u64,
        footer_length: length.into(),
        footer_sha256: Digest::of(footer).as_bytes().to_vec().into(),
        end_row_group: 1,
        table: key.table().as_bytes().to_vec().into(),
        adopted: Some(AdoptedFile {
            clear_footer: false,
            keys: vec![DataKey {
                column: 0,
                metadata_sha256: Digest::of(&metadata).as_bytes().to_vec().into(),
                wrapped: key.footer_kek().unwrap().wrap(&dek).unwrap(),
            }],
        }),
        ..FileSlice::default()
    };
    (folder, slice)
}

#[tokio::test]
async fn adopted_files_that_must_be_refused() {
    let table = table();
    let (_folder, good) = adopted(&table.key);
    let id = schema(&[("id", data_type(TypeId::Long))]);
    let files = |slice| table.files(vec![slice], 1..=5);
    let rows = read(files(good.clone()), &id, vec![]).await.unwrap();
    assert_eq!(rows.num_rows(), usize::try_from(ROWS).unwrap());

    type Case = (&'static str, &'static str, fn(&mut FileSlice));
    fn key(slice: &mut FileSlice) -> &mut DataKey {
        &mut slice.adopted.as_mut().unwrap().keys[0]
    }
    let cases: [Case; 9] = [
        ("plain", "a plain file was adopted", |s| s.plain = true),
        ("clear", "what only our own have", |s| s.clear = true),
        ("aad_prefix", "what only our own have", |s| {
            s.aad_prefix = vec![1; 16].into();
        }),
        ("clear_footer", "", |s| {
            s.adopted.as_mut().unwrap().clear_footer = true;
        }),
        ("not_adopted", "", |s| s.adopted = None),
        ("no_keys", "", |s| s.adopted.as_mut().unwrap().keys.clear()),
        ("key_of_a_column", "", |s| key(s).column = 1),
        ("metadata_other", "", |s| {
            key(s).metadata_sha256 = vec![0; 32].into()
        }),
        ("wrapped_cut", "", |s| {
            key(s).wrapped.pop();
        }),
    ];
    for (name, words, change) in cases {
        let mut slice = good.clone();
        change(&mut slice);
        let error = refused(files(slice), &id).await;
        assert!(error.contains(words), "{name}: {error}");
    }
}

/// A file's fault is told from an operator's.
fn of_the_file(error: &DataFusionError) {
    let root = error.find_root();
    assert!(
        matches!(
            root,
            DataFusionError::External(_) | DataFusionError::ParquetError(_)
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn altered_pages_are_refused() {
    let table = table();
    let good = fs::read(table.path()).unwrap();
    let mut noticed = 0;
    // Every 997th byte before the footer.
    let pages = good.len() - usize::try_from(table.pin.footer_length).unwrap() - 8;
    for at in (4..pages).step_by(997) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(table.path(), &bad).unwrap();
        let all = schema(&[
            ("id", data_type(TypeId::Long)),
            ("name", data_type(TypeId::String)),
            ("price", decimal(12, 2)),
            ("ratio", data_type(TypeId::Double)),
            ("at", data_type(TypeId::Timestamp)),
        ]);
        let files = table.files(vec![table.slice(0, 10)], 1..=5);
        if let Err(error) = read(files, &all, vec![]).await {
            of_the_file(&error);
            noticed += 1;
        }
    }
    // What goes unnoticed is the page index, which is not read without conjuncts: the next test's.
    assert!(noticed > 10, "{noticed}");
    fs::write(table.path(), &good[..good.len() - 1]).unwrap();
    refused(table.files(vec![table.slice(0, 10)], 1..=5), &wanted()).await;
    fs::remove_file(table.path()).unwrap();
    refused(table.files(vec![table.slice(0, 10)], 1..=5), &wanted()).await;
    assert!(!Path::new(&table.path()).exists());
}

/// Where the modules of a file's page index lie: of every column of every row group the column
/// index, then of every one the offset index. They are the last ones before the footer. Each module
/// starts with its length.
fn page_index(file: &[u8], pin: &FilePin) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let end = file.len() - usize::try_from(pin.footer_length).unwrap() - 8;
    let mut modules = Vec::new();
    let mut at = 4;
    while at < end {
        let length = u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let next = at + 4 + usize::try_from(length).unwrap();
        modules.push(at..next);
        at = next;
    }
    assert_eq!(at, end);
    let each = columns().len() * usize::try_from(ROWS).unwrap() / GROUP;
    let offsets = modules.split_off(modules.len() - each);
    (modules.split_off(modules.len() - each), offsets)
}

/// Copies of a file in which one of these modules is another: a bit of its length, of its nonce, of
/// its middle and of its tag flipped, all of it zero, all but its length zero, another module of
/// its length in its place, both exchanged.
fn altered(good: &[u8], modules: &[Range<usize>]) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (at, module) in modules.iter().enumerate() {
        let mut case = |what: &str, change: &dyn Fn(&mut [u8])| {
            let mut bad = good.to_vec();
            change(&mut bad);
            all.push((format!("module {at}: {what}"), bad));
        };
        for slot in [
            module.start,
            module.start + 4,
            (module.start + module.end) / 2,
            module.end - 1,
        ] {
            case(&format!("bit at {slot}"), &|bad| bad[slot] ^= 1);
        }
        case("zero", &|bad| bad[module.clone()].fill(0));
        case("zero but its length", &|bad| {
            bad[module.start + 4..module.end].fill(0)
        });
        let like = modules
            .iter()
            .cycle()
            .skip(at + 1)
            .take(modules.len() - 1)
            .find(|m| m.len() == module.len());
        if let Some(other) = like {
            case("another in its place", &|bad| {
                bad[module.clone()].copy_from_slice(&good[other.clone()]);
            });
            case("exchanged", &|bad| {
                bad[module.clone()].copy_from_slice(&good[other.clone()]);
                bad[other.clone()].copy_from_slice(&good[module.clone()]);
            });
        }
    }
    assert!(all.iter().any(|(what, _)| what.ends_with("exchanged")));
    all
}

/// Conjuncts, and the keys of all columns: so the page index is read, that of all columns.
#[tokio::test]
async fn an_altered_page_index_is_refused_or_not_used() {
    let table = table();
    let scan = || {
        let files = table.files(vec![table.slice(0, 10)], 1..=5);
        async move { read(files, &wanted(), vec![at_least(1, 155)]).await }
    };
    let good = fs::read(table.path()).unwrap();
    let right = body(&scan().await.unwrap());
    assert_eq!(right.len(), 845);

    let (columns, offsets) = page_index(&good, &table.pin);
    for (what, bad) in altered(&good, &columns) {
        fs::write(table.path(), &bad).unwrap();
        match scan().await {
            Ok(_) => panic!("an altered column index was used: {what}"),
            Err(error) => of_the_file(&error),
        }
    }
    // Without offsets the reader reads whole chunks.
    for (what, bad) in altered(&good, &offsets) {
        fs::write(table.path(), &bad).unwrap();
        match scan().await {
            Ok(rows) => assert_eq!(body(&rows), right, "{what}"),
            Err(error) => of_the_file(&error),
        }
    }
}

#[tokio::test]
async fn footers_are_opened_once_for_a_session() {
    let table = table();
    let files = table.files(vec![table.slice(0, 1)], 1..=5);
    read(files.clone(), &wanted(), vec![]).await.unwrap();
    let first = files.bytes_read.swap(0, Ordering::Relaxed);
    read(files.clone(), &wanted(), vec![]).await.unwrap();
    let second = files.bytes_read.load(Ordering::Relaxed);
    assert_eq!(first - second, table.pin.footer_length + 8);
}
