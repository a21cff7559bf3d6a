//! Tables on storage that is reached through a port and may answer anything: versions, cleaning,
//! and what a store makes of what it was given.

use crate::owner;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
    path::Path,
    sync::{Arc, Mutex},
};

use arrow::array::*;
use async_trait::async_trait;
use bytes::Bytes;
use coffer_catalog::{
    Change, Error, NewColumns, TableWrite, Target, VerifiedManifest, clean, open_table, verify,
};
use coffer_format::WriteOptions;
use coffer_protocol::storage::{Entry, Storage};
use owner::{Owner, columns, read};

/// Files in memory, and which puts are refused: those of names with this in it.
#[derive(Debug, Default)]
struct Memory {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    parts: Mutex<BTreeMap<String, Vec<u8>>>,
    refused: Mutex<Option<&'static str>>,
    /// Whether the answers to conditional puts are lost: who asks again is told of his own file.
    lost: Mutex<bool>,
}

impl Memory {
    fn check(&self, path: &str) -> io::Result<()> {
        match *self.refused.lock().unwrap() {
            Some(word) if path.contains(word) => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Ok(()),
        }
    }

    fn names(&self) -> Vec<String> {
        self.files.lock().unwrap().keys().cloned().collect()
    }

    fn get(&self, path: &str) -> Option<Vec<u8>> {
        self.files.lock().unwrap().get(path).cloned()
    }

    fn set(&self, path: &str, bytes: Option<Vec<u8>>) {
        let mut files = self.files.lock().unwrap();
        match bytes {
            Some(bytes) => drop(files.insert(path.to_owned(), bytes)),
            None => drop(files.remove(path)),
        }
    }
}

#[async_trait]
impl Storage for Memory {
    async fn size(&self, path: &str) -> io::Result<Option<u64>> {
        Ok(self.get(path).map(|bytes| bytes.len() as u64))
    }

    async fn ranges(&self, path: &str, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        let file = self.get(path).ok_or(io::ErrorKind::NotFound)?;
        let cut = |range: &Range<u64>| {
            let found = file.get(range.start as usize..range.end as usize);
            let found = found.ok_or(io::ErrorKind::UnexpectedEof)?;
            Ok(Bytes::copy_from_slice(found))
        };
        ranges.iter().map(cut).collect()
    }

    async fn put(&self, path: &str, offset: u64, bytes: Bytes, last: bool) -> io::Result<()> {
        self.check(path)?;
        let mut parts = self.parts.lock().unwrap();
        let file = parts.entry(path.to_owned()).or_default();
        assert_eq!(file.len() as u64, offset);
        file.extend_from_slice(&bytes);
        if last && let Some(file) = parts.remove(path) {
            assert!(self.get(path).is_none(), "files are written once");
            self.set(path, Some(file));
        }
        Ok(())
    }

    async fn put_if_absent(&self, path: &str, bytes: Bytes) -> io::Result<bool> {
        self.check(path)?;
        if self.get(path).is_some() {
            return Ok(false);
        }
        self.set(path, Some(bytes.to_vec()));
        Ok(!*self.lost.lock().unwrap())
    }

    async fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let below = format!("{folder}/");
        let names = self.names();
        let inner = names.iter().filter_map(|name| name.strip_prefix(&below));
        let found: BTreeSet<(String, bool)> = inner
            .map(|name| match name.split_once('/') {
                Some((folder, _)) => (folder.to_owned(), true),
                None => (name.to_owned(), false),
            })
            .collect();
        let entry = |(name, folder)| Entry { name, folder };
        Ok(found.into_iter().map(entry).collect())
    }

    async fn delete(&self, path: &str, _: bool) -> io::Result<()> {
        self.parts.lock().unwrap().remove(path);
        self.set(path, None);
        Ok(())
    }
}

const PLACE: &str = "s3a://bucket/data/t";

struct Remote {
    owner: Owner,
    store: Arc<Memory>,
}

impl Remote {
    fn new(policy: &str) -> Self {
        let mut owner = Owner::new(policy);
        let store = Arc::new(Memory::default());
        owner.config_dir = owner
            .config_dir
            .reaching(Arc::clone(&store) as Arc<dyn Storage>);
        Self { owner, store }
    }

    fn create(&self, new: NewColumns) -> Result<TableWrite, Error> {
        let owner = &self.owner;
        // However it is written.
        let folder = Path::new("s3://bucket//data/x/../t/");
        TableWrite::create(
            &owner.config_dir,
            &owner.vault,
            &owner.policy,
            "t",
            folder,
            new,
        )
    }

    fn made(&self) -> VerifiedManifest {
        publish(self.create(columns("a BIGINT", &[])).unwrap(), &[1, 2, 3]).unwrap()
    }

    fn next(&self, parent: &VerifiedManifest, change: Change) -> TableWrite {
        let owner = &self.owner;
        TableWrite::next(
            &owner.config_dir,
            &owner.vault,
            &owner.policy,
            parent,
            change,
        )
        .unwrap()
    }

    fn open(&self, path: &str) -> Result<VerifiedManifest, Error> {
        let owner = &self.owner;
        let target = Target::path(path);
        open_table(&owner.config_dir, &owner.vault, &owner.policy, &target)
    }
}

fn publish(write: TableWrite, values: &[i64]) -> Result<VerifiedManifest, Error> {
    let writer = write.writer(WriteOptions::default())?;
    let mut file = writer.file()?;
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), vec![column]).unwrap())?;
    let pin = file.finish()?.pin;
    write.publish(vec![pin])
}

fn values(table: &VerifiedManifest) -> Result<Vec<i64>, Error> {
    let rows = read(table)?;
    let column = rows.column(0);
    Ok(column
        .as_primitive::<arrow::datatypes::Int64Type>()
        .values()
        .to_vec())
}

#[test]
fn versions_are_written_read_verified_and_cleaned() {
    for policy in ["", "[tables.t.columns]\na = [\"det\", \"ope\"]\n"] {
        let r = Remote::new(policy);
        let first = r.made();
        assert_eq!(first.folder(), Path::new(PLACE));
        let second = publish(r.next(&first, Change::Append), &[4]).unwrap();
        let third = publish(r.next(&second, Change::Overwrite), &[5, 6]).unwrap();
        for path in [PLACE, "s3n://bucket/data/./t", "S3://bucket/data//t/"] {
            assert_eq!(values(&r.open(path).unwrap()).unwrap(), [5, 6], "{path}");
        }
        // Another place is another table, or none.
        for path in [
            "s3a://other/data/t",
            "s3a://bucket/data/T",
            "hdfs://bucket/data/t",
        ] {
            assert!(r.open(path).is_err(), "{path}");
        }
        r.store
            .set(&format!("{PLACE}/stray"), Some(b"theirs".to_vec()));
        let report = verify::verify(&third, true, |_| ()).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert_eq!((report.versions, report.superseded.len()), (3, 2));
        assert_eq!(report.extra, [Path::new("stray")]);
        let cleaned = clean::clean(&r.owner.config_dir, &third).unwrap();
        assert_eq!(cleaned.removed.len(), 2);
        assert_eq!(values(&r.open(PLACE).unwrap()).unwrap(), [5, 6]);
        // Three manifests, one file, and what is not ours.
        assert_eq!(r.store.names().len(), 5);
        assert!(matches!(
            r.create(columns("a BIGINT", &[])),
            Err(Error::NameTaken(_))
        ));
    }
}

#[test]
fn a_store_that_refuses_leaves_the_version_before() {
    let r = Remote::new("");
    let first = r.made();
    let before = r.store.names();
    for word in ["part-", "manifest-"] {
        *r.store.refused.lock().unwrap() = Some(word);
        assert!(publish(r.next(&first, Change::Append), &[4]).is_err());
        *r.store.refused.lock().unwrap() = None;
        assert_eq!(r.store.names(), before, "{word}");
        assert!(r.store.parts.lock().unwrap().is_empty(), "{word}");
    }
    // Somebody else's manifest lies where the next one is to.
    let taken = format!("{PLACE}/_coffer/manifest-0000000002");
    r.store.set(&taken, Some(b"planted".to_vec()));
    assert!(matches!(
        publish(r.next(&first, Change::Append), &[4]),
        Err(Error::VersionTaken(2))
    ));
    r.store.set(&taken, None);
    let second = publish(r.next(&first, Change::Append), &[4]).unwrap();
    assert_eq!(values(&second).unwrap(), [1, 2, 3, 4]);
    // Of two that began from one version, one publishes.
    assert!(matches!(
        publish(r.next(&first, Change::Append), &[5]),
        Err(Error::Conflict { .. })
    ));
}

#[test]
fn a_put_whose_answer_was_lost_is_a_put() {
    let r = Remote::new("");
    *r.store.lost.lock().unwrap() = true;
    let first = r.made();
    let second = publish(r.next(&first, Change::Append), &[4]).unwrap();
    assert_eq!(second.manifest().version, 2);
    assert_eq!(values(&r.open(PLACE).unwrap()).unwrap(), [1, 2, 3, 4]);
}

#[test]
fn whatever_a_store_makes_of_a_table_is_found() {
    let r = Remote::new("");
    let first = r.made();
    let second = publish(r.next(&first, Change::Append), &[4]).unwrap();
    let names = r.store.names();
    let good: BTreeMap<String, Vec<u8>> = r.store.files.lock().unwrap().clone();
    let newest = format!("{PLACE}/_coffer/manifest-0000000002");
    let oldest = format!("{PLACE}/_coffer/manifest-0000000001");
    let mut mutations: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    for name in &names {
        if *name == oldest {
            continue;
        }
        let bytes = &good[name];
        let mut flipped = bytes.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        mutations.extend([
            (name.clone(), None),
            (name.clone(), Some(Vec::new())),
            (name.clone(), Some(bytes[..bytes.len() - 1].to_vec())),
            (name.clone(), Some([bytes, b"x".as_slice()].concat())),
            (name.clone(), Some(flipped)),
        ]);
    }
    mutations.push((newest, Some(good[&oldest].clone())));
    for (name, bytes) in mutations {
        let what = format!("{name} of {:?} bytes", bytes.as_ref().map(Vec::len));
        r.store.set(&name, bytes);
        let rows = r.open(PLACE).and_then(|table| values(&table));
        assert!(rows.is_err(), "{what}");
        r.store.set(&name, Some(good[&name].clone()));
    }
    assert_eq!(values(&r.open(PLACE).unwrap()).unwrap(), [1, 2, 3, 4]);
    assert_eq!(values(&second).unwrap(), [1, 2, 3, 4]);
}

#[test]
fn without_a_way_there_it_is_said() {
    let r = Remote::new("");
    r.made();
    let away = coffer_custody::ConfigDir::at(r.owner.config_dir.path());
    let opened = open_table(&away, &r.owner.vault, &r.owner.policy, &Target::path(PLACE));
    let error = opened.err().unwrap();
    assert!(error.to_string().contains(PLACE), "{error}");
}
