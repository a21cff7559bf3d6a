//! Tables over several versions: appends, overwrites, partitions, writers in each other's way,
//! rollback, cleaning.

use crate::owner;

use coffer_format::Error as FormatError;
use std::{fs, path::PathBuf, sync::Arc};

use arrow::array::*;
use coffer_catalog::{
    Change, Error, FileReader, Lease, TableWrite, Use, VerifiedManifest, clean, is_absent,
    manifest_name, verify,
};
use coffer_format::{FilePin, WriteOptions};
use owner::{Owner, columns, read};

impl Owner {
    fn next(&self, parent: &VerifiedManifest, change: Change) -> Result<TableWrite, Error> {
        TableWrite::next(&self.config_dir, &self.vault, &self.policy, parent, change)
    }

    /// A table of one BIGINT column `a` with this row.
    fn number(&self, name: &str, value: i64) -> VerifiedManifest {
        let write = self.create(name, "a BIGINT", &[]).unwrap();
        publish(write, &[value])
    }

    fn manifests(&self, name: &str) -> PathBuf {
        self.root.join(name).join("_coffer")
    }
}

fn numbers(write: &TableWrite, values: &[i64]) -> FilePin {
    let writer = write.writer(WriteOptions::default()).unwrap();
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    let mut file = writer.file().unwrap();
    file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), vec![column]).unwrap())
        .unwrap();
    file.finish().unwrap().pin
}

fn publish(write: TableWrite, values: &[i64]) -> VerifiedManifest {
    let pin = numbers(&write, values);
    write.publish(vec![pin]).unwrap()
}

fn values(table: &VerifiedManifest) -> Vec<i64> {
    let rows = read(table).unwrap();
    rows.column(0)
        .as_primitive::<arrow::datatypes::Int64Type>()
        .values()
        .to_vec()
}

#[test]
fn appended_and_overwritten_over_several_versions() {
    let owner = Owner::new("");
    let mut table = owner.number("t", 1);
    for value in 2..=5 {
        table = publish(owner.next(&table, Change::Append).unwrap(), &[value]);
    }
    assert_eq!(values(&owner.open("t").unwrap()), [1, 2, 3, 4, 5]);
    assert_eq!(
        (table.manifest().version, table.check_chain().unwrap()),
        (5, 5)
    );
    table = publish(owner.next(&table, Change::Overwrite).unwrap(), &[9]);
    table = publish(owner.next(&table, Change::Append).unwrap(), &[10]);
    let opened = owner.open("t").unwrap();
    assert_eq!(values(&opened), [9, 10]);
    let report = verify::verify(&opened, true, |_| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!((report.versions, report.superseded.len()), (7, 5));
    // A version without new files is one, too.
    table = owner
        .next(&table, Change::Overwrite)
        .unwrap()
        .publish(Vec::new())
        .unwrap();
    assert_eq!((table.manifest().version, table.manifest().rows()), (8, 0));
}

#[test]
fn rolled_back_replaced_and_broken_chains_are_found() {
    let owner = Owner::new("");
    let first = owner.number("t", 1);
    let old = fs::read(owner.manifests("t").join(manifest_name(1))).unwrap();
    let second = publish(owner.next(&first, Change::Append).unwrap(), &[2]);
    let third = publish(owner.next(&second, Change::Append).unwrap(), &[3]);
    assert_eq!(values(&third), [1, 2, 3]);
    let newest = owner.manifests("t").join(manifest_name(3));
    let good = fs::read(&newest).unwrap();
    // The folder as it was before.
    fs::remove_file(&newest).unwrap();
    assert!(matches!(
        owner.open("t"),
        Err(Error::VersionMissing {
            want: 3,
            newest: Some(2)
        })
    ));
    // An older manifest under the newest name.
    fs::write(&newest, &old).unwrap();
    assert!(matches!(
        owner.open("t"),
        Err(Error::VersionReplaced { version: 3 })
    ));
    fs::write(&newest, &good).unwrap();
    // A version in the middle that is another than its child names.
    fs::write(owner.manifests("t").join(manifest_name(2)), &old).unwrap();
    let opened = owner.open("t").unwrap();
    assert!(matches!(
        opened.check_chain(),
        Err(Error::ChainBroken {
            version: 3,
            parent: 2
        })
    ));
    assert!(!verify::verify(&opened, false, |_| ()).unwrap().is_sound());
}

#[test]
fn of_two_writers_one_publishes() {
    let owner = Owner::new("");
    let first = owner.number("t", 1);
    let (one, two) = (
        owner.next(&first, Change::Append).unwrap(),
        owner.next(&first, Change::Overwrite).unwrap(),
    );
    let (a, b) = (numbers(&one, &[2]), numbers(&two, &[3]));
    let lost = owner.root.join("t").join(&b.path);
    one.publish(vec![a]).unwrap();
    assert!(lost.exists());
    let error = two.publish(vec![b]).err().unwrap();
    assert!(
        matches!(
            error,
            Error::Conflict {
                base: 1,
                newest: 2,
                ..
            }
        ),
        "{error}"
    );
    assert!(!lost.exists(), "the loser takes its files away");
    assert_eq!(values(&owner.open("t").unwrap()), [1, 2]);
    // Many at once: each version has one winner.
    let table = owner.open("t").unwrap();
    let wins: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let write = owner.next(&table, Change::Append).unwrap();
                    let pin = numbers(&write, &[7]);
                    usize::from(write.publish(vec![pin]).is_ok())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(wins, 1);
    assert_eq!(values(&owner.open("t").unwrap()), [1, 2, 7]);
}

#[test]
fn a_reader_sees_its_version_or_a_newer_one_while_others_write() {
    let owner = Owner::new("");
    let mut table = owner.number("t", 0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while seen < 20 {
                let opened = owner.open("t").unwrap();
                let rows = values(&opened);
                assert_eq!(
                    rows,
                    (0..=i64::try_from(opened.manifest().version - 1).unwrap()).collect::<Vec<_>>()
                );
                seen = opened.manifest().version;
            }
        });
        for value in 1..20 {
            table = publish(owner.next(&table, Change::Append).unwrap(), &[value]);
        }
        reader.join().unwrap();
    });
}

#[test]
fn given_up_and_killed_writes_leave_the_old_version() {
    let owner = Owner::new("");
    let first = owner.number("t", 1);
    let write = owner.next(&first, Change::Overwrite).unwrap();
    numbers(&write, &[2]);
    write.abandon().unwrap();
    let files = || fs::read_dir(owner.root.join("t")).unwrap().count();
    assert_eq!(files(), 2, "one file and the manifests");
    assert_eq!(values(&owner.open("t").unwrap()), [1]);

    // Killed: its files stay, unfinished ones too; while it runs they are left alone.
    let write = owner.next(&first, Change::Overwrite).unwrap();
    numbers(&write, &[2]);
    std::mem::forget(
        write
            .writer(WriteOptions::default())
            .unwrap()
            .file()
            .unwrap(),
    );
    let opened = owner.open("t").unwrap();
    assert_eq!(
        verify::verify(&opened, false, |_| ()).unwrap().extra.len(),
        2
    );
    let cleaned = clean::clean(&owner.config_dir, &opened).unwrap();
    assert!(cleaned.writing && cleaned.removed.is_empty());
    drop(write);
    let cleaned = clean::clean(&owner.config_dir, &opened).unwrap();
    assert!(!cleaned.writing);
    assert_eq!(cleaned.removed.len(), 2);
    assert!(verify::verify(&opened, true, |_| ()).unwrap().is_sound());
}

#[test]
fn superseded_files_stay_while_somebody_reads() {
    let owner = Owner::new("");
    let first = owner.number("t", 1);
    let reading = Lease::shared(&owner.config_dir, first.manifest().table, Use::Reading).unwrap();
    let second = publish(owner.next(&first, Change::Overwrite).unwrap(), &[2]);
    let cleaned = clean::clean(&owner.config_dir, &second).unwrap();
    assert!(cleaned.reading && cleaned.removed.is_empty());
    assert_eq!(
        values(&first),
        [1],
        "the version that was opened is still read"
    );
    drop(reading);
    let cleaned = clean::clean(&owner.config_dir, &second).unwrap();
    assert_eq!((cleaned.reading, cleaned.removed.len()), (false, 1));
    assert_eq!(values(&owner.open("t").unwrap()), [2]);
    assert_eq!(second.check_chain().unwrap(), 2, "manifests are kept");
    let pin = &first.manifest().files[0];
    assert!(matches!(
        FileReader::open(&first, pin),
        Err(Error::Format(FormatError::FileMissing(_)))
    ));
}

const PARTITIONED: &str = "n INT, day DATE, who STRING";

/// One file for each (day, who): its rows are those values and a number.
fn file_of(write: &TableWrite, n: i32, day: Option<i32>, who: Option<&str>) -> FilePin {
    let writer = write.writer(WriteOptions::default()).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![n])),
        Arc::new(Date32Array::from(vec![day])),
        Arc::new(StringArray::from(vec![who])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(writer.schema()), columns).unwrap();
    let mut file = writer
        .file_of(writer.partition_of(&batch, 0).unwrap())
        .unwrap();
    file.write(&batch).unwrap();
    file.finish().unwrap().pin
}

fn sorted(table: &VerifiedManifest) -> Vec<i32> {
    let rows = read(table).unwrap();
    let mut numbers = rows
        .column(0)
        .as_primitive::<arrow::datatypes::Int32Type>()
        .values()
        .to_vec();
    numbers.sort();
    numbers
}

#[test]
fn partitions_are_protected_overwritten_and_cleaned() {
    let owner = Owner::new("");
    let write = owner.create("t", PARTITIONED, &["day", "who"]).unwrap();
    let pins = vec![
        file_of(&write, 1, Some(19782), Some("distinctive")),
        file_of(&write, 2, Some(19782), Some("bob")),
        file_of(&write, 3, None, None),
    ];
    let first = write.publish(pins).unwrap();
    let manifest = first.manifest();
    assert_eq!(
        manifest.files[0].partition,
        [Some("19782".to_owned()), Some("distinctive".to_owned())]
    );
    assert_eq!(manifest.files[2].partition, [None, None]);
    for file in &manifest.files {
        assert!(!file.path.contains('/'), "no value is in a path");
        let bytes = fs::read(first.file_path(file)).unwrap();
        assert!(!bytes.windows(11).any(|window| window == b"distinctive"));
    }
    let write = owner.next(&first, Change::OverwritePartitions).unwrap();
    let pins = vec![
        file_of(&write, 20, Some(19782), Some("bob")),
        file_of(&write, 4, Some(19783), Some("bob")),
    ];
    let second = write.publish(pins).unwrap();
    assert_eq!(sorted(&second), [1, 3, 4, 20]);
    let day = vec![("day".to_owned(), Some("19782".to_owned()))];
    let write = owner.next(&second, Change::OverwriteWhere(day)).unwrap();
    let third = write.publish(Vec::new()).unwrap();
    assert_eq!(sorted(&third), [3, 4]);
    let nobody = vec![("who".to_owned(), None)];
    let fourth = owner
        .next(&third, Change::OverwriteWhere(nobody))
        .unwrap()
        .publish(Vec::new())
        .unwrap();
    assert_eq!(sorted(&fourth), [4]);
    let not = owner.next(
        &fourth,
        Change::OverwriteWhere(vec![("n".to_owned(), None)]),
    );
    assert!(matches!(not, Err(Error::NotAPartition(_))));
    assert!(verify::verify(&fourth, true, |_| ()).unwrap().is_sound());
    assert_eq!(
        clean::clean(&owner.config_dir, &fourth)
            .unwrap()
            .removed
            .len(),
        4
    );
}

#[test]
fn a_plain_partition_column_shows_in_paths_and_no_other_does() {
    let owner =
        Owner::new("[tables.t.columns]\nday = \"plain\"\n[tables.u.columns]\nn = \"plain\"\n");
    let write = owner.create("t", PARTITIONED, &["day", "who"]).unwrap();
    let pins = vec![
        file_of(&write, 1, Some(19782), Some("alice")),
        file_of(&write, 2, None, Some("bob")),
    ];
    let table = write.publish(pins).unwrap();
    let paths: Vec<&str> = table
        .manifest()
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert!(paths[0].starts_with("day=2024-02-29/part-"), "{paths:?}");
    assert!(
        paths[1].starts_with("day=__HIVE_DEFAULT_PARTITION__/part-"),
        "{paths:?}"
    );
    assert_eq!(sorted(&owner.open("t").unwrap()), [1, 2]);
    // Cleaning takes the empty folders along.
    let write = owner.next(&table, Change::Append).unwrap();
    std::mem::forget(
        write
            .writer(WriteOptions::default())
            .unwrap()
            .file_of(vec![Some("1".into()), None])
            .unwrap(),
    );
    drop(write);
    assert!(owner.root.join("t/day=1970-01-02").is_dir());
    assert_eq!(
        clean::clean(&owner.config_dir, &table)
            .unwrap()
            .removed
            .len(),
        1
    );
    assert!(!owner.root.join("t/day=1970-01-02").exists());
    // Beside partitions no other column can be plain.
    let refused = owner.create("u", PARTITIONED, &["day"]).err().unwrap();
    assert!(matches!(refused, Error::PartitionedStored), "{refused}");
    assert!(!owner.root.join("u").exists());
}

#[test]
fn columns_replaced_keep_or_change_their_ids() {
    let owner = Owner::new("");
    let write = owner.create("t", "a BIGINT, b STRING, c INT", &[]).unwrap();
    let first = write.publish(Vec::new()).unwrap();
    let replace = |parent: &VerifiedManifest, ddl: &str| {
        let write = owner
            .next(parent, Change::Replace(columns(ddl, &[])))
            .unwrap();
        write.publish(Vec::new()).unwrap()
    };
    let ids = |table: &VerifiedManifest| {
        table
            .manifest()
            .columns
            .iter()
            .map(|c| c.id)
            .collect::<Vec<_>>()
    };
    let second = replace(&first, "b STRING, a INT");
    assert_eq!(ids(&second), [2, 4], "another type is another column");
    let third = replace(&second, "c INT, a BIGINT");
    assert_eq!(ids(&third), [5, 6], "an id is never used again");
    assert_eq!(ids(&owner.open("t").unwrap()), [5, 6]);
    assert_eq!(third.check_chain().unwrap(), 3);
}

#[test]
fn what_the_policy_says_is_pinned() {
    let mut owner = Owner::new("");
    let write = owner.create("t", PARTITIONED, &["day"]).unwrap();
    let first = write.publish(Vec::new()).unwrap();
    owner.policy = owner.policy_of("[tables.t.columns]\nday = \"plain\"\n");
    let error = owner.next(&first, Change::Append).err().unwrap();
    assert!(matches!(error, Error::ProtectionChanged { .. }), "{error}");
    let write = owner
        .next(&first, Change::Replace(columns(PARTITIONED, &["day"])))
        .unwrap();
    let second = write.publish(Vec::new()).unwrap();
    assert_eq!(
        second
            .manifest()
            .column("day")
            .unwrap()
            .protection
            .to_string(),
        "plain"
    );
}

#[test]
fn partition_columns_that_cannot_be() {
    let owner = Owner::new("");
    let refused = |ddl, by: &[&str]| owner.create("t", ddl, by).err().unwrap();
    assert!(matches!(
        refused("a INT, f DOUBLE", &["f"]),
        Error::Format(FormatError::PartitionType(_))
    ));
    assert!(matches!(refused("a INT", &["a"]), Error::OnlyPartitions));
    assert!(matches!(
        refused("a INT, b INT", &["c"]),
        Error::Format(FormatError::NoSuchColumn(_))
    ));
    assert!(matches!(
        refused("a INT, b INT", &["b", "b"]),
        Error::DuplicateColumn(_)
    ));
}

#[test]
fn absent_dropped_and_made_again() {
    let owner = Owner::new("");
    let folder = owner.root.join("t");
    let absent = || {
        is_absent(
            &owner.config_dir,
            owner.vault.keyring(),
            &owner.policy,
            &folder,
        )
        .unwrap()
    };
    assert!(absent());
    let table = owner.number("t", 1);
    assert!(!absent());
    let register = coffer_catalog::Register::of(&owner.config_dir, owner.vault.keyring());
    let id = table.manifest().table;
    assert!(matches!(
        clean::forget_dropped(&register, id),
        Err(Error::StillThere(_))
    ));
    fs::remove_dir_all(&folder).unwrap();
    assert!(
        !absent(),
        "storage that shows nothing does not make a table go away"
    );
    assert!(owner.open("t").is_err());
    clean::forget_dropped(&register, id).unwrap();
    assert!(absent());
    assert_ne!(owner.number("t", 2).manifest().table, id);
}
