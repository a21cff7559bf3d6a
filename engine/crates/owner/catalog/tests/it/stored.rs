//! Tables whose columns are stored under other protections than `tee`: written, opened, read; and
//! what a host, or a wrong policy, could make of them.

use crate::owner;

use coffer_format::Error as FormatError;
use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::array::*;
use bytes::Bytes;
use coffer_catalog::{Change, Error, NewColumns, Register, TableWrite, VerifiedManifest, verify};
use coffer_custody::{Draft, Policy};
use coffer_format::{OpenedFooter, StoredColumn, StoredEncoding, WriteOptions, footer, parse_ddl};
use coffer_schemes::Protection;
use coffer_sealing::KekSet;
use owner::{Owner, read};
use parquet::arrow::{ProjectionMask, arrow_reader::*};

const POLICY: &str = r#"
[defaults]
protection = "tee"
[defaults.domains]
decimal = ["-1000000.00", "1000000.00"]
[tables.t.columns]
id = { protection = ["det", "ope"], link = "id" }
age = { protection = ["tee", "ope"], domain = [0, 150] }
price = { protection = ["std", "ashe", "ore"], rows = 1e6 }
name = { protection = ["tee", "ope", "det"], prefix = 4 }
open = "plain"
[tables.u.columns]
id = { protection = "det", link = "id" }
"#;
const DDL: &str = "id BIGINT, age INT, price DECIMAL(12,2), name STRING, open DATE, secret DOUBLE";

impl Owner {
    /// Table `t`: two files, one with three row groups.
    fn table(&self) -> VerifiedManifest {
        let write = self.create("t", DDL, &[]).unwrap();
        let writer = write.writer(WriteOptions::default()).unwrap();
        let mut first = writer.file().unwrap();
        for from in [0, 100, 200] {
            first.write(&rows(&write, from, 100)).unwrap();
            first.end_row_group().unwrap();
        }
        let mut second = writer.file().unwrap();
        second.write(&rows(&write, 300, 50)).unwrap();
        let pins = vec![first.finish().unwrap().pin, second.finish().unwrap().pin];
        write.publish(pins).unwrap()
    }
}

/// Rows of [`DDL`], every seventh value NULL.
fn rows(write: &TableWrite, from: i64, count: i64) -> RecordBatch {
    let numbers = || (from..from + count).map(|i| (i % 7 != 3).then_some(i));
    let price = numbers().map(|i| i.map(|i| i128::from(i) * 101 - 5000));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter(numbers().map(|i| i.map(|i| i / 3)))),
        Arc::new(Int32Array::from_iter(
            numbers().map(|i| i.map(|i| (i % 120) as i32)),
        )),
        Arc::new(
            Decimal128Array::from_iter(price)
                .with_precision_and_scale(12, 2)
                .unwrap(),
        ),
        Arc::new(StringArray::from_iter(
            numbers().map(|i| i.map(|i| format!("näme {}", i % 10))),
        )),
        Arc::new(Date32Array::from_iter(
            numbers().map(|i| i.map(|i| i as i32)),
        )),
        Arc::new(Float64Array::from_iter(
            numbers().map(|i| i.map(|i| i as f64 / -4.0)),
        )),
    ];
    let fields: Vec<_> = write
        .columns()
        .iter()
        .map(coffer_format::Column::field)
        .collect();
    RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), columns).unwrap()
}

fn stored<'a>(
    table: &'a VerifiedManifest,
    column: &str,
    encoding: StoredEncoding,
) -> &'a StoredColumn {
    let id = table
        .manifest()
        .column(column)
        .map_or(0, |column| column.id);
    let found = |stored: &&StoredColumn| stored.column == id && stored.encoding == encoding;
    table.manifest().stored.iter().find(found).unwrap()
}

fn file(table: &VerifiedManifest, at: usize) -> PathBuf {
    table.file_path(&table.manifest().files[at])
}

fn footer(
    table: &VerifiedManifest,
    at: usize,
    keks: KekSet,
    columns: &[&str],
) -> Result<OpenedFooter, Error> {
    let pin = table.footer_pin(&table.manifest().files[at]);
    let range = pin.range().unwrap();
    let bytes = fs::read(file(table, at)).unwrap();
    let tail = bytes[range.start as usize..range.end as usize].to_vec();
    Ok(footer::open(
        Bytes::from(tail),
        &pin,
        &Arc::new(keks),
        columns,
    )?)
}

/// Where a stored column's chunk lies in a file.
fn chunk(table: &VerifiedManifest, at: usize, group: usize, name: &str) -> (u64, u64) {
    let opened = footer(table, at, KekSet::new(), &[]).unwrap();
    let group = opened.metadata().row_group(group);
    let found = group
        .columns()
        .iter()
        .find(|chunk| chunk.column_path().string() == name);
    found.unwrap().byte_range()
}

fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

#[test]
fn every_protection_comes_back() {
    let owner = Owner::new(POLICY);
    let table = owner.table();
    let table = {
        assert_eq!(table.manifest().rows(), 350);
        owner.open("t").unwrap()
    };
    let whole = read(&table).unwrap();
    let copy = owner.create("twin", DDL, &[]).unwrap();
    let wanted = rows(&copy, 0, 350);
    assert_eq!(whole.columns(), wanted.columns());
    let report = verify::verify(&table, true, |_| ()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.rows_read, 350);

    let encodings: Vec<(u32, &str)> = table
        .manifest()
        .stored
        .iter()
        .map(|stored| (stored.column, stored.encoding.name()))
        .collect();
    let wanted = [
        (1, "det"),
        (1, "ope"),
        (2, "tee"),
        (2, "ope"),
        (3, "std"),
        (3, "ashe"),
        (3, "ore"),
        (4, "tee"),
        (4, "ope"),
        (4, "det"),
        (5, "plain"),
        (6, "tee"),
        (0, "file"),
        (0, "row"),
    ];
    assert_eq!(encodings, wanted);
    assert_eq!(
        table
            .manifest()
            .column("price")
            .unwrap()
            .protection
            .to_string(),
        "std+ashe+ore"
    );
    // The domain is the default one, in the column's own units.
    let ashe = stored(&table, "price", StoredEncoding::Of(Protection::Ashe));
    assert_eq!(ashe.domain.map(|domain| domain.max), Some(100_000_000));
}

#[test]
fn names_values_and_keys_are_not_in_the_files() {
    let owner = Owner::new(POLICY);
    let table = owner.table();
    let bytes = fs::read(file(&table, 0)).unwrap();
    for text in ["secret", "price", "näme", "Spark", "ARROW"] {
        let found = bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes());
        assert!(!found, "{text}");
    }
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn without_keys_what_lies_in_clear_opens_and_nothing_else() {
    let owner = Owner::new(POLICY);
    let table = owner.table();
    let (det, tee) = (
        stored(&table, "id", StoredEncoding::Of(Protection::Det)).name(),
        stored(&table, "age", StoredEncoding::Of(Protection::Tee)).name(),
    );
    let none = table.stored_keks([det.as_str()]).unwrap();
    assert!(none.is_empty());
    let opened = footer(&table, 0, none, &[&det]).unwrap();
    assert!(!opened.all_keys());
    assert!(matches!(
        footer(&table, 0, KekSet::new(), &[&tee]),
        Err(Error::Format(FormatError::ColumnKeyMissing(_)))
    ));
    // The footer's key alone opens no column, and one column's key opens that one.
    let keks = table.stored_keks([tee.as_str()]).unwrap();
    assert_eq!(keks.len(), 2);
    let opened = footer(&table, 0, keks, &[&tee]).unwrap();
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(opened.metadata()), options).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
        fs::File::open(file(&table, 0)).unwrap(),
        metadata,
    );
    let mask = ProjectionMask::columns(builder.parquet_schema(), [tee.as_str()]);
    let rows: usize = builder
        .with_projection(mask)
        .build()
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .sum();
    assert_eq!(rows, 300);
    assert!(matches!(
        footer(&table, 0, KekSet::new(), &["c99"]),
        Err(Error::Format(FormatError::NoSuchColumn(_)))
    ));
}

#[test]
fn statistics_show_order_where_order_shows_and_nothing_else() {
    let owner = Owner::new(POLICY);
    let table = owner.table();
    let opened = footer(&table, 0, KekSet::new(), &[]).unwrap();
    for (at, stored) in table.manifest().stored.iter().enumerate() {
        let chunk = opened.metadata().row_group(0).column(at);
        let shown = chunk
            .statistics()
            .is_some_and(|found| found.min_bytes_opt().is_some());
        assert_eq!(
            shown,
            matches!(
                stored.encoding,
                StoredEncoding::Of(Protection::Ope) | StoredEncoding::Of(Protection::Plain)
            ),
            "{}",
            stored.encoding
        );
        assert!(chunk.column_index_offset().is_none());
        assert_eq!(
            chunk.crypto_metadata().is_some(),
            stored.encoding == StoredEncoding::Of(Protection::Tee)
        );
    }
}

#[test]
fn links_make_equal_values_of_two_tables_equal() {
    let owner = Owner::new(POLICY);
    let t = owner.table();
    let write = owner.create("u", "id BIGINT", &[]).unwrap();
    let writer = write.writer(WriteOptions::default()).unwrap();
    let mut file = writer.file().unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 2]));
    file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), vec![Arc::clone(&ids)]).unwrap())
        .unwrap();
    let u = write.publish(vec![file.finish().unwrap().pin]).unwrap();
    let encrypted = |table: &VerifiedManifest| {
        let codec = table.codec().unwrap();
        let name = stored(table, "id", StoredEncoding::Of(Protection::Det)).name();
        codec.encrypt(codec.position(&name).unwrap(), &ids).unwrap()
    };
    assert_eq!(&encrypted(&t), &encrypted(&u));
    assert_eq!(
        stored(&t, "id", StoredEncoding::Of(Protection::Det)).group(t.manifest().table),
        stored(&u, "id", StoredEncoding::Of(Protection::Det)).group(u.manifest().table)
    );
    assert_eq!(read(&owner.open("u").unwrap()).unwrap().column(0), &ids);
    let links = Register::of(&owner.config_dir, owner.vault.keyring())
        .links()
        .unwrap();
    assert_eq!(links.len(), 1);
    assert_eq!(
        (links[0].name.as_str(), links[0].master.as_str()),
        ("id", "main")
    );

    // The policy decides which link a name means.
    let pinned = format!(
        "[links.id]\nid = \"{}\"\n[tables.v.columns]\nid = \
            {{ protection = \"det\", link = \"id\" }}",
        "0a".repeat(16)
    );
    let pinned = owner.policy_of(&pinned);
    let create = |owner: &Owner, policy: &Policy, name: &str, ddl: &str| {
        let new = NewColumns {
            columns: parse_ddl(ddl).unwrap(),
            ..NewColumns::default()
        };
        TableWrite::create(
            &owner.config_dir,
            &owner.vault,
            policy,
            name,
            &owner.root.join(name),
            new,
        )
    };
    let refused = create(&owner, &pinned, "v", "id BIGINT").map(|_| ());
    assert!(matches!(refused, Err(Error::PolicyLink { .. })));
    let elsewhere = Owner::new("");
    let refused = create(&elsewhere, &pinned, "v", "id BIGINT").map(|_| ());
    assert!(matches!(refused, Err(Error::PolicyHasLink { .. })));

    // A column of another type would never match.
    let other = owner.policy_of("[tables.w.columns]\nid = { protection = \"det\", link = \"id\" }");
    let refused = create(&owner, &other, "w", "id INT").map(|_| ());
    assert!(matches!(refused, Err(Error::LinkShape { .. })));
    assert!(!owner.root.join("w").exists());

    // Texts are compared as they are stored, whatever their declared lengths.
    let texts = owner.policy_of(
        "[tables.x.columns]\nv = { protection = \"det\", link = \"text\" }\ns = \
            { protection = \"det\", link = \"text\" }\n\
         c = { protection = \"det\", link = \"text\" }",
    );
    create(&owner, &texts, "x", "v VARCHAR(5), s STRING, c CHAR(3)").unwrap();
}

#[test]
fn later_versions_keep_what_is_pinned_and_replaced_ones_do_not() {
    let owner = Owner::new(POLICY);
    let first = owner.table();
    let next = |policy: &Policy, change| {
        TableWrite::next(&owner.config_dir, &owner.vault, policy, &first, change)
    };
    // Other domains and links in the policy change nothing of a table that is there; other
    // protections are refused.
    let narrower = POLICY.replace("domain = [0, 150]", "domain = [0, 9]");
    let narrower = owner.policy_of(&narrower);
    let write = next(&narrower, Change::Append).unwrap();
    assert_eq!(write.stored(), first.manifest().stored);
    let mut file = write
        .writer(WriteOptions::default())
        .unwrap()
        .file()
        .unwrap();
    file.write(&rows(&write, 350, 20)).unwrap();
    let pin = file.finish().unwrap().pin;
    let other = POLICY.replace("open = \"plain\"", "open = \"det\"");
    let other = owner.policy_of(&other);
    assert!(matches!(
        next(&other, Change::Append),
        Err(Error::ProtectionChanged { .. })
    ));
    let second = write.publish(vec![pin]).unwrap();
    assert_eq!(read(&owner.open("t").unwrap()).unwrap().num_rows(), 370);
    assert!(verify::verify(&second, true, |_| ()).unwrap().is_sound());

    // Replaced by a table of encrypted columns, ids are not used again.
    let tee = owner.policy_of("");
    let new = NewColumns {
        columns: parse_ddl("id BIGINT, age INT").unwrap(),
        ..NewColumns::default()
    };
    let write = TableWrite::next(
        &owner.config_dir,
        &owner.vault,
        &tee,
        &second,
        Change::Replace(new),
    )
    .unwrap();
    assert!(write.stored().is_empty());
    let before = &second.manifest().stored;
    let ids: Vec<u32> = write.columns().iter().map(|column| column.id).collect();
    assert!(
        before.iter().all(|stored| !ids.contains(&stored.id)),
        "{ids:?}"
    );
    let third = write.publish(vec![]).unwrap();
    assert!(third.manifest().stored.is_empty());
}

/// The one finding of a deep check.
fn finding(table: &VerifiedManifest) -> Error {
    let mut report = verify::verify(table, true, |_| ()).unwrap();
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    report.findings.remove(0).error
}

#[test]
fn a_chunk_altered_or_swapped_is_found() {
    let owner = Owner::new(POLICY);
    let table = owner.table();
    let path = file(&table, 0);
    let whole = fs::read(&path).unwrap();
    for (column, encoding) in [
        ("id", StoredEncoding::Of(Protection::Det)),
        ("age", StoredEncoding::Of(Protection::Ope)),
        ("price", StoredEncoding::Of(Protection::Ashe)),
        ("price", StoredEncoding::Of(Protection::Std)),
        ("open", StoredEncoding::Of(Protection::Plain)),
    ] {
        let name = stored(&table, column, encoding).name();
        let (start, length) = chunk(&table, 0, 1, &name);
        // One bit, in the last of its bytes.
        let last = start + length - 1;
        write_at(&path, last, &[whole[last as usize] ^ 1]);
        assert!(
            matches!(finding(&table), Error::Format(FormatError::ChunkDigest)),
            "{column} {encoding}"
        );
        fs::write(&path, &whole).unwrap();
        // The same column of another row group, where it is as long.
        let (other, other_length) = chunk(&table, 0, 2, &name);
        if other_length == length {
            let bytes = &whole[other as usize..(other + length) as usize];
            write_at(&path, start, bytes);
            assert!(
                matches!(finding(&table), Error::Format(FormatError::ChunkDigest)),
                "{column} {encoding}"
            );
            fs::write(&path, &whole).unwrap();
        }
    }
    // What is encrypted has no digest and needs none.
    let tee = stored(&table, "age", StoredEncoding::Of(Protection::Tee)).name();
    let (start, length) = chunk(&table, 0, 1, &tee);
    write_at(
        &path,
        start + length - 1,
        &[whole[(start + length - 1) as usize] ^ 1],
    );
    assert!(matches!(
        finding(&table),
        Error::Format(FormatError::Parquet(_))
    ));
    fs::write(&path, &whole).unwrap();
    assert!(verify::verify(&table, true, |_| ()).unwrap().is_sound());
}

#[test]
fn digests_and_values_that_do_not_agree_are_found() {
    let owner = Owner::new(POLICY);
    let write = owner.create("t", DDL, &[]).unwrap();
    let mut file = write
        .writer(WriteOptions::default())
        .unwrap()
        .file()
        .unwrap();
    file.write(&rows(&write, 0, 50)).unwrap();
    let pin = file.finish().unwrap().pin;
    let stored = write.stored().to_vec();
    let mut altered = pin.clone();
    altered.chunks[0][0] = altered.chunks[0][1];
    let table = write.publish(vec![altered]).unwrap();
    assert!(matches!(
        finding(&table),
        Error::Format(FormatError::ChunkDigest)
    ));
    assert!(matches!(
        read(&table),
        Err(Error::Format(FormatError::ChunkDigest))
    ));

    // Pinned, but another value: the last of the sums' column, whose chunk is not packed.
    let owner = Owner::new(POLICY);
    let write = owner.create("t", DDL, &[]).unwrap();
    let mut file = write
        .writer(WriteOptions::default())
        .unwrap()
        .file()
        .unwrap();
    file.write(&rows(&write, 0, 50)).unwrap();
    let mut pin = file.finish().unwrap().pin;
    let path = owner.root.join("t").join(&pin.path);
    let ashe = stored
        .iter()
        .find(|stored| stored.encoding == StoredEncoding::Of(Protection::Ashe))
        .unwrap();
    let whole = fs::read(&path).unwrap();
    let metadata =
        ArrowReaderMetadata::load(&fs::File::open(&path).unwrap(), ArrowReaderOptions::new())
            .unwrap();
    let chunks = metadata.metadata().row_group(0).columns();
    let found = chunks
        .iter()
        .find(|chunk| chunk.column_path().string() == ashe.name());
    let (start, length) = found.unwrap().byte_range();
    let chunk = &mut whole[start as usize..(start + length) as usize].to_vec();
    // Values are 8 bytes, least significant first; this one goes up by one unit.
    let at = chunk.len() - 8;
    chunk[at] = chunk[at].wrapping_add(1);
    write_at(&path, start, chunk);
    let clear = || stored.iter().filter(|stored| stored.encoding.is_clear());
    let position = clear()
        .position(|stored| stored.encoding == StoredEncoding::Of(Protection::Ashe))
        .unwrap();
    pin.chunks[0][position] = coffer_format::Digest::of(chunk);
    let table = write.publish(vec![pin]).unwrap();
    let found = finding(&table);
    assert!(
        matches!(&found, Error::Stale { column, .. } if column == "price"),
        "{found}"
    );
}

#[test]
fn a_footer_in_clear_is_the_pinned_one_or_none() {
    let owner = Owner::new(POLICY);
    let table = owner.table();
    let pin = table.footer_pin(&table.manifest().files[0]);
    let range = pin.range().unwrap();
    let bytes = fs::read(file(&table, 0)).unwrap()[range.start as usize..].to_vec();
    let open = |bytes: &[u8], pin: &footer::FooterPin| {
        footer::open(
            Bytes::copy_from_slice(bytes),
            pin,
            &Arc::new(KekSet::new()),
            &[],
        )
        .map(|_| ())
    };
    assert!(open(&bytes, &pin).is_ok());
    for at in (0..bytes.len()).step_by(11) {
        let mut altered = bytes.clone();
        altered[at] ^= 4;
        assert!(open(&altered, &pin).is_err(), "byte {at}");
    }
    // A table all of whose columns are encrypted never has one.
    let clear = false;
    assert!(matches!(
        open(
            &bytes,
            &footer::FooterPin {
                clear,
                ..pin.clone()
            }
        ),
        Err(FormatError::FooterMagic)
    ));
    let rows = pin.rows + 1;
    assert!(matches!(
        open(&bytes, &footer::FooterPin { rows, ..pin }),
        Err(FormatError::FooterRows { .. })
    ));
}

#[test]
fn a_manifest_without_a_digest_is_none() {
    let owner = Owner::new(POLICY);
    let write = owner.create("t", DDL, &[]).unwrap();
    let writer = write.writer(WriteOptions::default()).unwrap();
    let mut file = writer.file().unwrap();
    file.write(&rows(&write, 0, 10)).unwrap();
    let mut pin = file.finish().unwrap().pin;
    pin.chunks[0].pop();
    let refused = write.publish(vec![pin]).err().unwrap();
    assert!(refused.to_string().contains("one digest"), "{refused}");
}

#[test]
fn what_the_policy_cannot_have_is_refused_before_a_file_is_written() {
    for (column, ddl, wanted) in [
        ("{ protection = \"ope\" }", "a STRING", "only a prefix"),
        (
            "{ protection = \"ope\", domain = [\"a\", \"b\"] }",
            "a DOUBLE",
            "domain",
        ),
        (
            "{ protection = \"ope\", domain = [0, 300] }",
            "a TINYINT",
            "\"300\" is not a tinyint",
        ),
        ("{ protection = \"ashe\", domain = [0, 9e2] }", "a INT", ""),
        ("\"ashe\"", "a BIGINT", "name a narrower domain"),
        (
            "{ protection = \"ashe\", domain = [0, 1000000], rows = 1e15 }",
            "a BIGINT",
            "could leave 64 bits",
        ),
        ("\"ashe\"", "a STRING", "ashe"),
    ] {
        let text = format!("[tables.t.columns]\na = {column}\n");
        let Ok(_) = Draft::parse(&text, Path::new("policy.toml")) else {
            assert!(wanted.is_empty(), "{text}");
            continue;
        };
        let owner = Owner::new(&text);
        let refused = owner.create("t", ddl, &[]).err().unwrap();
        assert!(refused.to_string().contains(wanted), "{text}: {refused}");
        assert!(refused.hint().is_some());
        assert!(!owner.root.join("t").exists());
        assert!(
            Register::of(&owner.config_dir, owner.vault.keyring())
                .tables()
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn values_outside_their_domain_and_rows_too_many_are_refused() {
    let owner = Owner::new(
        "[tables.t.columns]\na = { protection = \"ope\", domain = [0, 9] }\n[tables.s.columns]\na \
            = { protection = \"ashe\", rows = 2 }",
    );
    let batch = |write: &TableWrite, values: Vec<i32>| {
        let array: ArrayRef = Arc::new(Int32Array::from(values));
        let fields: Vec<_> = write
            .columns()
            .iter()
            .map(coffer_format::Column::field)
            .collect();
        RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), vec![array]).unwrap()
    };
    let write = owner.create("t", "a INT", &[]).unwrap();
    let mut file = write
        .writer(WriteOptions::default())
        .unwrap()
        .file()
        .unwrap();
    file.write(&batch(&write, vec![0, 10])).unwrap();
    let refused = file.finish().err().unwrap();
    assert!(
        refused.to_string().contains("above the column's domain"),
        "{refused}"
    );

    let write = owner.create("s", "a INT", &[]).unwrap();
    let mut file = write
        .writer(WriteOptions::default())
        .unwrap()
        .file()
        .unwrap();
    file.write(&batch(&write, vec![0, 1, 2])).unwrap();
    let pin = file.finish().unwrap().pin;
    assert!(matches!(
        write.publish(vec![pin]),
        Err(Error::SumRows {
            rows: 3,
            most: 2,
            ..
        })
    ));
}
