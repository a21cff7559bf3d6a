//! Publishing a version: the one step by which written files come to count.
//!
//! The order makes every interruption harmless: files → record (pending, with the manifest's hash) → manifest, put in
//! place if absent → record (committed). All of it happens under the register's lock, so of two writers that began from the same
//! version one publishes, and the other finds that its parent is no longer the newest. Whoever comes after a process that
//! died in the middle either finds the very manifest that the record expects, and completes the publication, or finds none,
//! and drops what was pending.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{
    Digest, Error, FilePin, MANIFEST_FOLDER, Manifest, StoredColumn, TableWrite, VerifiedManifest, Version, disk,
    manifest_name, register::Locked,
};

/// The steps, for those who stop in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Synced,
    Pending,
    InPlace,
    Committed,
}

/// `placing` says whether the manifest may have come to its place, also when this fails.
pub(crate) fn publish(write: &TableWrite, files: Vec<FilePin>, placing: &mut bool) -> Result<VerifiedManifest, Error> {
    publish_to(write, files, placing, |_| Ok(()))
}

/// The same, after `check` said under the register's lock that the write's new key opens.
pub(crate) fn publish_checked(
    write: &TableWrite,
    files: Vec<FilePin>,
    placing: &mut bool,
    check: impl Fn() -> Result<(), Error>,
) -> Result<VerifiedManifest, Error> {
    publish_to(write, files, placing, |step| match step {
        Step::Pending => check(),
        _ => Ok(()),
    })
}

fn publish_to(
    write: &TableWrite,
    new: Vec<FilePin>,
    placing: &mut bool,
    mut reached: impl FnMut(Step) -> Result<(), Error>,
) -> Result<VerifiedManifest, Error> {
    let folder = write.folder();
    sync(folder, &new)?;
    let manifest = Manifest {
        table: write.table(),
        version: write.version(),
        parent: write.parent.as_ref().and_then(|parent| parent.version.hash),
        columns: write.columns.clone(),
        stored: write.stored.clone(),
        partition_columns: write.partition_columns.clone(),
        last_column_id: write.last_column_id,
        files: write.files(new),
        rekeyed: write.new_key.is_some(),
        retired: write.retired.clone(),
    }
    .check()?;
    check_sums(&manifest)?;
    let master = write.new_key.as_ref().map_or(&write.record.master, |key| &key.master);
    let bytes = manifest.seal(master, &write.key)?;
    let version = Version {
        version: manifest.version,
        hash: Some(Digest::of(&bytes)),
    };
    reached(Step::Synced)?;

    let mut register = write.register.lock()?;
    settle(&mut register, write, folder)?;
    register.change(write.table(), |record| record.pend(version, write.new_key.as_ref()))?;
    reached(Step::Pending)?;
    let manifests = folder.join(MANIFEST_FOLDER);
    fs::create_dir_all(&manifests).map_err(Error::io("create", &manifests))?;
    disk::sync_folder(folder)?;
    let staged = disk::Staged::write(&manifests, &bytes)?;
    *placing = true;
    if !staged.put_if_absent(&manifest_name(manifest.version))? {
        *placing = false;
        return Err(Error::VersionTaken(manifest.version));
    }
    reached(Step::InPlace)?;
    let record = register.change(write.table(), |record| record.settle(true))?;
    reached(Step::Committed)?;
    Ok(VerifiedManifest::new(
        manifest,
        folder.to_owned(),
        record,
        Digest::of(&bytes),
        write.key.clone(),
        write.links.clone(),
    ))
}

/// Of no column whose sums are taken unopened the table has more rows than its sums can hold.
fn check_sums(manifest: &Manifest) -> Result<(), Error> {
    let rows = manifest.rows();
    let over = |stored: &&StoredColumn| stored.rows.is_some_and(|most| rows > most);
    match manifest.stored.iter().find(over) {
        None => Ok(()),
        Some(stored) => Err(Error::SumRows {
            column: manifest
                .columns
                .iter()
                .find(|column| column.id == stored.column)
                .map_or_else(|| stored.name(), |column| column.name.clone()),
            rows,
            most: stored.rows.unwrap_or_default(),
        }),
    }
}

/// Under the lock: what a dead process left pending is completed or dropped; then the parent must be the newest version.
fn settle(register: &mut Locked<'_>, write: &TableWrite, folder: &Path) -> Result<(), Error> {
    register.roll_forward(write.table(), folder)?;
    let committed = register.record(write.table())?.committed;
    let parent = write.parent.as_ref().map(|parent| parent.version);
    if committed == parent {
        return Ok(());
    }
    Err(Error::Conflict {
        table: write.name().to_owned(),
        base: parent.map_or(0, |version| version.version),
        newest: committed.map_or(0, |version| version.version),
    })
}

/// New names must be durable before a manifest names them. (The files themselves are, by their writers.)
fn sync(folder: &Path, files: &[FilePin]) -> Result<(), Error> {
    let mut folders = BTreeSet::from([folder.to_owned()]);
    for file in files {
        let mut at = Path::new(&file.path).parent();
        while let Some(inner) = at {
            folders.insert(folder.join(inner));
            at = inner.parent();
        }
    }
    folders.iter().try_for_each(|folder| disk::sync_folder(folder))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use coffer_keys::{Home, Keyring, Passphrase, Policy, Vault};

    use super::*;
    use crate::{Change, FileReader, NewColumns, SparkType, Target, WriteOptions, clean, open_table, verify};

    struct Owner {
        folder: tempfile::TempDir,
        home: Home,
        vault: Vault,
        policy: Policy,
    }

    impl Owner {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let home = Home::at(folder.path().join("home"));
            home.create().unwrap();
            let vault =
                Vault::from(Keyring::create(&home.keyring(), &Passphrase::new("correct horse").unwrap()).unwrap());
            let policy = Policy::parse("", &home.policy()).unwrap();
            Self {
                folder,
                home,
                vault,
                policy,
            }
        }

        fn begin(&self, parent: Option<&VerifiedManifest>) -> Result<TableWrite, Error> {
            match parent {
                Some(parent) => TableWrite::next(&self.home, &self.vault, &self.policy, parent, Change::Append),
                None => {
                    let new = NewColumns {
                        columns: vec![("a".into(), SparkType::Long, true)],
                        ..NewColumns::default()
                    };
                    let folder = self.folder.path().join("t");
                    TableWrite::create(&self.home, &self.vault, &self.policy, "t", &folder, new)
                }
            }
        }

        fn open(&self) -> Result<VerifiedManifest, Error> {
            open_table(&self.home, &self.vault, &self.policy, &Target::Name("t".into()))
        }
    }

    fn file(write: &TableWrite, value: i64) -> FilePin {
        let writer = write.writer(WriteOptions::default()).unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        let mut file = writer.file().unwrap();
        file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), vec![column]).unwrap())
            .unwrap();
        file.finish().unwrap().pin
    }

    fn values(table: &VerifiedManifest) -> Vec<i64> {
        let rows = |pin| FileReader::open(table, pin).unwrap();
        let batches = table.manifest().files.iter().flat_map(rows);
        batches
            .flat_map(|batch| {
                let batch = batch.unwrap();
                let column = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
                column.values().to_vec()
            })
            .collect()
    }

    /// Dies when the step is reached: nothing behind it happens, and nothing is tidied up.
    fn killed_at(write: TableWrite, files: Vec<FilePin>, at: Step) {
        let mut placing = false;
        let died = publish_to(&write, files, &mut placing, |step| match step == at {
            true => Err(Error::FilePath),
            false => Ok(()),
        });
        assert!(matches!(died, Err(Error::FilePath)));
    }

    #[test]
    fn killed_at_every_step_of_the_second_version() {
        for at in [Step::Synced, Step::Pending, Step::InPlace, Step::Committed] {
            let owner = Owner::new();
            let write = owner.begin(None).unwrap();
            let pin = file(&write, 1);
            let first = write.publish(vec![pin]).unwrap();
            let write = owner.begin(Some(&first)).unwrap();
            let pin = file(&write, 2);
            killed_at(write, vec![pin], at);

            let counts = matches!(at, Step::InPlace | Step::Committed);
            let want = if counts { vec![1, 2] } else { vec![1] };
            for _ in 0..2 {
                let opened = owner.open().unwrap();
                assert_eq!(values(&opened), want, "{at:?}");
                assert_eq!(opened.manifest().version, u64::try_from(want.len()).unwrap());
                assert_eq!(verify::verify(&opened, true, |_| ()).unwrap().is_sound(), counts);
            }
            let removed = clean::clean(&owner.home, &owner.open().unwrap()).unwrap().removed;
            assert_eq!(removed.len(), usize::from(!counts), "{at:?}");
            assert!(verify::verify(&owner.open().unwrap(), true, |_| ()).unwrap().is_sound());
            // Whoever writes next is not hindered.
            let write = owner.begin(Some(&owner.open().unwrap())).unwrap();
            let pin = file(&write, 3);
            assert_eq!(values(&write.publish(vec![pin]).unwrap()), [want, vec![3]].concat());
        }
    }

    #[test]
    fn the_next_writer_settles_what_a_dead_one_left() {
        for (at, conflict) in [(Step::Pending, false), (Step::InPlace, true)] {
            let owner = Owner::new();
            let write = owner.begin(None).unwrap();
            let first = write.publish(Vec::new()).unwrap();
            let (dying, waiting) = (owner.begin(Some(&first)).unwrap(), owner.begin(Some(&first)).unwrap());
            let (pin, other) = (file(&dying, 1), file(&waiting, 2));
            killed_at(dying, vec![pin], at);
            let published = waiting.publish(vec![other]);
            assert_eq!(
                matches!(published, Err(Error::Conflict { base: 1, newest: 2, .. })),
                conflict
            );
            assert_eq!(values(&owner.open().unwrap()), [if conflict { 1 } else { 2 }]);
        }
    }

    #[test]
    fn killed_at_every_step_of_a_new_table() {
        for at in [Step::Synced, Step::Pending, Step::InPlace, Step::Committed] {
            let owner = Owner::new();
            let write = owner.begin(None).unwrap();
            let pin = file(&write, 1);
            let record = write.record.clone();
            killed_at(write, vec![pin], at);
            if matches!(at, Step::InPlace | Step::Committed) {
                assert_eq!(values(&owner.open().unwrap()), [1]);
                continue;
            }
            assert!(matches!(owner.open(), Err(Error::Unfinished(_))));
            assert!(matches!(owner.begin(None), Err(Error::Unfinished(_))));
            let register = crate::Register::of(&owner.home, owner.vault.keyring());
            clean::clean_unfinished(&owner.home, &register, &record).unwrap();
            assert!(!record.path.exists());
            owner.begin(None).unwrap().publish(Vec::new()).unwrap();
        }
    }
}
