//! Scans of arrays, structs and maps: of our own files, and of others' plain ones.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    sync::{Arc, atomic::AtomicU64},
};

use arrow::{
    array::{
        Array, ArrayRef, Int32Builder, Int64Array, ListBuilder, MapBuilder, RecordBatch,
        StringBuilder, StructArray, TimestampNanosecondArray,
    },
    datatypes::{DataType, Field},
};
use coffer_catalog::{ChunkPins, PlainTable, convert};
use coffer_custody::TableKey;
use coffer_expr::types;
use coffer_format::{
    Column, Digest, FilePin, SparkType, TableWriter, WriteId, WriteOptions, parse_ddl,
};
use coffer_plan::boundary_schema;
use coffer_protocol::{
    plan::{Expr, Schema, TypeId},
    wire::{FileSlice, file_slice::ClearColumn},
};
use coffer_scan::{BytesSeen, FooterCache, ScanFiles, read_rest};
use coffer_sealing::{ColumnId, KekSet, TableId};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use tempfile::TempDir;

use crate::support::{call, column, long, read, schema};

const ROWS: i64 = 500;
const DDL: &str = "id BIGINT, a ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<at: TIMESTAMP, a: \
    ARRAY<INT>>";

/// As another program has it: with names of its own.
fn rows() -> RecordBatch {
    let mut lists = ListBuilder::new(Int32Builder::new());
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in 0..ROWS {
        for value in 0..row % 4 {
            let value = i32::try_from(value * row).unwrap();
            lists
                .values()
                .append_option((value % 3 != 0).then_some(value));
            maps.keys().append_value(format!("key {value}"));
            maps.values().append_option((row % 7 > 0).then_some(value));
        }
        lists.append(row % 5 > 0);
        maps.append(row % 6 > 0).unwrap();
    }
    let lists: ArrayRef = Arc::new(lists.finish());
    let times = TimestampNanosecondArray::from_iter((0..ROWS).map(|row| Some(row * 1000)));
    let fields = vec![
        Field::new("at", times.data_type().clone(), true),
        Field::new("a", lists.data_type().clone(), true),
    ];
    let parts: Vec<ArrayRef> = vec![Arc::new(times), Arc::clone(&lists)];
    let nulls = (0..ROWS).map(|row| row % 9 > 0).collect::<Vec<_>>();
    RecordBatch::try_from_iter([
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..ROWS)) as ArrayRef,
        ),
        ("a", lists),
        ("m", Arc::new(maps.finish())),
        (
            "s",
            Arc::new(StructArray::new(fields.into(), parts, Some(nulls.into()))),
        ),
    ])
    .unwrap()
}

fn columns() -> Vec<Column> {
    (1..)
        .zip(parse_ddl(DDL).unwrap())
        .map(|(id, (name, kind, nullable))| Column {
            id,
            name,
            kind,
            nullable,
            protection: coffer_schemes::Protection::Tee.into(),
        })
        .collect()
}

/// The rows under the table's types.
fn expected() -> RecordBatch {
    let fields: Vec<Field> = columns().iter().map(Column::field).collect();
    convert::to_schema(&rows(), &Arc::new(arrow::datatypes::Schema::new(fields))).unwrap()
}

fn wanted(names: &[&str]) -> Schema {
    let columns = columns();
    let of = |name: &&str| {
        let column = columns.iter().find(|column| column.name == **name).unwrap();
        (
            column.name.as_str(),
            types::of_arrow(&column.kind.to_arrow()).unwrap(),
        )
    };
    schema(&names.iter().map(of).collect::<Vec<_>>())
}

struct Sealed {
    folder: TempDir,
    key: TableKey,
    pin: FilePin,
}

fn sealed() -> Sealed {
    let folder = TempDir::new().unwrap();
    let key = TableKey::generate(TableId::draw().unwrap()).unwrap();
    let writer = TableWriter::new(
        folder.path().to_owned(),
        key.table(),
        columns(),
        Vec::new(),
        Arc::new(keks(&key, 1..=4)),
        WriteId::from_slice(&[7; 8]).unwrap(),
        WriteOptions {
            row_group_rows: 100,
            ..WriteOptions::default()
        },
    )
    .unwrap();
    let mut file = writer.file().unwrap();
    file.write(&expected()).unwrap();
    let pin = file.finish().unwrap().pin;
    Sealed { folder, key, pin }
}

fn keks(key: &TableKey, columns: impl IntoIterator<Item = u32>) -> KekSet {
    let columns = columns.into_iter().map(ColumnId);
    let mut keks: KekSet = columns.map(|id| key.kek(id).unwrap()).collect();
    keks.insert(key.footer_kek().unwrap());
    keks
}

fn files(slices: Vec<FileSlice>, keys: KekSet) -> ScanFiles {
    ScanFiles {
        slices,
        keys: Arc::new(keys),
        footers: Arc::new(FooterCache::default()),
        store: Arc::new(coffer_scan::TableFiles::default()),
        bytes_read: Arc::new(AtomicU64::new(0)),
        whole: None,
        limit: None,
    }
}

impl Sealed {
    fn files(&self, columns: impl IntoIterator<Item = u32>) -> ScanFiles {
        let slice = FileSlice {
            path: self
                .folder
                .path()
                .join(&self.pin.path)
                .to_str()
                .unwrap()
                .to_owned(),
            size: self.pin.size,
            rows: self.pin.rows,
            aad_prefix: self.pin.aad_prefix.clone().into(),
            footer_length: self.pin.footer_length,
            footer_sha256: self.pin.footer_sha256.as_bytes().to_vec().into(),
            first_row_group: 0,
            end_row_group: 5,
            table: self.key.table().as_bytes().to_vec().into(),
            ..FileSlice::default()
        };
        files(vec![slice], keks(&self.key, columns))
    }
}

fn from(position: u32, value: i64) -> Expr {
    let sides = vec![column(position), long(value)];
    call("greater_than_or_equal", sides, TypeId::Boolean)
}

#[test]
fn tables_and_plans_have_the_same_types() {
    for column in columns() {
        let arrow = column.kind.to_arrow();
        assert_eq!(types::canonical(&arrow), arrow);
        let of_plan = types::to_arrow(&types::of_arrow(&arrow).unwrap()).unwrap();
        assert_eq!(SparkType::from_arrow("c", &of_plan).unwrap(), column.kind);
    }
}

#[tokio::test]
async fn nested_columns_are_read_and_conditions_on_others_are_exact() {
    let (table, expected) = (sealed(), expected());
    let all = wanted(&["m", "id", "s", "a"]);
    let found = read(table.files(1..=4), &all, vec![]).await.unwrap();
    assert_eq!(found, expected.project(&[2, 0, 3, 1]).unwrap());
    let few = read(table.files(1..=4), &all, vec![from(1, 470)])
        .await
        .unwrap();
    assert_eq!(few, found.slice(470, 30));
    let is_there = call("is_not_null", vec![column(0)], TypeId::Boolean);
    let some = read(table.files(1..=4), &all, vec![is_there, from(1, 400)]).await;
    assert_eq!(
        some.unwrap().num_rows(),
        (400..500).filter(|row| row % 6 > 0).count()
    );
    let one = read(table.files([3]), &wanted(&["m"]), vec![])
        .await
        .unwrap();
    assert_eq!(one.column(0), expected.column(2));
}

#[tokio::test]
async fn the_key_of_another_column_opens_no_leaf() {
    let table = sealed();
    for (held, wanted_column) in [(2, "m"), (3, "s"), (1, "a")] {
        let read = read(table.files([held]), &wanted(&[wanted_column]), vec![]).await;
        let error = read.unwrap_err().to_string();
        assert!(error.contains(&format!("`{wanted_column}`")), "{error}");
    }
    let other = schema(&[(
        "a",
        types::of_arrow(&types::list_of(DataType::Int64)).unwrap(),
    )]);
    assert!(read(table.files(1..=4), &other, vec![]).await.is_err());
}

#[tokio::test]
async fn what_is_read_whole_has_all_leaves() {
    let table = sealed();
    let whole = |read: bool| {
        let (schema, mut files) = (wanted(&["s", "m"]), table.files(1..=4));
        files.whole = Some(Arc::new(BytesSeen::default()));
        async move {
            if read {
                crate::support::read(files.clone(), &schema, vec![])
                    .await
                    .unwrap();
            }
            read_rest(&boundary_schema(&schema).unwrap(), &files)
                .await
                .unwrap();
            files.bytes_read.load(std::sync::atomic::Ordering::Relaxed)
        }
    };
    assert_eq!(whole(true).await, whole(false).await);
    let columns: u64 = [2, 3].iter().map(|at| table.pin.column_bytes[*at]).sum();
    assert!(whole(false).await > columns);
}

fn plain_slice(path: &Path, columns: &[&str]) -> FileSlice {
    let table = PlainTable::open(&[path.to_owned()], &None).unwrap();
    let names: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let mut pins = ChunkPins::default();
    pins.pin(&table, &names, &None).unwrap();
    let file = &table.files[0];
    let groups = file.row_groups.len();
    FileSlice {
        path: file.path.to_str().unwrap().to_owned(),
        size: file.pin.size,
        rows: file.pin.rows,
        footer_length: file.pin.footer_length,
        footer_sha256: file.pin.footer_sha256.as_bytes().to_vec().into(),
        end_row_group: u32::try_from(groups).unwrap(),
        plain: true,
        clear_columns: names
            .into_iter()
            .map(|name| ClearColumn {
                chunks: (pins.of(&table, file, 0..groups, &name).unwrap().iter())
                    .map(|digest: &Digest| digest.as_bytes().to_vec().into())
                    .collect(),
                name,
            })
            .collect(),
        ..FileSlice::default()
    }
}

#[tokio::test]
async fn plain_files_are_pinned_leaf_by_leaf() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plain.parquet");
    let columns = convert::to_schema(&rows(), &expected().schema()).unwrap();
    // Lists and maps as this writer calls them, which are not Spark's names.
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(200));
    let file = fs::File::create(&path).unwrap();
    let found = rows().project(&[0, 1, 2]).unwrap();
    let mut writer = ArrowWriter::try_new(file, found.schema(), Some(properties.build())).unwrap();
    writer.write(&found).unwrap();
    writer.close().unwrap();

    let all = wanted(&["m", "a"]);
    let slice = plain_slice(&path, &["m", "a"]);
    let lengths: Vec<usize> = slice
        .clear_columns
        .iter()
        .map(|of| of.chunks.len())
        .collect();
    assert_eq!(lengths, [6, 3], "a digest for each leaf of each row group");
    let read_as = |slice| read(files(vec![slice], KekSet::new()), &all, vec![]);
    let good = read_as(slice.clone()).await.unwrap();
    assert_eq!(good, columns.project(&[2, 1]).unwrap());

    let mut digests = HashSet::new();
    for at in 0..6 {
        let mut bad = slice.clone();
        digests.insert(bad.clear_columns[0].chunks[at].clone());
        bad.clear_columns[0].chunks[at] = vec![0; 32].into();
        assert!(read_as(bad).await.is_err(), "chunk {at}");
    }
    assert_eq!(digests.len(), 6);
}
