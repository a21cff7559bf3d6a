//! Whole tables: written, published, opened, read; and every way in which a host could change one.

use crate::owner;

use coffer_format::Error as FormatError;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{array::*, datatypes::Schema};
use coffer_catalog::{
    Error, Manifest, NewColumns, TableWrite, Target, VerifiedManifest, clean, convert,
    manifest_name, open_table, verify,
};
use coffer_format::{SparkType, WriteOptions, footer, parse_ddl};
use coffer_sealing::KekSet;
use owner::{Owner, read};

const POLICY: &str = "[defaults]\nprotection = \"tee\"\nmaster = \"main\"\n";

impl Owner {
    /// A table of one BIGINT column `a`, a file for each list.
    fn numbers(&self, name: &str, files: &[&[i64]]) -> VerifiedManifest {
        let table = self.create(name, "a BIGINT", &[]).unwrap();
        let writer = table.writer(WriteOptions::default()).unwrap();
        let pins = files.iter().map(|values| {
            let mut file = writer.file().unwrap();
            let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
            file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), vec![column]).unwrap())
                .unwrap();
            file.finish().unwrap().pin
        });
        let pins = pins.collect();
        table.publish(pins).unwrap()
    }

    fn open_path(&self, path: &Path) -> Result<VerifiedManifest, Error> {
        open_table(
            &self.config_dir,
            &self.vault,
            &self.policy,
            &Target::Path(path.to_owned()),
        )
    }

    fn manifest(&self, name: &str) -> PathBuf {
        self.root.join(name).join("_coffer").join(manifest_name(1))
    }
}

fn file(table: &VerifiedManifest, at: usize) -> PathBuf {
    table.file_path(&table.manifest().files[at])
}

/// The one finding of a check, which must be about a file of the table.
fn finding(table: &VerifiedManifest, deep: bool) -> Error {
    let mut report = verify::verify(table, deep, |_| ()).unwrap();
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    report.findings.remove(0).error
}

#[test]
fn every_type_comes_back_with_nulls() {
    let owner = Owner::new(POLICY);
    let ddl = "b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, f FLOAT, d DOUBLE, d9 \
        DECIMAL(9,2), \
               d18 DECIMAL(18,0), d38 DECIMAL(38,10), s STRING, bin BINARY, day DATE, ts \
               TIMESTAMP, ntz TIMESTAMP_NTZ, \
               `odd.näme` STRING";
    let table = owner.create("types", ddl, &[]).unwrap();
    let writer = table.writer(WriteOptions::default()).unwrap();
    let decimal = |values: Vec<Option<i128>>, precision, scale| -> ArrayRef {
        Arc::new(
            Decimal128Array::from(values)
                .with_precision_and_scale(precision, scale)
                .unwrap(),
        )
    };
    let max38 = 10_i128.pow(38) - 1;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)])),
        Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)])),
        Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)])),
        Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        Arc::new(Float32Array::from(vec![
            Some(-0.0),
            None,
            Some(f32::INFINITY),
        ])),
        Arc::new(Float64Array::from(vec![
            Some(-0.0),
            None,
            Some(f64::MIN_POSITIVE),
        ])),
        decimal(vec![Some(-999_999_999), None, Some(1)], 9, 2),
        decimal(vec![Some(-999_999_999_999_999_999), None, Some(1)], 18, 0),
        decimal(vec![Some(-max38), None, Some(max38)], 38, 10),
        Arc::new(StringArray::from(vec![
            Some(""),
            None,
            Some("naïve 🙂 \u{0}"),
        ])),
        Arc::new(BinaryArray::from(vec![
            Some(&b""[..]),
            None,
            Some(&[0, 255][..]),
        ])),
        Arc::new(Date32Array::from(vec![
            Some(-719_162),
            None,
            Some(2_932_896),
        ])),
        Arc::new(
            TimestampMicrosecondArray::from(vec![Some(i64::MIN), None, Some(i64::MAX)])
                .with_timezone("UTC"),
        ),
        Arc::new(TimestampMicrosecondArray::from(vec![
            Some(-1),
            None,
            Some(1),
        ])),
        Arc::new(StringArray::from(vec![None::<&str>, None, None])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(writer.schema()), columns).unwrap();
    let mut file = writer.file().unwrap();
    file.write(&batch).unwrap();
    table.publish(vec![file.finish().unwrap().pin]).unwrap();
    let opened = owner.open("types").unwrap();
    assert_eq!(read(&opened).unwrap(), batch);
    assert!(verify::verify(&opened, true, |_| ()).unwrap().is_sound());
    assert_eq!(
        opened.manifest().columns[9].kind,
        SparkType::Decimal {
            precision: 38,
            scale: 10
        }
    );
}

#[test]
fn files_hold_nothing_in_clear() {
    let owner = Owner::new(POLICY);
    let table = owner
        .create("secret", "distinctivename STRING", &[])
        .unwrap();
    let writer = table.writer(WriteOptions::default()).unwrap();
    let column: ArrayRef = Arc::new(StringArray::from(vec!["distinctivevalue"]));
    let mut file = writer.file().unwrap();
    file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), vec![column]).unwrap())
        .unwrap();
    let table = table.publish(vec![file.finish().unwrap().pin]).unwrap();
    for path in [
        self::file(&table, 0),
        owner.manifest("secret"),
        owner.config_dir.register(),
    ] {
        let bytes = fs::read(path).unwrap();
        assert!(!bytes.windows(11).any(|window| window == b"distinctive"));
    }
}

#[test]
fn empty_table_and_shuffled_rows() {
    let owner = Owner::new(POLICY);
    let empty = owner
        .create("empty", "a INT", &[])
        .unwrap()
        .publish(Vec::new())
        .unwrap();
    assert_eq!(read(&empty).unwrap().num_rows(), 0);
    let table = owner.create("mixed", "a INT", &[]).unwrap();
    let writer = table
        .writer(WriteOptions {
            shuffle_rows: true,
            ..WriteOptions::default()
        })
        .unwrap();
    let column: ArrayRef = Arc::new(Int32Array::from_iter_values(0..10_000));
    let mut file = writer.file().unwrap();
    file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), vec![column]).unwrap())
        .unwrap();
    let written = file.finish().unwrap();
    assert_eq!(written.order, vec![None]);
    let rows = read(&table.publish(vec![written.pin]).unwrap()).unwrap();
    let mut values = rows
        .column(0)
        .as_primitive::<arrow::datatypes::Int32Type>()
        .values()
        .to_vec();
    assert_ne!(values, (0..10_000).collect::<Vec<_>>());
    values.sort();
    assert_eq!(values, (0..10_000).collect::<Vec<_>>());
}

#[test]
fn manifest_any_bit_flipped() {
    let owner = Owner::new(POLICY);
    owner.numbers("t", &[&[1]]);
    let path = owner.manifest("t");
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, &bad).unwrap();
        assert!(owner.open("t").is_err(), "byte {at}");
    }
    for length in [0, 4, 47, good.len() - 1] {
        fs::write(&path, &good[..length]).unwrap();
        assert!(owner.open("t").is_err(), "cut to {length}");
    }
    fs::write(&path, &good).unwrap();
    owner.open("t").unwrap();
}

#[test]
fn manifest_missing_foreign_or_newer() {
    let owner = Owner::new(POLICY);
    owner.numbers("t", &[&[1]]);
    owner.numbers("u", &[&[2]]);
    let (t, u) = (owner.manifest("t"), owner.manifest("u"));
    let good = fs::read(&t).unwrap();
    fs::copy(&u, &t).unwrap();
    assert!(matches!(
        owner.open("t"),
        Err(Error::ManifestForeign { .. })
    ));
    fs::write(&t, &good).unwrap();
    fs::copy(&t, t.with_file_name(manifest_name(2))).unwrap();
    assert!(matches!(
        owner.open("t"),
        Err(Error::VersionUnknown { want: 1, got: 2 })
    ));
    fs::remove_file(&t).unwrap();
    assert!(matches!(
        owner.open("t"),
        Err(Error::VersionMissing {
            want: 1,
            newest: Some(2)
        })
    ));
    fs::remove_file(t.with_file_name(manifest_name(2))).unwrap();
    assert!(matches!(owner.open("t"), Err(Error::NotATable(_))));
}

#[test]
fn manifest_of_an_older_state_is_refused() {
    let owner = Owner::new(POLICY);
    let table = owner.create("t", "a BIGINT", &[]).unwrap();
    let folder = table.folder().to_owned();
    table.abandon().unwrap();
    let old = owner.numbers("t", &[&[1]]);
    let manifest = fs::read(owner.manifest("t")).unwrap();
    // The same table id and version with another content, sealed under the right key, is not the
    // one published.
    let register = coffer_catalog::Register::of(&owner.config_dir, owner.vault.keyring());
    register.remove(old.manifest().table).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    owner.numbers("t", &[&[2]]);
    fs::write(owner.manifest("t"), manifest).unwrap();
    assert!(owner.open("t").is_err());
}

#[test]
fn file_missing_cut_swapped_plain_or_extra() {
    let owner = Owner::new(POLICY);
    let table = owner.numbers("t", &[&[1, 2, 3], &[4, 5, 6]]);
    let (first, second) = (file(&table, 0), file(&table, 1));
    let (a, b) = (fs::read(&first).unwrap(), fs::read(&second).unwrap());

    fs::remove_file(&first).unwrap();
    assert!(matches!(
        finding(&table, false),
        Error::Format(FormatError::FileMissing(_))
    ));

    fs::write(&first, &a[..a.len() - 1]).unwrap();
    assert!(matches!(finding(&table, false), Error::FileSize { .. }));

    let mut padded = b.clone();
    padded.resize(a.len().max(b.len()), 0);
    fs::write(&first, &b).unwrap();
    let swapped = finding(&table, false);
    assert!(
        matches!(
            swapped,
            Error::Format(FormatError::FooterDigest)
                | Error::Format(FormatError::FooterLength { .. })
                | Error::FileSize { .. }
        ),
        "{swapped}"
    );

    // A plaintext file of equal size in a sealed one's place: what a reader with keys would have
    // accepted.
    let plain = plain_file(a.len());
    fs::write(&first, &plain).unwrap();
    let error = finding(&table, false);
    assert!(
        matches!(error, Error::Format(FormatError::FooterMagic)),
        "{error}"
    );

    fs::write(&first, &a).unwrap();
    fs::write(table.folder().join("part-0123.parquet"), b"x").unwrap();
    let report = verify::verify(&table, true, |_| ()).unwrap();
    assert_eq!((report.findings.len(), report.extra.len()), (0, 1));
    assert!(
        clean::clean(&owner.config_dir, &table)
            .unwrap()
            .removed
            .is_empty(),
        "only leftovers of ours are removed"
    );
}

/// A plaintext Parquet file of exactly so many bytes.
fn plain_file(length: usize) -> Vec<u8> {
    let build = |padding: usize| {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let note = parquet::file::metadata::KeyValue::new("pad".into(), "x".repeat(padding));
        let properties = parquet::file::properties::WriterProperties::builder()
            .set_key_value_metadata(Some(vec![note]))
            .build();
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))
                .unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    };
    let base = build(200).len();
    (0..400)
        .map(|more| build((200 + length).saturating_sub(base).saturating_sub(200) + more))
        .find(|file| file.len() == length)
        .unwrap()
}

#[test]
fn pages_changed_are_found_by_the_deep_check() {
    let owner = Owner::new(POLICY);
    let table = owner.numbers("t", &[&[1, 2, 3]]);
    let path = file(&table, 0);
    let good = fs::read(&path).unwrap();
    let footer_start =
        good.len() - 8 - usize::try_from(table.manifest().files[0].footer_length).unwrap();
    // The first page header's length, its ciphertext, and a byte in the middle of the data.
    for at in [4, 5, 6, 7, 20, 60] {
        let mut bad = good.clone();
        assert!(at < footer_start);
        bad[at] ^= 0x55;
        fs::write(&path, &bad).unwrap();
        assert!(verify::verify(&table, false, |_| ()).unwrap().is_sound());
        let error = finding(&table, true);
        assert!(
            matches!(
                error,
                Error::Format(FormatError::Parquet(_)) | Error::Format(FormatError::ParquetPanic)
            ),
            "byte {at}: {error}"
        );
    }
}

#[test]
fn footer_opens_with_the_keys_it_needs_only() {
    let owner = Owner::new(POLICY);
    let table = owner.create("t", "a INT, b INT", &[]).unwrap();
    let writer = table.writer(WriteOptions::default()).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![1])),
        Arc::new(Int32Array::from(vec![2])),
    ];
    let mut file = writer.file().unwrap();
    file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), columns).unwrap())
        .unwrap();
    let table = table.publish(vec![file.finish().unwrap().pin]).unwrap();
    let other = owner.numbers("u", &[&[1]]);
    let pin = table.footer_pin(&table.manifest().files[0]);
    let bytes = fs::read(self::file(&table, 0)).unwrap();
    let tail = bytes[usize::try_from(pin.range().unwrap().start).unwrap()..].to_vec();
    let open = |keks: KekSet, pin: &footer::FooterPin, columns: &[&str]| {
        footer::open(tail.clone().into(), pin, &Arc::new(keks), columns)
    };
    let both = open(table.all_keks().unwrap(), &pin, &["a", "b"]).unwrap();
    assert!(both.all_keys());
    let one = open(table.keks(["a"]).unwrap(), &pin, &["a"]).unwrap();
    assert!(!one.all_keys());
    assert!(matches!(
        open(table.keks(["a"]).unwrap(), &pin, &["b"]),
        Err(FormatError::ColumnKeyMissing(_))
    ));
    assert!(matches!(
        open(table.keks(["a"]).unwrap(), &pin, &["c"]),
        Err(FormatError::NoSuchColumn(_))
    ));
    assert!(open(other.all_keks().unwrap(), &pin, &["a"]).is_err());
    assert!(open(KekSet::new(), &pin, &[]).is_err());
    let all = || table.all_keks().unwrap();
    let aad_prefix = vec![0; 16];
    assert!(
        open(
            all(),
            &footer::FooterPin {
                aad_prefix,
                ..pin.clone()
            },
            &["a"]
        )
        .is_err()
    );
    let rows = 2;
    assert!(matches!(
        open(
            all(),
            &footer::FooterPin {
                rows,
                ..pin.clone()
            },
            &["a"]
        ),
        Err(FormatError::FooterRows { .. })
    ));
    let table = other.manifest().table;
    let foreign = open(
        all(),
        &footer::FooterPin {
            table,
            ..pin.clone()
        },
        &["a"],
    );
    assert!(matches!(foreign, Err(FormatError::ColumnForeignKey(_))));
}

#[test]
fn names_folders_and_columns_that_do_not_fit() {
    let owner = Owner::new("[tables.t.columns]\nmisspelt = \"tee\"\n");
    let unknown = owner.create("t", "a INT", &[]).err().unwrap();
    assert!(unknown.to_string().contains("misspelt"), "{unknown}");
    assert!(matches!(
        owner.create("v", "a INT, A INT", &[]),
        Err(Error::DuplicateColumn(_))
    ));
    owner.numbers("u", &[&[1]]);
    assert!(matches!(
        owner.create("u", "a INT", &[]),
        Err(Error::NameTaken(_))
    ));
    fs::create_dir(owner.root.join("full")).unwrap();
    fs::write(owner.root.join("full/x"), b"").unwrap();
    assert!(matches!(
        owner.create("full", "a INT", &[]),
        Err(Error::FolderTaken(_))
    ));
    assert!(matches!(owner.open("nowhere"), Err(Error::UnknownTable(_))));
    assert!(matches!(
        owner.open_path(&owner.root.join("full")),
        Err(Error::NotATable(_))
    ));
}

#[test]
fn folder_of_another_config_dir_is_foreign() {
    let (owner, other) = (Owner::new(POLICY), Owner::new(POLICY));
    let table = other.numbers("t", &[&[1]]);
    assert!(matches!(
        owner.open_path(table.folder()),
        Err(Error::ForeignTable { .. })
    ));
    // A register that another keyring sealed does not open.
    fs::copy(other.config_dir.register(), owner.config_dir.register()).unwrap();
    assert!(matches!(owner.open("t"), Err(Error::RegisterAltered(_))));
}

#[test]
fn interrupted_before_the_manifest() {
    let owner = Owner::new(POLICY);
    let table = owner.create("t", "a BIGINT", &[]).unwrap();
    let folder = table.folder().to_owned();
    let file = table
        .writer(WriteOptions::default())
        .unwrap()
        .file()
        .unwrap();
    std::mem::forget(file);
    drop(table);
    assert!(matches!(owner.open("t"), Err(Error::Unfinished(_))));
    assert!(matches!(
        owner.open_path(&folder),
        Err(Error::Unfinished(_))
    ));
    let register = coffer_catalog::Register::of(&owner.config_dir, owner.vault.keyring());
    let record = register.by_name("t").unwrap().unwrap();
    assert_eq!(
        clean::unfinished_files(&register, &record).unwrap().len(),
        1
    );
    assert_eq!(
        clean::clean_unfinished(&owner.config_dir, &register, &record)
            .unwrap()
            .len(),
        1
    );
    assert!(!folder.exists());
    owner.numbers("t", &[&[1]]);
}

/// Of a table that cannot be entered what was made for it goes, and nothing else.
#[test]
fn folders_that_were_there_stay() {
    let owner = Owner::new(POLICY);
    // Somebody has begun to write there, and has no file in it yet.
    let first = owner.create("new", "a BIGINT", &[]).unwrap();
    let second = |name: &str, folder: &str| {
        let new = NewColumns {
            columns: parse_ddl("a BIGINT").unwrap(),
            ..NewColumns::default()
        };
        let folder = owner.root.join(folder);
        TableWrite::create(
            &owner.config_dir,
            &owner.vault,
            &owner.policy,
            name,
            &folder,
            new,
        )
        .map(|_| ())
    };
    assert!(matches!(second("other", "new"), Err(Error::FolderTaken(_))));
    assert!(first.folder().exists());

    fs::create_dir(owner.root.join("mine")).unwrap();
    // In the register's place lies what cannot be replaced.
    let register = owner.config_dir.register();
    let blocked = register.with_file_name("register.coffer.tmp");
    fs::create_dir(&blocked).unwrap();
    for folder in ["mine", "mine/a/b", "x/y"] {
        assert!(
            matches!(
                second("blocked", folder),
                Err(Error::Format(FormatError::Io { .. }))
            ),
            "{folder}"
        );
    }
    assert!(
        owner.root.join("mine").exists()
            && !owner.root.join("mine/a").exists()
            && !owner.root.join("x").exists()
    );
    fs::remove_dir(&blocked).unwrap();
    second("blocked", "mine").unwrap();
}

#[test]
fn batches_of_another_type_are_refused() {
    let owner = Owner::new(POLICY);
    let table = owner.create("t", "a BIGINT", &[]).unwrap();
    let writer = table.writer(WriteOptions::default()).unwrap();
    let column: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    assert!(matches!(
        writer.file().unwrap().write(&batch),
        Err(FormatError::BatchSchema(_))
    ));
    let converted = convert::to_schema(&batch, writer.schema()).unwrap();
    writer.file().unwrap().write(&converted).unwrap();
    let _: &Schema = writer.schema();
    let _ = Manifest::schema;
}
