//! Tables with arrays, structs and maps: written, read, changed by a host, refused.

use crate::owner;

use std::{fs, path::Path, sync::Arc};

use arrow::{
    array::*,
    buffer::{NullBuffer, OffsetBuffer},
    datatypes::{DataType, Fields, Schema},
};
use coffer_catalog::{Error, FileReader, TableWrite, VerifiedManifest, verify};
use coffer_format::{
    Column, Error as FormatError, FooterPin, OpenedFooter, SparkType, WriteOptions, footer,
    parse_ddl,
};
use coffer_sealing::KekSet;
use fastrand::Rng;
use owner::{Owner, read};

const POLICY: &str = "[defaults]\nprotection = \"tee\"\nmaster = \"main\"\n";
const DDL: &str = "id BIGINT, a ARRAY<INT>, s STRUCT<x: INT, `y.z`: STRING, t: STRUCT<u: DATE>>, \
    m MAP<STRING, ARRAY<STRUCT<k: DECIMAL(20,3), v: BINARY>>>, \
    d ARRAY<MAP<INT, MAP<DATE, ARRAY<TIMESTAMP>>>>";

/// Random values with NULLs and empty lists at each level.
fn values(of: &DataType, nullable: bool, rows: usize, rng: &mut Rng) -> ArrayRef {
    let nulls: Vec<bool> = (0..rows).map(|_| !nullable || rng.u8(..5) > 0).collect();
    let mut lengths = || -> Vec<usize> {
        let length = |valid: &bool| if *valid { rng.usize(..4) } else { 0 };
        nulls.iter().map(length).collect()
    };
    match of {
        DataType::List(element) => {
            let lengths = lengths();
            let inner = values(element.data_type(), true, lengths.iter().sum(), rng);
            let offsets = OffsetBuffer::from_lengths(lengths);
            let nulls = Some(NullBuffer::from(nulls));
            Arc::new(ListArray::new(Arc::clone(element), offsets, inner, nulls))
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(fields) = entries.data_type() else {
                panic!("a map has pairs");
            };
            let lengths = lengths();
            let pairs = lengths.iter().sum();
            let sides = fields
                .iter()
                .map(|side| values(side.data_type(), side.is_nullable(), pairs, rng))
                .collect();
            let pairs = StructArray::new(fields.clone(), sides, None);
            let offsets = OffsetBuffer::from_lengths(lengths);
            let (entries, nulls) = (Arc::clone(entries), Some(NullBuffer::from(nulls)));
            Arc::new(MapArray::new(entries, offsets, pairs, nulls, false))
        }
        DataType::Struct(fields) => Arc::new(StructArray::new(
            Fields::clone(fields),
            (fields.iter())
                .map(|field| values(field.data_type(), true, rows, rng))
                .collect(),
            Some(NullBuffer::from(nulls)),
        )),
        flat => {
            let numbers = nulls.iter().map(|valid| valid.then(|| rng.i32(-9..99)));
            let numbers: ArrayRef = Arc::new(Int32Array::from_iter(numbers));
            match flat {
                DataType::Binary => {
                    let texts = arrow::compute::cast(&numbers, &DataType::Utf8).unwrap();
                    arrow::compute::cast(&texts, flat).unwrap()
                }
                DataType::Timestamp(..) => {
                    let longs = arrow::compute::cast(&numbers, &DataType::Int64).unwrap();
                    arrow::compute::cast(&longs, flat).unwrap()
                }
                _ => arrow::compute::cast(&numbers, flat).unwrap(),
            }
        }
    }
}

fn rows(schema: &Arc<Schema>, rows: usize, seed: u64) -> RecordBatch {
    let mut rng = Rng::with_seed(seed);
    let columns = schema
        .fields()
        .iter()
        .map(|field| values(field.data_type(), field.is_nullable(), rows, &mut rng))
        .collect();
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

fn written(table: TableWrite, count: usize) -> (VerifiedManifest, RecordBatch) {
    let options = WriteOptions {
        row_group_rows: 700,
        ..WriteOptions::default()
    };
    let writer = table.writer(options).unwrap();
    let batch = rows(writer.schema(), count, 7);
    let mut file = writer.file().unwrap();
    file.write(&batch).unwrap();
    (
        table.publish(vec![file.finish().unwrap().pin]).unwrap(),
        batch,
    )
}

fn opened(table: &VerifiedManifest, keks: KekSet, columns: &[&str]) -> Result<OpenedFooter, Error> {
    let pin = &table.manifest().files[0];
    let footer_pin = FooterPin::of(table.manifest().table, pin, false);
    let bytes = fs::read(table.file_path(pin)).unwrap();
    let range = footer_pin.range().unwrap();
    let bytes = bytes[usize::try_from(range.start).unwrap()..].to_vec();
    Ok(footer::open(
        bytes.into(),
        &footer_pin,
        &Arc::new(keks),
        columns,
    )?)
}

#[test]
fn nested_columns_come_back_with_nulls_at_each_level() {
    let owner = Owner::new(POLICY);
    let (table, batch) = written(owner.create("t", DDL, &[]).unwrap(), 2000);
    assert_eq!(read(&owner.open("t").unwrap()).unwrap(), batch);
    assert!(verify::verify(&table, true, |_| ()).unwrap().is_sound());
    let kinds: Vec<String> = (table.manifest().columns.iter())
        .map(|column| column.kind.to_string())
        .collect();
    assert_eq!(
        kinds[3],
        "map<string,array<struct<k:decimal(20,3),v:binary>>>"
    );
    let bytes = &table.manifest().files[0].column_bytes;
    assert_eq!(bytes.len(), 5);
    assert!(bytes.iter().all(|bytes| *bytes > 0));

    // As Spark writes them.
    let footer = opened(
        &table,
        table.all_keks().unwrap(),
        &["id", "a", "s", "m", "d"],
    )
    .unwrap();
    let schema = footer.metadata().file_metadata().schema_descr_ptr();
    let leaves: Vec<Vec<String>> = (schema.columns().iter())
        .map(|leaf| leaf.path().parts().to_vec())
        .collect();
    assert_eq!(leaves[1], ["a", "list", "element"]);
    assert_eq!(leaves[3], ["s", "y.z"]);
    assert_eq!(leaves[5], ["m", "key_value", "key"]);
    assert_eq!(
        leaves[6],
        ["m", "key_value", "value", "list", "element", "k"]
    );
}

#[test]
fn types_of_all_levels_are_held() {
    let owner = Owner::new(POLICY);
    let deep = format!("a {}INT{}", "ARRAY<".repeat(32), ">".repeat(32));
    let (table, batch) = written(owner.create("deep", &deep, &[]).unwrap(), 300);
    assert_eq!(read(&table).unwrap(), batch);
    let maps = format!(
        "a {}INT{}",
        "MAP<INT, STRUCT<a: ".repeat(16),
        ">>".repeat(16)
    );
    let (table, batch) = written(owner.create("maps", &maps, &[]).unwrap(), 300);
    assert_eq!(read(&table).unwrap(), batch);
}

#[test]
fn a_changed_page_of_any_leaf_is_found() {
    let owner = Owner::new(POLICY);
    let (table, _) = written(owner.create("t", DDL, &[]).unwrap(), 400);
    let path = table.file_path(&table.manifest().files[0]);
    let good = fs::read(&path).unwrap();
    let footer = opened(&table, table.all_keks().unwrap(), &[]).unwrap();
    let chunks = footer.metadata().row_groups()[0].columns();
    assert_eq!(chunks.len(), 11);
    for chunk in chunks {
        let (start, length) = chunk.byte_range();
        let mut bad = good.clone();
        spoil(&mut bad, start + length / 2);
        fs::write(&path, bad).unwrap();
        let report = verify::verify(&table, true, |_| ()).unwrap();
        assert_eq!(report.findings.len(), 1, "{:?}", chunk.column_path());
    }
    // Two leaves of one column, swapped.
    let of_column: Vec<_> = chunks
        .iter()
        .filter(|chunk| footer::root(chunk.column_path()) == "s")
        .map(|chunk| chunk.byte_range())
        .collect();
    let range = |at: usize| {
        let start = usize::try_from(of_column[at].0).unwrap();
        start..start + usize::try_from(of_column[at].1).unwrap()
    };
    let mut bad = good.clone();
    let swapped: Vec<u8> = [&good[range(1)], &good[range(0)]].concat();
    bad[range(0).start..range(1).end].copy_from_slice(&swapped);
    fs::write(&path, bad).unwrap();
    assert_eq!(
        verify::verify(&table, true, |_| ()).unwrap().findings.len(),
        1
    );
    fs::write(&path, good).unwrap();
    assert!(verify::verify(&table, true, |_| ()).unwrap().is_sound());
}

#[test]
fn a_columns_key_opens_all_its_leaves_and_no_others() {
    let owner = Owner::new(POLICY);
    let (table, _) = written(owner.create("t", DDL, &[]).unwrap(), 10);
    let of = |names: &[&str]| table.stored_keks(names.iter().copied()).unwrap();
    opened(&table, of(&["m"]), &["m"]).unwrap();
    for (held, wanted) in [("m", "a"), ("s", "m"), ("id", "s")] {
        let error = opened(&table, of(&[held]), &[wanted]).unwrap_err();
        assert!(
            matches!(&error, Error::Format(FormatError::ColumnKeyMissing(name)) if name == wanted),
            "{error}"
        );
    }
    let footer = opened(&table, of(&["a"]), &["a"]).unwrap();
    assert!(!footer.all_keys());
}

#[test]
fn what_no_table_can_have_is_refused() {
    let det = "[defaults]\nprotection = \"tee\"\nmaster = \"main\"\n\
        [tables.t.columns]\na = \"det\"\n";
    let refused = |policy: &str, ddl: &str, partitions: &[&str]| {
        let made = Owner::new(policy).create("t", ddl, partitions);
        made.err().unwrap().to_string()
    };
    let error = refused(det, "a ARRAY<INT>, b INT", &[]);
    assert!(
        error.contains("`a`") && error.contains("always tee"),
        "{error}"
    );
    let error = refused(POLICY, "a STRUCT<x: INT>, b INT", &["a"]);
    assert!(error.contains("partition"), "{error}");
    // In files both would be called a.x, and one be under the other's key.
    let error = refused(POLICY, "a STRUCT<x: INT>, `a.x` INT", &[]);
    assert!(error.contains("`a.x`"), "{error}");
    let error = refused(POLICY, "a STRUCT<x: STRUCT<y: INT>, `x.y`: INT>", &[]);
    assert!(error.contains("`a.x.y`"), "{error}");
    let error = refused(POLICY, "a STRUCT<x: INT, X: INT>", &[]);
    assert!(error.contains("same name"), "{error}");
}

#[test]
fn nested_columns_stand_beside_stored_ones() {
    let policy = "[defaults]\nprotection = \"tee\"\nmaster = \"main\"\n\
        [tables.t.columns]\na = \"det\"\nz = \"std\"\n";
    let owner = Owner::new(policy);
    let ddl = "a INT, m MAP<STRING, ARRAY<INT>>, z STRING, s STRUCT<x: INT, y: STRING>";
    let (table, batch) = written(owner.create("t", ddl, &[]).unwrap(), 900);
    assert_eq!(read(&owner.open("t").unwrap()).unwrap(), batch);
    let report = verify::verify(&table, true, |_| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(
        table.manifest().columns[1].kind,
        "map<string,array<int>>".parse().unwrap()
    );
    let path = table.file_path(&table.manifest().files[0]);
    flip_each_chunk(&table, &path);
}

/// Two bytes that do not both lie in the length of a page, which no reader needs.
fn spoil(bytes: &mut [u8], at: u64) {
    let at = usize::try_from(at).unwrap();
    bytes[at] ^= 1;
    bytes[at + 5] ^= 1;
}

fn flip_each_chunk(table: &VerifiedManifest, path: &Path) {
    let good = fs::read(path).unwrap();
    let pin = FooterPin::of(table.manifest().table, &table.manifest().files[0], true);
    let from = usize::try_from(pin.range().unwrap().start).unwrap();
    let keks = Arc::new(table.all_keks().unwrap());
    let footer = footer::open(good[from..].to_vec().into(), &pin, &keks, &[]).unwrap();
    for chunk in footer.metadata().row_groups()[1].columns() {
        let (start, length) = chunk.byte_range();
        let mut bad = good.clone();
        spoil(&mut bad, start + length / 2);
        fs::write(path, bad).unwrap();
        let report = verify::verify(table, true, |_| ()).unwrap();
        assert_eq!(report.findings.len(), 1, "{:?}", chunk.column_path());
    }
}

#[test]
fn appended_rows_have_the_same_types() {
    let owner = Owner::new(POLICY);
    let (table, first) = written(owner.create("t", DDL, &[]).unwrap(), 50);
    let next = TableWrite::next(
        &owner.config_dir,
        &owner.vault,
        &owner.policy,
        &table,
        coffer_catalog::Change::Append,
    );
    let (table, second) = written(next.unwrap(), 60);
    let both = arrow::compute::concat_batches(&first.schema(), [&first, &second]).unwrap();
    assert_eq!(read(&table).unwrap(), both);
    let columns: Vec<Column> = table.manifest().columns.clone();
    let kinds: Vec<SparkType> = parse_ddl(DDL).unwrap().into_iter().map(|c| c.1).collect();
    assert!(columns.iter().map(|column| &column.kind).eq(&kinds));
    let files = &table.manifest().files;
    assert_eq!(FileReader::open(&table, &files[1]).unwrap().count(), 1);
}
