//! Which table a path means: the one whose recorded spelling it is, whatever a host makes of links
//! and folders. Two tables of one schema, `a` and `b`; whatever is done, asking for one never gives
//! rows of the other.

use crate::owner;

use coffer_format::Error as FormatError;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::array::*;
use coffer_catalog::{
    Change, Error, NewColumns, Register, TableWrite, Target, VerifiedManifest, clean, is_absent,
    manifest_name, open_table,
};
use coffer_format::{FilePin, WriteOptions};
use owner::{Owner, columns, read};

const A: i64 = 1;
const B: i64 = 2;

fn file(write: &TableWrite, value: i64) -> FilePin {
    let writer = write.writer(WriteOptions::default()).unwrap();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
    let mut file = writer.file().unwrap();
    file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), vec![column]).unwrap())
        .unwrap();
    file.finish().unwrap().pin
}

fn values(table: &VerifiedManifest) -> Result<Vec<i64>, Error> {
    let rows = read(table)?;
    Ok(rows
        .column(0)
        .as_primitive::<arrow::datatypes::Int64Type>()
        .values()
        .to_vec())
}

fn new() -> NewColumns {
    columns("a BIGINT", &[])
}

trait Names {
    fn at(&self, path: &str) -> PathBuf;
    fn link(&self, from: &str, to: &str);
    fn make(&self, name: &str, folder: &str, value: i64) -> VerifiedManifest;
    fn by(&self, target: &Target) -> Result<VerifiedManifest, Error>;
    fn register(&self) -> Register;
}

impl Names for Owner {
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn link(&self, from: &str, to: &str) {
        symlink(self.at(to), self.at(from)).unwrap();
    }

    /// By the owner's command, at a path as written.
    fn make(&self, name: &str, folder: &str, value: i64) -> VerifiedManifest {
        let folder = self.at(folder);
        let write = TableWrite::create_by_owner(
            &self.config_dir,
            &self.vault,
            &self.policy,
            name,
            &folder,
            new(),
        )
        .unwrap();
        let pin = file(&write, value);
        write.publish(vec![pin]).unwrap()
    }

    fn by(&self, target: &Target) -> Result<VerifiedManifest, Error> {
        open_table(&self.config_dir, &self.vault, &self.policy, target)
    }

    fn register(&self) -> Register {
        Register::of(&self.config_dir, self.vault.keyring())
    }
}

/// `/data` is the owner's link to `/disk/data`; the tables lie in it. A third table is the other
/// two's neighbour by name.
fn world(policy: &str) -> Owner {
    let mut owner = Owner::new("");
    fs::create_dir_all(owner.at("disk/data")).unwrap();
    owner.link("data", "disk/data");
    owner.make("a", "data/a", A);
    owner.make("b", "data/b", B);
    owner.make("spaced", "data/a%20b c", 3);
    let text = policy.replace("ROOT", owner.root.to_str().unwrap());
    owner.policy =
        coffer_catalog::policy::replace(&owner.config_dir, owner.vault.keyring(), &text).unwrap();
    owner
}

#[test]
fn spellings() {
    let owner = world("");
    let root = owner.root.display().to_string();
    for (written, want) in [
        // As written, and as it led when the owner wrote it.
        ("ROOT/data/a", Some(A)),
        ("ROOT/disk/data/a", Some(A)),
        ("ROOT/data/b", Some(B)),
        ("ROOT/disk/data/b", Some(B)),
        // The same path in other words.
        ("ROOT/data/a/", Some(A)),
        ("ROOT/data/a//", Some(A)),
        ("ROOT/data//a", Some(A)),
        ("ROOT//data/./a/.", Some(A)),
        ("//ROOT/data/a", Some(A)),
        ("ROOT/data/b/../a", Some(A)),
        ("ROOT/data/none/../a", Some(A)),
        ("ROOT/other/../data/a", Some(A)),
        ("ROOT/data/../disk/data/a", Some(A)),
        ("file:ROOT/data/a", Some(A)),
        ("file://ROOT/data/a", Some(A)),
        ("file:///ROOT/data/a/", Some(A)),
        ("file:ROOT/data/b/../a", Some(A)),
        ("ROOT/data/a%20b c", Some(3)),
        ("file:ROOT/data/a%20b c", Some(3)),
        // `..` takes the name before it away, and does not go up from where a link leads.
        ("ROOT/data/../data/a", Some(A)),
        ("ROOT/data/../a", None),
        // Other words, however alike, and what an escape would make of them.
        ("ROOT/data/A", None),
        ("ROOT/Data/a", None),
        ("ROOT/data/a ", None),
        ("ROOT/data/%61", None),
        ("file:ROOT/data/%61", None),
        ("ROOT/data/a b c", None),
        ("ROOT/data/a%2520b c", None),
        ("FILE:ROOT/data/a", None),
        ("file://host/ROOT/data/a", None),
        ("ROOT/data/a/_coffer", None),
        ("ROOT/data", None),
        ("ROOT/data/a\u{301}", None),
        ("data/a", None),
    ] {
        let text = written.replace("ROOT", &root);
        let opened = owner.by(&Target::path(&text));
        match (opened, want) {
            (Ok(table), Some(want)) => assert_eq!(values(&table).unwrap(), [want], "{written}"),
            (Err(_), None) => {}
            (Ok(table), None) => panic!("{written} opened `{}`", table.name()),
            (Err(error), Some(_)) => panic!("{written}: {error}"),
        }
    }
}

/// What a host does to the storage behind a recorded path.
type Attack = (&'static str, fn(&Owner));

fn swap(owner: &Owner, one: &str, other: &str) {
    fs::rename(owner.at(one), owner.at("disk/swapped")).unwrap();
    fs::rename(owner.at(other), owner.at(one)).unwrap();
    fs::rename(owner.at("disk/swapped"), owner.at(other)).unwrap();
}

fn away(owner: &Owner, path: &str) {
    fs::rename(owner.at(path), owner.at("disk/away")).unwrap();
}

/// After each, `a` must not open, by whatever it is asked for.
const ATTACKS: &[Attack] = &[
    ("a link to the other table in the table's place", |owner| {
        away(owner, "disk/data/a");
        owner.link("disk/data/a", "disk/data/b");
    }),
    ("a relative link", |owner| {
        away(owner, "disk/data/a");
        symlink("b", owner.at("disk/data/a")).unwrap();
    }),
    ("a link to a link", |owner| {
        away(owner, "disk/data/a");
        owner.link("disk/hop", "disk/data/b");
        owner.link("disk/data/a", "disk/hop");
    }),
    ("folders swapped", |owner| {
        swap(owner, "disk/data/a", "disk/data/b")
    }),
    ("the other table's folder moved there", |owner| {
        away(owner, "disk/data/a");
        fs::rename(owner.at("disk/data/b"), owner.at("disk/data/a")).unwrap();
    }),
    ("a copy of the other table", |owner| {
        away(owner, "disk/data/a");
        copy(&owner.at("disk/data/b"), &owner.at("disk/data/a"));
    }),
    ("hard links to the other table's files", |owner| {
        away(owner, "disk/data/a");
        hard_links(&owner.at("disk/data/b"), &owner.at("disk/data/a"));
    }),
    ("manifests swapped", |owner| {
        swap(
            owner,
            "disk/data/a/_coffer/manifest-0000000001",
            "disk/data/b/_coffer/manifest-0000000001",
        );
    }),
    ("folders of manifests swapped", |owner| {
        swap(owner, "disk/data/a/_coffer", "disk/data/b/_coffer")
    }),
    ("the folder of manifests a link to the other's", |owner| {
        away(owner, "disk/data/a/_coffer");
        owner.link("disk/data/a/_coffer", "disk/data/b/_coffer");
    }),
    ("the manifest a link to the other's", |owner| {
        away(owner, "disk/data/a/_coffer/manifest-0000000001");
        owner.link(
            "disk/data/a/_coffer/manifest-0000000001",
            "disk/data/b/_coffer/manifest-0000000001",
        );
    }),
    ("the other's manifest beside, of a later version", |owner| {
        fs::copy(
            owner.at("disk/data/b/_coffer/manifest-0000000001"),
            owner.at("disk/data/a/_coffer/manifest-0000000002"),
        )
        .unwrap();
    }),
    ("nothing there", |owner| away(owner, "disk/data/a")),
    ("an empty folder there", |owner| {
        away(owner, "disk/data/a");
        fs::create_dir(owner.at("disk/data/a")).unwrap();
    }),
    ("a file there", |owner| {
        away(owner, "disk/data/a");
        fs::write(owner.at("disk/data/a"), "").unwrap();
    }),
    ("a link in a circle", |owner| {
        away(owner, "disk/data/a");
        symlink("a", owner.at("disk/data/a")).unwrap();
    }),
    (
        "the parent a link to a folder in which the names are swapped",
        |owner| {
            fs::create_dir(owner.at("disk/other")).unwrap();
            fs::rename(owner.at("disk/data/a"), owner.at("disk/other/b")).unwrap();
            fs::rename(owner.at("disk/data/b"), owner.at("disk/other/a")).unwrap();
            fs::rename(owner.at("disk/data"), owner.at("disk/was")).unwrap();
            owner.link("disk/data", "disk/other");
        },
    ),
    ("the owner's link and the folder lead elsewhere", |owner| {
        fs::create_dir(owner.at("disk/other")).unwrap();
        fs::rename(owner.at("disk/data/b"), owner.at("disk/other/a")).unwrap();
        fs::remove_file(owner.at("data")).unwrap();
        owner.link("data", "disk/other");
        away(owner, "disk/data/a");
        owner.link("disk/data/a", "disk/other/a");
    }),
];

fn copy(from: &Path, to: &Path) {
    each(from, to, |from, to| fs::copy(from, to).map(|_| ()));
}

fn hard_links(from: &Path, to: &Path) {
    each(from, to, |from, to| fs::hard_link(from, to));
}

fn each(from: &Path, to: &Path, put: fn(&Path, &Path) -> std::io::Result<()>) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => each(&entry.path(), &to, put),
            false => put(&entry.path(), &to).unwrap(),
        }
    }
}

const POLICIES: [&str; 3] = [
    "",
    "[tables.a]\npath = \"ROOT/data/a\"\n[tables.b]\npath = \"ROOT/data/b\"\n",
    "[tables.a]\npath = \"ROOT/disk/data/a\"\n[tables.b]\npath = \"ROOT/disk/data/../data/b\"\n",
];

#[test]
fn whatever_the_host_does_to_a_path() {
    for (number, policy) in POLICIES.iter().enumerate() {
        for (at, (what, attack)) in ATTACKS.iter().enumerate() {
            // A keyring for each world takes its time.
            if number > 0 && at % 3 != number {
                continue;
            }
            let owner = world(policy);
            let targets = [
                Target::Name("a".into()),
                Target::Typed("a".into()),
                Target::Path(owner.at("data/a")),
                Target::Path(owner.at("disk/data/a")),
                Target::path(&format!("file:{}", owner.at("data/b/../a").display())),
            ];
            let opened: Vec<_> = targets
                .iter()
                .map(|target| owner.by(target).unwrap())
                .collect();
            attack(&owner);
            let before = all_files(&owner.at("disk"));
            for (target, opened) in targets.iter().zip(&opened) {
                let context = format!("{what}, {target:?}, {policy:?}");
                let error = owner.by(target).err();
                assert!(error.is_some(), "{context}");
                // What was opened before is read, or an error: files are pinned. It is not written
                // to, nor cleaned.
                if let Ok(values) = values(opened) {
                    assert_eq!(values, [A], "{context}");
                }
                let next = TableWrite::next(
                    &owner.config_dir,
                    &owner.vault,
                    &owner.policy,
                    opened,
                    Change::Overwrite,
                );
                if let Ok(write) = next {
                    // The manifest is still its own, another's lies beside.
                    let pin = file(&write, 9);
                    assert!(write.publish(vec![pin]).is_err(), "{context}");
                }
                let itself = fs::read(owner.at("disk/data/a/_coffer").join(manifest_name(1)))
                    .is_ok_and(|bytes| coffer_format::Digest::of(&bytes) == opened.hash());
                let cleaned = clean::clean(&owner.config_dir, opened);
                assert!(itself || cleaned.is_err(), "{context}: {cleaned:?}");
                if let Target::Path(path) = target {
                    let absent = is_absent(
                        &owner.config_dir,
                        owner.vault.keyring(),
                        &owner.policy,
                        path,
                    );
                    assert!(!absent.unwrap_or(false), "{context}");
                    let made = TableWrite::create(
                        &owner.config_dir,
                        &owner.vault,
                        &owner.policy,
                        "c",
                        path,
                        new(),
                    );
                    assert!(made.is_err(), "{context}");
                }
            }
            // Nothing of anybody's was removed.
            let after = all_files(&owner.at("disk"));
            for file in &before {
                assert!(after.contains(file), "{what}: {} is gone", file.display());
            }
        }
    }
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(all_files(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

#[test]
fn links_that_the_owner_made_are_no_fault() {
    let owner = world("");
    // The whole disk is copied to another, and the link moved: both spellings were the owner's.
    copy(&owner.at("disk/data"), &owner.at("disk/newer"));
    fs::remove_file(owner.at("data")).unwrap();
    owner.link("data", "disk/newer");
    assert_eq!(
        values(&owner.by(&Target::Path(owner.at("data/a"))).unwrap()).unwrap(),
        [A]
    );
    assert_eq!(
        values(&owner.by(&Target::Path(owner.at("disk/data/a"))).unwrap()).unwrap(),
        [A]
    );
    assert_eq!(
        values(&owner.by(&Target::Name("b".into())).unwrap()).unwrap(),
        [B]
    );
    // A link that nobody recorded leads to it, and is not its name: it says so.
    owner.link("shortcut", "disk/newer/a");
    let shortcut = Target::Path(owner.at("shortcut"));
    match owner.by(&shortcut) {
        Err(error @ Error::PathNotRecorded { .. }) => {
            assert!(error.hint().unwrap().contains("--record-path"), "{error}");
        }
        other => panic!("{:?}", other.map(|table| table.name().to_owned())),
    }
    // Until its owner does, and then it is, unless it is another's.
    let id = owner
        .by(&Target::Name("a".into()))
        .unwrap()
        .manifest()
        .table;
    let register = owner.register();
    register
        .record_spelling(id, &owner.at("x/../shortcut/"))
        .unwrap();
    register.record_spelling(id, &owner.at("shortcut")).unwrap();
    assert_eq!(values(&owner.by(&shortcut).unwrap()).unwrap(), [A]);
    assert!(matches!(
        register.record_spelling(id, &owner.at("data/b")),
        Err(Error::PathTaken { .. })
    ));
    // The host turns it to the other table.
    fs::remove_file(owner.at("shortcut")).unwrap();
    owner.link("shortcut", "disk/newer/b");
    assert!(matches!(
        owner.by(&shortcut),
        Err(Error::ManifestForeign { .. })
    ));
}

#[test]
fn what_spark_makes_is_known_as_it_was_written_alone() {
    let owner = world("");
    // The host has a link ready where a table is to be made.
    fs::create_dir(owner.at("disk/data/d")).unwrap();
    owner.link("disk/data/c", "disk/data/d");
    let create = |name: &str, path: &str| {
        TableWrite::create(
            &owner.config_dir,
            &owner.vault,
            &owner.policy,
            name,
            &owner.at(path),
            new(),
        )
    };
    let write = create("c", "disk/data/c").unwrap();
    let pin = file(&write, 7);
    write.publish(vec![pin]).unwrap();
    assert_eq!(
        values(&owner.by(&Target::Path(owner.at("disk/data/c"))).unwrap()).unwrap(),
        [7]
    );
    assert!(matches!(
        owner.by(&Target::Path(owner.at("disk/data/d"))),
        Err(Error::PathNotRecorded { .. })
    ));
    assert!(matches!(
        create("d", "disk/data/d"),
        Err(Error::FolderTaken(_))
    ));
}

#[test]
fn a_word_means_what_the_register_says() {
    let owner = world("");
    // There is no folder `a` here, and there is one.
    for target in [Target::typed("a"), Target::typed("./a"), Target::typed("b")] {
        match (&target, owner.by(&target)) {
            (Target::Typed(name), Ok(table)) => assert_eq!(table.name(), name),
            (Target::Path(_), Err(_)) => {}
            (target, _) => panic!("{target:?}"),
        }
    }
    assert!(matches!(
        owner.by(&Target::typed("none")),
        Err(Error::UnknownTable(_))
    ));
}

#[test]
fn two_tables_of_the_policy_cannot_have_one_path() {
    let owner =
        world("[tables.a]\npath = \"ROOT/data/a\"\n[tables.b]\npath = \"ROOT/data/x/../a\"\n");
    assert!(matches!(
        owner.by(&Target::Path(owner.at("data/a"))),
        Err(Error::PathTwice { .. })
    ));
}

#[test]
fn the_policy_s_path_is_compared_as_written() {
    let owner = world("[tables.a]\npath = \"ROOT/moved/a\"\n");
    fs::create_dir(owner.at("moved")).unwrap();
    fs::rename(owner.at("disk/data/a"), owner.at("moved/a")).unwrap();
    assert_eq!(
        values(&owner.by(&Target::Path(owner.at("moved/a"))).unwrap()).unwrap(),
        [A]
    );
    assert_eq!(
        values(&owner.by(&Target::Name("a".into())).unwrap()).unwrap(),
        [A]
    );
    fs::rename(owner.at("moved/a"), owner.at("disk/data/a")).unwrap();
    owner.link("moved/a", "disk/data/b");
    assert!(owner.by(&Target::Path(owner.at("moved/a"))).is_err());
    assert!(owner.by(&Target::Name("a".into())).is_err());
}

#[test]
fn an_unfinished_table_s_folder_is_no_way_into_another() {
    let owner = world("");
    let write = owner.create("t", "a BIGINT", &[]).unwrap();
    let pin = file(&write, 5);
    drop(write);
    let record = owner.register().by_name("t").unwrap().unwrap();
    // The host puts the other table in its place.
    fs::rename(owner.at("t"), owner.at("was")).unwrap();
    owner.link("t", "disk/data/b");
    assert!(clean::clean_unfinished(&owner.config_dir, &owner.register(), &record).is_err());
    // And without its manifests, so that it looks like leftovers.
    fs::rename(owner.at("disk/data/b/_coffer"), owner.at("hidden")).unwrap();
    clean::clean_unfinished(&owner.config_dir, &owner.register(), &record).unwrap();
    fs::rename(owner.at("hidden"), owner.at("disk/data/b/_coffer")).unwrap();
    assert_eq!(
        values(&owner.by(&Target::Name("b".into())).unwrap()).unwrap(),
        [B]
    );
    assert!(owner.at("was").join(&pin.path).exists());
}

#[test]
fn a_folder_that_is_swapped_while_it_is_written() {
    for links in [false, true] {
        let owner = world("");
        let table = owner.by(&Target::Path(owner.at("data/a"))).unwrap();
        let write = TableWrite::next(
            &owner.config_dir,
            &owner.vault,
            &owner.policy,
            &table,
            Change::Append,
        )
        .unwrap();
        let before = all_files(&owner.at("disk/data/b"));
        if links {
            away(&owner, "disk/data/a");
            owner.link("disk/data/a", "disk/data/b");
        } else {
            swap(&owner, "disk/data/a", "disk/data/b");
        }
        let pin = file(&write, 9);
        assert!(matches!(
            write.has_files(&[(&pin.path, pin.size)]),
            Err(Error::Format(FormatError::FileMissing(_)))
        ));
        let _ = write.abandon();
        if !links {
            swap(&owner, "disk/data/a", "disk/data/b");
        }
        let manifests = |path: &Path| {
            path.parent()
                .is_some_and(|parent| parent.ends_with("_coffer"))
        };
        let of = |files: Vec<PathBuf>| files.into_iter().filter(|path| manifests(path)).count();
        assert_eq!(of(all_files(&owner.at("disk/data/b"))), of(before));
        assert_eq!(
            values(&owner.by(&Target::Name("b".into())).unwrap()).unwrap(),
            [B]
        );
    }
}
